//! Where a query goes on, whatever the run before left.

use crate::support::{Memory, broker, fill, ids, last_line, options, query, run};
use ottla_stream::{StreamingQuery, Trigger};
use std::fs;

#[tokio::test]
async fn a_restart_goes_on_where_the_run_before_was() {
    let broker = broker(2, 10).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    run(query(options(&broker, &[]), checkpoint.path()), &memory).await.unwrap();
    fill(&broker, "t", 0, 3);
    // The start options count for the first start only.
    run(query(options(&broker, &[("startingOffsets", "latest")]), checkpoint.path()), &memory).await.unwrap();
    assert_eq!(memory.batches()[1..], [(1, "t-0: [10, 13)".to_owned())]);
    // Nothing new: no batch.
    run(query(options(&broker, &[]), checkpoint.path()), &memory).await.unwrap();
    assert_eq!(ids(checkpoint.path(), "offsets"), [0, 1]);
}

/// S-S17: the same batch id and the same ranges, however much more there is by then.
#[tokio::test]
async fn s_s17_a_batch_that_failed_is_run_again_as_it_was() {
    let broker = broker(1, 40).await;
    let checkpoint = tempfile::tempdir().unwrap();
    let memory = Memory::failing_at(4, 1);
    let limited = |limit: &'static str| query(options(&broker, &[("maxOffsetsPerTrigger", limit)]), checkpoint.path());
    let error = run(limited("5"), &memory).await.unwrap_err();
    assert_eq!((error.condition(), error.batch_id), ("FOREACH_BATCH_FAILED", Some(4)));
    assert_eq!(ids(checkpoint.path(), "offsets"), [0, 1, 2, 3, 4]);
    assert_eq!(ids(checkpoint.path(), "commits"), [0, 1, 2, 3]);
    fill(&broker, "t", 0, 10);
    run(limited("100"), &memory).await.unwrap();
    let expected = [(4, "t-0: [20, 25)".to_owned()), (4, "t-0: [20, 25)".to_owned()), (5, "t-0: [25, 50)".to_owned())];
    assert_eq!(memory.batches()[4..], expected);
}

/// S-O09: a batch that failed is not passed over.
#[tokio::test]
async fn s_o09_nothing_is_committed_past_a_batch_that_failed() {
    let broker = broker(1, 3).await;
    let checkpoint = tempfile::tempdir().unwrap();
    let memory = Memory::failing_at(1, 1);
    let one = || query(options(&broker, &[("maxOffsetsPerTrigger", "1")]), checkpoint.path()).commit_group("g");
    run(one(), &memory).await.unwrap_err();
    assert_eq!(broker.committed("g", "t", 0).unwrap().offset, 1);
    assert_eq!(memory.batches().len(), 2, "the third was not begun");
    run(one(), &memory).await.unwrap();
    assert_eq!(broker.committed("g", "t", 0).unwrap().offset, 3);
}

#[tokio::test]
async fn a_pending_batch_of_a_once_trigger_is_the_only_one() {
    let broker = broker(1, 5).await;
    let checkpoint = tempfile::tempdir().unwrap();
    let memory = Memory::failing_at(0, 1);
    let once = || memory.start(query(options(&broker, &[]), checkpoint.path()).trigger(Trigger::Once)).unwrap();
    once().await_termination().await.unwrap_err();
    fill(&broker, "t", 0, 5);
    once().await_termination().await.unwrap();
    assert_eq!(memory.batches(), [(0, "t-0: [0, 5)".to_owned()), (0, "t-0: [0, 5)".to_owned())]);
}

/// S-S07: a hole in the log is not guessed over.
#[tokio::test]
async fn s_s07_a_missing_batch_is_an_error_that_says_what_to_do() {
    let broker = broker(1, 1).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let path = checkpoint.path();
    run(query(options(&broker, &[]), path), &memory).await.unwrap();
    for folder in ["offsets", "commits"] {
        fs::rename(path.join(folder).join("0"), path.join(folder).join("7")).unwrap();
    }
    fs::copy(path.join("offsets/7"), path.join("offsets/9")).unwrap();
    let error = run(query(options(&broker, &[]), path), &memory).await.unwrap_err();
    let text = ottla_client::report(&error);
    assert!(text.contains("batch 8 doesn't exist") && text.contains("7, 9"), "{text}");
}

/// S-S08: what is no batch is no batch.
#[tokio::test]
async fn s_s08_other_files_are_not_batches() {
    let broker = broker(1, 5).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let path = checkpoint.path();
    run(query(options(&broker, &[]), path), &memory).await.unwrap();
    for name in [".1.tmp", "1.tmp", ".1.crc", "0~"] {
        fs::write(path.join("offsets").join(name), "half").unwrap();
    }
    fs::create_dir(path.join("offsets/2")).unwrap();
    fill(&broker, "t", 0, 1);
    run(query(options(&broker, &[]), path), &memory).await.unwrap();
    assert_eq!(memory.batches()[1..], [(1, "t-0: [5, 6)".to_owned())]);
}

/// S-S09 and S-S10: sources are told apart by what they are, also when one of them has nothing.
#[tokio::test]
async fn s_s09_two_sources_one_of_them_idle() {
    let broker = broker(1, 3).await;
    broker.create_topic("u", 1, &[]).unwrap();
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let union = || {
        let sources = [
            options(&broker, &[("subscribe", "t"), ("kafka.consumer.commit.groupid", "g1")]),
            options(&broker, &[("subscribe", "u"), ("kafka.consumer.commit.groupid", "g2")]),
        ];
        StreamingQuery::builder(sources).checkpoint(checkpoint.path().to_str().unwrap())
    };
    run(union(), &memory).await.unwrap();
    fill(&broker, "t", 0, 2);
    run(union(), &memory).await.unwrap();
    fill(&broker, "u", 0, 4);
    run(union(), &memory).await.unwrap();
    let expected = [(0, "t-0: [0, 3)"), (1, "t-0: [3, 5)"), (2, "u-0: [0, 4)")];
    assert_eq!(memory.batches(), expected.map(|(id, ranges)| (id, ranges.to_owned())));
    let offset = |group, topic| broker.committed(group, topic, 0).map(|committed| committed.offset);
    assert_eq!((offset("g1", "t"), offset("g1", "u")), (Some(5), None));
    assert_eq!((offset("g2", "t"), offset("g2", "u")), (None, Some(4)));
    let text = fs::read_to_string(checkpoint.path().join("offsets/2")).unwrap();
    assert_eq!(text.lines().skip(2).collect::<Vec<_>>(), [r#"{"t":{"0":5}}"#, r#"{"u":{"0":4}}"#]);
}

/// S-S11: the group shows what the checkpoint has; what it lacks it gets at the next start.
#[tokio::test]
async fn a_group_that_is_behind_is_brought_up_at_the_start() {
    let broker = broker(2, 5).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    run(query(options(&broker, &[]), checkpoint.path()), &memory).await.unwrap();
    assert!(broker.committed("g", "t", 0).is_none());
    let done = run(query(options(&broker, &[]), checkpoint.path()).commit_group("g"), &memory).await.unwrap();
    for partition in 0..2 {
        let committed = broker.committed("g", "t", partition).unwrap();
        assert_eq!(committed.offset, 5);
        let metadata = committed.metadata;
        assert!(metadata.starts_with(&format!("ottla/1 batch=0 query={} topic_id=", done.id())), "{metadata}");
    }
}

#[tokio::test]
async fn two_runs_on_one_checkpoint_are_refused() {
    let broker = broker(1, 1).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let first = memory.start(query(options(&broker, &[]), checkpoint.path())).unwrap();
    let error = memory.start(query(options(&broker, &[]), checkpoint.path())).unwrap_err();
    assert_eq!(error.condition(), "CHECKPOINT_LOCKED", "{error}");
    first.stop().await.unwrap();
    run(query(options(&broker, &[]), checkpoint.path()), &memory).await.unwrap();
}

#[tokio::test]
async fn a_query_stopped_in_a_batch_finishes_it() {
    let broker = broker(1, 5).await;
    let checkpoint = tempfile::tempdir().unwrap();
    let (begun, mut has_begun) = tokio::sync::mpsc::channel(1);
    let slow = query(options(&broker, &[]), checkpoint.path()).commit_group("g").foreach_batch(move |_, _| {
        let begun = begun.clone();
        async move {
            begun.send(()).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            Ok(())
        }
    });
    let running = slow.start().unwrap();
    has_begun.recv().await.unwrap();
    // S-S12: what was done is committed before the query ends.
    running.stop().await.unwrap();
    assert_eq!(ids(checkpoint.path(), "commits"), [0]);
    assert_eq!(broker.committed("g", "t", 0).unwrap().offset, 5);
    assert_eq!(last_line(checkpoint.path(), "commits/0"), r#"{"nextBatchWatermarkMs":0}"#);
}

#[tokio::test]
async fn a_query_that_must_stop_gives_its_batch_up() {
    let broker = broker(1, 5).await;
    let checkpoint = tempfile::tempdir().unwrap();
    let (begun, mut has_begun) = tokio::sync::mpsc::channel(1);
    let endless = query(options(&broker, &[]), checkpoint.path())
        .stop_timeout(std::time::Duration::from_millis(100))
        .foreach_batch(move |_, _| {
            let begun = begun.clone();
            async move {
                begun.send(()).await.unwrap();
                std::future::pending().await
            }
        });
    let running = endless.start().unwrap();
    has_begun.recv().await.unwrap();
    running.stop().await.unwrap();
    assert_eq!((ids(checkpoint.path(), "offsets"), ids(checkpoint.path(), "commits")), (vec![0], vec![]));
    let memory = Memory::default();
    run(query(options(&broker, &[]), checkpoint.path()), &memory).await.unwrap();
    assert_eq!(memory.batches(), [(0, "t-0: [0, 5)".to_owned())]);
}

//! Which batches a query makes of what is there.

use crate::support::{Memory, answer_latest, broker, fill, ids, last_line, options, query, run};
use ottla_stream::{StreamingQuery, Trigger};
use std::time::Duration;

#[tokio::test]
async fn everything_there_is_read_in_batches_of_the_limit() {
    let broker = broker(2, 0).await;
    fill(&broker, "t", 0, 60);
    fill(&broker, "t", 1, 30);
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let limited = options(&broker, &[("maxOffsetsPerTrigger", "30")]);
    let done = run(query(limited, checkpoint.path()), &memory).await.unwrap();
    let expected = ["t-0: [0, 20) t-1: [0, 10)", "t-0: [20, 40) t-1: [10, 20)", "t-0: [40, 60) t-1: [20, 30)"];
    assert_eq!(memory.batches(), (0..).zip(expected.map(str::to_owned)).collect::<Vec<_>>());
    assert_eq!(memory.counts().len(), 90);
    assert!(memory.counts().values().all(|count| *count == 1));
    assert_eq!(ids(checkpoint.path(), "offsets"), [0, 1, 2]);
    assert_eq!(ids(checkpoint.path(), "commits"), [0, 1, 2]);
    assert_eq!(last_line(checkpoint.path(), "offsets/1"), r#"{"t":{"0":40,"1":20}}"#);
    assert_eq!(last_line(checkpoint.path(), "sources/0/0"), r#"{"t":{"0":0,"1":0}}"#);
    let progress = done.recent_progress();
    assert_eq!(progress.iter().map(|progress| progress.num_input_rows()).collect::<Vec<_>>(), [30, 30, 30]);
}

#[tokio::test]
async fn once_takes_all_in_one_batch() {
    let broker = broker(1, 25).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let once = query(options(&broker, &[("maxOffsetsPerTrigger", "10")]), checkpoint.path()).trigger(Trigger::Once);
    memory.start(once).unwrap().await_termination().await.unwrap();
    assert_eq!(memory.batches(), [(0, "t-0: [0, 25)".to_owned())]);
}

#[tokio::test]
async fn a_running_query_reads_what_comes_and_finds_new_partitions() {
    let broker = broker(1, 3).await;
    broker.create_topic("u", 1, &[]).unwrap();
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let pattern = options(&broker, &[("subscribePattern", "^[tuv]$"), ("startingOffsets", "latest")]);
    let running = memory.start(query(pattern, checkpoint.path())).unwrap();
    running.process_all_available().await.unwrap();
    assert_eq!(memory.counts().len(), 0, "it starts at the end");
    fill(&broker, "t", 0, 2);
    running.process_all_available().await.unwrap();
    // S-O16: what appears later is read from its beginning, however the query started.
    broker.create_topic("v", 1, &[]).unwrap();
    fill(&broker, "v", 0, 10);
    running.process_all_available().await.unwrap();
    running.stop().await.unwrap();
    let seen: Vec<(String, i64)> = memory.counts().into_keys().collect();
    let expected = [("t-0", 3..5), ("v-0", 0..10)];
    let expected =
        expected.into_iter().flat_map(|(partition, offsets)| offsets.map(move |offset| (partition.to_owned(), offset)));
    assert_eq!(seen, expected.collect::<Vec<_>>());
}

/// S-O14: the end is a number from the first look on.
#[tokio::test]
async fn s_o14_latest_is_resolved_once() {
    let broker = broker(1, 5).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let latest = || query(options(&broker, &[("startingOffsets", "latest")]), checkpoint.path());
    run(latest(), &memory).await.unwrap();
    fill(&broker, "t", 0, 1);
    run(latest(), &memory).await.unwrap();
    assert_eq!(memory.counts().into_keys().collect::<Vec<_>>(), [("t-0".to_owned(), 5)]);
}

#[tokio::test]
async fn a_pattern_without_a_topic_makes_no_batch_and_reads_from_the_beginning_later() {
    let broker = broker(1, 1).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let pattern =
        || query(options(&broker, &[("subscribePattern", "^x"), ("startingOffsets", "latest")]), checkpoint.path());
    run(pattern(), &memory).await.unwrap();
    assert_eq!((memory.batches(), ids(checkpoint.path(), "offsets")), (vec![], vec![]));
    assert_eq!(last_line(checkpoint.path(), "sources/0/0"), "{}");
    broker.create_topic("x1", 1, &[]).unwrap();
    fill(&broker, "x1", 0, 2);
    run(pattern(), &memory).await.unwrap();
    assert_eq!(memory.batches(), [(0, "x1-0: [0, 2)".to_owned())]);
}

/// S-S03: what comes while it runs is for the next run.
#[tokio::test]
async fn s_s03_available_now_reads_its_snapshot_only() {
    let broker = broker(3, 25).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let limited = query(options(&broker, &[("maxOffsetsPerTrigger", "10")]), checkpoint.path());
    let producer = async {
        for _ in 0..20 {
            fill(&broker, "t", 1, 3);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // The snapshot is taken before the first batch.
    let running = memory.start(limited.trigger(Trigger::AvailableNow)).unwrap();
    while memory.seen().is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let (ended, ()) = tokio::join!(running.await_termination(), producer);
    ended.unwrap();
    assert_eq!(memory.counts().len(), 75);
    assert!(memory.counts().values().all(|count| *count == 1));
}

#[tokio::test]
async fn s_s03_a_topic_that_changes_under_available_now_is_an_error() {
    for recreate in [false, true] {
        let broker = broker(1, 25).await;
        let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
        let options = options(
            &broker,
            &[("subscribePattern", "^t$"), ("maxOffsetsPerTrigger", "5"), ("failOnDataLoss", "false")],
        );
        let (function_broker, function_memory) = (std::sync::Arc::new(broker), memory.clone());
        let broker = function_broker.clone();
        let running = StreamingQuery::builder([options])
            .checkpoint(checkpoint.path().to_str().unwrap())
            .trigger(Trigger::AvailableNow)
            .listener(function_memory)
            .foreach_batch(move |_, batch_id| {
                if batch_id == 1 {
                    broker.delete_topic("t").unwrap();
                    if recreate {
                        broker.create_topic("t", 1, &[]).unwrap();
                        fill(&broker, "t", 0, 100);
                    }
                }
                async { Ok(()) }
            })
            .start()
            .unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(20), running.await_termination()).await.unwrap();
        let error = ended.unwrap_err();
        assert_eq!(error.condition(), "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW", "{error:?}");
    }
}

/// S-O17: a filter sees records, and nothing of what is committed.
#[tokio::test]
async fn s_o17_a_filter_changes_nothing_that_is_committed() {
    let broker = broker(3, 100).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let filter: ottla_stream::Filter = "value = 't-0-7'".parse().unwrap();
    run(query(options(&broker, &[]), checkpoint.path()).filter(filter).commit_group("g"), &memory).await.unwrap();
    assert_eq!(memory.counts().into_keys().collect::<Vec<_>>(), [("t-0".to_owned(), 7)]);
    for partition in 0..3 {
        assert_eq!(broker.committed("g", "t", partition).unwrap().offset, 100);
    }
    assert_eq!(last_line(checkpoint.path(), "offsets/0"), r#"{"t":{"0":100,"1":100,"2":100}}"#);
}

#[tokio::test]
async fn ranges_are_split_as_the_options_ask() {
    let broker = broker(1, 10).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    run(query(options(&broker, &[("minPartitions", "3")]), checkpoint.path()), &memory).await.unwrap();
    assert_eq!(memory.batches(), [(0, "t-0: [0, 3) t-0: [3, 6) t-0: [6, 10)".to_owned())]);
    // Whoever reads them one after the other has a partition's records in order.
    assert_eq!(memory.seen()[0].records["t-0"], (0..10).collect::<Vec<_>>());
}

/// S-O15: an end below what was processed comes from a broker that is behind.
#[tokio::test]
async fn s_o15_a_stale_end_is_asked_again() {
    let broker = broker(1, 100).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    run(query(options(&broker, &[]), checkpoint.path()), &memory).await.unwrap();
    fill(&broker, "t", 0, 10);
    answer_latest(&broker, &[90]);
    run(query(options(&broker, &[]), checkpoint.path()), &memory).await.unwrap();
    assert_eq!(memory.batches()[1..], [(1, "t-0: [100, 110)".to_owned())]);
    assert_eq!(memory.counts().len(), 110);
}

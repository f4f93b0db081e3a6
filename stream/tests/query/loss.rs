//! Records that are gone: told exactly, and `failOnDataLoss` decides.

use crate::support::{Memory, broker, fill, ids, last_line, options, query, run};
use ottla_stream::StreamingQuery;
use std::time::Duration;

fn report(error: &ottla_stream::QueryError) -> String {
    ottla_client::report(error)
}

/// S-S15, second half.
#[tokio::test]
async fn what_was_deleted_is_an_error_or_passed_over() {
    let broker = broker(1, 10).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let with = |fail| query(options(&broker, &[("failOnDataLoss", fail)]), checkpoint.path()).commit_group("g");
    run(with("true"), &memory).await.unwrap();
    fill(&broker, "t", 0, 90);
    broker.delete_records("t", 0, 60).unwrap();
    let error = run(with("true"), &memory).await.unwrap_err();
    assert_eq!(error.condition(), "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE");
    assert!(
        report(&error).contains("t-0: [10, 60) is gone, 50 offsets; the log holds [60, 100)"),
        "{}",
        report(&error)
    );
    assert_eq!(broker.committed("g", "t", 0).unwrap().offset, 10, "nothing of the batch is committed");
    let done = run(with("false"), &memory).await.unwrap();
    assert_eq!(memory.seen()[1].records["t-0"], (60..100).collect::<Vec<i64>>());
    assert!(memory.warnings().iter().any(|warning| warning.contains("t-0: [10, 60) is gone, 50 offsets")));
    let progress = done.last_progress().unwrap();
    assert_eq!(progress.sources[0].lost.len(), 1);
    assert_eq!(progress.sources[0].lost[0].range.size(), 50);
    assert_eq!(broker.committed("g", "t", 0).unwrap().offset, 100);
}

/// S-S04: a topic that was created again, with fewer and with more records than the checkpoint.
#[tokio::test]
async fn s_s04_a_topic_created_again_is_another_one() {
    for records in [300, 500, 700] {
        let broker = broker(1, 500).await;
        let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
        let with = |fail| query(options(&broker, &[("failOnDataLoss", fail)]), checkpoint.path()).commit_group("g");
        run(with("true"), &memory).await.unwrap();
        broker.delete_topic("t").unwrap();
        broker.create_topic("t", 1, &[]).unwrap();
        fill(&broker, "t", 0, records);
        let error = run(with("true"), &memory).await.unwrap_err();
        assert_eq!(error.condition(), "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED");
        let expected = match records {
            300 => "Partition t-0 offset was changed from 500 to 300.",
            _ => "The topic of partition t-0 was deleted and created again after offset 500.",
        };
        assert!(report(&error).contains(expected), "{}", report(&error));
        assert_eq!(ids(checkpoint.path(), "offsets"), [0], "nothing changed on disk");
        run(with("false"), &memory).await.unwrap();
        assert_eq!(memory.batches()[1..], [(1, format!("t-0: [0, {records})"))]);
        assert_eq!(memory.warnings().iter().filter(|warning| warning.contains("created again")).count(), 1);
        assert_eq!(broker.committed("g", "t", 0).unwrap().offset, i64::try_from(records).unwrap());
        // It goes on from there.
        fill(&broker, "t", 0, 1);
        run(with("true"), &memory).await.unwrap();
        assert_eq!(memory.batches().len(), 3);
    }
}

/// S-S04, in the middle of a batch that is run again: its range is of the old topic, and the new one is read from its beginning.
#[tokio::test]
async fn a_topic_created_again_between_two_attempts_at_a_batch() {
    let broker = broker(1, 10).await;
    let checkpoint = tempfile::tempdir().unwrap();
    let memory = Memory::failing_at(1, 1);
    let with =
        |fail| query(options(&broker, &[("failOnDataLoss", fail), ("maxOffsetsPerTrigger", "5")]), checkpoint.path());
    run(with("true"), &memory).await.unwrap_err();
    broker.delete_topic("t").unwrap();
    broker.create_topic("t", 1, &[]).unwrap();
    fill(&broker, "t", 0, 20);
    let error = run(with("true"), &memory).await.unwrap_err();
    assert_eq!(error.condition(), "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED", "{}", report(&error));
    let before = memory.seen().len();
    run(with("false"), &memory).await.unwrap();
    let rows: Vec<i64> =
        memory.seen()[before..].iter().flat_map(|seen| seen.records.values().flatten().copied()).collect();
    assert_eq!(rows, (0..20).collect::<Vec<i64>>());
}

/// S-S16: a topic goes, and comes back.
#[tokio::test]
async fn s_s16_a_topic_that_is_deleted_and_comes_back() {
    let broker = broker(1, 3).await;
    broker.create_topic("u", 1, &[]).unwrap();
    fill(&broker, "u", 0, 6);
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let with =
        |fail| query(options(&broker, &[("subscribePattern", "^[tu]$"), ("failOnDataLoss", fail)]), checkpoint.path());
    run(with("true"), &memory).await.unwrap();
    broker.delete_topic("u").unwrap();
    fill(&broker, "t", 0, 2);
    let error = run(with("true"), &memory).await.unwrap_err();
    assert_eq!(error.condition(), "KAFKA_DATA_LOSS.PARTITIONS_DELETED");
    assert!(report(&error).contains("Partitions Set(u-0) have been deleted."), "{}", report(&error));
    run(with("false"), &memory).await.unwrap();
    assert_eq!(memory.batches()[1..], [(1, "t-0: [3, 5)".to_owned())]);
    assert_eq!(last_line(checkpoint.path(), "offsets/1"), r#"{"t":{"0":5}}"#);
    broker.create_topic("u", 1, &[]).unwrap();
    fill(&broker, "u", 0, 5);
    run(with("true"), &memory).await.unwrap();
    assert_eq!(memory.batches()[2..], [(2, "u-0: [0, 5)".to_owned())]);
}

/// S-S14: an empty log that starts above 0.
#[tokio::test]
async fn s_s14_an_empty_log_that_starts_above_zero() {
    let broker = broker(1, 100).await;
    broker.delete_records("t", 0, 100).unwrap();
    let memory = Memory::default();
    let from = |offsets: &'static str, fail: &'static str, checkpoint: &tempfile::TempDir| {
        let options = options(&broker, &[("startingOffsets", offsets), ("failOnDataLoss", fail)]);
        query(options, checkpoint.path()).commit_group("g")
    };
    let checkpoint = tempfile::tempdir().unwrap();
    run(from("earliest", "true", &checkpoint), &memory).await.unwrap();
    assert_eq!(broker.committed("g", "t", 0).unwrap().offset, 100);
    let checkpoint = tempfile::tempdir().unwrap();
    let error = run(from(r#"{"t":{"0":0}}"#, "true", &checkpoint), &memory).await.unwrap_err();
    assert_eq!(error.condition(), "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE");
    run(from(r#"{"t":{"0":0}}"#, "false", &checkpoint), &memory).await.unwrap();
    assert_eq!(last_line(checkpoint.path(), "offsets/0"), r#"{"t":{"0":100}}"#);
    assert!(memory.counts().is_empty());
}

/// Without our own file Spark's rule holds, and it is told once.
#[tokio::test]
async fn without_topic_ids_a_larger_topic_is_not_noticed() {
    let broker = broker(1, 5).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    run(query(options(&broker, &[]), checkpoint.path()), &memory).await.unwrap();
    std::fs::remove_dir_all(checkpoint.path().join("ottla")).unwrap();
    broker.delete_topic("t").unwrap();
    broker.create_topic("t", 1, &[]).unwrap();
    fill(&broker, "t", 0, 9);
    run(query(options(&broker, &[]), checkpoint.path()), &memory).await.unwrap();
    assert_eq!(memory.batches()[1..], [(1, "t-0: [5, 9)".to_owned())]);
    let told = memory.warnings().iter().filter(|warning| warning.contains("no topic ids are known")).count();
    assert_eq!(told, 1, "{:?}", memory.warnings());
}

/// A batch of the other source must not note the old position of the one that waits for more under the new topic's id, or forget the id.
#[tokio::test]
async fn a_source_that_waits_for_more_notices_later_that_its_topic_was_created_again() {
    for batch_in_between in [false, true] {
        let (waiting, busy) = (broker(1, 40).await, broker(1, 5).await);
        let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
        let waits = [
            ("minOffsetsPerTrigger", "1000"),
            ("maxTriggerDelay", "2s"),
            ("failOnDataLoss", "false"),
            ("subscribePattern", "^t$"),
        ];
        let sources = [options(&waiting, &waits), options(&busy, &[])];
        let union = StreamingQuery::builder(sources).checkpoint(checkpoint.path().to_str().unwrap());
        let running = memory.start(union).unwrap();
        running.process_all_available().await.unwrap();
        waiting.delete_topic("t").unwrap();
        if batch_in_between {
            fill(&busy, "t", 0, 1);
            running.process_all_available().await.unwrap();
        }
        waiting.create_topic("t", 1, &[]).unwrap();
        fill(&waiting, "t", 0, 50);
        fill(&busy, "t", 0, 1);
        running.process_all_available().await.unwrap();
        fill(&waiting, "t", 0, 5);
        let all = 40 + 55 + usize::try_from(busy.end_offset("t", 0).unwrap()).unwrap();
        let read = || memory.seen().iter().flat_map(|seen| seen.records.values()).map(Vec::len).sum::<usize>();
        let arrives = async {
            while read() < all {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let arrived = tokio::time::timeout(Duration::from_secs(10), arrives).await;
        assert!(arrived.is_ok(), "{batch_in_between}: {:?} {:?}", memory.batches(), memory.warnings());
        running.stop().await.unwrap();
        assert_eq!(read(), all);
        assert!(memory.batches().iter().any(|(_, ranges)| ranges == "t-0: [0, 55)"), "{:?}", memory.batches());
        let told = memory.warnings();
        assert!(told.iter().any(|warning| warning.contains("deleted and created again")), "{told:?}");
    }
}

#[tokio::test]
async fn a_loss_is_told_of_the_source_that_has_it() {
    let (one, other) = (broker(1, 10).await, broker(1, 10).await);
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let union = || {
        let sources = [&one, &other].map(|broker| options(broker, &[("failOnDataLoss", "false")]));
        StreamingQuery::builder(sources).checkpoint(checkpoint.path().to_str().unwrap())
    };
    run(union(), &memory).await.unwrap();
    [&one, &other].iter().for_each(|broker| fill(broker, "t", 0, 10));
    other.delete_records("t", 0, 15).unwrap();
    let done = run(union(), &memory).await.unwrap();
    let progress = done.last_progress().unwrap();
    let lost: Vec<Vec<String>> =
        progress.sources.iter().map(|source| source.lost.iter().map(ToString::to_string).collect()).collect();
    assert_eq!(lost, [vec![], vec!["t-0: [10, 15) is gone, 5 offsets; the log holds [15, 20)".to_owned()]]);
}

/// S-S16: a topic that goes while its batch is read is lost, not a broker that refuses.
#[tokio::test]
async fn a_topic_deleted_while_its_batch_is_read_is_loss() {
    for fail in ["true", "false"] {
        let broker = std::sync::Arc::new(broker(1, 3).await);
        broker.create_topic("u", 1, &[]).unwrap();
        fill(&broker, "u", 0, 6);
        let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
        let pattern = options(&broker, &[("subscribePattern", "^[tu]$"), ("failOnDataLoss", fail)]);
        let (function_broker, function_memory) = (broker.clone(), memory.clone());
        let once = query(pattern, checkpoint.path())
            .trigger(ottla_stream::Trigger::Once)
            .listener(memory.clone())
            .foreach_batch(move |batch, batch_id| {
                // It is there when it is planned, and not when it is read.
                let _ = function_broker.delete_topic("u");
                let memory = function_memory.clone();
                async move { memory.take(batch, batch_id).await }
            });
        match (fail, once.start().unwrap().await_termination().await) {
            ("true", Err(error)) => {
                assert_eq!(error.condition(), "KAFKA_DATA_LOSS.PARTITIONS_DELETED", "{}", report(&error));
                assert!(
                    report(&error).contains("u-0: [0, 6) is gone, 6 offsets; so is the partition"),
                    "{}",
                    report(&error)
                );
            }
            ("false", Ok(())) => {
                assert_eq!(memory.seen()[0].records.keys().collect::<Vec<_>>(), ["t-0"]);
                assert!(memory.warnings().iter().any(|warning| warning.contains("u-0: [0, 6) is gone")));
                assert_eq!(ids(checkpoint.path(), "commits"), [0]);
            }
            (_, ended) => panic!("failOnDataLoss={fail}: {ended:?}"),
        }
    }
}

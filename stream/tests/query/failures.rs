//! What a query does when its function, its options or its brokers fail it.

use crate::support::{Memory, broker, fill, ids, options, query, run};
use ottla_embedded::{Action, messages::ApiKey};
use ottla_stream::{
    Error, FileSink, NullSink, QueryListener, QueryProgress, RetryPolicy, StreamOptions, StreamingQuery, Trigger,
};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

#[tokio::test]
async fn a_panic_is_the_failure_of_its_batch() {
    let broker = broker(1, 5).await;
    let checkpoint = tempfile::tempdir().unwrap();
    let panicking = query(options(&broker, &[]), checkpoint.path())
        .trigger(Trigger::AvailableNow)
        .foreach_batch(|_, batch_id| async move { panic!("cannot bear batch {batch_id}") });
    let error = panicking.start().unwrap().await_termination().await.unwrap_err();
    assert_eq!((error.condition(), error.batch_id), ("FOREACH_BATCH_PANICKED", Some(0)));
    assert!(ottla_client::report(&error).contains("cannot bear batch 0"), "{}", ottla_client::report(&error));
    assert_eq!((ids(checkpoint.path(), "offsets"), ids(checkpoint.path(), "commits")), (vec![0], vec![]));
}

/// Says nothing, for ever.
struct Panicking;

impl QueryListener for Panicking {
    fn progress(&self, _progress: &QueryProgress) {
        panic!("cannot bear progress");
    }
}

#[tokio::test]
async fn a_listener_that_panics_ends_the_query_with_an_error() {
    let broker = broker(1, 5).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let error = run(query(options(&broker, &[]), checkpoint.path()).listener(Panicking), &memory).await.unwrap_err();
    assert!(ottla_client::report(&error).contains("cannot bear progress"), "{}", ottla_client::report(&error));
    assert_eq!(ids(checkpoint.path(), "commits"), [0], "what was done is done");
}

#[tokio::test]
async fn files_need_batches_that_are_run_again_as_they_were() {
    let broker = broker(1, 5).await;
    let (directory, checkpoint) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let sink = || FileSink::new(directory.path()).unwrap();
    let alone = StreamingQuery::builder([options(&broker, &[])]).commit_group("g").sink(sink(), "file:x");
    let error = alone.start().unwrap_err().to_string();
    assert!(error.starts_with("file:x keeps each record once") && error.contains("without a checkpoint"), "{error}");
    let continuous =
        query(options(&broker, &[]), checkpoint.path()).trigger(Trigger::Continuous(Duration::from_secs(1)));
    assert!(continuous.sink(sink(), "file:x").start().unwrap_err().to_string().contains("in continuous mode"));
    let batches = query(options(&broker, &[]), checkpoint.path()).trigger(Trigger::AvailableNow);
    batches.sink(sink(), "file:x").start().unwrap().await_termination().await.unwrap();
    let text = std::fs::read_to_string(directory.path().join("batch-00000000000000000000.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 5);
}

#[tokio::test]
async fn a_batch_is_tried_as_often_as_the_policy_says() {
    let broker = broker(1, 5).await;
    for (failures, attempts, ends_well) in [(2, 3, true), (2, 2, false)] {
        let checkpoint = tempfile::tempdir().unwrap();
        let memory = Memory::failing_at(0, failures);
        let retry = RetryPolicy::new(attempts, Duration::from_millis(10));
        let ended = run(query(options(&broker, &[]), checkpoint.path()).retry(retry), &memory).await;
        assert_eq!(ended.is_ok(), ends_well);
        assert_eq!(memory.batches().len(), if ends_well { 3 } else { 2 });
        assert_eq!(ids(checkpoint.path(), "commits").len(), usize::from(ends_well));
        let told = memory.warnings().iter().filter(|warning| warning.contains("is run again")).count();
        assert_eq!(told, memory.batches().len() - 1);
    }
}

/// S-C03: silence is no answer.
#[tokio::test]
async fn s_c03_a_topic_that_does_not_exist_is_named() {
    let broker = broker(1, 5).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let missing = options(&broker, &[("subscribe", "t,missing"), ("fetchOffset.numRetries", "1")]);
    let error = run(query(missing, checkpoint.path()), &memory).await.unwrap_err();
    assert_eq!(error.condition(), "UNKNOWN_TOPIC_OR_PARTITION");
    assert!(ottla_client::report(&error).contains("'missing'"), "{}", ottla_client::report(&error));
}

#[tokio::test]
async fn an_assigned_partition_that_does_not_exist_is_named() {
    let broker = broker(1, 5).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let missing = options(&broker, &[("assign", r#"{"t":[0,3]}"#), ("fetchOffset.numRetries", "1")]);
    let error = run(query(missing, checkpoint.path()), &memory).await.unwrap_err();
    assert!(ottla_client::report(&error).contains("t-3"), "{}", ottla_client::report(&error));
}

/// S-C02: a map that does not fit the partitions there are.
#[tokio::test]
async fn s_c02_offsets_of_some_partitions_only() {
    let broker = broker(2, 5).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    for offsets in [r#"{"t":{"0":4}}"#, r#"{"t":{"0":4,"1":3,"9":0}}"#] {
        let wrong = options(&broker, &[("startingOffsets", offsets), ("fetchOffset.numRetries", "1")]);
        let error = run(query(wrong, checkpoint.path()), &memory).await.unwrap_err();
        let text = ottla_client::report(&error);
        assert!(
            text.contains("you must specify all TopicPartitions") && text.contains("Assigned: Set(t-0, t-1)"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_query_that_remembers_nothing_is_refused() {
    let broker = broker(1, 1).await;
    let memory = Memory::default();
    let error = memory.start(StreamingQuery::builder([options(&broker, &[])])).unwrap_err();
    assert!(error.to_string().contains("set checkpointLocation"), "{error}");
    let error = memory.start(StreamingQuery::builder([])).unwrap_err();
    assert_eq!(error.to_string(), "a query needs a source");
}

#[tokio::test]
async fn what_is_said_twice_must_be_the_same() {
    let broker = broker(1, 1).await;
    let options = options(&broker, &[("checkpointLocation", "/somewhere")]);
    let error = Memory::default().start(StreamingQuery::builder([options]).checkpoint("/elsewhere")).unwrap_err();
    assert!(matches!(error, Error::Option(_)));
    assert_eq!(error.to_string(), "option 'checkpointLocation' is both '/elsewhere' and '/somewhere': a query has one");
}

#[tokio::test]
async fn two_sources_must_not_share_a_group_and_partitions() {
    let broker = broker(2, 5).await;
    let memory = Memory::default();
    for (second, is_fine) in [(r#"{"t":[1]}"#, true), (r#"{"t":[0,1]}"#, false)] {
        let checkpoint = tempfile::tempdir().unwrap();
        let sources = [options(&broker, &[("assign", r#"{"t":[0]}"#)]), options(&broker, &[("assign", second)])];
        let union = StreamingQuery::builder(sources).checkpoint(checkpoint.path().to_str().unwrap()).commit_group("g");
        match run(union, &memory).await {
            Ok(_) => assert!(is_fine),
            Err(error) => {
                assert!(!is_fine);
                assert_eq!(error.condition(), "SOURCES_SHARE_PARTITIONS");
                assert!(ids(checkpoint.path(), "offsets").is_empty(), "nothing was begun");
            }
        }
    }
}

/// S-C07 and S-C01: options of streams.
#[test]
fn s_c07_rates_that_contradict_each_other() {
    let stream = |pairs: &[(&str, &str)]| {
        let base = [("kafka.bootstrap.servers", "h:1"), ("subscribe", "t")];
        StreamOptions::stream_from_pairs(base.iter().chain(pairs).copied()).map_err(|error| error.to_string())
    };
    let refused = |pairs: &[(&str, &str)], text: &str| {
        let error = stream(pairs).unwrap_err();
        assert!(error.contains(text), "{pairs:?}: {error}");
    };
    refused(
        &[("minOffsetsPerTrigger", "100"), ("MaxOffsetsPerTrigger", "10")],
        "The value of minOffsetPerTrigger(100) is higher than the maxOffsetsPerTrigger(10).",
    );
    refused(&[("maxTriggerDelay", "15x")], "'15x'");
    refused(&[("maxOffsetsPerTrigger", "0")], "maxOffsetsPerTrigger must be positive, got 0");
    refused(&[("maxOffsetsPerTrigger", "abc")], "For input string: \"abc\"");
    refused(&[("endingOffsets", "latest")], "ending offset not valid in streaming queries");
    refused(&[("endingTimestamp", "5")], "ending timestamp not valid in streaming queries");
    refused(&[("startingOffsets", "first")], "got first");
    let options = stream(&[("minOffsetsPerTrigger", "5")]).unwrap();
    assert_eq!(options.max_trigger_delay, Duration::from_secs(900));
    assert_eq!(options.starting, ottla_stream::OffsetRangeLimit::Latest);
}

#[tokio::test]
async fn a_dropped_handle_ends_the_query() {
    let broker = broker(1, 1).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let running = memory.start(query(options(&broker, &[]), checkpoint.path())).unwrap();
    running.process_all_available().await.unwrap();
    drop(running);
    // The lock is free when the task is gone.
    let again = async {
        loop {
            match memory.start(query(options(&broker, &[]), checkpoint.path())) {
                Ok(running) => return running,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), again).await.unwrap().stop().await.unwrap();
}

/// The runtime is stopped as a whole, as SIGSTOP does it: longer than a call may take.
#[tokio::test]
async fn a_process_that_was_stopped_for_a_while_goes_on() {
    let broker = broker(1, 3).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let short = options(&broker, &[("kafka.default.api.timeout.ms", "300"), ("kafka.request.timeout.ms", "300")]);
    let running = memory.start(query(short, checkpoint.path())).unwrap();
    running.process_all_available().await.unwrap();
    let sleeps = AtomicBool::new(true);
    broker.on(ApiKey::Metadata, move |_| {
        if sleeps.swap(false, Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1500));
            return Action::Delay(Duration::from_millis(50));
        }
        Action::Pass
    });
    tokio::time::sleep(Duration::from_millis(1700)).await;
    fill(&broker, "t", 0, 2);
    running.process_all_available().await.unwrap();
    assert_eq!(memory.counts().len(), 5);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn times_without_an_end_are_no_panic() {
    let broker = broker(1, 3).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let running = memory.start(query(options(&broker, &[]), checkpoint.path()).stop_timeout(Duration::MAX)).unwrap();
    running.process_all_available().await.unwrap();
    running.stop().await.unwrap();
    let endless = Trigger::Continuous(Duration::MAX);
    let running =
        query(options(&broker, &[]), checkpoint.path()).trigger(endless).sink(NullSink, "null:").start().unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    running.stop().await.unwrap();
}

//! Continuous mode: records as they arrive, written down once an interval.

use crate::support::{Memory, broker, fill, ids, last_line, options, query};
use ottla_embedded::{Action, messages::ApiKey};
use ottla_protocol::record::Record;
use ottla_stream::{OffsetRange, QueryBuilder, RecordWriter, Sink, SinkError, StreamingQuery, Trigger};
use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// Remembers what arrived, and which epochs were finished.
#[derive(Clone, Debug, Default)]
struct Arrivals {
    rows: Arc<Mutex<Vec<(String, i64)>>>,
    epochs: Arc<Mutex<Vec<i64>>>,
}

struct Writer(String, Arrivals);

impl Sink for Arrivals {
    type Writer = Writer;

    fn writer(&self, range: &OffsetRange, _include_headers: bool) -> Result<Writer, SinkError> {
        Ok(Writer(format!("{}-{}", range.topic, range.partition), self.clone()))
    }

    async fn finish_batch(&self, batch_id: i64) -> Result<(), SinkError> {
        self.epochs.lock().unwrap().push(batch_id);
        Ok(())
    }
}

impl RecordWriter for Writer {
    fn write(&mut self, record: &Record<'_>) {
        self.1.rows.lock().unwrap().push((self.0.clone(), record.offset));
    }

    async fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn finish(self) -> Result<(), SinkError> {
        Ok(())
    }
}

impl Arrivals {
    fn count(&self) -> usize {
        self.rows.lock().unwrap().len()
    }

    async fn await_count(&self, count: usize) {
        let arrived = async {
            while self.count() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), arrived).await.expect("records don't arrive");
    }
}

fn continuous(query: QueryBuilder, interval: Duration, arrivals: &Arrivals) -> StreamingQuery {
    let query = query.trigger(Trigger::Continuous(interval)).commit_group("g").sink(arrivals.clone(), "memory");
    query.start().unwrap()
}

fn next_epoch(checkpoint: &Path) -> i64 {
    ids(checkpoint, "commits").last().map_or(0, |epoch| epoch + 1)
}

/// Where the last epoch that was finished ends.
fn newest_offsets(checkpoint: &Path) -> Option<String> {
    Some(last_line(checkpoint, &format!("offsets/{}", ids(checkpoint, "commits").last()?)))
}

#[tokio::test]
async fn records_arrive_within_an_epoch_and_a_restart_goes_on_after_the_last_one() {
    let broker = broker(2, 10).await;
    let (checkpoint, arrivals) = (tempfile::tempdir().unwrap(), Arrivals::default());
    let epoch = Duration::from_secs(3);
    let running = continuous(query(options(&broker, &[]), checkpoint.path()), epoch, &arrivals);
    arrivals.await_count(20).await;
    assert_eq!(next_epoch(checkpoint.path()), 0, "they arrive before the epoch is over");
    let sent = Instant::now();
    fill(&broker, "t", 0, 1);
    arrivals.await_count(21).await;
    assert!(sent.elapsed() < Duration::from_secs(1), "{:?}", sent.elapsed());
    // What was handed on is written down before the query ends.
    running.stop().await.unwrap();
    assert_eq!(newest_offsets(checkpoint.path()).as_deref(), Some(r#"{"t":{"0":11,"1":10}}"#));
    assert_eq!(broker.committed("g", "t", 0).unwrap().offset, 11);
    fill(&broker, "t", 1, 2);
    let running = continuous(query(options(&broker, &[]), checkpoint.path()), epoch, &arrivals);
    arrivals.await_count(23).await;
    running.stop().await.unwrap();
    let mut rows = arrivals.rows.lock().unwrap().clone();
    rows.sort();
    let expected = [("t-0", 0..11), ("t-1", 0..12)];
    let expected =
        expected.into_iter().flat_map(|(name, offsets)| offsets.map(move |offset| (name.to_owned(), offset)));
    assert_eq!(rows, expected.collect::<Vec<_>>());
    let text = std::fs::read_to_string(checkpoint.path().join("offsets/0")).unwrap();
    assert!(text.lines().nth(1).unwrap().contains("spark.sql.shuffle.partitions"), "{text}");
}

#[tokio::test]
async fn each_epoch_writes_its_files_and_finds_new_partitions() {
    let broker = broker(1, 1).await;
    let (checkpoint, arrivals) = (tempfile::tempdir().unwrap(), Arrivals::default());
    let pattern = options(&broker, &[("subscribePattern", "^[tu]$"), ("startingOffsets", "latest")]);
    let running = continuous(query(pattern, checkpoint.path()), Duration::from_millis(200), &arrivals);
    while next_epoch(checkpoint.path()) < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(arrivals.count(), 0);
    broker.create_topic("u", 1, &[]).unwrap();
    fill(&broker, "u", 0, 3);
    arrivals.await_count(3).await;
    running.process_all_available().await.unwrap();
    running.stop().await.unwrap();
    let epochs = ids(checkpoint.path(), "offsets");
    assert_eq!(epochs, (0..).take(epochs.len()).collect::<Vec<i64>>(), "every epoch, data or not");
    assert_eq!(ids(checkpoint.path(), "commits"), epochs);
    assert_eq!(*arrivals.epochs.lock().unwrap(), epochs);
    assert_eq!(last_line(checkpoint.path(), &format!("offsets/{}", epochs.len() - 1)), r#"{"t":{"0":1},"u":{"0":3}}"#);
}

/// The look at the begin of an epoch takes longer than the epoch.
#[tokio::test]
async fn an_epoch_that_is_over_at_once_takes_what_is_at_hand() {
    let broker = broker(2, 5).await;
    broker.on(ApiKey::Metadata, |_| Action::Delay(Duration::from_millis(20)));
    let (checkpoint, arrivals) = (tempfile::tempdir().unwrap(), Arrivals::default());
    let running = continuous(query(options(&broker, &[]), checkpoint.path()), Duration::from_millis(1), &arrivals);
    let all = tokio::time::timeout(Duration::from_secs(20), arrivals.await_count(10)).await;
    assert!(all.is_ok(), "{} of 10 after {} epochs", arrivals.count(), next_epoch(checkpoint.path()));
    running.stop().await.unwrap();
}

/// A range without an end has no end that it could be at because nothing of it is kept.
#[tokio::test]
async fn what_is_committed_does_not_depend_on_the_filter() {
    for filter in ["partition = 0", "offset >= 100", "offset < 3", "topic = 'u'", "timestamp >= 5000", "value IS NULL"]
    {
        let broker = broker(2, 5).await;
        let (checkpoint, arrivals) = (tempfile::tempdir().unwrap(), Arrivals::default());
        let filtered = query(options(&broker, &[]), checkpoint.path()).filter(filter.parse().unwrap());
        let running = continuous(filtered, Duration::from_millis(50), &arrivals);
        let all = r#"{"t":{"0":6,"1":5}}"#;
        fill(&broker, "t", 0, 1);
        let done = async {
            while newest_offsets(checkpoint.path()).as_deref() != Some(all) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), done).await.unwrap_or_else(|_| panic!("{filter}"));
        running.stop().await.unwrap();
        assert_eq!(broker.committed("g", "t", 1).unwrap().offset, 5, "{filter}");
    }
}

/// The read is told of it in the middle of an epoch, of which nobody knows how far it would have gone.
#[tokio::test]
async fn a_topic_that_is_created_again_in_an_epoch_goes_on_at_its_start() {
    let broker = broker(1, 5).await;
    let (checkpoint, arrivals) = (tempfile::tempdir().unwrap(), Arrivals::default());
    let lenient = options(&broker, &[("failOnDataLoss", "false")]);
    let running = continuous(query(lenient, checkpoint.path()), Duration::from_secs(2), &arrivals);
    arrivals.await_count(5).await;
    broker.delete_topic("t").unwrap();
    broker.create_topic("t", 1, &[]).unwrap();
    fill(&broker, "t", 0, 3);
    arrivals.await_count(8).await;
    running.process_all_available().await.unwrap();
    running.stop().await.unwrap();
    let ends: Vec<String> = ids(checkpoint.path(), "offsets")
        .iter()
        .map(|id| last_line(checkpoint.path(), &format!("offsets/{id}")))
        .collect();
    let (before, after) = (r#"{"t":{"0":5}}"#, r#"{"t":{"0":3}}"#);
    assert_eq!((ends.first().map(String::as_str), ends.last().map(String::as_str)), (Some(before), Some(after)));
    assert!(ends.iter().all(|end| end == before || end == after), "{ends:?}");
    assert_eq!(broker.committed("g", "t", 0).unwrap().offset, 3);
}

/// As after an unclean election: what is there now begins before what was read ends.
#[tokio::test]
async fn a_log_that_is_cut_in_an_epoch_goes_on_at_its_new_end() {
    let broker = broker(1, 5).await;
    let (checkpoint, arrivals) = (tempfile::tempdir().unwrap(), Arrivals::default());
    let lenient = options(&broker, &[("failOnDataLoss", "false")]);
    let running = continuous(query(lenient, checkpoint.path()), Duration::from_secs(2), &arrivals);
    arrivals.await_count(5).await;
    broker.truncate("t", 0, 2).unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    fill(&broker, "t", 0, 1);
    arrivals.await_count(6).await;
    running.stop().await.unwrap();
    assert_eq!(newest_offsets(checkpoint.path()).as_deref(), Some(r#"{"t":{"0":3}}"#));
}

#[tokio::test]
async fn a_deleted_topic_is_loss_and_batches_need_another_trigger() {
    let broker = broker(1, 1).await;
    let (checkpoint, arrivals) = (tempfile::tempdir().unwrap(), Arrivals::default());
    let pattern = options(&broker, &[("subscribePattern", "^[tu]$")]);
    broker.create_topic("u", 1, &[]).unwrap();
    let running = continuous(query(pattern, checkpoint.path()), Duration::from_millis(100), &arrivals);
    arrivals.await_count(1).await;
    broker.delete_topic("u").unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(20), running.await_termination()).await.unwrap();
    let error = ended.unwrap_err();
    assert_eq!(error.condition(), "KAFKA_DATA_LOSS.PARTITIONS_DELETED", "{}", ottla_client::report(&error));
    let interval = Duration::from_secs(1);
    let batches = query(options(&broker, &[]), checkpoint.path()).trigger(Trigger::Continuous(interval));
    assert!(Memory::default().start(batches).unwrap_err().to_string().contains("has no batches"));
}

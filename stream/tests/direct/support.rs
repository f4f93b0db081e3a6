//! A topic, a stream with short intervals, and what its batches hold.

use crate::common::batch;
use bytes::Bytes;
use ottla_embedded::EmbeddedBroker;
use ottla_stream::{DirectBatch, DirectStream, DirectStreamBuilder, ProcessedRanges, StreamOptions};
use std::time::Duration;

/// The shortest there is.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

/// A batch of one record at this offset, which is its value.
pub(crate) fn record(offset: i64) -> Bytes {
    batch(offset, [offset.to_string()])
}

/// Appends `records` records to a partition, each its own batch.
pub(crate) fn fill(broker: &EmbeddedBroker, topic: &str, partition: i32, records: usize) {
    for _ in 0..records {
        broker.append(topic, partition, record(broker.end_offset(topic, partition).unwrap())).unwrap();
    }
}

/// A broker with topic `t` of so many records in each partition; without one if there are none.
pub(crate) async fn broker(sizes: &[usize]) -> EmbeddedBroker {
    let broker = EmbeddedBroker::start().await.unwrap();
    if !sizes.is_empty() {
        broker.create_topic("t", i32::try_from(sizes.len()).unwrap(), &[]).unwrap();
    }
    for (partition, size) in (0..).zip(sizes) {
        fill(&broker, "t", partition, *size);
    }
    broker
}

/// Options of a stream over topic `t` that begins at its begin and commits to group `g`, unless `more` says otherwise.
pub(crate) fn options(broker: &EmbeddedBroker, more: &[(&str, &str)]) -> StreamOptions {
    let servers = broker.bootstrap_servers();
    let mut pairs = vec![
        ("kafka.bootstrap.servers", servers.as_str()),
        ("kafka.retry.backoff.ms", "20"),
        ("kafka.retry.backoff.max.ms", "100"),
        ("kafka.default.api.timeout.ms", "3000"),
        ("fetchOffset.retryIntervalMs", "20"),
        ("startingOffsets", "earliest"),
        ("kafka.consumer.commit.groupid", "g"),
    ];
    if !more.iter().any(|(name, _)| *name == "subscribePattern") {
        pairs.push(("subscribe", "t"));
    }
    pairs.extend_from_slice(more);
    StreamOptions::stream_from_pairs(pairs).unwrap()
}

pub(crate) fn stream(broker: &EmbeddedBroker, more: &[(&str, &str)]) -> DirectStreamBuilder {
    DirectStream::builder(options(broker, more)).batch_interval(INTERVAL).commit_timeout(Duration::from_secs(3))
}

/// The next batch, in time.
pub(crate) async fn next(stream: &mut DirectStream) -> DirectBatch {
    let batch = tokio::time::timeout(Duration::from_secs(20), stream.next()).await.expect("no batch comes");
    batch.unwrap().expect("the stream goes on")
}

/// `[from, until)` of each partition.
pub(crate) fn ranges(batch: &DirectBatch) -> Vec<(i64, i64)> {
    batch.offset_ranges().iter().map(|range| (range.from_offset, range.until_offset)).collect()
}

/// Reads the batch, and returns how many records it had.
pub(crate) async fn process(batch: DirectBatch) -> (ProcessedRanges, usize) {
    let mut count = 0;
    batch
        .for_each(|record| {
            assert_eq!(record.value, Some(record.offset.to_string().as_bytes()));
            count += 1;
        })
        .await
        .unwrap();
    (batch.processed(), count)
}

/// What group `g` has committed of a partition.
pub(crate) fn committed(broker: &EmbeddedBroker, partition: i32) -> Option<i64> {
    broker.committed("g", "t", partition).map(|committed| committed.offset)
}

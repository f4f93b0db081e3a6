//! Which ranges a batch has, and that each is read as it is, whoever else reads.

use std::sync::{Arc, Mutex};

use ottla_stream::{OffsetRange, Record, RecordWriter, Sink, SinkError};
use support::{Codec, KafkaCluster, Produce, kafka_or_skip};

use super::{Memory, committed, options, query, ranges_of, records_of};
use crate::common::{block_on, offsets_json};

#[test]
fn s_s02_small_partitions_are_not_starved() {
    let Some(kafka) = kafka_or_skip("S-S02: shares of a rate limit") else { return };
    let topic = kafka.create_topic("s02", 3, &[]);
    for (partition, count) in [(0, 101), (1, 11), (2, 1)] {
        let record = |i: i32| support::ProducerRecord::value(i.to_string()).to(partition);
        kafka.produce(&Produce::records(&topic, (0..count).map(record)));
    }
    let checkpoint = tempfile::tempdir().expect("a folder");
    let limited = options(kafka, &topic, &[("maxOffsetsPerTrigger", "10")]);
    let memory = Memory::default();
    block_on(memory.run(query(limited, checkpoint.path()).commit_group("s02"))).expect("it ends");
    let seen = memory.seen();
    assert_eq!(seen[0].ranges, [(0, 0, 8), (1, 0, 1), (2, 0, 1)]);
    // Of 93, 10 and 0 that are left.
    assert_eq!(seen[1].ranges, [(0, 8, 17), (1, 1, 2)]);
    let all: Vec<(i32, i64)> =
        [(0, 101), (1, 11), (2, 1)].into_iter().flat_map(|(p, count)| (0..count).map(move |o| (p, o))).collect();
    assert_eq!((memory.records(), committed(kafka, "s02")), (all, vec![101, 11, 1]));
}

#[test]
fn s_s13_two_queries_and_their_tasks_share_a_partition() {
    let Some(kafka) = kafka_or_skip("S-S13: ranges of one partition read at once") else { return };
    let topic = kafka.create_topic("s13", 1, &[]);
    // Record batches across the seam at 50.
    kafka.produce(&Produce::generated(&topic, 100).flush_every(7).codec(Codec::Lz4));
    block_on(async {
        tokio::join!(read_often(kafka, &topic, 0), read_often(kafka, &topic, 50));
    });
}

/// Reads `[from, from + 50)` a hundred times in tasks that share a client, one of them cancelled midway.
async fn read_often(kafka: &KafkaCluster, topic: &str, from: i64) {
    let start = offsets_json(topic, &[(0, from)]);
    // A record batch an answer, and pieces of 20.
    let pairs = [
        ("startingOffsets", start.as_str()),
        ("maxOffsetsPerTrigger", "50"),
        ("maxRecordsPerPartition", "20"),
        ("kafka.fetch.max.bytes", "1"),
    ];
    let checkpoint = tempfile::tempdir().expect("a folder");
    let once = query(options(kafka, topic, &pairs), checkpoint.path()).trigger(ottla_stream::Trigger::AvailableNow);
    let running = once.foreach_batch(move |batch, batch_id| async move {
        if batch_id > 0 {
            return Ok(());
        }
        assert!(ranges_of(&batch).len() > 2, "{:?}", ranges_of(&batch));
        let expected: Vec<(i32, i64)> = (from..from + 50).map(|offset| (0, offset)).collect();
        for round in 0..50 {
            let mut cancelled = batch.read();
            for _ in 0..round % 5 {
                cancelled.next().await?;
            }
            let read = |batch: ottla_stream::MicroBatch| tokio::spawn(async move { records_of(&batch).await });
            let tasks = [read(batch.clone()), read(batch.clone())];
            drop(cancelled);
            for task in tasks {
                assert_eq!(task.await??, expected, "in order, whatever the pieces");
            }
            let sink = Offsets::default();
            batch.write_to(&sink).await?;
            let mut written = std::mem::take(&mut *sink.0.lock().expect("no panic"));
            written.sort_unstable();
            assert!(written.into_iter().eq(from..from + 50));
        }
        Ok(())
    });
    running.start().expect("it starts").await_termination().await.expect("each task read its own");
}

/// Takes the offsets of records.
#[derive(Clone, Default)]
struct Offsets(Arc<Mutex<Vec<i64>>>);

impl Sink for Offsets {
    type Writer = Self;

    fn writer(&self, _range: &OffsetRange, _include_headers: bool) -> Result<Self, SinkError> {
        Ok(self.clone())
    }

    async fn finish_batch(&self, _batch_id: i64) -> Result<(), SinkError> {
        Ok(())
    }
}

impl RecordWriter for Offsets {
    fn write(&mut self, record: &Record<'_>) {
        self.0.lock().expect("no panic").push(record.offset);
    }

    async fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn finish(self) -> Result<(), SinkError> {
        Ok(())
    }
}

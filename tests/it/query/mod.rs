//! Queries on a real broker: reported faults of batch streams, seen with Kafka's own tools. S-S17 is in `crash`.

mod commits;
mod continuous;
mod loss;
mod ranges;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use ottla_stream::{
    BoxError, MicroBatch, QueryBuilder, QueryError, QueryListener, StreamOptions, StreamingQuery, Trigger,
};
use support::KafkaCluster;

/// Options of a stream that reads `topic` from its beginning, unless they say otherwise.
pub(crate) fn options(kafka: &KafkaCluster, topic: &str, more: &[(&str, &str)]) -> StreamOptions {
    let mut pairs = BTreeMap::from([
        ("kafka.bootstrap.servers", kafka.bootstrap_servers()),
        ("subscribe", topic),
        ("startingOffsets", "earliest"),
    ]);
    pairs.extend(more.iter().copied());
    StreamOptions::stream_from_pairs(pairs).expect("options")
}

/// A query with a checkpoint.
pub(crate) fn query(options: StreamOptions, checkpoint: &Path) -> QueryBuilder {
    StreamingQuery::builder([options]).checkpoint(checkpoint.to_str().expect("UTF-8"))
}

/// A group's committed offsets of one topic, partition by partition.
fn committed(kafka: &KafkaCluster, group: &str) -> Vec<i64> {
    kafka.group_offsets(group).iter().map(|offset| offset.offset).collect()
}

/// A batch as the function saw it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) batch_id: i64,
    /// Partition, inclusive start, exclusive end.
    pub(crate) ranges: Vec<(i32, i64, i64)>,
    /// Partition and offset.
    pub(crate) records: Vec<(i32, i64)>,
}

/// Remembers batches and warnings.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    seen: Arc<Mutex<Vec<Seen>>>,
    warnings: Arc<Mutex<Vec<String>>>,
    /// A batch that fails after it was read.
    fails: Option<i64>,
}

impl QueryListener for Memory {
    fn warning(&self, warning: &str) {
        self.warnings.lock().expect("no panic").push(warning.to_owned());
    }
}

impl Memory {
    pub(crate) fn failing_at(batch_id: i64) -> Self {
        Self { fails: Some(batch_id), ..Self::default() }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic").clone()
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().expect("no panic").clone()
    }

    /// Partition and offset of all records of all batches, sorted.
    pub(crate) fn records(&self) -> Vec<(i32, i64)> {
        let mut records: Vec<(i32, i64)> = self.seen().into_iter().flat_map(|seen| seen.records).collect();
        records.sort_unstable();
        records
    }

    pub(crate) fn start(&self, query: QueryBuilder) -> StreamingQuery {
        let memory = self.clone();
        let function = move |batch: MicroBatch, batch_id| {
            let memory = memory.clone();
            async move {
                let seen = Seen { batch_id, ranges: ranges_of(&batch), records: records_of(&batch).await? };
                memory.seen.lock().expect("no panic").push(seen);
                if memory.fails == Some(batch_id) { Err(BoxError::from("as the test wants it")) } else { Ok(()) }
            }
        };
        query.listener(self.clone()).foreach_batch(function).start().expect("the query starts")
    }

    /// Runs a query over everything that is there, to its end.
    pub(crate) async fn run(&self, query: QueryBuilder) -> Result<(), QueryError> {
        self.start(query.trigger(Trigger::AvailableNow)).await_termination().await
    }
}

fn ranges_of(batch: &MicroBatch) -> Vec<(i32, i64, i64)> {
    batch.offset_ranges().iter().map(|range| (range.partition, range.from_offset, range.until_offset)).collect()
}

/// Partition and offset of each record, in the order of reading.
async fn records_of(batch: &MicroBatch) -> ottla_stream::Result<Vec<(i32, i64)>> {
    let mut records = Vec::new();
    let mut reader = batch.read();
    while let Some(mut batch) = reader.next().await? {
        let partition = batch.range().partition;
        batch.for_each(|record| records.push((partition, record.offset)))?;
    }
    Ok(records)
}

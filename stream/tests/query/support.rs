//! A topic, a query that remembers what it was given, and a checkpoint that goes away with the test.

use crate::common::batch;
use bytes::{Bytes, BytesMut};
use ottla_embedded::{Action, EmbeddedBroker, Request, messages::ApiKey};
use ottla_protocol::{decode_response, encode_response, message::ListOffsetsRequest};
use ottla_stream::{
    BoxError, MicroBatch, QueryBuilder, QueryError, QueryListener, StreamOptions, StreamingQuery, Trigger,
};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
};

/// Appends `records` records, each its own batch, with the value `topic-partition-offset`.
pub(crate) fn fill(broker: &EmbeddedBroker, topic: &str, partition: i32, records: usize) {
    for _ in 0..records {
        let offset = broker.end_offset(topic, partition).unwrap();
        broker.append(topic, partition, batch(0, [format!("{topic}-{partition}-{offset}")])).unwrap();
    }
}

/// A broker with topic `t`.
pub(crate) async fn broker(partitions: i32, records: usize) -> EmbeddedBroker {
    let broker = EmbeddedBroker::start().await.unwrap();
    broker.create_topic("t", partitions, &[]).unwrap();
    for partition in 0..partitions {
        fill(&broker, "t", partition, records);
    }
    broker
}

/// Options of a stream over topic `t` from the beginning, unless `more` says otherwise. A name given twice counts as given last.
pub(crate) fn options(broker: &EmbeddedBroker, more: &[(&str, &str)]) -> StreamOptions {
    let servers = broker.bootstrap_servers();
    let mut pairs = vec![
        ("kafka.bootstrap.servers", servers.as_str()),
        ("kafka.retry.backoff.ms", "20"),
        ("kafka.retry.backoff.max.ms", "200"),
        ("kafka.default.api.timeout.ms", "3000"),
        ("fetchOffset.retryIntervalMs", "50"),
        ("startingOffsets", "earliest"),
    ];
    if !more.iter().any(|(name, _)| matches!(*name, "assign" | "subscribePattern")) {
        pairs.push(("subscribe", "t"));
    }
    pairs.extend_from_slice(more);
    StreamOptions::stream_from_pairs(pairs).unwrap()
}

/// A batch as the function saw it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) batch_id: i64,
    /// `t-0: [0, 5)`
    pub(crate) ranges: Vec<String>,
    /// The offsets of the records, by `topic-partition`.
    pub(crate) records: BTreeMap<String, Vec<i64>>,
}

/// Remembers batches and warnings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    seen: Arc<Mutex<Vec<Seen>>>,
    warnings: Arc<Mutex<Vec<String>>>,
    /// Batches that fail after they were read, and how often each does.
    pub(crate) failures: Arc<Mutex<BTreeMap<i64, usize>>>,
}

impl QueryListener for Memory {
    fn warning(&self, warning: &str) {
        self.warnings.lock().unwrap().push(warning.to_owned());
    }
}

impl Memory {
    pub(crate) fn failing_at(batch_id: i64, times: usize) -> Self {
        let memory = Self::default();
        memory.failures.lock().unwrap().insert(batch_id, times);
        memory
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap().clone()
    }

    /// The ids and ranges of the batches seen.
    pub(crate) fn batches(&self) -> Vec<(i64, String)> {
        self.seen().into_iter().map(|seen| (seen.batch_id, seen.ranges.join(" "))).collect()
    }

    /// How often each record was seen.
    pub(crate) fn counts(&self) -> BTreeMap<(String, i64), usize> {
        let mut counts = BTreeMap::new();
        for (partition, offsets) in self.seen().into_iter().flat_map(|seen| seen.records) {
            for offset in offsets {
                *counts.entry((partition.clone(), offset)).or_default() += 1;
            }
        }
        counts
    }

    pub(crate) async fn take(&self, batch: MicroBatch, batch_id: i64) -> Result<(), BoxError> {
        let mut records: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        batch
            .for_each(|record| {
                let value = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
                let (partition, offset) = value.rsplit_once('-').unwrap();
                assert_eq!(offset, record.offset.to_string());
                records.entry(partition.to_owned()).or_default().push(record.offset);
            })
            .await?;
        let ranges = batch.offset_ranges().iter().map(ToString::to_string).collect();
        self.seen.lock().unwrap().push(Seen { batch_id, ranges, records });
        let mut failures = self.failures.lock().unwrap();
        match failures.get_mut(&batch_id) {
            Some(left) if *left > 0 => {
                *left -= 1;
                Err(format!("injected failure in batch {batch_id}").into())
            }
            _ => Ok(()),
        }
    }

    /// Starts the query.
    pub(crate) fn start(&self, query: QueryBuilder) -> ottla_stream::Result<StreamingQuery> {
        let memory = self.clone();
        let function = move |batch, batch_id| {
            let memory = memory.clone();
            async move { memory.take(batch, batch_id).await }
        };
        query.listener(self.clone()).foreach_batch(function).start()
    }
}

/// Runs a query over everything that is there, to its end.
pub(crate) async fn run(query: QueryBuilder, memory: &Memory) -> Result<StreamingQuery, QueryError> {
    let query = memory.start(query.trigger(Trigger::AvailableNow)).expect("the query starts");
    query.await_termination().await.map(|()| query)
}

/// A query of these options with a checkpoint.
pub(crate) fn query(options: StreamOptions, checkpoint: &Path) -> QueryBuilder {
    StreamingQuery::builder([options]).checkpoint(checkpoint.to_str().expect("UTF-8"))
}

/// The names in a folder of the checkpoint, as numbers.
pub(crate) fn ids(checkpoint: &Path, folder: &str) -> Vec<i64> {
    let Ok(entries) = std::fs::read_dir(checkpoint.join(folder)) else { return Vec::new() };
    let mut ids: Vec<i64> =
        entries.filter_map(|entry| entry.unwrap().file_name().to_str().and_then(|name| name.parse().ok())).collect();
    ids.sort_unstable();
    ids
}

/// What a file of the checkpoint says in its last line.
pub(crate) fn last_line(checkpoint: &Path, file: &str) -> String {
    let text = std::fs::read_to_string(checkpoint.join(file)).unwrap();
    text.lines().last().unwrap_or_default().to_owned()
}

/// The first look-ups of log ends get these answers, whatever the log holds.
pub(crate) fn answer_latest(broker: &EmbeddedBroker, ends: &[i64]) {
    let ends = Mutex::new(ends.to_vec());
    broker.on(ApiKey::ListOffsets, move |context| {
        let Request::ListOffsets(request) = context.request else { return Action::Pass };
        let mut partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
        let mut ends = ends.lock().unwrap();
        if ends.is_empty() || !partitions.any(|partition| partition.timestamp == -1) {
            return Action::Pass;
        }
        let (version, end) = (context.api_version, ends.remove(0));
        Action::Edit(Arc::new(move |frame: Bytes| {
            let (id, mut response) = decode_response::<ListOffsetsRequest>(version, &frame.slice(4..)).unwrap();
            for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
                partition.offset = end;
            }
            let mut out = BytesMut::new();
            encode_response::<ListOffsetsRequest>(version, id, &response, &mut out).unwrap();
            out.freeze()
        }))
    });
}

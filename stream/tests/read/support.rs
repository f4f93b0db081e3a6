//! Topics whose records say where they belong, and a sink that remembers what it got.

use crate::common;
use bytes::{Bytes, BytesMut};
use ottla_embedded::{Action, EmbeddedBroker, Request};
use ottla_protocol::{
    decode_response, encode_response,
    message::{FetchRequest, FetchResponse},
    record::Record,
};
use ottla_stream::{
    Client, Filter, OffsetRange, ProcessedBatch, ReadProgress, ReadSettings, RecordWriter, Result, Sink, SinkError,
    StreamOptions,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

/// A batch as a producer sends it; the broker gives it its offsets.
pub(crate) fn batch(broker: &EmbeddedBroker, topic: &str, partition: i32, records: i64) -> Bytes {
    let first = broker.end_offset(topic, partition).unwrap();
    common::batch(0, (first..first + records).map(|offset| format!("{topic}-{partition}-{offset}")))
}

/// Appends batches of ten.
pub(crate) fn fill(broker: &EmbeddedBroker, topic: &str, partition: i32, records: i64) {
    for _ in 0..records / 10 {
        broker.append(topic, partition, batch(broker, topic, partition, 10)).unwrap();
    }
}

/// A topic `t` with `records` records in each partition, ten a batch.
pub(crate) fn topic(broker: &EmbeddedBroker, partitions: i32, records: i64) {
    broker.create_topic("t", partitions, &[]).unwrap();
    for partition in 0..partitions {
        fill(broker, "t", partition, records);
    }
}

/// Options for topic `t`, with small answers, so that a read takes several requests.
pub(crate) fn options(broker: &EmbeddedBroker, more: &[(&str, &str)]) -> StreamOptions {
    let servers = broker.bootstrap_servers();
    let mut pairs = vec![
        ("kafka.bootstrap.servers", servers.as_str()),
        ("kafka.fetch.max.bytes", "1000"),
        ("kafka.max.partition.fetch.bytes", "1000"),
        ("kafka.retry.backoff.ms", "20"),
        ("kafka.retry.backoff.max.ms", "200"),
        ("kafka.fetch.max.wait.ms", "100"),
    ];
    if !more.iter().any(|(name, _)| *name == "assign") {
        pairs.push(("subscribe", "t"));
    }
    pairs.extend_from_slice(more);
    StreamOptions::from_pairs(pairs).unwrap()
}

type Rows = BTreeMap<i32, Vec<i64>>;

/// Remembers the offsets of each partition, and whether the batch was finished.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    rows: Arc<Mutex<Rows>>,
    finished: Arc<Mutex<bool>>,
    /// Records after which the output fails.
    fails_after: Option<usize>,
}

impl Memory {
    pub(crate) fn failing_after(records: usize) -> Self {
        Self { fails_after: Some(records), ..Self::default() }
    }

    pub(crate) fn rows(&self) -> Rows {
        self.rows.lock().unwrap().clone()
    }

    pub(crate) fn is_finished(&self) -> bool {
        *self.finished.lock().unwrap()
    }
}

pub(crate) struct MemoryWriter(OffsetRange, Memory);

impl Sink for Memory {
    type Writer = MemoryWriter;

    fn writer(&self, range: &OffsetRange, _include_headers: bool) -> Result<MemoryWriter, SinkError> {
        Ok(MemoryWriter(range.clone(), self.clone()))
    }

    async fn finish_batch(&self, _batch_id: i64) -> Result<(), SinkError> {
        *self.finished.lock().unwrap() = true;
        Ok(())
    }
}

impl RecordWriter for MemoryWriter {
    fn write(&mut self, record: &Record<'_>) {
        let expected = format!("{}-{}-{}", self.0.topic, self.0.partition, record.offset);
        assert_eq!(record.value, Some(expected.as_bytes()));
        self.1.rows.lock().unwrap().entry(self.0.partition).or_default().push(record.offset);
    }

    async fn flush(&mut self) -> Result<(), SinkError> {
        let count: usize = self.1.rows().values().map(Vec::len).sum();
        match self.1.fails_after {
            Some(limit) if count >= limit => Err(SinkError::new("writing", std::io::ErrorKind::StorageFull.into())),
            _ => Ok(()),
        }
    }

    async fn finish(self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Plans and processes; the sink says what came out.
pub(crate) async fn process(options: &StreamOptions, sink: &impl Sink) -> Result<(Client, ProcessedBatch)> {
    let client = Client::connect(options.client.clone()).await?;
    let batch = options.plan(&client).await?;
    let mut settings = ReadSettings::default();
    settings.fail_on_data_loss = options.fail_on_data_loss;
    let progress = ReadProgress::shared();
    let everything = Filter::always();
    let processing = batch.process(&client, &everything, sink, &settings, &progress);
    let processed = tokio::time::timeout(Duration::from_secs(30), processing).await.expect("the read hangs")?;
    Ok((client, processed))
}

/// The error and its causes.
pub(crate) fn text(error: &dyn std::error::Error) -> String {
    ottla_client::report(error)
}

/// Changes a fetch answer on its way out.
pub(crate) fn edit(version: i16, edit: impl Fn(&mut FetchResponse) + Send + Sync + 'static) -> Action {
    Action::Edit(Arc::new(move |frame: Bytes| {
        let (correlation_id, mut response) = decode_response::<FetchRequest>(version, &frame.slice(4..)).unwrap();
        edit(&mut response);
        let mut out = BytesMut::new();
        encode_response::<FetchRequest>(version, correlation_id, &response, &mut out).unwrap();
        out.freeze()
    }))
}

/// Does `act` once, when a fetch request asks for this offset of partition 0 or a later one.
pub(crate) fn at_offset(
    broker: &Arc<EmbeddedBroker>,
    offset: i64,
    act: impl Fn(&EmbeddedBroker) + Send + Sync + 'static,
) {
    let (done, weak) = (Mutex::new(false), Arc::downgrade(broker));
    broker.on(ottla_embedded::messages::ApiKey::Fetch, move |context| {
        let Request::Fetch(request) = context.request else { return Action::Pass };
        let mut asked = request.topics.iter().flat_map(|topic| &topic.partitions);
        if asked.any(|asked| asked.partition == 0 && asked.fetch_offset >= offset)
            && !std::mem::replace(&mut *done.lock().unwrap(), true)
            && let Some(broker) = weak.upgrade()
        {
            act(&broker);
        }
        Action::Pass
    });
}

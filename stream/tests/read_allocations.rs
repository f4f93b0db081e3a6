//! What a bounded read allocates, from the socket to the filter: so much a response, and nothing a batch or a record. A test binary of its
//! own: it counts with its own allocator, what its own thread allocates. The read has that thread to itself; the broker has others. (What the
//! codecs in C allocate, contexts made once, it does not see.)

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed test panics; clippy.toml lets off test functions but not their helpers"
)]

use bytes::Bytes;
use ottla_embedded::{EmbeddedBroker, messages::ApiKey};
use ottla_protocol::{
    compression::{Compression, Compressor},
    record::{Headers, OwnedHeaders, Record, RecordBatchBuilder, RecordBatchOptions, TimestampType},
};
use ottla_stream::{
    Client, Filter, OffsetRange, RangeCounts, ReadProgress, ReadSettings, RecordWriter, Sink, SinkError, StreamOptions,
};
use std::thread::{self, ThreadId};
use tokio::runtime::{Builder, Runtime};

/// At most so many allocations a response, whatever is in it: tasks and messages of the engine, the list of partitions, the request.
const ALLOCATIONS_A_RESPONSE_MAX: u64 = 24;

/// More than the allocations that a response may take, so that one a batch is too many.
const BATCHES_A_RESPONSE: usize = 32;
const RECORDS_A_BATCH: i64 = 20;
const PARTITIONS: i32 = 2;
/// Of each partition, in the shorter of two reads.
const RESPONSES: usize = 8;

const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

/// A batch of records of so many bytes, a twentieth of them purchases.
fn batch(compression: Compression, value_bytes: usize) -> Bytes {
    let mut headers = OwnedHeaders::default();
    headers.push(b"trace", Some(b"0123456789"));
    let mut builder = RecordBatchBuilder::new(RecordBatchOptions::new(0).compression(compression));
    for offset in 0..RECORDS_A_BATCH {
        let event = if offset == 7 { "purchase" } else { "click" };
        let mut value = format!("{event} {}", offset * 7919);
        while value.len() < value_bytes {
            value.push_str(" and so on");
        }
        value.truncate(value_bytes);
        let record = Record {
            offset,
            timestamp: 1_000 + offset,
            timestamp_type: TimestampType::CreateTime,
            key: (offset % 2 == 0).then_some(b"key"),
            value: Some(value.as_bytes()),
            headers: if offset % 3 == 0 { headers.as_headers() } else { Headers::default() },
        };
        builder.append(&record).unwrap();
    }
    builder.build(&mut Compressor::new()).unwrap().freeze()
}

/// Keeps nothing, and sees to it that batches are decoded by the thread whose allocations are counted.
struct OnThread(ThreadId);

struct OnThreadWriter(ThreadId);

impl Sink for OnThread {
    type Writer = OnThreadWriter;

    fn writer(&self, _range: &OffsetRange, _include_headers: bool) -> Result<OnThreadWriter, SinkError> {
        Ok(OnThreadWriter(self.0))
    }

    async fn finish_batch(&self, _batch_id: i64) -> Result<(), SinkError> {
        Ok(())
    }
}

impl RecordWriter for OnThreadWriter {
    fn write(&mut self, _record: &Record<'_>) {}

    async fn flush(&mut self) -> Result<(), SinkError> {
        assert_eq!(thread::current().id(), self.0, "decoded where nobody counts");
        Ok(())
    }

    async fn finish(self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// A broker with a topic whose answers hold so many batches of one partition.
struct Source {
    broker: EmbeddedBroker,
    answer_bytes: usize,
}

impl Source {
    fn new(runtime: &Runtime, compression: Compression, value_bytes: usize, answers: usize) -> Self {
        let broker = runtime.block_on(EmbeddedBroker::start()).unwrap();
        broker.create_topic("t", PARTITIONS, &[]).unwrap();
        let batch = batch(compression, value_bytes);
        for partition in 0..PARTITIONS {
            for _ in 0..answers * BATCHES_A_RESPONSE {
                broker.append("t", partition, batch.clone()).unwrap();
            }
        }
        Self { broker, answer_bytes: batch.len() * BATCHES_A_RESPONSE }
    }

    /// Reads all of it on this thread: what was seen, how many responses it took, and how many allocations.
    fn read(&self, filter: &Filter) -> (RangeCounts, u64, u64) {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (servers, answer_bytes) = (self.broker.bootstrap_servers(), self.answer_bytes.to_string());
        let options = StreamOptions::from_pairs([
            ("kafka.bootstrap.servers", servers.as_str()),
            ("subscribe", "t"),
            ("kafka.max.partition.fetch.bytes", answer_bytes.as_str()),
        ])
        .unwrap();
        let (client, batch) = runtime.block_on(async {
            let client = Client::connect(options.client.clone()).await.unwrap();
            let batch = options.plan(&client).await.unwrap();
            (client, batch)
        });
        let mut settings = ReadSettings::default();
        settings.parallelism = 1;
        let (sink, progress) = (OnThread(thread::current().id()), ReadProgress::shared());
        let before = self.broker.requests(ApiKey::Fetch);
        let mut counts = RangeCounts::default();
        let counted = allocation_counter::measure(|| {
            let processing = batch.process(&client, filter, &sink, &settings, &progress);
            counts = runtime.block_on(processing).expect("the read").counts();
        });
        (counts, self.broker.requests(ApiKey::Fetch) - before, counted.count_total)
    }
}

/// Reads a topic, and one four times as long with the same batches and answers; what the longer one allocates more is the steady state.
fn check(runtime: &Runtime, compression: Compression, value_bytes: usize) {
    let [short, long] = [1, 4].map(|times| Source::new(runtime, compression, value_bytes, times * RESPONSES));
    let filters: [(&str, u64); 3] =
        [("TRUE", 20), ("value LIKE '%purchase%'", 1), ("key = 'key' OR headers['trace'] LIKE '%x%'", 10)];
    for (text, hits_a_batch) in filters {
        let filter: Filter = text.parse().unwrap();
        let (few, few_responses, few_allocations) = short.read(&filter);
        let (many, many_responses, many_allocations) = long.read(&filter);
        let batches = (PARTITIONS as usize * BATCHES_A_RESPONSE * RESPONSES) as u64;
        assert_eq!((few.records, many.records), (20 * batches, 4 * 20 * batches));
        assert_eq!((few.hits, many.hits), (hits_a_batch * batches, 4 * hits_a_batch * batches), "{text}");
        let responses = many_responses - few_responses;
        let allocations = many_allocations.saturating_sub(few_allocations);
        assert!(
            allocations <= ALLOCATIONS_A_RESPONSE_MAX * responses,
            "{compression}, {value_bytes} bytes a value, {text}: {allocations} allocations more for {responses} responses more with {} \
             records in {} batches",
            many.records - few.records,
            3 * batches
        );
        // Else an allocation a batch could hide in the bound.
        assert!(
            responses * ALLOCATIONS_A_RESPONSE_MAX < 3 * batches,
            "{responses} responses for {} batches",
            3 * batches
        );
    }
}

#[test]
fn a_read_allocates_nothing_for_a_record_or_a_batch() {
    let broker_runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for compression in CODECS {
        for value_bytes in [20, 100, 1000] {
            check(&broker_runtime, compression, value_bytes);
        }
    }
}

//! The two ways that the benches read: batches in memory, and a topic of a broker.

use crate::data::{Counts, NEEDLE, Run};
use ottla_embedded::EmbeddedBroker;
use ottla_protocol::{
    compression::Decompressor,
    record::{Record, RecordBatches},
};
use ottla_stream::{Client, Filter, NullSink, ReadProgress, ReadSettings, StreamOptions};
use tokio::runtime::{Builder, Runtime};

/// Every record of a run: header, CRC, inflating, parsing. Hits are those that `keep` keeps.
///
/// # Panics
/// When something can't be read.
#[inline]
pub fn decode(run: &[u8], decompressor: &mut Decompressor, mut keep: impl FnMut(&Record<'_>) -> bool) -> Counts {
    let mut counts = Counts::default();
    for batch in RecordBatches::new(run) {
        let batch = batch.expect("a batch");
        batch.check_crc().expect("a CRC that holds");
        for record in batch.records(decompressor).expect("records") {
            let record = record.expect("a record");
            counts.records += 1;
            counts.value_bytes += record.value.map_or(0, <[u8]>::len) as u64;
            counts.hits += u64::from(keep(&record));
        }
    }
    counts
}

/// The filter of the benches: values that hold [`NEEDLE`].
pub fn purchases() -> Filter {
    Filter::value().contains(NEEDLE)
}

/// Reads a topic as `ottla read --format none` does: plan, fetch, filter, a sink that keeps nothing.
#[derive(Debug)]
pub struct TopicReader {
    runtime: Runtime,
    client: Client,
    options: StreamOptions,
    settings: ReadSettings,
    filter: Filter,
}

impl TopicReader {
    /// A reader with one decoder on a thread of its own for each of `parallelism`.
    ///
    /// # Panics
    /// When the broker can't be reached.
    pub fn connect(bootstrap_servers: &str, topic: &str, filter: Filter, parallelism: usize) -> Self {
        // As the command line does it.
        let runtime = match parallelism {
            1 => Builder::new_current_thread().enable_all().build(),
            threads => Builder::new_multi_thread().worker_threads(threads).enable_all().build(),
        }
        .expect("a runtime");
        let pairs = [("kafka.bootstrap.servers", bootstrap_servers), ("subscribe", topic)];
        let options = StreamOptions::from_pairs(pairs).expect("options");
        let client = runtime.block_on(Client::connect(options.client.clone())).expect("a broker that answers");
        let mut settings = ReadSettings::default();
        settings.parallelism = parallelism;
        Self { runtime, client, options, settings, filter }
    }

    /// A reader with the parallelism that `ottla` has by default.
    ///
    /// # Panics
    /// As [`connect`](Self::connect).
    pub fn with_defaults(bootstrap_servers: &str, topic: &str, filter: Filter) -> Self {
        Self::connect(bootstrap_servers, topic, filter, ReadSettings::default().parallelism)
    }

    /// The whole topic once, planning included.
    ///
    /// # Panics
    /// When something can't be read.
    pub fn read(&self) -> Counts {
        let read = async {
            let batch = self.options.plan(&self.client).await?;
            batch.process(&self.client, &self.filter, &NullSink, &self.settings, &ReadProgress::shared()).await
        };
        let counts = self.runtime.block_on(read).expect("a whole read").counts();
        Counts { records: counts.records, value_bytes: counts.value_bytes, hits: counts.hits }
    }
}

/// A broker of this process, on threads of its own.
#[derive(Debug)]
pub struct Embedded {
    broker: EmbeddedBroker,
    // After the broker, which lives in it.
    _runtime: Runtime,
}

impl Embedded {
    /// A broker without topics.
    ///
    /// # Panics
    /// When it can't listen.
    pub fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let broker = runtime.block_on(EmbeddedBroker::start()).expect("a port");
        Self { broker, _runtime: runtime }
    }

    /// Makes a topic that has the same run in each of its partitions, and says what is in all of them.
    ///
    /// # Panics
    /// When the topic exists.
    pub fn fill(&self, topic: &str, partitions: i32, run: &Run) -> Counts {
        self.broker.create_topic(topic, partitions, &[]).expect("a new topic");
        let mut counts = Counts::default();
        for partition in 0..partitions {
            self.broker.append(topic, partition, run.bytes()).expect("whole batches");
            counts.records += run.counts.records;
            counts.value_bytes += run.counts.value_bytes;
            counts.hits += run.counts.hits;
        }
        counts
    }

    /// Where it listens.
    pub fn bootstrap_servers(&self) -> String {
        self.broker.bootstrap_servers()
    }
}

//! An output of one's own: counts error lines by service, and commits how far it read only after the counts were printed.
//!
//! ```sh
//! cargo run -p ottla-stream --example count_errors
//! ```
//! It needs no Kafka: a broker of this process plays the cluster. Put your own address in place of `broker.bootstrap_servers()`.

use ottla_embedded::EmbeddedBroker;
use ottla_protocol::{
    compression::{Compression, Compressor},
    record::{OwnedHeaders, Record, RecordBatchBuilder, RecordBatchOptions, TimestampType},
};
use ottla_stream::{
    Client, Filter, OffsetRange, ReadProgress, ReadSettings, RecordWriter, Sink, SinkError, StreamOptions,
};
use std::{
    collections::BTreeMap,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
};

type Counts = BTreeMap<String, u64>;

/// Adds up what its writers counted. A batch that is processed again starts from zero: only whole batches count.
#[derive(Default)]
struct CountSink {
    total: Arc<Mutex<Counts>>,
}

/// Counts the records of one range. Nobody else calls it, so it needs no lock until its range ends.
struct CountWriter {
    mine: Counts,
    total: Arc<Mutex<Counts>>,
}

impl Sink for CountSink {
    type Writer = CountWriter;

    fn writer(&self, _range: &OffsetRange, _include_headers: bool) -> Result<CountWriter, SinkError> {
        Ok(CountWriter { mine: Counts::new(), total: self.total.clone() })
    }

    async fn finish_batch(&self, batch_id: i64) -> Result<(), SinkError> {
        // Here a real sink makes the batch durable. Only if this succeeds can the offsets be committed.
        let total = std::mem::take(&mut *self.total.lock().unwrap_or_else(PoisonError::into_inner));
        println!("batch {batch_id}: {total:?}");
        Ok(())
    }
}

impl RecordWriter for CountWriter {
    // The hot loop: no waiting, and a copy of only what is kept. Here a service is copied when it is seen for the first time.
    fn write(&mut self, record: &Record<'_>) {
        let value = record.value.and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default();
        let service = value.split(' ').nth(1).unwrap_or("?");
        match self.mine.get_mut(service) {
            Some(count) => *count += 1,
            None => drop(self.mine.insert(service.to_owned(), 1)),
        }
    }

    async fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn finish(self) -> Result<(), SinkError> {
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        for (service, count) in self.mine {
            *total.entry(service).or_default() += count;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let broker = EmbeddedBroker::start().await?;
    fill(&broker)?;

    let servers = broker.bootstrap_servers();
    let options = StreamOptions::from_pairs([("kafka.bootstrap.servers", servers.as_str()), ("subscribe", "logs")])?;
    let client = Client::connect(options.client.clone()).await?;
    let errors: Filter = "value LIKE 'ERROR %' AND partition IN (0, 1)".parse()?;

    let batch = options.plan(&client).await?;
    let settings = ReadSettings::default();
    let processed = batch.process(&client, &errors, &CountSink::default(), &settings, &ReadProgress::shared()).await?;
    println!("{} of {} records kept", processed.counts().hits, processed.counts().records);

    // Every partition of the plan, the one that the filter shut out as well: the group is not to find it again.
    let outcome = processed.commit(&client, "error-counts", "example").await?;
    for (partition, offset) in &outcome.committed {
        println!("{partition} committed at {offset}");
    }
    assert_eq!(outcome.committed.values().copied().collect::<Vec<_>>(), [1000, 1000, 1000]);
    broker.shutdown().await;
    Ok(())
}

/// Three partitions of a thousand lines, every tenth an error.
fn fill(broker: &EmbeddedBroker) -> Result<(), Box<dyn Error>> {
    broker.create_topic("logs", 3, &[])?;
    let headers = OwnedHeaders::default();
    for partition in 0..3 {
        let mut batch = RecordBatchBuilder::new(RecordBatchOptions::new(0).compression(Compression::Lz4));
        for i in 0..1000 {
            let level = if i % 10 == 0 { "ERROR" } else { "INFO" };
            let line = format!("{level} shop-{} order {i}", i % 4);
            batch.append(&Record {
                offset: i,
                timestamp: 1_700_000_000_000 + i,
                timestamp_type: TimestampType::CreateTime,
                key: None,
                value: Some(line.as_bytes()),
                headers: headers.as_headers(),
            })?;
        }
        broker.append("logs", partition, batch.build(&mut Compressor::new())?.freeze())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn runs() {
        super::main().unwrap();
    }
}

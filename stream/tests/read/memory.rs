//! The byte budget: wire and inflated bytes together, one batch of any size, and what the user keeps.

use crate::support::{options, topic};
use bytes::Bytes;
use ottla_embedded::EmbeddedBroker;
use ottla_protocol::{
    compression::{Compression, Compressor},
    record::{Headers, Record, RecordBatchBuilder, RecordBatchOptions, TimestampType},
};
use ottla_stream::{
    BatchReader, Client, Error, Filter, KeptBatch, NullSink, PlannedBatch, ProcessedBatch, ReadErrorKind, ReadProgress,
    ReadSettings,
};
use std::time::Duration;

/// A batch of `records` records of `bytes` equal bytes each.
fn batch(codec: Compression, records: i64, bytes: usize) -> Bytes {
    let mut builder = RecordBatchBuilder::new(RecordBatchOptions::new(0).compression(codec));
    let value = vec![b'x'; bytes];
    for offset in 0..records {
        let record = Record {
            offset,
            timestamp: 1_000,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some(&value),
            headers: Headers::default(),
        };
        builder.append(&record).unwrap();
    }
    builder.build(&mut Compressor::new()).unwrap().freeze()
}

async fn start(broker: &EmbeddedBroker, memory: &str) -> (Client, PlannedBatch) {
    let options = options(broker, &[("ottla.memory.bytes", memory)]);
    let client = Client::connect(options.client.clone()).await.unwrap();
    let batch = options.plan(&client).await.unwrap();
    (client, batch)
}

async fn count(client: &Client, planned: PlannedBatch, settings: &ReadSettings) -> ProcessedBatch {
    let (everything, progress) = (Filter::always(), ReadProgress::shared());
    let reading = planned.process(client, &everything, &NullSink, settings, &progress);
    tokio::time::timeout(Duration::from_secs(30), reading).await.expect("it hangs").unwrap()
}

#[tokio::test]
async fn a_batch_larger_than_the_budget_is_read_and_reported() {
    for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let broker = EmbeddedBroker::start().await.unwrap();
        broker.create_topic("t", 3, &[]).unwrap();
        for partition in 0..3 {
            for _ in 0..2 {
                broker.append("t", partition, batch(codec, 20, 50_000)).unwrap();
            }
        }
        let (client, planned) = start(&broker, "200000").await;
        let mut settings = ReadSettings::default();
        settings.parallelism = 3;
        let processed = count(&client, planned, &settings).await;
        assert_eq!(processed.counts().value_bytes, 3 * 2 * 20 * 50_000, "{codec}");
        let excess = client.memory_excess_bytes();
        assert!((800_000..2_300_000).contains(&excess), "{codec}: one batch at a time, but {excess} bytes too much");
    }
}

#[tokio::test]
async fn within_the_budget_nothing_is_exceeded() {
    let broker = EmbeddedBroker::start().await.unwrap();
    broker.create_topic("t", 3, &[]).unwrap();
    for partition in 0..3 {
        for _ in 0..5 {
            broker.append("t", partition, batch(Compression::Lz4, 20, 5_000)).unwrap();
        }
    }
    let (client, planned) = start(&broker, "2000000").await;
    count(&client, planned, &ReadSettings::default()).await;
    assert_eq!(client.memory_excess_bytes(), 0);
}

async fn next_kept(reader: &mut BatchReader) -> Result<Option<KeptBatch>, Error> {
    let next = tokio::time::timeout(Duration::from_secs(30), reader.next()).await.expect("it hangs");
    next?.map(ottla_stream::ReadBatch::keep).transpose()
}

fn is_held(error: &Error) -> bool {
    let Error::Read(error) = error else { return false };
    matches!(error.source, ReadErrorKind::BudgetHeld(_))
}

#[tokio::test]
async fn kept_batches_stop_the_read_until_some_are_dropped() {
    for codec in [Compression::None, Compression::Lz4] {
        let broker = EmbeddedBroker::start().await.unwrap();
        broker.create_topic("t", 2, &[]).unwrap();
        for partition in 0..2 {
            for _ in 0..30 {
                broker.append("t", partition, batch(codec, 10, 1_000)).unwrap();
            }
        }
        let (client, planned) = start(&broker, "150000").await;
        let mut reader = planned.read(&client, &Filter::always(), &ReadSettings::default()).await.unwrap();
        let (mut kept, mut records, mut stops) = (Vec::new(), 0, 0);
        loop {
            match next_kept(&mut reader).await {
                Ok(Some(batch)) => kept.push(batch),
                Ok(None) => break,
                Err(error) => {
                    assert!(is_held(&error), "{error}");
                    assert!(next_kept(&mut reader).await.is_err_and(|error| is_held(&error)), "and again, at once");
                    assert!(kept.len() > 1, "what is kept is the reason");
                    stops += 1;
                    // On another thread: a kept batch is its owner's.
                    let batches = std::mem::take(&mut kept);
                    let count =
                        || batches.iter().map(|batch| batch.records().map(Result::unwrap).count()).sum::<usize>();
                    records += std::thread::scope(|scope| scope.spawn(count).join().unwrap());
                }
            }
        }
        assert!(stops >= 2, "600 kB were kept within 150 kB: {stops} stops");
        records += kept.iter().map(|batch| batch.records().count()).sum::<usize>();
        assert_eq!(records, 2 * 30 * 10, "{codec}: nothing is lost by a stop");
        let processed = reader.finish().unwrap();
        assert_eq!(processed.offsets_to_commit().values().copied().collect::<Vec<_>>(), [300, 300]);
        assert_eq!(processed.counts().records, 600);
    }
}

#[tokio::test]
async fn a_kept_batch_holds_its_own_bytes_and_no_more() {
    let broker = EmbeddedBroker::start().await.unwrap();
    topic(&broker, 1, 1000);
    let (client, planned) = start(&broker, "10000000").await;
    let filter = Filter::value().ends_with("7");
    let mut reader = planned.read(&client, &filter, &ReadSettings::default()).await.unwrap();
    let mut kept = Vec::new();
    while let Some(batch) = next_kept(&mut reader).await.unwrap() {
        kept.push(batch);
    }
    assert_eq!(kept.len(), 100);
    assert!(kept.iter().all(|batch| batch.bytes() < 300), "ten records of some 20 bytes, not the answer they came in");
    let values: Vec<(i64, Vec<u8>)> = kept
        .iter()
        .flat_map(|batch| batch.records().map(Result::unwrap))
        .map(|record| (record.offset, record.value.unwrap().to_vec()))
        .collect();
    let expected: Vec<_> = (0..100).map(|ten| (ten * 10 + 7, format!("t-0-{}", ten * 10 + 7).into_bytes())).collect();
    assert_eq!(values, expected);
    assert_eq!(reader.finish().unwrap().counts().hits, 100);
}

#[tokio::test]
async fn a_reader_that_was_not_read_to_its_end_commits_nothing() {
    let broker = EmbeddedBroker::start().await.unwrap();
    topic(&broker, 1, 1000);
    let (client, planned) = start(&broker, "10000000").await;
    let mut reader = planned.read(&client, &Filter::always(), &ReadSettings::default()).await.unwrap();
    let mut seen = Vec::new();
    let mut batch = reader.next().await.unwrap().unwrap();
    batch.for_each(|record| seen.push(record.offset)).unwrap();
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
    assert!(matches!(reader.finish(), Err(Error::Unfinished { .. })));
}

#[tokio::test]
async fn kept_batches_that_were_small_on_the_wire_count_as_what_they_are() {
    let broker = EmbeddedBroker::start().await.unwrap();
    broker.create_topic("t", 1, &[]).unwrap();
    for _ in 0..100 {
        broker.append("t", 0, batch(Compression::Zstd, 20, 5_000)).unwrap();
    }
    // 10 MB in all, of which a single answer has all the bytes.
    let (client, planned) = start(&broker, "1000000").await;
    let mut reader = planned.read(&client, &Filter::always(), &ReadSettings::default()).await.unwrap();
    let (mut kept, mut batches, mut stops) = (Vec::new(), 0, 0);
    loop {
        match next_kept(&mut reader).await {
            Ok(Some(batch)) => kept.push(batch),
            Ok(None) => break,
            Err(error) => {
                assert!(is_held(&error), "{error}");
                stops += 1;
                batches += kept.len();
                // Whoever has them drops them some time, and the reader can wait for it.
                let theirs = std::mem::take(&mut kept);
                let others = tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    drop(theirs);
                });
                tokio::time::timeout(Duration::from_secs(10), reader.room()).await.expect("room comes");
                others.await.unwrap();
            }
        }
        assert!(kept.iter().map(KeptBatch::bytes).sum::<usize>() < 1_400_000, "one batch more than there is room for");
    }
    assert_eq!(batches + kept.len(), 100);
    assert!(stops >= 5, "{stops}");
}

#[tokio::test]
async fn a_reader_that_nobody_asks_holds_up_no_other() {
    let broker = EmbeddedBroker::start().await.unwrap();
    broker.create_topic("t", 8, &[]).unwrap();
    for partition in 0..8 {
        for _ in 0..20 {
            broker.append("t", partition, batch(Compression::None, 10, 1_000)).unwrap();
        }
    }
    let (client, planned) = start(&broker, "60000").await;
    let mut idle = planned.clone().read(&client, &Filter::always(), &ReadSettings::default()).await.unwrap();
    assert!(idle.next().await.unwrap().is_some());
    // Time to fetch whatever it may.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let processed = count(&client, planned, &ReadSettings::default()).await;
    assert_eq!(processed.counts().records, 8 * 20 * 10);
    drop(idle);
}

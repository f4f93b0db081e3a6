//! `ottla demo`: the whole story on a broker in this process. Needs no network, no Kafka, no file.

use super::{
    connect,
    lag::{lag_table, rows},
    parallelism, print,
    read::query_id,
    until_interrupted,
};
use crate::{
    args::{Common, DemoArgs},
    failure::Failure,
    progress::Bar,
    table::grouped,
};
use ottla_embedded::EmbeddedBroker;
use ottla_protocol::{
    compression::{Compression, Compressor},
    record::{OwnedHeaders, Record, RecordBatchBuilder, RecordBatchOptions, TimestampType},
};
use ottla_stream::{Filter, NullSink, ReadProgress, ReadSettings, StreamOptions};
use std::{collections::BTreeMap, time::Instant};

const TOPIC: &str = "logs";
const GROUP: &str = "ottla-demo";
const WHERE: &str = "value LIKE '%ERROR%'";
/// One partition for each, so that a read meets them all.
const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
const BATCH_RECORDS: u32 = 1_000;
const FIRST_TIMESTAMP_MS: i64 = 1_700_000_000_000;

pub(crate) async fn run(common: &Common, args: &DemoArgs) -> Result<(), Failure> {
    until_interrupted(story(common, args), || "interrupted".to_owned()).await
}

async fn story(common: &Common, args: &DemoArgs) -> Result<(), Failure> {
    let broker =
        EmbeddedBroker::start().await.map_err(|error| demo_failed(&format!("starting the broker: {error}")))?;
    let partitions = i32::try_from(CODECS.len()).unwrap_or(i32::MAX);
    broker.create_topic(TOPIC, partitions, &[]).map_err(|error| demo_failed(&error.to_string()))?;
    say(common, &format!("A broker of this process listens on {}.", broker.bootstrap_servers()))?;

    let start = Instant::now();
    let produced = produce(&broker, args.records)?;
    say(
        common,
        &format!(
            "Topic '{TOPIC}' has {} records in {partitions} partitions ({}), made in {:.1} s.",
            grouped(produced),
            CODECS.map(Compression::name).join(", "),
            start.elapsed().as_secs_f64()
        ),
    )?;

    let servers = broker.bootstrap_servers();
    let options = StreamOptions::from_pairs([("kafka.bootstrap.servers", servers.as_str()), ("subscribe", TOPIC)])?;
    let client = connect(options.client.clone()).await?;
    let filter: Filter = WHERE.parse().map_err(|error| demo_failed(&format!("{error}")))?;
    say(common, &format!("ottla read -b {servers} --subscribe {TOPIC} --where \"{WHERE}\" --commit-group {GROUP}"))?;
    let start = Instant::now();
    let batch = options.plan(&client).await?;
    let progress = ReadProgress::shared();
    let bar = Bar::follow(progress.clone(), batch.offset_ranges().map(|range| range.size().unsigned_abs()).sum());
    let mut settings = ReadSettings::default();
    settings.parallelism = parallelism(common);
    let processed = batch.process(&client, &filter, &NullSink, &settings, &progress).await?;
    drop(bar);
    let counts = processed.counts();
    let committed = processed.commit(&client, GROUP, &query_id()).await?;
    let by_topic: BTreeMap<_, _> =
        committed.committed.iter().map(|(partition, offset)| (partition.to_string(), offset)).collect();
    say(
        common,
        &format!(
            "{} records read ({} value bytes), {} kept, in {:.2} s; committed to group '{GROUP}': {}.",
            grouped(counts.records),
            grouped(counts.value_bytes),
            grouped(counts.hits),
            start.elapsed().as_secs_f64(),
            by_topic
                .iter()
                .map(|(partition, offset)| format!("{partition} at {offset}"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    )?;

    let lag = rows(&client, GROUP, common.json).await?;
    let behind: i64 = lag.iter().filter_map(super::lag::LagRow::lag).sum();
    if common.json {
        let totals = serde_json::json!({
            "records": counts.records,
            "valueBytes": counts.value_bytes,
            "hits": counts.hits,
            "committed": by_topic,
            "lag": behind,
        });
        print(&format!("{totals}\n"))?;
    } else {
        print(&format!("\n{}", lag_table(GROUP, &lag, client.config().isolation_level)))?;
    }
    broker.shutdown().await;
    if behind != 0 || counts.records != produced {
        return Err(demo_failed(&format!(
            "{} of {produced} records were read and the lag is {behind}",
            counts.records
        )));
    }
    Ok(())
}

fn say(common: &Common, sentence: &str) -> Result<(), Failure> {
    if common.json { Ok(()) } else { print(&format!("{sentence}\n")) }
}

fn demo_failed(message: &str) -> Failure {
    Failure::failed("DEMO_FAILED", message)
}

/// Fills the partitions with log lines, one in a hundred of them an error. Returns how many there are.
fn produce(broker: &EmbeddedBroker, records: u32) -> Result<u64, Failure> {
    let mut compressor = Compressor::new();
    let each = records.div_ceil(u32::try_from(CODECS.len()).unwrap_or(1));
    let mut produced = 0;
    let mut headers = OwnedHeaders::default();
    headers.push(b"origin", Some(b"demo"));
    for (partition, codec) in (0..).zip(CODECS) {
        for first in (0..each).step_by(BATCH_RECORDS as usize) {
            let mut batch = RecordBatchBuilder::new(RecordBatchOptions::new(0).compression(codec));
            for i in first..each.min(first + BATCH_RECORDS) {
                let value = line(i);
                let record = Record {
                    offset: (i - first).into(),
                    timestamp: FIRST_TIMESTAMP_MS + i64::from(i),
                    timestamp_type: TimestampType::CreateTime,
                    key: None,
                    value: Some(value.as_bytes()),
                    headers: headers.as_headers(),
                };
                batch.append(&record).map_err(|error| demo_failed(&error.to_string()))?;
                produced += 1;
            }
            let bytes = batch.build(&mut compressor).map_err(|error| demo_failed(&error.to_string()))?;
            broker.append(TOPIC, partition, bytes.freeze()).map_err(|error| demo_failed(&error.to_string()))?;
        }
    }
    Ok(produced)
}

fn line(i: u32) -> String {
    let (level, text) = if i % 100 == 7 { ("ERROR", "upstream did not answer") } else { ("INFO", "request served") };
    format!("2023-11-14T22:13:20.{:03}Z {level} shop-{} {text} id={i:08x} took={}ms", i % 1000, i % 16, i * 7 % 450)
}

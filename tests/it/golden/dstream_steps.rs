//! The step of the direct-stream API, which gives offset ranges to the user and commits what the user says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ottla_stream::{DirectBatch, DirectStream, StreamOptions};
use serde_json::{Value, json};

use super::answer::{Answer, Failure};
use super::scenario::{DstreamStep, Result};

/// The setting that limits a batch, in records a second.
const MAX_RATE: &str = "spark.streaming.kafka.maxRatePerPartition";

pub(super) async fn dstream(step: &DstreamStep, bootstrap: &str) -> Result<Answer> {
    let topics = step.topics.join(",");
    let pairs = [
        ("kafka.bootstrap.servers", bootstrap),
        ("subscribe", &topics),
        ("startingOffsets", &step.auto_offset_reset),
        ("kafka.consumer.commit.groupid", &step.group),
    ];
    let options = match StreamOptions::stream_from_pairs(pairs) {
        Ok(options) => options,
        Err(error) => return Ok(Failure::new(error.condition(), &error).into()),
    };
    let mut builder = DirectStream::builder(options).batch_interval(Duration::from_secs(1));
    for (name, value) in &step.spark_conf {
        match (name.as_str(), value.parse()) {
            (MAX_RATE, Ok(rate)) => builder = builder.max_rate_per_partition(rate),
            _ => return Err(format!("the setting {name}={value} of a direct stream is not known here")),
        }
    }
    match read(step, builder.start().await).await {
        Ok(value) => Ok(value.into()),
        Err(error) => Ok(Failure::new(error.condition(), &error).into()),
    }
}

async fn read(step: &DstreamStep, stream: ottla_stream::Result<DirectStream>) -> ottla_stream::Result<Value> {
    let mut stream = stream?;
    let called = Arc::new(Mutex::new(Vec::new()));
    let mut batches = Vec::new();
    while let Some(batch) = stream.next().await? {
        let mut shown = shown(batches.len(), &batch);
        let (mut records, mut kept) = (0, 0);
        let contains = |value: &[u8], text: &str| String::from_utf8_lossy(value).contains(text);
        batch
            .for_each(|record| {
                records += 1;
                let is_kept = |text| record.value.is_some_and(|value| contains(value, text));
                kept += i64::from(step.filter.as_deref().is_some_and(is_kept));
            })
            .await?;
        shown["records"] = json!(records);
        if step.filter.is_some() {
            shown["kept"] = json!(kept);
        }
        batches.push(shown);
        let processed = batch.processed();
        if step.commit {
            let called = called.clone();
            let queued = stream.commit_async(&processed, move |result| called.lock().unwrap().push(result.is_ok()));
            queued.expect("the stream takes its own ranges");
        }
        if i64::try_from(batches.len()).is_ok_and(|done| done >= step.batches) {
            break;
        }
    }
    tokio::time::sleep(step.linger).await;
    if let Err(error) = stream.stop().await {
        panic!("the commit of the stop failed: {error}");
    }
    assert!(called.lock().unwrap().iter().all(|committed| *committed), "a commit failed");
    Ok(json!({"batches": batches}))
}

fn shown(index: usize, batch: &DirectBatch) -> Value {
    let range = |range: &ottla_stream::OffsetRange| json!({"topic": range.topic, "partition": range.partition, "fromOffset": range.from_offset, "untilOffset": range.until_offset});
    json!({"batch": index, "offsetRanges": batch.offset_ranges().iter().map(range).collect::<Vec<_>>()})
}

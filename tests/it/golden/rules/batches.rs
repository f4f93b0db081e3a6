//! Rules about batches: what is lost, and what is done with it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Case;
use crate::golden::compare::list;
use crate::golden::scenario::{Op, Trigger};
use crate::golden::world::World;
use crate::golden::{checkpoint, errors};

pub(super) fn created_again(case: &Case<'_>, expected: &mut Value) -> bool {
    let Some(start) = case.start.filter(|_| case.is_end() && !expected.is_null()) else { return false };
    let goes_on = start.read.option("failOnDataLoss").is_some_and(|value| value.eq_ignore_ascii_case("false"));
    let files = &expected["checkpoint"];
    let first = list(&expected["progress"]).first().cloned().unwrap_or_default();
    let started = match first["batchId"].as_i64() {
        Some(batch_id) => Some((batch_id, first["startOffset"].clone())),
        None => checkpoint::newest(files, "commits")
            .and_then(|committed| Some((committed + 1, checkpoint::offsets(files, committed)?))),
    };
    let Some((batch_id, starts)) = started else { return false };
    let was_read = |topic: &&String| starts.get(topic.as_str()).is_some();
    let topics: Vec<&String> = case.created_again.iter().filter(was_read).collect();
    if topics.is_empty() || (goes_on && !expected["error"].is_null()) {
        return false;
    }
    if goes_on {
        read_from_earliest(case.world, &topics, expected);
        return true;
    }
    // The loss is seen before the batch is written, and nothing of it or after it is done.
    let later = |name: &String| {
        let id = name.split_once('/').and_then(|(_, id)| id.parse::<i64>().ok());
        !name.starts_with("sources/") && id.is_some_and(|id| id >= batch_id)
    };
    if let Some(files) = expected["checkpoint"].as_object_mut() {
        files.retain(|name, _| !later(name));
    }
    expected["error"] = errors::ottla("KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED", &[topics[0].as_str()]);
    expected["progress"] = json!([]);
    expected["sink"] = json!([]);
    true
}

pub(super) fn continuous(case: &Case<'_>, expected: &mut Value) -> bool {
    let is_continuous = case.start.is_some_and(|start| matches!(start.trigger, Trigger::Continuous(_)));
    if !(is_continuous && case.is_end()) {
        return false;
    }
    let Some(files) = expected["checkpoint"].as_object_mut() else { return false };
    for (_, text) in files.iter_mut().filter(|(name, _)| name.starts_with("offsets/")) {
        let settings = "v1\n{\"batchWatermarkMs\":0,\"batchTimestampMs\":0,\"conf\":{}}\n";
        *text = text.as_str().unwrap_or_default().replacen("v1\n\n", settings, 1).into();
    }
    // Where it began is in no answer of Spark's.
    files.insert("sources/0/0".to_owned(), case.got.value["checkpoint"]["sources/0/0"].clone());
    true
}

/// The new topic is read from its first offset in the first batch, whatever Spark read of it.
fn read_from_earliest(world: &World, topics: &[&String], expected: &mut Value) {
    let ends = expected["progress"][0]["endOffset"].clone();
    let mut whole: BTreeMap<(String, i64), (i64, i64)> = BTreeMap::new();
    for topic in topics {
        for (partition, end) in ends[topic.as_str()].as_object().into_iter().flatten() {
            let partition: i64 = partition.parse().unwrap_or_default();
            let earliest = world.log_start(topic, partition as i32);
            whole.insert(((*topic).clone(), partition), (earliest, end.as_i64().unwrap_or_default()));
        }
    }
    let is_of = |row: &Value| topics.iter().any(|topic| row["topic"] == topic.as_str());
    let mut rows: Vec<Value> = list(&expected["sink"][0]["rows"]).iter().filter(|row| !is_of(row)).cloned().collect();
    for ((topic, partition), (first, end)) in whole.iter().filter(|(_, (first, end))| end > first) {
        rows.push(json!({"topic": topic, "partition": partition, "firstOffset": first, "lastOffset": end - 1,
            "rows": end - first, "tasks": 1}));
    }
    let count: i64 = rows.iter().filter_map(|row| row["rows"].as_i64()).sum();
    expected["progress"][0]["numInputRows"] = json!(count);
    expected["sink"][0]["readTasks"] = json!(rows.len());
    expected["sink"][0]["rows"] = json!(rows);
}

pub(super) fn planned_loss(case: &Case<'_>, expected: &mut Value) -> bool {
    let is_loss = case.got.failure.as_ref().is_some_and(|failure| failure.condition.starts_with("KAFKA_DATA_LOSS."));
    let applies = matches!(case.op, Op::Batch(_)) && is_loss && !expected["error"].is_null();
    applies && expected.as_object_mut().is_some_and(|answer| answer.shift_remove("readTasks").is_some())
}

pub(super) fn stopped_at_work(case: &Case<'_>, expected: &mut Value) -> bool {
    let files = &expected["checkpoint"];
    let pending =
        checkpoint::newest(files, "offsets").filter(|id| checkpoint::newest(files, "commits") == Some(id - 1));
    let (Some(batch_id), true) = (pending, matches!(case.op, Op::Stop(_)) && expected["error"].is_null()) else {
        return false;
    };
    let (starts, ends) = (checkpoint::offsets(files, batch_id - 1), checkpoint::offsets(files, batch_id));
    let (starts, ends) = (starts.unwrap_or_default(), ends.unwrap_or_default());
    let rows: Vec<Value> = partitions(&ends)
        .into_iter()
        .filter_map(|((topic, partition), end)| {
            let start = starts[&topic][partition.to_string()].as_i64();
            let start = start.unwrap_or_else(|| case.world.log_start(&topic, partition));
            (end > start).then(|| {
                json!({"topic": topic, "partition": partition, "firstOffset": start, "lastOffset": end - 1,
                    "rows": end - start, "tasks": 1})
            })
        })
        .collect();
    let commit = expected["checkpoint"][format!("commits/{}", batch_id - 1)].clone();
    expected["checkpoint"][format!("commits/{batch_id}")] = commit;
    let count: i64 = rows.iter().filter_map(|row| row["rows"].as_i64()).sum();
    if let Some(progress) = expected["progress"].as_array_mut() {
        progress.push(json!({"batchId": batch_id, "numInputRows": count, "startOffset": starts, "endOffset": ends}));
    }
    if let Some(sink) = expected["sink"].as_array_mut() {
        // Its function may have seen the batch before the stop.
        sink.retain(|batch| batch["batchId"] != batch_id);
        sink.push(json!({"batchId": batch_id, "readTasks": rows.len(), "rows": rows}));
    }
    true
}

/// Offsets in Spark's JSON by partition.
pub(super) fn partitions(offsets: &Value) -> BTreeMap<(String, i32), i64> {
    let topics = offsets.as_object().into_iter().flatten();
    let all = topics.flat_map(|(topic, of)| {
        let partitions = of.as_object().into_iter().flatten();
        partitions.filter_map(|(index, offset)| Some(((topic.clone(), index.parse().ok()?), offset.as_i64()?)))
    });
    all.collect()
}

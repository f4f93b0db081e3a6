//! Rules about batches: what is lost, and what is done with it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Case;
use crate::golden::compare::list;
use crate::golden::scenario::Op;
use crate::golden::world::World;
use crate::golden::{checkpoint, errors};

pub(super) fn created_again(case: &Case<'_>, expected: &mut Value) -> bool {
    let Some(start) = case.start.filter(|_| case.is_end() && !expected.is_null()) else { return false };
    let first = list(&expected["progress"]).first().cloned().unwrap_or_default();
    let was_read = |topic: &&String| first["startOffset"].get(topic.as_str()).is_some();
    let topics: Vec<&String> = case.created_again.iter().filter(was_read).collect();
    if topics.is_empty() || !expected["error"].is_null() {
        return false;
    }
    if start.read.option("failOnDataLoss").is_some_and(|value| value.eq_ignore_ascii_case("false")) {
        read_from_earliest(case.world, &topics, expected);
        return true;
    }
    // The batch was written before its loss was seen, and nothing of it or after it is done.
    let batch_id = first["batchId"].as_i64().unwrap_or_default();
    let later = |name: &String| {
        let log_and_id = name.split_once('/').and_then(|(log, id)| Some((log, id.parse::<i64>().ok()?)));
        log_and_id.is_some_and(|(log, id)| id > batch_id || (log == "commits" && id == batch_id))
    };
    if let Some(files) = expected["checkpoint"].as_object_mut() {
        files.retain(|name, _| !later(name));
    }
    expected["error"] = errors::ottla("KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED", &[topics[0].as_str()]);
    expected["progress"] = json!([]);
    expected["sink"] = json!([]);
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

pub(super) fn counted_losses(case: &Case<'_>, expected: &mut Value) -> bool {
    let goes_on = case.read().and_then(|read| read.option("failOnDataLoss"));
    if !case.is_end() || !goes_on.is_some_and(|value| value.eq_ignore_ascii_case("false")) {
        return false;
    }
    let initial = expected["checkpoint"]["sources/0/0"].as_str().and_then(|text| text.split('\n').nth(1));
    let initial: Value = initial.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let found = list(&case.got.value["progress"]);
    let mut applies = false;
    for (entry, found) in expected["progress"].as_array_mut().into_iter().flatten().zip(found) {
        let start = if entry["startOffset"].is_null() { &initial } else { &entry["startOffset"] };
        let counted = found["metrics"]["dataLoss"].as_str().and_then(|count| count.parse::<u64>().ok());
        let again = case.created_again.iter().any(|topic| start.get(topic.as_str()).is_some());
        if (again || lost(start, entry)) && counted.is_some_and(|count| count > 0) {
            for name in ["dataLoss", "offsetOutOfRange"] {
                entry["metrics"][name] = found["metrics"][name].clone();
            }
            applies = true;
        }
    }
    applies
}

/// Whether a batch of Spark's has fewer rows than offsets, or a partition that is gone or went back.
fn lost(start: &Value, entry: &Value) -> bool {
    let (starts, ends) = (partitions(start), partitions(&entry["endOffset"]));
    let gone = starts.iter().any(|(partition, start)| ends.get(partition).is_none_or(|end| end < start));
    let span: i64 = ends.iter().map(|(partition, end)| end - starts.get(partition).copied().unwrap_or(0)).sum();
    gone || entry["numInputRows"].as_i64().is_some_and(|rows| rows < span)
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

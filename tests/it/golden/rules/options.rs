//! Rules about options: what Ottla refuses, or takes, where Spark does not.

use ottla_client::ClientConfig;
use serde_json::{Value, json};

use super::Case;
use crate::golden::compare::list;
use crate::golden::errors;
use crate::golden::scenario::Op;
use crate::golden::world::World;

pub(super) fn ending_timestamp(case: &Case<'_>, expected: &mut Value) -> bool {
    let given = case.is_stream() && case.read().is_some_and(|read| read.option("endingTimestamp").is_some());
    if !given || case.spark_refuses(expected) {
        return false;
    }
    case.refused(expected, "INVALID_OPTION", &["ending timestamp not valid in streaming queries"]);
    true
}

pub(super) fn limits(case: &Case<'_>, expected: &mut Value) -> bool {
    let not_positive = |name: &&&str| {
        let value = case.read().and_then(|read| read.option(name)).and_then(|value| value.parse::<i64>().ok());
        value.is_some_and(|limit| limit <= 0)
    };
    let name = ["minOffsetsPerTrigger", "maxOffsetsPerTrigger"].iter().find(not_positive);
    let Some(name) = name.filter(|_| !case.spark_refuses(expected)) else { return false };
    case.refused(expected, "INVALID_OPTION", &[&format!("{name} must be positive")]);
    true
}

pub(super) fn offsets(case: &Case<'_>, expected: &mut Value) -> bool {
    let Some(read) = case.read() else { return false };
    // A lower-ranked option is not even parsed.
    let ranks = [
        ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets"),
        ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"),
    ];
    let given = |(time, by_time, offsets): &(&str, &str, &'static str)| {
        (read.option(time).is_none() && read.option(by_time).is_none()).then(|| read.option(offsets)).flatten()
    };
    let text = ranks.iter().filter_map(given).find(|text| is_no_offset_map(text));
    let Some(text) = text.filter(|_| !case.spark_refuses(expected)) else { return false };
    case.refused(expected, "INVALID_OPTION", &[&format!("got {text}")]);
    true
}

/// JSON that Spark takes, and that holds a fraction, an offset below -2, or a key twice.
fn is_no_offset_map(text: &str) -> bool {
    let Ok(Value::Object(topics)) = serde_json::from_str(text) else { return false };
    let offsets = || topics.values().filter_map(Value::as_object).flat_map(|partitions| partitions.values());
    let odd = offsets().any(|offset| offset.is_f64() || offset.as_i64().is_some_and(|offset| offset < -2));
    // A parsed map has lost what was there twice.
    let written = text.matches(':').count();
    odd || (topics.values().all(Value::is_object) && written > topics.len() + offsets().count())
}

pub(super) fn isolation_level(case: &Case<'_>, expected: &mut Value) -> bool {
    let level = case.read().and_then(|read| read.option("kafka.isolation.level")).unwrap_or_default();
    let lower = level.to_ascii_lowercase();
    let only_here = lower != level && ["read_committed", "read_uncommitted"].contains(&lower.as_str());
    if !only_here || expected["error"].is_null() {
        return false;
    }
    // What Spark would have read is not in its answer; of a whole topic it is known.
    let read = case.read().filter(|_| lower == "read_committed");
    let whole = read.and_then(|read| {
        let bound = |name| read.option(name).unwrap_or("earliest") == "earliest";
        let latest = read.option("endingOffsets").is_none_or(|end| end == "latest");
        let from_start = bound("startingOffsets") && (read.option("startingOffsets").is_some() || !case.is_stream());
        (from_start && latest).then(|| read.option("subscribe")).flatten()
    });
    let rows = whole.map(|topic| committed_rows(case.world, topic));
    *expected = match (case.is_stream(), rows) {
        (_, None) => json!({}),
        (false, Some(rows)) => json!({"rows": rows}),
        (true, Some(rows)) => json!({"sink": [{"batchId": 0, "readTasks": rows.len(), "rows": rows}]}),
    };
    true
}

fn committed_rows(world: &World, topic: &str) -> Vec<Value> {
    let rows = world.committed(topic).into_iter().map(|(partition, seen)| {
        json!({"topic": topic, "partition": partition, "firstOffset": seen.first, "lastOffset": seen.last,
            "rows": seen.rows, "tasks": 1})
    });
    rows.collect()
}

pub(super) fn unknown_option(case: &Case<'_>, expected: &mut Value) -> bool {
    /// Client settings that the engine takes or refuses itself.
    const OF_THE_ENGINE: [&str; 7] = [
        "auto.offset.reset",
        "key.deserializer",
        "value.deserializer",
        "enable.auto.commit",
        "interceptor.classes",
        "group.id",
        "consumer.commit.groupid",
    ];
    const SPARK: [&str; 24] = [
        "subscribe",
        "subscribepattern",
        "assign",
        "startingoffsets",
        "startingoffsetsbytimestamp",
        "startingtimestamp",
        "startingoffsetsbytimestampstrategy",
        "endingoffsets",
        "endingoffsetsbytimestamp",
        "endingtimestamp",
        "failondataloss",
        "maxoffsetspertrigger",
        "minoffsetspertrigger",
        "maxtriggerdelay",
        "minpartitions",
        "maxrecordsperpartition",
        "includeheaders",
        "groupidprefix",
        "kafkaconsumer.polltimeoutms",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "checkpointlocation",
        "queryname",
        "path",
    ];
    let unknown = |(key, _): &&(String, String)| {
        let key = key.to_ascii_lowercase();
        match key.strip_prefix("kafka.") {
            None => !SPARK.contains(&key.as_str()),
            Some(setting) => {
                !OF_THE_ENGINE.contains(&setting) && ClientConfig::settings().all(|known| known != setting)
            }
        }
    };
    // Names are looked at before all else, but Spark's query never ran for whatever it was.
    if case.is_end() && expected.is_null() {
        return false;
    }
    let Some((key, _)) = case.read().and_then(|read| read.options.iter().find(unknown)) else { return false };
    match key.to_ascii_lowercase().strip_prefix("kafka.") {
        None => case.refused(expected, "UNKNOWN_OPTION", &[&format!("'{key}'")]),
        Some(setting) => case.refused(expected, "INVALID_OPTION", &[setting]),
    }
    true
}

pub(super) fn assigned_partition(case: &Case<'_>, expected: &mut Value) -> bool {
    let assigned = case.read().and_then(|read| read.option("assign")).and_then(|text| serde_json::from_str(text).ok());
    let Some(Value::Object(assigned)) = assigned else { return false };
    let partitions = assigned.iter().flat_map(|(topic, partitions)| list(partitions).iter().map(move |p| (topic, p)));
    let lacking = |(topic, partition): (&String, &Value)| {
        let partition = partition.as_i64()?;
        case.world.lacks_partition(topic, partition).then(|| format!("{topic}-{partition}"))
    };
    let Some(missing) = partitions.filter_map(lacking).next() else { return false };
    // Only the query itself asks the cluster.
    let asks = matches!(case.op, Op::Batch(_)) || (case.is_end() && !expected.is_null());
    if asks {
        let error = errors::ottla("UNKNOWN_TOPIC_OR_PARTITION", &[&missing]);
        *expected = match case.op {
            Op::Batch(_) => json!({"error": error}),
            _ => {
                let metadata = &expected["checkpoint"]["metadata"];
                json!({"error": error, "progress": [], "sink": [], "checkpoint": {"metadata": metadata}})
            }
        };
    }
    asks
}

pub(super) fn found_at_start(case: &Case<'_>, expected: &mut Value) -> bool {
    let by_the_query = errors::is_of_options(&case.end["error"]);
    match case.op {
        Op::Start(_) if by_the_query && expected["error"].is_null() => {
            *expected = json!({"error": case.end["error"]});
            true
        }
        Op::AwaitTermination(_) | Op::Stop(_) if by_the_query && errors::is_of_options(&expected["error"]) => {
            // A query that never ran may have made its checkpoint's folder, or not.
            if let Some(answer) = expected.as_object_mut() {
                answer.shift_remove("checkpoint");
            }
            true
        }
        _ => false,
    }
}

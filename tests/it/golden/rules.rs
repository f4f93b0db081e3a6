//! Where Ottla differs from Spark on purpose (the README lists it): each rule says for a kind of answer when it applies, what is expected
//! instead, and why. A rule rewrites the expected answer, which is then compared as any other: where a rule applies and Ottla does as Spark
//! does, that is a difference, too.

use std::collections::{BTreeMap, BTreeSet};

use ottla_client::ClientConfig;
use serde_json::{Value, json};

use super::answer::Answer;
use super::compare::list;
use super::errors;
use super::scenario::{Op, Read, Start};
use super::world::World;

/// A step with everything that a rule may look at.
pub(super) struct Case<'a> {
    pub(super) op: &'a Op,
    /// The start of the query that the step is of.
    pub(super) start: Option<&'a Start>,
    /// What Spark answered when that query ended.
    pub(super) end: &'a Value,
    /// Topics that were created again since the query's checkpoint last saw them, as of its start; none where the checkpoint was not
    /// written by Ottla.
    pub(super) created_again: &'a BTreeSet<String>,
    pub(super) world: &'a World,
    pub(super) got: &'a Answer,
}

impl Case<'_> {
    /// What is read, if the step reads.
    fn read(&self) -> Option<&Read> {
        match self.op {
            Op::Batch(read) => Some(read),
            _ => self.start.map(|start| &start.read),
        }
    }

    fn is_stream(&self) -> bool {
        !matches!(self.op, Op::Batch(_))
    }

    fn is_end(&self) -> bool {
        matches!(self.op, Op::AwaitTermination(_) | Op::Stop(_))
    }

    /// Whether Spark refuses the options as well, for a mistake that it sees first.
    fn spark_refuses(&self, expected: &Value) -> bool {
        (self.is_end() && expected.is_null()) || errors::is_of_options(&expected["error"])
    }

    /// The options are refused: by the start of a query, which then never runs.
    fn refused(&self, expected: &mut Value, condition: &str, contains: &[&str]) {
        let error = errors::ottla(condition, contains);
        *expected =
            if self.is_end() { json!({"error": error, "progress": [], "sink": []}) } else { json!({"error": error}) };
    }
}

pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) why: &'static str,
    /// Rewrites the expected answer where the rule applies, and says whether it does.
    apply: fn(&Case<'_>, &mut Value) -> bool,
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "schema text",
        why: "a DataFrame's schema has no counterpart: columns show in the dumped rows",
        apply: schema,
    },
    Rule {
        name: "endingTimestamp in a stream is refused",
        why: "Spark forgets to check it and ignores it, so that the stream never ends where it was told to",
        apply: ending_timestamp,
    },
    Rule {
        name: "limits of 0 or less are refused",
        why: "Spark stops advancing with 0 and fails of data loss below",
        apply: limits,
    },
    Rule {
        name: "offsets that are none are refused at once",
        why: "Spark cuts fractions, takes the last of equal keys, and kills the task of an offset below -2",
        apply: offsets,
    },
    Rule {
        name: "kafka.isolation.level in any case",
        why: "Spark's driver takes any case and its task does not",
        apply: isolation_level,
    },
    Rule {
        name: "an option that does not exist is refused",
        why: "Spark ignores it, and a slip of the pen goes unnoticed",
        apply: unknown_option,
    },
    Rule {
        name: "an assigned partition that does not exist is refused",
        why: "Spark leaves it out, and nobody notices that it is not read",
        apply: assigned_partition,
    },
    Rule {
        name: "a mistake in the options is found by the start",
        why: "Spark parses some values only in the query's thread, after it has made a checkpoint",
        apply: found_at_start,
    },
    Rule {
        name: "a topic that was created again is data loss",
        why: "Spark does not notice it where the new topic has as many records, and reads the new one from the old offset",
        apply: created_again,
    },
    Rule {
        name: "a loss that the plan sees has no tasks",
        why: "Ottla holds a bounded read's ranges against the log before it reads",
        apply: planned_loss,
    },
];

/// Applies every rule, and returns the names of those that did.
pub(super) fn apply(case: &Case<'_>, expected: &mut Value) -> Vec<&'static str> {
    RULES.iter().filter(|rule| (rule.apply)(case, expected)).map(|rule| rule.name).collect()
}

fn schema(_: &Case<'_>, expected: &mut Value) -> bool {
    expected.as_object_mut().is_some_and(|answer| answer.shift_remove("schema").is_some())
}

fn ending_timestamp(case: &Case<'_>, expected: &mut Value) -> bool {
    let given = case.is_stream() && case.read().is_some_and(|read| read.option("endingTimestamp").is_some());
    if !given || case.spark_refuses(expected) {
        return false;
    }
    case.refused(expected, "INVALID_OPTION", &["ending timestamp not valid in streaming queries"]);
    true
}

fn limits(case: &Case<'_>, expected: &mut Value) -> bool {
    let not_positive = |name: &&&str| {
        let value = case.read().and_then(|read| read.option(name)).and_then(|value| value.parse::<i64>().ok());
        value.is_some_and(|limit| limit <= 0)
    };
    let name = ["minOffsetsPerTrigger", "maxOffsetsPerTrigger"].iter().find(not_positive);
    let Some(name) = name.filter(|_| !case.spark_refuses(expected)) else { return false };
    case.refused(expected, "INVALID_OPTION", &[&format!("{name} must be positive")]);
    true
}

fn offsets(case: &Case<'_>, expected: &mut Value) -> bool {
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

fn isolation_level(case: &Case<'_>, expected: &mut Value) -> bool {
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

fn unknown_option(case: &Case<'_>, expected: &mut Value) -> bool {
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

fn assigned_partition(case: &Case<'_>, expected: &mut Value) -> bool {
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

fn found_at_start(case: &Case<'_>, expected: &mut Value) -> bool {
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

fn created_again(case: &Case<'_>, expected: &mut Value) -> bool {
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

fn planned_loss(case: &Case<'_>, expected: &mut Value) -> bool {
    let is_loss = case.got.failure.as_ref().is_some_and(|failure| failure.condition.starts_with("KAFKA_DATA_LOSS."));
    let applies = matches!(case.op, Op::Batch(_)) && is_loss && !expected["error"].is_null();
    applies && expected.as_object_mut().is_some_and(|answer| answer.shift_remove("readTasks").is_some())
}

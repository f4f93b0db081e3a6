//! Compares a step's answer with the expected one, as the scenario says, and names each difference with its place.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::scenario::{Compare, Op};
use super::{checkpoint, errors, progress};

/// What differs, a sentence each; nothing where all is as expected.
pub(super) fn differences(compare: Compare, op: &Op, expected: &Value, got: &Answer) -> Vec<String> {
    let mut found = Differences::default();
    match op {
        Op::AwaitTermination(_) | Op::Stop(_) if compare == Compare::Info => {
            found.list.extend(checkpoint::layout(&expected["checkpoint"], &got.value["checkpoint"]));
        }
        // What else happened in such a scenario was irregular in Spark, too.
        Op::Batch(_) if compare == Compare::Info => {}
        Op::Batch(_) => {
            found.error(expected, got);
            found.known(expected, &["error", "readTasks", "rows", "dump"]);
            if !expected["readTasks"].is_null() {
                found.same("readTasks", &expected["readTasks"], &got.value["readTasks"]);
            }
            if !expected["rows"].is_null() {
                found.same("rows", &sorted_rows(&expected["rows"]), &sorted_rows(&got.value["rows"]));
                found.dump("dump", &expected["dump"], &got.value["dump"]);
            }
        }
        Op::Start(_) => {
            found.error(expected, got);
            found.known(expected, &["error"]);
        }
        // Spark has nothing to say of a query that was refused at its start.
        Op::AwaitTermination(_) | Op::Stop(_) if expected.is_null() => {}
        Op::AwaitTermination(_) | Op::Stop(_) => {
            found.error(expected, got);
            found.known(expected, &["error", "progress", "sink", "checkpoint"]);
            if compare == Compare::Final {
                found.totals(expected, &got.value)
            } else {
                found.batches(expected, &got.value)
            }
        }
        Op::Dstream(_) => {
            found.error(expected, got);
            found.known(expected, &["error", "batches", "commitCallbacks"]);
            found.same("batches", &without_races(&expected["batches"]), &without_races(&got.value["batches"]));
        }
        _ => {
            if let Some(failure) = &got.failure {
                found.list.push(format!("failed: {} ({})", failure.message, failure.condition));
            } else if !expected.is_null() {
                found.same("result", expected, &got.value);
            }
        }
    }
    found.list
}

#[derive(Default)]
struct Differences {
    list: Vec<String>,
}

impl Differences {
    fn error(&mut self, expected: &Value, got: &Answer) {
        match (&expected["error"], &got.failure) {
            (Value::Null, None) => {}
            (Value::Null, Some(failure)) => {
                self.list.push(format!("failed, and Spark does not: {} ({})", failure.message, failure.condition));
            }
            (error, None) => self.list.push(format!("did not fail; expected {error}")),
            (error, Some(failure)) => self.list.extend(errors::difference(error, failure)),
        }
    }

    /// A field of an expected answer that nothing here looks at would be compared by nobody.
    fn known(&mut self, expected: &Value, names: &[&str]) {
        for name in expected.as_object().into_iter().flat_map(Map::keys).filter(|name| !names.contains(&name.as_str()))
        {
            self.list.push(format!("nothing compares the field {name}"));
        }
    }

    /// Batch by batch.
    fn batches(&mut self, expected: &Value, got: &Value) {
        if !expected["progress"].is_null() {
            let (wanted, found) = (list(&expected["progress"]), list(&got["progress"]));
            self.same_count("progress", "entries", wanted, found);
            for (i, (wanted, found)) in wanted.iter().zip(found).enumerate() {
                self.list.extend(progress::differences(&format!("progress[{i}]"), wanted, found));
            }
        }
        if !expected["sink"].is_null() {
            self.sink(list(&expected["sink"]), list(&got["sink"]));
        }
        self.files(&expected["checkpoint"], &got["checkpoint"]);
    }

    fn sink(&mut self, wanted: &[Value], found: &[Value]) {
        self.same_count("sink", "batches", wanted, found);
        for (i, (wanted, found)) in wanted.iter().zip(found).enumerate() {
            let at = format!("sink[{i}]");
            for name in ["batchId", "readTasks"] {
                self.same(&format!("{at}.{name}"), &wanted[name], &found[name]);
            }
            self.same(&format!("{at}.rows"), &sorted_rows(&wanted["rows"]), &sorted_rows(&found["rows"]));
            self.dump(&format!("{at}.dump"), &wanted["dump"], &found["dump"]);
            self.known(wanted, &["batchId", "readTasks", "rows", "dump"]);
        }
    }

    /// Every file of one side and the other.
    fn files(&mut self, expected: &Value, got: &Value) {
        // The step said that the folder is not shown.
        let Some(wanted) = expected.as_object() else { return };
        let none = Map::new();
        let found = got.as_object().unwrap_or(&none);
        let names: BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
        for name in names {
            match (wanted.get(name).and_then(Value::as_str), found.get(name).and_then(Value::as_str)) {
                (Some(wanted), Some(found)) => {
                    let at = format!("checkpoint {name}, line");
                    self.same(&at, &checkpoint::meaning(name, wanted), &checkpoint::meaning(name, found));
                }
                (Some(_), None) => self.list.push(format!("checkpoint: {name} is missing")),
                (None, _) => self.list.push(format!("checkpoint: {name} is there, and not with Spark")),
            }
        }
    }

    /// What the batches add up to, wherever they were cut.
    fn totals(&mut self, expected: &Value, got: &Value) {
        self.same("rows of all batches", &union(&expected["sink"]), &union(&got["sink"]));
        let last = |answer: &Value| list(&answer["progress"]).last().map(|entry| entry["endOffset"].clone());
        self.same("last endOffset", &json!(last(expected)), &json!(last(got)));
        let (wanted, found) = (&expected["checkpoint"], &got["checkpoint"]);
        if wanted.is_null() {
            return;
        }
        let end = |files: &Value| checkpoint::newest(files, "offsets").and_then(|id| checkpoint::offsets(files, id));
        self.same("last offsets file", &json!(end(wanted)), &json!(end(found)));
        // A batch that was not committed counts as well: one that is not committed there must not be here.
        let pending = |files: &Value| checkpoint::newest(files, "offsets") != checkpoint::newest(files, "commits");
        self.same("the last batch is not committed", &json!(pending(wanted)), &json!(pending(found)));
        for name in ["metadata", "sources/0/0"] {
            let meaning = |files: &Value| files[name].as_str().map(|text| checkpoint::meaning(name, text));
            self.same(&format!("checkpoint {name}, line"), &json!(meaning(wanted)), &json!(meaning(found)));
        }
    }

    fn same_count(&mut self, at: &str, what: &str, expected: &[Value], got: &[Value]) {
        if expected.len() != got.len() {
            self.list.push(format!("{at}: {} {what}, expected {}", got.len(), expected.len()));
        }
    }

    fn dump(&mut self, at: &str, expected: &Value, got: &Value) {
        if expected.is_null() {
            return;
        }
        let (wanted, mut found) = (sorted_rows(expected), sorted_rows(got));
        for (wanted, found) in list(&wanted).iter().zip(found.as_array_mut().into_iter().flatten()) {
            // The broker's clock; the producer's was of 2023.
            if wanted["timestamp"] == "<broker time>" && found["timestamp"].as_str().is_some_and(|t| t >= "2024") {
                found["timestamp"] = wanted["timestamp"].clone();
            }
        }
        self.same(at, &wanted, &found);
    }

    fn same(&mut self, at: &str, expected: &Value, got: &Value) {
        same(at, expected, got, &mut self.list);
    }
}

/// Each place where two values differ, maps without order.
pub(super) fn same(at: &str, expected: &Value, got: &Value, list: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(wanted), Value::Object(found)) => {
            let names: BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
            for name in names {
                let of = |map: &Map<String, Value>| map.get(name).cloned().unwrap_or_default();
                same(&format!("{at}.{name}"), &of(wanted), &of(found), list);
            }
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            for (i, (wanted, found)) in wanted.iter().zip(found).enumerate() {
                same(&format!("{at}[{i}]"), wanted, found, list);
            }
        }
        _ if expected == got => {}
        _ => list.push(format!("{at}: {got}, expected {expected}")),
    }
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Rows in the order of topic, partition and offset: the order of tasks is nobody's promise.
pub(super) fn sorted_rows(rows: &Value) -> Value {
    let place = |row: &Value| {
        let offset = row.get("firstOffset").or(row.get("offset")).and_then(Value::as_i64);
        (row["topic"].as_str().unwrap_or_default().to_owned(), row["partition"].as_i64(), offset)
    };
    let mut rows = list(rows).to_vec();
    rows.sort_by_key(place);
    rows.into()
}

/// A direct stream's batches without what a commit on its way has done by then.
fn without_races(batches: &Value) -> Value {
    let mut batches = batches.clone();
    for batch in batches.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        batch.shift_remove("groupOffsetsBeforeCommit");
    }
    batches
}

/// The rows of all batches by partition: how many, from where, to where.
fn union(sink: &Value) -> Value {
    let mut all: BTreeMap<String, (i64, i64, i64)> = BTreeMap::new();
    for row in list(sink).iter().flat_map(|batch| list(&batch["rows"])) {
        let int = |name: &str| row[name].as_i64().unwrap_or_default();
        let name = format!("{}-{}", row["topic"].as_str().unwrap_or_default(), row["partition"]);
        let of = all.entry(name).or_insert((int("firstOffset"), int("lastOffset"), 0));
        *of = (of.0.min(int("firstOffset")), of.1.max(int("lastOffset")), of.2 + int("rows"));
    }
    let row = |(name, (first, last, rows))| (name, json!({"firstOffset": first, "lastOffset": last, "rows": rows}));
    all.into_iter().map(row).collect::<Map<_, _>>().into()
}

//! That a rule applies to its kind of answer and to no other, and that what it puts in the place of Spark's answer can be missed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::dstream::{self, GroupOffsets};
use super::{Case, apply};
use crate::golden::answer::{Answer, Failure};
use crate::golden::compare::differences;
use crate::golden::errors;
use crate::golden::scenario::{self, Compare, Loaded, Op, Start, Step, Txn};
use crate::golden::world::World;

fn steps(steps: &str) -> Vec<Step> {
    let text = format!(r#"{{"name":"x","compare":"exact","steps":[{steps}]}}"#);
    match scenario::load(&text) {
        Ok(Loaded::Runnable(scenario)) => scenario.steps,
        other => panic!("{other:?}"),
    }
}

/// A topic `t` with two partitions.
fn world() -> World {
    let mut world = World::default();
    world.create_topic("t", 2);
    world
}

/// A bounded read with these options, and Spark's answer to it.
fn batch(options: Value, result: Value) -> Step {
    let step = json!({"op": "batch", "options": options, "result": result});
    steps(&step.to_string()).remove(0)
}

/// A query with these options and its end, with Spark's answers.
fn query(options: Value, start: Value, end: Value) -> (Step, Step) {
    let start =
        json!({"op": "start", "query": "q", "options": options, "trigger": {"type": "AvailableNow"}, "result": start});
    let end = json!({"op": "awaitTermination", "query": "q", "result": end});
    let mut steps = steps(&format!("{start},{end}"));
    let end = steps.remove(1);
    (steps.remove(0), end)
}

struct Setting {
    world: World,
    flushed: BTreeMap<String, GroupOffsets>,
    created_again: BTreeSet<String>,
}

impl Setting {
    fn new() -> Self {
        Self { world: world(), flushed: BTreeMap::new(), created_again: BTreeSet::new() }
    }

    /// The rules that apply to a step, and the differences after them.
    fn check(&self, step: &Step, start: Option<&Start>, end: &Value, got: &Answer) -> (Vec<&'static str>, Vec<String>) {
        let (op, created_again, flushed, world) = (&step.op, &self.created_again, &self.flushed, &self.world);
        let read = match op {
            Op::Batch(read) => Some(read),
            _ => start.map(|start| &start.read),
        };
        let (mut expected, mut end) = (step.result.clone(), end.clone());
        errors::translate(&mut expected, read);
        errors::translate(&mut end, read);
        let end = &end;
        let names = apply(&Case { op, start, end, created_again, flushed, world, got }, &mut expected);
        (names, differences(Compare::Exact, op, &expected, got))
    }

    fn batch(&self, step: &Step, got: &Answer) -> (Vec<&'static str>, Vec<String>) {
        self.check(step, None, &Value::Null, got)
    }

    fn start(&self, (start, end): &(Step, Step), got: &Answer) -> (Vec<&'static str>, Vec<String>) {
        self.check(start, Some(of(start)), &end.result, got)
    }

    fn end(&self, (start, end): &(Step, Step), got: &Answer) -> (Vec<&'static str>, Vec<String>) {
        self.check(end, Some(of(start)), &end.result, got)
    }
}

fn of(step: &Step) -> &Start {
    match &step.op {
        Op::Start(start) => start,
        other => panic!("{other:?}"),
    }
}

fn refused(condition: &str, message: &str) -> Answer {
    Failure { condition: condition.to_owned(), message: message.to_owned() }.into()
}

/// How a query that was refused ends.
fn never_ran(condition: &str, message: &str) -> Answer {
    let value = json!({"progress": [], "sink": [], "checkpoint": {}});
    Answer { value, ..refused(condition, message) }
}

fn read(rows: i64) -> Value {
    json!({"topic": "t", "partition": 0, "firstOffset": 0, "lastOffset": rows - 1, "rows": rows, "tasks": 1})
}

fn ran(start: Value, end: i64, rows: i64) -> Value {
    let (start, end) = (json!(start), json!({"t": {"0": end}}));
    json!({
        "progress": [{"batchId": 1, "numInputRows": rows, "startOffset": start, "endOffset": end, "latestOffset": end,
            "metrics": {}}],
        "sink": [{"batchId": 1, "readTasks": 1, "rows": [read(rows)]}],
        "checkpoint": {"metadata": "{\"id\":\"<uuid>\"}", "offsets/0": "v1\n\n{}", "commits/0": "v1\n{}",
            "offsets/1": "v1\n\n{}", "commits/1": "v1\n{}"},
    })
}

#[test]
fn golden_an_ordinary_answer_has_no_rule() {
    let setting = Setting::new();
    let options = json!({"subscribe": "t", "startingOffsets": r#"{"t":{"0":1,"1":-2}}"#, "kafka.isolation.level": "read_committed"});
    let step = batch(options.clone(), json!({"readTasks": 1, "rows": [read(5)]}));
    assert_eq!(setting.batch(&step, &step.result.clone().into()), (vec![], vec![]));
    let query = query(options, Value::Null, ran(Value::Null, 5, 5));
    assert_eq!(setting.start(&query, &Answer::default()), (vec![], vec![]));
    assert_eq!(setting.end(&query, &query.1.result.clone().into()), (vec![], vec![]));
}

#[test]
fn golden_what_is_no_limit_offset_or_option_is_refused() {
    let setting = Setting::new();
    let limits = "limits of 0 or less are refused";
    let offsets = "offsets that are none are refused at once";
    for (options, rule, condition, message) in [
        (
            json!({"subscribe": "t", "maxOffsetsPerTrigger": "0"}),
            limits,
            "INVALID_OPTION",
            "maxOffsetsPerTrigger must be positive, got 0",
        ),
        (
            json!({"subscribe": "t", "startingOffsets": r#"{"t":{"0":-3}}"#}),
            offsets,
            "INVALID_OPTION",
            r#"got {"t":{"0":-3}} (…)"#,
        ),
        (
            json!({"subscribe": "t", "startingOffsets": r#"{"t":{"0":1.5}}"#}),
            offsets,
            "INVALID_OPTION",
            r#"got {"t":{"0":1.5}}"#,
        ),
        (
            json!({"subscribe": "t", "startingOffsets": r#"{"t":{"0":1,"0":2}}"#}),
            offsets,
            "INVALID_OPTION",
            r#"got {"t":{"0":1,"0":2}}"#,
        ),
        (
            json!({"subscribe": "t", "kafka.no.such": "0"}),
            "an option that does not exist is refused",
            "INVALID_OPTION",
            "Kafka option 'no.such' is not known",
        ),
        (
            json!({"subscribe": "t", "startOffset": "0"}),
            "an option that does not exist is refused",
            "UNKNOWN_OPTION",
            "there is no option 'startOffset'",
        ),
    ] {
        let as_spark = json!({"readTasks": 1, "rows": [read(5)]});
        let step = batch(options.clone(), as_spark.clone());
        assert_eq!(setting.batch(&step, &refused(condition, message)), (vec![rule], vec![]), "{options}");
        assert_eq!(setting.batch(&step, &as_spark.into()).1.len(), 1, "{options}");

        let query = query(options.clone(), Value::Null, ran(Value::Null, 5, 5));
        assert_eq!(setting.start(&query, &refused(condition, message)), (vec![rule], vec![]), "{options}");
        assert_eq!(setting.end(&query, &never_ran(condition, message)), (vec![rule], vec![]), "{options}");
        assert_eq!(setting.start(&query, &Answer::default()).1.len(), 1, "{options}");
        assert!(!setting.end(&query, &query.1.result.clone().into()).1.is_empty(), "{options}");
    }
    // A lower-ranked option is not parsed, in Spark and here.
    let ranked = batch(
        json!({"subscribe": "t", "startingTimestamp": "1", "startingOffsets": r#"{"t":{"0":-3}}"#}),
        json!({"rows": []}),
    );
    assert_eq!(setting.batch(&ranked, &json!({"rows": []}).into()), (vec![], vec![]));
}

#[test]
fn golden_an_ending_timestamp_is_refused_in_a_stream_only() {
    let setting = Setting::new();
    let (rule, message) = ("endingTimestamp in a stream is refused", "ending timestamp not valid in streaming queries");
    let query = query(json!({"subscribe": "t", "endingTimestamp": "1"}), Value::Null, ran(Value::Null, 5, 5));
    assert_eq!(setting.start(&query, &refused("INVALID_OPTION", message)), (vec![rule], vec![]));
    assert_eq!(setting.end(&query, &never_ran("INVALID_OPTION", message)), (vec![rule], vec![]));
    assert_eq!(setting.start(&query, &Answer::default()).1.len(), 1);
    let bounded = batch(json!({"subscribe": "t", "endingTimestamp": "1"}), json!({"rows": []}));
    assert_eq!(setting.batch(&bounded, &json!({"rows": []}).into()), (vec![], vec![]));
}

#[test]
fn golden_an_assigned_partition_that_does_not_exist_is_refused_by_the_query() {
    let setting = Setting::new();
    let rule = "an assigned partition that does not exist is refused";
    let options = json!({"assign": r#"{"t":[0,2]}"#});
    let step = batch(options.clone(), json!({"readTasks": 1, "rows": [read(5)]}));
    assert_eq!(setting.batch(&step, &refused("UNKNOWN_TOPIC_OR_PARTITION", "no t-2")), (vec![rule], vec![]));
    let query = query(options, Value::Null, ran(Value::Null, 5, 5));
    assert_eq!(setting.start(&query, &Answer::default()), (vec![], vec![]));
    let mut answer = never_ran("UNKNOWN_TOPIC_OR_PARTITION", "no t-2");
    answer.value["checkpoint"] = json!({"metadata": "{\"id\":\"11111111-2222-3333-4444-555555555555\"}"});
    assert_eq!(setting.end(&query, &answer), (vec![rule], vec![]));
    let there = batch(json!({"assign": r#"{"t":[0,1]}"#}), json!({"rows": []}));
    assert_eq!(setting.batch(&there, &json!({"rows": []}).into()), (vec![], vec![]));
}

#[test]
fn golden_mistakes_that_spark_finds_late_are_found_by_the_start() {
    let setting = Setting::new();
    let rule = "a mistake in the options is found by the start";
    let text = "Expected a single long value, got 12x";
    let error = json!([{"class": "java.lang.IllegalArgumentException", "message": text}]);
    let end = json!({"error": error, "progress": [], "sink": [], "checkpoint": {"metadata": "{\"id\":\"<uuid>\"}"}});
    let late = query(json!({"subscribe": "t", "startingTimestamp": "12x"}), Value::Null, end);
    assert_eq!(setting.start(&late, &refused("INVALID_OPTION", text)), (vec![rule], vec![]));
    assert_eq!(setting.end(&late, &never_ran("INVALID_OPTION", text)), (vec![rule], vec![]));
    assert_eq!(setting.start(&late, &Answer::default()).1.len(), 1);

    // What the cluster has to say is said by the query, as in Spark.
    let missing = json!([{"class": "org.apache.kafka.common.errors.UnknownTopicOrPartitionException", "message": "…"}]);
    let end = json!({"error": missing, "progress": [], "sink": [], "checkpoint": {}});
    let missing = query(json!({"subscribe": "u"}), Value::Null, end);
    assert_eq!(setting.start(&missing, &Answer::default()), (vec![], vec![]));
    assert_eq!(setting.end(&missing, &never_ran("UNKNOWN_TOPIC_OR_PARTITION", "no u")), (vec![], vec![]));
}

#[test]
fn golden_a_topic_that_was_created_again_is_lost_or_read_anew() {
    let rule = "a topic that was created again is data loss";
    let mut setting = Setting::new();
    let seen: BTreeMap<String, u32> = setting.world.generations();
    assert!(setting.world.created_again_since(&seen).is_empty());
    setting.world.delete_topic("t");
    setting.world.create_topic("t", 1);
    setting.created_again = setting.world.created_again_since(&seen);
    let spark = ran(json!({"t": {"0": 50}}), 60, 10);

    let strict = query(json!({"subscribe": "t"}), Value::Null, spark.clone());
    let mut lost = never_ran("KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED", "t-0 is another one");
    lost.value["checkpoint"] = spark["checkpoint"].clone();
    for name in ["offsets/1", "commits/1"] {
        lost.value["checkpoint"].as_object_mut().expect("files").shift_remove(name);
    }
    assert_eq!(setting.end(&strict, &lost), (vec![rule], vec![]));
    assert!(!setting.end(&strict, &spark.clone().into()).1.is_empty());

    let lenient = query(json!({"subscribe": "t", "failOnDataLoss": "false"}), Value::Null, spark.clone());
    let mut anew = spark.clone();
    anew["progress"][0]["numInputRows"] = json!(60);
    anew["sink"][0]["rows"] = json!([read(60)]);
    assert_eq!(setting.end(&lenient, &anew.into()), (vec![rule], vec![]));
    assert!(!setting.end(&lenient, &spark.clone().into()).1.is_empty());

    // Where Spark notices it, it has written the batch by then.
    let mut noticed = spark;
    let reason = "Some data may have been lost…\nReason: Partition t-0 offset was changed from 50 to 20.";
    noticed["error"] = json!([{"class": "x", "message": reason}]);
    noticed["progress"] = json!([]);
    noticed["checkpoint"]["offsets/0"] = json!("v1\n{}\n{\"t\":{\"0\":50}}");
    noticed["checkpoint"]["commits/0"] = json!("v1\n{}");
    noticed["checkpoint"].as_object_mut().expect("files").shift_remove("commits/1");
    for name in ["offsets/0", "commits/0"] {
        lost.value["checkpoint"][name] = noticed["checkpoint"][name].clone();
    }
    let noticed = query(json!({"subscribe": "t"}), Value::Null, noticed);
    assert_eq!(setting.end(&noticed, &lost), (vec![rule], vec![]));
}

#[test]
fn golden_isolation_levels_in_any_case_read_what_is_committed() {
    let rule = "kafka.isolation.level in any case";
    let mut setting = Setting::new();
    setting.world.produced("t", 0, 0, 9, None);
    setting.world.produced("t", 0, 10, 14, Some(Txn::Abort));
    setting.world.produced("t", 0, 16, 22, Some(Txn::Commit));
    setting.world.produced("t", 0, 24, 26, Some(Txn::Open));
    let error = json!([{"class": "org.apache.kafka.common.config.ConfigException", "message": "Invalid value"}]);
    let step = batch(json!({"subscribe": "t", "kafka.isolation.level": "READ_COMMITTED"}), json!({"error": error}));
    let mut rows = read(23);
    rows["rows"] = json!(17);
    let answer = json!({"readTasks": 1, "rows": [rows]});
    assert_eq!(setting.batch(&step, &answer.into()), (vec![rule], vec![]));
    assert_eq!(setting.batch(&step, &json!({"readTasks": 1, "rows": [read(23)]}).into()).1.len(), 1);
    assert_eq!(setting.batch(&step, &refused("INVALID_OPTION", "Invalid value")).1.len(), 2);
}

#[test]
fn golden_a_stop_that_cut_sparks_batch_off_lets_ours_finish() {
    let setting = Setting::new();
    let rule = "a stop lets the batch at work finish";
    let file = |end: i64| format!("v1\n{{}}\n{{\"t\":{{\"0\":{end}}}}}");
    let entry = |id: i64, start: Value, end: i64| json!({"batchId": id, "numInputRows": 5, "startOffset": start, "endOffset": {"t": {"0": end}}});
    let files =
        json!({"metadata": "{\"id\":\"<uuid>\"}", "offsets/0": file(5), "commits/0": "v1\n{}", "offsets/1": file(10)});
    let first = json!({"batchId": 0, "readTasks": 1, "rows": [read(5)]});
    let cut_off = json!({"progress": [entry(0, Value::Null, 5)], "sink": [first], "checkpoint": files});
    let (start, mut end) = query(json!({"subscribe": "t"}), Value::Null, cut_off.clone());
    let Op::AwaitTermination(stop) = end.op else { panic!("{:?}", end.op) };
    end.op = Op::Stop(stop);

    let mut finished = cut_off.clone();
    finished["progress"] = json!([entry(0, Value::Null, 5), entry(1, json!({"t": {"0": 5}}), 10)]);
    let mut second = read(5);
    (second["firstOffset"], second["lastOffset"]) = (json!(5), json!(9));
    finished["sink"] = json!([first, {"batchId": 1, "readTasks": 1, "rows": [second]}]);
    finished["checkpoint"]["commits/1"] = json!("v1\n{}");
    let stopped = (start, end);
    assert_eq!(setting.end(&stopped, &finished.into()), (vec![rule], vec![]));
    assert!(!setting.end(&stopped, &cut_off.into()).1.is_empty());
}

#[test]
fn golden_a_direct_stream_that_flushed_goes_on_after_its_last_batch() {
    let mut setting = Setting::new();
    let rule = "a direct stream commits what is queued when it stops";
    let ran = |from: i64, records: i64| {
        let range = |from: i64| json!({"topic": "t", "partition": 0, "fromOffset": from, "untilOffset": 25});
        json!({"batches": [{"batch": 0, "offsetRanges": [range(from)], "records": records},
            {"batch": 1, "offsetRanges": [range(25)], "records": 0}], "commitCallbacks": []})
    };
    let stream = json!({"op": "dstream", "topics": ["t"], "group": "g", "autoOffsetReset": "earliest", "batches": 2,
        "commit": true, "result": ran(0, 25)});
    let offsets = json!({"op": "groupOffsets", "group": "g", "result": {}});
    let steps = steps(&format!("{stream},{offsets}"));
    assert_eq!(setting.batch(&steps[0], &ran(0, 25).into()), (vec![], vec![]));
    setting.flushed.insert("g".to_owned(), dstream::ends(&ran(0, 25)));
    assert_eq!(setting.batch(&steps[1], &json!({"t-0": 25}).into()), (vec![rule], vec![]));
    assert_eq!(setting.batch(&steps[1], &json!({}).into()).1.len(), 1);
    assert_eq!(setting.batch(&steps[0], &ran(25, 0).into()), (vec![rule], vec![]));
    assert_eq!(setting.batch(&steps[0], &ran(0, 25).into()).1.len(), 2);
}

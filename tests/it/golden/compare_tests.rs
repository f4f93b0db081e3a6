//! That the comparison can fail: each kind of wrong answer is reported with its place.

use serde_json::{Value, json};

use super::answer::{Answer, Failure};
use super::compare::differences;
use super::scenario::{Compare, End, Op, Read};

fn end() -> Op {
    let timeout = std::time::Duration::ZERO;
    Op::AwaitTermination(End { query: "q".to_owned(), full_progress: false, checkpoint_dump: true, timeout })
}

fn entry(batch_id: i64, start: Value, end: i64) -> Value {
    json!({"batchId": batch_id, "numInputRows": 10, "startOffset": start, "endOffset": {"t": {"0": end}},
        "latestOffset": {"t": {"0": 20}}, "metrics": {"avgOffsetsBehindLatest": "10.0"}})
}

fn batch(batch_id: i64, first: i64) -> Value {
    json!({"batchId": batch_id, "readTasks": 1,
        "rows": [{"topic": "t", "partition": 0, "firstOffset": first, "lastOffset": first + 9, "rows": 10, "tasks": 1}]})
}

fn offsets(end: i64) -> String {
    format!("v1\n{{\"batchWatermarkMs\":0,\"batchTimestampMs\":0,\"conf\":{{}}}}\n{{\"t\":{{\"0\":{end}}}}}")
}

fn answer() -> Value {
    json!({
        "progress": [entry(0, Value::Null, 10), entry(1, json!({"t": {"0": 10}}), 20)],
        "sink": [batch(0, 0), batch(1, 10)],
        "checkpoint": {"metadata": "{\"id\":\"<uuid>\"}", "offsets/0": offsets(10), "offsets/1": offsets(20),
            "commits/0": "v1\n{\"nextBatchWatermarkMs\":0}", "commits/1": "v1\n{\"nextBatchWatermarkMs\":0}"},
    })
}

/// The complaints about the answer after a change to it.
fn after(compare: Compare, change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut got = answer();
    change(&mut got);
    differences(compare, &end(), &answer(), &got.into())
}

#[test]
fn golden_the_same_answer_has_no_difference() {
    assert!(after(Compare::Exact, |_| {}).is_empty());
    assert!(after(Compare::Final, |_| {}).is_empty());
    assert!(after(Compare::Info, |_| {}).is_empty());
    let text_only = after(Compare::Exact, |got| {
        got["checkpoint"]["metadata"] = json!("{\"id\":\"11111111-2222-3333-4444-555555555555\"}");
        got["progress"][0]["metrics"]["avgOffsetsBehindLatest"] = json!("10");
    });
    assert!(text_only.is_empty(), "{text_only:?}");
}

#[test]
fn golden_a_wrong_count_id_or_offset_is_a_difference() {
    let wrong = |change: &dyn Fn(&mut Value)| after(Compare::Exact, change);
    assert_eq!(
        wrong(&|got| got["progress"][1]["numInputRows"] = json!(9)),
        ["progress[1].numInputRows: 9, expected 10"]
    );
    assert_eq!(wrong(&|got| got["progress"][1]["batchId"] = json!(2)), ["progress[1].batchId: 2, expected 1"]);
    assert_eq!(
        wrong(&|got| got["progress"][0]["startOffset"] = json!({"t": {"0": 0}})),
        ["progress[0].startOffset: {\"t\":{\"0\":0}}, expected null"]
    );
    assert_eq!(
        wrong(&|got| got["progress"][0]["metrics"]["avgOffsetsBehindLatest"] = json!("10.5")),
        ["progress[0].metrics.avgOffsetsBehindLatest: 10.5, expected 10.0"]
    );
    assert_eq!(wrong(&|got| got["sink"][0]["rows"][0]["rows"] = json!(11)), ["sink[0].rows[0].rows: 11, expected 10"]);
    assert_eq!(wrong(&|got| got["sink"][0]["readTasks"] = json!(2)), ["sink[0].readTasks: 2, expected 1"]);
    assert_eq!(wrong(&|got| got["sink"][1]["batchId"] = json!(7)), ["sink[1].batchId: 7, expected 1"]);
}

#[test]
fn golden_a_batch_too_many_or_too_few_is_a_difference() {
    let more = after(Compare::Exact, |got| {
        got["progress"].as_array_mut().expect("a list").push(entry(2, json!({"t": {"0": 20}}), 20));
        got["sink"].as_array_mut().expect("a list").push(batch(2, 20));
    });
    assert_eq!(more, ["progress: 3 entries, expected 2", "sink: 3 batches, expected 2"]);
    let fewer = after(Compare::Exact, |got| drop(got["sink"].as_array_mut().expect("a list").pop()));
    assert_eq!(fewer, ["sink: 1 batches, expected 2"]);
}

#[test]
fn golden_a_file_that_is_missing_extra_or_other_is_a_difference() {
    let files = |change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
        after(Compare::Exact, |got| change(got["checkpoint"].as_object_mut().expect("files")))
    };
    assert_eq!(files(&|files| drop(files.shift_remove("commits/1"))), ["checkpoint: commits/1 is missing"]);
    assert_eq!(
        files(&|files| drop(files.insert("offsets/2".to_owned(), offsets(30).into()))),
        ["checkpoint: offsets/2 is there, and not with Spark"]
    );
    assert_eq!(
        files(&|files| drop(files.insert("offsets/1".to_owned(), offsets(19).into()))),
        ["checkpoint offsets/1, line[2].t.0: 19, expected 20"]
    );
}

#[test]
fn golden_batches_may_be_cut_elsewhere_only_where_the_scenario_says_so() {
    let cut = |got: &mut Value| {
        got["progress"] = json!([entry(0, Value::Null, 20)]);
        got["sink"] = json!([{"batchId": 0, "readTasks": 1,
            "rows": [{"topic": "t", "partition": 0, "firstOffset": 0, "lastOffset": 19, "rows": 20, "tasks": 1}]}]);
        got["checkpoint"] = json!({"metadata": "{\"id\":\"<uuid>\"}", "offsets/0": offsets(20),
            "commits/0": "v1\n{\"nextBatchWatermarkMs\":0}"});
    };
    assert!(after(Compare::Final, cut).is_empty());
    assert!(!after(Compare::Exact, cut).is_empty());
    let lost = after(Compare::Final, |got| drop(got["sink"].as_array_mut().expect("a list").pop()));
    assert_eq!(
        lost,
        ["rows of all batches.t-0.lastOffset: 9, expected 19", "rows of all batches.t-0.rows: 10, expected 20"]
    );
    let behind = after(Compare::Final, |got| got["progress"][1]["endOffset"]["t"]["0"] = json!(19));
    assert_eq!(behind, ["last endOffset.t.0: 19, expected 20"]);
    let pending = after(Compare::Final, |got| {
        drop(got["checkpoint"].as_object_mut().expect("files").shift_remove("commits/1"));
    });
    assert_eq!(pending, ["the last batch is not committed: true, expected false"]);
}

#[test]
fn golden_failing_or_not_is_a_difference() {
    let failure = || Failure { condition: "SINK_FAILED".to_owned(), message: "full".to_owned() };
    let failed = Answer { value: answer(), failure: Some(failure()) };
    assert_eq!(
        differences(Compare::Exact, &end(), &answer(), &failed),
        ["failed, and Spark does not: full (SINK_FAILED)"]
    );
    let batch = Op::Batch(Read::default());
    let expected = json!({"error": [{"class": "x.NumberFormatException", "message": "For input string: \"a\""}]});
    let found = differences(Compare::Exact, &batch, &expected, &json!({"rows": []}).into());
    assert!(found.len() == 1 && found[0].starts_with("did not fail; expected"), "{found:?}");
}

#[test]
fn golden_a_field_that_nobody_compares_is_a_difference() {
    let mut expected = answer();
    expected["progress"][0]["state"] = json!({"numRowsTotal": 5});
    expected["sink"][0]["out"] = json!([]);
    let found = differences(Compare::Exact, &end(), &expected, &answer().into());
    assert_eq!(found, ["progress[0]: nothing compares the field state", "nothing compares the field out"]);
}

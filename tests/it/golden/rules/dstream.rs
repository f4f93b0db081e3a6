//! Rules about the direct-stream API.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Case;
use crate::golden::compare::list;
use crate::golden::scenario::Op;

/// Offsets by `topic-partition`, as the scenarios show a group's.
pub(in crate::golden) type GroupOffsets = BTreeMap<String, i64>;

/// Where a direct stream that committed every batch left its group, by its (rewritten) answer.
pub(in crate::golden) fn ends(answer: &Value) -> GroupOffsets {
    let ranges = list(&answer["batches"]).iter().flat_map(|batch| list(&batch["offsetRanges"]));
    ranges.map(|range| (partition(range), range["untilOffset"].as_i64().unwrap_or_default())).collect()
}

fn partition(range: &Value) -> String {
    format!("{}-{}", range["topic"].as_str().unwrap_or_default(), range["partition"])
}

pub(super) fn flushed_at_stop(case: &Case<'_>, expected: &mut Value) -> bool {
    match case.op {
        Op::GroupOffsets { group } => {
            let Some(flushed) = case.flushed.get(group) else { return false };
            let before = expected.clone();
            if let Some(offsets) = expected.as_object_mut() {
                offsets.extend(
                    flushed.iter().map(|(partition, offset)| (partition.clone(), json!(offset))).collect::<Map<_, _>>(),
                );
            }
            *expected != before
        }
        Op::Dstream(step) => case.flushed.get(&step.group).is_some_and(|flushed| begin_at(flushed, expected)),
        _ => false,
    }
}

/// What was committed before is not read again.
fn begin_at(flushed: &GroupOffsets, expected: &mut Value) -> bool {
    let mut moved = false;
    for batch in expected["batches"].as_array_mut().into_iter().flatten() {
        let mut skipped = 0;
        for range in batch["offsetRanges"].as_array_mut().into_iter().flatten() {
            let Some(offset) = flushed.get(&partition(range)) else { continue };
            let at = |name: &str| range[name].as_i64().unwrap_or_default();
            let (from, until) = (at("fromOffset"), at("untilOffset"));
            skipped += until.min(*offset) - from.min(*offset);
            (range["fromOffset"], range["untilOffset"]) = (json!(from.max(*offset)), json!(until.max(*offset)));
        }
        if skipped > 0 {
            batch["records"] = json!(batch["records"].as_i64().unwrap_or_default() - skipped);
            moved = true;
        }
    }
    moved
}

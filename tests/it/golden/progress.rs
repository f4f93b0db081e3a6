//! Compares progress entries: the numbers, and of the whole JSON its shape, since times and ids differ from run to run.

use serde_json::{Map, Value, json};

use super::compare::{list, same};

/// The places where two entries differ.
pub(super) fn differences(at: &str, expected: &Value, got: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let names = ["batchId", "numInputRows", "startOffset", "endOffset", "latestOffset", "metrics", "full"];
    for name in expected.as_object().into_iter().flat_map(Map::keys).filter(|name| !names.contains(&name.as_str())) {
        found.push(format!("{at}: nothing compares the field {name}"));
    }
    for name in ["batchId", "numInputRows", "startOffset", "endOffset", "latestOffset"] {
        same(&format!("{at}.{name}"), &expected[name], &got[name], &mut found);
    }
    same(&format!("{at}.metrics"), &numbers(&expected["metrics"]), &numbers(&got["metrics"]), &mut found);
    if !expected["full"].is_null() {
        let at = format!("{at}.full");
        same(&at, &shape(&expected["full"]), &shape(&got["full"]), &mut found);
        for (i, (wanted, source)) in
            list(&expected["full"]["sources"]).iter().zip(list(&got["full"]["sources"])).enumerate()
        {
            for name in ["description", "startOffset", "endOffset", "latestOffset", "numInputRows"] {
                same(&format!("{at}.sources[{i}].{name}"), &wanted[name], &source[name], &mut found);
            }
        }
        for name in ["name", "batchId", "numInputRows", "stateOperators"] {
            same(&format!("{at}.{name}"), &expected["full"][name], &got["full"][name], &mut found);
        }
        let rows = |value: &Value| value["full"]["sink"]["numOutputRows"].clone();
        same(&format!("{at}.sink.numOutputRows"), &rows(expected), &rows(got), &mut found);
    }
    found
}

/// Metrics are numbers written as text; the text's form counts for nothing.
fn numbers(metrics: &Value) -> Value {
    let number = |value: &Value| match value.as_str().and_then(|text| text.parse::<f64>().ok()) {
        // What is left of a sum over a count after other roundings is the same number.
        Some(number) => json!((number * 1e6).round() / 1e6),
        None => value.clone(),
    };
    let metrics = metrics.as_object().into_iter().flatten();
    metrics.map(|(name, value)| (name.clone(), number(value))).collect::<Map<_, _>>().into()
}

/// A value with each number and text replaced by its type. Offsets are compared elsewhere, and have other keys in each scenario.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(name, _)| !name.ends_with("Offset") || *name == "latestOffset");
            kept.map(|(name, value)| (name.clone(), if name == "latestOffset" { json!("map") } else { shape(value) }))
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(values) => values.iter().map(shape).collect(),
        Value::String(_) => json!("text"),
        Value::Number(_) => json!("number"),
        Value::Null | Value::Bool(_) => value.clone(),
    }
}

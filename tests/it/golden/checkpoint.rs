//! A checkpoint folder's files as text, and as what their text means.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::scenario::Result;

/// The files under `folder` by their relative names, those of Ottla alone and Hadoop's checksums left out; empty if it isn't there.
pub(super) fn files(folder: &Path) -> Result<Value> {
    let mut found = Map::new();
    if folder.is_dir() {
        collect(folder, "", &mut found)?;
    }
    Ok(found.into())
}

fn collect(folder: &Path, prefix: &str, found: &mut Map<String, Value>) -> Result<()> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if name == "ottla" || name.ends_with(".crc") {
            continue;
        }
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{name}/"), found)?;
        } else {
            let bytes = fs::read(entry.path()).map_err(failed)?;
            found.insert(name, String::from_utf8_lossy(&bytes).into());
        }
    }
    Ok(())
}

/// A file's lines, JSON as maps, without what differs from run to run: ids, the time of the trigger, Spark's settings.
pub(super) fn meaning(name: &str, text: &str) -> Value {
    let lines = text.split('\n').enumerate().map(|(number, line)| {
        let Ok(mut parsed) = serde_json::from_str::<Value>(line) else { return json!(line) };
        if name == "metadata" && parsed["id"].is_string() {
            parsed["id"] = json!("<uuid>");
        }
        if name.starts_with("offsets/") && number == 1 && parsed.is_object() {
            parsed["batchTimestampMs"] = json!(0);
            parsed["conf"] = json!({});
        }
        parsed
    });
    lines.collect()
}

/// The offsets that `offsets/N` holds of the only source.
pub(super) fn offsets(files: &Value, batch_id: i64) -> Option<Value> {
    let text = files[format!("offsets/{batch_id}")].as_str()?;
    serde_json::from_str(text.split('\n').nth(2)?).ok()
}

/// The newest batch in `offsets` or `commits`.
pub(super) fn newest(files: &Value, log: &str) -> Option<i64> {
    let names = files.as_object()?.keys();
    names.filter_map(|name| name.strip_prefix(log)?.strip_prefix('/')?.parse().ok()).max()
}

/// Complaints about a folder that is no checkpoint of a query that ran: for answers of which only the layout is taken.
pub(super) fn layout(files: &Value) -> Vec<String> {
    let none = Map::new();
    let mut wrong = Vec::new();
    let mut logs = BTreeMap::from([("offsets", 0), ("commits", 0)]);
    for (name, text) in files.as_object().unwrap_or(&none) {
        let lines: Vec<&str> = text.as_str().unwrap_or_default().split('\n').collect();
        let is_object = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|v| v.is_object());
        let (log, id) = name.split_once('/').unwrap_or((name, ""));
        let right = match (log, lines.as_slice()) {
            ("metadata", [id]) => is_object(id),
            ("sources", _) => true,
            ("offsets", ["v1", metadata, offsets]) => {
                (metadata.is_empty() || is_object(metadata)) && is_object(offsets) && id.parse::<i64>().is_ok()
            }
            ("commits", ["v1", metadata]) => is_object(metadata) && id.parse::<i64>().is_ok(),
            _ => false,
        };
        if !right {
            wrong.push(format!("checkpoint: {name} is {text}"));
        }
        if let Some(count) = logs.get_mut(log) {
            *count += 1;
        }
    }
    wrong
        .extend(logs.iter().filter(|(_, count)| **count == 0).map(|(log, _)| format!("checkpoint: nothing in {log}/")));
    if files["metadata"].is_null() {
        wrong.push("checkpoint: no metadata".to_owned());
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_the_meaning_of_a_file_keeps_all_but_ids_times_and_settings() {
        let one = meaning(
            "offsets/3",
            "v1\n{\"batchWatermarkMs\":0,\"batchTimestampMs\":17,\"conf\":{\"a\":\"b\"}}\n{\"t\":{\"1\":5,\"0\":4}}",
        );
        let same = meaning(
            "offsets/3",
            "v1\n{\"batchTimestampMs\":0,\"batchWatermarkMs\":0,\"conf\":{}}\n{\"t\":{\"0\":4,\"1\":5}}",
        );
        assert_eq!(one, same);
        for other in [
            "v1\n{\"batchWatermarkMs\":1,\"batchTimestampMs\":0,\"conf\":{}}\n{\"t\":{\"0\":4,\"1\":5}}",
            "v1\n{\"batchWatermarkMs\":0,\"batchTimestampMs\":0,\"conf\":{}}\n{\"t\":{\"0\":4,\"1\":6}}",
            "v1\n{\"batchWatermarkMs\":0,\"batchTimestampMs\":0,\"conf\":{}}\n{\"t\":{\"0\":4,\"1\":5}}\n",
            "v2\n{\"batchWatermarkMs\":0,\"batchTimestampMs\":0,\"conf\":{}}\n{\"t\":{\"0\":4,\"1\":5}}",
        ] {
            assert_ne!(one, meaning("offsets/3", other));
        }
        assert_ne!(meaning("sources/0/0", "\0v1\n{}"), meaning("sources/0/0", "v1\n{}"));
    }

    #[test]
    fn golden_a_layout_can_be_wrong() {
        let right = json!({"metadata": "{\"id\":\"x\"}", "offsets/0": "v1\n\n{\"t\":{}}", "commits/0": "v1\n{}"});
        assert_eq!(layout(&right), Vec::<String>::new());
        let mut cut = right.clone();
        cut["offsets/0"] = json!("v1\n");
        assert_eq!(layout(&cut), ["checkpoint: offsets/0 is \"v1\\n\""]);
        assert_eq!(layout(&json!({})).len(), 3);
    }
}

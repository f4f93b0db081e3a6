//! A checkpoint folder's files as text, and as what their text means.

use std::collections::BTreeSet;
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

/// Complaints about a folder whose files lie elsewhere, or are made of other lines, than the expected ones: how many there are and what
/// numbers stand in them doesn't count.
pub(super) fn layout(expected: &Value, got: &Value) -> Vec<String> {
    let (wanted, found) = (kinds(expected), kinds(got));
    let missing = wanted.difference(&found).map(|(log, lines)| format!("checkpoint: no file in {log} is {lines:?}"));
    let others = found.difference(&wanted).map(|(log, lines)| format!("checkpoint: a file in {log} is {lines:?}"));
    missing.chain(others).collect()
}

/// The kinds of files there are: the folder, and the lines without what stands in their JSON.
fn kinds(files: &Value) -> BTreeSet<(String, Vec<String>)> {
    let files = files.as_object().into_iter().flatten();
    let kind = |(name, text): (&String, &Value)| {
        let lines = text.as_str().unwrap_or_default().split('\n');
        let line = |line: &str| match serde_json::from_str(line) {
            Ok(Value::Object(_)) => "{…}".to_owned(),
            _ => line.to_owned(),
        };
        (name.rsplit_once('/').map_or(name.as_str(), |(folder, _)| folder).to_owned(), lines.map(line).collect())
    };
    files.map(kind).collect()
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
        let files = |offsets: &str| json!({"metadata": "{\"id\":\"x\"}", "offsets/7": offsets, "commits/7": "v1\n{}"});
        let expected = files("v1\n\n{\"t\":{}}");
        let mut more = files("v1\n\n{\"t\":{\"0\":5}}");
        more["offsets/8"] = more["offsets/7"].clone();
        assert_eq!(layout(&expected, &more), Vec::<String>::new());
        let cut = layout(&expected, &files("v1\n"));
        assert_eq!(
            cut,
            [
                r#"checkpoint: no file in offsets is ["v1", "", "{…}"]"#,
                r#"checkpoint: a file in offsets is ["v1", ""]"#
            ]
        );
        assert_eq!(layout(&expected, &json!({})).len(), 3);
    }
}

//! The golden vectors: what the index holds, and who tests which entry. `OTTLA_VECTORS` names another folder of the same form.

use serde_json::Value;
use std::fmt;
use std::io::{Read, Write};
use std::path::PathBuf;

/// The folder of the vectors.
pub(crate) fn testdata() -> PathBuf {
    std::env::var_os("OTTLA_VECTORS")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata")), PathBuf::from)
}

/// One entry of the index.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) bin: String,
    pub(crate) json: String,
    /// The size of the vector itself, before it was stored gzipped.
    pub(crate) bytes: usize,
    pub(crate) what: String,
    pub(crate) tags: Vec<String>,
    /// How the vector is stored, if not as it is.
    pub(crate) stored_encoding: Option<String>,
}

/// All entries of the index, in its order.
pub(crate) fn index() -> Vec<Entry> {
    let path = testdata().join("index.json");
    let text = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let index: Value = serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let entries = index["entries"].as_array().expect("the index has entries");
    entries
        .iter()
        .map(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap_or_else(|| panic!("{key} of {entry}")).to_owned();
            Entry {
                kind: text("kind"),
                name: text("name"),
                bin: text("bin"),
                json: text("json"),
                bytes: entry["bytes"].as_u64().and_then(|n| n.try_into().ok()).expect("bytes"),
                what: entry["what"].as_str().unwrap_or_default().to_owned(),
                tags: entry["tags"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
                stored_encoding: entry["stored_encoding"].as_str().map(str::to_owned),
            }
        })
        .collect()
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({}; tags {:?})", self.kind, self.name, self.what, self.tags)
    }
}

impl Entry {
    /// The vector.
    pub(crate) fn read_bin(&self) -> Vec<u8> {
        let path = testdata().join(&self.bin);
        let stored = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let bytes = match self.stored_encoding.as_deref() {
            None => stored,
            Some("gzip") => {
                let mut bytes = Vec::new();
                flate2::read::MultiGzDecoder::new(&stored[..]).read_to_end(&mut bytes).expect("gzip");
                bytes
            }
            Some(other) => panic!("{}: stored_encoding {other}", self.name),
        };
        assert_eq!(bytes.len(), self.bytes, "{self}: not the vector that the index means");
        bytes
    }

    /// What is expected of it.
    pub(crate) fn read_json(&self) -> Value {
        let path = testdata().join(&self.json);
        let text = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Which test file has to run it.
    pub(crate) fn area(&self) -> Area {
        match self.kind.as_str() {
            "api" | "live" => Area::Messages,
            "records" => Area::Records,
            "malformed" => match &self.read_json()["items"][0] {
                item if item["api"].is_string() || item["size_field"].is_number() => Area::Messages,
                _ => Area::Records,
            },
            kind => panic!("{}: no test knows vectors of kind {kind}", self.name),
        }
    }
}

/// Who tests an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Area {
    /// Frames, headers and messages: `tests/messages`.
    Messages,
    /// Record batches and message sets: `tests/records`.
    Records,
}

/// The entries of one area.
pub(crate) fn entries(area: Area) -> Vec<Entry> {
    index().into_iter().filter(|entry| entry.area() == area).collect()
}

/// Prints a line that is shown for passing tests too.
pub(crate) fn report(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

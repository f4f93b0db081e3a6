//! `offsets/N`: where batch N ends, written before any of its work is done.
//!
//! ```text
//! v1
//! {"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{"spark.sql.shuffle.partitions":"200"}}      or an empty line
//! {"topic":{"0":23,"1":5}}                                                                                  source 0; `-` for none
//! ...                                                                                                       one line a source
//! ```
//! Version 2, which Spark writes only where sources may change, has `id:` before each source's JSON.

use super::{CheckpointError, CheckpointErrorKind, Offsets, OwnEntry, log};
use crate::SourceOffset;
use serde_json::{Map, Value};
use std::path::Path;

pub(super) const SHUFFLE_PARTITIONS: &str = "spark.sql.shuffle.partitions";
const SHUFFLE_PARTITIONS_DEFAULT: &str = "200";
const VERSION_MAX: u32 = 2;
/// What stands for a source that has no offsets yet.
const NO_OFFSETS: &str = "-";

/// One batch of the offset log.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct OffsetsEntry {
    /// The metadata line; `None`, an empty line, is what continuous mode writes.
    pub(crate) metadata: Option<OffsetsMetadata>,
    /// Where the batch ends, by source; `None` where a source has no offsets yet.
    pub(crate) sources: Vec<Option<Offsets>>,
    /// What lies in our own file beside it.
    pub(crate) own: Option<OwnEntry>,
}

/// The metadata line of an offsets file.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct OffsetsMetadata {
    /// The watermark of the batch, milliseconds since the epoch.
    pub(crate) batch_watermark_ms: i64,
    /// When the batch was planned, milliseconds since the epoch.
    pub(crate) batch_timestamp_ms: i64,
    /// Spark's settings, kept as they are.
    pub(crate) conf: Map<String, Value>,
}

impl OffsetsMetadata {
    pub(super) fn has_shuffle_partitions(&self) -> bool {
        self.conf.contains_key(SHUFFLE_PARTITIONS)
    }

    /// Spark can't go on from a pending batch without this setting.
    pub(super) fn ensure_shuffle_partitions(&mut self) {
        self.conf.entry(SHUFFLE_PARTITIONS).or_insert_with(|| SHUFFLE_PARTITIONS_DEFAULT.into());
    }

    fn parse(line: &str) -> Result<Self, String> {
        let Value::Object(mut fields) = serde_json::from_str(line).map_err(|error| error.to_string())? else {
            return Err("the metadata is no JSON object".to_owned());
        };
        let mut number = |name: &str| match fields.remove(name) {
            None => Ok(0),
            Some(value) => value.as_i64().ok_or_else(|| format!("\"{name}\" is {value}, not a whole number")),
        };
        let (batch_watermark_ms, batch_timestamp_ms) = (number("batchWatermarkMs")?, number("batchTimestampMs")?);
        let conf = match fields.remove("conf") {
            None => Map::new(),
            Some(Value::Object(conf)) => conf,
            Some(value) => return Err(format!("\"conf\" is {value}, not an object")),
        };
        Ok(Self { batch_watermark_ms, batch_timestamp_ms, conf })
    }

    fn write(&self) -> String {
        let fields = [
            ("batchWatermarkMs".to_owned(), self.batch_watermark_ms.into()),
            ("batchTimestampMs".to_owned(), self.batch_timestamp_ms.into()),
            ("conf".to_owned(), Value::Object(self.conf.clone())),
        ];
        Value::Object(Map::from_iter(fields)).to_string()
    }
}

impl OffsetsEntry {
    /// The text of the file.
    pub(super) fn write(&self) -> String {
        let mut text = format!("v1\n{}", self.metadata.as_ref().map(OffsetsMetadata::write).unwrap_or_default());
        for source in &self.sources {
            text.push('\n');
            match source {
                Some(offsets) => text.push_str(&write_offsets(offsets)),
                None => text.push_str(NO_OFFSETS),
            }
        }
        text
    }

    /// Reads the text of the file `path`, of a query with `sources` sources.
    pub(super) fn parse(path: &Path, bytes: &[u8], sources: usize) -> Result<Self, CheckpointError> {
        let lines = OffsetsLines::parse(path, bytes)?;
        if lines.sources.len() != sources {
            let kind = CheckpointErrorKind::Sources { found: lines.sources.len(), expected: sources };
            return Err(CheckpointError::new(path, kind));
        }
        let sources = lines.sources.into_iter().collect::<Result<_, _>>()?;
        Ok(Self { metadata: lines.metadata, sources, own: None })
    }
}

/// An offsets file, whatever the number of its sources and whether they are Kafka's.
pub(super) struct OffsetsLines {
    metadata: Option<OffsetsMetadata>,
    /// By source.
    pub(super) sources: Vec<Result<Option<Offsets>, CheckpointError>>,
}

impl OffsetsLines {
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, CheckpointError> {
        let text = log::text(path, bytes)?;
        let error = |kind| CheckpointError::new(path, kind);
        let (version, rest) = log::version(path, text, VERSION_MAX)?;
        let Some(rest) = rest else {
            return Err(error(CheckpointErrorKind::Incomplete { reason: "it ends after the version".to_owned() }));
        };
        let malformed = |line, reason| error(CheckpointErrorKind::Malformed { line, reason });
        let mut lines = rest.lines();
        let metadata = match lines.next().unwrap_or_default().trim() {
            "" if version > 1 => return Err(malformed(2, format!("version {version} needs its metadata"))),
            "" => None,
            line => Some(OffsetsMetadata::parse(line).map_err(|reason| malformed(2, reason))?),
        };
        let mut numbered = Vec::new();
        for (index, line) in lines.enumerate() {
            let (id, json) = if version == 1 { ("", line) } else { split_id(line) };
            // An id that is no number sorts by its place.
            let order = id.parse().unwrap_or(index);
            let offsets = if json.trim() == NO_OFFSETS { Ok(None) } else { parse_offsets(json).map(Some) };
            numbered.push((order, offsets.map_err(|reason| malformed(index.saturating_add(3), reason))));
        }
        numbered.sort_by_key(|(order, _)| *order);
        Ok(Self { metadata, sources: numbered.into_iter().map(|(_, offsets)| offsets).collect() })
    }
}

/// `id:json` of version 2.
fn split_id(line: &str) -> (&str, &str) {
    line.split_once(':').filter(|(id, _)| !id.contains('{')).unwrap_or(("", line))
}

/// Reads offsets of a checkpoint, which are numbers from 0 on.
pub(super) fn parse_offsets(json: &str) -> Result<Offsets, String> {
    let offsets: SourceOffset = json.trim().parse().map_err(|error: crate::OptionError| error.to_string())?;
    if let Some((partition, offset)) = offsets.iter().find(|(_, offset)| *offset < 0) {
        return Err(format!("{offset} of {partition} is no offset: a checkpoint holds numbers from 0 on"));
    }
    Ok(offsets.iter().collect())
}

pub(super) fn write_offsets(offsets: &Offsets) -> String {
    debug_assert!(
        offsets.values().all(|offset| *offset >= 0),
        "latest and earliest are resolved before they are stored"
    );
    let offsets: SourceOffset = offsets.iter().map(|(partition, offset)| (partition.clone(), *offset)).collect();
    offsets.to_string()
}

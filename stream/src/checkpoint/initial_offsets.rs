//! `sources/N/0`: where source N began, as numbers: a zero byte, `v1`, and the offsets. Spark 2.1.0 wrote the zero byte and the offsets
//! only.

use super::{
    CheckpointError, CheckpointErrorKind, Offsets, log,
    offset_log::{parse_offsets, write_offsets},
};
use std::path::Path;

const VERSION_MAX: u32 = 1;

pub(super) fn write(offsets: &Offsets) -> String {
    format!("\0v1\n{}", write_offsets(offsets))
}

pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Offsets, CheckpointError> {
    let text = log::text(path, bytes)?;
    let error = |kind| CheckpointError::new(path, kind);
    let mut rest = text.chars();
    // Whatever the first byte is, it is not looked at, as in Spark.
    rest.next();
    let rest = rest.as_str();
    let (line, json) = if rest.starts_with('v') {
        let (_, json) = log::version(path, rest, VERSION_MAX)?;
        let reason = || "it ends after the version".to_owned();
        (2, json.ok_or_else(|| error(CheckpointErrorKind::Incomplete { reason: reason() }))?)
    } else {
        (1, rest)
    };
    if json.trim().is_empty() {
        return Err(error(CheckpointErrorKind::Incomplete { reason: "it holds no offsets".to_owned() }));
    }
    parse_offsets(json).map_err(|reason| error(CheckpointErrorKind::Malformed { line, reason }))
}

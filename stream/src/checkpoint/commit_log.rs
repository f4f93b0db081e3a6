//! `commits/N`: batch N is done. `v1`, then `{"nextBatchWatermarkMs":0}`; the second line may be `{}` or missing.

use super::{CheckpointError, CheckpointErrorKind, log};
use serde_json::Value;
use std::path::Path;

const VERSION_MAX: u32 = 3;
const WATERMARK: &str = "nextBatchWatermarkMs";

/// The text of a commit.
pub(super) fn write(next_batch_watermark_ms: i64) -> String {
    format!("v1\n{{\"{WATERMARK}\":{next_batch_watermark_ms}}}")
}

/// The watermark in a commit, milliseconds since the epoch.
pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<i64, CheckpointError> {
    let text = log::text(path, bytes)?;
    let (_, rest) = log::version(path, text, VERSION_MAX)?;
    let json = rest.unwrap_or_default().trim();
    if json.is_empty() {
        return Ok(0);
    }
    let malformed = |reason| CheckpointError::new(path, CheckpointErrorKind::Malformed { line: 2, reason });
    let fields: Value = serde_json::from_str(json).map_err(|error| malformed(error.to_string()))?;
    match (fields.is_object(), fields.get(WATERMARK)) {
        (false, _) => Err(malformed("it is no JSON object".to_owned())),
        (true, None) => Ok(0),
        (true, Some(value)) => {
            value.as_i64().ok_or_else(|| malformed(format!("\"{WATERMARK}\" is {value}, not a whole number")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_may_leave_its_watermark_out() {
        let parse = |text: &str| parse(Path::new("commits/0"), text.as_bytes());
        assert_eq!(parse(&write(7)).unwrap(), 7);
        for (text, watermark) in [
            ("v1\n{}", 0),
            ("v1\n", 0),
            ("v1", 0),
            ("v2\n{\"nextBatchWatermarkMs\":5,\"stateUniqueIds\":{}}", 5),
            ("v3\n{\"nextBatchWatermarkMs\":6}", 6),
        ] {
            assert_eq!(parse(text).unwrap(), watermark, "{text}");
        }
        for (text, condition) in [
            ("", "INCOMPLETE_LOG_FILE"),
            ("v4\n{}", "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION"),
            ("{}", "INVALID_LOG_VERSION"),
            ("v1\n[]", "MALFORMED_LOG_FILE"),
            ("v1\n{\"nextBatch", "MALFORMED_LOG_FILE"),
            ("v1\n{\"nextBatchWatermarkMs\":\"1\"}", "MALFORMED_LOG_FILE"),
        ] {
            assert_eq!(parse(text).unwrap_err().condition(), condition, "{text}");
        }
    }
}

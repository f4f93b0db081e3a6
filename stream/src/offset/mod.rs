//! Offsets as values: ranges, maps in Spark's JSON, and what the start and end options say.

mod json;
mod limit;
mod range;
pub(crate) mod source_offset;

pub use limit::{OffsetRangeLimit, PartitionTimestamps};
pub use range::OffsetRange;
pub use source_offset::SourceOffset;

pub(crate) use json::assignment;

//! Offsets as values: ranges, maps in Spark's JSON, and what the start and end options say.

mod json;
mod limit;
mod range;
mod reader;
pub(crate) mod source_offset;
mod stored;

pub use limit::{OffsetRangeLimit, PartitionTimestamps};
pub use range::OffsetRange;
pub use source_offset::SourceOffset;

pub(crate) use json::assignment;
pub(crate) use limit::looks_like_seconds;
pub(crate) use reader::{End, Latest, OffsetReader, was_stopped};
pub(crate) use stored::Begin;

/// The next offset to read of each partition.
pub(crate) type Offsets = std::collections::BTreeMap<ottla_client::TopicPartition, i64>;

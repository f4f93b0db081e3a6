//! One record, as a view into the batch it came in.

use super::Headers;

/// What a record's timestamp means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TimestampType {
    /// Message format 0, which has no timestamps. Spark's number for it is -1.
    NoTimestamp,
    /// The producer's time. Spark's number for it is 0.
    CreateTime,
    /// The broker's time when it appended the batch. Spark's number for it is 1.
    LogAppendTime,
}

/// One record. Everything borrows from the batch (or from its inflated scratch), so that reading a record copies nothing.
#[derive(Clone, Copy, Debug)]
pub struct Record<'b> {
    /// The record's offset in its partition.
    pub offset: i64,
    /// Milliseconds since the epoch; -1 if the record has none.
    pub timestamp: i64,
    /// What `timestamp` means.
    pub timestamp_type: TimestampType,
    /// The key; `None` is null, which is not the same as empty.
    pub key: Option<&'b [u8]>,
    /// The value; `None` is null, a tombstone on compacted topics.
    pub value: Option<&'b [u8]>,
    /// The headers, parsed when they are iterated.
    pub headers: Headers<'b>,
}

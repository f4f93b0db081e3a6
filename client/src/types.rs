//! The words of this layer: nodes, partitions, offsets.

use ottla_protocol::{ErrorCode, Uuid};
use std::fmt;

/// A broker's `node.id`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(pub i32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A partition of a topic; written `topic-partition`, as Kafka and Spark do.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: String,
    /// The partition's index.
    pub partition: i32,
}

impl TopicPartition {
    /// The partition `partition` of `topic`.
    pub fn new(topic: impl Into<String>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Which records a reader sees, and where a partition ends for it (KIP-98).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum IsolationLevel {
    /// Records of open and aborted transactions too; the end is the high watermark. Kafka's default.
    #[default]
    ReadUncommitted,
    /// Committed records only; the end is the last stable offset.
    ReadCommitted,
}

impl IsolationLevel {
    /// The number on the wire.
    pub fn wire(self) -> i8 {
        match self {
            Self::ReadUncommitted => 0,
            Self::ReadCommitted => 1,
        }
    }
}

/// Which offset of a partition is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum OffsetSpec {
    /// The log start.
    Earliest,
    /// The end: the high watermark, or the last stable offset for [`IsolationLevel::ReadCommitted`].
    Latest,
    /// The first offset whose record has this timestamp (milliseconds since the epoch) or a later one.
    Timestamp(i64),
    /// The record with the largest timestamp (KIP-734).
    MaxTimestamp,
}

impl OffsetSpec {
    /// The `timestamp` field of ListOffsets that asks for it.
    pub(crate) fn wire(self) -> i64 {
        match self {
            Self::Earliest => -2,
            Self::Latest => -1,
            Self::Timestamp(timestamp_ms) => timestamp_ms,
            Self::MaxTimestamp => -3,
        }
    }
}

/// What ListOffsets found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffsetAndTimestamp {
    /// The offset; `None` when no record is as late as the timestamp asked for.
    pub offset: Option<i64>,
    /// The record's timestamp in milliseconds since the epoch; `None` for earliest and latest.
    pub timestamp: Option<i64>,
    /// The leader epoch of that record, if known.
    pub leader_epoch: Option<i32>,
}

/// What a group has committed for a partition, or is to commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OffsetAndMetadata {
    /// The next offset to read.
    pub offset: i64,
    /// The leader epoch of the last record read (KIP-320), if known.
    pub leader_epoch: Option<i32>,
    /// Free text beside it.
    pub metadata: Option<String>,
}

/// What a group has committed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CommittedOffsets {
    /// The offsets, by partition.
    pub offsets: std::collections::BTreeMap<TopicPartition, OffsetAndMetadata>,
    /// Negative numbers that another client stored by mistake: no record has such an offset, so these partitions count as without one. (-1 is
    /// also what the broker says where nothing was committed, and is not among them.)
    pub not_offsets: std::collections::BTreeMap<TopicPartition, i64>,
}

/// A partition's answer to a commit.
pub type CommitResults = std::collections::BTreeMap<TopicPartition, ErrorCode>;

/// A topic's id (KIP-516), `None` where the broker is older than that.
pub(crate) fn known_topic_id(topic_id: Uuid) -> Option<Uuid> {
    (!topic_id.is_zero()).then_some(topic_id)
}

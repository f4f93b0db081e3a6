//! Errors of this layer add topic, partition, offset and batch; data loss has a type of its own.

use crate::{CheckpointError, OffsetRange, OptionError};
use ottla_client::{BudgetHeld, FetchErrorKind, TopicPartition};
use ottla_protocol::{ErrorCode, record::BatchError};
use std::fmt;

/// Result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a read or a query failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A mistake in the options: found before, or without, a broker.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The options don't fit what the cluster has.
    #[error("{message}")]
    Plan {
        /// Spark's name for it where Spark has one.
        condition: &'static str,
        /// What does not fit.
        message: String,
    },
    /// The cluster could not be asked, or refused.
    #[error(transparent)]
    Client(#[from] ottla_client::Error),
    /// A range could not be read.
    #[error(transparent)]
    Read(Box<ReadError>),
    /// Records that were to be read are gone.
    #[error(transparent)]
    DataLoss(#[from] DataLoss),
    /// The read came to its end without having read everything, which is a fault of this program.
    #[error("the read of {} ended early", .range.as_ref().map_or_else(|| "a range".to_owned(), ToString::to_string))]
    Unfinished {
        /// Which range, if that is known.
        range: Option<OffsetRange>,
    },
    /// The checkpoint can't be used, or went wrong under way.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The output failed.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The offsets of some partitions could not be committed.
    #[error("group '{group}' did not take the offsets of {}{}", list(.refused), owned(.refused))]
    Commit {
        /// The group.
        group: String,
        /// The partitions, and what the coordinator said.
        refused: Vec<(TopicPartition, ErrorCode)>,
    },
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        Self::Read(Box::new(error))
    }
}

impl Error {
    /// A name for programs: Spark's where Spark has one.
    pub fn condition(&self) -> &'static str {
        match self {
            Self::Option(error) => error.condition(),
            Self::Plan { condition, .. } => condition,
            Self::Client(ottla_client::Error::UnknownTopic { .. }) => "UNKNOWN_TOPIC_OR_PARTITION",
            Self::Client(ottla_client::Error::UnknownPartition { .. }) => "UNKNOWN_TOPIC_OR_PARTITION",
            Self::Client(ottla_client::Error::NoBroker { .. }) => "NO_BROKER",
            Self::Client(_) => "CLIENT_ERROR",
            Self::Read(error) => match error.source {
                ReadErrorKind::Batch(_) => "CORRUPT_BATCH",
                ReadErrorKind::Fetch(FetchErrorKind::NoData { .. }) => "FETCH_TIMEOUT",
                ReadErrorKind::BudgetHeld(_) => "BUDGET_HELD",
                ReadErrorKind::Fetch(_) => "FETCH_FAILED",
            },
            Self::DataLoss(loss) => loss.condition(),
            Self::Unfinished { .. } => "READ_UNFINISHED",
            Self::Checkpoint(error) => error.condition(),
            Self::Sink(_) => "SINK_FAILED",
            Self::Commit { .. } => "COMMIT_FAILED",
        }
    }
}

/// What these codes mean for a commit from outside of the group.
fn owned(refused: &[(TopicPartition, ErrorCode)]) -> &'static str {
    let codes = [ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::ILLEGAL_GENERATION, ErrorCode::STALE_MEMBER_EPOCH];
    let owned = refused.iter().any(|(_, code)| codes.contains(code));
    if owned { ": the group has active members, which own its offsets" } else { "" }
}

fn list(refused: &[(TopicPartition, ErrorCode)]) -> String {
    refused.iter().map(|(partition, code)| format!("{partition}: {code}")).collect::<Vec<_>>().join(", ")
}

/// A range that could not be read on.
#[derive(Debug, thiserror::Error)]
#[error("{partition} at offset {offset}")]
pub struct ReadError {
    /// The partition.
    pub partition: TopicPartition,
    /// How far it was read: everything before this offset was processed.
    pub offset: i64,
    /// Why.
    pub source: ReadErrorKind,
}

/// What stopped a range.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadErrorKind {
    /// A batch that can't be read.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Nothing to read, or nobody to read from.
    #[error(transparent)]
    Fetch(FetchErrorKind),
    /// Only bytes that the user keeps are in the way. Nothing is lost: after some are dropped, the read goes on.
    #[error(transparent)]
    BudgetHeld(#[from] BudgetHeld),
}

impl From<FetchErrorKind> for ReadErrorKind {
    fn from(kind: FetchErrorKind) -> Self {
        match kind {
            FetchErrorKind::BudgetHeld(held) => Self::BudgetHeld(held),
            kind => Self::Fetch(kind),
        }
    }
}

/// The output failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct SinkError {
    /// What was being done.
    pub what: String,
    /// Why it failed.
    pub source: std::io::Error,
}

impl SinkError {
    /// An error of doing `what`.
    pub fn new(what: impl Into<String>, source: std::io::Error) -> Self {
        Self { what: what.into(), source }
    }
}

/// How the records came to be gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LossKind {
    /// The range, or a part of it, lies before the log start, or after the log's end.
    OutOfRange,
    /// The topic was deleted and created again.
    Recreated,
}

/// Records of a range that can't be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostRange {
    /// What is gone.
    pub range: OffsetRange,
    /// How.
    pub kind: LossKind,
    /// The log's first offset, as the broker said when the loss was seen.
    pub log_start_offset: i64,
    /// The log's end, exclusive.
    pub log_end_offset: i64,
}

impl fmt::Display for LostRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            LossKind::OutOfRange => write!(
                f,
                "{} is gone, {} offsets; the log holds [{}, {})",
                self.range,
                self.range.size(),
                self.log_start_offset,
                self.log_end_offset
            ),
            LossKind::Recreated => {
                write!(
                    f,
                    "{} is gone, {} offsets; the topic was deleted and created again",
                    self.range,
                    self.range.size()
                )
            }
        }
    }
}

/// Records that were to be read are gone, and `failOnDataLoss` is true.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "Some data may have been lost because they are not available in Kafka any more; either the data was aged out by Kafka or the topic \
     may have been deleted before all the data in the topic was processed. If you don't want your streaming query to fail on such cases, \
     set the source option failOnDataLoss to false. Reason: {}",
    .lost.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
)]
pub struct DataLoss {
    /// What is gone, exactly.
    pub lost: Vec<LostRange>,
}

impl DataLoss {
    /// Spark's error condition.
    pub fn condition(&self) -> &'static str {
        match self.lost.first().map(|lost| lost.kind) {
            Some(LossKind::Recreated) => "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED",
            _ => "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE",
        }
    }
}

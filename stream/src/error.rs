//! Errors of this layer add topic, partition, offset and batch; data loss has a type of its own.

use crate::{BoxError, CheckpointError, OffsetRange, OptionError, options::partition_set};
use ottla_client::{BudgetHeld, FetchErrorKind, TopicPartition};
use ottla_protocol::{ApiKey, ErrorCode, record::BatchError};
use std::{collections::BTreeSet, fmt};

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
    /// An offsets file can't be used.
    #[error(transparent)]
    OffsetsFile(crate::OffsetsFileError),
    /// Offsets must not be stored as they are.
    #[error(transparent)]
    Move(#[from] crate::MoveError),
    /// The output failed.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// A query's function failed. The batch is not committed.
    #[error("the function of the query failed in batch {batch_id}")]
    Foreach {
        /// The batch.
        batch_id: i64,
        /// What it said.
        source: BoxError,
    },
    /// A query's function, or its sink, listener or store, panicked. The batch at work is not committed.
    #[error("the code given to the query panicked{}: {message}", in_batch(*.batch_id))]
    Panicked {
        /// The batch at work, if there was one.
        batch_id: Option<i64>,
        /// What the panic said.
        message: String,
    },
    /// A store did not take the offsets of what was processed before the query had to end. The checkpoint, if there is one, has them.
    #[error("{store} did not take the offsets of {partitions} before the query ended")]
    Uncommitted {
        /// The store.
        store: String,
        /// The partitions.
        partitions: String,
        /// What it said at last, if it said anything.
        source: Option<Box<Error>>,
    },
    /// The offsets of some partitions could not be committed.
    #[error("group '{group}' did not take the offsets of {}{}", list(.refused), owned(.refused))]
    Commit {
        /// The group.
        group: String,
        /// The partitions, and what the coordinator said.
        refused: Vec<(TopicPartition, ErrorCode)>,
    },
    /// Offsets in ZooKeeper could not be had or stored.
    #[cfg(feature = "zookeeper")]
    #[error(transparent)]
    ZooKeeper(#[from] crate::ZooKeeperError),
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
            // All partitions at once; of some of them it is `Commit`.
            Self::Client(ottla_client::Error::Broker { api: ApiKey::OFFSET_COMMIT, .. }) => "COMMIT_FAILED",
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
            Self::OffsetsFile(error) => error.condition(),
            Self::Move(error) => error.condition(),
            Self::Sink(_) => "SINK_FAILED",
            Self::Foreach { .. } => "FOREACH_BATCH_FAILED",
            Self::Panicked { .. } => "FOREACH_BATCH_PANICKED",
            Self::Uncommitted { .. } => "COMMIT_FAILED",
            Self::Commit { .. } => "COMMIT_FAILED",
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(error) => error.source.condition(),
        }
    }
}

/// What these codes mean for a commit from outside of the group.
fn owned(refused: &[(TopicPartition, ErrorCode)]) -> &'static str {
    let codes = [ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::ILLEGAL_GENERATION, ErrorCode::STALE_MEMBER_EPOCH];
    let owned = refused.iter().any(|(_, code)| codes.contains(code));
    if owned { ": the group has active members, which own its offsets" } else { "" }
}

fn in_batch(batch_id: Option<i64>) -> String {
    batch_id.map(|id| format!(" in batch {id}")).unwrap_or_default()
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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum LossKind {
    /// The range, or a part of it, lies before the log start, or after the log's end.
    OutOfRange,
    /// A new partition, and where its log begins could not be had.
    InitialOffsetNotFound,
    /// The log of a new partition does not begin at 0.
    AddedPartition,
    /// The partition is not there any more, or is not asked for any more.
    PartitionDeleted,
    /// The log ends before the offset that was to be read next.
    OffsetChanged,
    /// The topic was deleted and created again.
    Recreated,
}

impl LossKind {
    /// Spark's error condition.
    pub fn condition(self) -> &'static str {
        match self {
            Self::OutOfRange => "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE",
            Self::InitialOffsetNotFound => "KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
            Self::AddedPartition => "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
            Self::PartitionDeleted => "KAFKA_DATA_LOSS.PARTITIONS_DELETED",
            Self::OffsetChanged | Self::Recreated => "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED",
        }
    }
}

/// Records of a range that can't be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostRange {
    /// What is gone. Empty where a partition went together with its end: everything from this offset on is gone, however much it was.
    pub range: OffsetRange,
    /// How.
    pub kind: LossKind,
    /// The end, exclusive, of what was to be read from the start of `range` on; after the end of `range` where a part of it is left.
    pub wanted_until_offset: i64,
    /// The log's first offset, as the broker said when the loss was seen; -1 if it is not known.
    pub log_start_offset: i64,
    /// The log's end, exclusive; -1 if it is not known.
    pub log_end_offset: i64,
}

impl LostRange {
    pub(crate) fn partition(&self) -> TopicPartition {
        TopicPartition::new(self.range.topic.clone(), self.range.partition)
    }
}

impl fmt::Display for LostRange {
    /// `logs-3: [1200, 1850) is gone, 650 offsets; the log holds [1850, 2000)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.range.is_empty() {
            write!(f, "{}: everything from {} on is gone", self.partition(), self.range.from_offset)?;
        } else {
            write!(f, "{} is gone, {} offsets", self.range, self.range.size())?;
        }
        match self.kind {
            LossKind::PartitionDeleted => return f.write_str("; so is the partition"),
            LossKind::Recreated => return f.write_str("; the topic was deleted and created again"),
            _ => {}
        }
        if self.log_end_offset < 0 {
            return f.write_str("; what the log holds could not be had");
        }
        write!(f, "; the log holds [{}, {})", self.log_start_offset, self.log_end_offset)
    }
}

/// Records that were to be read are gone, and `failOnDataLoss` is true.
///
/// The text is Spark's, followed by a line for each range that is gone.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "Some data may have been lost because they are not available in Kafka any more;\neither the data was aged out by Kafka or the topic \
     may have been deleted before all the data in the\ntopic was processed.\nIf you don't want your streaming query to fail on such cases, \
     set the source option failOnDataLoss to false.\nReason: {}{}",
    self.reasons().join("\n"),
    .lost.iter().map(|lost| format!("\n{lost}")).collect::<String>()
)]
#[non_exhaustive]
pub struct DataLoss {
    /// What is gone, exactly.
    pub lost: Vec<LostRange>,
    /// Whether `kafka.group.id` is set, which Spark holds against whoever has lost partitions.
    pub has_group_id: bool,
}

impl DataLoss {
    /// The loss of these ranges.
    pub fn new(lost: Vec<LostRange>) -> Self {
        Self { lost, has_group_id: false }
    }

    /// Spark's error condition, that of the first range.
    pub fn condition(&self) -> &'static str {
        self.lost.first().map_or(LossKind::OutOfRange, |lost| lost.kind).condition()
    }

    /// Spark's reasons: one for all partitions that were not found or were deleted, one for each other range.
    fn reasons(&self) -> Vec<String> {
        let is_shared = |kind| matches!(kind, LossKind::InitialOffsetNotFound | LossKind::PartitionDeleted);
        let mut told = Vec::new();
        let mut reasons = Vec::new();
        for lost in &self.lost {
            if !(is_shared(lost.kind) && told.contains(&lost.kind)) {
                reasons.push(self.reason(lost));
            }
            if !told.contains(&lost.kind) {
                told.push(lost.kind);
            }
        }
        reasons
    }

    fn reason(&self, lost: &LostRange) -> String {
        let partition = lost.partition();
        let OffsetRange { from_offset, until_offset, .. } = lost.range;
        match lost.kind {
            LossKind::OutOfRange => format!(
                "Could not read records in offset [{from_offset}, {}) for topic partition {partition}",
                lost.wanted_until_offset
            ),
            LossKind::InitialOffsetNotFound => format!(
                "Cannot find initial offsets for partitions {}. They may have been deleted.",
                self.partitions(lost.kind)
            ),
            LossKind::AddedPartition => format!("Added partition {partition} starts from {until_offset} instead of 0."),
            LossKind::PartitionDeleted => format!(
                "Partitions {} have been deleted.{}",
                self.partitions(lost.kind),
                if self.has_group_id { GROUP_ID_NOTE } else { "" }
            ),
            LossKind::OffsetChanged => offset_changed(&partition, until_offset, from_offset),
            LossKind::Recreated if (0..from_offset).contains(&lost.log_end_offset) => {
                offset_changed(&partition, from_offset, lost.log_end_offset)
            }
            LossKind::Recreated => {
                format!("The topic of partition {partition} was deleted and created again after offset {from_offset}.")
            }
        }
    }

    fn partitions(&self, kind: LossKind) -> String {
        let partitions: BTreeSet<_> =
            self.lost.iter().filter(|lost| lost.kind == kind).map(LostRange::partition).collect();
        partition_set(&partitions)
    }
}

fn offset_changed(partition: &TopicPartition, from: i64, to: i64) -> String {
    format!(
        "Partition {partition} offset was changed from {from} to {to}.\nThis could be either 1) a user error that the start offset is set \
         beyond available offset when starting query, or 2) the kafka topic-partition is deleted and re-created."
    )
}

/// What Spark adds when partitions were deleted and `kafka.group.id` is set.
const GROUP_ID_NOTE: &str = "\nKafka option 'kafka.group.id' has been set on this query, it is\nnot recommended to set this option. This \
     option is unsafe to use since multiple concurrent\nqueries or sources using the same group id will interfere with each other as they \
     are part\nof the same consumer group. Restarted queries may also suffer interference from the\nprevious run having the same group id. \
     The user should have only one query per group id,\nand/or set the option 'kafka.session.timeout.ms' to be very small so that the Kafka\n\
     consumers from the previous query are marked dead by the Kafka group coordinator before the\nrestarted query starts running.";

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(partition: i32, kind: LossKind, from_offset: i64, until_offset: i64, log: (i64, i64)) -> LostRange {
        let range = OffsetRange { topic: "t".to_owned(), partition, from_offset, until_offset };
        let (log_start_offset, log_end_offset) = log;
        LostRange { range, kind, wanted_until_offset: until_offset, log_start_offset, log_end_offset }
    }

    /// What follows on Spark's sentence, line by line.
    fn after_reason(loss: &DataLoss) -> Vec<String> {
        let text = loss.to_string();
        let sentence = "Some data may have been lost because they are not available in Kafka any more;\neither the data was aged out by Kafka \
            or the topic may have been deleted before all the data in the\ntopic was processed.\nIf you don't want your streaming query to \
            fail on such cases, set the source option failOnDataLoss to false.\nReason: ";
        let rest = text.strip_prefix(sentence).unwrap_or_else(|| panic!("{text}"));
        rest.lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_kind_has_sparks_reason_and_the_exact_range() {
        let range = LostRange { wanted_until_offset: 100, ..lost(0, LossKind::OutOfRange, 10, 60, (60, 100)) };
        assert_eq!(
            after_reason(&DataLoss::new(vec![range])),
            [
                "Could not read records in offset [10, 100) for topic partition t-0",
                "t-0: [10, 60) is gone, 50 offsets; the log holds [60, 100)"
            ]
        );
        let found = |kind, from, until, log| after_reason(&DataLoss::new(vec![lost(0, kind, from, until, log)]));
        assert_eq!(
            found(LossKind::AddedPartition, 0, 10, (10, 20)),
            [
                "Added partition t-0 starts from 10 instead of 0.",
                "t-0: [0, 10) is gone, 10 offsets; the log holds [10, 20)"
            ]
        );
        let causes = "This could be either 1) a user error that the start offset is set beyond available offset when starting query, or 2) the \
            kafka topic-partition is deleted and re-created.";
        assert_eq!(
            found(LossKind::OffsetChanged, 10, 25, (0, 10)),
            [
                "Partition t-0 offset was changed from 25 to 10.",
                causes,
                "t-0: [10, 25) is gone, 15 offsets; the log holds [0, 10)"
            ]
        );
        assert_eq!(
            found(LossKind::Recreated, 50, 50, (0, 20)),
            [
                "Partition t-0 offset was changed from 50 to 20.",
                causes,
                "t-0: everything from 50 on is gone; the topic was deleted and created again"
            ]
        );
        assert_eq!(
            found(LossKind::Recreated, 50, 80, (-1, -1)),
            [
                "The topic of partition t-0 was deleted and created again after offset 50.",
                "t-0: [50, 80) is gone, 30 offsets; the topic was deleted and created again"
            ]
        );
        assert_eq!(
            found(LossKind::InitialOffsetNotFound, 0, 7, (-1, -1)),
            [
                "Cannot find initial offsets for partitions Set(t-0). They may have been deleted.",
                "t-0: [0, 7) is gone, 7 offsets; what the log holds could not be had"
            ]
        );
    }

    #[test]
    fn deleted_partitions_share_a_reason_that_grows_with_a_group_id() {
        let deleted = |partition| lost(partition, LossKind::PartitionDeleted, 6, 6, (-1, -1));
        let mut loss = DataLoss::new(vec![deleted(0), deleted(1), lost(2, LossKind::OffsetChanged, 1, 2, (0, 1))]);
        assert_eq!(loss.condition(), "KAFKA_DATA_LOSS.PARTITIONS_DELETED");
        let lines = after_reason(&loss);
        assert_eq!(lines[0], "Partitions Set(t-0, t-1) have been deleted.");
        assert_eq!(lines[1], "Partition t-2 offset was changed from 2 to 1.");
        assert_eq!(lines[3], "t-0: everything from 6 on is gone; so is the partition");
        assert_eq!(lines.len(), 6);

        // As golden f11 has it, to the letter.
        loss.has_group_id = true;
        let lines = after_reason(&loss);
        assert_eq!(
            lines[1..9],
            [
                "Kafka option 'kafka.group.id' has been set on this query, it is",
                "not recommended to set this option. This option is unsafe to use since multiple concurrent",
                "queries or sources using the same group id will interfere with each other as they are part",
                "of the same consumer group. Restarted queries may also suffer interference from the",
                "previous run having the same group id. The user should have only one query per group id,",
                "and/or set the option 'kafka.session.timeout.ms' to be very small so that the Kafka",
                "consumers from the previous query are marked dead by the Kafka group coordinator before the",
                "restarted query starts running.",
            ]
        );
    }
}

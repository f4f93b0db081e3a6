//! The fetch engine: many partitions, few requests, and the next request out before anything of the last answer is decoded.
//!
//! [`fetcher`] is the reader's side, [`engine`] the loop, which owns all state and is split by subject: [`routing`] finds leaders, [`lanes`]
//! sends requests, [`answers`] says what came back means. [`partition`] is one partition's state (pure), [`session`] what a broker was told
//! of the long poll (pure), [`request`] builds requests and finds out what an answer is about, [`budget`] bounds the bytes held, [`completed`] is what decoders get.

mod answers;
mod budget;
mod completed;
mod engine;
mod fetcher;
mod lanes;
mod partition;
mod request;
mod routing;
mod session;

pub(crate) use budget::Budget;
pub use budget::{BudgetHeld, Reservation, Room};
pub use completed::CompletedFetch;
pub use fetcher::Fetcher;

use crate::{Error, TopicPartition};
use ottla_protocol::{Uuid, record::BatchError};
use std::time::Duration;

/// A partition's range to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchTarget {
    /// The partition.
    pub partition: TopicPartition,
    /// The topic's id when the range was planned; a topic that was created again since then has another.
    pub topic_id: Option<Uuid>,
    /// The first offset wanted, inclusive.
    pub from_offset: i64,
    /// The end of the range, exclusive; `i64::MAX` for one without end.
    pub until_offset: i64,
    /// How far data is known to be there, exclusive: the high watermark or last stable offset when the range was planned. Only a hint for
    /// which connection to fetch on.
    pub known_end: i64,
}

/// Why a target can't be read on.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{partition} at offset {position}")]
pub struct FetchError {
    /// The index of the target.
    pub target: usize,
    /// The partition.
    pub partition: TopicPartition,
    /// The offset that was asked for.
    pub position: i64,
    /// Why.
    pub source: FetchErrorKind,
}

/// What happened to a target.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchErrorKind {
    /// The offset lies outside the log. The target waits for [`Fetcher::seek`] or [`Fetcher::finish`]; after all others it is over.
    #[error("the log holds [{log_start_offset}, {log_end_offset})")]
    OutOfRange {
        /// The log's first offset.
        log_start_offset: i64,
        /// The log's end, exclusive.
        log_end_offset: i64,
    },
    /// The broker gave nothing for so long, though the range goes on: most likely an open transaction, or an end that was never reached.
    #[error(
        "nothing came for {} s though the range goes on to {until_offset} (last stable offset {last_stable_offset}, high watermark \
         {high_watermark}): an open transaction holds it back, or the log ends before",
        .after.as_secs_f32()
    )]
    NoData {
        /// The end of the range, exclusive.
        until_offset: i64,
        /// As the broker last said.
        last_stable_offset: i64,
        /// As the broker last said.
        high_watermark: i64,
        /// How long nothing came.
        after: Duration,
    },
    /// The topic is another one than the range was planned for.
    #[error("the topic was deleted and created again")]
    TopicRecreated,
    /// Bytes came, but no batch that moves the position.
    #[error("the broker sent {bytes} bytes without a batch that goes past the offset asked for")]
    NoProgress {
        /// How many bytes.
        bytes: usize,
    },
    /// A batch whose header can't be right.
    #[error(transparent)]
    Batch(BatchError),
    /// Only bytes that the user keeps are in the way. The target goes on when there is room again.
    #[error(transparent)]
    BudgetHeld(#[from] BudgetHeld),
    /// The broker could not be asked, or refused.
    #[error(transparent)]
    Client(#[from] Error),
}

//! One target's state: where it is, whom to ask, what waits. Pure: time is an argument.

use super::{CompletedFetch, FetchError, FetchErrorKind, FetchTarget};
use crate::{Error, NodeId, retry::Backoff};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// What a target is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    /// May be asked for, once its leader has room.
    Ready,
    /// In a request.
    InFlight,
    /// Waits after a failure.
    BackingOff,
    /// Waits for the reader to say how to go on.
    OutOfRange,
    /// Nothing more is fetched.
    Finished,
}

/// At most so many fetches of a target are held: one at a decoder, one behind it. More would only wait.
const HELD_MAX: usize = 2;

#[derive(Debug)]
pub(super) struct PartitionState {
    pub(super) target: FetchTarget,
    pub(super) index: usize,
    /// The next offset to ask for: a hint from batch headers, until decoders have checked the batches' checksums.
    pub(super) fetch_offset: i64,
    pub(super) known_end: i64,
    pub(super) leader: Option<NodeId>,
    pub(super) leader_epoch: i32,
    pub(super) status: Status,
    /// Whether it stands in a queue of the engine's.
    pub(super) queued: bool,
    /// Whether a fetch of this target is at a decoder.
    pub(super) delivered: bool,
    pub(super) waiting: VecDeque<Result<CompletedFetch, FetchError>>,
    backoff: Backoff,
    failing_since: Option<Instant>,
    /// Since when nothing came though it was asked for.
    idle_since: Option<Instant>,
}

impl PartitionState {
    pub(super) fn new(index: usize, target: FetchTarget, backoff: Backoff) -> Self {
        let status = if target.from_offset >= target.until_offset { Status::Finished } else { Status::Ready };
        Self {
            index,
            fetch_offset: target.from_offset,
            known_end: target.known_end,
            target,
            leader: None,
            leader_epoch: -1,
            status,
            queued: false,
            delivered: false,
            waiting: VecDeque::new(),
            backoff,
            failing_since: None,
            idle_since: None,
        }
    }

    /// Whether a request for it may go out.
    pub(super) fn may_fetch(&self) -> bool {
        self.status == Status::Ready && self.waiting.len() + usize::from(self.delivered) < HELD_MAX
    }

    /// Whether the broker has data for it now, as far as is known.
    pub(super) fn has_data(&self) -> bool {
        self.fetch_offset < self.known_end
    }

    /// Whether nothing of it is fetched, waits or is being decoded.
    pub(super) fn is_over(&self) -> bool {
        self.status == Status::Finished && self.waiting.is_empty() && !self.delivered
    }

    /// An answer moved it to `next_offset`, with the log's end where the broker said.
    pub(super) fn advanced(&mut self, next_offset: i64, log_end: i64) {
        self.fetch_offset = next_offset;
        self.known_end = log_end;
        self.failing_since = None;
        self.idle_since = None;
        self.backoff.reset();
        self.status = if next_offset >= self.target.until_offset { Status::Finished } else { Status::Ready };
    }

    /// An answer held nothing for it. Returns how long that has been so, if it is too long.
    pub(super) fn nothing_came(&mut self, now: Instant, log_end: i64, limit: Duration) -> Option<Duration> {
        self.known_end = log_end;
        self.failing_since = None;
        self.status = Status::Ready;
        let idle = now.saturating_duration_since(*self.idle_since.get_or_insert(now));
        (self.target.until_offset != i64::MAX && idle >= limit).then_some(idle)
    }

    /// A try failed. Returns the pause before the next, or the error when tries went on for longer than `limit`.
    pub(super) fn failed(
        &mut self,
        now: Instant,
        error: Error,
        limit: Duration,
        rng: &mut impl rand::Rng,
    ) -> Result<Duration, FetchErrorKind> {
        let since = *self.failing_since.get_or_insert(now);
        if now.saturating_duration_since(since) >= limit {
            let what = format!("fetching {}", self.target.partition);
            return Err(FetchErrorKind::Client(Error::DeadlineExceeded {
                what,
                after: limit,
                source: Box::new(error),
            }));
        }
        self.status = Status::BackingOff;
        Ok(self.backoff.next(rng))
    }

    /// The error of this target at its position.
    pub(super) fn error(&self, source: FetchErrorKind) -> FetchError {
        FetchError { target: self.index, partition: self.target.partition.clone(), position: self.fetch_offset, source }
    }
}

//! One target's state: where it is, whom to ask, what waits. Pure: time is an argument.

use super::{CompletedFetch, FetchError, FetchErrorKind, FetchTarget, request::WantedBytes};
use crate::{Error, NodeId, retry::Backoff};
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

/// What a target is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    /// May be asked for, once its leader has room.
    Ready,
    /// In a request, or polled in a session.
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
    /// The same number for all ranges of one partition.
    pub(super) partition_number: usize,
    /// The topic's name, shared with all that ask for it.
    pub(super) topic: Arc<str>,
    /// The next offset to ask for: a hint from batch headers, until decoders have checked the batches' checksums.
    pub(super) fetch_offset: i64,
    pub(super) known_end: i64,
    /// What the broker last said; -1 if nothing.
    pub(super) high_watermark: i64,
    /// What the broker last said; -1 if nothing.
    pub(super) last_stable_offset: i64,
    /// How much to ask for at most.
    pub(super) bytes_max: i32,
    /// How many bytes an offset took in the last answer.
    pub(super) offset_bytes: Option<i64>,
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
    /// Why the last try failed.
    failure: Option<Error>,
    /// Since when nothing came though it was asked for.
    idle_since: Option<Instant>,
    /// Whether a broker's word of a new leader was followed since something came: only the first is, without a pause.
    pub(super) followed_hint: bool,
}

impl PartitionState {
    pub(super) fn new(
        index: usize,
        partition_number: usize,
        topic: Arc<str>,
        target: FetchTarget,
        bytes_max: i32,
        backoff: Backoff,
    ) -> Self {
        let status = if target.from_offset >= target.until_offset { Status::Finished } else { Status::Ready };
        Self {
            index,
            partition_number,
            topic,
            fetch_offset: target.from_offset,
            known_end: target.known_end,
            high_watermark: -1,
            last_stable_offset: -1,
            bytes_max,
            offset_bytes: None,
            target,
            leader: None,
            leader_epoch: -1,
            status,
            queued: false,
            delivered: false,
            waiting: VecDeque::new(),
            backoff,
            failing_since: None,
            failure: None,
            idle_since: None,
            followed_hint: false,
        }
    }

    /// Whether a request for it may go out.
    pub(super) fn may_fetch(&self) -> bool {
        self.status == Status::Ready && self.waiting.len() + usize::from(self.delivered) < HELD_MAX
    }

    /// It is in a request now.
    pub(super) fn in_flight(&mut self) {
        self.status = Status::InFlight;
    }

    /// Whether the broker has data for it now, as far as is known.
    pub(super) fn has_data(&self) -> bool {
        self.fetch_offset < self.known_end
    }

    /// Whether its range has an end.
    pub(super) fn is_bounded(&self) -> bool {
        self.target.until_offset != i64::MAX
    }

    /// How much of it to ask for, and how much of that is expected to come; at `typical` bytes an offset if none of its own are known.
    pub(super) fn wanted_bytes(&self, typical: Option<i64>) -> WantedBytes {
        let until_offset = self.target.until_offset.min(self.known_end);
        let [wanted, there] = [until_offset, self.known_end].map(|end| end.saturating_sub(self.fetch_offset));
        WantedBytes::new(self.bytes_max, wanted, there, self.offset_bytes.or(typical))
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
        self.followed_hint = false;
        self.backoff.reset();
        self.status = if next_offset >= self.target.until_offset { Status::Finished } else { Status::Ready };
    }

    /// An answer held nothing for it. Returns how long that has been so, if it is too long. `crowded` says that others took the room, which
    /// tells nothing about this one.
    pub(super) fn nothing_came(
        &mut self,
        now: Instant,
        log_end: i64,
        limit: Duration,
        crowded: bool,
    ) -> Option<Duration> {
        self.known_end = log_end;
        self.failing_since = None;
        self.followed_hint = false;
        self.backoff.reset();
        self.status = Status::Ready;
        self.no_news(now, limit, crowded)
    }

    /// An answer had nothing new about it, the rest as in [`Self::nothing_came`].
    pub(super) fn no_news(&mut self, now: Instant, limit: Duration, crowded: bool) -> Option<Duration> {
        if crowded {
            return None;
        }
        let idle = now.saturating_duration_since(*self.idle_since.get_or_insert(now));
        (self.is_bounded() && idle >= limit).then_some(idle)
    }

    /// What is left of `limit` for tries, if they fail.
    pub(super) fn time_left(&self, now: Instant, limit: Duration) -> Duration {
        let spent = self.failing_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        limit.saturating_sub(spent)
    }

    /// A try that began at `began` failed. Returns the pause before the next, or the error when that would come after `limit`, counted from
    /// the first try that failed.
    pub(super) fn failed(
        &mut self,
        began: Instant,
        now: Instant,
        error: Error,
        limit: Duration,
        rng: &mut impl rand::Rng,
    ) -> Result<Duration, FetchErrorKind> {
        let since = *self.failing_since.get_or_insert(began.min(now));
        // A try that had no time left says nothing of why the others failed.
        let failure = self.failure.take().filter(|_| error.had_no_time()).unwrap_or(error);
        let pause = self.backoff.next(rng);
        if pause >= self.time_left(now, limit) {
            let what = format!("fetching {}", self.target.partition);
            let after = now.saturating_duration_since(since);
            return Err(Error::DeadlineExceeded { what, after, source: Box::new(failure) }.into());
        }
        self.failure = Some(failure);
        self.status = Status::BackingOff;
        Ok(pause)
    }

    /// The error of this target at its position.
    pub(super) fn error(&self, source: FetchErrorKind) -> FetchError {
        FetchError { target: self.index, partition: self.target.partition.clone(), position: self.fetch_offset, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BrokerName, ConnectError, TopicPartition};
    use rand::{SeedableRng, rngs::SmallRng};

    const MS: Duration = Duration::from_millis(1);

    fn state() -> PartitionState {
        let target = FetchTarget {
            partition: TopicPartition::new("t", 0),
            topic_id: None,
            from_offset: 0,
            until_offset: 100,
            known_end: 100,
        };
        PartitionState::new(0, 0, "t".into(), target, 1 << 20, Backoff::new(100 * MS, 1000 * MS))
    }

    fn error() -> Error {
        Error::Leaderless { partition: TopicPartition::new("t", 0) }
    }

    #[test]
    fn tries_end_at_the_limit_counted_from_the_beginning_of_the_first() {
        let (mut state, start, mut rng) = (state(), Instant::now(), SmallRng::seed_from_u64(3));
        // The first try took 500 ms to fail.
        let mut now = start + 500 * MS;
        let mut tries = 0;
        let ended = loop {
            match state.failed(start, now, error(), 4000 * MS, &mut rng) {
                Ok(pause) => now += pause,
                Err(FetchErrorKind::Client(Error::DeadlineExceeded { after, .. })) => break after,
                Err(other) => panic!("{other}"),
            }
            tries += 1;
        };
        assert!(ended <= 4000 * MS && ended >= 2700 * MS, "{ended:?}");
        assert!((4..9).contains(&tries), "{tries}");
        assert_eq!(state.time_left(start + 5000 * MS, 4000 * MS), Duration::ZERO);
        state.advanced(10, 100);
        assert_eq!(state.time_left(start + 5000 * MS, 4000 * MS), 4000 * MS, "something came: the count starts over");
    }

    #[test]
    fn only_answers_with_room_for_it_count_as_nothing() {
        let (mut state, start) = (state(), Instant::now());
        let limit = 1000 * MS;
        assert_eq!(state.nothing_came(start, 100, limit, true), None);
        assert_eq!(state.nothing_came(start + 5000 * MS, 100, limit, true), None, "others took the room all the time");
        assert_eq!(state.nothing_came(start + 5000 * MS, 0, limit, false), None);
        assert_eq!(state.nothing_came(start + 5900 * MS, 0, limit, false), None);
        assert_eq!(state.nothing_came(start + 6000 * MS, 0, limit, false), Some(limit));
        state.advanced(10, 100);
        assert_eq!(state.nothing_came(start + 9000 * MS, 0, limit, false), None);
        // A range without end waits for ever.
        state.target.until_offset = i64::MAX;
        assert_eq!(state.nothing_came(start + 99_000 * MS, 0, limit, false), None);
    }

    fn no_connection(after: Duration) -> Error {
        let broker = BrokerName { node_id: Some(NodeId(1)), address: "h:1".parse().unwrap(), advertised_by: None };
        Error::Connect { broker: broker.into(), source: ConnectError::Timeout { after, attempts: Vec::new() } }
    }

    #[test]
    fn the_last_try_with_time_to_it_is_the_one_told() {
        let (mut state, start, mut rng) = (state(), Instant::now(), SmallRng::seed_from_u64(7));
        let limit = 5000 * MS;
        assert!(state.failed(start, start, error(), limit, &mut rng).is_ok());
        let late = start + 4950 * MS;
        let ended = state.failed(late, late, no_connection(3 * MS), limit, &mut rng).unwrap_err();
        let FetchErrorKind::Client(Error::DeadlineExceeded { after, source, .. }) = ended else { panic!("{ended:?}") };
        assert_eq!(after, 4950 * MS);
        assert!(matches!(*source, Error::Leaderless { .. }), "{source:?}");
    }
}

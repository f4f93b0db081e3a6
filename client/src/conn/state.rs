//! A connection's protocol without its I/O: which requests are out, in which order, and until when.

use crate::RequestError;
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// One request that waits for its answer. `T` is whatever the answer is to be handed to.
#[derive(Debug)]
struct InFlight<T> {
    correlation_id: i32,
    deadline: Instant,
    timeout: Duration,
    answer_to: T,
}

/// The requests of one connection. Kafka answers a connection's requests in order, so the front of the queue is always the one due.
#[derive(Debug)]
pub(crate) struct State<T> {
    next_correlation_id: i32,
    in_flight: VecDeque<InFlight<T>>,
    muted_until: Option<Instant>,
    answered: bool,
}

impl<T> State<T> {
    pub(crate) fn new() -> Self {
        Self { next_correlation_id: 0, in_flight: VecDeque::new(), muted_until: None, answered: false }
    }

    /// Notes a request that is about to be sent and returns its correlation id. Its time runs from the end of a throttle, if one is on.
    pub(crate) fn send(&mut self, now: Instant, timeout: Duration, answer_to: T) -> i32 {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = self.next_correlation_id.wrapping_add(1);
        let start = self.muted_until.map_or(now, |until| until.max(now));
        self.in_flight.push_back(InFlight { correlation_id, deadline: start + timeout, timeout, answer_to });
        correlation_id
    }

    /// Matches an answer with its request.
    pub(crate) fn receive(&mut self, frame: &[u8]) -> Result<T, RequestError> {
        let Some(id) = frame.first_chunk::<4>() else {
            return Err(RequestError::Correlation { expected: self.due(), found: -1 });
        };
        let found = i32::from_be_bytes(*id);
        // A request that is not the one answered stays, to be told so.
        if self.in_flight.front().is_some_and(|request| request.correlation_id == found)
            && let Some(request) = self.in_flight.pop_front()
        {
            self.answered = true;
            return Ok(request.answer_to);
        }
        Err(RequestError::Correlation { expected: self.due(), found })
    }

    fn due(&self) -> i32 {
        self.in_flight.front().map_or(-1, |request| request.correlation_id)
    }

    /// When [`Self::handle_timeout`] wants to be called. A later request with a shorter limit counts too: a long poll in front must not
    /// hide it.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.in_flight.iter().map(|request| request.deadline).min()
    }

    /// Fails when a request's time is over: the connection is then useless, since a late answer can't be told from the next.
    pub(crate) fn handle_timeout(&self, now: Instant) -> Result<(), RequestError> {
        match self.in_flight.iter().find(|request| request.deadline <= now) {
            Some(request) => Err(RequestError::Timeout { after: request.timeout }),
            None => Ok(()),
        }
    }

    /// Time in which nobody looked at the socket (the machine slept, the thread was busy) is no time that the broker took: an answer may lie
    /// there already. Every request gets it back.
    pub(crate) fn overslept(&mut self, duration: Duration) {
        for request in &mut self.in_flight {
            request.deadline += duration;
        }
    }

    /// The broker has muted this connection for `duration` (KIP-219): nothing is sent until then.
    pub(crate) fn throttle(&mut self, now: Instant, duration: Duration) {
        let until = now + duration;
        self.muted_until = Some(self.muted_until.map_or(until, |muted| muted.max(until)));
        for request in &mut self.in_flight {
            request.deadline += duration;
        }
    }

    /// Until when nothing may be sent, if that lies ahead.
    pub(crate) fn muted_until(&self, now: Instant) -> Option<Instant> {
        self.muted_until.filter(|until| *until > now)
    }

    /// Whether nothing was ever answered, which makes a close likelier to be about TLS, SASL or a version.
    pub(crate) fn never_answered(&self) -> bool {
        !self.answered && !self.in_flight.is_empty()
    }

    /// Whom to tell that the connection is gone.
    pub(crate) fn into_unanswered(self) -> impl Iterator<Item = T> {
        self.in_flight.into_iter().map(|request| request.answer_to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn frame(id: i32) -> Vec<u8> {
        id.to_be_bytes().to_vec()
    }

    #[test]
    fn answers_come_in_order() {
        let now = Instant::now();
        let mut state = State::new();
        let (a, b) = (state.send(now, S, 'a'), state.send(now, S, 'b'));
        assert!(state.never_answered());
        assert_eq!(state.receive(&frame(a)).unwrap(), 'a');
        assert!(!state.never_answered());
        assert_eq!(state.receive(&frame(b)).unwrap(), 'b');
        assert!(matches!(state.receive(&frame(b)), Err(RequestError::Correlation { expected: -1, .. })));
        state.send(now, S, 'c');
        assert!(matches!(state.receive(&frame(77)), Err(RequestError::Correlation { expected: 2, found: 77 })));
        assert!(state.receive(&[1, 2]).is_err());
    }

    #[test]
    fn thirty_seconds_pass_in_no_time() {
        let start = Instant::now();
        let mut state = State::new();
        state.send(start, S * 30, ());
        assert_eq!(state.poll_timeout(), Some(start + S * 30));
        assert!(state.handle_timeout(start + S * 29).is_ok());
        assert!(matches!(state.handle_timeout(start + S * 30), Err(RequestError::Timeout { .. })));
        state.send(start, S * 2, ());
        assert_eq!(state.poll_timeout(), Some(start + S * 2), "a shorter limit behind a long poll");
    }

    #[test]
    fn time_that_was_overslept_is_given_back() {
        let start = Instant::now();
        let mut state = State::new();
        state.send(start, S, ());
        state.overslept(S * 60);
        assert!(state.handle_timeout(start + S * 60).is_ok());
        assert!(state.handle_timeout(start + S * 61).is_err());
    }

    #[test]
    fn a_throttle_moves_deadlines_and_mutes() {
        let start = Instant::now();
        let mut state = State::new();
        state.send(start, S, ());
        state.throttle(start, S * 5);
        assert_eq!(state.muted_until(start), Some(start + S * 5));
        assert_eq!(state.muted_until(start + S * 5), None);
        assert!(state.handle_timeout(start + S * 5).is_ok());
        state.send(start, S, ());
        assert!(state.handle_timeout(start + S * 6).is_err());
    }
}

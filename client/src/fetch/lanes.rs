//! Requests: which partitions go into the next one, on which connection, and when.

use super::{
    budget::Reservation,
    engine::{Engine, Event},
    request::{Asked, build, version_cap},
};
use crate::{
    BrokerName, Error, NodeId,
    broker_pool::Purpose,
    conn::{Connection, Frame},
    retry::{Backoff, pause},
};
use ottla_protocol::message::{FetchRequest, FetchResponse};
use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

/// Requests out to one broker's fetch connection: one being answered while the other's answer is decoded.
const REQUESTS_MAX: usize = 2;

/// A request's end.
pub(super) struct Outcome {
    pub(super) key: LaneKey,
    pub(super) sent_at: Instant,
    pub(super) asked: Vec<Asked>,
    pub(super) result: Result<Answered, Error>,
}

pub(super) struct Answered {
    pub(super) frame: Frame,
    pub(super) response: FetchResponse,
    pub(super) version: i16,
    pub(super) reservation: Reservation,
    pub(super) broker: BrokerName,
}

/// A broker, and which of its fetch connections.
pub(super) type LaneKey = (NodeId, Purpose);

/// One of the two fetch connections of a broker, and the partitions that want to be asked on it.
pub(super) struct Lane {
    purpose: Purpose,
    queue: VecDeque<usize>,
    connection: Option<Arc<Connection>>,
    connecting: bool,
    requests: usize,
    /// Pauses after requests that failed, and between long polls that a broker does not make long.
    pace: Backoff,
    not_before: Option<Instant>,
}

impl Lane {
    fn new(purpose: Purpose, pace: Backoff) -> Self {
        Self {
            purpose,
            queue: VecDeque::new(),
            connection: None,
            connecting: false,
            requests: 0,
            pace,
            not_before: None,
        }
    }

    fn has_room(&self, now: Instant) -> bool {
        let requests_max = if self.purpose == Purpose::Fetch { REQUESTS_MAX } else { 1 };
        !self.queue.is_empty()
            && !self.connecting
            && self.requests < requests_max
            && self.not_before.is_none_or(|not_before| not_before <= now)
    }

    /// When its pause ends, if it has something to ask.
    pub(super) fn wake_at(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|not_before| !self.queue.is_empty() && *not_before > now)
    }

    /// A request ended, and whether without use: it failed, or its answer came early and without a word.
    pub(super) fn answered(&mut self, useless: bool, now: Instant) {
        self.requests = self.requests.saturating_sub(1);
        if useless {
            self.not_before = Some(now + pause(&mut self.pace));
        } else {
            self.pace.reset();
            self.not_before = None;
        }
    }
}

impl Engine {
    pub(super) fn enqueue_for(&mut self, index: usize, leader: NodeId) {
        let Some(state) = self.partitions.get(index) else { return };
        let purpose = if state.has_data() { Purpose::Fetch } else { Purpose::Poll };
        let pace = self.client.retry_backoff();
        let lane = self.lanes.entry((leader, purpose)).or_insert_with(|| Lane::new(purpose, pace));
        lane.queue.push_back(index);
    }

    /// Sends what may be sent. A lane that waits for budget holds back the others, and goes first when there is some, the others after it
    /// in a circle: otherwise small requests, or those of the first brokers, would take all of it for ever.
    pub(super) fn send_requests(&mut self, now: Instant) {
        let starved = self.starved.take();
        if starved.is_some() {
            self.blocked.clear();
        }
        let mut open: Vec<LaneKey> =
            self.lanes.iter().filter(|(_, lane)| lane.has_room(now)).map(|(key, _)| *key).collect();
        open.sort_by_key(|key| (starved.is_some_and(|starved| *key < starved), *key));
        for key in open {
            while let Some(lane) = self.lanes.get_mut(&key)
                && lane.has_room(now)
            {
                let Some(connection) = lane.connection.clone().filter(|connection| !connection.is_closed()) else {
                    self.connect(key, now);
                    break;
                };
                match self.send_request(key, connection) {
                    Sent::Yes => {}
                    Sent::NothingToAsk => break,
                    Sent::NoBudget => {
                        self.starved = Some(key);
                        return;
                    }
                }
            }
        }
    }

    fn connect(&mut self, key: LaneKey, now: Instant) {
        let api_timeout = self.client.config().default_api_timeout;
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        lane.connecting = true;
        lane.connection = None;
        let waiting = lane.queue.iter().filter_map(|index| self.partitions.get(*index));
        let limit = waiting.map(|state| state.time_left(now, api_timeout)).min().unwrap_or(api_timeout);
        let client = self.client.clone();
        self.tasks.spawn(async move {
            let (node_id, purpose) = key;
            let broker = client.cluster().broker(node_id).cloned();
            let result = match broker {
                Some(broker) => client.connection(&broker, purpose, limit).await,
                None => Err(Error::UnknownBroker { node_id }),
            };
            Event::Connected { key, began: now, result }
        });
    }

    pub(super) fn connected(&mut self, key: LaneKey, began: Instant, result: Result<Arc<Connection>, Error>) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        lane.connecting = false;
        match result {
            Ok(connection) => lane.connection = Some(connection),
            Err(error) => {
                let waiting: Vec<usize> = lane.queue.drain(..).collect();
                for index in waiting {
                    if let Some(state) = self.state(index) {
                        state.queued = false;
                    }
                    self.target_failed(index, began, error.clone());
                }
            }
        }
    }

    fn send_request(&mut self, key: LaneKey, connection: Arc<Connection>) -> Sent {
        let Some(count) = self.lanes.get(&key).map(|lane| self.request_size(lane)) else { return Sent::NothingToAsk };
        let bytes = self.sizes.expected_bytes(count);
        let Some(mut reservation) = self.budget.try_reserve(bytes) else {
            self.note_blocked(key, bytes);
            return Sent::NoBudget;
        };
        let asked = self.choose(key, count);
        if asked.is_empty() {
            return Sent::NothingToAsk;
        }
        reservation.resize(self.sizes.expected_bytes(asked.len()));
        let config = self.client.config();
        let may_wait = key.1 == Purpose::Poll;
        let wait = if may_wait { config.fetch_max_wait } else { Duration::ZERO };
        let limit = config.request_timeout.min(config.default_api_timeout) + wait;
        let begun = connection.version::<FetchRequest>(version_cap(&asked)).and_then(|version| {
            let request = build(config, self.sizes, &asked, version, may_wait);
            Ok((version, connection.begin(&request, version, limit)?))
        });
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.requests += 1;
        }
        let sent_at = Instant::now();
        self.tasks.spawn(async move {
            let answered = async {
                let (version, answer) = begun?;
                let frame = connection.answer::<FetchRequest>(version, answer).await?;
                let response = connection.decode::<FetchRequest>(version, &frame)?;
                connection.throttle(response.throttle_time_ms);
                Ok(Answered { frame, response, version, reservation, broker: connection.broker().clone() })
            };
            let result = answered.await;
            Event::Fetched(Box::new(Outcome { key, sent_at, asked, result }))
        });
        Sent::Yes
    }

    /// Tells the reader if waiting for `bytes` is in vain.
    fn note_blocked(&self, key: LaneKey, bytes: usize) {
        let first = self.lanes.get(&key).and_then(|lane| lane.queue.front());
        if let Some(held) = self.budget.held_by_user(bytes)
            && let Some(state) = first.and_then(|index| self.partitions.get(*index))
        {
            self.blocked.set(bytes, state.error(held.into()));
        }
    }

    /// How many partitions the next request of a lane is about: as many as an answer can fill, and when nothing is out yet only half, so
    /// that a second request can follow at once. A long poll takes all.
    fn request_size(&self, lane: &Lane) -> usize {
        let queued = lane.queue.len();
        match lane.purpose {
            Purpose::Fetch if lane.requests == 0 => self.sizes.fill().min(queued.div_ceil(2)),
            Purpose::Fetch => self.sizes.fill().min(queued),
            _ => queued,
        }
    }

    /// Takes the partitions of one request from a lane's queue. Two ranges of one partition never share a request.
    fn choose(&mut self, key: LaneKey, count: usize) -> Vec<Asked> {
        let Some(lane) = self.lanes.get_mut(&key) else { return Vec::new() };
        let mut seen = HashSet::with_capacity(count);
        let mut asked = Vec::with_capacity(count);
        let mut not_now = Vec::new();
        while asked.len() < count
            && let Some(index) = lane.queue.pop_front()
        {
            let Some(state) = self.partitions.get_mut(index) else { continue };
            if !state.may_fetch() || state.leader != Some(key.0) {
                state.queued = false;
                continue;
            }
            if seen.insert(state.partition_number) {
                state.queued = false;
                asked.push(Asked::new(state));
                state.in_flight();
            } else {
                not_now.push(index);
            }
        }
        // In front, in their order: they have waited.
        for index in not_now.into_iter().rev() {
            lane.queue.push_front(index);
        }
        asked
    }
}

/// What became of a request that was to be sent.
enum Sent {
    Yes,
    NothingToAsk,
    NoBudget,
}

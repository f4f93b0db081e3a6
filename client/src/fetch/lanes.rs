//! Requests: which partitions go into the next one, on which connection, and when.

use super::{
    budget::Reservation,
    engine::{Engine, Event},
    partition::Status,
    request::{Asked, NAMES_UNTIL, build, topics_of, version_cap},
    session::FetchSession,
};
use crate::{
    BrokerName, ClientConfig, Error, NodeId,
    broker_pool::Purpose,
    conn::{Connection, Frame},
    retry::{Backoff, pause},
};
use ottla_protocol::message::{FetchRequest, FetchResponse};
use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Instant,
};

/// Requests out to one broker's fetch connection: one being answered while the other's answer is decoded.
const REQUESTS_MAX: usize = 2;

/// A request's end.
pub(super) struct Outcome {
    pub(super) key: LaneKey,
    pub(super) sent_at: Instant,
    /// Empty for a long poll, whose session knows.
    pub(super) asked: Vec<Asked>,
    pub(super) result: Result<Answered, Error>,
}

pub(super) struct Answered {
    pub(super) frame: Frame,
    pub(super) response: FetchResponse,
    pub(super) version: i16,
    pub(super) reservation: Reservation,
    pub(super) outstanding: Arc<()>,
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
    /// Of long polls.
    pub(super) session: FetchSession,
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
            session: FetchSession::default(),
            pace,
            not_before: None,
        }
    }

    fn has_work(&self) -> bool {
        !self.queue.is_empty() || self.session.members() > 0
    }

    fn has_room(&self, now: Instant) -> bool {
        let requests_max = if self.purpose == Purpose::Fetch { REQUESTS_MAX } else { 1 };
        self.has_work()
            && !self.connecting
            && self.requests < requests_max
            && self.not_before.is_none_or(|not_before| not_before <= now)
    }

    /// When its pause ends, if it has something to ask.
    pub(super) fn wake_at(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|not_before| self.has_work() && *not_before > now)
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

    /// Tells the broker that it may forget the session: it keeps only so many, for all its clients. Nobody waits for the answer.
    pub(super) fn end_session(&self, config: &ClientConfig) {
        if let Some(connection) = self.connection.as_ref().filter(|connection| !connection.is_closed())
            && let Some((session_id, session_epoch)) = self.session.end()
            && let Ok(version) = connection.version::<FetchRequest>(i16::MAX)
        {
            let request = FetchRequest { session_id, session_epoch, ..Default::default() };
            // A poll may be in front. If it can't be sent, the broker will find out by itself.
            let _ = connection.begin(&request, version, config.request_timeout + config.fetch_max_wait);
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
        let waiting = lane.queue.iter().copied().chain(lane.session.targets());
        let waiting = waiting.filter_map(|index| self.partitions.get(index));
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
            Ok(connection) => {
                lane.connection = Some(connection);
                lane.session.lost();
            }
            Err(error) => {
                let mut waiting: Vec<usize> = lane.queue.drain(..).collect();
                waiting.extend(lane.session.take_all().iter().map(|asked| asked.index));
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
        let Some((count, bytes)) = self.lanes.get(&key).map(|lane| self.request_size(lane)) else {
            return Sent::NothingToAsk;
        };
        let alone = Arc::strong_count(&self.outstanding) == 1;
        let Some(mut reservation) = self.budget.try_reserve(bytes, alone) else {
            if alone {
                self.note_blocked(key, bytes);
            }
            return Sent::NoBudget;
        };
        let mut asked = self.choose(key, count, bytes);
        let polled = self.lanes.get(&key).map_or(0, |lane| lane.session.members());
        if asked.is_empty() && polled == 0 {
            return Sent::NothingToAsk;
        }
        let config = self.client.config();
        let mut limit = config.request_timeout.min(config.default_api_timeout);
        let request = if key.1 == Purpose::Poll {
            limit += config.fetch_max_wait;
            self.poll(key, &mut asked, &connection)
        } else {
            reservation.resize(self.bound(&asked));
            let all_have_ids = asked.iter().all(|asked| asked.topic_id.is_some());
            let version = connection.version::<FetchRequest>(version_cap(all_have_ids));
            version.map(|version| (version, build(config, self.sizes, topics_of(asked.iter(), version > NAMES_UNTIL))))
        };
        let begun = request.and_then(|(version, request)| Ok((version, connection.begin(&request, version, limit)?)));
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.requests += 1;
        }
        let (sent_at, outstanding) = (Instant::now(), self.outstanding.clone());
        self.tasks.spawn(async move {
            let answered = async {
                let (version, answer) = begun?;
                let frame = connection.answer::<FetchRequest>(version, answer).await?;
                let response = connection.decode::<FetchRequest>(version, &frame)?;
                connection.throttle(response.throttle_time_ms);
                let broker = connection.broker().clone();
                Ok(Answered { frame, response, version, reservation, outstanding, broker })
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

    /// The next long poll. Takes `asked` into the lane's session, unless the connection has no version for it.
    fn poll(
        &mut self,
        key: LaneKey,
        asked: &mut Vec<Asked>,
        connection: &Connection,
    ) -> Result<(i16, FetchRequest), Error> {
        let client = self.client.clone();
        let config = client.config();
        let session = self.lanes.get_mut(&key).map(|lane| &mut lane.session);
        let session = session.ok_or(Error::UnknownBroker { node_id: key.0 })?;
        let version = connection.version::<FetchRequest>(version_cap(session.may_use_ids(asked)))?;
        let mut joining = session.call_topics(version > NAMES_UNTIL);
        joining.append(asked);
        // Another range of the same partition gives way, so that they take turns.
        let bytes_max = self.sizes.partition_bytes_max;
        let joining = joining.into_iter().map(|asked| Asked { bytes_max, ..asked });
        let displaced: Vec<Asked> = joining.filter_map(|asked| session.join(asked)).collect();
        let request = session.request();
        for displaced in displaced {
            if let Some(state) = self.state(displaced.index) {
                state.status = Status::Ready;
            }
            self.enqueue(displaced.index);
        }
        let request = FetchRequest {
            max_wait_ms: i32::try_from(config.fetch_max_wait.as_millis()).unwrap_or(i32::MAX),
            session_id: request.session_id,
            session_epoch: request.session_epoch,
            forgotten_topics_data: request.forgotten,
            ..build(config, self.sizes, request.topics)
        };
        Ok((version, request))
    }

    /// Takes a target out of the long poll that it may be in.
    pub(super) fn leave_poll(&mut self, index: usize) {
        if let Some(state) = self.partitions.get(index)
            && let Some(leader) = state.leader
            && let Some(lane) = self.lanes.get_mut(&(leader, Purpose::Poll))
        {
            lane.session.leave(&Asked::new(state, 0));
        }
    }

    fn bound(&self, asked: &[Asked]) -> usize {
        self.sizes.bound(asked.iter().map(|asked| usize::try_from(asked.bytes_max).unwrap_or(0)).sum())
    }

    /// How many partitions the next request of a lane names, and what its answer may hold: as many as are expected to fill it, and when
    /// nothing is out yet only half, so that a second request can follow at once. A long poll is about all.
    fn request_size(&self, lane: &Lane) -> (usize, usize) {
        let queued = lane.queue.len();
        if lane.purpose == Purpose::Poll {
            let partition = usize::try_from(self.sizes.partition_bytes_max).unwrap_or(0);
            return (queued, self.sizes.bound((queued + lane.session.members()).saturating_mul(partition)));
        }
        let count_max = if lane.requests == 0 { queued.div_ceil(2) } else { queued };
        let (mut count, mut expected, mut most) = (0, 0_i32, 0_usize);
        for state in lane.queue.iter().take(count_max).filter_map(|index| self.partitions.get(*index)) {
            let wanted = state.wanted_bytes(self.offset_bytes);
            expected = expected.saturating_add(wanted.expected);
            if count > 0 && expected > self.sizes.response_bytes_max {
                break;
            }
            count += 1;
            most = most.saturating_add(usize::try_from(wanted.at_most).unwrap_or(0));
        }
        (count, self.sizes.bound(most))
    }

    /// Takes the partitions of one request from a lane's queue; for data, as long as what they may bring is no more than `bytes`. Two ranges
    /// of one partition never share a request.
    fn choose(&mut self, key: LaneKey, count: usize, bytes: usize) -> Vec<Asked> {
        let Some(lane) = self.lanes.get_mut(&key) else { return Vec::new() };
        let mut seen = HashSet::with_capacity(count);
        let mut asked: Vec<Asked> = Vec::with_capacity(count);
        let mut most = 0_usize;
        let mut not_now = Vec::new();
        while asked.len() < count
            && let Some(index) = lane.queue.pop_front()
        {
            let Some(state) = self.partitions.get_mut(index) else { continue };
            if !state.may_fetch() || state.leader != Some(key.0) {
                state.queued = false;
                continue;
            }
            let at_most = state.wanted_bytes(self.offset_bytes).at_most;
            let with_it = most.saturating_add(usize::try_from(at_most).unwrap_or(0));
            if key.1 == Purpose::Fetch && !asked.is_empty() && self.sizes.bound(with_it) > bytes {
                not_now.push(index);
                break;
            }
            if seen.insert(state.partition_number) {
                most = with_it;
                state.queued = false;
                asked.push(Asked::new(state, at_most));
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

//! The loop: which partitions go into the next request, and what their answers mean. One task a fetcher owns all its state; requests run in
//! tasks of their own and come back as outcomes.
//!
//! - A partition is in at most one request at a time, and at most two of its answers are held (`partition.rs`).
//! - Two requests are out to a broker while there is data for both, on one connection; partitions that may have to wait for data share a
//!   long poll on another.
//! - The next request leaves as soon as an answer's batch headers are read, and before the answer is handed to a reader, whose work
//!   decoding is.
//! - Ready partitions queue up, so that each gets its turn however the broker fills its answers.

use super::{
    CompletedFetch, FetchError, FetchErrorKind, FetchTarget,
    budget::{Budget, Reservation},
    completed::{DoneSignal, HeldFrame},
    partition::{PartitionState, Status},
    request::{Asked, Index, build, version_cap},
};
use crate::{
    BrokerAddress, BrokerName, Client, Error, IsolationLevel, NodeId, OffsetSpec, TopicPartition,
    broker_pool::Purpose,
    client::Deadline,
    conn::{Connection, Frame},
    metadata::TopicSelection,
};
use ottla_protocol::{
    ErrorCode, Message,
    message::{FetchRequest, FetchResponse, PartitionData},
    record::{RecordBatches, next_fetch_offset},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::{Mutex, mpsc},
    task::{AbortHandle, JoinSet},
};

/// Requests out to one broker's fetch connection: one being answered while the other's answer is decoded.
const REQUESTS_MAX: usize = 2;
/// How long one look at the metadata may take before the targets that wait for it count a failure.
const REFRESH_LIMIT: Duration = Duration::from_secs(5);
/// A topic that the cluster does not know is believed gone after this long: brokers learn of changes one after the other.
const UNKNOWN_TOPIC_LIMIT: Duration = Duration::from_secs(5);

/// Reads many ranges of partitions; see [`Fetcher::next`].
#[derive(Debug)]
pub struct Fetcher {
    fetched: Mutex<mpsc::UnboundedReceiver<Result<CompletedFetch, FetchError>>>,
    commands: mpsc::UnboundedSender<Command>,
    engine: AbortHandle,
}

/// What readers tell the engine.
#[derive(Debug)]
pub(super) enum Command {
    Done(usize),
    Seek(usize, i64),
    Finish(usize),
}

impl Fetcher {
    /// Begins to fetch `targets`. Must be called within a tokio runtime.
    pub fn start(client: &Client, targets: Vec<FetchTarget>) -> Self {
        let (fetched_sender, fetched) = mpsc::unbounded_channel();
        let (commands, receiver) = mpsc::unbounded_channel();
        let engine = Engine::new(client.clone(), targets, fetched_sender, commands.clone());
        let engine = tokio::spawn(engine.run(receiver)).abort_handle();
        Self { fetched: Mutex::new(fetched), commands, engine }
    }

    /// The next answer of any target, or `None` when all are over. Several tasks may wait here; a target's answers come in order, each only
    /// after the one before was dropped.
    ///
    /// # Errors
    /// [`FetchErrorKind::OutOfRange`] leaves the choice to the caller; after all others the target is over. Other targets go on.
    pub async fn next(&self) -> Option<Result<CompletedFetch, FetchError>> {
        self.fetched.lock().await.recv().await
    }

    /// Goes on at `offset` with a target that was out of range.
    pub fn seek(&self, target: usize, offset: i64) {
        // The engine ends only when all targets are over.
        let _ = self.commands.send(Command::Seek(target, offset));
    }

    /// Fetches nothing more of a target, and hands out nothing more of it.
    pub fn finish(&self, target: usize) {
        let _ = self.commands.send(Command::Finish(target));
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.engine.abort();
    }
}

/// A request's end.
struct Outcome {
    node: NodeId,
    purpose: Purpose,
    asked: Vec<Asked>,
    result: Result<Answered, Error>,
}

struct Answered {
    frame: Frame,
    response: FetchResponse,
    version: i16,
    reservation: Reservation,
    broker: BrokerName,
}

/// What came back from a task of the engine.
enum Event {
    Fetched(Box<Outcome>),
    Refreshed,
    Connected { node: NodeId, purpose: Purpose, result: Result<Arc<Connection>, Error> },
    Bounds { target: usize, bounds: Result<(i64, i64), Error> },
}

/// One of the two fetch connections of a broker, and the partitions that want to be asked on it.
struct Lane {
    purpose: Purpose,
    queue: VecDeque<usize>,
    connection: Option<Arc<Connection>>,
    connecting: bool,
    requests: usize,
}

impl Lane {
    fn new(purpose: Purpose) -> Self {
        Self { purpose, queue: VecDeque::new(), connection: None, connecting: false, requests: 0 }
    }

    fn has_room(&self) -> bool {
        let requests_max = if self.purpose == Purpose::Fetch { REQUESTS_MAX } else { 1 };
        !self.queue.is_empty() && !self.connecting && self.requests < requests_max
    }
}

type LaneKey = (NodeId, Purpose);

struct Engine {
    client: Client,
    budget: Arc<Budget>,
    partitions: Vec<PartitionState>,
    lanes: BTreeMap<LaneKey, Lane>,
    /// Targets whose leader must be looked up.
    unrouted: Vec<usize>,
    wake: BinaryHeap<Reverse<(Instant, usize)>>,
    tasks: JoinSet<Event>,
    refreshing: bool,
    stale: BTreeSet<String>,
    fetched: mpsc::UnboundedSender<Result<CompletedFetch, FetchError>>,
    commands: mpsc::UnboundedSender<Command>,
    /// What is handed to readers once the next requests are out.
    outbox: Vec<Result<CompletedFetch, FetchError>>,
    over: usize,
}

impl Engine {
    fn new(
        client: Client,
        targets: Vec<FetchTarget>,
        fetched: mpsc::UnboundedSender<Result<CompletedFetch, FetchError>>,
        commands: mpsc::UnboundedSender<Command>,
    ) -> Self {
        let mut partitions: Vec<PartitionState> = targets
            .into_iter()
            .enumerate()
            .map(|(index, target)| PartitionState::new(index, target, client.retry_backoff()))
            .collect();
        Self {
            budget: client.shared.budget.clone(),
            unrouted: partitions
                .iter_mut()
                .filter(|state| state.status == Status::Ready)
                .map(|state| {
                    state.queued = true;
                    state.index
                })
                .collect(),
            over: partitions.iter().filter(|state| state.is_over()).count(),
            partitions,
            client,
            lanes: BTreeMap::new(),
            outbox: Vec::new(),
            wake: BinaryHeap::new(),
            tasks: JoinSet::new(),
            refreshing: false,
            stale: BTreeSet::new(),
            fetched,
            commands,
        }
    }

    async fn run(mut self, mut receiver: mpsc::UnboundedReceiver<Command>) {
        let budget = self.budget.clone();
        while self.over < self.partitions.len() {
            let released = budget.released();
            tokio::pin!(released);
            released.as_mut().enable();
            self.wake_up(Instant::now());
            self.route();
            let starved = self.send_requests();
            for fetched in self.outbox.drain(..) {
                // Without a reader the engine is about to be stopped.
                let _ = self.fetched.send(fetched);
            }
            if self.over == self.partitions.len() {
                break;
            }
            let wake_at = self.wake.peek().map(|Reverse((at, _))| *at);
            tokio::select! {
                Some(event) = self.tasks.join_next() => {
                    if let Ok(event) = event {
                        self.handle(event);
                    }
                }
                Some(command) = receiver.recv() => self.obey(command),
                () = released, if starved => {}
                () = async { tokio::time::sleep_until(wake_at.unwrap_or_else(Instant::now).into()).await }, if wake_at.is_some() => {}
            }
        }
    }

    fn state(&mut self, index: usize) -> Option<&mut PartitionState> {
        self.partitions.get_mut(index)
    }

    fn obey(&mut self, command: Command) {
        let (Command::Done(index) | Command::Seek(index, _) | Command::Finish(index)) = command;
        let Some(state) = self.partitions.get_mut(index) else { return };
        if state.is_over() {
            return;
        }
        match command {
            Command::Done(_) => state.delivered = false,
            Command::Seek(_, offset) => {
                if state.status == Status::OutOfRange {
                    let known_end = state.known_end;
                    state.advanced(offset, known_end);
                    state.leader = None;
                }
            }
            Command::Finish(_) => {
                state.waiting.clear();
                state.status = Status::Finished;
            }
        }
        self.after_change(index);
    }

    /// Hands out what waits, queues what may be fetched, counts what is over.
    fn after_change(&mut self, index: usize) {
        let Some(state) = self.partitions.get_mut(index) else { return };
        if !state.delivered
            && let Some(next) = state.waiting.pop_front()
        {
            // An error needs no decoder, so the next thing may follow at once.
            state.delivered = next.is_ok();
            self.outbox.push(next);
        }
        if state.is_over() {
            self.over += 1;
        } else if state.may_fetch() {
            self.enqueue(index);
        }
    }

    fn enqueue(&mut self, index: usize) {
        let Some(state) = self.partitions.get_mut(index).filter(|state| !state.queued) else { return };
        state.queued = true;
        match state.leader {
            None => self.unrouted.push(index),
            Some(leader) => {
                let purpose = if state.has_data() { Purpose::Fetch } else { Purpose::Poll };
                let lane = self.lanes.entry((leader, purpose)).or_insert_with(|| Lane::new(purpose));
                lane.queue.push_back(index);
            }
        }
    }

    /// Ends back-offs whose time has come.
    fn wake_up(&mut self, now: Instant) {
        while let Some(Reverse((at, index))) = self.wake.peek().copied()
            && at <= now
        {
            self.wake.pop();
            if let Some(state) = self.state(index)
                && state.status == Status::BackingOff
            {
                state.status = Status::Ready;
                state.leader = None;
                self.after_change(index);
            }
        }
    }

    /// Finds leaders for the targets without one, in what is known; asks for metadata if it is not.
    fn route(&mut self) {
        if self.refreshing || (self.unrouted.is_empty() && self.stale.is_empty()) {
            return;
        }
        let mut missing = std::mem::take(&mut self.stale);
        let mut routed = Vec::new();
        {
            let cluster = self.client.cluster();
            for index in std::mem::take(&mut self.unrouted) {
                let Some(state) = self.partitions.get_mut(index) else { continue };
                if state.status != Status::Ready {
                    state.queued = false;
                    continue;
                }
                let partition = &state.target.partition;
                match cluster.leader(&partition.topic, partition.partition) {
                    Some((broker, epoch)) if !missing.contains(&partition.topic) => {
                        state.leader = broker.node_id;
                        state.leader_epoch = epoch;
                        state.queued = false;
                        routed.push(index);
                    }
                    _ => {
                        missing.insert(partition.topic.clone());
                        self.unrouted.push(index);
                    }
                }
            }
        }
        for index in routed {
            let planned = self
                .partitions
                .get(index)
                .and_then(|state| Some((state.target.partition.topic.clone(), state.target.topic_id?)));
            let known = planned
                .as_ref()
                .and_then(|(topic, _)| self.client.cluster().topic(topic).and_then(|topic| topic.topic_id));
            match (planned, known) {
                (Some((_, planned)), Some(known)) if planned != known => {
                    self.give_up(index, FetchErrorKind::TopicRecreated)
                }
                _ => self.enqueue(index),
            }
        }
        if !missing.is_empty() {
            self.refreshing = true;
            let client = self.client.clone();
            self.tasks.spawn(async move {
                let selection = TopicSelection::Named(missing.into_iter().collect());
                // What could not be learned shows as targets that still have no leader; their own limits end that.
                let _ = client.refresh_metadata(&selection, Deadline::after(REFRESH_LIMIT)).await;
                Event::Refreshed
            });
        }
    }

    /// Sends what may be sent. Says whether a request waits for budget.
    fn send_requests(&mut self) -> bool {
        let mut starved = false;
        let open: Vec<LaneKey> = self.lanes.iter().filter(|(_, lane)| lane.has_room()).map(|(key, _)| *key).collect();
        for key in open {
            while let Some(lane) = self.lanes.get_mut(&key)
                && lane.has_room()
            {
                let Some(connection) = lane.connection.clone().filter(|connection| !connection.is_closed()) else {
                    self.connect(key);
                    break;
                };
                match self.send_request(key, connection) {
                    Sent::Yes => {}
                    Sent::NothingToAsk => break,
                    Sent::NoBudget => {
                        starved = true;
                        break;
                    }
                }
            }
        }
        starved
    }

    fn connect(&mut self, (node, purpose): LaneKey) {
        let Some(lane) = self.lanes.get_mut(&(node, purpose)) else { return };
        lane.connecting = true;
        lane.connection = None;
        let client = self.client.clone();
        self.tasks.spawn(async move {
            let broker = client.cluster().broker(node).cloned();
            let result = match broker {
                Some(broker) => client.shared.pool.get(&broker, purpose).await,
                None => Err(Error::UnknownBroker { node_id: node }),
            };
            Event::Connected { node, purpose, result }
        });
    }

    fn connected(&mut self, key: LaneKey, result: Result<Arc<Connection>, Error>) {
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
                    self.target_failed(index, error.clone());
                }
            }
        }
    }

    fn send_request(&mut self, key: LaneKey, connection: Arc<Connection>) -> Sent {
        let (node, purpose) = key;
        let asked = self.choose(key);
        if asked.is_empty() {
            return Sent::NothingToAsk;
        }
        let config = self.client.config();
        let per_partition = usize::try_from(config.max_partition_fetch_bytes).unwrap_or(0).saturating_mul(asked.len());
        let bytes = per_partition.min(usize::try_from(config.fetch_max_bytes).unwrap_or(usize::MAX));
        let Some(reservation) = self.budget.try_reserve(bytes) else {
            self.put_back(key, &asked);
            return Sent::NoBudget;
        };
        let limit = config.request_timeout + config.fetch_max_wait;
        let begun = connection.version::<FetchRequest>(version_cap(&asked)).and_then(|version| {
            let request = build(config, &asked, version, purpose == Purpose::Poll);
            Ok((version, connection.begin(&request, version, limit)?))
        });
        for asked in &asked {
            if let Some(state) = self.state(asked.index) {
                state.status = Status::InFlight;
            }
        }
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.requests += 1;
        }
        self.tasks.spawn(async move {
            let answered = async {
                let (version, answer) = begun?;
                let frame = connection.answer::<FetchRequest>(version, answer).await?;
                let response = connection.decode::<FetchRequest>(version, &frame)?;
                connection.throttle(response.throttle_time_ms).await;
                Ok(Answered { frame, response, version, reservation, broker: connection.broker().clone() })
            };
            let result = answered.await;
            Event::Fetched(Box::new(Outcome { node, purpose, asked, result }))
        });
        Sent::Yes
    }

    /// Back to the front of the queue, in their order.
    fn put_back(&mut self, key: LaneKey, asked: &[Asked]) {
        for asked in asked.iter().rev() {
            if let Some(state) = self.partitions.get_mut(asked.index) {
                state.queued = true;
            }
            if let Some(lane) = self.lanes.get_mut(&key) {
                lane.queue.push_front(asked.index);
            }
        }
    }

    /// Takes the partitions of one request from a lane's queue: as many as an answer can fill, and when nothing is out yet only half, so
    /// that a second request can follow at once. A long poll takes all. Two ranges of one partition never share a request.
    fn choose(&mut self, key: LaneKey) -> Vec<Asked> {
        let config = self.client.config();
        let fill =
            usize::try_from(config.fetch_max_bytes / config.max_partition_fetch_bytes.max(1)).unwrap_or(1).max(1);
        let Some(lane) = self.lanes.get_mut(&key) else { return Vec::new() };
        let count = match lane.purpose {
            Purpose::Fetch if lane.requests == 0 => fill.min(lane.queue.len().div_ceil(2)),
            Purpose::Fetch => fill,
            _ => usize::MAX,
        };
        let mut seen: HashSet<TopicPartition> = HashSet::new();
        let mut asked = Vec::new();
        let mut not_now = Vec::new();
        while asked.len() < count
            && let Some(index) = lane.queue.pop_front()
        {
            let Some(state) = self.partitions.get_mut(index) else { continue };
            state.queued = false;
            if !state.may_fetch() || state.leader != Some(key.0) {
                continue;
            }
            if seen.insert(state.target.partition.clone()) {
                asked.push(Asked::new(state));
            } else {
                state.queued = true;
                not_now.push(index);
            }
        }
        lane.queue.extend(not_now);
        asked
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Refreshed => {
                self.refreshing = false;
                self.after_refresh();
            }
            Event::Fetched(outcome) => self.fetched(*outcome),
            Event::Connected { node, purpose, result } => self.connected((node, purpose), result),
            Event::Bounds { target, bounds } => match bounds {
                Ok((log_start_offset, log_end_offset)) => self.out_of_range(target, log_start_offset, log_end_offset),
                Err(error) => self.give_up(target, FetchErrorKind::Client(error)),
            },
        }
    }

    /// What metadata still has no leader for waits a while, within its limit.
    fn after_refresh(&mut self) {
        let leaderless: Vec<usize> = {
            let cluster = self.client.cluster();
            let known = |index: &usize| {
                let partition = &self.partitions.get(*index)?.target.partition;
                cluster.leader(&partition.topic, partition.partition)
            };
            self.unrouted.iter().copied().filter(|index| known(index).is_none()).collect()
        };
        self.unrouted.retain(|index| !leaderless.contains(index));
        for index in leaderless {
            if let Some(state) = self.state(index) {
                state.queued = false;
            }
            let Some(partition) = self.partitions.get(index).map(|state| state.target.partition.clone()) else {
                continue;
            };
            let gone = self.client.cluster().topic(&partition.topic).is_none();
            let (error, limit) = if gone {
                (Error::UnknownTopic { topic: partition.topic }, UNKNOWN_TOPIC_LIMIT)
            } else {
                let broker = BrokerName { node_id: None, address: self.any_address(), advertised_by: None };
                let code = ErrorCode::LEADER_NOT_AVAILABLE;
                let subject = partition.to_string();
                (
                    Error::Broker { api: ottla_protocol::ApiKey::METADATA, subject, broker, code },
                    self.client.config().default_api_timeout,
                )
            };
            self.failed(index, error, limit.min(self.client.config().default_api_timeout));
        }
    }

    fn any_address(&self) -> BrokerAddress {
        let bootstrap = self.client.config().bootstrap_servers.first().cloned();
        bootstrap.unwrap_or(BrokerAddress { host: String::new(), port: 0 })
    }

    fn fetched(&mut self, outcome: Outcome) {
        let Outcome { node, purpose, asked, result } = outcome;
        if let Some(lane) = self.lanes.get_mut(&(node, purpose)) {
            lane.requests = lane.requests.saturating_sub(1);
        }
        let answered = match result {
            Ok(answered) => answered,
            Err(error) => {
                for asked in &asked {
                    self.target_failed(asked.index, error.clone());
                }
                return;
            }
        };
        let Answered { frame, response, version, mut reservation, broker } = answered;
        if !response.error_code.is_none() {
            let code = response.error_code;
            for asked in &asked {
                self.partition_error(asked, code, &broker, None);
            }
            return;
        }
        reservation.resize(frame.bytes().len());
        let endpoints: HashMap<i32, BrokerAddress> = response
            .node_endpoints
            .iter()
            .filter_map(|node| {
                Some((node.node_id, BrokerAddress { host: node.host.clone(), port: u16::try_from(node.port).ok()? }))
            })
            .collect();
        let frame = Arc::new(HeldFrame { _frame: frame, _reservation: reservation });
        let mut data: Vec<Option<PartitionData>> = asked.iter().map(|_| None).collect();
        let index = Index::new(&asked, version);
        // A topic may occur more than once in an answer, and in any order.
        for mut topic in response.responses {
            for partition in std::mem::take(&mut topic.partitions) {
                if let Some(place) = index.find(&topic, partition.partition_index).and_then(|place| data.get_mut(place))
                {
                    *place = Some(partition);
                }
            }
        }
        // Where others came with data, one without may have been left out for lack of room.
        let crowded =
            data.iter().flatten().any(|data| data.records.as_ref().is_some_and(|records| !records.is_empty()));
        for (asked, data) in asked.iter().zip(data) {
            match data {
                None => self.partition_error(asked, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, &broker, None),
                Some(data) if data.error_code.is_none() => self.partition_data(asked, data, &frame, crowded),
                Some(data) => {
                    let leader = (data.current_leader.leader_id, data.current_leader.leader_epoch);
                    let hint = (leader.0 >= 0 && leader.1 >= 0).then(|| (leader, endpoints.get(&leader.0).cloned()));
                    self.partition_error(asked, data.error_code, &broker, hint);
                }
            }
        }
    }

    fn partition_data(&mut self, asked: &Asked, data: PartitionData, frame: &Arc<HeldFrame>, crowded: bool) {
        let config = self.client.config();
        let (poll_timeout, isolation) = (config.poll_timeout, config.isolation_level);
        let commands = self.commands.clone();
        let Some(state) = self.partitions.get_mut(asked.index).filter(|state| state.status == Status::InFlight) else {
            return;
        };
        let log_end = match isolation {
            IsolationLevel::ReadUncommitted => data.high_watermark,
            IsolationLevel::ReadCommitted => data.last_stable_offset,
        };
        let records = data.records.unwrap_or_default();
        if records.is_empty() {
            // Alone and empty: there is nothing to read now, whatever the log's end says. A long poll waits for it.
            let known_end = if crowded { log_end } else { log_end.min(state.fetch_offset) };
            match state.nothing_came(Instant::now(), known_end, poll_timeout) {
                None => self.after_change(asked.index),
                Some(after) => {
                    let source = FetchErrorKind::NoData {
                        until_offset: state.target.until_offset,
                        last_stable_offset: data.last_stable_offset,
                        high_watermark: data.high_watermark,
                        after,
                    };
                    self.give_up(asked.index, source);
                }
            }
            return;
        }
        let fetch_offset = state.fetch_offset;
        let next_offset = next_fetch_offset(&records, fetch_offset);
        if next_offset <= fetch_offset {
            let source = match RecordBatches::new(&records).next() {
                Some(Err(error)) => FetchErrorKind::Batch(error),
                _ => FetchErrorKind::NoProgress { bytes: records.len() },
            };
            self.give_up(asked.index, source);
            return;
        }
        state.advanced(next_offset, log_end);
        state.waiting.push_back(Ok(CompletedFetch {
            target: asked.index,
            partition: state.target.partition.clone(),
            fetch_offset,
            records,
            aborted_transactions: data.aborted_transactions.unwrap_or_default(),
            high_watermark: data.high_watermark,
            last_stable_offset: data.last_stable_offset,
            log_start_offset: data.log_start_offset,
            _frame: frame.clone(),
            _done: DoneSignal { target: asked.index, commands },
        }));
        self.after_change(asked.index);
    }

    fn partition_error(
        &mut self,
        asked: &Asked,
        code: ErrorCode,
        broker: &BrokerName,
        hint: Option<((i32, i32), Option<BrokerAddress>)>,
    ) {
        let Some(state) = self.state(asked.index).filter(|state| state.status == Status::InFlight) else { return };
        let partition = state.target.partition.clone();
        if code == ErrorCode::OFFSET_OUT_OF_RANGE {
            // The answer does not say on which side: its offsets are all -1.
            state.status = Status::OutOfRange;
            self.look_up_bounds(asked.index, partition);
            return;
        }
        if let Some(((leader_id, leader_epoch), address)) = hint {
            let mut cluster = self.client.cluster();
            if let Some(address) = address {
                cluster.add_broker(NodeId(leader_id), address, broker.address.clone());
            }
            if cluster.new_leader(&partition.topic, partition.partition, NodeId(leader_id), leader_epoch)
                && cluster.leader(&partition.topic, partition.partition).is_some()
            {
                drop(cluster);
                if let Some(state) = self.state(asked.index) {
                    state.status = Status::Ready;
                    state.leader = None;
                }
                self.after_change(asked.index);
                return;
            }
        }
        let error =
            Error::Broker { api: FetchRequest::API_KEY, subject: partition.to_string(), broker: broker.clone(), code };
        // "Retriable" by its type, but the bytes on the broker's disk will be the same next time.
        if !(code.is_retriable() || code == ErrorCode::UNKNOWN_SERVER_ERROR) || code == ErrorCode::CORRUPT_MESSAGE {
            self.give_up(asked.index, FetchErrorKind::Client(error));
            return;
        }
        self.stale.insert(partition.topic);
        let limit = match code {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID => UNKNOWN_TOPIC_LIMIT,
            _ => Duration::MAX,
        };
        self.failed(asked.index, error, limit.min(self.client.config().default_api_timeout));
    }

    fn look_up_bounds(&mut self, target: usize, partition: TopicPartition) {
        let client = self.client.clone();
        self.tasks.spawn(async move {
            let bounds = async {
                let isolation = client.config().isolation_level;
                let mut bounds = [0, 0];
                for (bound, spec) in bounds.iter_mut().zip([OffsetSpec::Earliest, OffsetSpec::Latest]) {
                    let wanted = BTreeMap::from([(partition.clone(), spec)]);
                    let found = client.list_offsets(&wanted, isolation).await?;
                    *bound = found.get(&partition).and_then(|found| found.offset).unwrap_or(-1);
                }
                Ok((bounds[0], bounds[1]))
            };
            Event::Bounds { target, bounds: bounds.await }
        });
    }

    fn out_of_range(&mut self, index: usize, log_start_offset: i64, log_end_offset: i64) {
        let Some(state) = self.state(index).filter(|state| state.status == Status::OutOfRange) else { return };
        if (log_start_offset..=log_end_offset).contains(&state.fetch_offset) {
            // The log has moved between the two answers; the offset is good now.
            state.status = Status::Ready;
        } else {
            state.known_end = log_end_offset;
            let error = state.error(FetchErrorKind::OutOfRange { log_start_offset, log_end_offset });
            state.waiting.push_back(Err(error));
        }
        self.after_change(index);
    }

    /// The broker of a target could not be asked.
    fn target_failed(&mut self, index: usize, error: Error) {
        let Some(topic) = self.partitions.get(index).map(|state| state.target.partition.topic.clone()) else { return };
        self.stale.insert(topic);
        if error.is_retriable() {
            self.failed(index, error, self.client.config().default_api_timeout);
        } else {
            self.give_up(index, FetchErrorKind::Client(error));
        }
    }

    /// A try failed: another one later, or the end of this target.
    fn failed(&mut self, index: usize, error: Error, limit: Duration) {
        let now = Instant::now();
        let Some(state) = self.state(index).filter(|state| state.status != Status::Finished) else { return };
        match state.failed(now, error, limit, &mut rand::rng()) {
            Ok(pause) => self.wake.push(Reverse((now + pause, index))),
            Err(source) => self.give_up(index, source),
        }
    }

    /// The end of a target, after what it still has.
    fn give_up(&mut self, index: usize, source: FetchErrorKind) {
        let Some(state) = self.state(index).filter(|state| !state.is_over()) else { return };
        let error = state.error(source);
        state.waiting.push_back(Err(error));
        state.status = Status::Finished;
        self.after_change(index);
    }
}

/// What became of a request that was to be sent.
enum Sent {
    Yes,
    NothingToAsk,
    NoBudget,
}

//! The loop: one task a fetcher owns all its state; requests run in tasks of their own and come back as events.
//!
//! - A partition is in at most one request at a time, and at most two of its answers are held (`partition.rs`).
//! - Two requests are out to a broker while there is data for both, on one connection; partitions that may have to wait for data share a
//!   long poll on another, which tells the broker only what changed (`session.rs`).
//! - The next request leaves as soon as an answer's batch headers are read, and before the answer is handed to a reader, whose work
//!   decoding is.
//! - Ready partitions queue up, so that each gets its turn however the broker fills its answers.
//! - Nothing is tried again at once: failures wait for the target's back-off, metadata for a pause, and a broker that answers a long poll
//!   early with nothing is asked less and less.

use super::{
    CompletedFetch, FetchError, FetchErrorKind, FetchTarget,
    budget::Budget,
    fetcher::{Blocked, Command},
    lanes::{Lane, LaneKey, Outcome},
    partition::{PartitionState, Status},
    request::Sizes,
    routing::{Refreshed, Routing},
};
use crate::{Client, Error, TopicPartition, conn::Connection};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::mpsc, task::JoinSet};

/// What came back from a task of the engine.
pub(super) enum Event {
    Fetched(Box<Outcome>),
    Refreshed { began: Instant, result: Refreshed },
    Connected { key: LaneKey, began: Instant, result: Result<Arc<Connection>, Error> },
    Bounds { target: usize, bounds: Result<(i64, i64), Error> },
}

type Fetched = Result<CompletedFetch, FetchError>;

pub(super) struct Engine {
    pub(super) client: Client,
    pub(super) budget: Arc<Budget>,
    pub(super) sizes: Sizes,
    /// How many bytes an offset took lately, whatever the partition.
    pub(super) offset_bytes: Option<i64>,
    pub(super) partitions: Vec<PartitionState>,
    pub(super) lanes: BTreeMap<LaneKey, Lane>,
    /// The lane whose request waits for budget, and is the next to get some.
    pub(super) starved: Option<LaneKey>,
    /// Held by each request that is out and each answer that somebody has.
    pub(super) outstanding: Arc<()>,
    /// Whom to tell when only kept bytes are in its way.
    pub(super) blocked: Arc<Blocked>,
    pub(super) routing: Routing,
    wake: BinaryHeap<Reverse<(Instant, usize)>>,
    pub(super) tasks: JoinSet<Event>,
    fetched: mpsc::UnboundedSender<Fetched>,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    /// What is handed to readers once the next requests are out.
    outbox: Vec<Fetched>,
    over: usize,
}

impl Engine {
    pub(super) fn new(
        client: Client,
        targets: Vec<FetchTarget>,
        fetched: mpsc::UnboundedSender<Fetched>,
        commands: mpsc::UnboundedSender<Command>,
        blocked: Arc<Blocked>,
    ) -> Self {
        let mut numbers: HashMap<TopicPartition, usize> = HashMap::with_capacity(targets.len());
        let mut partitions: Vec<PartitionState> = Vec::with_capacity(targets.len());
        let mut topics: HashSet<Arc<str>> = HashSet::new();
        let mut routing = Routing::default();
        let budget = client.shared.budget.clone();
        let sizes = Sizes::new(client.config(), budget.wire_limit());
        for (index, target) in targets.into_iter().enumerate() {
            let next = numbers.len();
            let number = *numbers.entry(target.partition.clone()).or_insert(next);
            let topic = topics.get(target.partition.topic.as_str()).cloned();
            let topic = topic.unwrap_or_else(|| Arc::from(target.partition.topic.as_str()));
            topics.insert(topic.clone());
            let backoff = client.retry_backoff();
            let mut state = PartitionState::new(index, number, topic, target, sizes.partition_bytes_max, backoff);
            if state.status == Status::Ready {
                state.queued = true;
                routing.unrouted.push(index);
            }
            partitions.push(state);
        }
        Self {
            sizes,
            budget,
            offset_bytes: None,
            over: partitions.iter().filter(|state| state.is_over()).count(),
            partitions,
            client,
            lanes: BTreeMap::new(),
            starved: None,
            outstanding: Arc::default(),
            blocked,
            routing,
            wake: BinaryHeap::new(),
            tasks: JoinSet::new(),
            fetched,
            commands,
            outbox: Vec::new(),
        }
    }

    pub(super) async fn run(mut self, mut receiver: mpsc::UnboundedReceiver<Command>) {
        let budget = self.budget.clone();
        loop {
            let released = budget.released();
            tokio::pin!(released);
            released.as_mut().enable();
            let now = Instant::now();
            self.wake_up(now);
            self.route(now);
            self.send_requests(now);
            for fetched in self.outbox.drain(..) {
                // Without a reader the engine is about to be stopped.
                let _ = self.fetched.send(fetched);
            }
            // Only now: the last thing of the last target may be an error that was handed out just above.
            if self.over == self.partitions.len() {
                break;
            }
            let wake_at = self.wake_at(now);
            tokio::select! {
                Some(event) = self.tasks.join_next() => {
                    if let Ok(event) = event {
                        self.handle(event);
                    }
                }
                Some(command) = receiver.recv() => self.obey(command),
                () = released, if self.starved.is_some() => {}
                () = async { tokio::time::sleep_until(wake_at.unwrap_or(now).into()).await }, if wake_at.is_some() => {}
            }
        }
    }

    /// When something is due although nothing comes.
    fn wake_at(&self, now: Instant) -> Option<Instant> {
        let target = self.wake.peek().map(|Reverse((at, _))| *at);
        let lane = self.lanes.values().filter_map(|lane| lane.wake_at(now)).min();
        [target, lane, self.routing.wake_at()].into_iter().flatten().min()
    }

    pub(super) fn state(&mut self, index: usize) -> Option<&mut PartitionState> {
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
                self.leave_poll(index);
            }
        }
        self.after_change(index);
    }

    /// Hands out what waits, queues what may be fetched, counts what is over.
    pub(super) fn after_change(&mut self, index: usize) {
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

    fn handle(&mut self, event: Event) {
        match event {
            Event::Refreshed { began, result } => self.refreshed(began, result),
            Event::Fetched(outcome) => self.fetched(*outcome),
            Event::Connected { key, began, result } => self.connected(key, began, result),
            Event::Bounds { target, bounds } => match bounds {
                Ok((log_start_offset, log_end_offset)) => self.out_of_range(target, log_start_offset, log_end_offset),
                Err(error) => self.give_up(target, error.into()),
            },
        }
    }

    /// The broker of a target could not be asked.
    pub(super) fn target_failed(&mut self, index: usize, began: Instant, error: Error) {
        let Some(state) = self.partitions.get(index).filter(|state| state.status != Status::Finished) else { return };
        if error.is_retriable() {
            self.routing.stale.insert(state.target.partition.topic.clone());
            self.failed(index, began, error, self.client.config().default_api_timeout);
        } else {
            self.give_up(index, error.into());
        }
    }

    /// A try that began at `began` failed: another one later, or the end of this target.
    pub(super) fn failed(&mut self, index: usize, began: Instant, error: Error, limit: Duration) {
        let now = Instant::now();
        let limit = limit.min(self.client.config().default_api_timeout);
        let Some(state) = self.state(index).filter(|state| state.status != Status::Finished) else { return };
        match state.failed(began, now, error, limit, &mut rand::rng()) {
            Ok(pause) => self.wake.push(Reverse((now + pause, index))),
            Err(source) => self.give_up(index, source),
        }
    }

    /// The end of a target, after what it still has.
    pub(super) fn give_up(&mut self, index: usize, source: FetchErrorKind) {
        let Some(state) = self.state(index).filter(|state| state.status != Status::Finished) else { return };
        let error = state.error(source);
        state.waiting.push_back(Err(error));
        state.status = Status::Finished;
        self.after_change(index);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        for lane in self.lanes.values() {
            lane.end_session(self.client.config());
        }
    }
}

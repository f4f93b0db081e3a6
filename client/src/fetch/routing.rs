//! Finding leaders: in what is known if that will do, with one look at the metadata for all that wait otherwise.

use super::{
    FetchErrorKind,
    engine::{Engine, Event},
    partition::Status,
};
use crate::{BrokerName, Error, client::Deadline, cluster::TopicAnswer, metadata::TopicSelection};
use ottla_protocol::{ApiKey, ErrorCode};
use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

/// How long one look at the metadata may take before the targets that wait for it count a failure.
const REFRESH_LIMIT: Duration = Duration::from_secs(5);
/// A topic that the cluster does not know is believed gone after this long: brokers learn of changes one after the other.
pub(super) const UNKNOWN_TOPIC_LIMIT: Duration = Duration::from_secs(5);

pub(super) type Refreshed = Result<(BrokerName, Vec<TopicAnswer>), Error>;

/// Who waits for a leader, and for which look at the metadata.
#[derive(Default)]
pub(super) struct Routing {
    /// Targets whose leader must be looked up.
    pub(super) unrouted: Vec<usize>,
    /// Topics whose leaders are not believed any more.
    pub(super) stale: BTreeSet<String>,
    /// Topics that are being asked for now, and the targets that wait for that.
    asked: BTreeSet<String>,
    waiting: Vec<usize>,
    /// Targets that wait for the next look.
    next: Vec<usize>,
    refreshing: bool,
    not_before: Option<Instant>,
}

impl Routing {
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.not_before.filter(|_| !self.refreshing && !self.stale.is_empty())
    }
}

impl Engine {
    /// Queues a target for a request to its leader, or for finding one.
    pub(super) fn enqueue(&mut self, index: usize) {
        let Some(state) = self.partitions.get_mut(index).filter(|state| !state.queued) else { return };
        state.queued = true;
        match state.leader {
            None => self.routing.unrouted.push(index),
            Some(leader) => self.enqueue_for(index, leader),
        }
    }

    /// Finds leaders for the targets without one, in what is known; asks for metadata if it is not.
    pub(super) fn route(&mut self, now: Instant) {
        for index in std::mem::take(&mut self.routing.unrouted) {
            let Some(state) = self.partitions.get_mut(index) else { continue };
            if state.status != Status::Ready {
                state.queued = false;
                continue;
            }
            let topic = &state.target.partition.topic;
            if self.routing.stale.contains(topic) {
                self.routing.next.push(index);
            } else if self.routing.asked.contains(topic) {
                self.routing.waiting.push(index);
            } else if !self.place(index) {
                self.routing.next.push(index);
                if let Some(state) = self.partitions.get(index) {
                    self.routing.stale.insert(state.target.partition.topic.clone());
                }
            }
        }
        if !self.routing.refreshing
            && !self.routing.stale.is_empty()
            && self.routing.not_before.is_none_or(|not_before| not_before <= now)
        {
            self.refresh(now);
        }
    }

    /// Gives a queued target to its leader, if that is known.
    fn place(&mut self, index: usize) -> bool {
        let Some(state) = self.partitions.get_mut(index) else { return true };
        let partition = &state.target.partition;
        let leader_and_id = {
            let cluster = self.client.cluster();
            let leader = cluster.leader(&partition.topic, partition.partition);
            let leader = leader.and_then(|(broker, epoch)| Some((broker.node_id?, epoch)));
            leader.map(|leader| (leader, cluster.topic(&partition.topic).and_then(|topic| topic.topic_id)))
        };
        let Some(((leader, leader_epoch), topic_id)) = leader_and_id else { return false };
        state.queued = false;
        state.leader = Some(leader);
        state.leader_epoch = leader_epoch;
        match (state.target.topic_id, topic_id) {
            (Some(planned), Some(known)) if planned != known => self.give_up(index, FetchErrorKind::TopicRecreated),
            _ => self.enqueue(index),
        }
        true
    }

    /// Asks for the metadata of all stale topics at once.
    fn refresh(&mut self, now: Instant) {
        let api_timeout = self.client.config().default_api_timeout;
        let mut limit = REFRESH_LIMIT.min(api_timeout);
        let Routing { stale, asked, waiting, next, refreshing, .. } = &mut self.routing;
        *refreshing = true;
        *asked = std::mem::take(stale);
        waiting.append(next);
        // Whoever backs off now will wait for this look too.
        for state in self.partitions.iter().filter(|state| state.status != Status::Finished) {
            limit = limit.min(state.time_left(now, api_timeout));
        }
        let selection = TopicSelection::Named(asked.iter().cloned().collect());
        let client = self.client.clone();
        self.tasks.spawn(async move {
            let result = client.refresh_metadata(&selection, Deadline::after(limit)).await;
            Event::Refreshed { began: now, result }
        });
    }

    /// What metadata still has no leader for waits a while, within its limit.
    pub(super) fn refreshed(&mut self, began: Instant, result: Refreshed) {
        self.routing.refreshing = false;
        self.routing.asked.clear();
        self.routing.not_before = Some(Instant::now() + self.client.config().retry_backoff);
        let answers: Result<HashMap<&str, ErrorCode>, &Error> = match &result {
            Ok((_, answers)) => Ok(answers.iter().map(|answer| (answer.name.as_str(), answer.code)).collect()),
            Err(error) => Err(error),
        };
        for index in std::mem::take(&mut self.routing.waiting) {
            let Some(state) = self.partitions.get_mut(index) else { continue };
            if state.status != Status::Ready {
                state.queued = false;
                continue;
            }
            let topic = state.target.partition.topic.clone();
            let code = answers.as_ref().map(|answers| answers.get(topic.as_str()).copied());
            // A failed look leaves the old leader, who failed: no reason to ask it again before the next look.
            if code.is_ok() && self.place(index) {
                continue;
            }
            let Some(state) = self.partitions.get_mut(index) else { continue };
            state.queued = false;
            let partition = state.target.partition.clone();
            let unknown_topic = |topic| (Error::UnknownTopic { topic }, UNKNOWN_TOPIC_LIMIT);
            let (error, limit) = match code {
                Err(error) => {
                    if !error.is_retriable() && !matches!(error, Error::DeadlineExceeded { .. }) {
                        self.give_up(index, (*error).clone().into());
                        continue;
                    }
                    ((*error).clone(), Duration::MAX)
                }
                Ok(None | Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID)) => {
                    unknown_topic(topic)
                }
                Ok(Some(ErrorCode::NONE)) => {
                    let known = self
                        .client
                        .cluster()
                        .topic(&topic)
                        .map(|topic| topic.partitions.contains_key(&partition.partition));
                    match known {
                        None => unknown_topic(topic),
                        Some(false) => (Error::UnknownPartition { partition }, UNKNOWN_TOPIC_LIMIT),
                        Some(true) => (Error::Leaderless { partition }, Duration::MAX),
                    }
                }
                Ok(Some(code)) => {
                    let Ok((broker, _)) = &result else { continue };
                    let (api, subject, broker) = (ApiKey::METADATA, format!("topic '{topic}'"), broker.clone().into());
                    let error = Error::Broker { api, subject, broker, code };
                    if !code.is_retriable() {
                        self.give_up(index, error.into());
                        continue;
                    }
                    (error, Duration::MAX)
                }
            };
            self.failed(index, began, error, limit);
        }
    }
}

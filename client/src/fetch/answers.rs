//! What an answer means for each of the partitions that were asked for.

use super::{
    CompletedFetch, FetchErrorKind,
    completed::{DoneSignal, HeldFrame},
    engine::{Engine, Event},
    lanes::{Answered, LaneKey, Outcome},
    partition::Status,
    request::{Asked, Index, NAMES_UNTIL},
    routing::UNKNOWN_TOPIC_LIMIT,
    session::is_session_error,
};
use crate::{
    BrokerAddress, BrokerName, Error, IsolationLevel, NodeId, OffsetSpec, TopicPartition, broker_pool::Purpose,
};
use ottla_protocol::{
    ErrorCode, Message,
    message::{FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData},
    record::{RecordBatches, next_fetch_offset},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

/// Who leads a partition now, as an answer says beside an error (KIP-951).
#[derive(Clone)]
struct Hint {
    leader: NodeId,
    leader_epoch: i32,
    address: Option<BrokerAddress>,
}

/// A long poll that ends before this part of its time, with nothing, was none.
const EARLY: u32 = 2;
/// A wait shorter than this is none: its answers are early whenever they come.
const SHORT_WAIT: Duration = Duration::from_millis(10);

impl Engine {
    pub(super) fn fetched(&mut self, outcome: Outcome) {
        let Outcome { key, sent_at, mut asked, result } = outcome;
        let now = Instant::now();
        let wait = self.client.config().fetch_max_wait;
        let early = wait < SHORT_WAIT || now.saturating_duration_since(sent_at) < wait / EARLY;
        let is_poll = key.1 == Purpose::Poll;
        let answer = result.as_ref().ok().map(|answered| &answered.response);
        let mut useless = result.is_err() || is_poll && early && answer.is_some_and(says_nothing);
        let mut refused = false;
        if let Some(lane) = self.lanes.get_mut(&key) {
            if is_poll && answer.is_some_and(|answer| is_session_error(answer.error_code)) {
                // The first time it is asked anew at once.
                let refusals = lane.session.refused();
                refused = refusals.is_some();
                useless = refusals.is_none_or(|refusals| refusals > 1);
            }
            if is_poll && !refused && answer.is_none_or(|answer| !answer.error_code.is_none()) {
                asked.extend(lane.session.take_all());
            }
            // A connection that was made and fails again and again passes the pool's back-off; each target alone waits for its own.
            lane.answered(useless, now);
        }
        match result {
            // All of them are still wanted, from the same offsets on.
            Ok(_) if refused => {}
            Ok(answered) => self.answered(key, asked, answered, sent_at),
            Err(error) => {
                for asked in &asked {
                    self.target_failed(asked.index, sent_at, error.clone());
                }
            }
        }
    }

    fn answered(&mut self, key: LaneKey, asked: Vec<Asked>, answered: Answered, sent_at: Instant) {
        let Answered { frame, response, version, mut reservation, outstanding, broker } = answered;
        if !response.error_code.is_none() {
            for asked in &asked {
                self.partition_error(asked, response.error_code, &broker, None, sent_at);
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
        let frame = Arc::new(HeldFrame { _frame: frame, _reservation: reservation, _outstanding: outstanding });
        let answers = match self.lanes.get_mut(&key).filter(|_| key.1 == Purpose::Poll) {
            Some(lane) => lane.session.answered(response.session_id, response.responses),
            None => assign(asked, response.responses, version > NAMES_UNTIL),
        };
        // Where others came with data, one without may have been left out for lack of room. Those queue up first, or the ones in front would
        // take all the room again.
        let (full, empty): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|(_, data)| data.as_ref().is_some_and(has_records));
        let crowded = !full.is_empty();
        if key.1 == Purpose::Poll {
            self.without_news(key, crowded);
        }
        for (asked, data) in empty.into_iter().chain(full) {
            match data {
                None => {
                    let (api, subject) = (FetchRequest::API_KEY, TopicPartition::new(&*asked.topic, asked.partition));
                    let (subject, broker) = (subject.to_string(), broker.clone().into());
                    self.target_failed(asked.index, sent_at, Error::Unanswered { api, subject, broker });
                }
                Some(data) if data.error_code.is_none() => self.partition_data(&asked, data, &frame, crowded),
                Some(data) => {
                    let (leader_id, leader_epoch) = (data.current_leader.leader_id, data.current_leader.leader_epoch);
                    let address = endpoints.get(&leader_id).cloned();
                    let hint = Hint { leader: NodeId(leader_id), leader_epoch, address };
                    let hint = (leader_id >= 0 && leader_epoch >= 0).then_some(hint);
                    self.partition_error(&asked, data.error_code, &broker, hint, sent_at);
                }
            }
        }
    }

    /// Those that stayed in the session of a long poll: nothing came for them, which those can't bear for ever whose ranges have an end.
    fn without_news(&mut self, key: LaneKey, crowded: bool) {
        let limit = self.client.config().poll_timeout;
        let now = Instant::now();
        let Some(lane) = self.lanes.get(&key) else { return };
        for index in lane.session.bounded().collect::<Vec<_>>() {
            let Some(state) = self.partitions.get_mut(index) else { continue };
            if let Some(after) = state.no_news(now, limit, crowded) {
                self.leave_poll(index);
                self.no_data(index, after);
            }
        }
    }

    fn no_data(&mut self, index: usize, after: Duration) {
        let Some(state) = self.partitions.get(index) else { return };
        let source = FetchErrorKind::NoData {
            until_offset: state.target.until_offset,
            last_stable_offset: state.last_stable_offset,
            high_watermark: state.high_watermark,
            after,
        };
        self.give_up(index, source);
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
        (state.high_watermark, state.last_stable_offset) = (data.high_watermark, data.last_stable_offset);
        let records = data.records.unwrap_or_default();
        if records.is_empty() {
            // Alone and empty: there is nothing to read now, whatever the log's end says. A long poll waits for it.
            let known_end = if crowded { log_end } else { log_end.min(state.fetch_offset) };
            match state.nothing_came(Instant::now(), known_end, poll_timeout, crowded) {
                None => self.after_change(asked.index),
                Some(after) => self.no_data(asked.index, after),
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
        state.bytes_max = self.sizes.piece_bytes(&records, asked.bytes_max);
        let bytes = i64::try_from(records.len()).unwrap_or(i64::MAX);
        state.offset_bytes = Some(bytes / next_offset.saturating_sub(fetch_offset).max(1) + 1);
        self.offset_bytes = state.offset_bytes;
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
        hint: Option<Hint>,
        sent_at: Instant,
    ) {
        let Some(state) = self.partitions.get_mut(asked.index).filter(|state| state.status == Status::InFlight) else {
            return;
        };
        let partition = state.target.partition.clone();
        if code == ErrorCode::OFFSET_OUT_OF_RANGE {
            // The answer does not say on which side: its offsets are all -1.
            state.status = Status::OutOfRange;
            self.look_up_bounds(asked.index, partition);
            return;
        }
        // Once without a pause; a second new leader in a row may be a quarrel between brokers.
        if !state.followed_hint && self.knows_newer_leader(asked, &partition, broker, hint) {
            if let Some(state) = self.state(asked.index) {
                state.followed_hint = true;
                state.status = Status::Ready;
                state.leader = None;
            }
            self.after_change(asked.index);
            return;
        }
        let (subject, broker) = (partition.to_string(), broker.clone().into());
        let error = Error::Broker { api: FetchRequest::API_KEY, subject, broker, code };
        // "Retriable" by its type, but the bytes on the broker's disk will be the same next time.
        if !(code.is_retriable() || code == ErrorCode::UNKNOWN_SERVER_ERROR) || code == ErrorCode::CORRUPT_MESSAGE {
            self.give_up(asked.index, error.into());
            return;
        }
        self.routing.stale.insert(partition.topic);
        let limit = match code {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID => UNKNOWN_TOPIC_LIMIT,
            _ => Duration::MAX,
        };
        self.failed(asked.index, sent_at, error, limit);
    }

    /// Whether a newer leader than the one asked is known, from this answer or since the request was sent.
    fn knows_newer_leader(
        &self,
        asked: &Asked,
        partition: &TopicPartition,
        broker: &BrokerName,
        hint: Option<Hint>,
    ) -> bool {
        let mut cluster = self.client.cluster();
        if let Some(Hint { leader, leader_epoch, address }) = hint {
            if let Some(address) = address {
                cluster.add_broker(leader, address, broker.address.clone());
            }
            cluster.new_leader(&partition.topic, partition.partition, leader, leader_epoch);
        }
        let known = cluster.leader(&partition.topic, partition.partition);
        known.is_some_and(|(_, leader_epoch)| leader_epoch > asked.leader_epoch)
    }

    fn look_up_bounds(&mut self, target: usize, partition: TopicPartition) {
        let client = self.client.clone();
        self.tasks.spawn(async move {
            let deadline = client.api_deadline();
            let look_up = async |spec| {
                let wanted = BTreeMap::from([(partition.clone(), spec)]);
                // The end of the log itself: what is not committed yet is not lost.
                let found = client.list_offsets_until(&wanted, IsolationLevel::ReadUncommitted, deadline).await?;
                let offset = found.get(&partition).and_then(|found| found.offset);
                offset.ok_or_else(|| Error::UnknownPartition { partition: partition.clone() })
            };
            let bounds = async { Ok((look_up(OffsetSpec::Earliest).await?, look_up(OffsetSpec::Latest).await?)) };
            Event::Bounds { target, bounds: bounds.await }
        });
    }

    pub(super) fn out_of_range(&mut self, index: usize, log_start_offset: i64, log_end_offset: i64) {
        let Some(state) = self.state(index).filter(|state| state.status == Status::OutOfRange) else { return };
        if (log_start_offset..=log_end_offset).contains(&state.fetch_offset) {
            // The log has moved between the two answers, or they come from brokers that don't agree: again, after a pause.
            let partition = state.target.partition.clone();
            let error = Error::OutOfRange { partition, offset: state.fetch_offset, log_start_offset, log_end_offset };
            self.target_failed(index, Instant::now(), error);
            return;
        }
        state.known_end = log_end_offset;
        let error = state.error(FetchErrorKind::OutOfRange { log_start_offset, log_end_offset });
        state.waiting.push_back(Err(error));
        self.after_change(index);
    }
}

/// What an answer says of each partition that was asked for. A topic may occur more than once in it, and in any order.
fn assign(
    asked: Vec<Asked>,
    responses: Vec<FetchableTopicResponse>,
    by_id: bool,
) -> Vec<(Asked, Option<PartitionData>)> {
    let mut data: Vec<Option<PartitionData>> = asked.iter().map(|_| None).collect();
    let index = Index::new(&asked, by_id);
    for mut topic in responses {
        for partition in std::mem::take(&mut topic.partitions) {
            if let Some(place) = index.find(&topic, partition.partition_index).and_then(|place| data.get_mut(place)) {
                *place = Some(partition);
            }
        }
    }
    asked.into_iter().zip(data).collect()
}

fn has_records(data: &PartitionData) -> bool {
    data.error_code.is_none() && data.records.as_ref().is_some_and(|records| !records.is_empty())
}

/// Whether there is neither an error nor a record in it.
fn says_nothing(response: &FetchResponse) -> bool {
    let mut partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    response.error_code.is_none() && partitions.all(|data| data.error_code.is_none() && !has_records(data))
}

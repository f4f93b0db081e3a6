//! Fetch: stored bytes as they are, sessions, limits, isolation, and the wait for bytes that aren't there yet.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::fetch_response::{
    AbortedTransaction, EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use kafka_protocol::messages::{BrokerId, FetchRequest, FetchResponse, ProducerId, TopicName};
use tokio::time::Instant;

use super::Context;
use crate::log::ReadLimit;
use crate::session::{SessionKind, Wanted};
use crate::state::{Cluster, Partition, Shared, text};

/// From here on there are sessions (KIP-227).
const SESSIONS: i16 = 7;
/// From here on the answer names the leader, and log truncation is noticed (KIP-595).
const CURRENT_LEADER: i16 = 12;
/// From here on topics go by id (KIP-516).
const TOPIC_IDS: i16 = 13;
/// From here on the answer has the new leader's address (KIP-951).
const NODE_ENDPOINTS: i16 = 16;
const READ_COMMITTED: i8 = 1;

pub(super) async fn handle(shared: &Shared, context: &Context, request: FetchRequest) -> FetchResponse {
    if let Some(code) = context.forced.top_level {
        return FetchResponse::default().with_error_code(code);
    }
    let by_id = context.version >= TOPIC_IDS;
    let opened = shared.with(|cluster| {
        let wanted = wanted(cluster, &request, by_id);
        if context.version < SESSIONS {
            return Ok((SessionKind::Sessionless, wanted));
        }
        cluster.sessions.entry(context.node).or_default().open(&request, wanted, by_id)
    });
    let (kind, wanted) = match opened {
        Ok(opened) => opened,
        Err(error) => return FetchResponse::default().with_error_code(error.code()),
    };

    // Subscribed before the first read, so that an append between the read and the wait is noticed.
    let mut changes = shared.changes();
    let deadline = Instant::now() + Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    let answered = loop {
        changes.borrow_and_update();
        let read = shared.with(|cluster| read_all(cluster, context, &request, &wanted));
        if wanted.is_empty() || read.is_enough(request.min_bytes) || Instant::now() >= deadline {
            break read.partitions;
        }
        // A timeout only means one last read.
        let _ = tokio::time::timeout_at(deadline, changes.changed()).await;
    };

    shared.with(|cluster| {
        let answered = wanted.into_iter().zip(answered).collect();
        let (session_id, answered) = cluster.sessions.entry(context.node).or_default().close(kind, by_id, answered);
        respond(cluster, context, session_id, answered, by_id)
    })
}

/// The partitions of the request with names for ids.
fn wanted(cluster: &Cluster, request: &FetchRequest, by_id: bool) -> Vec<Wanted> {
    let topics = request.topics.iter().flat_map(|topic| {
        let name = if by_id {
            cluster.topic_by_id(topic.topic_id).map(|(name, _)| name.to_owned())
        } else {
            Some(topic.topic.to_string())
        };
        topic.partitions.iter().map(move |partition| Wanted {
            topic: name.clone(),
            topic_id: topic.topic_id,
            partition: partition.clone(),
        })
    });
    topics.collect()
}

struct ReadAll {
    partitions: Vec<PartitionData>,
    bytes: usize,
    has_error: bool,
}

impl ReadAll {
    /// Whether the answer goes out at once: enough bytes, or anything that the client has to act on.
    fn is_enough(&self, min_bytes: i32) -> bool {
        self.has_error || self.bytes >= usize::try_from(min_bytes).unwrap_or(0)
    }
}

fn read_all(cluster: &mut Cluster, context: &Context, request: &FetchRequest, wanted: &[Wanted]) -> ReadAll {
    let mut read = ReadAll { partitions: Vec::with_capacity(wanted.len()), bytes: 0, has_error: false };
    let response_bytes_max = usize::try_from(request.max_bytes).unwrap_or(0);
    for wanted in wanted {
        let partition_bytes_max = usize::try_from(wanted.partition.partition_max_bytes).unwrap_or(0);
        let limit = ReadLimit {
            bytes_max: partition_bytes_max.min(response_bytes_max.saturating_sub(read.bytes)),
            at_least_one_batch: read.bytes == 0,
        };
        let data = read_one(cluster, context, request, wanted, limit).unwrap_or_else(|error| {
            let mut data = failed(error);
            let leader = wanted.topic.as_deref().and_then(|topic| cluster.partition(topic, wanted.partition.partition));
            if let (Some(partition), true) = (leader, names_leader(context, error)) {
                data.current_leader = LeaderIdAndEpoch::default()
                    .with_leader_id(BrokerId(partition.leader))
                    .with_leader_epoch(partition.leader_epoch);
            }
            data
        });
        read.bytes += data.records.as_ref().map_or(0, Bytes::len);
        read.has_error |= data.error_code != 0 || data.diverging_epoch.end_offset != -1;
        read.partitions.push(data);
    }
    read
}

fn names_leader(context: &Context, error: ResponseError) -> bool {
    context.version >= CURRENT_LEADER
        && matches!(error, ResponseError::NotLeaderOrFollower | ResponseError::FencedLeaderEpoch)
}

/// An error answer knows no offsets: -1 everywhere.
fn failed(error: ResponseError) -> PartitionData {
    PartitionData::default()
        .with_error_code(error.code())
        .with_high_watermark(-1)
        .with_last_stable_offset(-1)
        .with_log_start_offset(-1)
        .with_aborted_transactions(None)
        .with_records(Some(Bytes::new()))
}

fn read_one(
    cluster: &mut Cluster,
    context: &Context,
    request: &FetchRequest,
    wanted: &Wanted,
    limit: ReadLimit,
) -> Result<PartitionData, ResponseError> {
    let asked = &wanted.partition;
    let topic = wanted.topic.as_deref().ok_or(ResponseError::UnknownTopicId)?;
    context.check_partition(topic, asked.partition)?;
    if context.version >= TOPIC_IDS && cluster.topics.get(topic).is_some_and(|found| found.id != wanted.topic_id) {
        return Err(ResponseError::InconsistentTopicId);
    }
    let partition = cluster.led(context.node, topic, asked.partition, asked.current_leader_epoch)?;
    let log = &partition.log;
    let data = PartitionData::default()
        .with_high_watermark(log.end_offset())
        .with_last_stable_offset(log.last_stable_offset())
        .with_log_start_offset(log.start_offset())
        .with_aborted_transactions(None)
        .with_records(Some(Bytes::new()));
    if let Some(diverging) = diverging_epoch(partition, asked.last_fetched_epoch, asked.fetch_offset)? {
        return Ok(data.with_diverging_epoch(diverging));
    }
    if asked.fetch_offset < log.start_offset() || asked.fetch_offset > log.end_offset() {
        return Err(ResponseError::OffsetOutOfRange);
    }
    let is_committed = request.isolation_level == READ_COMMITTED;
    let until_offset = if is_committed { log.last_stable_offset() } else { log.end_offset() };
    let (records, next_offset) = log.read(asked.fetch_offset, until_offset, limit);
    if !is_committed {
        return Ok(data.with_records(Some(records)));
    }
    let aborted = log.aborted_transactions(asked.fetch_offset, next_offset).into_iter().map(|transaction| {
        AbortedTransaction::default()
            .with_producer_id(ProducerId(transaction.producer_id))
            .with_first_offset(transaction.first_offset)
    });
    Ok(data.with_aborted_transactions(Some(aborted.collect())).with_records(Some(records)))
}

/// Where the client's log and this one part, when the client says which epoch its last record has (KIP-595); -1 is no claim.
fn diverging_epoch(
    partition: &Partition,
    last_fetched_epoch: i32,
    fetch_offset: i64,
) -> Result<Option<EpochEndOffset>, ResponseError> {
    if last_fetched_epoch == -1 {
        return Ok(None);
    }
    let (epoch, end_offset) =
        partition.log.epoch_end(last_fetched_epoch, partition.leader_epoch).ok_or(ResponseError::OffsetOutOfRange)?;
    let diverges = epoch < last_fetched_epoch || end_offset < fetch_offset;
    Ok(diverges.then(|| EpochEndOffset::default().with_epoch(epoch).with_end_offset(end_offset)))
}

/// Neighbours of one topic share an entry; a topic may come twice, as from a real broker.
fn respond(
    cluster: &Cluster,
    context: &Context,
    session_id: i32,
    answered: Vec<(Wanted, PartitionData)>,
    by_id: bool,
) -> FetchResponse {
    let mut responses: Vec<FetchableTopicResponse> = Vec::new();
    let mut leaders = BTreeSet::new();
    for (wanted, mut data) in answered {
        data.partition_index = wanted.partition.partition;
        if data.current_leader.leader_id.0 >= 0 {
            leaders.insert(data.current_leader.leader_id.0);
        }
        let name = wanted.topic.unwrap_or_default();
        match responses.last_mut() {
            Some(last) if last.topic_id == wanted.topic_id && (by_id || last.topic.as_str() == name) => {
                last.partitions.push(data);
            }
            _ => {
                let topic =
                    FetchableTopicResponse::default().with_topic_id(wanted.topic_id).with_partitions(vec![data]);
                responses.push(topic.with_topic(TopicName(text(&name))));
            }
        }
    }
    let response = FetchResponse::default().with_session_id(session_id).with_responses(responses);
    if context.version < NODE_ENDPOINTS {
        return response;
    }
    let endpoints = leaders.into_iter().filter_map(|id| cluster.node(id)).map(|node| {
        NodeEndpoint::default().with_node_id(BrokerId(node.id)).with_host(text(&node.host)).with_port(node.port)
    });
    response.with_node_endpoints(endpoints.collect())
}

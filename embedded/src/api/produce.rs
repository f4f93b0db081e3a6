//! Produce: batches are checked and stored as they came; the broker writes only the base offset, the leader epoch and, where the topic
//! asks for it, the append time.

use std::collections::BTreeSet;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::produce_response::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{BrokerId, ProduceRequest, ProduceResponse};

use super::{Context, code};
use crate::batch::{self, BatchHeader};
use crate::state::{Cluster, now_ms, text};

/// From here on topics go by id (KIP-516).
const TOPIC_IDS: i16 = 13;
/// From here on the answer names the new leader (KIP-951).
const CURRENT_LEADER: i16 = 10;
/// From here on zstd is allowed (KIP-110).
const ZSTD_ALLOWED: i16 = 7;
const ZSTD_CODEC: i16 = 4;

struct Appended {
    base_offset: i64,
    log_append_time_ms: i64,
    log_start_offset: i64,
}

pub(super) fn handle(cluster: &mut Cluster, context: &Context, request: ProduceRequest) -> ProduceResponse {
    let mut leaders = BTreeSet::new();
    let transactional_id = request.transactional_id.as_ref().map(|id| id.to_string());
    let responses = request.topic_data.into_iter().map(|topic| {
        let name = if context.version >= TOPIC_IDS {
            cluster.topic_by_id(topic.topic_id).map(|(name, _)| name.to_owned())
        } else {
            Some(topic.name.to_string())
        };
        let partitions = topic.partition_data.into_iter().map(|data| {
            let index = data.index;
            let appended = name.as_deref().ok_or(ResponseError::UnknownTopicId).and_then(|name| {
                context.check_partition(name, index)?;
                let records = data.records.unwrap_or_default();
                append(cluster, context, Target { name, index, transactional_id: transactional_id.as_deref() }, records)
            });
            let mut response = PartitionProduceResponse::default().with_index(index).with_error_code(code(&appended));
            match appended {
                Ok(appended) => response
                    .with_base_offset(appended.base_offset)
                    .with_log_append_time_ms(appended.log_append_time_ms)
                    .with_log_start_offset(appended.log_start_offset),
                Err(error) => {
                    let is_moved = error == ResponseError::NotLeaderOrFollower && context.version >= CURRENT_LEADER;
                    let partition = name.as_deref().and_then(|name| cluster.partition(name, index));
                    if let Some(partition) = partition.filter(|_| is_moved) {
                        response.current_leader = LeaderIdAndEpoch::default()
                            .with_leader_id(BrokerId(partition.leader))
                            .with_leader_epoch(partition.leader_epoch);
                        leaders.insert(partition.leader);
                    }
                    response.with_base_offset(-1).with_log_append_time_ms(-1).with_log_start_offset(-1)
                }
            }
        });
        let partitions = partitions.collect();
        TopicProduceResponse::default()
            .with_name(topic.name)
            .with_topic_id(topic.topic_id)
            .with_partition_responses(partitions)
    });
    let responses = responses.collect();
    let endpoints = leaders.into_iter().filter_map(|id| cluster.node(id)).map(|node| {
        NodeEndpoint::default().with_node_id(BrokerId(node.id)).with_host(text(&node.host)).with_port(node.port)
    });
    ProduceResponse::default().with_responses(responses).with_node_endpoints(endpoints.collect())
}

struct Target<'a> {
    name: &'a str,
    index: i32,
    transactional_id: Option<&'a str>,
}

fn append(
    cluster: &mut Cluster,
    context: &Context,
    target: Target<'_>,
    records: Bytes,
) -> Result<Appended, ResponseError> {
    cluster.led(context.node, target.name, target.index, -1)?;
    let topic = cluster.topics.get(target.name).ok_or(ResponseError::UnknownTopicOrPartition)?;
    let batch_bytes_max = topic.message_bytes_max();
    let log_append_time_ms = topic.is_log_append_time().then(now_ms);
    let batches = batch::split(records)?;
    for (header, bytes) in &batches {
        check(context, header)?;
        if bytes.len() > batch_bytes_max {
            return Err(ResponseError::MessageTooLarge);
        }
        if header.is_transactional() {
            let transactional_id = target.transactional_id.ok_or(ResponseError::InvalidTxnState)?;
            cluster.transactions.check_append(transactional_id, header, target.name, target.index)?;
        }
    }
    let partition = cluster.led(context.node, target.name, target.index, -1)?;
    let base_offset = partition.log.end_offset();
    for (header, bytes) in &batches {
        partition.log.append(header, bytes, partition.leader_epoch, log_append_time_ms)?;
    }
    Ok(Appended {
        base_offset,
        log_append_time_ms: log_append_time_ms.unwrap_or(-1),
        log_start_offset: partition.log.start_offset(),
    })
}

/// What a broker refuses from a producer.
fn check(context: &Context, header: &BatchHeader) -> Result<(), ResponseError> {
    let dense = i64::from(header.records_count) == i64::from(header.last_offset_delta) + 1;
    if header.is_control() || header.is_log_append_time() || !dense {
        return Err(ResponseError::InvalidRecord);
    }
    match header.codec() {
        ZSTD_CODEC if context.version < ZSTD_ALLOWED => Err(ResponseError::UnsupportedCompressionType),
        0..=ZSTD_CODEC => Ok(()),
        _ => Err(ResponseError::CorruptMessage),
    }
}

//! ListOffsets and OffsetForLeaderEpoch: look-ups in the log by position, time and epoch.

use std::collections::BTreeMap;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
use kafka_protocol::messages::{
    ListOffsetsRequest, ListOffsetsResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
};

use super::{Context, code};
use crate::log::{OffsetAndTimestamp, PartitionLog};
use crate::state::Cluster;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const READ_COMMITTED: i8 = 1;
/// From here on the answer has the record's leader epoch (KIP-320).
const LEADER_EPOCH: i16 = 4;

/// What a special timestamp needs at least; a version below answers UNSUPPORTED_VERSION in the partition.
fn first_version(timestamp: i64) -> i16 {
    match timestamp {
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        i64::MIN..LATEST_TIERED => i16::MAX,
        _ => 0,
    }
}

pub(super) fn list_offsets(
    cluster: &mut Cluster,
    context: &Context,
    request: ListOffsetsRequest,
) -> ListOffsetsResponse {
    let mut asked_times = BTreeMap::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            *asked_times.entry((topic.name.clone(), partition.partition_index)).or_insert(0_u32) += 1;
        }
    }
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            let index = asked.partition_index;
            let found = context.check_partition(&topic.name, index).and_then(|()| {
                if asked_times.get(&(topic.name.clone(), index)).is_some_and(|&count| count > 1) {
                    return Err(ResponseError::InvalidRequest);
                }
                let partition = cluster.led(context.node, &topic.name, index, asked.current_leader_epoch)?;
                if context.version < first_version(asked.timestamp) {
                    return Err(ResponseError::UnsupportedVersion);
                }
                Ok(look_up(&partition.log, partition.leader_epoch, asked.timestamp, request.isolation_level))
            });
            let error_code = code(&found);
            let found = found.ok().flatten();
            let mut response = ListOffsetsPartitionResponse::default()
                .with_partition_index(index)
                .with_error_code(error_code)
                .with_timestamp(found.map_or(-1, |found| found.timestamp))
                .with_offset(found.map_or(-1, |found| found.offset));
            if context.version >= LEADER_EPOCH {
                response.leader_epoch = found.map_or(-1, |found| found.leader_epoch);
            }
            response
        });
        let partitions = partitions.collect();
        ListOffsetsTopicResponse::default().with_name(topic.name).with_partitions(partitions)
    });
    ListOffsetsResponse::default().with_topics(topics.collect())
}

fn look_up(log: &PartitionLog, leader_epoch: i32, timestamp: i64, isolation_level: i8) -> Option<OffsetAndTimestamp> {
    let end = if isolation_level == READ_COMMITTED { log.last_stable_offset() } else { log.end_offset() };
    let at = |offset: i64, leader_epoch: i32| OffsetAndTimestamp { offset, timestamp: -1, leader_epoch };
    match timestamp {
        LATEST => Some(at(end, leader_epoch)),
        EARLIEST | EARLIEST_LOCAL => Some(at(log.start_offset(), log.epoch_at(log.start_offset()))),
        MAX_TIMESTAMP => log.max_timestamp().filter(|found| found.offset < end),
        LATEST_TIERED => None,
        _ => log.offset_for_time(timestamp, end),
    }
}

pub(super) fn offset_for_leader_epoch(
    cluster: &mut Cluster,
    context: &Context,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            let index = asked.partition;
            let found = context.check_partition(&topic.topic, index).and_then(|()| {
                let partition = cluster.led(context.node, &topic.topic, index, asked.current_leader_epoch)?;
                Ok(partition.log.epoch_end(asked.leader_epoch, partition.leader_epoch))
            });
            let error_code = code(&found);
            let (leader_epoch, end_offset) = found.ok().flatten().unwrap_or((-1, -1));
            EpochEndOffset::default()
                .with_partition(index)
                .with_error_code(error_code)
                .with_leader_epoch(leader_epoch)
                .with_end_offset(end_offset)
        });
        let partitions = partitions.collect();
        OffsetForLeaderTopicResult::default().with_topic(topic.topic).with_partitions(partitions)
    });
    OffsetForLeaderEpochResponse::default().with_topics(topics.collect())
}

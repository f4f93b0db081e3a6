//! OffsetCommit and OffsetFetch.

use std::collections::BTreeMap;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use tokio::time::Instant;

use super::{Context, code};
use crate::state::{Cluster, text};

/// Kafka's default for `offset.metadata.max.bytes`, which counts characters.
const METADATA_CHARS_MAX: usize = 4_096;
/// From here on the request has groups (KIP-709).
const GROUPS: i16 = 8;
/// From here on null asks for all topics, and the response has an error code of its own.
const ALL_TOPICS: i16 = 2;

/// A committed position.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommittedOffset {
    /// The next offset to read.
    pub offset: i64,
    /// The leader epoch of the last record read, -1 when unknown.
    pub leader_epoch: i32,
    /// What the client noted.
    pub metadata: String,
}

impl CommittedOffset {
    /// A position without a note.
    pub fn new(offset: i64) -> Self {
        Self { offset, leader_epoch: -1, metadata: String::new() }
    }
}

pub(super) fn check_metadata(metadata: &str) -> Result<(), ResponseError> {
    let is_long = metadata.encode_utf16().count() > METADATA_CHARS_MAX;
    if is_long { Err(ResponseError::OffsetMetadataTooLarge) } else { Ok(()) }
}

pub(super) fn check_coordinator(cluster: &Cluster, context: &Context, key: &str) -> Result<(), ResponseError> {
    if cluster.coordinator(key) == context.node { Ok(()) } else { Err(ResponseError::NotCoordinator) }
}

pub(super) fn commit(cluster: &mut Cluster, context: &Context, request: OffsetCommitRequest) -> OffsetCommitResponse {
    let group_id = request.group_id.to_string();
    let allowed = check_coordinator(cluster, context, &group_id).and_then(|()| {
        let generation = request.generation_id_or_member_epoch;
        match cluster.groups.get_mut(&group_id) {
            Some(group) => group.check_commit(&request.member_id, generation, Instant::now()),
            None if generation < 0 => Ok(()),
            None => Err(ResponseError::IllegalGeneration),
        }
    });
    let topics = request.topics.into_iter().map(|topic| {
        let name = topic.name.to_string();
        let partitions = topic.partitions.into_iter().map(|asked| {
            let index = asked.partition_index;
            let committed = context.check_partition(&name, index).and_then(|()| {
                cluster.partition(&name, index).ok_or(ResponseError::UnknownTopicOrPartition)?;
                allowed?;
                let metadata = asked.committed_metadata.unwrap_or_default();
                check_metadata(&metadata)?;
                let committed = CommittedOffset {
                    offset: asked.committed_offset,
                    leader_epoch: asked.committed_leader_epoch,
                    metadata: metadata.to_string(),
                };
                let group = cluster.groups.entry(group_id.clone()).or_default();
                group.offsets.insert((name.clone(), index), committed);
                Ok(())
            });
            OffsetCommitResponsePartition::default().with_partition_index(index).with_error_code(code(&committed))
        });
        let partitions = partitions.collect();
        OffsetCommitResponseTopic::default().with_name(topic.name).with_partitions(partitions)
    });
    OffsetCommitResponse::default().with_topics(topics.collect())
}

pub(super) fn fetch(cluster: &mut Cluster, context: &Context, request: OffsetFetchRequest) -> OffsetFetchResponse {
    if context.version >= GROUPS {
        let groups =
            request.groups.iter().map(|group| fetch_group(cluster, context, group, request.require_stable)).collect();
        return OffsetFetchResponse::default().with_groups(groups);
    }
    let topics = request.topics.map(|topics| {
        let topics = topics.into_iter().map(|topic| {
            OffsetFetchRequestTopics::default().with_name(topic.name).with_partition_indexes(topic.partition_indexes)
        });
        topics.collect()
    });
    let asked = OffsetFetchRequestGroup::default().with_group_id(request.group_id).with_topics(topics);
    let group = fetch_group(cluster, context, &asked, request.require_stable);
    let error_code = group.error_code;
    // Version 1 has no code of its own: a failed group shows in each partition that was asked for.
    let all_failed = (context.version < ALL_TOPICS && error_code != 0).then_some(error_code);
    let topics = match all_failed {
        None => group.topics,
        Some(_) => answer_topics(asked.topics.unwrap_or_default(), |_, _| Err(ResponseError::Unknown(error_code))),
    };
    let topics = topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|partition| {
            OffsetFetchResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_committed_offset(partition.committed_offset)
                .with_committed_leader_epoch(partition.committed_leader_epoch)
                .with_metadata(partition.metadata)
                .with_error_code(partition.error_code)
        });
        OffsetFetchResponseTopic::default().with_name(topic.name).with_partitions(partitions.collect())
    });
    let topics = topics.collect();
    OffsetFetchResponse::default().with_error_code(error_code).with_topics(topics)
}

fn fetch_group(
    cluster: &Cluster,
    context: &Context,
    asked: &OffsetFetchRequestGroup,
    require_stable: bool,
) -> OffsetFetchResponseGroup {
    let response = OffsetFetchResponseGroup::default().with_group_id(asked.group_id.clone());
    let forced = context.forced.top_level.and_then(ResponseError::try_from_code).map_or(Ok(()), Err);
    if let Err(error) = forced.and_then(|()| check_coordinator(cluster, context, &asked.group_id)) {
        return response.with_error_code(error.code());
    }
    let group = cluster.groups.get(asked.group_id.as_str());
    let topics = asked.topics.clone().unwrap_or_else(|| {
        let mut by_topic: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (topic, partition) in group.iter().flat_map(|group| group.offsets.keys()) {
            by_topic.entry(topic).or_default().push(*partition);
        }
        let topics = by_topic.into_iter().map(|(name, partitions)| {
            OffsetFetchRequestTopics::default().with_name(TopicName(text(name))).with_partition_indexes(partitions)
        });
        topics.collect()
    });
    let topics = answer_topics(topics, |topic, partition| {
        context.check_partition(topic, partition)?;
        let Some(group) = group else { return Ok(None) };
        let key = (topic.to_owned(), partition);
        if require_stable && group.pending_offsets.values().any(|pending| pending.contains_key(&key)) {
            return Err(ResponseError::UnstableOffsetCommit);
        }
        Ok(group.offsets.get(&key).cloned())
    });
    response.with_topics(topics)
}

/// No offset is -1 with an empty note and no error.
fn answer_topics(
    topics: Vec<OffsetFetchRequestTopics>,
    find: impl Fn(&str, i32) -> Result<Option<CommittedOffset>, ResponseError>,
) -> Vec<OffsetFetchResponseTopics> {
    let topics = topics.into_iter().map(|topic| {
        let partitions = topic.partition_indexes.iter().map(|&index| {
            let found = find(&topic.name, index);
            let response =
                OffsetFetchResponsePartitions::default().with_partition_index(index).with_error_code(code(&found));
            match found.ok().flatten() {
                Some(committed) => response
                    .with_committed_offset(committed.offset)
                    .with_committed_leader_epoch(committed.leader_epoch)
                    .with_metadata(Some(text(&committed.metadata))),
                None => response
                    .with_committed_offset(-1)
                    .with_committed_leader_epoch(-1)
                    .with_metadata(Some(StrBytes::new())),
            }
        });
        let partitions = partitions.collect();
        OffsetFetchResponseTopics::default().with_name(topic.name).with_partitions(partitions)
    });
    topics.collect()
}

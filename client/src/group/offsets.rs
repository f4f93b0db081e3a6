//! OffsetFetch: what a group has committed.

use super::coordinator::{Answer, group_error};
use crate::{Client, CommittedOffsets, Error, OffsetAndMetadata, Result, TopicPartition, conn::Connection};
use ottla_protocol::{
    ErrorCode, Message,
    message::{
        OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
        OffsetFetchResponse,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// From this version on a request names several groups (KIP-709).
const SEVERAL_GROUPS_SINCE: i16 = 8;
/// The last version that names topics by name; the next one has ids only, and what was committed may be of a topic without one.
const NAMES_UNTIL: i16 = 9;

/// What the broker answers for a partition without a committed offset.
const NONE_COMMITTED: i64 = -1;

/// Topic, partition, error, offset, leader epoch, metadata.
type Committed = (TopicPartition, ErrorCode, i64, i32, Option<String>);

impl Client {
    /// What `group` has committed for `partitions`, or for all it ever committed for when that is `None`. A partition without a committed
    /// offset is not in the result. Offsets of a transaction that is not finished are waited for (KIP-447).
    ///
    /// # Errors
    /// [`Error::Broker`] where the group or a partition was refused, [`Error::DeadlineExceeded`] when the coordinator does not answer. A
    /// failure is never taken for "nothing committed".
    pub async fn committed_offsets(
        &self,
        group: &str,
        partitions: Option<&[TopicPartition]>,
    ) -> Result<CommittedOffsets> {
        let deadline = self.api_deadline();
        let look_up = |connection: Arc<Connection>| async move {
            let connection = &*connection;
            let version = connection.version::<OffsetFetchRequest>(NAMES_UNTIL)?;
            let request = request(group, partitions, version);
            let response = connection.call_version(&request, version, deadline).await?;
            let (code, answers) = answers(response, group, version);
            if !code.is_none() {
                let error = group_error(OffsetFetchRequest::API_KEY, group, connection, code);
                return if code.is_retriable() { Ok(Answer::Retry(error)) } else { Err(error) };
            }
            let mut committed = CommittedOffsets::default();
            let mut missing: BTreeSet<&TopicPartition> = partitions.unwrap_or_default().iter().collect();
            for (partition, code, offset, leader_epoch, metadata) in answers {
                if !code.is_none() {
                    let subject = format!("{partition} of group '{group}'");
                    let broker = connection.broker().clone().into();
                    let error = Error::Broker { api: OffsetFetchRequest::API_KEY, subject, broker, code };
                    return if code.is_retriable() { Ok(Answer::Retry(error)) } else { Err(error) };
                }
                missing.remove(&partition);
                if offset >= 0 {
                    let leader_epoch = (leader_epoch >= 0).then_some(leader_epoch);
                    committed.offsets.insert(partition, OffsetAndMetadata { offset, leader_epoch, metadata });
                } else if offset != NONE_COMMITTED {
                    committed.not_offsets.insert(partition, offset);
                }
            }
            // Without a word about a partition, nobody knows whether something was committed for it.
            if let Some(partition) = missing.first() {
                let (api, subject) = (OffsetFetchRequest::API_KEY, format!("{partition} of group '{group}'"));
                let broker = connection.broker().clone().into();
                return Ok(Answer::Retry(Error::Unanswered { api, subject, broker }));
            }
            Ok(Answer::Done(committed))
        };
        self.with_coordinator(group, deadline, "looking up the committed offsets", look_up).await
    }
}

fn request(group: &str, partitions: Option<&[TopicPartition]>, version: i16) -> OffsetFetchRequest {
    let mut by_topic: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in partitions.unwrap_or_default() {
        by_topic.entry(&partition.topic).or_default().push(partition.partition);
    }
    if version < SEVERAL_GROUPS_SINCE {
        let topics = by_topic.into_iter().map(|(name, partition_indexes)| OffsetFetchRequestTopic {
            name: name.to_owned(),
            partition_indexes,
            ..Default::default()
        });
        let topics = partitions.map(|_| topics.collect());
        return OffsetFetchRequest {
            group_id: group.to_owned(),
            topics,
            require_stable: version >= 7,
            ..Default::default()
        };
    }
    let topics = by_topic.into_iter().map(|(name, partition_indexes)| OffsetFetchRequestTopics {
        name: name.to_owned(),
        partition_indexes,
        ..Default::default()
    });
    let group = OffsetFetchRequestGroup {
        group_id: group.to_owned(),
        topics: partitions.map(|_| topics.collect()),
        ..Default::default()
    };
    OffsetFetchRequest { groups: vec![group], require_stable: true, ..Default::default() }
}

fn answers(response: OffsetFetchResponse, group: &str, version: i16) -> (ErrorCode, Vec<Committed>) {
    if version < SEVERAL_GROUPS_SINCE {
        let answers = response.topics.into_iter().flat_map(|topic| {
            let name = topic.name;
            topic.partitions.into_iter().map(move |answer| {
                let partition = TopicPartition::new(name.clone(), answer.partition_index);
                (partition, answer.error_code, answer.committed_offset, answer.committed_leader_epoch, answer.metadata)
            })
        });
        return (response.error_code, answers.collect());
    }
    let Some(answer) = response.groups.into_iter().find(|answer| answer.group_id == group) else {
        return (ErrorCode::COORDINATOR_NOT_AVAILABLE, Vec::new());
    };
    let answers = answer.topics.into_iter().flat_map(|topic| {
        let name = topic.name;
        topic.partitions.into_iter().map(move |answer| {
            let partition = TopicPartition::new(name.clone(), answer.partition_index);
            (partition, answer.error_code, answer.committed_offset, answer.committed_leader_epoch, answer.metadata)
        })
    });
    (answer.error_code, answers.collect())
}

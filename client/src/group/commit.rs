//! OffsetCommit, as a group without members: the caller has assigned the partitions itself.

use super::coordinator::{Answer, group_error};
use crate::{
    Client, CommitResults, Error, OffsetAndMetadata, Result, TopicPartition, client::Deadline, conn::Connection,
    retry::pause,
};
use ottla_protocol::{
    ErrorCode, Message, Uuid,
    message::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How long a topic that the coordinator does not know is believed to be on its way.
const UNKNOWN_TOPIC_LIMIT: Duration = Duration::from_secs(5);
/// The first version that names topics by id only (KIP-848).
const TOPIC_IDS_SINCE: i16 = 10;

impl Client {
    /// Commits `offsets` to `group`, in one request. The result has the broker's answer for each partition: part can succeed.
    ///
    /// An offset is the next one to read. Topic ids are sent where `topic_ids` has them all and the broker knows such requests, so that a
    /// topic that was deleted and created again can't be given its predecessor's offsets.
    ///
    /// # Errors
    /// [`Error::InvalidOffset`] for a negative offset, before anything is sent; the broker would store it. [`Error::Broker`] where the whole
    /// request was refused, as for a group with active members, [`Error::DeadlineExceeded`] when the coordinator does not answer. Answers
    /// that a retry may better are retried until `default.api.timeout.ms` has passed, and then stand in the result.
    pub async fn commit_offsets(
        &self,
        group: &str,
        offsets: &BTreeMap<TopicPartition, OffsetAndMetadata>,
        topic_ids: &BTreeMap<String, Uuid>,
    ) -> Result<CommitResults> {
        if let Some((partition, bad)) = offsets.iter().find(|(_, committed)| committed.offset < 0) {
            return Err(Error::InvalidOffset { partition: partition.clone(), offset: bad.offset });
        }
        let mut results = CommitResults::new();
        if offsets.is_empty() {
            return Ok(results);
        }
        let deadline = self.api_deadline();
        // Brokers learn of topics one after the other; for longer, one that is not known is gone.
        let unknown_until = deadline.within(UNKNOWN_TOPIC_LIMIT);
        let mut missing = offsets.clone();
        let mut backoff = self.retry_backoff();
        loop {
            let commit = |connection: Arc<Connection>| {
                let missing = &missing;
                async move { self.commit_once(&connection, group, missing, topic_ids, deadline).await }
            };
            let round = self.with_coordinator(group, deadline, "committing the offsets", commit).await?;
            let gone = unknown_until.left().is_zero();
            for (partition, code) in round {
                let unknown = matches!(code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID);
                if !code.is_retriable() || (unknown && gone) {
                    missing.remove(&partition);
                }
                results.insert(partition, code);
            }
            let pause = pause(&mut backoff);
            if missing.is_empty() || pause >= deadline.left() {
                return Ok(results);
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn commit_once(
        &self,
        connection: &Connection,
        group: &str,
        offsets: &BTreeMap<TopicPartition, OffsetAndMetadata>,
        topic_ids: &BTreeMap<String, Uuid>,
        deadline: Deadline,
    ) -> Result<Answer<CommitResults>> {
        let all_ids = offsets.keys().all(|partition| topic_ids.contains_key(&partition.topic));
        let version =
            connection.version::<OffsetCommitRequest>(if all_ids { i16::MAX } else { TOPIC_IDS_SINCE - 1 })?;
        let by_id = version >= TOPIC_IDS_SINCE;
        let request = request(group, offsets, by_id.then_some(topic_ids));
        let response = connection.call_version(&request, version, deadline).await?;
        let names: BTreeMap<Uuid, &str> = topic_ids.iter().map(|(name, id)| (*id, name.as_str())).collect();
        let mut results = CommitResults::new();
        for topic in &response.topics {
            let name =
                if by_id { names.get(&topic.topic_id).copied().unwrap_or_default() } else { topic.name.as_str() };
            for answer in &topic.partitions {
                let code = answer.error_code;
                // These speak of the coordinator, whatever partition they stand beside.
                if code == ErrorCode::COORDINATOR_LOAD_IN_PROGRESS || code.refreshes_coordinator() {
                    return Ok(Answer::Retry(group_error(OffsetCommitRequest::API_KEY, group, connection, code)));
                }
                if is_about_group(code) {
                    return Err(group_error(OffsetCommitRequest::API_KEY, group, connection, code));
                }
                let partition = TopicPartition::new(name, answer.partition_index);
                if offsets.contains_key(&partition) {
                    results.insert(partition, code);
                }
            }
        }
        // A partition that the answer leaves out was not committed.
        for partition in offsets.keys() {
            results.entry(partition.clone()).or_insert(ErrorCode::UNKNOWN_SERVER_ERROR);
        }
        Ok(Answer::Done(results))
    }
}

/// Whether a code, whatever partition it stands beside, means that the group takes no commit at all from here.
fn is_about_group(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::REBALANCE_IN_PROGRESS
            | ErrorCode::FENCED_INSTANCE_ID
            | ErrorCode::STALE_MEMBER_EPOCH
            | ErrorCode::INVALID_GROUP_ID
            | ErrorCode::GROUP_ID_NOT_FOUND
            | ErrorCode::GROUP_AUTHORIZATION_FAILED
    )
}

fn request(
    group: &str,
    offsets: &BTreeMap<TopicPartition, OffsetAndMetadata>,
    topic_ids: Option<&BTreeMap<String, Uuid>>,
) -> OffsetCommitRequest {
    let mut topics: Vec<(&str, OffsetCommitRequestTopic)> = Vec::new();
    for (partition, committed) in offsets {
        let asked = OffsetCommitRequestPartition {
            partition_index: partition.partition,
            committed_offset: committed.offset,
            committed_leader_epoch: committed.leader_epoch.unwrap_or(-1),
            committed_metadata: committed.metadata.clone(),
            ..Default::default()
        };
        match topics.last_mut().filter(|(name, _)| *name == partition.topic) {
            Some((_, topic)) => topic.partitions.push(asked),
            None => {
                let mut topic = OffsetCommitRequestTopic { partitions: vec![asked], ..Default::default() };
                match topic_ids.and_then(|ids| ids.get(&partition.topic)) {
                    Some(id) => topic.topic_id = *id,
                    None => topic.name = partition.topic.clone(),
                }
                topics.push((&partition.topic, topic));
            }
        }
    }
    OffsetCommitRequest {
        group_id: group.to_owned(),
        // No member of the group: accepted while the group has none.
        generation_id_or_member_epoch: -1,
        topics: topics.into_iter().map(|(_, topic)| topic).collect(),
        ..Default::default()
    }
}

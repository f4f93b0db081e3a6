//! Committing a processed batch's end offsets to a consumer group, so that Kafka's own tools show its lag.

use crate::{Error, LossKind, ProcessedBatch, Result};
use ottla_client::{Client, OffsetAndMetadata, TopicPartition};
use ottla_protocol::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// What a commit did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CommitOutcome {
    /// The offsets that the group holds now because of it.
    pub committed: BTreeMap<TopicPartition, i64>,
    /// Partitions where the group is further already, with the offset it keeps: a commit never moves a group backwards.
    pub kept: BTreeMap<TopicPartition, i64>,
    /// Partitions of topics that were created again while they were read: what was read is gone, and its offsets mean nothing in the new one.
    pub recreated: BTreeSet<TopicPartition>,
    /// What the group held that is no offset, and is overwritten now.
    pub not_offsets: BTreeMap<TopicPartition, i64>,
}

impl ProcessedBatch {
    /// Commits [`offsets_to_commit`](Self::offsets_to_commit) to `group`, each with the topic's id, the leader epoch of what was read, and
    /// metadata that names the batch: `ottla/1 batch=<id> query=<query_id> topic_id=<base64url>`.
    ///
    /// Where the group is further within the same topic, it stays there; the outcome says so.
    ///
    /// # Errors
    /// [`Error::Commit`] with every partition that the group did not take, [`Error::Client`] when its coordinator can't be asked or takes no
    /// commit at all, as for a group with active members.
    pub async fn commit(&self, client: &Client, group: &str, query_id: &str) -> Result<CommitOutcome> {
        let recreated = self.recreated();
        let partitions: Vec<TopicPartition> =
            self.offsets_to_commit().keys().filter(|partition| !recreated.contains(partition)).cloned().collect();
        if partitions.is_empty() {
            return Ok(CommitOutcome { recreated, ..CommitOutcome::default() });
        }
        let stored = client.committed_offsets(group, Some(&partitions)).await?;
        let leader_epochs = self.leader_epochs();
        let mut outcome = CommitOutcome { not_offsets: stored.not_offsets, ..CommitOutcome::default() };
        let mut offsets = BTreeMap::new();
        for (partition, offset) in self.offsets_to_commit() {
            if recreated.contains(partition) {
                continue;
            }
            let topic_id = self.topic_ids().get(&partition.topic).copied();
            if let Some(stored) =
                stored.offsets.get(partition).filter(|stored| stored.offset > *offset && is_of_topic(stored, topic_id))
            {
                outcome.kept.insert(partition.clone(), stored.offset);
                continue;
            }
            let id = topic_id.map(|id| format!(" topic_id={id}")).unwrap_or_default();
            let metadata = format!("ottla/1 batch={} query={query_id}{id}", self.batch_id());
            let leader_epoch = leader_epochs.get(partition).copied();
            offsets.insert(
                partition.clone(),
                OffsetAndMetadata { offset: *offset, leader_epoch, metadata: Some(metadata) },
            );
        }
        let results = client.commit_offsets(group, &offsets, self.topic_ids()).await?;
        let refused: Vec<_> = results.into_iter().filter(|(_, code)| !code.is_none()).collect();
        if !refused.is_empty() {
            return Err(Error::Commit { group: group.to_owned(), refused });
        }
        outcome.recreated = recreated;
        outcome.committed = offsets.into_iter().map(|(partition, committed)| (partition, committed.offset)).collect();
        Ok(outcome)
    }
}

impl ProcessedBatch {
    /// Every partition of a topic that is another one now: one that was read to its end before is gone as well.
    fn recreated(&self) -> BTreeSet<TopicPartition> {
        let recreated = self.lost().iter().filter(|lost| lost.kind == LossKind::Recreated);
        let topics: BTreeSet<&str> = recreated.map(|lost| lost.range.topic.as_str()).collect();
        let partitions = self.offsets_to_commit().keys();
        partitions.filter(|partition| topics.contains(partition.topic.as_str())).cloned().collect()
    }
}

/// Whether what the group holds is of this topic, and not of one of the same name that was deleted. Offsets that others committed don't
/// say, and count as of this one.
fn is_of_topic(stored: &OffsetAndMetadata, topic_id: Option<Uuid>) -> bool {
    let metadata = stored.metadata.as_deref().unwrap_or_default();
    let stored_id = metadata.split(' ').find_map(|word| word.strip_prefix("topic_id="));
    match (stored_id, topic_id) {
        (Some(stored_id), Some(topic_id)) => stored_id == topic_id.to_string(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_a_deleted_topic_do_not_count() {
        let mine = Uuid([7; 16]);
        let stored =
            |metadata: &str| OffsetAndMetadata { offset: 9, leader_epoch: None, metadata: Some(metadata.to_owned()) };
        assert!(is_of_topic(&stored(&format!("ottla/1 batch=3 query=q topic_id={mine}")), Some(mine)));
        assert!(!is_of_topic(&stored(&format!("ottla/1 batch=3 query=q topic_id={}", Uuid([8; 16]))), Some(mine)));
        assert!(is_of_topic(&stored("somebody else's"), Some(mine)));
        assert!(is_of_topic(&stored(""), None));
    }
}

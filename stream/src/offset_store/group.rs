//! A consumer group as offset store, so that Kafka's own tools show the lag.

use super::{CommitOutcome, OffsetStore, StoreCommit, StoreFuture, StoredOffset, StoredOffsets};
use crate::{Error, Result};
use ottla_client::{Client, OffsetAndMetadata, TopicPartition};
use ottla_protocol::{ErrorCode, Uuid};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

/// What begins the metadata of each of our commits.
const METADATA_PREFIX: &str = "ottla/1";

/// The offsets of a consumer group. Each is committed with the topic's id, the leader epoch of what was read, and metadata that names the
/// batch: `ottla/1 batch=<id> query=<uuid> topic_id=<base64url>`. The group must have no active members.
#[derive(Debug)]
pub struct GroupStore {
    client: Client,
    group: String,
    /// What it holds, as it was fetched at first and as we committed since. Never held over an await.
    held: Mutex<BTreeMap<TopicPartition, StoredOffset>>,
}

impl GroupStore {
    /// The offsets of `group`.
    pub fn new(client: &Client, group: impl Into<String>) -> Self {
        Self { client: client.clone(), group: group.into(), held: Mutex::default() }
    }

    async fn fetch(&self, partitions: Option<&[TopicPartition]>) -> Result<StoredOffsets> {
        let committed = self.client.committed_offsets(&self.group, partitions).await?;
        let offsets = committed.offsets.into_iter().map(|(partition, committed)| (partition, stored(&committed)));
        let stored = StoredOffsets { offsets: offsets.collect(), not_offsets: committed.not_offsets };
        self.held().extend(stored.offsets.iter().map(|(partition, stored)| (partition.clone(), *stored)));
        Ok(stored)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, BTreeMap<TopicPartition, StoredOffset>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn commit(&self, commit: &StoreCommit) -> Result<CommitOutcome> {
        let mut outcome = CommitOutcome::default();
        let (recreated, rest): (Vec<_>, Vec<_>) =
            commit.offsets.iter().partition(|(partition, _)| commit.recreated.contains(&partition.topic));
        outcome.gone = recreated.into_iter().map(|(partition, _)| partition.clone()).collect();
        let unseen: Vec<TopicPartition> = {
            let held = self.held();
            let is_unseen = |partition: &&TopicPartition| commit.repeated || !held.contains_key(*partition);
            rest.iter().map(|(partition, _)| *partition).filter(is_unseen).cloned().collect()
        };
        if !unseen.is_empty() {
            outcome.not_offsets = self.fetch(Some(&unseen)).await?.not_offsets;
        }
        let mut offsets = BTreeMap::new();
        for (partition, offset) in rest {
            let topic_id = commit.topic_ids.get(&partition.topic).copied();
            let held = self.held().get(partition).copied();
            let is_further = |held: &StoredOffset| held.offset > *offset && held.is_of(topic_id);
            if let Some(held) = held.filter(|held| is_further(held) && !commit.moved_back.contains(partition)) {
                outcome.kept.insert(partition.clone(), held.offset);
                continue;
            }
            let id = topic_id.map(|id| format!(" topic_id={id}")).unwrap_or_default();
            let batch = if commit.batch_id < 0 { String::new() } else { format!(" batch={}", commit.batch_id) };
            let metadata = format!("{METADATA_PREFIX}{batch} query={}{id}", commit.query_id);
            let leader_epoch = commit.leader_epochs.get(partition).copied();
            let committed = OffsetAndMetadata { offset: *offset, leader_epoch, metadata: Some(metadata) };
            offsets.insert(partition.clone(), committed);
        }
        let results = self.client.commit_offsets(&self.group, &offsets, &commit.topic_ids).await?;
        let mut refused = Vec::new();
        for (partition, code) in results {
            let Some(committed) = offsets.get(&partition) else { continue };
            if matches!(code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID) {
                // Deleted since it was read. No later attempt could do better, and nobody will read on there.
                outcome.gone.insert(partition);
            } else if code.is_none() {
                self.held().insert(partition.clone(), stored(committed));
                outcome.committed.insert(partition, committed.offset);
            } else {
                refused.push((partition, code));
            }
        }
        if refused.is_empty() { Ok(outcome) } else { Err(Error::Commit { group: self.group.clone(), refused }) }
    }
}

impl OffsetStore for GroupStore {
    fn name(&self) -> String {
        format!("group '{}'", self.group)
    }

    fn load<'a>(&'a self, partitions: Option<&'a BTreeSet<TopicPartition>>) -> StoreFuture<'a, StoredOffsets> {
        Box::pin(async move {
            let partitions: Option<Vec<TopicPartition>> = partitions.map(|those| those.iter().cloned().collect());
            match &partitions {
                // The broker would take an empty list for all.
                Some(none) if none.is_empty() => Ok(StoredOffsets::default()),
                partitions => self.fetch(partitions.as_deref()).await,
            }
        })
    }

    fn store<'a>(&'a self, commit: &'a StoreCommit) -> StoreFuture<'a, CommitOutcome> {
        Box::pin(self.commit(commit))
    }
}

impl StoredOffset {
    /// Whether it is of the topic with this id, and not of one of the same name that was deleted. Offsets that others committed don't say,
    /// and count as of this one.
    pub fn is_of(&self, topic_id: Option<Uuid>) -> bool {
        self.topic_id.is_none() || topic_id.is_none() || self.topic_id == topic_id
    }
}

/// What a committed offset says of itself.
fn stored(committed: &OffsetAndMetadata) -> StoredOffset {
    let mut stored =
        StoredOffset { offset: committed.offset, batch_id: None, topic_id: None, leader_epoch: committed.leader_epoch };
    let mut words = committed.metadata.as_deref().unwrap_or_default().split(' ');
    if words.next() == Some(METADATA_PREFIX) {
        for word in words {
            match word.split_once('=') {
                Some(("batch", id)) => stored.batch_id = id.parse().ok().filter(|id| *id >= 0),
                Some(("topic_id", id)) => stored.topic_id = id.parse().ok(),
                _ => {}
            }
        }
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(metadata: &str) -> StoredOffset {
        stored(&OffsetAndMetadata { offset: 9, leader_epoch: None, metadata: Some(metadata.to_owned()) })
    }

    #[test]
    fn offsets_of_a_deleted_topic_do_not_count() {
        let mine = Uuid([7; 16]);
        assert!(of(&format!("ottla/1 batch=3 query=q topic_id={mine}")).is_of(Some(mine)));
        assert!(!of(&format!("ottla/1 batch=3 query=q topic_id={}", Uuid([8; 16]))).is_of(Some(mine)));
        assert!(of("somebody else's").is_of(Some(mine)));
        assert!(of("").is_of(None));
    }

    #[test]
    fn the_batch_is_read_from_our_own_metadata_only() {
        assert_eq!(of("ottla/1 batch=3 query=q").batch_id, Some(3));
        assert_eq!(of("other/1 batch=3").batch_id, None);
        assert_eq!(of("ottla/1 batch=-3 query=q").batch_id, None);
        assert_eq!(of("ottla/1 batch=x").batch_id, None);
    }
}

//! Where the offsets of processed batches are kept outside of a checkpoint: for tools that show lag, or as a query's only memory.

mod checkpoint;
mod file;
mod follow;
mod group;
mod inspect;
mod moves;
mod url;
#[cfg(feature = "zookeeper")]
mod zookeeper;

pub use checkpoint::CheckpointOffsets;
pub use file::{OffsetsFile, OffsetsFileError, OffsetsFileErrorKind};
pub use follow::{CheckpointFollower, Followed, FollowedBatch};
pub use group::GroupStore;
pub use inspect::{InspectedOffsets, OffsetState, PartitionOffsets};
pub use moves::{MoveChange, MoveError, OffsetMove, OffsetMoves, OffsetTarget};
pub use url::StoreUrl;
#[cfg(feature = "zookeeper")]
pub use zookeeper::{ZooKeeperError, ZooKeeperErrorKind, ZooKeeperOffset, ZooKeeperStore, ZooKeeperStoreBuilder};

use crate::{OffsetOutOfRange, Result};
use ottla_client::TopicPartition;
use ottla_protocol::Uuid;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    pin::Pin,
};

/// A future on the heap, so that stores can be trait objects. One a batch.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Keeps the next offsets to read of partitions.
pub trait OffsetStore: Send + Sync + fmt::Debug + 'static {
    /// What messages call it: `group 'nightly'`.
    fn name(&self) -> String;

    /// What it holds of `partitions`, or all it holds if that is `None`. A partition that nothing was stored for is not in the result; a
    /// failure is never taken for that.
    ///
    /// # Errors
    /// It can't be asked.
    fn load<'a>(&'a self, partitions: Option<&'a BTreeSet<TopicPartition>>) -> StoreFuture<'a, StoredOffsets>;

    /// Stores what a batch came to. Moves no partition backwards within one topic, but those of `moved_back`.
    ///
    /// # Errors
    /// It can't be asked, or refused some of the partitions; the others may be stored then.
    fn store<'a>(&'a self, commit: &'a StoreCommit) -> StoreFuture<'a, CommitOutcome>;

    /// What an offset outside of the log means here if `ottla.offsetOutOfRange` does not say. `None`: what `failOnDataLoss` says.
    fn offset_out_of_range(&self) -> Option<OffsetOutOfRange> {
        None
    }
}

/// What a store is to hold after a batch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StoreCommit {
    /// The batch that was processed; -1 for offsets that no batch came to.
    pub batch_id: i64,
    /// The query's id, which names it in the store where there is a place for that.
    pub query_id: String,
    /// The next offset to read of **every** partition of the batch's plan.
    pub offsets: BTreeMap<TopicPartition, i64>,
    /// Where the batch began in each partition that had anything to read, for stores that are to read their last batch again. Empty where that is not
    /// known: of a batch of an earlier run.
    pub from_offsets: BTreeMap<TopicPartition, i64>,
    /// The leader epoch of the last record batch that was read of each partition, where it had one.
    pub leader_epochs: BTreeMap<TopicPartition, i32>,
    /// The ids of the topics that were read, where the brokers have them.
    pub topic_ids: BTreeMap<String, Uuid>,
    /// Topics that were deleted and created again while they were read: nothing is stored for them.
    pub recreated: BTreeSet<String>,
    /// Whether these were stored before, and nothing new was processed since: then the store looks afresh what it holds, since somebody
    /// else may have moved it on meanwhile.
    pub repeated: bool,
    /// Partitions whose log ended before what was to be read next, so that they were begun anew further back: what the store has is no
    /// offset of that log.
    pub moved_back: BTreeSet<TopicPartition>,
}

impl StoreCommit {
    /// Adds what an older commit has of partitions that this one does not name.
    pub(crate) fn absorb(&mut self, older: Self) {
        for (partition, offset) in older.offsets {
            if !self.offsets.contains_key(&partition) && !self.recreated.contains(&partition.topic) {
                if let Some(epoch) = older.leader_epochs.get(&partition) {
                    self.leader_epochs.insert(partition.clone(), *epoch);
                }
                if let Some(id) = older.topic_ids.get(&partition.topic) {
                    self.topic_ids.entry(partition.topic.clone()).or_insert(*id);
                }
                if older.moved_back.contains(&partition) {
                    self.moved_back.insert(partition.clone());
                }
                if let Some(from_offset) = older.from_offsets.get(&partition) {
                    self.from_offsets.insert(partition.clone(), *from_offset);
                }
                self.offsets.insert(partition, offset);
            }
        }
    }
}

/// What a store holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StoredOffsets {
    /// By partition.
    pub offsets: BTreeMap<TopicPartition, StoredOffset>,
    /// What it holds that is no offset: as good as nothing.
    pub not_offsets: BTreeMap<TopicPartition, i64>,
}

impl StoredOffsets {
    /// The batch that wrote the newest of them, where one says so.
    pub(crate) fn batch_id(&self) -> Option<i64> {
        self.offsets.values().filter_map(|stored| stored.batch_id).max()
    }
}

/// A stored offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StoredOffset {
    /// The next offset to read.
    pub offset: i64,
    /// The batch that stored it, if it says so.
    pub batch_id: Option<i64>,
    /// The topic it is of, if it says so.
    pub topic_id: Option<Uuid>,
    /// The leader epoch of the last record batch before it, if it says so.
    pub leader_epoch: Option<i32>,
}

/// What a commit did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CommitOutcome {
    /// The offsets that the store holds now because of it.
    pub committed: BTreeMap<TopicPartition, i64>,
    /// Partitions where the store is further already, with the offset it keeps: a commit moves no store backwards within a log.
    pub kept: BTreeMap<TopicPartition, i64>,
    /// Partitions that are gone since they were read, or whose topic is another one of the same name: nothing is stored for them.
    pub gone: BTreeSet<TopicPartition>,
    /// What the store held that is no offset, and is overwritten now.
    pub not_offsets: BTreeMap<TopicPartition, i64>,
}

/// Runs what blocks on the file system, shortly, on a thread for that.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| crate::Error::Panicked { batch_id: None, message: error.to_string() })
}

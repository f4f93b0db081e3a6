//! Following a running query, Spark's or ours, from outside: what its checkpoint says is done is stored elsewhere, so that tools see the lag.

use super::{
    CheckpointOffsets, CommitOutcome, OffsetMove, OffsetMoves, OffsetState, OffsetStore, OffsetTarget, StoredOffset,
    checkpoint::FinishedOffsets,
};
use crate::{CheckpointErrorKind, Error, Result, options::RECOMMIT_INTERVAL_DEFAULT};
use ottla_client::{Client, TopicPartition};
use ottla_protocol::Uuid;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

/// Stores the offsets of each batch of a checkpoint that is done in another store. When several batches were done between two looks, the
/// newest stands for them.
#[derive(Debug)]
pub struct CheckpointFollower {
    checkpoint: CheckpointOffsets,
    store: Arc<dyn OffsetStore>,
    client: Client,
    topics: BTreeSet<String>,
    force: bool,
    recommit_interval: Duration,
    last: Option<Last>,
}

/// What was stored last.
#[derive(Debug)]
struct Last {
    batch: FinishedOffsets,
    at: Instant,
    /// The ids that its topics had then.
    topic_ids: BTreeMap<String, Uuid>,
}

impl Last {
    /// Spark's offsets don't say which topic they are of. Those that were there before are of the topic that there was then, and must not be
    /// stored for another one that has its name since.
    fn identify(&self, offsets: &mut BTreeMap<TopicPartition, StoredOffset>) {
        for (partition, stored) in offsets {
            if self.batch.source.offsets.get(partition) == Some(&stored.offset) {
                stored.topic_id = stored.topic_id.or_else(|| self.topic_ids.get(&partition.topic).copied());
            }
        }
    }
}

/// What a look at the checkpoint came to.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Followed {
    /// There is no checkpoint yet.
    NotThere,
    /// No batch was done since the last look.
    Nothing,
    /// The offsets of a batch were stored.
    Batch(FollowedBatch),
}

/// A batch whose offsets were stored.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FollowedBatch {
    /// The batch.
    pub batch_id: i64,
    /// The query's id.
    pub query_id: Option<String>,
    /// Whether it was stored before, and only again so that it does not expire.
    pub repeated: bool,
    /// What the store made of it.
    pub outcome: CommitOutcome,
    /// What was not stored since it would go back, or beyond the end of the log.
    pub refused: Vec<OffsetMove>,
    /// What was not stored since the partition is gone, or its topic another one.
    pub left_out: BTreeMap<TopicPartition, OffsetState>,
}

impl CheckpointFollower {
    /// Follows `checkpoint`, all sources of its query unless one is named there, and stores in `store`.
    pub fn new(checkpoint: CheckpointOffsets, store: Arc<dyn OffsetStore>, client: &Client) -> Self {
        Self {
            checkpoint,
            store,
            client: client.clone(),
            topics: BTreeSet::new(),
            force: false,
            recommit_interval: RECOMMIT_INTERVAL_DEFAULT,
            last: None,
        }
    }

    /// Follows these topics only.
    #[must_use]
    pub fn topics(mut self, topics: BTreeSet<String>) -> Self {
        self.topics = topics;
        self
    }

    /// Also stores what goes back, or beyond the end of the log.
    #[must_use]
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// How long after the last time the same offsets are stored again, so that they don't expire. Default 10 min.
    #[must_use]
    pub fn recommit_interval(mut self, interval: Duration) -> Self {
        self.recommit_interval = interval;
        self
    }

    /// Looks once, and stores what is new. After an error nothing counts as stored: the next look tries again.
    ///
    /// # Errors
    /// The checkpoint can't be read, or the store or the cluster can't be asked or refused. Of these,
    /// [`is_final`](Self::is_final) ones come again at each look.
    pub async fn look(&mut self) -> Result<Followed> {
        let newest = match self.checkpoint.newest_of_all().await {
            Err(Error::Checkpoint(error)) if is_not_there(&error.source) => return Ok(Followed::NotThere),
            newest => newest?,
        };
        let Some(newest) = newest else { return Ok(Followed::Nothing) };
        let repeated = self.last.as_ref().is_some_and(|last| last.batch == newest);
        if repeated && self.last.as_ref().is_some_and(|last| last.at.elapsed() < self.recommit_interval) {
            return Ok(Followed::Nothing);
        }
        let mut stored = newest.stored();
        if let Some(last) = &self.last {
            last.identify(&mut stored.offsets);
        }
        let query_id = newest.query_id.map(|id| id.to_string());
        let target = OffsetTarget::Stored { offsets: stored, query_id: query_id.clone() };
        let mut moves = OffsetMoves::plan(&*self.store, &self.client, &target, &self.topics).await?;
        let refused = if self.force { Vec::new() } else { moves.split_refused() };
        let outcome = moves.apply(&*self.store, self.force).await?;
        let batch_id = newest.batch_id;
        let topic_ids = moves.topic_ids().clone();
        self.last = Some(Last { batch: newest, at: Instant::now(), topic_ids });
        Ok(Followed::Batch(FollowedBatch { batch_id, query_id, repeated, outcome, refused, left_out: moves.left_out }))
    }

    /// The partitions of the newest batch that is done, which the store may not have yet; none when that can't be said.
    pub async fn waiting(&self) -> BTreeSet<TopicPartition> {
        let Ok(Some(newest)) = self.checkpoint.newest_of_all().await else { return BTreeSet::new() };
        if self.last.as_ref().is_some_and(|last| last.batch == newest) {
            return BTreeSet::new();
        }
        let is_followed = |partition: &TopicPartition| self.topics.is_empty() || self.topics.contains(&partition.topic);
        newest.source.offsets.into_keys().filter(is_followed).collect()
    }

    /// Whether an error of [`look`](Self::look) comes again however often one looks: something is named wrong.
    pub fn is_final(error: &Error) -> bool {
        match error {
            Error::Option(_) | Error::Plan { .. } => true,
            Error::Checkpoint(error) => matches!(
                error.source,
                CheckpointErrorKind::Location { .. }
                    | CheckpointErrorKind::SeveralSources { .. }
                    | CheckpointErrorKind::NoSuchSource { .. }
                    | CheckpointErrorKind::Version { .. }
                    | CheckpointErrorKind::OwnVersion { .. }
            ),
            _ => false,
        }
    }
}

fn is_not_there(kind: &CheckpointErrorKind) -> bool {
    // A directory that a query is about to fill is as good as none.
    matches!(kind, CheckpointErrorKind::NotThere | CheckpointErrorKind::NotACheckpoint)
}

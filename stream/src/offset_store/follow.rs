//! Following a running query, Spark's or ours, from outside: what its checkpoint says is done is stored elsewhere, so that tools see the lag.

use super::{
    CheckpointOffsets, CommitOutcome, OffsetMove, OffsetMoves, OffsetState, OffsetStore, OffsetTarget, StoredOffset,
    checkpoint::FinishedOffsets,
};
use crate::{CheckpointErrorKind, Error, Result};
use ottla_client::{Client, TopicPartition};
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
    /// What was stored last, and when.
    last: Option<(FinishedOffsets, Instant)>,
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
            recommit_interval: Duration::from_secs(600),
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
        let repeated = match &self.last {
            Some((last, at)) if *last == newest => {
                if at.elapsed() < self.recommit_interval {
                    return Ok(Followed::Nothing);
                }
                true
            }
            _ => false,
        };
        let query_id = newest.query_id.map(|id| id.to_string());
        let target = OffsetTarget::Stored { offsets: newest.stored(), query_id: query_id.clone() };
        let mut moves = OffsetMoves::plan(&*self.store, &self.client, &target, &self.topics).await?;
        let refused = if self.force { Vec::new() } else { moves.split_refused() };
        let outcome = moves.apply(&*self.store, self.force).await?;
        let batch_id = newest.batch_id;
        self.last = Some((newest, Instant::now()));
        Ok(Followed::Batch(FollowedBatch { batch_id, query_id, repeated, outcome, refused, left_out: moves.left_out }))
    }

    /// What is done and not stored yet; `None` when that can't be said.
    pub async fn waiting(&self) -> Option<BTreeMap<TopicPartition, StoredOffset>> {
        let newest = self.checkpoint.newest_of_all().await.ok()??;
        let is_stored = self.last.as_ref().is_some_and(|(last, _)| *last == newest);
        let mut waiting = if is_stored { BTreeMap::new() } else { newest.stored().offsets };
        waiting.retain(|partition, _| self.topics.is_empty() || self.topics.contains(&partition.topic));
        Some(waiting)
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

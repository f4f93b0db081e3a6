//! The offsets in a query's checkpoint, Spark's or ours: looked at while its query may be running, and never written.

use super::{CommitOutcome, OffsetStore, StoreCommit, StoreFuture, StoredOffset, StoredOffsets, blocking};
use crate::{
    CheckpointError, CheckpointErrorKind, Error, Result,
    checkpoint::{CheckpointView, FinishedBatch, FinishedSource, Look},
};
use ottla_client::TopicPartition;
use std::{collections::BTreeSet, time::Duration};
use uuid::Uuid;

/// How often files are looked at that are being written or deleted, before they count as damaged.
const LOOKS_MAX: u32 = 5;
/// The pause between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// What a query's checkpoint says is processed: where its newest batch ended that both `commits` and `offsets` have. No lock is taken, and
/// nothing is written; the query may be running.
#[derive(Clone, Debug)]
pub struct CheckpointOffsets {
    view: CheckpointView,
    location: String,
    source: Option<usize>,
}

/// What a batch of the checkpoint came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FinishedOffsets {
    pub(crate) batch_id: i64,
    pub(crate) query_id: Option<Uuid>,
    pub(crate) source: FinishedSource,
}

impl CheckpointOffsets {
    /// The checkpoint at `location`, a path or a `file:` URL, which need not be there yet. `source` is the number of the source that is meant,
    /// from 0, in a query of several.
    ///
    /// # Errors
    /// The location is not of this machine.
    pub fn new(location: &str, source: Option<usize>) -> Result<Self> {
        Ok(Self { view: CheckpointView::new(location)?, location: location.to_owned(), source })
    }

    /// The id of the query; `None` when no batch is done yet, or it can't be read.
    ///
    /// # Errors
    /// There is no such checkpoint, or its files are damaged.
    pub async fn query_id(&self) -> Result<Option<String>> {
        Ok(self.look().await?.and_then(|batch| batch.query_id).map(|id| id.to_string()))
    }

    /// The newest batch that is done, of the source that is meant; `None` when none is done yet.
    ///
    /// # Errors
    /// There is no such checkpoint or source, or its files are damaged: they were looked at several times.
    pub(crate) async fn newest(&self) -> Result<Option<FinishedOffsets>> {
        let Some(batch) = self.look().await? else { return Ok(None) };
        let source = batch.source(self.view.directory(), self.source)?;
        Ok(Some(FinishedOffsets { batch_id: batch.batch_id, query_id: batch.query_id, source }))
    }

    /// As [`newest`](Self::newest), of all sources together when none is named.
    ///
    /// # Errors
    /// Two sources have a partition in common, and as `newest`.
    pub(crate) async fn newest_of_all(&self) -> Result<Option<FinishedOffsets>> {
        if self.source.is_some() {
            return self.newest().await;
        }
        let Some(batch) = self.look().await? else { return Ok(None) };
        let union = batch.union(self.view.directory())?;
        let source = union.map_err(|shared| Error::Plan {
            condition: "SOURCES_SHARE_PARTITIONS",
            message: format!("{}: {shared}; name one of them as ?source=N", self.name()),
        })?;
        Ok(Some(FinishedOffsets { batch_id: batch.batch_id, query_id: batch.query_id, source }))
    }

    async fn look(&self) -> Result<Option<FinishedBatch>> {
        let mut looks = 1;
        loop {
            let view = self.view.clone();
            match blocking(move || view.look()).await?? {
                Look::Nothing => return Ok(None),
                Look::Finished(batch) => return Ok(Some(batch)),
                Look::Unclear(error) if looks == LOOKS_MAX => return Err(error.into()),
                Look::Unclear(_) => {}
            }
            looks += 1;
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }
}

impl FinishedOffsets {
    pub(crate) fn stored(&self) -> StoredOffsets {
        let own = &self.source.own;
        let stored = |(partition, offset): (&TopicPartition, &i64)| {
            let stored = StoredOffset {
                offset: *offset,
                batch_id: Some(self.batch_id),
                topic_id: own.topic_ids.get(&partition.topic).copied(),
                leader_epoch: own.leader_epochs.get(partition).copied(),
            };
            (partition.clone(), stored)
        };
        StoredOffsets { offsets: self.source.offsets.iter().map(stored).collect(), ..StoredOffsets::default() }
    }
}

impl OffsetStore for CheckpointOffsets {
    fn name(&self) -> String {
        match self.source {
            None => format!("checkpoint '{}'", self.location),
            Some(source) => format!("source {source} of checkpoint '{}'", self.location),
        }
    }

    fn load<'a>(&'a self, partitions: Option<&'a BTreeSet<TopicPartition>>) -> StoreFuture<'a, StoredOffsets> {
        Box::pin(async move {
            let mut stored = self.newest().await?.map(|batch| batch.stored()).unwrap_or_default();
            if let Some(wanted) = partitions {
                stored.offsets.retain(|partition, _| wanted.contains(partition));
            }
            Ok(stored)
        })
    }

    /// Always an error: only the query writes its checkpoint.
    fn store<'a>(&'a self, _: &'a StoreCommit) -> StoreFuture<'a, CommitOutcome> {
        let error = CheckpointError::new(self.view.directory(), CheckpointErrorKind::ReadOnly);
        Box::pin(async move { Err(error.into()) })
    }
}

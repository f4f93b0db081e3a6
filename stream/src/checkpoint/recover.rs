//! Where a query goes on: the newest batch of `offsets`, and whether `commits` has it.

use super::{
    Checkpoint, CheckpointError, CheckpointErrorKind, OffsetsEntry, commit_log, error::IdList, log::MetadataLog,
    offset_log::OffsetsMetadata,
};

/// What the checkpoint says about the last run.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Recovered {
    /// No batch was planned yet.
    New,
    /// The newest batch is done: the next one begins where it ended.
    Committed {
        /// The newest batch.
        batch_id: i64,
        /// Where it ended.
        entry: OffsetsEntry,
        /// Where it began; `None` for batch 0, which began at the initial offsets.
        before: Option<OffsetsEntry>,
    },
    /// The newest batch was planned and is not known to be done: it is run again, over the same offsets.
    Pending {
        /// The newest batch.
        batch_id: i64,
        /// Where it ends.
        entry: OffsetsEntry,
        /// Where it begins; `None` for batch 0, which begins at the initial offsets.
        before: Option<OffsetsEntry>,
    },
}

/// Where continuous mode goes on.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RecoveredEpoch {
    /// The next epoch: the first that `offsets` doesn't have.
    pub(crate) next_epoch: i64,
    /// The newest committed epoch and where it ended; `None` when none is, which begins at the initial offsets.
    pub(crate) committed: Option<(i64, OffsetsEntry)>,
}

impl Checkpoint {
    /// Where the micro-batch query of `sources` sources goes on. Files are read, nothing is changed.
    ///
    /// # Errors
    /// Files that are damaged, or missing, or don't fit together: nothing is guessed.
    pub(crate) fn recover(&self, sources: usize) -> Result<Recovered, CheckpointError> {
        let ids = self.offsets.ids()?;
        let commits = self.commits.ids()?;
        let Some(newest) = ids.last().copied() else {
            if commits.is_empty() {
                return Ok(Recovered::New);
            }
            let kind = CheckpointErrorKind::CommitsWithoutOffsets { commits: IdList::new(commits) };
            return Err(CheckpointError::new(self.commits.directory(), kind));
        };
        let missing = |batch_id| {
            let (found, commits) = (IdList::new(ids.clone()), IdList::new(commits.clone()));
            let kind = CheckpointErrorKind::MissingBatch { batch_id, newest, found, commits };
            CheckpointError::new(self.offsets.directory(), kind)
        };
        let entry = self.read_offsets(newest, sources)?.ok_or_else(|| missing(newest))?;
        let before = match newest.checked_sub(1).filter(|before| *before >= 0) {
            Some(before) => Some((before, self.read_offsets(before, sources)?.ok_or_else(|| missing(before))?)),
            None => None,
        };
        let committed = commits.last().copied();
        let watermark_ms = committed.map(|id| read_commit(&self.commits, id)).transpose()?.flatten();
        self.remember(entry.metadata.as_ref(), watermark_ms.filter(|_| committed == Some(newest)));
        if committed == Some(newest) {
            return Ok(Recovered::Committed { batch_id: newest, entry, before: before.map(|(_, before)| before) });
        }
        if let Some(committed) = committed {
            if committed < newest.saturating_sub(1) || committed > newest {
                self.warn(format!(
                    "the newest file in commits, {committed}, is not that of batch {newest} or of the one before: batch {newest} is run again"
                ));
            }
            if let Some((id, before)) = &before {
                require_conf(self, newest, newest, entry.metadata.as_ref())?;
                require_conf(self, *id, newest, before.metadata.as_ref())?;
            }
        }
        Ok(Recovered::Pending { batch_id: newest, entry, before: before.map(|(_, before)| before) })
    }

    /// Where the continuous query of `sources` sources goes on: what was read after the last committed epoch is read again, in a new epoch,
    /// since the epoch without a commit may have reached the sink.
    ///
    /// # Errors
    /// As [`recover`](Self::recover).
    pub(crate) fn recover_continuous(&self, sources: usize) -> Result<RecoveredEpoch, CheckpointError> {
        let ids = self.offsets.ids()?;
        let Some(committed) = self.commits.ids()?.last().copied() else {
            return Ok(RecoveredEpoch { next_epoch: next_id(&ids), committed: None });
        };
        let watermark_ms = read_commit(&self.commits, committed)?;
        let entry = self.read_offsets(committed, sources)?.ok_or_else(|| {
            let found = IdList::new(ids.clone());
            let kind = CheckpointErrorKind::CommittedWithoutOffsets { batch_id: committed, found };
            CheckpointError::new(self.offsets.directory(), kind)
        })?;
        self.remember(entry.metadata.as_ref(), watermark_ms);
        Ok(RecoveredEpoch { next_epoch: next_id(&ids), committed: Some((committed, entry)) })
    }
}

fn next_id(ids: &[i64]) -> i64 {
    ids.last().map_or(0, |newest| newest.saturating_add(1))
}

fn read_commit(commits: &MetadataLog, batch_id: i64) -> Result<Option<i64>, CheckpointError> {
    let bytes = commits.read(batch_id)?;
    bytes.map(|bytes| commit_log::parse(&commits.path(batch_id), &bytes)).transpose()
}

/// Spark runs a batch again only when it knows the settings of this batch and of the one before; a checkpoint that Spark refuses is
/// refused, so that both agree on what such a directory means.
fn require_conf(
    checkpoint: &Checkpoint,
    batch_id: i64,
    pending: i64,
    metadata: Option<&OffsetsMetadata>,
) -> Result<(), CheckpointError> {
    let kind = match metadata {
        None => CheckpointErrorKind::MetadataNotFound { batch_id, pending },
        Some(metadata) if !metadata.has_shuffle_partitions() => {
            CheckpointErrorKind::NoShufflePartitions { batch_id, pending }
        }
        Some(_) => return Ok(()),
    };
    Err(CheckpointError::new(checkpoint.offsets.path(batch_id), kind))
}

//! Looking at a checkpoint that somebody else works with, Spark or another process: without its lock, and without changing anything.

use super::{
    CheckpointError, CheckpointErrorKind, Offsets, OwnEntry, commit_log, error::IdList, location, log::MetadataLog,
    offset_log::OffsetsLines, own::OwnSource, parse_query_id,
};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};
use uuid::Uuid;

/// A checkpoint to look at.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointView {
    directory: PathBuf,
}

/// The newest batch that is known to be done.
#[derive(Debug)]
pub(crate) struct FinishedBatch {
    pub(crate) batch_id: i64,
    /// The query's id; `None` where the file is not there or can't be read.
    pub(crate) query_id: Option<Uuid>,
    /// By source.
    pub(crate) sources: Vec<Result<FinishedSource, CheckpointError>>,
}

/// What a source came to in a batch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct FinishedSource {
    /// Where the batch ended; empty where the source had no offsets yet.
    pub(crate) offsets: Offsets,
    /// Topic ids and leader epochs, of a batch that we wrote.
    pub(crate) own: OwnSource,
}

/// What one look came to.
#[derive(Debug)]
pub(crate) enum Look {
    /// No batch is done yet.
    Nothing,
    /// This is the newest one that is done.
    Finished(FinishedBatch),
    /// Files were written or deleted at this very moment, or are damaged: the next look will tell.
    Unclear(CheckpointError),
}

impl CheckpointView {
    /// The checkpoint at `location`, a path or a `file:` URL. It need not be there yet.
    ///
    /// # Errors
    /// The location can't be used.
    pub(crate) fn new(location: &str) -> Result<Self, CheckpointError> {
        Ok(Self { directory: location::directory(location)? })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Looks for the newest batch whose files in `commits` and `offsets` can be read. A newer one whose files can't is being written, or
    /// deleted; it counts as not there.
    ///
    /// # Errors
    /// There is no checkpoint, or one of a version that is not known.
    pub(crate) fn look(&self) -> Result<Look, CheckpointError> {
        let log = |name: &str| MetadataLog::new(self.directory.join(name));
        let (commits, offsets, own) = (log("commits"), log("offsets"), log("ottla/offsets"));
        self.check()?;
        let ids = commits.ids()?;
        let mut unclear = None;
        for batch_id in ids.iter().rev().copied() {
            match read(&commits, &offsets, &own, batch_id) {
                Ok(Some(sources)) => {
                    return Ok(Look::Finished(FinishedBatch { batch_id, query_id: self.query_id(), sources }));
                }
                Ok(None) => {}
                Err(error) if is_passing(&error) => unclear = unclear.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        Ok(match unclear {
            Some(error) => Look::Unclear(error),
            None if ids.is_empty() => Look::Nothing,
            None => {
                let kind = CheckpointErrorKind::CommitsWithoutOffsets { commits: IdList::new(ids) };
                Look::Unclear(CheckpointError::new(commits.directory(), kind))
            }
        })
    }

    fn check(&self) -> Result<(), CheckpointError> {
        let is_there = |path: &Path| path.try_exists().map_err(CheckpointError::io(path, "looking for it"));
        if !is_there(&self.directory)? {
            return Err(CheckpointError::new(&self.directory, CheckpointErrorKind::NotThere));
        }
        if !is_there(&self.directory.join("metadata"))? && !is_there(&self.directory.join("offsets"))? {
            return Err(CheckpointError::new(&self.directory, CheckpointErrorKind::NotACheckpoint));
        }
        Ok(())
    }

    fn query_id(&self) -> Option<Uuid> {
        let path = self.directory.join("metadata");
        fs::read(&path).ok().and_then(|bytes| parse_query_id(&path, &bytes).ok())
    }
}

/// A batch that is done, by source; `None` when one of its files is not there.
fn read(
    commits: &MetadataLog,
    offsets: &MetadataLog,
    own: &MetadataLog,
    batch_id: i64,
) -> Result<Option<Vec<Result<FinishedSource, CheckpointError>>>, CheckpointError> {
    let Some(commit) = commits.read(batch_id)? else { return Ok(None) };
    commit_log::parse(&commits.path(batch_id), &commit)?;
    let Some(bytes) = offsets.read(batch_id)? else { return Ok(None) };
    let path = offsets.path(batch_id);
    let lines = OffsetsLines::parse(&path, &bytes)?;
    if lines.sources.is_empty() {
        let reason = "it ends before its first source".to_owned();
        return Err(CheckpointError::new(path, CheckpointErrorKind::Incomplete { reason }));
    }
    // Of sources that are not Kafka's nothing can be said; of those that are, everything.
    if let (true, Some(Err(_))) = (lines.sources.iter().all(Result::is_err), lines.sources.first()) {
        return lines.sources.into_iter().collect::<Result<Vec<_>, _>>().map(|_| None);
    }
    let own = match own.read(batch_id)? {
        // One that does not fit is of a batch that Spark ran anew.
        Some(text) => OwnEntry::parse(&own.path(batch_id), &text, &bytes, lines.sources.len())?.ok(),
        None => None,
    };
    let mut own = own.map(|own| own.sources).unwrap_or_default().into_iter();
    let finished = lines.sources.into_iter().map(|source| {
        let own = own.next().unwrap_or_default();
        source.map(|offsets| FinishedSource { offsets: offsets.unwrap_or_default(), own })
    });
    Ok(Some(finished.collect()))
}

/// Whether it may be gone at the next look.
fn is_passing(error: &CheckpointError) -> bool {
    match &error.source {
        CheckpointErrorKind::Incomplete { .. }
        | CheckpointErrorKind::Malformed { .. }
        | CheckpointErrorKind::MalformedVersion { .. }
        | CheckpointErrorKind::Checksum { .. } => true,
        CheckpointErrorKind::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

impl FinishedBatch {
    /// What one source came to: the only one, if none is named.
    ///
    /// # Errors
    /// There are several, or there is none of this number, or it is not Kafka's.
    pub(crate) fn source(&self, path: &Path, source: Option<usize>) -> Result<FinishedSource, CheckpointError> {
        let found = self.sources.len();
        let error = |kind| CheckpointError::new(path, kind);
        let index = match source {
            None if found == 1 => 0,
            None => return Err(error(CheckpointErrorKind::SeveralSources { found })),
            Some(index) => index,
        };
        match self.sources.get(index) {
            Some(Ok(source)) => Ok(source.clone()),
            Some(Err(wrong)) => Err(error(CheckpointErrorKind::Malformed {
                line: index.saturating_add(3),
                reason: format!("source {index} is no Kafka source: {}", wrong.source),
            })),
            None => Err(error(CheckpointErrorKind::NoSuchSource { source_number: index, found })),
        }
    }

    /// What all sources came to together.
    ///
    /// # Errors
    /// One of them is not Kafka's. Two have a partition in common, of which only one could be meant: the partition.
    pub(crate) fn union(&self, path: &Path) -> Result<Result<FinishedSource, String>, CheckpointError> {
        let mut union = FinishedSource::default();
        let mut owners = BTreeMap::new();
        for index in 0..self.sources.len() {
            let source = self.source(path, Some(index))?;
            for partition in source.offsets.keys() {
                if let Some(other) = owners.insert(partition.clone(), index) {
                    return Ok(Err(format!("sources {other} and {index} of the query both read {partition}")));
                }
            }
            union.offsets.extend(source.offsets);
            union.own.topic_ids.extend(source.own.topic_ids);
            union.own.leader_epochs.extend(source.own.leader_epochs);
        }
        Ok(Ok(union))
    }
}

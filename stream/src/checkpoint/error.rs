//! What can be wrong with a checkpoint: where, what, and what to do about it.

use std::{fmt, io, path::PathBuf};

/// A checkpoint that can't be used, or went wrong under way.
#[derive(Debug, thiserror::Error)]
#[error("checkpoint file {}", .path.display())]
pub struct CheckpointError {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong with it, and what to do.
    pub source: CheckpointErrorKind,
}

/// What is wrong with a checkpoint. The texts hold Spark's words where Spark has any.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointErrorKind {
    /// The location is not a directory of this machine.
    #[error("not usable as checkpointLocation: {reason}")]
    Location {
        /// Why, and what is.
        reason: String,
    },
    /// The file system refused something.
    #[error("{doing} failed")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Another process works with the checkpoint.
    #[error(
        "the checkpoint is in use: Multiple streaming queries are concurrently using it. Stop the other query (its process holds \
         this lock as long as it lives), or give this one a checkpoint of its own"
    )]
    Locked,
    /// A batch that is about to be written is there already.
    #[error(
        "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming queries are concurrently using this checkpoint: \
         batch {batch_id} was written by another one. Please make sure only one streaming job runs on a specific checkpoint location at \
         a time, then start again"
    )]
    ConcurrentUpdate {
        /// The batch.
        batch_id: i64,
    },
    /// Spark's state store lies in the checkpoint.
    #[error(
        "the checkpoint holds the state of a stateful Spark query (directory `state`), which can't be read here. Go on with Spark, or \
         start this query with a new checkpoint"
    )]
    ForeignState,
    /// The query's id can't be read.
    #[error(
        "the query's id can't be read: {reason}. It must be one line as {{\"id\":\"11111111-2222-4333-8444-555555555555\"}}; restore \
         it from a backup, or write one with an id of your own, which keeps the offsets"
    )]
    Metadata {
        /// What is wrong with the line.
        reason: String,
    },
    /// The bytes are not those that Hadoop's checksum file was made of.
    #[error(
        "Checksum error: chunk {chunk} (bytes {from} to {until}) doesn't match {crc_file}. The file is damaged, or was edited: \
         restore it from a backup; if it was edited on purpose, delete {crc_file}"
    )]
    Checksum {
        /// Which piece, from 0.
        chunk: usize,
        /// Its first byte.
        from: usize,
        /// The byte after its last one.
        until: usize,
        /// The checksum file's name.
        crc_file: String,
    },
    /// A file that is empty or ends too early.
    #[error("Failed to read log file. Incomplete log file: {reason}. {RESTORE}")]
    Incomplete {
        /// What is missing.
        reason: String,
    },
    /// A file of a version that is not known.
    #[error(
        "Failed to read log file. [INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION] UnsupportedLogVersion. The maximum supported log version \
         is v{max}, but encountered v{found}. The log file was produced by a newer version and cannot be read by this version. You \
         need to upgrade"
    )]
    Version {
        /// The newest version that is known.
        max: u32,
        /// The file's.
        found: u32,
    },
    /// A file that doesn't begin with its version.
    #[error(
        "Failed to read log file. Log file was malformed: failed to read correct log version from {text:?}. {RESTORE}"
    )]
    MalformedVersion {
        /// What stands there, at most 100 characters.
        text: String,
    },
    /// A line of JSON that isn't, or says what it can't.
    #[error("Failed to read log file. Line {line}: {reason}. {RESTORE}")]
    Malformed {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The checkpoint is of a query with other sources.
    #[error(
        "assertion failed: There are [{found}] sources in the checkpoint offsets and now there are [{expected}] sources requested by \
         the query. Cannot continue. Start the query with the sources that it had, or with a new checkpoint"
    )]
    Sources {
        /// How many the file has.
        found: usize,
        /// How many the query has.
        expected: usize,
    },
    /// The batch before the newest one is not there.
    #[error(
        "batch {batch_id} doesn't exist: going on from batch {newest} needs the offsets of batch {batch_id} too. Files found here: \
         {found}; in commits: {commits}. Restore {batch_id} from a backup. {}", without_backup(.found, .commits)
    )]
    MissingBatch {
        /// The batch whose file is not there.
        batch_id: i64,
        /// The newest one.
        newest: i64,
        /// The files of `offsets`.
        found: IdList,
        /// The files of `commits`.
        commits: IdList,
    },
    /// `commits` holds batches, `offsets` none.
    #[error(
        "assertion failed: commits holds files ({commits}), and offsets holds none, so nobody knows what those batches read. Restore \
         offsets from a backup, or delete the checkpoint's commits to start anew at the starting offsets"
    )]
    CommitsWithoutOffsets {
        /// The files of `commits`.
        commits: IdList,
    },
    /// A pending batch's file has no metadata line.
    #[error(
        "requirement failed: Batch {batch_id} metadata not found: batch {pending} is not committed, and to run it again Spark needs \
         the metadata line in the files of the batch and of the one before. {REWRITE}"
    )]
    MetadataNotFound {
        /// The batch whose line is empty.
        batch_id: i64,
        /// The batch that is to be run again.
        pending: i64,
    },
    /// A pending batch's file doesn't know the number of shuffle partitions.
    #[error(
        "None.get: batch {pending} is not committed, and to run it again Spark needs spark.sql.shuffle.partitions in the conf of the \
         batch and of the one before; batch {batch_id} has none. {REWRITE}"
    )]
    NoShufflePartitions {
        /// The batch that has none.
        batch_id: i64,
        /// The batch that is to be run again.
        pending: i64,
    },
    /// A batch in `commits` that `offsets` doesn't have, in continuous mode.
    #[error(
        "Batch {batch_id} was committed without end epoch offsets! Files found in offsets: {found}. Restore it from a backup, or delete \
         the files above the newest batch that both offsets and commits have"
    )]
    CommittedWithoutOffsets {
        /// The batch.
        batch_id: i64,
        /// The files of `offsets`.
        found: IdList,
    },
    /// Somebody wants to look at a checkpoint that is not there.
    #[error("there is no such directory")]
    NotThere,
    /// Somebody wants to look at a directory that is no checkpoint.
    #[error("this is no checkpoint: it has no `metadata` and no `offsets`")]
    NotACheckpoint,
    /// The checkpoint is of several sources, and one is meant.
    #[error("the query has {found} sources: name one as ?source=N, N from 0 to {}", .found.saturating_sub(1))]
    SeveralSources {
        /// How many it has.
        found: usize,
    },
    /// A source that the query does not have.
    #[error("the query has no source {source_number}: it has {found}, counted from 0")]
    NoSuchSource {
        /// The number asked for.
        source_number: usize,
        /// How many it has.
        found: usize,
    },
    /// Offsets were to be stored in a query's checkpoint.
    #[error("a checkpoint is only read here: only its query writes it")]
    ReadOnly,
    /// One of our own files, by a newer version of this program.
    #[error(
        "written by a newer version of Ottla (file version {found}, known is {max}): upgrade, or delete it and go on without topic ids"
    )]
    OwnVersion {
        /// The newest version that is known.
        max: u64,
        /// The file's.
        found: u64,
    },
}

const RESTORE: &str = "Restore it from a backup. Without one: the newest file of commits may be deleted, its batch is run again then; so \
                       may the newest file of offsets if its batch is not in commits, the batch is planned anew then";
const REWRITE: &str = "Write it as {\"batchWatermarkMs\":0,\"batchTimestampMs\":0,\"conf\":{\"spark.sql.shuffle.partitions\":\"200\"}} \
                       in both files (and delete their .crc files)";

/// How to go on without the missing file: from the newest batch that is known to be done, whose end is all that is needed.
fn without_backup(found: &IdList, commits: &IdList) -> String {
    let Some(done) = found.0.iter().rev().find(|id| commits.0.contains(id)) else {
        return "Without one it is not known where that batch ended: start with a new checkpoint".to_owned();
    };
    let mut steps = Vec::new();
    for (log, ids) in [("offsets", found), ("commits", commits)] {
        let later: Vec<_> = ids.0.iter().filter(|id| *id > done).map(|id| format!("{log}/{id}")).collect();
        if !later.is_empty() {
            steps.push(format!("delete {}", later.join(", ")));
        }
    }
    let before = done.saturating_sub(1);
    if *done > 0 && !found.0.contains(&before) {
        steps.push(format!("copy offsets/{done} to offsets/{before}, which only has to be there"));
    }
    format!("Without one: {}. Batch {done} is done, and what came after it is read again then", steps.join(", then "))
}

impl CheckpointError {
    /// A name for programs: Spark's where Spark has one.
    pub fn condition(&self) -> &'static str {
        match self.source {
            CheckpointErrorKind::Location { .. } => "CHECKPOINT_LOCATION",
            CheckpointErrorKind::Io { .. } => "CHECKPOINT_IO",
            CheckpointErrorKind::Locked => "CHECKPOINT_LOCKED",
            CheckpointErrorKind::ConcurrentUpdate { .. } => "CONCURRENT_STREAM_LOG_UPDATE",
            CheckpointErrorKind::ForeignState => "CHECKPOINT_STATE",
            CheckpointErrorKind::Metadata { .. } => "CHECKPOINT_METADATA",
            CheckpointErrorKind::Checksum { .. } => "CHECKPOINT_CHECKSUM",
            CheckpointErrorKind::Incomplete { .. } => "INCOMPLETE_LOG_FILE",
            CheckpointErrorKind::Version { .. } => "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION",
            CheckpointErrorKind::MalformedVersion { .. } => "INVALID_LOG_VERSION",
            CheckpointErrorKind::Malformed { .. } => "MALFORMED_LOG_FILE",
            CheckpointErrorKind::Sources { .. } => "CHECKPOINT_SOURCES",
            CheckpointErrorKind::MissingBatch { .. } => "CHECKPOINT_BATCH_MISSING",
            CheckpointErrorKind::CommitsWithoutOffsets { .. } => "CHECKPOINT_COMMITS_WITHOUT_OFFSETS",
            CheckpointErrorKind::MetadataNotFound { .. } => "CHECKPOINT_BATCH_METADATA_NOT_FOUND",
            CheckpointErrorKind::NoShufflePartitions { .. } => "CHECKPOINT_BATCH_CONF_NOT_FOUND",
            CheckpointErrorKind::CommittedWithoutOffsets { .. } => "CHECKPOINT_BATCH_MISSING",
            CheckpointErrorKind::NotThere => "CHECKPOINT_NOT_THERE",
            CheckpointErrorKind::NotACheckpoint => "CHECKPOINT_NOT_THERE",
            CheckpointErrorKind::SeveralSources { .. } => "CHECKPOINT_SOURCES",
            CheckpointErrorKind::NoSuchSource { .. } => "CHECKPOINT_SOURCES",
            CheckpointErrorKind::ReadOnly => "CHECKPOINT_READ_ONLY",
            CheckpointErrorKind::OwnVersion { .. } => "CHECKPOINT_OWN_VERSION",
        }
    }

    pub(crate) fn new(path: impl Into<PathBuf>, source: CheckpointErrorKind) -> Self {
        Self { path: path.into(), source }
    }

    pub(super) fn io(path: impl Into<PathBuf>, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::new(path, CheckpointErrorKind::Io { doing, source })
    }
}

/// Batch ids as an error lists them: in order, and only the last ones of many.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdList(Vec<i64>);

impl IdList {
    pub(super) fn new(ids: Vec<i64>) -> Self {
        Self(ids)
    }

    /// The ids, ascending.
    pub fn ids(&self) -> &[i64] {
        &self.0
    }
}

impl fmt::Display for IdList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 20;
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let skipped = self.0.len().saturating_sub(SHOWN);
        if skipped > 0 {
            write!(f, "{skipped} older ones, ")?;
        }
        let shown: Vec<_> = self.0.iter().skip(skipped).map(ToString::to_string).collect();
        f.write_str(&shown.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_ids_are_cut_short() {
        assert_eq!(IdList::new(vec![]).to_string(), "none");
        assert_eq!(IdList::new(vec![7, 9]).to_string(), "7, 9");
        let many = IdList::new((0..30).collect()).to_string();
        assert!(many.starts_with("10 older ones, 10, 11, ") && many.ends_with(", 29"), "{many}");
    }
}

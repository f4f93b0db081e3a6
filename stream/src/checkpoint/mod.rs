//! A checkpoint: which batches were planned, which are done, and where sources began, in Spark's directory layout and formats, so that
//! either can go on from what the other left.
//!
//! ```text
//! metadata             {"id":"<uuid>"}: the query's id
//! offsets/N            where batch N ends, before any work on it       offset_log.rs
//! commits/N            batch N is done                                 commit_log.rs
//! sources/S/0          where source S began                            initial_offsets.rs
//! ottla/lock           held while a query runs                         lock.rs
//! ottla/offsets/N      topic ids and more of batch N, ours             own.rs
//! ```
//! Files appear whole (atomic_file.rs), and are never changed afterwards. `recover.rs` decides where a query goes on. All calls block on the
//! file system, shortly. `view.rs` reads what others write, without the lock.

mod atomic_file;
mod commit_log;
mod crc_file;
mod error;
mod initial_offsets;
mod location;
mod lock;
mod log;
mod offset_log;
mod own;
mod recover;
#[cfg(test)]
mod tests;
mod view;

pub use error::{CheckpointError, CheckpointErrorKind, IdList};
pub(crate) use offset_log::{OffsetsEntry, OffsetsMetadata};
pub(crate) use own::{OwnEntry, OwnSource};
pub(crate) use recover::Recovered;
pub(crate) use view::{CheckpointView, FinishedBatch, FinishedSource, Look};

use log::MetadataLog;
use ottla_client::TopicPartition;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use uuid::Uuid;

/// The next offset to read of each partition.
type Offsets = BTreeMap<TopicPartition, i64>;

/// How many batches before the newest one are kept, as in Spark.
const BATCHES_RETAINED: i64 = 100;

/// An open checkpoint. No other process can open it until this is dropped.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    directory: PathBuf,
    id: Uuid,
    offsets: MetadataLog,
    commits: MetadataLog,
    own: MetadataLog,
    state: Mutex<State>,
    _lock: lock::Lock,
}

#[derive(Debug, Default)]
struct State {
    /// The newest file's, which the next one goes on with.
    metadata: OffsetsMetadata,
    warnings: Vec<String>,
    /// Whether somebody was told that there are no topic ids.
    told_absent: bool,
}

impl Checkpoint {
    /// Opens the checkpoint at `location`, a path or a `file:` URL, and locks it; it is made when there is none.
    ///
    /// # Errors
    /// The location can't be used, another process works with it, or it holds what can't be gone on from.
    pub(crate) fn open(location: &str) -> Result<Self, CheckpointError> {
        let directory = location::directory(location)?;
        let state = directory.join("state");
        if state.try_exists().map_err(CheckpointError::io(&state, "looking for the directory"))? {
            return Err(CheckpointError::new(state, CheckpointErrorKind::ForeignState));
        }
        let own = directory.join("ottla");
        atomic_file::create_directory(&own)?;
        let lock = lock::Lock::take(&own.join("lock"))?;
        let (offsets, commits) = (directory.join("offsets"), directory.join("commits"));
        let own_offsets = own.join("offsets");
        for directory in [&directory, &offsets, &commits, &own_offsets] {
            atomic_file::remove_temporaries(directory)?;
        }
        let sources = directory.join("sources");
        for name in atomic_file::names(&sources)? {
            let source = sources.join(name);
            if source.is_dir() {
                atomic_file::remove_temporaries(&source)?;
            }
        }
        let id = query_id(&directory.join("metadata"))?;
        Ok(Self {
            directory,
            id,
            offsets: MetadataLog::new(offsets),
            commits: MetadataLog::new(commits),
            own: MetadataLog::new(own_offsets),
            state: Mutex::default(),
            _lock: lock,
        })
    }

    /// The query's id, which stays over restarts.
    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    /// Where the source with this number began, if that was stored.
    ///
    /// # Errors
    /// The file is damaged, or can't be read.
    pub(crate) fn initial_offsets(&self, source: usize) -> Result<Option<Offsets>, CheckpointError> {
        let log = self.source(source);
        log.read(0)?.map(|bytes| initial_offsets::parse(&log.path(0), &bytes)).transpose()
    }

    /// Stores where the source with this number begins.
    ///
    /// # Errors
    /// It is stored already, or can't be written.
    pub(crate) fn write_initial_offsets(&self, source: usize, offsets: &Offsets) -> Result<(), CheckpointError> {
        self.source(source).add(0, initial_offsets::write(offsets).as_bytes())
    }

    /// The metadata line of the next batch: the settings and the watermark of the newest file, and this timestamp (milliseconds since the
    /// epoch).
    pub(crate) fn next_metadata(&self, batch_timestamp_ms: i64) -> OffsetsMetadata {
        let mut metadata = OffsetsMetadata { batch_timestamp_ms, ..self.state().metadata.clone() };
        metadata.ensure_shuffle_partitions();
        metadata
    }

    /// Stores where a batch ends, before any work on it is done, and deletes the files of batches that are no longer needed.
    ///
    /// # Errors
    /// Somebody else stored that batch, or it can't be written: it must not be run then.
    pub(crate) fn write_offsets(&self, batch_id: i64, entry: &OffsetsEntry) -> Result<(), CheckpointError> {
        let text = entry.write();
        let path = self.offsets.path(batch_id);
        if path.try_exists().map_err(CheckpointError::io(&path, "looking for the file"))? {
            // Before our own file of somebody else's batch is replaced.
            return Err(CheckpointError::new(path, CheckpointErrorKind::ConcurrentUpdate { batch_id }));
        }
        match &entry.own {
            Some(own) => {
                atomic_file::create_directory(self.own.directory())?;
                atomic_file::replace(&self.own.path(batch_id), own.write(text.as_bytes()).as_bytes())?;
            }
            None => remove_if_there(&self.own.path(batch_id))?,
        }
        self.offsets.add(batch_id, text.as_bytes())?;
        self.remember(entry.metadata.as_ref(), None);
        if batch_id > BATCHES_RETAINED {
            self.purge(batch_id.saturating_sub(BATCHES_RETAINED));
        }
        Ok(())
    }

    /// Stores that a batch is done.
    ///
    /// # Errors
    /// Somebody else stored that, or it can't be written: the batch will be run again then.
    pub(crate) fn write_commit(&self, batch_id: i64) -> Result<(), CheckpointError> {
        let watermark_ms = self.state().metadata.batch_watermark_ms;
        self.commits.add(batch_id, commit_log::write(watermark_ms).as_bytes())
    }

    /// What somebody should be told and was not yet.
    pub(crate) fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.state().warnings)
    }

    fn source(&self, source: usize) -> MetadataLog {
        MetadataLog::new(self.directory.join("sources").join(source.to_string()))
    }

    /// Old files are in nobody's way: one that can't be deleted is told, and tried again with the next batch.
    fn purge(&self, below: i64) {
        for log in [&self.offsets, &self.commits, &self.own] {
            if let Err(error) = log.purge(below) {
                self.warn(format!("files of batches before {below} stay: {error}: {}", error.source));
            }
        }
    }

    /// A batch's offsets and what our own file says beside them; `None` when there is no such batch.
    fn read_offsets(&self, batch_id: i64, sources: usize) -> Result<Option<OffsetsEntry>, CheckpointError> {
        let Some(bytes) = self.offsets.read(batch_id)? else { return Ok(None) };
        let mut entry = OffsetsEntry::parse(&self.offsets.path(batch_id), &bytes, sources)?;
        let own_path = self.own.path(batch_id);
        match self.own.read(batch_id)? {
            Some(own) => match OwnEntry::parse(&own_path, &own, &bytes, sources)? {
                Ok(own) => entry.own = Some(own),
                Err(reason) => self.warn(format!(
                    "{} is not used: {reason}. offsets/{batch_id} is taken as it is, without topic ids",
                    own_path.display()
                )),
            },
            None => self.warn_absent(batch_id),
        }
        Ok(Some(entry))
    }

    fn warn_absent(&self, batch_id: i64) {
        let mut state = self.state();
        if !std::mem::replace(&mut state.told_absent, true) {
            state.warnings.push(format!(
                "no topic ids are known for batch {batch_id}: a topic that was deleted and created again is noticed only when it is smaller"
            ));
        }
    }

    fn warn(&self, warning: String) {
        self.state().warnings.push(warning);
    }

    /// Keeps the settings of the newest file, and the later of its watermark and its commit's.
    fn remember(&self, metadata: Option<&OffsetsMetadata>, committed_watermark_ms: Option<i64>) {
        let mut state = self.state();
        if let Some(metadata) = metadata {
            state.metadata = metadata.clone();
        }
        if let Some(watermark_ms) = committed_watermark_ms {
            state.metadata.batch_watermark_ms = state.metadata.batch_watermark_ms.max(watermark_ms);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The id in `metadata`, which is made when there is no such file.
fn query_id(path: &Path) -> Result<Uuid, CheckpointError> {
    let bytes = loop {
        if let Some(bytes) = atomic_file::read(path, "reading the file")? {
            break bytes;
        }
        let id = Uuid::new_v4();
        if atomic_file::create(path, format!("{{\"id\":\"{id}\"}}").as_bytes())? {
            return Ok(id);
        }
        // Spark, which knows no lock, made one at this very moment: that is read.
    };
    parse_query_id(path, &bytes)
}

/// The id in the bytes of `metadata`.
fn parse_query_id(path: &Path, bytes: &[u8]) -> Result<Uuid, CheckpointError> {
    crc_file::verify(path, bytes)?;
    let wrong = |reason: String| CheckpointError::new(path, CheckpointErrorKind::Metadata { reason });
    let line: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
    let id = line.get("id").and_then(serde_json::Value::as_str).ok_or_else(|| wrong("it has no \"id\"".to_owned()))?;
    Uuid::try_parse(id).map_err(|error| wrong(format!("\"{id}\": {error}")))
}

fn remove_if_there(path: &Path) -> Result<(), CheckpointError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(CheckpointError::io(path, "removing an old file")(error))
        }
        _ => Ok(()),
    }
}

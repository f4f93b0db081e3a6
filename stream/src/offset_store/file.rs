//! A file of this machine as offset store: `offsets-file:PATH`.
//!
//! ```text
//! {"version":1,"crc32c":2788422914,"partitions":[
//! {"batchId":7,"leaderEpoch":3,"offset":23,"partition":0,"queryId":"…","topic":"t","topicId":"VLPZl7-3n3M_pa9rp1xkgw"}
//! ]}
//! ```
//! The checksum is that of the list as JSON without spaces and with sorted keys, so that a file that was only laid out anew is the same file. It
//! is replaced as a whole, by a synced temporary file that is renamed. A lock beside it, `.NAME.lock`, is held from the first write on for as
//! long as the store lives; where locks don't work, the file is compared with what was read or written last.

use super::{CommitOutcome, OffsetStore, StoreCommit, StoreFuture, StoredOffset, StoredOffsets, blocking};
use crate::{Error, Result, durable};
use fs4::{FileExt, TryLockError};
use ottla_client::TopicPartition;
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

const VERSION: u64 = 1;

/// Offsets in a file. One process at a time may write it; others may look at it meanwhile.
///
/// Needs a tokio runtime; the file is read and written on its threads for blocking calls.
#[derive(Debug)]
pub struct OffsetsFile {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What it held when it was read or written last: nothing where it was not there.
    known: Option<Rows>,
    lock: Option<File>,
}

/// The rows of a file.
type Rows = BTreeMap<TopicPartition, Row>;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Row {
    stored: StoredOffset,
    query_id: Option<String>,
}

/// An offsets file that can't be used.
#[derive(Debug, thiserror::Error)]
#[error("offsets file {}", .path.display())]
pub struct OffsetsFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub source: OffsetsFileErrorKind,
}

/// What is wrong with an offsets file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OffsetsFileErrorKind {
    /// The file system refused something.
    #[error("{doing} failed")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// It is cut off, or was changed otherwise than as a whole.
    #[error("it is damaged: {reason}. Restore it from a backup, or delete it and set the offsets anew")]
    Damaged {
        /// What is wrong.
        reason: String,
    },
    /// It is of a newer version of this program.
    #[error("it was written by a newer version of Ottla (file version {found}, known is {VERSION}): upgrade")]
    Version {
        /// The file's version.
        found: u64,
    },
    /// Another process writes it.
    #[error("another process keeps its offsets in it: stop that one first, or give this one a file of its own")]
    Locked,
    /// Somebody wrote it since it was read or written last.
    #[error(
        "somebody else wrote it since this process read or wrote it last: one at a time may. What stands there now is kept, and \
         counts from now on"
    )]
    Changed,
}

/// The offsets of half a million partitions.
const FILE_BYTES_MAX: u64 = 64 << 20;

impl OffsetsFile {
    /// The file at `path`, which need not be there yet.
    ///
    /// # Errors
    /// It is no path that a file can have.
    pub fn new(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let failed = |error| OffsetsFileError::io(path, "finding it", error);
        let absolute = std::path::absolute(path).map_err(failed)?;
        if absolute.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
            return Err(failed(error).into());
        }
        // The file that a link leads to is meant: a rename would put another one in the place of the link, and the lock must be the same.
        let path = if absolute.is_symlink() { fs::canonicalize(&absolute).map_err(failed)? } else { absolute };
        Ok(Self { shared: Arc::new(Shared { path, state: Mutex::default() }) })
    }
}

impl OffsetsFileError {
    /// A name for programs.
    pub fn condition(&self) -> &'static str {
        match self.source {
            OffsetsFileErrorKind::Io { .. } => "OFFSETS_FILE_IO",
            OffsetsFileErrorKind::Damaged { .. } => "OFFSETS_FILE_DAMAGED",
            OffsetsFileErrorKind::Version { .. } => "OFFSETS_FILE_VERSION",
            OffsetsFileErrorKind::Locked => "OFFSETS_FILE_LOCKED",
            OffsetsFileErrorKind::Changed => "OFFSETS_FILE_CHANGED",
        }
    }

    fn io(path: &Path, doing: &'static str, source: io::Error) -> Self {
        Self { path: path.to_owned(), source: OffsetsFileErrorKind::Io { doing, source } }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load(&self) -> Result<Rows> {
        let mut state = self.state();
        let rows = self.read()?;
        state.known = Some(rows.clone());
        Ok(rows)
    }

    /// A file that is not there has no rows.
    fn read(&self) -> Result<Rows, OffsetsFileError> {
        let regular = |metadata: fs::Metadata| match metadata.is_file() && metadata.len() <= FILE_BYTES_MAX {
            true => fs::read(&self.path),
            // A pipe would be waited for, and a device read without an end.
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file, or far too large for offsets")),
        };
        match fs::metadata(&self.path).and_then(regular) {
            Ok(bytes) => parse(&bytes).map_err(|source| OffsetsFileError { path: self.path.clone(), source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Rows::new()),
            Err(error) => Err(OffsetsFileError::io(&self.path, "reading it", error)),
        }
    }

    fn commit(&self, commit: &StoreCommit) -> Result<CommitOutcome> {
        if let Some((partition, offset)) = commit.offsets.iter().find(|(_, offset)| **offset < 0) {
            return Err(ottla_client::Error::InvalidOffset { partition: partition.clone(), offset: *offset }.into());
        }
        let mut state = self.state();
        if state.lock.is_none() {
            state.lock = Some(self.lock()?);
        }
        let mut rows = self.read()?;
        if state.known.replace(rows.clone()).is_some_and(|known| known != rows) {
            let source = OffsetsFileErrorKind::Changed;
            return Err(OffsetsFileError { path: self.path.clone(), source }.into());
        }
        let mut outcome = CommitOutcome::default();
        for (partition, offset) in &commit.offsets {
            if commit.recreated.contains(&partition.topic) {
                outcome.gone.insert(partition.clone());
                continue;
            }
            let topic_id = commit.topic_ids.get(&partition.topic).copied();
            let held = rows.get(partition).map(|row| row.stored);
            if let Some(held) = held.filter(|held| held.offset < 0) {
                outcome.not_offsets.insert(partition.clone(), held.offset);
            }
            let is_further = |held: &StoredOffset| held.offset > *offset && held.is_of(topic_id);
            if let Some(held) = held.filter(|held| is_further(held) && !commit.moved_back.contains(partition)) {
                outcome.kept.insert(partition.clone(), held.offset);
                continue;
            }
            let stored = StoredOffset {
                offset: *offset,
                batch_id: (commit.batch_id >= 0).then_some(commit.batch_id),
                topic_id,
                leader_epoch: commit.leader_epochs.get(partition).copied(),
            };
            let query_id = (!commit.query_id.is_empty()).then(|| commit.query_id.clone());
            rows.insert(partition.clone(), Row { stored, query_id });
            outcome.committed.insert(partition.clone(), *offset);
        }
        if !outcome.committed.is_empty() {
            self.replace(write(&rows).as_bytes())?;
            state.known = Some(rows);
        }
        Ok(outcome)
    }

    fn lock(&self) -> Result<File, OffsetsFileError> {
        if let Some(directory) = self.path.parent() {
            durable::create_directory(directory)
                .map_err(|error| OffsetsFileError::io(&self.path, "making its directory", error))?;
        }
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(self.beside(".lock"));
        let file = open.map_err(|error| OffsetsFileError::io(&self.path, "opening its lock", error))?;
        match FileExt::try_lock(&file) {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                Err(OffsetsFileError { path: self.path.clone(), source: OffsetsFileErrorKind::Locked })
            }
            Err(TryLockError::Error(error)) => Err(OffsetsFileError::io(&self.path, "taking its lock", error)),
        }
    }

    /// The lock is held: nobody else has a temporary file of this name.
    fn replace(&self, bytes: &[u8]) -> Result<(), OffsetsFileError> {
        let temporary = self.beside(".tmp");
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        written
            .and_then(|()| fs::rename(&temporary, &self.path))
            .and_then(|()| durable::sync_parent(&self.path))
            .map_err(|error| OffsetsFileError::io(&self.path, "writing it", error))
    }

    /// `.NAME` and `end` in the same directory.
    fn beside(&self, end: &str) -> PathBuf {
        let mut name = std::ffi::OsString::from(".");
        name.push(self.path.file_name().unwrap_or_default());
        name.push(end);
        self.path.with_file_name(name)
    }
}

impl OffsetStore for OffsetsFile {
    fn name(&self) -> String {
        format!("offsets file '{}'", self.shared.path.display())
    }

    fn load<'a>(&'a self, partitions: Option<&'a BTreeSet<TopicPartition>>) -> StoreFuture<'a, StoredOffsets> {
        Box::pin(async move {
            let shared = self.shared.clone();
            let rows = blocking(move || shared.load()).await??;
            let mut loaded = StoredOffsets::default();
            let is_wanted = |partition: &TopicPartition| partitions.is_none_or(|wanted| wanted.contains(partition));
            for (partition, row) in rows.into_iter().filter(|(partition, _)| is_wanted(partition)) {
                if row.stored.offset < 0 {
                    loaded.not_offsets.insert(partition, row.stored.offset);
                } else {
                    loaded.offsets.insert(partition, row.stored);
                }
            }
            Ok(loaded)
        })
    }

    fn store<'a>(&'a self, commit: &'a StoreCommit) -> StoreFuture<'a, CommitOutcome> {
        Box::pin(async move {
            let (shared, commit) = (self.shared.clone(), commit.clone());
            blocking(move || shared.commit(&commit)).await?
        })
    }
}

/// The text of a file.
fn write(rows: &Rows) -> String {
    let rows: Vec<Value> = rows.iter().map(|(partition, row)| row.to_json(partition)).collect();
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    let checksum = checksum(&Value::Array(rows));
    format!("{{\"version\":{VERSION},\"crc32c\":{checksum},\"partitions\":[\n{}\n]}}\n", lines.join(",\n"))
}

fn checksum(rows: &Value) -> u32 {
    crc32c::crc32c(rows.to_string().as_bytes())
}

fn parse(bytes: &[u8]) -> Result<Rows, OffsetsFileErrorKind> {
    let damaged = |reason: String| OffsetsFileErrorKind::Damaged { reason };
    if bytes.is_empty() {
        return Err(damaged("it is empty".to_owned()));
    }
    let file: Value = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    match file.get("version").and_then(Value::as_u64) {
        Some(VERSION) => {}
        Some(found) if found > VERSION => return Err(OffsetsFileErrorKind::Version { found }),
        _ => return Err(damaged("it has no version".to_owned())),
    }
    let rows = file.get("partitions").ok_or_else(|| damaged("it has no partitions".to_owned()))?;
    if file.get("crc32c").and_then(Value::as_u64) != Some(checksum(rows).into()) {
        return Err(damaged("its checksum does not fit".to_owned()));
    }
    let list = rows.as_array().ok_or_else(|| damaged("its partitions are no list".to_owned()))?;
    let mut parsed = Rows::new();
    for row in list {
        let (partition, row) = Row::parse(row).ok_or_else(|| damaged(format!("{row} is no partition's offset")))?;
        if let Some(twice) = parsed.insert(partition.clone(), row) {
            return Err(damaged(format!("{partition} stands twice, at {} too", twice.stored.offset)));
        }
    }
    Ok(parsed)
}

impl Row {
    fn to_json(&self, partition: &TopicPartition) -> Value {
        let mut fields = Map::new();
        let mut add = |name: &str, value: Option<Value>| fields.extend(value.map(|value| (name.to_owned(), value)));
        add("topic", Some(json!(partition.topic)));
        add("partition", Some(json!(partition.partition)));
        add("offset", Some(json!(self.stored.offset)));
        add("batchId", self.stored.batch_id.map(|id| json!(id)));
        add("queryId", self.query_id.as_ref().map(|id| json!(id)));
        add("topicId", self.stored.topic_id.map(|id| json!(id.to_string())));
        add("leaderEpoch", self.stored.leader_epoch.map(|epoch| json!(epoch)));
        Value::Object(fields)
    }

    fn parse(row: &Value) -> Option<(TopicPartition, Self)> {
        let int = |value: &Value| i32::try_from(value.as_i64()?).ok().filter(|number| *number >= 0);
        let partition = TopicPartition::new(row.get("topic")?.as_str()?, int(row.get("partition")?)?);
        // A field may be missing, but not be of another kind.
        let batch_id = row.get("batchId").map(|id| id.as_i64().filter(|id| *id >= 0).ok_or(())).transpose().ok()?;
        let topic_id = row.get("topicId").map(|id| id.as_str().and_then(|id| id.parse().ok()).ok_or(()));
        let leader_epoch = row.get("leaderEpoch").map(|epoch| int(epoch).ok_or(()));
        let query_id = row.get("queryId").map(|id| id.as_str().map(str::to_owned).ok_or(()));
        let stored = StoredOffset {
            offset: row.get("offset")?.as_i64()?,
            batch_id,
            topic_id: topic_id.transpose().ok()?,
            leader_epoch: leader_epoch.transpose().ok()?,
        };
        Some((partition, Self { stored, query_id: query_id.transpose().ok()? }))
    }
}

impl From<OffsetsFileError> for Error {
    fn from(error: OffsetsFileError) -> Self {
        Self::OffsetsFile(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_protocol::Uuid;

    fn commit(offsets: &[(i32, i64)]) -> StoreCommit {
        StoreCommit {
            batch_id: 7,
            query_id: "q".to_owned(),
            offsets: offsets.iter().map(|(index, offset)| (TopicPartition::new("t", *index), *offset)).collect(),
            ..StoreCommit::default()
        }
    }

    async fn held(store: &OffsetsFile) -> Vec<(i32, i64)> {
        let stored = store.load(None).await.unwrap();
        stored.offsets.into_iter().map(|(partition, stored)| (partition.partition, stored.offset)).collect()
    }

    fn condition(result: Result<CommitOutcome>) -> &'static str {
        result.unwrap_err().condition()
    }

    #[tokio::test]
    async fn what_is_no_file_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        for path in [Path::new("/dev/zero"), directory.path()] {
            let error = OffsetsFile::new(path).unwrap().load(None).await.unwrap_err();
            assert_eq!(error.condition(), "OFFSETS_FILE_IO", "{}", path.display());
        }
    }

    #[tokio::test]
    async fn what_is_stored_is_there_for_the_next_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/er/offsets.json");
        // A process that was killed left its temporary file.
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path.with_file_name(".offsets.json.tmp"), "{\"version\":1,\"crc").unwrap();
        let store = OffsetsFile::new(&path).unwrap();
        assert_eq!(held(&store).await, []);
        let id = Uuid([7; 16]);
        let mut first = commit(&[(0, 5), (1, 0), (2, i64::MAX)]);
        first.topic_ids = [("t".to_owned(), id)].into();
        first.leader_epochs = [(TopicPartition::new("t", 0), 3)].into();
        store.store(&first).await.unwrap();
        let loaded = OffsetsFile::new(&path).unwrap().load(None).await.unwrap();
        let stored =
            |offset, leader_epoch| StoredOffset { offset, batch_id: Some(7), topic_id: Some(id), leader_epoch };
        let all: Vec<_> = loaded.offsets.into_values().collect();
        assert_eq!(all, [stored(5, Some(3)), stored(0, None), stored(i64::MAX, None)]);
        let one = BTreeSet::from([TopicPartition::new("t", 1), TopicPartition::new("u", 0)]);
        assert_eq!(store.load(Some(&one)).await.unwrap().offsets.len(), 1);
        let left: Vec<_> =
            fs::read_dir(path.parent().unwrap()).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "the file and its lock: {left:?}");
    }

    #[tokio::test]
    async fn nothing_moves_back_but_what_may() {
        let directory = tempfile::tempdir().unwrap();
        let store = OffsetsFile::new(directory.path().join("o")).unwrap();
        let ids = |id: u8| [("t".to_owned(), Uuid([id; 16]))].into();
        store.store(&StoreCommit { topic_ids: ids(1), ..commit(&[(0, 50), (1, 50), (2, 50)]) }).await.unwrap();
        let back = commit(&[(0, 10), (1, 10), (2, 60)]);
        let moved_back = [TopicPartition::new("t", 1)].into();
        let outcome = store.store(&StoreCommit { moved_back, ..back.clone() }).await.unwrap();
        assert_eq!(outcome.kept, [(TopicPartition::new("t", 0), 50)].into());
        assert_eq!(held(&store).await, [(0, 50), (1, 10), (2, 60)]);
        // What it holds is of a topic that was deleted; what is committed then, of one that was deleted since.
        let outcome = store.store(&StoreCommit { topic_ids: ids(2), ..commit(&[(0, 4)]) }).await.unwrap();
        assert_eq!(outcome.committed.len(), 1);
        let recreated = ["t".to_owned()].into();
        let outcome = store.store(&StoreCommit { recreated, ..commit(&[(0, 90)]) }).await.unwrap();
        assert_eq!((outcome.gone.len(), held(&store).await[0]), (1, (0, 4)));
        let error = store.store(&commit(&[(0, 91), (1, -1)])).await.unwrap_err();
        assert!(error.to_string().contains("-1 is not an offset"), "{error}");
        assert_eq!(held(&store).await[0], (0, 4));
    }

    #[tokio::test]
    async fn two_writers_notice_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("o");
        let (one, two) = (OffsetsFile::new(&path).unwrap(), OffsetsFile::new(&path).unwrap());
        one.store(&commit(&[(0, 5)])).await.unwrap();
        assert_eq!(condition(two.store(&commit(&[(0, 6)])).await), "OFFSETS_FILE_LOCKED");
        assert_eq!(held(&two).await, [(0, 5)]);
        one.store(&commit(&[(0, 7)])).await.unwrap();
        drop(one);
        assert_eq!(condition(two.store(&commit(&[(0, 6)])).await), "OFFSETS_FILE_CHANGED");
        // It knows now, and must not fall behind.
        let outcome = two.store(&commit(&[(0, 6)])).await.unwrap();
        assert_eq!(outcome.kept.len(), 1);
        assert_eq!(held(&two).await, [(0, 7)]);
    }

    #[tokio::test]
    async fn a_link_stands_for_the_file_it_leads_to() {
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("o"), directory.path().join("link"));
        std::os::unix::fs::symlink("o", &link).unwrap();
        let error = OffsetsFile::new(&link).unwrap_err();
        assert_eq!(error.condition(), "OFFSETS_FILE_IO", "it leads nowhere");
        let file = OffsetsFile::new(&path).unwrap();
        file.store(&commit(&[(0, 5)])).await.unwrap();
        let linked = OffsetsFile::new(&link).unwrap();
        assert_eq!(condition(linked.store(&commit(&[(0, 6)])).await), "OFFSETS_FILE_LOCKED");
        drop(file);
        linked.store(&commit(&[(0, 6)])).await.unwrap();
        assert!(link.is_symlink());
        assert_eq!(held(&OffsetsFile::new(&path).unwrap()).await, [(0, 6)]);
    }

    #[tokio::test]
    async fn a_damaged_file_is_never_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("o");
        let text = {
            let store = OffsetsFile::new(&path).unwrap();
            store.store(&commit(&[(0, 512), (1, 7)])).await.unwrap();
            fs::read_to_string(&path).unwrap()
        };
        let load = async |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let store = OffsetsFile::new(&path).unwrap();
            let loaded = store.load(None).await;
            if let Err(error) = &loaded {
                assert_eq!(condition(store.store(&commit(&[(0, 600)])).await), error.condition());
                assert_eq!(fs::read(&path).unwrap(), bytes, "it stays as it is");
            }
            loaded.map_err(|error| ottla_client::report(&error))
        };
        for length in 0..text.trim_end().len() {
            assert!(load(&text.as_bytes()[..length]).await.unwrap_err().contains("damaged"), "{length}");
        }
        assert!(load(text.replace("512", "513").as_bytes()).await.unwrap_err().contains("checksum"));
        assert!(load(text.replace("\"version\":1", "\"version\":2").as_bytes()).await.unwrap_err().contains("upgrade"));
        // Laid out anew it says the same.
        let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Value>(&text).unwrap()).unwrap();
        assert_eq!(load(pretty.as_bytes()).await.unwrap().offsets.len(), 2);
        // S-O01: a negative number is none.
        let mut rows = parse(text.as_bytes()).unwrap();
        rows.get_mut(&TopicPartition::new("t", 0)).unwrap().stored.offset = -1001;
        let loaded = load(write(&rows).as_bytes()).await.unwrap();
        assert_eq!((loaded.offsets.len(), loaded.not_offsets.into_values().collect::<Vec<_>>()), (1, vec![-1001]));
        let outcome = OffsetsFile::new(&path).unwrap().store(&commit(&[(0, 3)])).await.unwrap();
        assert_eq!((outcome.committed.len(), outcome.not_offsets.len()), (1, 1));
        for bad in ["", "/", "a/"] {
            assert!(OffsetsFile::new(bad).is_err(), "{bad}");
        }
    }
}

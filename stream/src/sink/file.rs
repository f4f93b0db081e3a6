//! A sink that writes one file of JSON lines for each batch: `batch-00000000000000000007.jsonl`.
//!
//! A file appears when its batch is finished, whole and durable; until then its lines are in files whose names begin with `.`, which the
//! next batch removes if this one comes to nothing. A batch that is run again replaces its own file, so nothing is ever there twice. A batch
//! that keeps no record writes no file, and leaves one that it wrote before alone: a replay reads the same records, and where some of them
//! have expired since, the file has what was there to read.
//!
//! In the file each partition's records are in the order of their offsets; those of different partitions mingle. Where a partition was split
//! into pieces that are read side by side, the later ones go into files of their own and are appended at the end.

use super::{JsonRow, RecordWriter, Sink};
use crate::{OffsetRange, SinkError, durable};
use ottla_client::TopicPartition;
use ottla_protocol::record::Record;
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::task::spawn_blocking;
use uuid::Uuid;

/// A writer hands its lines on when it has this much.
const BUFFER_BYTES: usize = 64 << 10;

/// Writes a file of JSON lines, as [`JsonRow`], for each batch into a directory. One query at a time may write into a directory.
///
/// Needs a tokio runtime; files are written on its threads for blocking calls.
#[derive(Clone, Debug)]
pub struct FileSink {
    directory: Arc<PathBuf>,
    include_headers: bool,
    /// The batch that was begun and is not finished.
    batch: Arc<Mutex<Option<Arc<BatchFile>>>>,
}

impl FileSink {
    /// Writes into `directory`, which is made when it is not there. Lines have no column `headers`.
    ///
    /// # Errors
    /// The directory can't be made.
    pub fn new(directory: impl Into<PathBuf>) -> Result<Self, SinkError> {
        let directory = directory.into();
        let failed = |error| SinkError::new(format!("making the directory {}", directory.display()), error);
        let directory = std::path::absolute(&directory).map_err(failed)?;
        durable::create_directory(&directory).map_err(failed)?;
        Ok(Self { directory: Arc::new(directory), include_headers: false, batch: Arc::default() })
    }

    /// The same sink, with the same batches and files, for a source whose lines have the column `headers`, or have not.
    #[must_use]
    pub fn with_headers(&self, include_headers: bool) -> Self {
        Self { include_headers, ..self.clone() }
    }
}

impl Sink for FileSink {
    type Writer = FileWriter;

    async fn begin_batch(&self, batch_id: i64) -> Result<(), SinkError> {
        let batch = Arc::new(BatchFile::new(self.directory.as_ref().clone(), batch_id));
        *self.batch.lock().unwrap_or_else(PoisonError::into_inner) = Some(batch);
        let directory = self.directory.clone();
        blocking(move || remove_leftovers(&directory)).await.map_err(|error| {
            SinkError::new(format!("removing unfinished files in {}", self.directory.display()), error)
        })
    }

    fn writer(&self, range: &OffsetRange) -> Result<FileWriter, SinkError> {
        let batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let batch = batch.ok_or_else(|| SinkError::new("opening a writer", io::Error::other("no batch was begun")))?;
        let place = batch.place(range);
        let rows = JsonRow::new(&range.topic, range.partition, self.include_headers);
        Ok(FileWriter { rows, buffer: Vec::new(), batch, place })
    }

    async fn finish_batch(&self, batch_id: i64) -> Result<(), SinkError> {
        let begun = self.batch.lock().unwrap_or_else(PoisonError::into_inner).take();
        let batch = begun.filter(|batch| batch.batch_id == batch_id).ok_or_else(|| {
            SinkError::new(format!("finishing batch {batch_id}"), io::Error::other("another batch, or none, was begun"))
        })?;
        let path = batch.path();
        blocking(move || batch.finish())
            .await
            .map_err(|error| SinkError::new(format!("finishing {}", path.display()), error))
    }
}

/// Where a writer's lines go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Into the batch's file.
    Output,
    /// Into a file of their own, which is appended in the end.
    Piece(usize),
}

/// One attempt to write a batch.
#[derive(Debug)]
struct BatchFile {
    directory: PathBuf,
    batch_id: i64,
    /// So that a write of an attempt that was given up never gets into a later one's files.
    attempt: Uuid,
    /// Made with the first line.
    output: Mutex<Option<File>>,
    pieces: Mutex<Pieces>,
}

#[derive(Debug, Default)]
struct Pieces {
    /// How far the newest range of each partition goes.
    until: BTreeMap<TopicPartition, i64>,
    count: usize,
}

impl BatchFile {
    fn new(directory: PathBuf, batch_id: i64) -> Self {
        let (attempt, output, pieces) = (Uuid::new_v4(), Mutex::default(), Mutex::default());
        Self { directory, batch_id, attempt, output, pieces }
    }

    /// The finished file.
    fn path(&self) -> PathBuf {
        self.directory.join(format!("batch-{:020}.jsonl", self.batch_id))
    }

    fn temporary(&self, place: Place) -> PathBuf {
        let piece = match place {
            Place::Output => String::new(),
            Place::Piece(number) => format!(".{number}"),
        };
        self.directory.join(format!(".batch-{:020}.jsonl.{}{piece}.tmp", self.batch_id, self.attempt))
    }

    /// A range that goes on after another one of its partition waits for it; any other has the file to itself as far as that partition goes.
    fn place(&self, range: &OffsetRange) -> Place {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let partition = TopicPartition::new(range.topic.clone(), range.partition);
        let before = pieces.until.insert(partition, range.until_offset);
        if before.is_none_or(|until| range.from_offset < until) {
            return Place::Output;
        }
        let number = pieces.count;
        pieces.count += 1;
        Place::Piece(number)
    }

    fn write(&self, place: Place, lines: &[u8]) -> io::Result<()> {
        let path = self.temporary(place);
        if place == Place::Output {
            let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
            return opened(&mut output, &path)?.write_all(lines);
        }
        // Opened anew each time: there may be more pieces than a process may have open files.
        OpenOptions::new().create(true).append(true).open(path)?.write_all(lines)
    }

    /// Appends the pieces and makes the file durable under its name.
    fn finish(&self) -> io::Result<()> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.pieces.lock().unwrap_or_else(PoisonError::into_inner).count;
        let temporary = self.temporary(Place::Output);
        // Numbers rise with the offsets of a partition.
        for number in 0..count {
            let path = self.temporary(Place::Piece(number));
            let mut piece = match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                piece => piece?,
            };
            io::copy(&mut piece, opened(&mut output, &temporary)?)?;
            fs::remove_file(path)?;
        }
        let Some(output) = output.take() else { return Ok(()) };
        output.sync_all()?;
        fs::rename(&temporary, self.path())?;
        durable::sync_parent(&temporary)
    }
}

fn opened<'a>(output: &'a mut Option<File>, path: &Path) -> io::Result<&'a mut File> {
    if output.is_none() {
        *output = Some(OpenOptions::new().write(true).create_new(true).open(path)?);
    }
    output.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Removes the files of batches that were not finished.
fn remove_leftovers(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(".batch-") && name.ends_with(".tmp")) {
            fs::remove_file(directory.join(name))?;
        }
    }
    Ok(())
}

/// Runs `work` where blocking does no harm.
async fn blocking(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}

/// The writer of [`FileSink`].
#[derive(Debug)]
pub struct FileWriter {
    rows: JsonRow,
    buffer: Vec<u8>,
    batch: Arc<BatchFile>,
    place: Place,
}

impl FileWriter {
    async fn hand_on(&mut self) -> Result<(), SinkError> {
        let (lines, batch, place) = (std::mem::take(&mut self.buffer), self.batch.clone(), self.place);
        blocking(move || batch.write(place, &lines))
            .await
            .map_err(|error| SinkError::new(format!("writing {}", self.batch.path().display()), error))
    }
}

impl RecordWriter for FileWriter {
    fn write(&mut self, record: &Record<'_>) {
        self.rows.write(&mut self.buffer, record);
    }

    async fn flush(&mut self) -> Result<(), SinkError> {
        if self.buffer.len() >= BUFFER_BYTES { self.hand_on().await } else { Ok(()) }
    }

    async fn finish(mut self) -> Result<(), SinkError> {
        if self.buffer.is_empty() { Ok(()) } else { self.hand_on().await }
    }
}

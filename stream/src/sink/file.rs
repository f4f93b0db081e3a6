//! A sink that writes one file of JSON lines for each batch: `batch-00000000000000000007.jsonl`.
//!
//! A file appears when its batch is finished, whole and durable; until then its lines are in files whose names begin with `.`, which the
//! next batch removes if this one comes to nothing. A batch that is run again replaces its own file, so nothing is ever there twice. A batch
//! that keeps no record has an empty file: whoever waits for a batch sees that it is there.
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
    /// The batch that was begun and is not finished.
    batch: Arc<Mutex<Option<Arc<BatchFile>>>>,
}

impl FileSink {
    /// Writes into `directory`, which is made when it is not there.
    ///
    /// # Errors
    /// The directory can't be made.
    pub fn new(directory: impl Into<PathBuf>) -> Result<Self, SinkError> {
        let directory = directory.into();
        let failed = |error| SinkError::new(format!("making the directory {}", directory.display()), error);
        let directory = std::path::absolute(&directory).map_err(failed)?;
        durable::create_directory(&directory).map_err(failed)?;
        Ok(Self { directory: Arc::new(directory), batch: Arc::default() })
    }
}

impl Sink for FileSink {
    type Writer = FileWriter;

    fn needs_exact_replay(&self) -> bool {
        true
    }

    async fn begin_batch(&self, batch_id: i64) -> Result<(), SinkError> {
        let batch = Arc::new(BatchFile::new(self.directory.as_ref().clone(), batch_id));
        *self.batch.lock().unwrap_or_else(PoisonError::into_inner) = Some(batch);
        let directory = self.directory.clone();
        blocking(move || remove_leftovers(&directory)).await.map_err(|error| {
            SinkError::new(format!("removing unfinished files in {}", self.directory.display()), error)
        })
    }

    fn writer(&self, range: &OffsetRange, include_headers: bool) -> Result<FileWriter, SinkError> {
        let batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let batch = batch.ok_or_else(|| SinkError::new("opening a writer", io::Error::other("no batch was begun")))?;
        let place = batch.place(range);
        let rows = JsonRow::new(&range.topic, range.partition, include_headers);
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

impl Drop for BatchFile {
    /// What was not finished is in nobody's way, and takes no room.
    fn drop(&mut self) {
        let count = self.pieces.get_mut().unwrap_or_else(PoisonError::into_inner).count;
        for place in (0..count).map(Place::Piece).chain([Place::Output]) {
            // Most are not there; one that can't be removed is removed when the next batch begins.
            let _ = fs::remove_file(self.temporary(place));
        }
    }
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
        opened(&mut output, &temporary)?.sync_all()?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_protocol::record::{Headers, TimestampType};
    use serde_json::Value;
    use std::ops::Range;

    fn range(topic: &str, partition: i32, offsets: Range<i64>) -> OffsetRange {
        OffsetRange { topic: topic.to_owned(), partition, from_offset: offsets.start, until_offset: offsets.end }
    }

    fn record(offset: i64, value: &[u8]) -> Record<'_> {
        Record {
            offset,
            timestamp: 0,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some(value),
            headers: Headers::default(),
        }
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Topic, partition and offset of each line.
    fn rows(directory: &Path, name: &str) -> Vec<(String, i64, i64)> {
        let text = fs::read_to_string(directory.join(name)).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "the last line is whole");
        text.lines()
            .map(|line| {
                let row: Value = serde_json::from_str(line).unwrap();
                let number = |name: &str| row[name].as_i64().unwrap();
                (row["topic"].as_str().unwrap().to_owned(), number("partition"), number("offset"))
            })
            .collect()
    }

    /// Writes these ranges side by side, the last one first, a buffer or more at a time.
    async fn write(sink: &FileSink, ranges: &[OffsetRange], include_headers: bool) -> Result<(), SinkError> {
        let value = vec![b'x'; BUFFER_BYTES / 2];
        let mut writers: Vec<_> = ranges.iter().map(|range| sink.writer(range, include_headers).unwrap()).collect();
        let longest = ranges.iter().map(OffsetRange::size).max().unwrap_or(0);
        for step in 0..longest {
            for (range, writer) in ranges.iter().zip(&mut writers).rev() {
                if range.from_offset + step < range.until_offset {
                    writer.write(&record(range.from_offset + step, &value));
                    writer.flush().await?;
                }
            }
        }
        for writer in writers {
            writer.finish().await?;
        }
        Ok(())
    }

    async fn run(sink: &FileSink, batch_id: i64, ranges: &[OffsetRange]) -> Result<(), SinkError> {
        sink.begin_batch(batch_id).await?;
        write(sink, ranges, false).await?;
        sink.finish_batch(batch_id).await
    }

    fn sink() -> (tempfile::TempDir, FileSink) {
        let directory = tempfile::tempdir().unwrap();
        let sink = FileSink::new(directory.path().join("a/b")).unwrap();
        (directory, sink)
    }

    #[tokio::test]
    async fn each_batch_has_its_file_which_appears_when_it_is_finished() {
        let (_directory, sink) = sink();
        run(&sink, 0, &[range("t", 0, 0..3)]).await.unwrap();
        sink.begin_batch(12).await.unwrap();
        write(&sink, &[range("t", 0, 3..9)], false).await.unwrap();
        let begun = names(&sink.directory);
        assert!(begun.len() == 2 && begun[0].starts_with(".batch-00000000000000000012.jsonl."), "{begun:?}");
        sink.finish_batch(12).await.unwrap();
        let finished = ["batch-00000000000000000000.jsonl", "batch-00000000000000000012.jsonl"];
        assert_eq!(names(&sink.directory), finished);
        let expected: Vec<_> = (3..9).map(|offset| ("t".to_owned(), 0, offset)).collect();
        assert_eq!(rows(&sink.directory, finished[1]), expected);
    }

    #[tokio::test]
    async fn pieces_of_a_partition_are_in_order_and_every_partition_is_whole() {
        let (_directory, sink) = sink();
        let mut ranges = Vec::new();
        for (topic, partitions) in [("t", 0..20), ("u", 0..3)] {
            for partition in partitions {
                // Some whole, others in pieces, with an empty one among them.
                let ends: &[i64] = if partition % 2 == 0 { &[0, 9] } else { &[0, 3, 3, 5, 6, 9] };
                ranges.extend(ends.windows(2).map(|ends| range(topic, partition, ends[0]..ends[1])));
            }
        }
        run(&sink, 1, &ranges).await.unwrap();
        assert_eq!(names(&sink.directory), ["batch-00000000000000000001.jsonl"]);
        let rows = rows(&sink.directory, "batch-00000000000000000001.jsonl");
        assert_eq!(rows.len(), 23 * 9);
        for (topic, partitions) in [("t", 0..20), ("u", 0..3)] {
            for partition in partitions {
                let of_partition = rows.iter().filter(|(t, p, _)| t == topic && *p == partition);
                let offsets: Vec<i64> = of_partition.map(|(_, _, offset)| *offset).collect();
                assert_eq!(offsets, (0..9).collect::<Vec<_>>(), "{topic}-{partition}");
            }
        }
    }

    #[tokio::test]
    async fn two_sources_may_read_one_partition_with_and_without_headers() {
        let (_directory, sink) = sink();
        sink.begin_batch(0).await.unwrap();
        for include_headers in [false, true] {
            write(&sink, &[range("t", 0, 0..2), range("t", 0, 2..4)], include_headers).await.unwrap();
        }
        sink.finish_batch(0).await.unwrap();
        let text = fs::read_to_string(sink.directory.join("batch-00000000000000000000.jsonl")).unwrap();
        let (with, without): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.contains("\"headers\":null"));
        for lines in [with, without] {
            let offset = |line: &str| serde_json::from_str::<Value>(line).unwrap()["offset"].as_i64().unwrap();
            assert_eq!(lines.into_iter().map(offset).collect::<Vec<_>>(), [0, 1, 2, 3]);
        }
    }

    #[tokio::test]
    async fn s_s17_a_replay_replaces_its_own_file() {
        let (_directory, sink) = sink();
        let name = "batch-00000000000000000004.jsonl";
        run(&sink, 4, &[range("t", 0, 0..5)]).await.unwrap();
        // Killed before the commit: another process runs the batch again.
        let again = FileSink::new(sink.directory.as_ref()).unwrap();
        run(&again, 4, &[range("t", 0, 0..5)]).await.unwrap();
        assert_eq!((names(&sink.directory), rows(&sink.directory, name).len()), (vec![name.to_owned()], 5));
        run(&again, 4, &[range("t", 0, 2..5)]).await.unwrap();
        assert_eq!(rows(&sink.directory, name).len(), 3, "what has expired since is no longer there to be read");
        // Nothing kept: the file says so.
        run(&again, 5, &[range("t", 0, 5..5)]).await.unwrap();
        run(&again, 6, &[]).await.unwrap();
        let empty = [5, 6].map(|batch_id| format!("batch-{batch_id:020}.jsonl"));
        assert_eq!(names(&sink.directory), [name, &empty[0], &empty[1]]);
        assert!(empty.iter().all(|name| rows(&sink.directory, name).is_empty()));
    }

    #[tokio::test]
    async fn what_an_aborted_batch_left_is_removed_and_never_mixed_in() {
        let (_directory, sink) = sink();
        for name in [".batch-00000000000000000003.jsonl.x.tmp", ".hidden", "notes.tmp"] {
            fs::write(sink.directory.join(name), "{").unwrap();
        }
        sink.begin_batch(3).await.unwrap();
        write(&sink, &[range("t", 0, 0..3), range("t", 0, 3..6)], false).await.unwrap();
        let mut late = sink.writer(&range("t", 1, 0..9), false).unwrap();
        let mut late_piece = sink.writer(&range("t", 1, 9..19), false).unwrap();
        assert_eq!(names(&sink.directory).len(), 4, "two of the batch, two of others");
        sink.begin_batch(3).await.unwrap();
        assert_eq!(names(&sink.directory), [".hidden", "notes.tmp"], "others' files are left alone");
        write(&sink, &[range("t", 0, 0..3), range("t", 0, 3..6)], false).await.unwrap();
        // Writers of the attempt before, whose tasks end only now.
        for late in [&mut late, &mut late_piece] {
            late.write(&record(7, b"late"));
            late.hand_on().await.unwrap();
        }
        sink.finish_batch(3).await.unwrap();
        let rows = rows(&sink.directory, "batch-00000000000000000003.jsonl");
        assert_eq!(rows.iter().map(|(_, _, offset)| *offset).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        sink.begin_batch(4).await.unwrap();
        assert_eq!(names(&sink.directory), [".hidden", "batch-00000000000000000003.jsonl", "notes.tmp"]);
    }

    #[tokio::test]
    async fn what_the_file_system_refuses_is_an_error_and_the_next_attempt_may_succeed() {
        let (directory, sink) = sink();
        // As a full disk: the write fails under way.
        sink.begin_batch(0).await.unwrap();
        fs::remove_dir_all(sink.directory.as_ref()).unwrap();
        let error = write(&sink, &[range("t", 0, 0..3)], false).await.unwrap_err();
        assert!(error.what.contains("batch-00000000000000000000.jsonl"), "{error}");
        assert_eq!(error.source.kind(), io::ErrorKind::NotFound);
        fs::create_dir(sink.directory.as_ref()).unwrap();
        // A name that can't be had: the batch is not finished, and its lines are not there.
        let blocked = sink.directory.join("batch-00000000000000000000.jsonl");
        fs::create_dir_all(blocked.join("x")).unwrap();
        let error = run(&sink, 0, &[range("t", 0, 0..3)]).await.unwrap_err();
        assert!(error.what.contains("finishing"), "{error}");
        fs::remove_dir_all(&blocked).unwrap();
        run(&sink, 0, &[range("t", 0, 0..3)]).await.unwrap();
        assert_eq!(names(&sink.directory), ["batch-00000000000000000000.jsonl"]);
        fs::write(directory.path().join("file"), "").unwrap();
        assert!(FileSink::new(directory.path().join("file")).is_err());
    }

    #[tokio::test]
    async fn a_batch_that_was_not_begun_is_an_error() {
        let (_directory, sink) = sink();
        assert!(sink.writer(&range("t", 0, 0..1), false).is_err());
        assert!(sink.finish_batch(0).await.is_err());
        sink.begin_batch(0).await.unwrap();
        assert!(sink.finish_batch(1).await.is_err());
    }
}

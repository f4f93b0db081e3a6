//! The process that is killed: one query over whatever is there, whose function, sink and offset store can kill their own process between
//! two steps of a batch. It is this test binary, started once more.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::{process, thread};

use ottla_stream::{
    BoxError, Client, CommitOutcome, FileSink, GroupStore, JsonRow, MicroBatch, OffsetRange, OffsetStore,
    QueryListener, Record, RecordWriter, Sink, SinkError, StoreCommit, StoreFuture, StoredOffsets, StreamOptions,
    StreamingQuery, TopicPartition, Trigger,
};
use serde::{Deserialize, Serialize};
use support::Signal;

use crate::common::block_on;

/// Holds a [`Life`] as JSON.
pub(super) const VARIABLE: &str = "OTTLA_CRASH_CHILD";
/// The test to run in the child.
pub(super) const TEST: &str = "crash::child::a_life_until_it_is_killed";

/// Between two steps, in their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(super) enum Point {
    /// `offsets/N` is there, and nothing was read.
    BatchBegun,
    /// A record was read, its batch not yet.
    Reading,
    /// All is read, the output is not there.
    BatchRead,
    /// The output is there, `commits/N` is not.
    OutputWritten,
    /// `commits/N` is there, the group has not heard of it.
    Committed,
    /// The group has it, the next batch is not planned.
    Stored,
}

/// One run of the query.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Life {
    pub(super) folder: PathBuf,
    pub(super) bootstrap: String,
    pub(super) topic: String,
    pub(super) group: String,
    /// `maxOffsetsPerTrigger`.
    pub(super) limit: Option<u32>,
    /// Into a [`FileSink`], which replaces what a batch wrote before; else by a function that writes a batch only once.
    pub(super) file_sink: bool,
    /// When it makes a batch. Only [`Trigger::AvailableNow`](ottla_stream::Trigger::AvailableNow) ends without being killed.
    pub(super) trigger: String,
    /// Where it kills itself, and the how-manieth time it comes there, from 1.
    pub(super) kill: Option<(Point, i64)>,
}

#[test]
fn a_life_until_it_is_killed() {
    // Started by `crash`; otherwise there is nothing to do.
    let Ok(life) = std::env::var(VARIABLE) else { return };
    let life: Life = serde_json::from_str(&life).expect("what the test wrote");
    // The test holds the other end: this process ends with it.
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(4);
    });
    block_on(life.run()).unwrap_or_else(|error| panic!("{}", ottla_client::report(error.as_ref())));
}

impl Life {
    async fn run(self) -> Result<(), BoxError> {
        let mut pairs = vec![
            ("kafka.bootstrap.servers", self.bootstrap.clone()),
            ("subscribe", self.topic.clone()),
            ("startingOffsets", "earliest".to_owned()),
            ("kafka.isolation.level", "read_committed".to_owned()),
            // Ranges are split.
            ("minPartitions", "8".to_owned()),
        ];
        pairs.extend(self.limit.map(|limit| ("maxOffsetsPerTrigger", limit.to_string())));
        let options = StreamOptions::stream_from_pairs(pairs)?;
        let log = Arc::new(Log::open(&self.folder, self.kill)?);
        let checkpoint = self.folder.join("checkpoint");
        let trigger: Trigger = self.trigger.parse()?;
        let query = StreamingQuery::builder([options.clone()])
            .checkpoint(checkpoint.to_str().ok_or("a path in UTF-8")?)
            .trigger(trigger)
            .listener(Warnings(log.clone()));
        let query = match self.kill {
            Some((Point::Committed | Point::Stored, _)) => {
                let client = Client::connect(options.client.clone()).await?;
                query.offset_store(
                    0,
                    Arc::new(Watched { inner: GroupStore::new(&client, self.group), log: log.clone() }),
                )
            }
            _ => query.commit_group(self.group),
        };
        let output = self.folder.join("output");
        let running = if self.file_sink {
            query.sink(Watched { inner: FileSink::new(output)?, log }, "files").start()?
        } else {
            fs::create_dir_all(&output)?;
            let function = move |batch, batch_id| write_once(batch, batch_id, output.clone(), log.clone());
            query.foreach_batch(function).start()?
        };
        Ok(running.await_termination().await?)
    }
}

/// Remembers by its files which batches it has written.
async fn write_once(batch: MicroBatch, batch_id: i64, output: PathBuf, log: Arc<Log>) -> Result<(), BoxError> {
    log.say(&format!("begin {batch_id}"));
    batch.offset_ranges().iter().for_each(|range| log.range(range));
    log.at(Point::BatchBegun);
    let path = output.join(file_name(batch_id));
    if !path.try_exists()? {
        let mut rows = Vec::new();
        for partition in batch.partitions() {
            let row = JsonRow::new(&partition.topic, partition.partition, false);
            let part = batch.partition(&partition).ok_or("a partition of the batch")?;
            part.for_each(|record| {
                log.at(Point::Reading);
                row.write(&mut rows, record);
            })
            .await?;
        }
        log.at(Point::BatchRead);
        let temporary = output.join(format!(".{}.{}.tmp", file_name(batch_id), process::id()));
        let mut file = File::create(&temporary)?;
        // In two halves, so that there is a time at which it is half there.
        let (first, second) = rows.split_at(rows.len() / 2);
        for half in [first, second] {
            file.write_all(half)?;
            file.sync_all()?;
        }
        fs::rename(&temporary, &path)?;
    }
    log.say(&format!("done {batch_id}"));
    log.at(Point::OutputWritten);
    Ok(())
}

/// As [`FileSink`] calls a batch's file.
pub(super) fn file_name(batch_id: i64) -> String {
    format!("batch-{batch_id:020}.jsonl")
}

/// What lives did, a line a step; and where this one ends.
#[derive(Debug)]
struct Log {
    file: File,
    kill: Option<Point>,
    left: AtomicI64,
}

impl Log {
    fn open(folder: &Path, kill: Option<(Point, i64)>) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(folder.join("log"))?;
        let (kill, left) = kill.map_or((None, 0), |(point, times)| (Some(point), times));
        let log = Self { file, kill, left: AtomicI64::new(left) };
        log.say("life");
        Ok(log)
    }

    /// A line goes out in one write, so that it is there whole or not at all.
    fn say(&self, line: &str) {
        (&self.file).write_all(format!("{line}\n").as_bytes()).expect("the log can be written");
    }

    fn range(&self, range: &OffsetRange) {
        self.say(&format!("range {} {} {}", range.partition, range.from_offset, range.until_offset));
    }

    /// Dies if this is where.
    fn at(&self, point: Point) {
        if self.kill == Some(point) && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            Signal::Kill.send(process::id()).expect("a signal to itself");
            loop {
                thread::park();
            }
        }
    }
}

/// Nothing that a kill leaves is worth a warning.
struct Warnings(Arc<Log>);

impl QueryListener for Warnings {
    fn warning(&self, warning: &str) {
        self.0.say(&format!("warning {warning}"));
    }
}

/// A sink, its writers or a store, with points before and after what it does.
#[derive(Debug)]
struct Watched<T> {
    inner: T,
    log: Arc<Log>,
}

impl Sink for Watched<FileSink> {
    type Writer = Watched<<FileSink as Sink>::Writer>;

    async fn begin_batch(&self, batch_id: i64) -> Result<(), SinkError> {
        self.inner.begin_batch(batch_id).await?;
        self.log.say(&format!("begin {batch_id}"));
        self.log.at(Point::BatchBegun);
        Ok(())
    }

    fn writer(&self, range: &OffsetRange, include_headers: bool) -> Result<Self::Writer, SinkError> {
        self.log.range(range);
        Ok(Watched { inner: self.inner.writer(range, include_headers)?, log: self.log.clone() })
    }

    async fn finish_batch(&self, batch_id: i64) -> Result<(), SinkError> {
        self.log.at(Point::BatchRead);
        self.inner.finish_batch(batch_id).await?;
        self.log.say(&format!("done {batch_id}"));
        self.log.at(Point::OutputWritten);
        Ok(())
    }
}

impl<W: RecordWriter + Sync> RecordWriter for Watched<W> {
    fn write(&mut self, record: &Record<'_>) {
        self.log.at(Point::Reading);
        self.inner.write(record);
    }

    async fn flush(&mut self) -> Result<(), SinkError> {
        self.inner.flush().await
    }

    async fn finish(self) -> Result<(), SinkError> {
        self.inner.finish().await
    }
}

impl OffsetStore for Watched<GroupStore> {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn load<'a>(&'a self, partitions: Option<&'a BTreeSet<TopicPartition>>) -> StoreFuture<'a, StoredOffsets> {
        self.inner.load(partitions)
    }

    fn store<'a>(&'a self, commit: &'a StoreCommit) -> StoreFuture<'a, CommitOutcome> {
        Box::pin(async move {
            self.log.at(Point::Committed);
            let outcome = self.inner.store(commit).await;
            self.log.at(Point::Stored);
            outcome
        })
    }
}

//! Reading the ranges of a batch: several decoders side by side, each range in offset order, and every record to the writer of its range.

mod prefilter;
mod range;
mod wanted;

pub use range::RangeCounts;

use crate::{
    DataLoss, Error, Filter, LossKind, LostRange, OffsetRange, ReadError, ReadErrorKind, RecordWriter, Result, Sink,
};
use ottla_client::{Client, CompletedFetch, FetchError, FetchErrorKind, FetchTarget, Fetcher, TopicPartition};
use ottla_protocol::{
    Uuid,
    compression::Decompressor,
    record::{AbortedTransactions, RecordBatches},
};
use prefilter::Prefilter;
use range::{RangeReader, Tools};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};
use tokio::task::JoinSet;
use wanted::Wanted;

/// A decoder lets others of its thread go on after so many bytes: sockets, timers, the user's Ctrl-C.
const YIELD_BYTES: usize = 4 << 20;

/// How a batch is read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadSettings {
    /// Whether records that are gone stop the read.
    pub fail_on_data_loss: bool,
    /// How many pieces are decoded at the same time. At least 1.
    pub parallelism: usize,
    /// The read ends after so many kept records; ranges are then read one after the other.
    pub records_max: Option<u64>,
}

impl Default for ReadSettings {
    fn default() -> Self {
        let parallelism = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { fail_on_data_loss: true, parallelism, records_max: None }
    }
}

/// A range to read, with what planning knew of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PlannedRange {
    pub(crate) range: OffsetRange,
    pub(crate) topic_id: Option<Uuid>,
    /// How far data was there when it was planned, exclusive.
    pub(crate) known_end: i64,
    /// The leader epoch at the log's end then, if the broker said.
    pub(crate) end_epoch: Option<i32>,
}

/// What became of a range.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RangeOutcome {
    /// The range as it was planned.
    pub range: OffsetRange,
    /// The next offset after what was looked at; `until_offset` when the range was read to its end.
    pub position: i64,
    /// The leader epoch of the last batch read, if it had one.
    pub leader_epoch: Option<i32>,
    /// What was seen.
    pub counts: RangeCounts,
    /// Whether the read got as far as to begin with it.
    pub reached: bool,
}

/// How far a read is, for whoever shows it. Updated for each piece, never for a record.
#[derive(Debug, Default)]
pub struct ReadProgress {
    offsets: AtomicU64,
    records: AtomicU64,
    hits: AtomicU64,
}

impl ReadProgress {
    /// A progress at zero, to be shared with the read.
    pub fn shared() -> Arc<Self> {
        Arc::default()
    }

    /// Offsets that are done, of all ranges together.
    pub fn offsets(&self) -> u64 {
        self.offsets.load(Ordering::Relaxed)
    }

    /// Records looked at.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Records kept.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    fn skip(&self, offsets: i64) {
        self.offsets.fetch_add(u64::try_from(offsets).unwrap_or(0), Ordering::Relaxed);
    }

    fn add(&self, offsets: i64, before: RangeCounts, after: RangeCounts) {
        self.offsets.fetch_add(u64::try_from(offsets).unwrap_or(0), Ordering::Relaxed);
        self.records.fetch_add(after.records - before.records, Ordering::Relaxed);
        self.hits.fetch_add(after.hits - before.hits, Ordering::Relaxed);
    }
}

/// Everything that reading a batch gave.
pub(crate) struct ReadOutcome {
    pub(crate) ranges: Vec<RangeOutcome>,
    pub(crate) lost: Vec<LostRange>,
}

/// Reads `ranges` and writes what `filter` keeps to `sink`, whose batch the caller finishes.
pub(crate) async fn read_ranges<S: Sink>(
    client: &Client,
    ranges: &[PlannedRange],
    filter: &Filter,
    sink: &S,
    settings: &ReadSettings,
    progress: &Arc<ReadProgress>,
) -> Result<ReadOutcome> {
    let mut outcome = ReadOutcome { ranges: Vec::with_capacity(ranges.len()), lost: Vec::new() };
    let mut left = settings.records_max;
    // One group for all, or one for each range where the order decides which records are the first.
    let group_size = if left.is_some() { 1 } else { ranges.len().max(1) };
    for group in ranges.chunks(group_size) {
        if left == Some(0) {
            let skipped = |planned: &PlannedRange| RangeOutcome {
                range: planned.range.clone(),
                position: planned.range.from_offset,
                leader_epoch: None,
                counts: RangeCounts::default(),
                reached: false,
            };
            outcome.ranges.extend(group.iter().map(skipped));
            continue;
        }
        let wanted = wanted::wanted(client, group, filter).await;
        let read = ReadGroup::start(client, group, wanted, sink, settings, left.unwrap_or(u64::MAX), progress)?;
        for (reader, planned) in read.run(settings.parallelism).await?.into_iter().zip(group) {
            left = left.map(|left| left.saturating_sub(reader.counts.hits));
            let position = reader.end_position();
            // The batches at the end were not fetched where the filter can't keep anything of them. What is committed is the same: the
            // epoch at the log's end is the one of its last batch.
            let all_read = reader.until >= planned.range.until_offset && reader.leader_epoch.is_some();
            let leader_epoch = match position >= planned.range.until_offset && !planned.range.is_empty() && !all_read {
                true => planned.end_epoch,
                false => reader.leader_epoch,
            };
            outcome.lost.extend(reader.lost);
            outcome.ranges.push(RangeOutcome {
                position,
                range: reader.range,
                leader_epoch,
                counts: reader.counts,
                reached: true,
            });
        }
    }
    Ok(outcome)
}

/// A range with its writer: with a decoder, or in its slot between two pieces.
struct Slot<W> {
    reader: RangeReader,
    writer: W,
}

/// Ranges that are read together.
struct ReadGroup<W> {
    fetcher: Fetcher,
    slots: Vec<Mutex<Option<Slot<W>>>>,
    fail_on_data_loss: bool,
    progress: Arc<ReadProgress>,
}

impl<W: RecordWriter> ReadGroup<W> {
    fn start<S: Sink<Writer = W>>(
        client: &Client,
        ranges: &[PlannedRange],
        wanted: Vec<Wanted>,
        sink: &S,
        settings: &ReadSettings,
        hits_max: u64,
        progress: &Arc<ReadProgress>,
    ) -> Result<Self> {
        let config = client.config();
        let mut slots = Vec::with_capacity(ranges.len());
        let mut targets = Vec::with_capacity(ranges.len());
        for (planned, wanted) in ranges.iter().zip(wanted) {
            let range = planned.range.clone();
            targets.push(FetchTarget {
                partition: TopicPartition::new(range.topic.clone(), range.partition),
                topic_id: planned.topic_id,
                from_offset: wanted.offsets.start,
                until_offset: wanted.offsets.end,
                known_end: planned.known_end,
            });
            progress.skip(range.size() - (wanted.offsets.end - wanted.offsets.start));
            let writer = sink.writer(&range)?;
            let reader = RangeReader {
                position: wanted.offsets.start,
                until: wanted.offsets.end,
                range,
                leader_epoch: None,
                counts: RangeCounts::default(),
                prefilter: Prefilter::new(&wanted.filter),
                timestamp_min: wanted.filter.timestamp_lower_bound(),
                filter: wanted.filter,
                hits_max,
                lost: Vec::new(),
                isolation: config.isolation_level,
                check_crcs: config.check_crcs,
            };
            slots.push(Mutex::new(Some(Slot { reader, writer })));
        }
        let fetcher = Fetcher::start(client, targets);
        Ok(Self { fetcher, slots, fail_on_data_loss: settings.fail_on_data_loss, progress: progress.clone() })
    }

    /// Decodes until all ranges are done; the first failure ends the others. Dropping the future ends them too.
    async fn run(self, parallelism: usize) -> Result<Vec<RangeReader>> {
        let group = Arc::new(self);
        let mut decoders = JoinSet::new();
        for _ in 0..parallelism.clamp(1, group.slots.len().max(1)) {
            let group = group.clone();
            decoders.spawn(async move { group.decode().await });
        }
        while let Some(ended) = decoders.join_next().await {
            match ended {
                Ok(result) => result?,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => {}
            }
        }
        let mut readers = Vec::with_capacity(group.slots.len());
        for index in 0..group.slots.len() {
            // Nothing may be committed for a range that ended early, whatever the reason.
            let Some(slot) = group.take(index) else { return Err(Error::Unfinished { range: None }) };
            if !slot.reader.is_done() {
                return Err(Error::Unfinished { range: Some(slot.reader.range) });
            }
            slot.writer.finish().await?;
            readers.push(slot.reader);
        }
        Ok(readers)
    }

    /// One decoder: takes whatever piece comes next, of any range.
    async fn decode(&self) -> Result<()> {
        let mut tools = Tools { decompressor: Decompressor::new(), aborted: AbortedTransactions::default() };
        while let Some(fetched) = self.fetcher.next().await {
            match fetched {
                Ok(fetch) => self.piece(&fetch, &mut tools).await?,
                Err(error) => self.fetch_failed(error)?,
            }
        }
        Ok(())
    }

    async fn piece(&self, fetch: &CompletedFetch, tools: &mut Tools) -> Result<()> {
        let index = fetch.target();
        // Nobody else has it: the fetcher hands out a range's next piece only when this one is dropped.
        let Some(mut slot) = self.take(index) else { return Ok(()) };
        let reader = &mut slot.reader;
        let (position, counts) = (reader.position, reader.counts);
        reader.note_loss(fetch);
        self.check_loss(reader)?;
        reader.begin(fetch.aborted_transactions(), tools);
        let mut batches = RecordBatches::new(fetch.records());
        let mut bytes_since_yield = 0;
        let result = loop {
            let batch = slot.reader.next_batch(&mut batches, tools, &mut slot.writer);
            // After each batch, so that what waits to be written is bounded by a batch; what came before a fault is good, and goes out.
            slot.writer.flush().await?;
            match batch {
                Ok(Some(bytes)) => bytes_since_yield += bytes,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
            if bytes_since_yield >= YIELD_BYTES {
                bytes_since_yield = 0;
                tokio::task::yield_now().await;
            }
        };
        let reader = &slot.reader;
        self.progress.add(reader.position - position, counts, reader.counts);
        if reader.is_done() {
            self.fetcher.finish(index);
        }
        result.map_err(|source| read_error(reader, source))?;
        self.put(index, slot);
        Ok(())
    }

    fn fetch_failed(&self, error: FetchError) -> Result<()> {
        let Some(mut slot) = self.take(error.target) else { return Ok(()) };
        let reader = &mut slot.reader;
        let position = reader.position;
        match error.source {
            FetchErrorKind::OutOfRange { log_start_offset, log_end_offset } => {
                reader.out_of_range(log_start_offset, log_end_offset);
                self.check_loss(reader)?;
                if reader.is_done() {
                    self.fetcher.finish(error.target);
                } else {
                    self.fetcher.seek(error.target, reader.position);
                }
            }
            FetchErrorKind::TopicRecreated => {
                reader.lose_rest(LossKind::Recreated, -1, -1);
                self.check_loss(reader)?;
            }
            source => return Err(read_error(reader, source.into()).into()),
        }
        self.progress.add(reader.position - position, reader.counts, reader.counts);
        self.put(error.target, slot);
        Ok(())
    }

    fn check_loss(&self, reader: &RangeReader) -> Result<()> {
        if self.fail_on_data_loss && !reader.lost.is_empty() {
            return Err(DataLoss { lost: reader.lost.clone() }.into());
        }
        Ok(())
    }

    fn take(&self, index: usize) -> Option<Slot<W>> {
        self.slots.get(index)?.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, index: usize, slot: Slot<W>) {
        if let Some(place) = self.slots.get(index) {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(slot);
        }
    }
}

fn read_error(reader: &RangeReader, source: ReadErrorKind) -> ReadError {
    let partition = TopicPartition::new(reader.range.topic.clone(), reader.range.partition);
    ReadError { partition, offset: reader.position, source }
}

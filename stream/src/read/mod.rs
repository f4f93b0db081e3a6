//! Reading the ranges of a batch, each in offset order, every record to the writer of its range.
//!
//! [`wanted`] narrows the ranges by what the filter says before anything is read; [`crew`] spreads them over threads, each of which runs
//! [`worker`]; [`range`] is the loop over batches and records, [`prefilter`] the search that goes before it.

mod batch_reader;
mod crew;
mod prefilter;
mod range;
mod tools;
mod wanted;
mod worker;

pub use batch_reader::{BatchReader, KeptBatch, ReadBatch};
pub use range::RangeCounts;

use crate::{Filter, LostRange, OffsetRange, Result, Sink};
use crew::Crew;
use ottla_client::Client;
use ottla_protocol::Uuid;
use prefilter::Prefilter;
use range::RangeReader;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use wanted::Wanted;
use worker::Slot;

/// How a batch is read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadSettings {
    /// Whether records that are gone stop the read.
    pub fail_on_data_loss: bool,
    /// `includeHeaders`: whether the rows of sinks have the column `headers`.
    pub include_headers: bool,
    /// How many threads read at most, the caller's own counted. At least 1. Another one starts when those before it are busy, and with
    /// ranges to share.
    pub parallelism: usize,
    /// The read ends after so many kept records; ranges are then read one after the other. For
    /// [`PlannedBatch::process`](crate::PlannedBatch::process), as `parallelism` is.
    pub records_max: Option<u64>,
}

impl Default for ReadSettings {
    fn default() -> Self {
        let parallelism = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { fail_on_data_loss: true, include_headers: false, parallelism, records_max: None }
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

impl ReadOutcome {
    fn new(ranges: usize) -> Self {
        Self { ranges: Vec::with_capacity(ranges), lost: Vec::new() }
    }

    /// Adds a range that was begun.
    fn add(&mut self, reader: RangeReader, planned: &PlannedRange) {
        let position = reader.end_position();
        // The batches at the end were not fetched where the filter can't keep anything of them. What is committed is the same: the
        // epoch at the log's end is the one of its last batch.
        let all_read = reader.until >= planned.range.until_offset && reader.leader_epoch.is_some();
        let leader_epoch = match position >= planned.range.until_offset && !planned.range.is_empty() && !all_read {
            true => planned.end_epoch,
            false => reader.leader_epoch,
        };
        self.lost.extend(reader.lost);
        let (range, counts) = (reader.range, reader.counts);
        self.ranges.push(RangeOutcome { range, position, leader_epoch, counts, reached: true });
    }
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
    let mut outcome = ReadOutcome::new(ranges.len());
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
        let readers = readers(client, group, wanted, left.unwrap_or(u64::MAX), progress);
        for reader in &readers {
            worker::check_loss(settings.fail_on_data_loss, reader)?;
        }
        let mut slots = Vec::with_capacity(readers.len());
        for (index, reader) in readers.into_iter().enumerate() {
            let writer = sink.writer(&reader.range, settings.include_headers)?;
            slots.push(Slot { index, reader, writer });
        }
        let readers = Crew::new(settings, group.len(), progress).read(client, slots).await?;
        for (reader, planned) in readers.into_iter().zip(group) {
            left = left.map(|left| left.saturating_sub(reader.counts.hits));
            outcome.add(reader, planned);
        }
    }
    Ok(outcome)
}

/// A reader for each range.
fn readers(
    client: &Client,
    ranges: &[PlannedRange],
    wanted: Vec<Wanted>,
    hits_max: u64,
    progress: &ReadProgress,
) -> Vec<RangeReader> {
    let config = client.config();
    let mut readers = Vec::with_capacity(ranges.len());
    for (planned, wanted) in ranges.iter().zip(wanted) {
        progress.skip(planned.range.size() - (wanted.offsets.end - wanted.offsets.start));
        let mut reader = RangeReader {
            position: planned.range.from_offset,
            until: wanted.offsets.end,
            range: planned.range.clone(),
            topic_id: planned.topic_id,
            known_end: planned.known_end,
            leader_epoch: None,
            counts: RangeCounts::default(),
            prefilter: Prefilter::new(&wanted.filter),
            keeps_much: false,
            timestamp_min: wanted.filter.timestamp_lower_bound(),
            filter: wanted.filter,
            hits_max,
            lost: Vec::new(),
            isolation: config.isolation_level,
            check_crcs: config.check_crcs,
        };
        if let Some(log_start_offset) = wanted.log_start_offset {
            reader.begins_at(log_start_offset, planned.known_end);
        }
        reader.position = reader.position.max(wanted.offsets.start);
        readers.push(reader);
    }
    readers
}

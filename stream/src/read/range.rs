//! The hot loop: one fetched piece of one range, batch by batch and record by record.
//!
//! Nothing here waits, allocates, locks or logs for a record. A batch's header decides first: control batches and aborted transactions are
//! never delivered, and the position moves by the header's next offset, since compaction, markers and aborted records leave gaps.

use crate::{BoundFilter, LossKind, LostRange, OffsetRange, ReadErrorKind, RecordWriter};
use ottla_client::{CompletedFetch, IsolationLevel};
use ottla_protocol::{
    compression::Decompressor,
    record::{AbortedTransactions, RecordBatch, RecordBatches, Visibility},
};

/// What was seen of a range so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RangeCounts {
    /// Records looked at: those the filter saw.
    pub records: u64,
    /// Bytes of their values.
    pub value_bytes: u64,
    /// Records the filter kept.
    pub hits: u64,
}

/// A decoder's tools, kept from piece to piece so that they are made once.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) decompressor: Decompressor,
    pub(super) aborted: AbortedTransactions,
}

/// A range that is being read.
#[derive(Debug)]
pub(super) struct RangeReader {
    pub(super) range: OffsetRange,
    /// The next offset to read; everything before it in the range is done.
    pub(super) position: i64,
    /// The leader epoch of the last batch read, if it had one.
    pub(super) leader_epoch: Option<i32>,
    pub(super) counts: RangeCounts,
    pub(super) filter: BoundFilter,
    /// After so many hits the range ends.
    pub(super) hits_max: u64,
    pub(super) lost: Vec<LostRange>,
    pub(super) isolation: IsolationLevel,
    pub(super) check_crcs: bool,
}

impl RangeReader {
    /// Whether the range is done.
    pub(super) fn is_done(&self) -> bool {
        self.position >= self.range.until_offset || self.counts.hits >= self.hits_max
    }

    /// Reads one piece.
    pub(super) fn read<W: RecordWriter>(
        &mut self,
        fetch: &CompletedFetch,
        tools: &mut Tools,
        writer: &mut W,
    ) -> Result<(), ReadErrorKind> {
        tools.aborted.reset(
            match self.isolation {
                IsolationLevel::ReadUncommitted => &[][..],
                IsolationLevel::ReadCommitted => fetch.aborted_transactions(),
            }
            .iter()
            .map(|aborted| (aborted.producer_id, aborted.first_offset)),
        );
        for batch in RecordBatches::new(fetch.records()) {
            let batch = batch?;
            if self.check_crcs {
                batch.check_crc()?;
            }
            // Every batch, before any reason to skip it: a marker ends its producer's aborted records.
            let visibility = tools.aborted.observe(&batch, &mut tools.decompressor)?;
            let header = batch.header();
            if visibility == Visibility::Deliver && header.next_offset() > self.position {
                self.read_batch(&batch, &mut tools.decompressor, writer)?;
            }
            if self.counts.hits >= self.hits_max {
                return Ok(());
            }
            self.position = self.position.max(header.next_offset().min(self.range.until_offset));
            if header.partition_leader_epoch >= 0 {
                self.leader_epoch = Some(header.partition_leader_epoch);
            }
            if self.position >= self.range.until_offset {
                break;
            }
        }
        Ok(())
    }

    fn read_batch<W: RecordWriter>(
        &mut self,
        batch: &RecordBatch<'_>,
        decompressor: &mut Decompressor,
        writer: &mut W,
    ) -> Result<(), ReadErrorKind> {
        let (from, until) = (self.position, self.range.until_offset);
        let mut counts = self.counts;
        for record in batch.records(decompressor)? {
            let record = record.map_err(|error| batch.error(error))?;
            if record.offset < from || record.offset >= until {
                continue;
            }
            counts.records += 1;
            counts.value_bytes += record.value.map_or(0, |value| value.len() as u64);
            if self.filter.keep(&record) {
                counts.hits += 1;
                writer.write(&record);
                if counts.hits >= self.hits_max {
                    self.position = record.offset + 1;
                    break;
                }
            }
        }
        self.counts = counts;
        Ok(())
    }

    /// A log start beyond the position means that what lies between is gone, unless it came all the same: the log may have been cut while
    /// the answer was written. Gaps above the log start are compaction or markers.
    pub(super) fn note_loss(&mut self, fetch: &CompletedFetch) {
        let first = RecordBatches::new(fetch.records()).next();
        let first_offset = first.and_then(Result::ok).map_or(i64::MAX, |batch| batch.header().base_offset);
        let log_start_offset = fetch.log_start_offset().min(first_offset);
        if log_start_offset > self.position {
            self.lose(LossKind::OutOfRange, log_start_offset, fetch.high_watermark());
        }
    }

    /// The position lies outside the log. Before its start: what lies between is gone, and the range goes on at the start. Beyond its
    /// end, which was there when the range was planned: the rest is gone.
    pub(super) fn out_of_range(&mut self, log_start_offset: i64, log_end_offset: i64) {
        if self.position < log_start_offset {
            self.lose(LossKind::OutOfRange, log_start_offset, log_end_offset);
        } else {
            self.lose_rest(LossKind::OutOfRange, log_start_offset, log_end_offset);
        }
    }

    /// Nothing more of the range can be had.
    pub(super) fn lose_rest(&mut self, kind: LossKind, log_start_offset: i64, log_end_offset: i64) {
        self.lost_until(self.range.until_offset, kind, log_start_offset, log_end_offset);
    }

    /// The range up to `log_start_offset` is gone; it goes on there.
    fn lose(&mut self, kind: LossKind, log_start_offset: i64, log_end_offset: i64) {
        self.lost_until(log_start_offset.min(self.range.until_offset), kind, log_start_offset, log_end_offset);
    }

    fn lost_until(&mut self, until_offset: i64, kind: LossKind, log_start_offset: i64, log_end_offset: i64) {
        if until_offset > self.position {
            let range = OffsetRange { from_offset: self.position, until_offset, ..self.range.clone() };
            self.lost.push(LostRange { range, kind, log_start_offset, log_end_offset });
            self.position = until_offset;
        }
    }
}

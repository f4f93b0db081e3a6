//! The header of a batch, for all formats. The v2 layout is drawn in the module above.

use super::{Record, RecordRanges, Records, TimestampType, records};
use crate::compression::Compression;
use crate::{DecodeError, DecodeErrorKind};
use std::ops::Range;

/// `base_offset` and `batch_length`, which every format begins with; the length counts from here.
pub(super) const LOG_OVERHEAD: usize = 12;
/// The header of a v2 batch.
pub(super) const HEADER_BYTES_V2: usize = 61;

const CODEC: i16 = 7;
const TIMESTAMP_TYPE: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
const DELETE_HORIZON: i16 = 1 << 6;

/// The header of a batch, with Kafka's field names. The old formats fill in what they have; the rest reads as Kafka's own reader gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct BatchHeader {
    /// The first offset, also when compaction has removed that record. For a message of magic 0 or 1, the offset it carries: for a
    /// compressed one that is the last inner message's, the first isn't known before inflating.
    pub base_offset: i64,
    /// Bytes after this field: the batch's size less 12.
    pub batch_length: i32,
    /// The epoch of the leader that appended the batch; -1 if unknown.
    pub partition_leader_epoch: i32,
    /// The format: 0, 1 or 2.
    pub magic: i8,
    /// The stored checksum.
    pub crc: u32,
    /// Codec, timestamp type and flags; the methods take them apart.
    pub attributes: i16,
    /// The last offset less `base_offset`. Broken data may hold a negative number here.
    pub last_offset_delta: i32,
    /// What the records' timestamp deltas add to, in ms; -1 if there is none.
    pub base_timestamp: i64,
    /// The largest timestamp of the records, in ms; -1 if there is none.
    pub max_timestamp: i64,
    /// The idempotent or transactional producer; -1 for none.
    pub producer_id: i64,
    /// The producer's epoch; -1 for none.
    pub producer_epoch: i16,
    /// The sequence number of the record at `base_offset`; -1 for none.
    pub base_sequence: i32,
    /// How many records the batch says it has: untrusted. -1 for a compressed message of magic 0 or 1, whose number isn't known.
    pub records_count: i32,
}

impl BatchHeader {
    /// The codec.
    ///
    /// # Errors
    /// The attributes hold a codec that doesn't exist: 5, 6 or 7.
    #[inline]
    pub fn compression(&self) -> Result<Compression, DecodeErrorKind> {
        Compression::from_attributes(self.attributes)
    }

    /// What the records' timestamps mean.
    #[inline]
    pub fn timestamp_type(&self) -> TimestampType {
        if self.magic == 0 {
            TimestampType::NoTimestamp
        } else if self.attributes & TIMESTAMP_TYPE != 0 {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        }
    }

    /// Whether the batch is part of a transaction (KIP-98).
    #[inline]
    pub fn is_transactional(&self) -> bool {
        self.is_v2() && self.attributes & TRANSACTIONAL != 0
    }

    /// Whether the batch holds control records, which are never delivered.
    #[inline]
    pub fn is_control(&self) -> bool {
        self.is_v2() && self.attributes & CONTROL != 0
    }

    /// Whether the log cleaner has set a time at which tombstones and markers in this batch may go (KIP-534).
    #[inline]
    pub fn has_delete_horizon(&self) -> bool {
        self.is_v2() && self.attributes & DELETE_HORIZON != 0
    }

    /// The delete horizon in ms. It stands in the base timestamp's place, and the records' deltas count from it.
    #[inline]
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        self.has_delete_horizon().then_some(self.base_timestamp)
    }

    /// The last offset of the batch, inclusive.
    #[inline]
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(self.last_offset_delta.into())
    }

    /// Where reading goes on after this batch: its last offset + 1, also when compaction has removed the last record. Compare with the
    /// position before it, which never goes back.
    #[inline]
    pub fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// The sequence number at the last offset; -1 if the batch has none. Numbers go on at 0 after 2^31 - 1.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence == -1 { -1 } else { sequence_after(self.base_sequence, self.last_offset_delta) }
    }

    /// The sequence number of the record at `offset`; -1 if it has none.
    pub fn sequence_at(&self, offset: i64) -> i32 {
        match offset.checked_sub(self.base_offset).map(i32::try_from) {
            Some(Ok(delta)) if self.base_sequence >= 0 => sequence_after(self.base_sequence, delta),
            _ => -1,
        }
    }

    /// The size of the whole batch in bytes.
    #[inline]
    pub fn size(&self) -> usize {
        usize::try_from(self.batch_length).unwrap_or(0) + LOG_OVERHEAD
    }

    /// The records in `section`, which is this batch's record section, inflated ([`RecordBatch::section`](super::RecordBatch::section)).
    ///
    /// # Errors
    /// The number of records can't be right; for a compressed message of magic 0 or 1, its inner set can't be walked.
    #[inline]
    pub fn records<'a>(&self, section: &'a [u8]) -> Result<Records<'a>, DecodeError> {
        Records::new(self, section)
    }

    /// Where each record of `section` lies, by reading nothing but its length: a search over the whole section can then parse only the
    /// records that hold a hit. `None` for magic 0 and 1.
    ///
    /// # Errors
    /// The number of records can't be right.
    pub fn record_ranges<'a>(&self, section: &'a [u8]) -> Result<Option<RecordRanges<'a>>, DecodeError> {
        if !self.is_v2() {
            return Ok(None);
        }
        Ok(Some(RecordRanges::new(section, records::check_count(self.records_count, section)?)))
    }

    /// Parses the one record that [`record_ranges`](Self::record_ranges) found at `range` of `section`.
    ///
    /// # Errors
    /// The record is not what its length says.
    pub fn record_at<'a>(&self, section: &'a [u8], range: Range<usize>) -> Result<Record<'a>, DecodeError> {
        records::parse_at(self, section, range)
    }

    #[inline]
    pub(super) fn is_v2(&self) -> bool {
        self.magic == 2
    }

    pub(super) fn is_plain(&self) -> bool {
        self.attributes & CODEC == 0
    }
}

/// The sequence number `delta` after `sequence`, in Java's 32-bit arithmetic, which matters for numbers that no producer writes.
fn sequence_after(sequence: i32, delta: i32) -> i32 {
    if sequence > i32::MAX.wrapping_sub(delta) {
        delta.wrapping_sub(i32::MAX.wrapping_sub(sequence)).wrapping_sub(1)
    } else {
        sequence.wrapping_add(delta)
    }
}

/// The header of the whole v2 batch `bytes`. `None` if they are fewer than it has.
#[inline]
pub(super) fn parse_header_v2(bytes: &[u8]) -> Option<BatchHeader> {
    let mut fields = Fields(bytes.first_chunk::<HEADER_BYTES_V2>()?);
    Some(BatchHeader {
        base_offset: fields.i64()?,
        batch_length: fields.i32()?,
        partition_leader_epoch: fields.i32()?,
        magic: fields.i8()?,
        crc: fields.u32()?,
        attributes: fields.i16()?,
        last_offset_delta: fields.i32()?,
        base_timestamp: fields.i64()?,
        max_timestamp: fields.i64()?,
        producer_id: fields.i64()?,
        producer_epoch: fields.i16()?,
        base_sequence: fields.i32()?,
        records_count: fields.i32()?,
    })
}

/// Takes fixed-size numbers off the front of a header.
pub(super) struct Fields<'b>(pub(super) &'b [u8]);

impl Fields<'_> {
    #[inline(always)]
    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    #[inline(always)]
    pub(super) fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }

    #[inline(always)]
    pub(super) fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    #[inline(always)]
    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    #[inline(always)]
    pub(super) fn i16(&mut self) -> Option<i16> {
        self.take().map(i16::from_be_bytes)
    }

    #[inline(always)]
    pub(super) fn i8(&mut self) -> Option<i8> {
        self.take().map(i8::from_be_bytes)
    }
}

//! Batches in a run of bytes: their headers, their CRC, and the way to their records. The layout is drawn in the module above; records
//! are parsed in `records.rs` and `message_set.rs`.

use super::{Record, RecordRanges, Records, TimestampType, message_set, records};
use crate::compression::{Compression, Decompressor};
use crate::{DecodeError, DecodeErrorKind};
use std::ops::Range;

/// `base_offset` and `batch_length`, which every format begins with.
const LOG_OVERHEAD: usize = 12;
/// Up to and with `magic`, which stands at the same place in every format.
const HEADER_UP_TO_MAGIC: usize = 17;
/// Where what the CRC of a v2 batch covers begins.
const CRC_DATA_V2: usize = 21;
/// The header of a v2 batch.
const HEADER_BYTES_V2: usize = 61;
/// Where what the CRC of an old message covers begins.
const CRC_DATA_OLD: usize = 16;

const CODEC_NONE: i16 = 0;
const TIMESTAMP_TYPE: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
const DELETE_HORIZON: i16 = 1 << 6;

/// A batch that can't be read: which, and why. A reader that means to go on without it goes on at `last_offset + 1`.
///
/// The position in the source counts from the start of the run for `batch.*` fields, and from the start of the batch's record section
/// (after inflating) for `record.*` and `message.*` fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record batch at byte {position}, {}", Offsets(*base_offset, *last_offset))]
pub struct BatchError {
    /// Where the batch begins, in bytes from the start of the run.
    pub position: usize,
    /// The batch's base offset as its first eight bytes say. For a compressed message of magic 0 or 1 this is its last offset too.
    pub base_offset: i64,
    /// The batch's last offset, inclusive; `None` if not even the header could be read.
    pub last_offset: Option<i64>,
    /// What was wrong.
    pub source: DecodeError,
}

struct Offsets(i64, Option<i64>);

impl std::fmt::Display for Offsets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.1 {
            Some(last) => write!(f, "offsets {} to {last}", self.0),
            None => write!(f, "base offset {}", self.0),
        }
    }
}

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

    /// The records in `section`, which is this batch's record section, inflated ([`RecordBatch::section`]).
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
    fn is_v2(&self) -> bool {
        self.magic == 2
    }

    fn is_plain(&self) -> bool {
        self.attributes & 7 == CODEC_NONE
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

/// A batch in a run of bytes: its header, parsed, and its bytes. Its CRC has not been checked yet.
#[derive(Clone, Copy, Debug)]
pub struct RecordBatch<'b> {
    header: BatchHeader,
    bytes: &'b [u8],
    position: usize,
}

impl<'b> RecordBatch<'b> {
    /// The header.
    #[inline]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole batch, header and all.
    #[inline]
    pub fn bytes(&self) -> &'b [u8] {
        self.bytes
    }

    /// Where the batch begins, in bytes from the start of the run.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// An error in this batch.
    pub fn error(&self, source: DecodeError) -> BatchError {
        BatchError {
            position: self.position,
            base_offset: self.header.base_offset,
            last_offset: Some(self.header.last_offset()),
            source,
        }
    }

    fn field_error(&self, field: &'static str, at: usize, kind: DecodeErrorKind) -> BatchError {
        self.error(DecodeError::new(field, self.position.saturating_add(at), kind))
    }

    /// Checks the stored checksum: CRC-32C from the attributes to the end for a v2 batch, CRC-32 from the magic on for the formats
    /// before it, a wrapper as a whole. (Kafka's consumer does not check a wrapper, only the messages in it.)
    ///
    /// # Errors
    /// The checksum does not hold.
    #[inline]
    pub fn check_crc(&self) -> Result<(), BatchError> {
        let computed = self.computed_crc();
        if computed == self.header.crc {
            return Ok(());
        }
        let at = if self.header.is_v2() { 17 } else { LOG_OVERHEAD };
        Err(self.field_error("batch.crc", at, DecodeErrorKind::Checksum { stored: self.header.crc, computed }))
    }

    /// The checksum that the batch should carry.
    pub fn computed_crc(&self) -> u32 {
        if self.header.is_v2() {
            crc32c::crc32c(self.bytes.get(CRC_DATA_V2..).unwrap_or_default())
        } else {
            message_set::crc32(self.bytes.get(CRC_DATA_OLD..).unwrap_or_default())
        }
    }

    /// How many bytes the record section has as it stands in the batch, before inflating.
    pub fn section_bytes_compressed(&self) -> usize {
        self.bytes.len().saturating_sub(if self.header.is_v2() { HEADER_BYTES_V2 } else { LOG_OVERHEAD })
    }

    /// The batch's record section: of a v2 batch everything after the header, inflated; of a compressed message of magic 0 or 1 the inner
    /// message set, inflated; of an uncompressed one the message itself.
    ///
    /// # Errors
    /// There is no such codec, or the section can't be inflated within the decompressor's limit.
    #[inline]
    pub fn section<'a>(&self, decompressor: &'a mut Decompressor) -> Result<&'a [u8], BatchError>
    where
        'b: 'a,
    {
        if !self.header.is_v2() {
            return self.section_old(decompressor);
        }
        let payload = self.bytes.get(HEADER_BYTES_V2..).unwrap_or_default();
        if self.header.is_plain() {
            return Ok(payload);
        }
        let compression =
            self.header.compression().map_err(|kind| self.field_error("batch.attributes", CRC_DATA_V2, kind))?;
        decompressor
            .inflate(compression, payload)
            .map_err(|kind| self.field_error("batch.records", HEADER_BYTES_V2, kind))
    }

    fn section_old<'a>(&self, decompressor: &'a mut Decompressor) -> Result<&'a [u8], BatchError>
    where
        'b: 'a,
    {
        if self.header.is_plain() {
            return Ok(self.bytes);
        }
        let compression = match self.header.compression() {
            Ok(Compression::Zstd) => Err(DecodeErrorKind::Value { value: 4, expected: "zstd is for magic 2 only" }),
            other => other,
        }
        .map_err(|kind| self.field_error("batch.attributes", HEADER_UP_TO_MAGIC, kind))?;
        let value = message_set::wrapper_value(self.bytes).map_err(|mut error| {
            error.position = error.position.saturating_add(self.position);
            self.error(error)
        })?;
        let inflated = if self.header.magic == 0 {
            decompressor.inflate_magic_0(compression, value)
        } else {
            decompressor.inflate(compression, value)
        };
        inflated.map_err(|kind| self.field_error("batch.value", self.bytes.len() - value.len(), kind))
    }

    /// Inflates the batch, if it is compressed, and iterates over its records. The CRC is not looked at: see
    /// [`check_crc`](Self::check_crc).
    ///
    /// # Errors
    /// As [`section`](Self::section) and [`BatchHeader::records`].
    #[inline]
    pub fn records<'a>(&self, decompressor: &'a mut Decompressor) -> Result<Records<'a>, BatchError>
    where
        'b: 'a,
    {
        let section = self.section(decompressor)?;
        self.header.records(section).map_err(|error| self.error(error))
    }
}

/// The batches in a run of bytes. A batch that is cut off by the end of the run ends the iteration; so does the first error, since the
/// next batch can't be found after it.
#[derive(Clone, Debug)]
pub struct RecordBatches<'b> {
    run: &'b [u8],
    /// What positions add to.
    start: usize,
    position: usize,
    failed: bool,
}

impl<'b> RecordBatches<'b> {
    /// The batches in `bytes`, which is what a Fetch response holds of one partition, or a log segment.
    #[inline]
    pub fn new(bytes: &'b [u8]) -> Self {
        Self::starting_at(bytes, 0)
    }

    /// The batches in `bytes`, which begin at byte `position` of the run they are a part of: a segment that is read a piece at a time.
    /// All positions, those in errors too, then count from the start of that run.
    #[inline]
    pub fn starting_at(bytes: &'b [u8], position: usize) -> Self {
        Self { run: bytes, start: position, position: 0, failed: false }
    }

    /// Where the next batch begins: after the iteration, the size of all whole batches.
    #[inline]
    pub fn position(&self) -> usize {
        self.start.saturating_add(self.position)
    }

    /// How many bytes more it takes until the next batch, or at least its length, is there; 0 if it is, or if there can be none after
    /// an error. The length is a claim.
    pub fn bytes_missing(&self) -> usize {
        let left = self.run.get(self.position..).unwrap_or_default();
        let needed = match Envelope::parse(left) {
            _ if self.failed => 0,
            None => HEADER_UP_TO_MAGIC,
            Some(Ok(envelope)) => envelope.size,
            Some(Err(_)) => 0,
        };
        needed.saturating_sub(left.len())
    }

    /// How many bytes are left: after the iteration, the size of the cut batch at the end.
    #[inline]
    pub fn trailing_bytes(&self) -> usize {
        self.run.len().saturating_sub(self.position)
    }

    #[cold]
    fn fail(&mut self, base_offset: i64, field: &'static str, at: usize, kind: DecodeErrorKind) -> BatchError {
        self.failed = true;
        let position = Self::position(self);
        let source = DecodeError::new(field, position.saturating_add(at), kind);
        BatchError { position, base_offset, last_offset: None, source }
    }
}

impl<'b> Iterator for RecordBatches<'b> {
    type Item = Result<RecordBatch<'b>, BatchError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let left = self.run.get(self.position..)?;
        let envelope = match Envelope::parse(left)? {
            Ok(envelope) => envelope,
            Err(bad) => return Some(Err(self.fail(bad.base_offset, bad.field, bad.at, bad.kind))),
        };
        let bytes = left.get(..envelope.size)?;
        let size_min = match envelope.magic {
            2 => HEADER_BYTES_V2,
            1 => message_set::MESSAGE_BYTES_MIN_V1,
            _ => message_set::MESSAGE_BYTES_MIN_V0,
        };
        if bytes.len() < size_min {
            let kind = DecodeErrorKind::Truncated { needed: size_min, available: bytes.len() };
            return Some(Err(self.fail(envelope.base_offset, "batch.batch_length", 8, kind)));
        }
        let parsed = if envelope.magic == 2 { parse_header_v2(bytes) } else { message_set::parse_header(bytes) };
        // Can't be missing: the size was just checked.
        let header = parsed?;
        if header.base_offset.checked_add(header.last_offset_delta.into()).is_none() {
            let value = header.last_offset_delta.into();
            let kind = DecodeErrorKind::Value { value, expected: "an offset has 64 bits" };
            return Some(Err(self.fail(envelope.base_offset, "batch.last_offset_delta", 23, kind)));
        }
        let batch = RecordBatch { header, bytes, position: Self::position(self) };
        self.position += envelope.size;
        Some(Ok(batch))
    }
}

impl std::iter::FusedIterator for RecordBatches<'_> {}

/// What is common to all formats.
struct Envelope {
    base_offset: i64,
    size: usize,
    magic: i8,
}

/// What is wrong with an envelope: a field, and where in the batch it stands.
struct BadEnvelope {
    base_offset: i64,
    field: &'static str,
    at: usize,
    kind: DecodeErrorKind,
}

impl Envelope {
    /// The envelope that `left` begins with. `None` if `left` ends before it says how long the batch is; that a whole batch is there is
    /// not checked.
    #[inline]
    fn parse(left: &[u8]) -> Option<Result<Self, BadEnvelope>> {
        let (base_offset, rest) = left.split_first_chunk::<8>()?;
        let (length, _) = rest.split_first_chunk::<4>()?;
        let base_offset = i64::from_be_bytes(*base_offset);
        let batch_length = i32::from_be_bytes(*length);
        // Before anything is skipped by it: 0 or less would stand still or go back.
        let length_min = message_set::MESSAGE_BYTES_MIN_V0 - LOG_OVERHEAD;
        let size = match usize::try_from(batch_length) {
            Ok(length) if length >= length_min => length.checked_add(LOG_OVERHEAD)?,
            _ => {
                let kind = DecodeErrorKind::Value {
                    value: batch_length.into(),
                    expected: "no batch is shorter than 14 bytes",
                };
                return Some(Err(BadEnvelope { base_offset, field: "batch.batch_length", at: 8, kind }));
            }
        };
        let magic = left.get(HEADER_UP_TO_MAGIC - 1)?.cast_signed();
        if !(0..=2).contains(&magic) {
            let kind = DecodeErrorKind::Value { value: magic.into(), expected: "formats 0, 1 and 2 exist" };
            return Some(Err(BadEnvelope { base_offset, field: "batch.magic", at: HEADER_UP_TO_MAGIC - 1, kind }));
        }
        Some(Ok(Self { base_offset, size, magic }))
    }
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

#[inline]
fn parse_header_v2(bytes: &[u8]) -> Option<BatchHeader> {
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

/// Where the next fetch of a partition begins, from the headers of the whole batches in `bytes` alone: the largest `last_offset + 1`, and
/// never before `position`, where this one began. Nothing is inflated and no CRC is checked, so this is a hint until they were.
#[inline]
pub fn next_fetch_offset(bytes: &[u8], position: i64) -> i64 {
    let mut left = bytes;
    let mut next = position;
    while let Some(Ok(envelope)) = Envelope::parse(left) {
        let Some((batch, rest)) = left.split_at_checked(envelope.size) else { break };
        let delta = match batch.get(23..).and_then(|bytes| bytes.first_chunk()) {
            Some(delta) if envelope.magic == 2 => i32::from_be_bytes(*delta),
            _ => 0,
        };
        let after = envelope.base_offset.checked_add(delta.into()).and_then(|last| last.checked_add(1));
        next = next.max(after.unwrap_or(position));
        left = rest;
    }
    next
}

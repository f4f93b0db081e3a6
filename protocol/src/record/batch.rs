//! One batch of a run: its CRC, and the way to its records. Batches are found in `batches.rs`, records parsed in `records.rs` and
//! `message_set.rs`.

use super::batch_header::{BatchHeader, HEADER_BYTES_V2, LOG_OVERHEAD};
use super::{Records, message_set};
use crate::compression::{Compression, Decompressor};
use crate::{DecodeError, DecodeErrorKind};

/// Where what the CRC of a v2 batch covers begins, with the attributes.
const CRC_DATA_V2: usize = 21;
/// Where what the CRC of an old message covers begins, with the magic.
const CRC_DATA_OLD: usize = 16;
/// Where the attributes of an old message stand.
const ATTRIBUTES_OLD: usize = 17;

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

/// A batch in a run of bytes: its header, parsed, and its bytes. Its CRC has not been checked yet.
#[derive(Clone, Copy, Debug)]
pub struct RecordBatch<'b> {
    header: BatchHeader,
    bytes: &'b [u8],
    position: usize,
}

impl<'b> RecordBatch<'b> {
    #[inline]
    pub(super) fn new(header: BatchHeader, bytes: &'b [u8], position: usize) -> Self {
        Self { header, bytes, position }
    }

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
        .map_err(|kind| self.field_error("batch.attributes", ATTRIBUTES_OLD, kind))?;
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

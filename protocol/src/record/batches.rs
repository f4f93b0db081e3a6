//! Finding the batches in a run of bytes. Only what stands at the same place in every format is read before the format is known:
//! ```text
//! 0 base_offset i64 | 8 batch_length i32 | 12 … | 16 magic i8
//! ```

use super::batch::RecordBatch;
use super::batch_header::{HEADER_BYTES_V2, LOG_OVERHEAD, parse_header_v2};
use super::{BatchError, message_set};
use crate::{DecodeError, DecodeErrorKind};

/// Where the magic stands.
const MAGIC_AT: usize = 16;

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
            None => MAGIC_AT + 1,
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
        let batch = RecordBatch::new(header, bytes, Self::position(self));
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
        let magic = left.get(MAGIC_AT)?.cast_signed();
        if !(0..=2).contains(&magic) {
            let kind = DecodeErrorKind::Value { value: magic.into(), expected: "formats 0, 1 and 2 exist" };
            return Some(Err(BadEnvelope { base_offset, field: "batch.magic", at: MAGIC_AT, kind }));
        }
        Some(Ok(Self { base_offset, size, magic }))
    }
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

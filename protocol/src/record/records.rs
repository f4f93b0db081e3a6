//! The records of one batch, parsed in one pass. This is the loop that every byte of a topic goes through.
//!
//! A record is parsed by `parse`, which gives up on what is rare or damaged, so that the loop stays small. Where it gives up, `Slow` parses
//! the same record again, a field at a time: it knows every form, and says what is wrong and where.

use super::batch_header::BatchHeader;
use super::message_set::MessageSet;
use super::{Headers, Record, TimestampType};
use crate::varint::{read_varint, read_varlong, take_short};
use crate::{DecodeError, DecodeErrorKind};
use std::ops::Range;

/// The least bytes that a record takes: its length, attributes, two deltas, key length, value length, number of headers.
const RECORD_BYTES_MIN: usize = 7;

/// Iterates over the records of a batch, in the batch's order. Ends after the first error. Records that are null markers of compaction do
/// not exist; offsets may have gaps, and may lie before the offset that was asked for, since a fetch answers with whole batches.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    section: &'a [u8],
    rest: &'a [u8],
    left: usize,
    base: Base,
    /// The formats before v2; `left` is 0 then.
    old: Option<MessageSet<'a>>,
}

/// What a v2 record's deltas add to.
#[derive(Clone, Copy, Debug)]
struct Base {
    offset: i64,
    timestamp: i64,
    timestamp_type: TimestampType,
    /// All ones if every record has the batch's own time (LogAppendTime), whatever its delta: the delta is masked away then.
    delta_mask: i64,
}

impl Base {
    #[inline]
    fn new(header: &BatchHeader) -> Self {
        let timestamp_type = header.timestamp_type();
        let append_time = timestamp_type == TimestampType::LogAppendTime;
        Self {
            offset: header.base_offset,
            timestamp: if append_time { header.max_timestamp } else { header.base_timestamp },
            timestamp_type,
            delta_mask: if append_time { 0 } else { -1 },
        }
    }

    /// As Java, without a check: a sum beyond 64 bits wraps.
    #[inline(always)]
    fn timestamp(&self, delta: i64) -> i64 {
        self.timestamp.wrapping_add(delta & self.delta_mask)
    }
}

impl<'a> Records<'a> {
    #[inline]
    pub(super) fn new(header: &BatchHeader, section: &'a [u8]) -> Result<Self, DecodeError> {
        let base = Base::new(header);
        if header.magic == 2 {
            let left = check_count(header.records_count, section)?;
            return Ok(Self { section, rest: section, left, base, old: None });
        }
        let old = Some(MessageSet::new(header, section)?);
        Ok(Self { section, rest: &[], left: 0, base, old })
    }

    /// Leaves the checksums of the messages inside a compressed message of magic 0 or 1 unchecked. (Those of other batches are checked by
    /// [`RecordBatch::check_crc`](super::RecordBatch::check_crc) or not at all.)
    #[must_use]
    pub fn without_crc_check(mut self) -> Self {
        if let Some(set) = &mut self.old {
            set.check_crc = false;
        }
        self
    }

    /// How many bytes of the section lie before the next record: after a record of a v2 batch, where it ended. Of the formats before v2
    /// nothing is known.
    #[inline]
    pub fn position(&self) -> usize {
        self.section.len() - self.rest.len()
    }

    /// Passes over records that end at or before byte `end` of the section, reading of each only how long it and its value are. Stops early
    /// before one that is damaged or out of the ordinary, and always before the last: [`next`](Iterator::next) tells what is wrong there.
    /// Does nothing in the formats before v2.
    #[inline]
    pub fn skim_before(&mut self, end: usize) -> Skimmed {
        let mut skimmed = Skimmed::default();
        let after_end = self.section.len().saturating_sub(end);
        while self.left > 1
            && let Some((value_bytes, rest)) = skim(self.rest)
            && rest.len() >= after_end
        {
            self.left -= 1;
            self.rest = rest;
            skimmed.records += 1;
            skimmed.value_bytes += value_bytes;
        }
        skimmed
    }

    /// The fast path gave up: parse again, a field at a time.
    #[cold]
    #[inline(never)]
    fn next_slow(&mut self) -> Result<Record<'a>, DecodeError> {
        let start = self.section.len() - self.rest.len();
        let parsed = Slow::parse(self.section, start, &self.base).and_then(|(record, end)| {
            if self.left == 0 {
                check_leftover(self.section, end)?;
            }
            Ok((record, end))
        });
        match parsed {
            Ok((record, end)) => {
                self.rest = self.section.get(end..).unwrap_or_default();
                Ok(record)
            }
            Err(error) => {
                self.left = 0;
                Err(error)
            }
        }
    }

    #[cold]
    fn next_old(&mut self) -> Option<Result<Record<'a>, DecodeError>> {
        self.old.as_mut()?.next()
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, DecodeError>;

    // A call would pass the record through memory; measured, that costs more than parsing it.
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return self.next_old();
        }
        self.left -= 1;
        match parse(self.rest, &self.base) {
            // After the last record nothing may remain.
            Some((record, rest)) if self.left > 0 || rest.is_empty() => {
                self.rest = rest;
                Some(Ok(record))
            }
            _ => Some(self.next_slow()),
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        // What the header says is untrusted, but checked against the section's size.
        (0, self.old.is_none().then_some(self.left))
    }
}

impl std::iter::FusedIterator for Records<'_> {}

/// What [`Records::skim_before`] passed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Skimmed {
    /// How many records.
    pub records: u64,
    /// How many bytes their values have; a null value has none.
    pub value_bytes: u64,
}

/// The number of records, if `section` can hold that many.
#[inline]
pub(super) fn check_count(records_count: i32, section: &[u8]) -> Result<usize, DecodeError> {
    let max = section.len() / RECORD_BYTES_MIN;
    match usize::try_from(records_count) {
        Ok(0) => check_leftover(section, 0).map(|()| 0),
        Ok(count) if count <= max => Ok(count),
        _ => {
            let kind = DecodeErrorKind::Length { length: records_count.into(), max };
            Err(DecodeError::new("batch.records_count", 0, kind))
        }
    }
}

/// Nothing may follow the last record, which ends at `end`.
#[inline]
pub(super) fn check_leftover(section: &[u8], end: usize) -> Result<(), DecodeError> {
    match section.len().saturating_sub(end) {
        0 => Ok(()),
        count => Err(DecodeError::new("batch.records", end, DecodeErrorKind::Leftover { count })),
    }
}

/// Where the record that begins at `start` ends, by its length.
#[inline]
pub(super) fn end_of_record(section: &[u8], start: usize) -> Result<usize, DecodeError> {
    let bytes = section.get(start..).unwrap_or_default();
    if let Some((length, rest)) = take_short(bytes)
        && let Ok(length) = usize::try_from(length)
        && length <= rest.len()
    {
        return Ok(section.len() - rest.len() + length);
    }
    Slow::length(section, start).map(|slow| slow.end)
}

/// The record at `range` of `section`, which begins with its length field and must end where that says.
pub(super) fn parse_at<'a>(
    header: &BatchHeader,
    section: &'a [u8],
    range: Range<usize>,
) -> Result<Record<'a>, DecodeError> {
    let base = Base::new(header);
    let bytes = section.get(range.clone()).unwrap_or_default();
    if let Some((record, [])) = parse(bytes, &base) {
        return Ok(record);
    }
    let whole = section.get(..range.end).unwrap_or(section);
    let (record, end) = Slow::parse(whole, range.start, &base)?;
    check_leftover(whole, end)?;
    Ok(record)
}

/// The record that `bytes` begins with, and what follows it. `None` if it has a number of more than three bytes, or is damaged: the caller
/// looks again. Without calls and with nothing to report, the whole of it stays in registers.
#[inline(always)]
fn parse<'a>(bytes: &'a [u8], base: &Base) -> Option<(Record<'a>, &'a [u8])> {
    let (length, bytes) = take_short(bytes)?;
    let (body, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    let (_attributes, body) = body.split_first()?;
    let (timestamp_delta, body) = take_short(body)?;
    let (offset_delta, body) = take_short(body)?;
    let (key, body) = take_nullable(body)?;
    let (value, body) = take_nullable(body)?;
    // A single zero: no headers, and the record ends here.
    let headers = if let [0] = body { Headers::default() } else { take_headers(body)? };
    let record = Record {
        offset: base.offset.checked_add(offset_delta.into())?,
        timestamp: base.timestamp(timestamp_delta.into()),
        timestamp_type: base.timestamp_type,
        key,
        value,
        headers,
    };
    Some((record, rest))
}

/// The length of the value of the record that `bytes` begins with, and what follows the record. `None` for what [`parse`] gives up on, and
/// if the key or value does not fit into the record; its headers are not looked at.
#[inline(always)]
fn skim(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (length, bytes) = take_short(bytes)?;
    let (body, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    let (_attributes, body) = body.split_first()?;
    let body = skip_short(skip_short(body)?)?;
    let (key, body) = take_short(body)?;
    let body = body.get(usize::try_from(key).unwrap_or(0)..)?;
    let (value, body) = take_short(body)?;
    let value = usize::try_from(value).unwrap_or(0);
    (value < body.len()).then_some((value as u64, rest))
}

/// What follows a varint of at most three bytes.
#[inline(always)]
fn skip_short(bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [a, rest @ ..] if *a < 0x80 => Some(rest),
        [_, b, rest @ ..] if *b < 0x80 => Some(rest),
        [_, _, c, rest @ ..] if *c < 0x80 => Some(rest),
        _ => None,
    }
}

/// The number of headers and exactly as many headers, which fill `body`.
#[inline(never)]
fn take_headers(body: &[u8]) -> Option<Headers<'_>> {
    let (count, body) = take_short(body)?;
    let count = usize::try_from(count).ok()?;
    let mut rest = body;
    for _ in 0..count {
        let (length, after) = take_short(rest)?;
        let (_key, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
        (_, rest) = take_nullable(after)?;
    }
    rest.is_empty().then(|| Headers::from_checked(body, count))
}

/// A length and as many bytes; a negative length is null, as in Java.
#[inline(always)]
fn take_nullable(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, bytes) = take_short(bytes)?;
    match usize::try_from(length) {
        Ok(length) => {
            let (field, rest) = bytes.split_at_checked(length)?;
            Some((Some(field), rest))
        }
        Err(_) => Some((None, bytes)),
    }
}

/// Parses a record a field at a time and says what is wrong with it. The record's own length bounds every field.
struct Slow<'a> {
    section: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Slow<'a> {
    /// The record at `start` and where it ends.
    fn parse(section: &'a [u8], start: usize, base: &Base) -> Result<(Record<'a>, usize), DecodeError> {
        let mut fields = Self::length(section, start)?;
        fields.take("record.attributes", 1)?;
        let timestamp_delta = fields.varlong("record.timestamp_delta")?;
        let delta_at = fields.at;
        let offset_delta = fields.varint("record.offset_delta")?;
        let key = fields.nullable("record.key")?;
        let value = fields.nullable("record.value")?;
        let headers = fields.headers()?;
        let Some(offset) = base.offset.checked_add(offset_delta.into()) else {
            let kind = DecodeErrorKind::Value { value: offset_delta.into(), expected: "an offset has 64 bits" };
            return Err(DecodeError::new("record.offset_delta", delta_at, kind));
        };
        if fields.at < fields.end {
            let kind = DecodeErrorKind::Leftover { count: fields.end - fields.at };
            return Err(DecodeError::new("record", fields.at, kind));
        }
        let timestamp = base.timestamp(timestamp_delta);
        Ok((Record { offset, timestamp, timestamp_type: base.timestamp_type, key, value, headers }, fields.end))
    }

    /// Reads the length of the record at `start`: the fields after it lie between `at` and `end`.
    fn length(section: &'a [u8], start: usize) -> Result<Self, DecodeError> {
        let mut fields = Self { section, at: start, end: section.len() };
        let length = fields.varint("record.length")?;
        let max = fields.end - fields.at;
        match usize::try_from(length) {
            Ok(length) if length <= max => {
                fields.end = fields.at + length;
                Ok(fields)
            }
            _ => {
                let kind = DecodeErrorKind::Length { length: length.into(), max };
                Err(DecodeError::new("record.length", start, kind))
            }
        }
    }

    fn left(&self) -> &'a [u8] {
        self.section.get(self.at..self.end).unwrap_or_default()
    }

    fn take(&mut self, field: &'static str, length: usize) -> Result<&'a [u8], DecodeError> {
        let left = self.left();
        let taken = left.get(..length).ok_or_else(|| {
            let kind = DecodeErrorKind::Truncated { needed: length, available: left.len() };
            DecodeError::new(field, self.at, kind)
        })?;
        self.at += length;
        Ok(taken)
    }

    fn varint(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        let left = self.left();
        let (value, used) = read_varint(left).ok_or_else(|| self.bad_varint(field, left, 5))?;
        self.at += used;
        Ok(value)
    }

    fn varlong(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        let left = self.left();
        let (value, used) = read_varlong(left).ok_or_else(|| self.bad_varint(field, left, 10))?;
        self.at += used;
        Ok(value)
    }

    fn bad_varint(&self, field: &'static str, left: &[u8], max: usize) -> DecodeError {
        let kind = if left.len() < max {
            DecodeErrorKind::Truncated { needed: left.len() + 1, available: left.len() }
        } else {
            DecodeErrorKind::Varint { max }
        };
        DecodeError::new(field, self.at, kind)
    }

    fn nullable(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, DecodeError> {
        let start = self.at;
        let length = self.varint(field)?;
        if length < 0 {
            return Ok(None);
        }
        self.counted(field, start, length).map(Some)
    }

    fn counted(&mut self, field: &'static str, start: usize, length: i32) -> Result<&'a [u8], DecodeError> {
        let max = self.left().len();
        match usize::try_from(length) {
            Ok(length) if length <= max => self.take(field, length),
            _ => Err(DecodeError::new(field, start, DecodeErrorKind::Length { length: length.into(), max })),
        }
    }

    fn headers(&mut self) -> Result<Headers<'a>, DecodeError> {
        let start = self.at;
        let count = self.varint("record.headers")?;
        let bytes = self.left();
        // Each takes two bytes at least.
        let max = bytes.len() / 2;
        let count = match usize::try_from(count) {
            Ok(count) if count <= max => count,
            _ => {
                let kind = DecodeErrorKind::Length { length: count.into(), max };
                return Err(DecodeError::new("record.headers", start, kind));
            }
        };
        for _ in 0..count {
            let start = self.at;
            let length = self.varint("record.header.key")?;
            self.counted("record.header.key", start, length)?;
            self.nullable("record.header.value")?;
        }
        let used = bytes.len() - self.left().len();
        Ok(Headers::from_checked(bytes.get(..used).unwrap_or_default(), count))
    }
}

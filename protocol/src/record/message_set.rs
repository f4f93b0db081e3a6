//! Messages of magic 0 and 1, the formats before record batches, still found in old logs. Layout: see the module above.
//!
//! Rules, which are those of Kafka's own reader:
//! * Wrapper of magic 1: the inner offsets are relative, and the wrapper carries the last one's absolute offset (KIP-31), so the inner set
//!   is walked once before its first message is given out. A wrapper offset of 0, which some old producers wrote, means that the inner
//!   offsets stand as they are. Wrapper of magic 0: they are absolute.
//! * A wrapper with LogAppendTime gives its own time to all inner messages; its timestamp type counts, not theirs (KIP-32). Messages of
//!   magic 0 have no time, also inside a wrapper of magic 1.
//! * An inner set cut at its end loses the cut message silently. One without any message is an error, so is a wrapper in a wrapper.
//! * Bytes after the value of a message are ignored.

use super::batch_header::{BatchHeader, Fields};
use super::{Headers, Record, TimestampType};
use crate::{DecodeError, DecodeErrorKind};

/// The smallest message of magic 0: offset, size, crc, magic, attributes, and two null lengths.
pub(super) const MESSAGE_BYTES_MIN_V0: usize = 26;
/// The smallest message of magic 1, which has a timestamp too.
pub(super) const MESSAGE_BYTES_MIN_V1: usize = MESSAGE_BYTES_MIN_V0 + 8;

/// `offset` and `message_size`.
const ENVELOPE_BYTES: usize = 12;
/// Where what the CRC covers begins.
const CRC_DATA: usize = 16;

/// CRC-32 with zlib's polynomial.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// The header of the whole message `bytes`. `None` if they are fewer than its format needs.
pub(super) fn parse_header(bytes: &[u8]) -> Option<BatchHeader> {
    let (envelope, _) = Envelope::parse(bytes)?;
    let plain = envelope.attributes & 7 == 0;
    Some(BatchHeader {
        base_offset: envelope.offset,
        batch_length: envelope.size,
        partition_leader_epoch: -1,
        magic: envelope.magic,
        crc: envelope.crc,
        attributes: envelope.attributes,
        last_offset_delta: 0,
        base_timestamp: envelope.timestamp,
        max_timestamp: envelope.timestamp,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        records_count: if plain { 1 } else { -1 },
    })
}

/// The value of the compressed message `bytes`: its inner set, still compressed.
pub(super) fn wrapper_value(bytes: &[u8]) -> Result<&[u8], DecodeError> {
    let message = Message::parse(bytes, 0)?;
    message.value.ok_or_else(|| DecodeError::new("message.value", 0, DecodeErrorKind::Null))
}

/// Iterates over the inner messages of a wrapper, or over the one message that isn't one.
#[derive(Clone, Debug)]
pub(super) struct MessageSet<'a> {
    section: &'a [u8],
    position: usize,
    /// What the messages' offsets add to.
    base_offset: i64,
    /// The wrapper's time and type, if there is a wrapper.
    wrapper: Option<(i64, TimestampType)>,
    pub(super) check_crc: bool,
    done: bool,
}

impl<'a> MessageSet<'a> {
    /// The records of the message with this header: `section` is the message itself, or what a wrapper's value inflated to.
    pub(super) fn new(header: &BatchHeader, section: &'a [u8]) -> Result<Self, DecodeError> {
        let mut set = Self { section, position: 0, base_offset: 0, wrapper: None, check_crc: false, done: false };
        if header.attributes & 7 == 0 {
            return Ok(set);
        }
        set.wrapper = Some((header.max_timestamp, header.timestamp_type()));
        set.check_crc = true;
        let last = set.last_offset()?;
        let wrapper_offset = header.base_offset;
        if header.magic == 1 && wrapper_offset != 0 {
            set.base_offset = wrapper_offset.checked_sub(last).filter(|base| *base >= 0).ok_or_else(|| {
                let kind = DecodeErrorKind::Value {
                    value: wrapper_offset,
                    expected: "the offset of a compressed message is at least its last inner one",
                };
                DecodeError::new("message.offset", 0, kind)
            })?;
        }
        Ok(set)
    }

    /// Walks the inner set and returns the offset that its last message carries.
    fn last_offset(&self) -> Result<i64, DecodeError> {
        let mut position = 0;
        let mut last = None;
        while let Some(bytes) = next_message(self.section, position)? {
            last = bytes.first_chunk().map(|offset| i64::from_be_bytes(*offset));
            position += bytes.len();
        }
        let kind = DecodeErrorKind::Truncated { needed: MESSAGE_BYTES_MIN_V0, available: self.section.len() };
        last.ok_or_else(|| DecodeError::new("message", 0, kind))
    }

    pub(super) fn next(&mut self) -> Option<Result<Record<'a>, DecodeError>> {
        if self.done {
            return None;
        }
        let item = self.advance().transpose();
        self.done = self.wrapper.is_none() || !matches!(item, Some(Ok(_)));
        item
    }

    fn advance(&mut self) -> Result<Option<Record<'a>>, DecodeError> {
        let position = self.position;
        let Some(bytes) = next_message(self.section, position)? else { return Ok(None) };
        let message = Message::parse(bytes, position)?;
        self.position += bytes.len();
        let envelope = message.envelope;
        let fail = |field, at, kind| Err(DecodeError::new(field, position + at, kind));
        if self.check_crc {
            let computed = crc32(bytes.get(CRC_DATA..).unwrap_or_default());
            if computed != envelope.crc {
                return fail("message.crc", 12, DecodeErrorKind::Checksum { stored: envelope.crc, computed });
            }
        }
        if self.wrapper.is_some() && envelope.attributes & 7 != 0 {
            let value = (envelope.attributes & 7).into();
            return fail(
                "message.attributes",
                17,
                DecodeErrorKind::Value { value, expected: "no codec inside a codec" },
            );
        }
        let Some(offset) = self.base_offset.checked_add(envelope.offset) else {
            let kind = DecodeErrorKind::Value { value: envelope.offset, expected: "an offset has 64 bits" };
            return fail("message.offset", 0, kind);
        };
        let (timestamp, timestamp_type) = match self.wrapper {
            _ if envelope.magic == 0 => (-1, TimestampType::NoTimestamp),
            Some((timestamp, TimestampType::LogAppendTime)) => (timestamp, TimestampType::LogAppendTime),
            Some((_, timestamp_type)) => (envelope.timestamp, timestamp_type),
            None if envelope.attributes & 8 != 0 => (envelope.timestamp, TimestampType::LogAppendTime),
            None => (envelope.timestamp, TimestampType::CreateTime),
        };
        Ok(Some(Record {
            offset,
            timestamp,
            timestamp_type,
            key: message.key,
            value: message.value,
            headers: Headers::default(),
        }))
    }
}

/// The bytes of the message at `position` of an inner set; `None` at the set's end, or if the message is cut off there.
fn next_message(section: &[u8], position: usize) -> Result<Option<&[u8]>, DecodeError> {
    let left = section.get(position..).unwrap_or_default();
    let Some((envelope, _)) = left.split_first_chunk::<ENVELOPE_BYTES>() else { return Ok(None) };
    let mut fields = Fields(envelope);
    let (_offset, size) = (fields.i64(), fields.i32().unwrap_or_default());
    let min = MESSAGE_BYTES_MIN_V0 - ENVELOPE_BYTES;
    match usize::try_from(size) {
        Ok(length) if length >= min => Ok(length.checked_add(ENVELOPE_BYTES).and_then(|size| left.get(..size))),
        _ => {
            let kind = DecodeErrorKind::Value { value: size.into(), expected: "no message is shorter than 14 bytes" };
            Err(DecodeError::new("message.message_size", position + 8, kind))
        }
    }
}

/// What stands before a message's key.
#[derive(Clone, Copy, Debug)]
struct Envelope {
    offset: i64,
    size: i32,
    crc: u32,
    magic: i8,
    attributes: i16,
    /// -1 in magic 0.
    timestamp: i64,
}

impl Envelope {
    /// The envelope and the bytes after it.
    fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut fields = Fields(bytes);
        let (offset, size, crc, magic) = (fields.i64()?, fields.i32()?, fields.u32()?, fields.i8()?);
        let [attributes] = fields.take::<1>()?;
        let timestamp = if magic == 0 { -1 } else { fields.i64()? };
        Some((Self { offset, size, crc, magic, attributes: attributes.into(), timestamp }, fields.0))
    }
}

struct Message<'a> {
    envelope: Envelope,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// The message `bytes`, which begins at `position` of the section.
    fn parse(bytes: &'a [u8], position: usize) -> Result<Self, DecodeError> {
        let cut = |field, needed| {
            let kind = DecodeErrorKind::Truncated { needed, available: bytes.len() };
            DecodeError::new(field, position, kind)
        };
        let (envelope, mut rest) = Envelope::parse(bytes).ok_or_else(|| cut("message", MESSAGE_BYTES_MIN_V1))?;
        if !(0..=1).contains(&envelope.magic) {
            let kind = DecodeErrorKind::Value { value: envelope.magic.into(), expected: "a message has magic 0 or 1" };
            return Err(DecodeError::new("message.magic", position + 16, kind));
        }
        let mut take = |field| {
            let at = position + bytes.len() - rest.len();
            let (length, after) = rest.split_first_chunk::<4>().ok_or_else(|| {
                DecodeError::new(field, at, DecodeErrorKind::Truncated { needed: 4, available: rest.len() })
            })?;
            let length = i32::from_be_bytes(*length);
            let Ok(size) = usize::try_from(length) else {
                rest = after;
                return Ok(None);
            };
            let (taken, after) = after.split_at_checked(size).ok_or_else(|| {
                DecodeError::new(field, at, DecodeErrorKind::Length { length: length.into(), max: after.len() })
            })?;
            rest = after;
            Ok(Some(taken))
        };
        let (key, value) = (take("message.key")?, take("message.value")?);
        Ok(Self { envelope, key, value })
    }
}

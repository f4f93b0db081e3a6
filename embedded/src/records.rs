//! Offsets and timestamps of the records inside a batch, for look-ups by time. Nothing else here looks into records, and what is
//! served never comes from here.

use std::io::Read;

use bytes::Bytes;

use crate::batch::{BatchHeader, HEADER_BYTES};

/// Inflating stops here; a look-up by time in a batch that is larger answers the batch's first offset.
const INFLATED_BYTES_MAX: u64 = 256 << 20;
const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\x00";
const XERIAL_HEADER_BYTES: usize = 16;

/// Where a record is and when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordTime {
    pub(crate) offset: i64,
    /// Milliseconds since 1970.
    pub(crate) timestamp: i64,
}

/// The offset and time of each record. A batch that can't be read counts as one record at its base offset.
pub(crate) fn timestamps(header: &BatchHeader, batch: &Bytes) -> Vec<RecordTime> {
    let whole = vec![RecordTime { offset: header.base_offset, timestamp: header.max_timestamp }];
    if header.is_log_append_time() {
        return whole;
    }
    let section = batch.get(HEADER_BYTES..).unwrap_or_default();
    inflate(header.codec(), section).and_then(|records| walk(header, &records)).unwrap_or(whole)
}

fn walk(header: &BatchHeader, mut records: &[u8]) -> Option<Vec<RecordTime>> {
    let mut found = Vec::new();
    for _ in 0..header.records_count {
        let length = usize::try_from(varint(&mut records)?).ok()?;
        let (mut record, rest) = records.split_at_checked(length)?;
        records = rest;
        record = record.get(1..)?;
        let timestamp_delta = varint(&mut record)?;
        let offset_delta = varint(&mut record)?;
        found.push(RecordTime {
            offset: header.base_offset.checked_add(offset_delta)?,
            timestamp: header.base_timestamp.checked_add(timestamp_delta)?,
        });
    }
    Some(found)
}

/// A zigzag number of up to ten bytes, low bits first.
fn varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()));
        }
    }
    None
}

fn inflate(codec: i16, section: &[u8]) -> Option<Vec<u8>> {
    match codec {
        0 => Some(section.to_vec()),
        1 => read_all(flate2::read::MultiGzDecoder::new(section)),
        2 => snappy(section),
        3 => read_all(lz4_flex::frame::FrameDecoder::new(section)),
        4 => zstd(section),
        _ => None,
    }
}

fn read_all(reader: impl Read) -> Option<Vec<u8>> {
    let mut inflated = Vec::new();
    let read = reader.take(INFLATED_BYTES_MAX).read_to_end(&mut inflated).ok()?;
    (u64::try_from(read).ok()? < INFLATED_BYTES_MAX).then_some(inflated)
}

/// Java frames snappy blocks: magic, two version numbers, then blocks of i32 length and raw snappy. Others send one raw block.
fn snappy(section: &[u8]) -> Option<Vec<u8>> {
    let mut decoder = snap::raw::Decoder::new();
    let mut block = |bytes: &[u8]| {
        let claimed = u64::try_from(snap::raw::decompress_len(bytes).ok()?).ok()?;
        if claimed < INFLATED_BYTES_MAX { decoder.decompress_vec(bytes).ok() } else { None }
    };
    if !section.starts_with(XERIAL_MAGIC) {
        return block(section);
    }
    let mut blocks = section.get(XERIAL_HEADER_BYTES..)?;
    let mut inflated = Vec::new();
    while let Some((length, rest)) = blocks.split_first_chunk::<4>() {
        let (compressed, rest) = rest.split_at_checked(usize::try_from(i32::from_be_bytes(*length)).ok()?)?;
        inflated.extend(block(compressed)?);
        blocks = rest;
    }
    Some(inflated)
}

/// Frame after frame, since the decoder ends with the first one.
fn zstd(mut section: &[u8]) -> Option<Vec<u8>> {
    let mut inflated = Vec::new();
    while !section.is_empty() {
        let frame = ruzstd::decoding::StreamingDecoder::new(&mut section).ok()?;
        inflated.extend(read_all(frame)?);
    }
    Some(inflated)
}

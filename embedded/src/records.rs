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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Three records, 5 ms apart, at offsets 100, 101 and 103.
    const RECORDS: &[u8] = &[12, 0, 0, 0, 1, 1, 0, 12, 0, 10, 2, 1, 1, 0, 12, 0, 20, 6, 1, 1, 0];

    fn header(codec: i16) -> BatchHeader {
        BatchHeader {
            base_offset: 100,
            attributes: codec,
            last_offset_delta: 3,
            base_timestamp: 1_000,
            max_timestamp: 1_010,
            producer_id: -1,
            producer_epoch: -1,
            records_count: 3,
        }
    }

    fn times(codec: i16, section: &[u8]) -> Vec<(i64, i64)> {
        let batch = [&[0; HEADER_BYTES], section].concat();
        timestamps(&header(codec), &batch.into()).into_iter().map(|time| (time.offset, time.timestamp)).collect()
    }

    #[test]
    fn every_codec_is_looked_into() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(RECORDS).unwrap();
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz4.write_all(RECORDS).unwrap();
        let block = snap::raw::Encoder::new().compress_vec(RECORDS).unwrap();
        let length = u32::try_from(block.len()).unwrap().to_be_bytes();
        let framed = [XERIAL_MAGIC, &[0, 0, 0, 1, 0, 0, 0, 1], &length[..], &block].concat();
        let zstd = ruzstd::encoding::compress_to_vec(RECORDS, ruzstd::encoding::CompressionLevel::Fastest);
        let sections = [
            (0, RECORDS.to_vec()),
            (1, gzip.finish().unwrap()),
            (2, block),
            (2, framed),
            (3, lz4.finish().unwrap()),
            (4, zstd),
        ];
        for (codec, section) in sections {
            assert_eq!(times(codec, &section), [(100, 1_000), (101, 1_005), (103, 1_010)], "codec {codec}");
        }
    }

    #[test]
    fn a_batch_that_cannot_be_read_counts_as_its_first_offset() {
        for codec in 0..8 {
            assert_eq!(times(codec, b"no records"), [(100, 1_010)], "codec {codec}");
        }
        for cut in 0..RECORDS.len() {
            assert_eq!(times(0, &RECORDS[..cut]), [(100, 1_010)], "cut at {cut}");
        }
    }
}

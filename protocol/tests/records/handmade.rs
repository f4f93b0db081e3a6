//! Batches and messages made by hand, also such as no builder would make.

use bytes::{BufMut, BytesMut};
use ottla_protocol::record::{Headers, Record, RecordBatchBuilder, RecordBatchOptions, TimestampType};

/// A v2 batch of any header and payload, with the right CRC.
pub(crate) struct HandmadeBatch<'a> {
    pub(crate) base_offset: i64,
    pub(crate) last_offset_delta: i32,
    pub(crate) attributes: i16,
    pub(crate) records_count: i32,
    pub(crate) payload: &'a [u8],
}

impl HandmadeBatch<'_> {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut batch = BytesMut::new();
        batch.put_i64(self.base_offset);
        batch.put_i32(i32::try_from(self.payload.len()).expect("small") + 49);
        batch.put_i32(-1);
        batch.put_i8(2);
        batch.put_u32(0);
        batch.put_i16(self.attributes);
        batch.put_i32(self.last_offset_delta);
        batch.put_i64(1_700_000_000_000);
        batch.put_i64(1_700_000_000_000);
        batch.put_i64(-1);
        batch.put_i16(-1);
        batch.put_i32(-1);
        batch.put_i32(self.records_count);
        batch.put_slice(self.payload);
        let mut batch = batch.to_vec();
        fix_crc(&mut batch);
        batch
    }
}

/// Makes the CRC of a v2 batch right again.
pub(crate) fn fix_crc(batch: &mut [u8]) {
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}

/// A record with these fields and nothing else.
pub(crate) fn record<'a>(offset: i64, key: Option<&'a [u8]>, value: Option<&'a [u8]>) -> Record<'a> {
    Record {
        offset,
        timestamp: 1_700_000_000_000,
        timestamp_type: TimestampType::CreateTime,
        key,
        value,
        headers: Headers::default(),
    }
}

/// The record area of `values` as records with deltas 0, 1, 2…
pub(crate) fn section(values: &[&[u8]]) -> Vec<u8> {
    let mut builder = RecordBatchBuilder::new(RecordBatchOptions::new(0));
    for (offset, value) in (0..).zip(values) {
        builder.append(&record(offset, None, Some(value))).expect("small");
    }
    builder.build(&mut ottla_protocol::compression::Compressor::new()).expect("plain")[61..].to_vec()
}

/// A message of magic 0 or 1, with the right CRC.
pub(crate) fn message(magic: u8, offset: i64, attributes: u8, timestamp: i64, value: Option<&[u8]>) -> Vec<u8> {
    let mut body = BytesMut::new();
    body.put_u8(magic);
    body.put_u8(attributes);
    if magic == 1 {
        body.put_i64(timestamp);
    }
    body.put_i32(-1);
    match value {
        Some(value) => {
            body.put_i32(i32::try_from(value.len()).expect("small"));
            body.put_slice(value);
        }
        None => body.put_i32(-1),
    }
    let mut crc = flate2::Crc::new();
    crc.update(&body);
    let mut message = BytesMut::new();
    message.put_i64(offset);
    message.put_i32(i32::try_from(body.len()).expect("small") + 4);
    message.put_u32(crc.sum());
    message.put_slice(&body);
    message.to_vec()
}

/// What an LZ4 frame may have beyond what Java writes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lz4Frame {
    pub(crate) content_size: bool,
    pub(crate) block_checksums: bool,
    pub(crate) content_checksum: bool,
    pub(crate) stored_blocks: bool,
    pub(crate) block_size_id: u8,
    pub(crate) linked_blocks: bool,
    pub(crate) block_bytes: usize,
}

impl Lz4Frame {
    pub(crate) fn of(self, plain: &[u8]) -> Vec<u8> {
        let xxh32 = |bytes: &[u8]| twox_hash::XxHash32::oneshot(0, bytes);
        let mut frame = vec![0x04, 0x22, 0x4d, 0x18];
        frame.push(
            0x40 | u8::from(!self.linked_blocks) << 5
                | u8::from(self.block_checksums) << 4
                | u8::from(self.content_size) << 3
                | u8::from(self.content_checksum) << 2,
        );
        frame.push(self.block_size_id.max(4) << 4);
        if self.content_size {
            frame.extend((plain.len() as u64).to_le_bytes());
        }
        frame.push((xxh32(&frame[4..]) >> 8).to_le_bytes()[0]);
        for chunk in plain.chunks(self.block_bytes.max(1)) {
            let packed = if self.stored_blocks { chunk.to_vec() } else { lz4_flex::block::compress(chunk) };
            let size = u32::try_from(packed.len()).expect("small") | u32::from(self.stored_blocks) << 31;
            frame.extend(size.to_le_bytes());
            frame.extend(&packed);
            if self.block_checksums {
                frame.extend(xxh32(&packed).to_le_bytes());
            }
        }
        frame.extend([0; 4]);
        if self.content_checksum {
            frame.extend(xxh32(plain).to_le_bytes());
        }
        frame
    }
}

/// One zstd frame of one raw block: no content size, as Java's producer streams it.
pub(crate) fn zstd_raw_frame(plain: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    let header = u32::try_from(plain.len()).expect("small") << 3 | 1;
    frame.extend(&header.to_le_bytes()[..3]);
    frame.extend(plain);
    frame
}

/// A gzip member of stored deflate blocks.
pub(crate) fn gzip_stored_member(plain: &[u8]) -> Vec<u8> {
    let mut member = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let length = u16::try_from(plain.len()).expect("small");
    member.push(1);
    member.extend(length.to_le_bytes());
    member.extend((!length).to_le_bytes());
    member.extend(plain);
    let mut crc = flate2::Crc::new();
    crc.update(plain);
    member.extend(crc.sum().to_le_bytes());
    member.extend(u32::from(length).to_le_bytes());
    member
}

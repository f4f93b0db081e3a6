//! Compressing the record area of a batch, framed as Java's producer frames it.

use super::{Compression, lz4, snappy};
use crate::EncodeError;
use bytes::{BufMut, BytesMut};
use flate2::{Compress, Crc, FlushCompress, Status};
use std::fmt;

/// Java's default block of a snappy stream.
const SNAPPY_BLOCK_BYTES: usize = 32 << 10;
/// Java's block of an LZ4 frame, id 4.
const LZ4_BLOCK_BYTES: usize = 64 << 10;
/// Deflate's own default level, which is Kafka's for `compression.gzip.level`.
const GZIP_LEVEL: u32 = 6;
/// Kafka's default for `compression.zstd.level`.
#[cfg(feature = "zstd")]
const ZSTD_LEVEL: i32 = 3;

/// Compresses record areas; contexts and buffers are kept for the next one.
pub struct Compressor {
    gzip: Option<Compress>,
    snappy: snap::raw::Encoder,
    lz4: Option<lz4_flex::block::CompressTable>,
    #[cfg(feature = "zstd")]
    zstd: Option<zstd_safe::CCtx<'static>>,
    block: Vec<u8>,
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

impl Compressor {
    /// A compressor; nothing is allocated before it is used.
    pub fn new() -> Self {
        Self {
            gzip: None,
            snappy: snap::raw::Encoder::new(),
            lz4: None,
            #[cfg(feature = "zstd")]
            zstd: None,
            block: Vec::new(),
        }
    }

    /// Appends `plain`, compressed, to `out`.
    ///
    /// # Errors
    /// The codec failed, which for the codecs here means that memory ran out.
    pub fn compress(&mut self, compression: Compression, plain: &[u8], out: &mut BytesMut) -> Result<(), EncodeError> {
        let compressed = match compression {
            Compression::None => {
                out.put_slice(plain);
                Ok(())
            }
            Compression::Gzip => self.gzip(plain, out),
            Compression::Snappy => self.snappy(plain, out),
            Compression::Lz4 => self.lz4(plain, out),
            Compression::Zstd => self.zstd(plain, out),
        };
        compressed.map_err(|reason| EncodeError::Compression { codec: compression.name(), reason })
    }

    /// One member without a name, a time or, 255, an operating system.
    fn gzip(&mut self, plain: &[u8], out: &mut BytesMut) -> Result<(), String> {
        out.put_slice(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);
        let context = match &mut self.gzip {
            Some(context) => {
                context.reset();
                context
            }
            None => self.gzip.insert(Compress::new(flate2::Compression::new(GZIP_LEVEL), false)),
        };
        self.block.resize(LZ4_BLOCK_BYTES, 0);
        loop {
            let read = usize::try_from(context.total_in()).map_err(|error| error.to_string())?;
            let before = context.total_out();
            let status = context
                .compress(plain.get(read..).unwrap_or_default(), &mut self.block, FlushCompress::Finish)
                .map_err(|error| error.to_string())?;
            let written = usize::try_from(context.total_out() - before).map_err(|error| error.to_string())?;
            out.put_slice(self.block.get(..written).unwrap_or_default());
            if status == Status::StreamEnd {
                break;
            }
        }
        let mut crc = Crc::new();
        crc.update(plain);
        out.put_u32_le(crc.sum());
        let [a, b, c, d, ..] = (plain.len() as u64).to_le_bytes();
        out.put_slice(&[a, b, c, d]);
        Ok(())
    }

    /// xerial's stream, version 1.
    fn snappy(&mut self, plain: &[u8], out: &mut BytesMut) -> Result<(), String> {
        out.put_slice(&snappy::XERIAL_MAGIC);
        out.put_i32(1);
        out.put_i32(1);
        for chunk in plain.chunks(SNAPPY_BLOCK_BYTES) {
            self.block.resize(snap::raw::max_compress_len(chunk.len()), 0);
            let written = self.snappy.compress(chunk, &mut self.block).map_err(|error| error.to_string())?;
            out.put_i32(i32::try_from(written).map_err(|error| error.to_string())?);
            out.put_slice(self.block.get(..written).unwrap_or_default());
        }
        Ok(())
    }

    /// One frame of independent 64 KiB blocks, without checksums but the header's.
    fn lz4(&mut self, plain: &[u8], out: &mut BytesMut) -> Result<(), String> {
        let descriptor = [lz4::FLG_VERSION | lz4::FLG_INDEPENDENT, 4 << 4];
        out.put_slice(&lz4::MAGIC);
        out.put_slice(&descriptor);
        out.put_u8(lz4::header_checksum(&descriptor));
        let table = self.lz4.get_or_insert_with(lz4_flex::block::CompressTable::default);
        for chunk in plain.chunks(LZ4_BLOCK_BYTES) {
            self.block.resize(lz4_flex::block::get_maximum_output_size(chunk.len()), 0);
            let written = lz4_flex::block::compress_into_with_table(chunk, &mut self.block, table)
                .map_err(|error| error.to_string())?;
            // What doesn't shrink is stored.
            let (stored, data) = if written < chunk.len() {
                (0, self.block.get(..written).unwrap_or_default())
            } else {
                (lz4::STORED, chunk)
            };
            let size = u32::try_from(data.len()).map_err(|error| error.to_string())?;
            out.put_u32_le(size | stored);
            out.put_slice(data);
        }
        out.put_u32_le(0);
        Ok(())
    }

    #[cfg(feature = "zstd")]
    fn zstd(&mut self, plain: &[u8], out: &mut BytesMut) -> Result<(), String> {
        let context = match &mut self.zstd {
            Some(context) => context,
            None => self.zstd.insert(zstd_safe::CCtx::try_create().ok_or("no memory for a zstd context")?),
        };
        self.block.resize(zstd_safe::compress_bound(plain.len()), 0);
        let written = context
            .compress(self.block.as_mut_slice(), plain, ZSTD_LEVEL)
            .map_err(|code| zstd_safe::get_error_name(code).to_owned())?;
        out.put_slice(self.block.get(..written).unwrap_or_default());
        Ok(())
    }

    #[cfg(not(feature = "zstd"))]
    fn zstd(&mut self, plain: &[u8], out: &mut BytesMut) -> Result<(), String> {
        self.block.clear();
        ruzstd::encoding::compress(plain, &mut self.block, ruzstd::encoding::CompressionLevel::Fastest);
        out.put_slice(&self.block);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::Decompressor;

    const CODECS: [Compression; 5] =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

    #[test]
    fn what_is_compressed_is_inflated() {
        // Text, noise, nothing, and sizes around the blocks of the framings.
        let text: Vec<u8> = b"to be or not to be ".iter().copied().cycle().take(200_000).collect();
        let noise: Vec<u8> = (0..200_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let (mut compressor, mut decompressor) = (Compressor::new(), Decompressor::new());
        for compression in CODECS {
            for plain in [&text, &noise] {
                for length in [0, 1, 100, 32_767, 32_768, 32_769, 65_536, 65_537, 200_000] {
                    let mut compressed = BytesMut::new();
                    compressor.compress(compression, &plain[..length], &mut compressed).unwrap();
                    let inflated = decompressor.inflate(compression, &compressed).unwrap();
                    assert!(inflated == &plain[..length], "{compression}, {length} bytes");
                }
            }
        }
    }

    /// The beginnings of what Java's producer writes.
    #[test]
    fn the_framing_is_javas() {
        for (compression, beginning) in [
            (Compression::Gzip, &b"\x1f\x8b\x08\0\0\0\0\0\0\xff"[..]),
            (Compression::Snappy, b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"),
            (Compression::Lz4, b"\x04\x22\x4d\x18\x60\x40\x82"),
            (Compression::Zstd, b"\x28\xb5\x2f\xfd"),
        ] {
            let mut compressed = BytesMut::new();
            Compressor::new().compress(compression, b"some bytes", &mut compressed).unwrap();
            assert!(compressed.starts_with(beginning), "{compression}: {compressed:02x?}");
        }
    }
}

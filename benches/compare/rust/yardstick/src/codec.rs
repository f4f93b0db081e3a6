//! Inflating into one reused buffer, with contexts that are kept.

/// The decompressors. The buffer grows to the largest batch.
pub struct Decoder {
    out: Vec<u8>,
    gzip: libdeflater::Decompressor,
    snappy: snap::raw::Decoder,
    zstd: zstd_safe::DCtx<'static>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            out: vec![0; 1 << 20],
            gzip: libdeflater::Decompressor::new(),
            snappy: snap::raw::Decoder::new(),
            zstd: zstd_safe::DCtx::create(),
        }
    }
}

impl Decoder {
    /// A batch's records; `codec` is from its attributes.
    pub fn inflate<'a>(&'a mut self, codec: u8, payload: &'a [u8]) -> &'a [u8] {
        let length = match codec {
            0 => return payload,
            1 => self.gzip(payload),
            2 => self.snappy(payload),
            3 => self.lz4(payload),
            _ => self.zstd(payload),
        };
        &self.out[..length]
    }

    fn room(&mut self, length: usize) {
        if self.out.len() < length {
            self.out.resize(length.next_power_of_two(), 0);
        }
    }

    fn gzip(&mut self, payload: &[u8]) -> usize {
        let (_, size) = payload.split_last_chunk::<4>().expect("the size at the end");
        self.room(u32::from_le_bytes(*size) as usize);
        self.gzip.gzip_decompress(payload, &mut self.out).expect("gzip")
    }

    /// Java's framing: 16 bytes, then blocks, each after its length.
    fn snappy(&mut self, payload: &[u8]) -> usize {
        assert!(payload.starts_with(b"\x82SNAPPY\0"));
        let (mut rest, mut length) = (&payload[16..], 0);
        while let Some((size, after)) = rest.split_first_chunk::<4>() {
            let (block, after) = after.split_at(u32::from_be_bytes(*size) as usize);
            self.room(length + snap::raw::decompress_len(block).expect("snappy"));
            length += self.snappy.decompress(block, &mut self.out[length..]).expect("snappy");
            rest = after;
        }
        length
    }

    /// One frame of independent blocks; its checksums are not looked at.
    fn lz4(&mut self, payload: &[u8]) -> usize {
        let (flags, block_max) = (payload[4], 1 << (8 + 2 * (payload[5] >> 4)));
        let block_checksum = if flags & 0x10 == 0 { 0 } else { 4 };
        let (mut rest, mut length) = (&payload[if flags & 8 == 0 { 7 } else { 15 }..], 0);
        while let Some((size, after)) = rest.split_first_chunk::<4>() {
            let size = u32::from_le_bytes(*size);
            if size == 0 {
                break;
            }
            let (block, after) = after.split_at((size & 0x7fff_ffff) as usize);
            self.room(length + block_max);
            let out = &mut self.out[length..length + block_max];
            length += if size >> 31 == 1 {
                out[..block.len()].copy_from_slice(block);
                block.len()
            } else {
                lz4_block(block, out)
            };
            rest = &after[block_checksum..];
        }
        length
    }

    /// A streamed frame does not say its size: the buffer grows until it is enough.
    fn zstd(&mut self, payload: &[u8]) -> usize {
        self.room(payload.len() * 8);
        loop {
            match self.zstd.decompress(&mut self.out[..], payload) {
                Ok(length) => return length,
                Err(code) if self.out.len() >= 1 << 30 => panic!("{}", zstd_safe::get_error_name(code)),
                Err(_) => self.room(self.out.len() + 1),
            }
        }
    }
}

fn lz4_block(block: &[u8], out: &mut [u8]) -> usize {
    // SAFETY: both lengths are those of the slices, and the function keeps to them.
    let length = unsafe {
        lz4_sys::LZ4_decompress_safe(
            block.as_ptr().cast(),
            out.as_mut_ptr().cast(),
            block.len() as i32,
            out.len() as i32,
        )
    };
    usize::try_from(length).expect("lz4")
}

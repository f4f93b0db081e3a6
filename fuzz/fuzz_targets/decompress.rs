//! The compressed part of a batch: the first byte chooses the codec, the second one how much it may inflate to.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use ottla_protocol::compression::{Compression, Compressor, Decompressor};

/// The contexts of the codecs written in Rust. Those of zstd and libdeflate are C, and only the limit of the whole process counts them.
const CONTEXT_BYTES: u64 = 256 * 1024;

fuzz_target!(|data: &[u8]| {
    let [codec, limit, payload @ ..] = data else { return };
    let codecs = [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    let compression = codecs[usize::from(codec % 4)];
    let limit = 1_usize << (limit % 18);
    let mut decompressor = Decompressor::with_limit(limit);
    let mut first = None;
    let used = allocation_counter::measure(|| {
        first = decompressor.inflate(compression, payload).ok().map(<[u8]>::to_vec);
    });
    assert!(used.bytes_max <= 3 * limit as u64 + CONTEXT_BYTES, "{} bytes of memory for {limit}", used.bytes_max);
    let again = decompressor.inflate(compression, payload).ok().map(<[u8]>::to_vec);
    assert_eq!(first, again, "a used decompressor does the same");
    let Some(plain) = first else { return };
    assert!(plain.len() <= limit);
    let wider = Decompressor::with_limit(2 * limit).inflate(compression, payload).ok().map(<[u8]>::to_vec);
    assert_eq!(wider.as_ref(), Some(&plain), "with a larger limit");
    let mut compressed = BytesMut::new();
    Compressor::new().compress(compression, &plain, &mut compressed).expect("anything can be compressed");
    assert_eq!(decompressor.inflate(compression, &compressed), Ok(&plain[..]), "compressed again");
});

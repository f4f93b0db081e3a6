//! snappy, in the two framings that are found in topics.
//!
//! Java writes xerial's stream, read here as `SnappyInputStream` does: any version numbers, a header repeated where a block could begin
//! (two streams one after the other), and up to three stray bytes at the end:
//! ```text
//! 82 53 4e 41 50 50 59 00 | version i32 | compatible version i32 | { compressed length i32 | block }*
//! ```
//! librdkafka, Go clients and others write one bare block; it is what doesn't begin with the eight bytes above. All big-endian.

use super::{Failure, Scratch};
use snap::raw::{Decoder, decompress_len};

/// The first eight bytes of a stream in xerial's framing.
pub(super) const XERIAL_MAGIC: [u8; 8] = *b"\x82SNAPPY\0";

/// The header: the magic and two version numbers.
pub(super) const XERIAL_HEADER_BYTES: usize = 16;

/// No snappy data expands by more: its densest element is a 3-byte copy of 64 bytes.
const RATIO_MAX: usize = 22;

pub(super) fn inflate(decoder: &mut Decoder, payload: &[u8], out: &mut Scratch) -> Result<(), Failure> {
    if payload.len() < XERIAL_HEADER_BYTES || !payload.starts_with(&XERIAL_MAGIC) {
        return block(decoder, payload, out);
    }
    let mut rest = payload.get(XERIAL_HEADER_BYTES..).unwrap_or_default();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        if rest.starts_with(&XERIAL_MAGIC) {
            rest = rest.get(XERIAL_HEADER_BYTES..).ok_or_else(|| Failure::cut("a repeated header"))?;
            continue;
        }
        let length = i32::from_be_bytes(*length);
        let (data, after) = usize::try_from(length)
            .ok()
            .and_then(|length| after.split_at_checked(length))
            .ok_or_else(|| Failure::corrupt(format!("a block of {length} bytes, {} are left", after.len())))?;
        block(decoder, data, out)?;
        rest = after;
    }
    Ok(())
}

/// One block: a varint with the size of the output, then the elements.
fn block(decoder: &mut Decoder, data: &[u8], out: &mut Scratch) -> Result<(), Failure> {
    if data.is_empty() {
        return Err(Failure::corrupt("an empty block"));
    }
    let claimed = decompress_len(data).map_err(|error| Failure::corrupt(error.to_string()))?;
    if claimed > data.len().saturating_mul(RATIO_MAX) {
        return Err(Failure::corrupt(format!("a block of {} bytes can't hold {claimed}", data.len())));
    }
    out.reserve(claimed)?;
    let written = decoder.decompress(data, out.room()).map_err(|error| Failure::corrupt(error.to_string()))?;
    out.advance(written);
    Ok(())
}

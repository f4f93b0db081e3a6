//! The LZ4 frame format, as far as Kafka uses it.
//!
//! ```text
//! 04 22 4d 18 | FLG u8 | BD u8 | [content size u64] | HC u8 | { block size u32 | data | [xxh32 of the data u32] }* | 0 u32 | [xxh32 u32]
//!
//! FLG: bits 7-6 version = 1 | 5 blocks are independent | 4 block checksums | 3 content size | 2 content checksum | 0 dictionary id
//! BD:  bits 6-4 largest block: 4 = 64 KiB, 5 = 256 KiB, 6 = 1 MiB, 7 = 4 MiB
//! HC:  second byte of the xxh32 of the bytes from FLG on.    Block size: bit 31 set if the block is stored as it is.
//! ```
//! All little-endian. Kafka's rules, which are Java's (KIP-57): blocks are independent (linked ones are one clear error); one frame, and
//! what follows its end mark is ignored; the end mark must be there; the content size is not looked at. The header checksum of magic 0
//! is not looked at either, since its writers hashed the four magic bytes too. Beyond Java, a content checksum is verified if there is one.
//!
//! Blocks are decoded straight into the scratch.

use super::{Failure, Scratch};
use twox_hash::XxHash32;

/// The first four bytes of a frame.
pub(super) const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

pub(super) const FLG_VERSION: u8 = 0x40;
pub(super) const FLG_INDEPENDENT: u8 = 0x20;
const FLG_BLOCK_CHECKSUM: u8 = 0x10;
const FLG_CONTENT_SIZE: u8 = 0x08;
const FLG_CONTENT_CHECKSUM: u8 = 0x04;
const FLG_DICTIONARY: u8 = 0x01;

/// Bit 31 of a block's size: the block is stored as it is.
pub(super) const STORED: u32 = 0x8000_0000;

/// No LZ4 block expands by more: each byte of a long match length stands for 255 bytes.
const RATIO_MAX: usize = 256;

/// Whether the checksum of the frame's header counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeaderChecksum {
    Verified,
    Ignored,
}

/// The header checksum over `descriptor`, the bytes from FLG up to it.
pub(super) fn header_checksum(descriptor: &[u8]) -> u8 {
    let [_, second, ..] = XxHash32::oneshot(0, descriptor).to_le_bytes();
    second
}

pub(super) fn inflate(payload: &[u8], header: HeaderChecksum, out: &mut Scratch) -> Result<(), Failure> {
    let cut = || Failure::cut("the frame header");
    let descriptor = payload
        .strip_prefix(&MAGIC)
        .ok_or_else(|| Failure::corrupt("it doesn't begin with the bytes of an LZ4 frame, 04 22 4d 18"))?;
    let (&[flags, block_descriptor], mut rest) = descriptor.split_first_chunk::<2>().ok_or_else(cut)?;
    if flags & 0xc0 != FLG_VERSION {
        return Err(Failure::corrupt(format!("version {} of the frame format", flags >> 6)));
    }
    if flags & FLG_DICTIONARY != 0 {
        return Err(Failure::corrupt("it needs a dictionary"));
    }
    if flags & FLG_INDEPENDENT == 0 {
        return Err(Failure::corrupt("its blocks are linked; Kafka's are independent"));
    }
    let block_bytes_max = match block_descriptor >> 4 & 7 {
        id @ 4..=7 => 1usize << (8 + 2 * id),
        id => return Err(Failure::corrupt(format!("block size id {id} isn't 4 to 7"))),
    };
    if flags & FLG_CONTENT_SIZE != 0 {
        rest = rest.get(8..).ok_or_else(cut)?;
    }
    let described = descriptor.get(..descriptor.len() - rest.len()).unwrap_or_default();
    let (&stored, mut rest) = rest.split_first().ok_or_else(cut)?;
    if header == HeaderChecksum::Verified {
        let computed = header_checksum(described);
        if stored != computed {
            return Err(Failure::Checksum { stored: stored.into(), computed: computed.into() });
        }
    }
    let content_start = out.length();
    loop {
        let size = take_u32(&mut rest, "a block size or the end mark")?;
        if size == 0 {
            break;
        }
        let length = (size & !STORED) as usize;
        if length > block_bytes_max {
            return Err(Failure::corrupt(format!("a block of {length} bytes, the frame allows {block_bytes_max}")));
        }
        let (block, after) = rest.split_at_checked(length).ok_or_else(|| Failure::cut("a block"))?;
        rest = after;
        if flags & FLG_BLOCK_CHECKSUM != 0 {
            verify(take_u32(&mut rest, "a block checksum")?, block)?;
        }
        if size & STORED != 0 {
            out.extend(block)?;
        } else {
            inflate_block(block, block_bytes_max, out)?;
        }
    }
    if flags & FLG_CONTENT_CHECKSUM != 0 {
        verify(take_u32(&mut rest, "the content checksum")?, out.filled_from(content_start))?;
    }
    Ok(())
}

fn inflate_block(block: &[u8], block_bytes_max: usize, out: &mut Scratch) -> Result<(), Failure> {
    let output_max = block.len().saturating_mul(RATIO_MAX).min(block_bytes_max);
    // At the limit's edge a block gets what room is left; if it needs more, that is the limit's error and not the block's.
    let left = out.max() - out.length();
    out.reserve(output_max.min(left))?;
    let limited = left < output_max;
    let room = out.room();
    let room_length = room.len().min(output_max);
    let room = room.get_mut(..room_length).unwrap_or_default();
    match lz4_flex::block::decompress_into(block, room) {
        Ok(written) => {
            out.advance(written);
            Ok(())
        }
        Err(lz4_flex::block::DecompressError::OutputTooSmall { .. }) if limited => {
            Err(Failure::Limit { max: out.max() })
        }
        Err(error) => Err(Failure::corrupt(error.to_string())),
    }
}

fn verify(stored: u32, bytes: &[u8]) -> Result<(), Failure> {
    let computed = XxHash32::oneshot(0, bytes);
    if stored == computed { Ok(()) } else { Err(Failure::Checksum { stored, computed }) }
}

fn take_u32(rest: &mut &[u8], what: &str) -> Result<u32, Failure> {
    let (bytes, after) = rest.split_first_chunk::<4>().ok_or_else(|| Failure::cut(what))?;
    *rest = after;
    Ok(u32::from_le_bytes(*bytes))
}

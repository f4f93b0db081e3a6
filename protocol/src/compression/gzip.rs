//! gzip (RFC 1952): members one after the other, each a header, deflate data and a trailer.
//!
//! ```text
//! 1f 8b | 08 | flags u8 | mtime u32 | xfl u8 | os u8 | [FEXTRA: u16 length, bytes] | [FNAME: bytes, 0] | [FCOMMENT: bytes, 0]
//! [FHCRC: u16, low half of the CRC-32 of the header] | deflate data | CRC-32 of the output u32 | length of the output mod 2^32, u32
//! ```
//! All little-endian. The header is parsed here and the deflate data inflated raw, since a raw context can be reset without being built
//! anew. As Java's `GZIPInputStream`: bytes after a good member that don't begin another one are ignored, whatever they are.

use super::{Failure, Scratch};
use flate2::{Crc, Decompress, FlushDecompress, Status};

const FHCRC: u8 = 2;
const FEXTRA: u8 = 4;
const FNAME: u8 = 8;
const FCOMMENT: u8 = 16;

/// No member, not even an empty one, is this short: 10 bytes of header, 2 of data, 8 of trailer.
const MEMBER_BYTES_MIN: usize = 20;

/// The inflate context, built at the first use.
#[derive(Default)]
pub(super) struct Gzip {
    context: Option<Decompress>,
}

impl Gzip {
    pub(super) fn inflate(&mut self, payload: &[u8], out: &mut Scratch) -> Result<(), Failure> {
        let mut rest = header(payload)?;
        loop {
            rest = self.member(rest, out)?;
            if rest.len() < MEMBER_BYTES_MIN {
                return Ok(());
            }
            match header(rest) {
                Ok(data) => rest = data,
                Err(_) => return Ok(()),
            }
        }
    }

    /// Inflates the member whose deflate data begins at `data`, checks its trailer, and returns what follows it.
    fn member<'p>(&mut self, mut data: &'p [u8], out: &mut Scratch) -> Result<&'p [u8], Failure> {
        let context = match &mut self.context {
            Some(context) => {
                context.reset(false);
                context
            }
            None => self.context.insert(Decompress::new(false)),
        };
        let start = out.length();
        loop {
            let (read_before, written_before) = (context.total_in(), context.total_out());
            let status = context
                .decompress(data, out.room(), FlushDecompress::Finish)
                .map_err(|error| Failure::corrupt(error.message().unwrap_or("invalid deflate data")))?;
            let read = usize::try_from(context.total_in() - read_before).unwrap_or(usize::MAX);
            let written = usize::try_from(context.total_out() - written_before).unwrap_or(usize::MAX);
            out.advance(written);
            data = data.get(read..).unwrap_or_default();
            match status {
                Status::StreamEnd => break,
                // Room is left, so it is the input that ran out.
                _ if !out.room().is_empty() => return Err(Failure::cut("the deflate data")),
                _ => out.grow()?,
            }
        }
        let (trailer, rest) = data.split_first_chunk::<8>().ok_or_else(|| Failure::cut("the trailer"))?;
        let [c0, c1, c2, c3, l0, l1, l2, l3] = *trailer;
        let stored = u32::from_le_bytes([c0, c1, c2, c3]);
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        let output = out.filled_from(start);
        let computed = crc32(output);
        if stored != computed {
            return Err(Failure::Checksum { stored, computed });
        }
        if u64::from(length) != output.len() as u64 & 0xffff_ffff {
            return Err(Failure::corrupt(format!("the trailer says {length} bytes, there are {}", output.len())));
        }
        Ok(rest)
    }
}

/// Skips a member's header, and returns what follows it.
fn header(member: &[u8]) -> Result<&[u8], Failure> {
    let cut = || Failure::cut("the member header");
    let (&[m0, m1, method, flags, ..], mut rest) = member.split_first_chunk::<10>().ok_or_else(cut)?;
    if [m0, m1] != [0x1f, 0x8b] {
        return Err(Failure::corrupt("it doesn't begin with 1f 8b"));
    }
    if method != 8 {
        return Err(Failure::corrupt(format!("compression method {method} isn't deflate")));
    }
    if flags & FEXTRA != 0 {
        let (length, after) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
        rest = after.get(usize::from(u16::from_le_bytes(*length))..).ok_or_else(cut)?;
    }
    for text in [FNAME, FCOMMENT] {
        if flags & text != 0 {
            let end = memchr::memchr(0, rest).ok_or_else(cut)?;
            rest = rest.get(end + 1..).ok_or_else(cut)?;
        }
    }
    if flags & FHCRC != 0 {
        let (stored, after) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
        let stored = u32::from(u16::from_le_bytes(*stored));
        let computed = crc32(member.get(..member.len() - rest.len()).unwrap_or_default()) & 0xffff;
        if stored != computed {
            return Err(Failure::Checksum { stored, computed });
        }
        rest = after;
    }
    Ok(rest)
}

/// CRC-32 with zlib's polynomial.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

//! gzip (RFC 1952): members one after the other, each a header, deflate data and a trailer.
//!
//! ```text
//! 1f 8b | 08 | flags u8 | mtime u32 | xfl u8 | os u8 | [FEXTRA: u16 length, bytes] | [FNAME: bytes, 0] | [FCOMMENT: bytes, 0]
//! [FHCRC: u16, low half of the CRC-32 of the header] | deflate data | CRC-32 of the output u32 | length of the output mod 2^32, u32
//! ```
//! All little-endian. The header is parsed here and the deflate data inflated raw, since a raw context can be reset without being built
//! anew. As Java's `GZIPInputStream`: bytes after a good member that don't begin another one are ignored, whatever they are.
//!
//! With the feature `libdeflate` the C library inflates what is one plain member, and what is here the rest.

#[cfg(feature = "libdeflate")]
use super::gzip_c::OneMember;
use super::{Failure, Scratch};
use flate2::{Crc, Decompress, FlushDecompress, Status};

const FHCRC: u8 = 2;
const FEXTRA: u8 = 4;
const FNAME: u8 = 8;
const FCOMMENT: u8 = 16;

/// No member, not even an empty one, is this short: 10 bytes of header, 2 of data, 8 of trailer.
const MEMBER_BYTES_MIN: usize = 20;

/// The inflate contexts, built at the first use.
#[derive(Default)]
pub(super) struct Gzip {
    #[cfg(feature = "libdeflate")]
    one_member: OneMember,
    context: Option<Decompress>,
}

impl Gzip {
    pub(super) fn inflate(&mut self, payload: &[u8], out: &mut Scratch) -> Result<(), Failure> {
        #[cfg(feature = "libdeflate")]
        if self.one_member.inflate(payload, out) {
            return Ok(());
        }
        self.members(payload, out)
    }

    /// Inflates one member after the other.
    fn members(&mut self, payload: &[u8], out: &mut Scratch) -> Result<(), Failure> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A member with these flags and header fields, of one stored block with `abc`.
    fn member(flags: u8, fields: &[u8]) -> Vec<u8> {
        let mut member = vec![0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 0xff];
        member.extend(fields);
        if flags & FHCRC != 0 {
            let crc = crc32(&member).to_le_bytes();
            member.extend(&crc[..2]);
        }
        member.extend([1, 3, 0, 0xfc, 0xff, b'a', b'b', b'c']);
        member.extend(crc32(b"abc").to_le_bytes());
        member.extend(3u32.to_le_bytes());
        member
    }

    fn inflated(payload: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut out = Scratch::new(1 << 20);
        Gzip::default().inflate(payload, &mut out).map(|()| out.filled().to_vec())
    }

    #[test]
    fn every_optional_header_field_is_skipped() {
        for (flags, fields) in [
            (FEXTRA, &b"\x02\0xy"[..]),
            (FNAME, b"name\0"),
            (FCOMMENT, b"\0"),
            (FHCRC, b""),
            (FEXTRA | FNAME | FCOMMENT | FHCRC, b"\0\0n\0c\0"),
        ] {
            let member = member(flags, fields);
            assert_eq!(inflated(&member).as_deref(), Ok(&b"abc"[..]), "flags {flags}");
            for length in 0..member.len() {
                assert!(inflated(&member[..length]).is_err(), "flags {flags} cut to {length}");
            }
        }
    }

    #[test]
    fn a_wrong_header_checksum_is_an_error() {
        let mut member = member(FHCRC, b"");
        member[10] ^= 1;
        assert!(matches!(inflated(&member), Err(Failure::Checksum { .. })));
    }

    #[test]
    fn what_follows_a_good_member_and_is_none_is_ignored() {
        for tail in [&b""[..], &[0; 40], b"\x1f", b"not a gzip member, but long enough to be one"] {
            assert_eq!(inflated(&[&member(0, b""), tail].concat()).as_deref(), Ok(&b"abc"[..]), "{tail:?}");
        }
        let mut second = member(0, b"");
        assert_eq!(inflated(&[member(0, b""), second.clone()].concat()).as_deref(), Ok(&b"abcabc"[..]));
        let at = second.len() - 8;
        second[at] ^= 1;
        let damaged = inflated(&[member(0, b""), second].concat());
        assert!(matches!(damaged, Err(Failure::Checksum { .. })), "a second member counts: {damaged:?}");
    }
    /// Whichever decoder a payload gets to, the answer is that of the one that takes all.
    #[test]
    #[cfg(feature = "libdeflate")]
    fn both_decoders_agree() {
        let plain: Vec<u8> = (0..300_000u32).flat_map(|i| format!("{} ", i % 1009).into_bytes()).collect();
        let compressed = |plain: &[u8]| {
            let mut out = bytes::BytesMut::new();
            let compression = crate::compression::Compression::Gzip;
            crate::compression::Compressor::new().compress(compression, plain, &mut out).unwrap();
            out.to_vec()
        };
        let (large, small) = (compressed(&plain), compressed(b"abcabcabcabcabc"));
        let mut payloads = vec![
            vec![],
            compressed(b""),
            large.clone(),
            [&small[..], &small].concat(),
            [&large[..], &small, &large].concat(),
            [&small[..], b"\x1f\x8b\x08\0 not a member, though it begins like one"].concat(),
            [&small[..], b"\x1f\x8b\x08"].concat(),
            [&small[..], &small[small.len() - 8..]].concat(),
            [&member(FNAME, b"name\0")[..], &small].concat(),
        ];
        for length in 0..small.len() {
            payloads.push(small[..length].to_vec());
        }
        for bit in 0..small.len() * 8 {
            let mut damaged = small.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            payloads.push(damaged);
        }
        let mut gzip = Gzip::default();
        for payload in payloads {
            for max in [0, 1, 14, 15, 16, 70_000, plain.len() - 1, plain.len(), 1 << 24] {
                let (mut fast, mut slow) = (Scratch::new(max), Scratch::new(max));
                let inflated = gzip.inflate(&payload, &mut fast).map(|()| fast.filled());
                let expected = gzip.members(&payload, &mut slow).map(|()| slow.filled());
                assert!(
                    inflated == expected,
                    "at most {max} of {payload:02x?}: {:?}, {:?}",
                    inflated.err(),
                    expected.err()
                );
            }
        }
    }

    /// A room that was too small is forgotten, and the room that it grew to is bounded.
    #[test]
    fn a_bomb_ends_at_the_limit() {
        let mut bomb = bytes::BytesMut::new();
        let compression = crate::compression::Compression::Gzip;
        crate::compression::Compressor::new().compress(compression, &vec![0; 1 << 24], &mut bomb).unwrap();
        let mut out = Scratch::new(1 << 22);
        assert_eq!(Gzip::default().inflate(&bomb, &mut out), Err(Failure::Limit { max: 1 << 22 }));
        assert!(out.allocated() <= 1 << 22);
        let mut out = Scratch::new(1 << 24);
        assert_eq!(Gzip::default().inflate(&bomb, &mut out), Ok(()));
        assert!(out.filled() == vec![0; 1 << 24]);
    }
}

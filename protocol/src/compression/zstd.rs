//! zstd (KIP-110): frames one after the other, empty and skippable ones among them.
//!
//! ```text
//! 28 b5 2f fd | descriptor u8 | [window u8] | [dictionary id 0, 1, 2 or 4] | [content size 0, 1, 2, 4 or 8] | blocks | [xxh64, low u32]
//! 5? 2a 4d 18 | length u32 | bytes                                                                    a skippable frame
//! ```
//! All little-endian. The frames are told apart here, with the checks that a decoder may leave out: the window is at most 128 MiB as in
//! Kafka's reader, there is no dictionary, and nothing follows the last frame. Java's producer streams, so its frames have no content
//! size; where there is one it is a claim. The blocks are the decoder's: the C library, or a pure Rust one without the `zstd` feature.

use super::{Failure, Scratch};

#[cfg(feature = "zstd")]
use super::zstd_c::Frames;
#[cfg(not(feature = "zstd"))]
use super::zstd_rust::Frames;

const MAGIC: u32 = 0xfd2f_b528;
const SKIPPABLE_MAGIC: u32 = 0x184d_2a50;
/// zstd's own default for streams of unknown origin, and Java's.
const WINDOW_BYTES_MAX: u64 = 1 << 27;

/// The decoder with its context, built at the first use.
#[derive(Default)]
pub(super) struct Zstd {
    frames: Frames,
}

impl Zstd {
    pub(super) fn inflate(&mut self, payload: &[u8], out: &mut Scratch) -> Result<(), Failure> {
        let mut rest = payload;
        while !rest.is_empty() {
            let (magic, after) = take_u32(rest).ok_or_else(|| Failure::cut("a frame's magic"))?;
            if magic & !0xf == SKIPPABLE_MAGIC {
                rest = take_u32(after)
                    .and_then(|(length, after)| after.get(length as usize..))
                    .ok_or_else(|| Failure::cut("a skippable frame"))?;
            } else if magic == MAGIC {
                let window = check_header(after)?;
                let read = self.frames.inflate(rest, window, out)?;
                rest = rest.get(read..).unwrap_or_default();
            } else {
                return Err(Failure::corrupt(format!("no frame begins with {magic:08x}")));
            }
        }
        Ok(())
    }
}

/// Checks a frame's header, which begins at `header`, after the magic, and returns the window in bytes.
fn check_header(header: &[u8]) -> Result<u64, Failure> {
    let cut = || Failure::cut("a frame header");
    let (&descriptor, mut rest) = header.split_first().ok_or_else(cut)?;
    if descriptor & 0x08 != 0 {
        return Err(Failure::corrupt("a reserved bit of the frame header is set"));
    }
    let single_segment = descriptor & 0x20 != 0;
    let mut window = 0;
    if !single_segment {
        let (&window_descriptor, after) = rest.split_first().ok_or_else(cut)?;
        let base = 1u64 << (10 + (window_descriptor >> 3));
        window = base + base / 8 * u64::from(window_descriptor & 7);
        rest = after;
    }
    let (dictionary, rest) = take_le(rest, [0, 1, 2, 4], descriptor & 3).ok_or_else(cut)?;
    if dictionary != 0 {
        return Err(Failure::corrupt(format!("it needs dictionary {dictionary}")));
    }
    let widths = [usize::from(single_segment), 2, 4, 8];
    let (content, _) = take_le(rest, widths, descriptor >> 6).ok_or_else(cut)?;
    if single_segment {
        window = if descriptor >> 6 == 1 { content + 256 } else { content };
    }
    if window > WINDOW_BYTES_MAX {
        return Err(Failure::corrupt(format!("a window of {window} bytes, the most is {WINDOW_BYTES_MAX}")));
    }
    Ok(window)
}

/// An unsigned number of `widths[code]` bytes.
fn take_le(bytes: &[u8], widths: [usize; 4], code: u8) -> Option<(u64, &[u8])> {
    let width = *widths.get(usize::from(code))?;
    let (number, rest) = bytes.split_at_checked(width)?;
    Some((number.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)), rest))
}

fn take_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inflated(payload: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut out = Scratch::new(1 << 20);
        Zstd::default().inflate(payload, &mut out).map(|()| out.filled().to_vec())
    }

    /// A frame with this descriptor and header, and one raw block with `abc`.
    fn frame(descriptor: u8, header: &[u8]) -> Vec<u8> {
        [&MAGIC.to_le_bytes()[..], &[descriptor], header, &[3 << 3 | 1, 0, 0], b"abc"].concat()
    }

    #[test]
    fn headers_of_every_form_are_understood() {
        for (what, frame) in [
            ("a window", frame(0x00, &[0x58])),
            ("a window of 128 MiB", frame(0x00, &[17 << 3])),
            ("a size of one byte", frame(0x20, &[3])),
            ("a window and a size of four bytes", frame(0x80, &[0x58, 3, 0, 0, 0])),
            ("a size of eight bytes", frame(0xe0, &[3, 0, 0, 0, 0, 0, 0, 0])),
            ("dictionary 0", frame(0x21, &[0, 3])),
        ] {
            // The pure Rust decoder wants a window within the limit.
            let inflated = inflated(&frame);
            let limited = cfg!(not(feature = "zstd")) && what.ends_with("MiB");
            assert_eq!(inflated.as_deref().ok(), (!limited).then_some(&b"abc"[..]), "{what}: {inflated:?}");
        }
    }

    #[test]
    fn what_kafka_does_not_read_is_an_error() {
        for (what, payload) in [
            ("a window over 128 MiB", frame(0x00, &[17 << 3 | 1])),
            ("a single segment over 128 MiB", frame(0xa0, &[1, 0, 0, 8])),
            ("a dictionary", frame(0x21, &[7, 3])),
            ("a reserved bit", frame(0x08, &[0x58])),
            ("a size that is not so", frame(0x20, &[4])),
            ("a cut magic", b"\x28\xb5\x2f".to_vec()),
            ("something else", b"plain text".to_vec()),
            ("junk after a frame", [frame(0x20, &[3]), b"junk".to_vec()].concat()),
            ("a cut skippable frame", b"\x5f\x2a\x4d\x18\x09\0\0\0eight by".to_vec()),
        ] {
            assert!(matches!(inflated(&payload), Err(Failure::Corrupt(_))), "{what}: {:?}", inflated(&payload));
        }
    }

    #[test]
    fn skippable_and_empty_frames_are_stepped_over() {
        let skippable = b"\x5f\x2a\x4d\x18\x03\0\0\0xyz".to_vec();
        let empty = [&MAGIC.to_le_bytes()[..], &[0x20, 0, 1, 0, 0]].concat();
        let payload = [skippable.clone(), frame(0x20, &[3]), empty, skippable, frame(0x00, &[0x58])].concat();
        assert_eq!(inflated(&payload).as_deref(), Ok(&b"abcabc"[..]));
        assert_eq!(inflated(&[]).as_deref(), Ok(&b""[..]), "nothing is no frame");
    }
}

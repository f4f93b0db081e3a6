//! zstd frames in pure Rust, for builds without a C compiler. Three to four times slower than the C library.
//!
//! The decoder keeps a window of its own, beside the scratch: as much output as the frame's window says, and no more than there is. So
//! that it stays in proportion, a window may not be larger than what a batch may inflate to.

use super::{Failure, Scratch};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::Read;

/// How much is decoded before it is moved to the scratch.
const STEP_BYTES: usize = 128 << 10;

/// A window that is always allowed, and up to which the decoder is kept for the next frame: the largest of zstd's levels up to 19.
/// (A reused decoder reserves the window beforehand, a new one only takes what it fills.)
const KEPT_WINDOW_BYTES: u64 = 8 << 20;

#[derive(Default)]
pub(super) struct Frames {
    kept: Option<FrameDecoder>,
}

impl Frames {
    /// Inflates the frame that `input` begins with, and returns how many bytes it has.
    pub(super) fn inflate(&mut self, input: &[u8], window: u64, out: &mut Scratch) -> Result<usize, Failure> {
        if window <= KEPT_WINDOW_BYTES {
            return inflate(self.kept.get_or_insert_with(decoder), input, out);
        }
        if window > out.max() as u64 {
            return Err(Failure::Limit { max: out.max() });
        }
        inflate(&mut decoder(), input, out)
    }
}

fn decoder() -> FrameDecoder {
    let mut decoder = FrameDecoder::new();
    // The window has been checked already.
    decoder.set_max_window_size(u64::MAX);
    decoder
}

fn inflate(decoder: &mut FrameDecoder, input: &[u8], out: &mut Scratch) -> Result<usize, Failure> {
    let mut rest = input;
    let start = out.length();
    decoder.reset(&mut rest).map_err(|error| Failure::corrupt(error.to_string()))?;
    loop {
        decoder
            .decode_blocks(&mut rest, BlockDecodingStrategy::UptoBytes(STEP_BYTES))
            .map_err(|error| Failure::corrupt(error.to_string()))?;
        while decoder.can_collect() > 0 {
            if out.room().is_empty() {
                out.grow()?;
            }
            let written = decoder.read(out.room()).map_err(|error| Failure::corrupt(error.to_string()))?;
            out.advance(written);
        }
        if decoder.is_finished() {
            break;
        }
    }
    // The decoder computes the checksum and leaves it to us to compare.
    if let (Some(stored), Some(computed)) = (decoder.get_checksum_from_data(), decoder.get_calculated_checksum())
        && stored != computed
    {
        return Err(Failure::Checksum { stored, computed });
    }
    let written = (out.length() - start) as u64;
    let claimed = decoder.content_size();
    if claimed != 0 && claimed != written {
        return Err(Failure::corrupt(format!("the frame says {claimed} bytes, there are {written}")));
    }
    Ok(input.len() - rest.len())
}

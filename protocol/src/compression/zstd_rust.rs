//! zstd frames in pure Rust, for builds without a C compiler. Three to four times slower than the C library.

use super::{Failure, Scratch};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::Read;

/// How much is decoded before it is moved to the scratch.
const STEP_BYTES: usize = 128 << 10;

pub(super) struct Frames {
    decoder: FrameDecoder,
}

impl Default for Frames {
    fn default() -> Self {
        let mut decoder = FrameDecoder::new();
        // The caller has checked the window against its own limit.
        decoder.set_max_window_size(u64::MAX);
        Self { decoder }
    }
}

impl Frames {
    /// Inflates the frame that `input` begins with, and returns how many bytes it has.
    pub(super) fn inflate(&mut self, input: &[u8], out: &mut Scratch) -> Result<usize, Failure> {
        let mut rest = input;
        let start = out.length();
        self.decoder.reset(&mut rest).map_err(|error| Failure::corrupt(error.to_string()))?;
        loop {
            self.decoder
                .decode_blocks(&mut rest, BlockDecodingStrategy::UptoBytes(STEP_BYTES))
                .map_err(|error| Failure::corrupt(error.to_string()))?;
            while self.decoder.can_collect() > 0 {
                if out.room().is_empty() {
                    out.grow()?;
                }
                let written = self.decoder.read(out.room()).map_err(|error| Failure::corrupt(error.to_string()))?;
                out.advance(written);
            }
            if self.decoder.is_finished() {
                break;
            }
        }
        // The decoder computes the checksum and leaves it to us to compare.
        if let (Some(stored), Some(computed)) =
            (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum())
        {
            if stored != computed {
                return Err(Failure::Checksum { stored, computed });
            }
        }
        let written = (out.length() - start) as u64;
        let claimed = self.decoder.content_size();
        if claimed != 0 && claimed != written {
            return Err(Failure::corrupt(format!("the frame says {claimed} bytes, there are {written}")));
        }
        Ok(input.len() - rest.len())
    }
}

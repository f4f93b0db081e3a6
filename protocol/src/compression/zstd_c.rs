//! zstd frames by the C library, with one context for all frames.
//!
//! A frame is decoded in one call straight into the scratch: the streaming interface would first write to a window of its own and copy.
//! If the room was too small the frame is decoded again into twice as much; once the scratch has grown that doesn't happen.

use super::{Failure, Scratch};
use zstd_safe::{DCtx, get_error_name, is_error_kind, zstd_sys::ZSTD_ErrorCode};

#[derive(Default)]
pub(super) struct Frames {
    context: Option<DCtx<'static>>,
}

impl Frames {
    /// Inflates the frame that `input` begins with, and returns how many bytes it has. The output is the window, whatever its size.
    pub(super) fn inflate(&mut self, input: &[u8], _window: u64, out: &mut Scratch) -> Result<usize, Failure> {
        let context = match &mut self.context {
            Some(context) => context,
            None => {
                self.context.insert(DCtx::try_create().ok_or_else(|| Failure::corrupt("no memory for a zstd context"))?)
            }
        };
        let length = zstd_safe::find_frame_compressed_size(input).map_err(describe)?;
        let frame = input.get(..length).ok_or_else(|| Failure::cut("a frame"))?;
        out.reserve_first(frame.len());
        loop {
            match context.decompress(out.room(), frame) {
                Ok(written) => {
                    out.advance(written);
                    return Ok(length);
                }
                Err(code) if is_error_kind(code, ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall) => out.grow()?,
                Err(code) => return Err(describe(code)),
            }
        }
    }
}

fn describe(code: usize) -> Failure {
    Failure::corrupt(get_error_name(code))
}

//! Requests or responses of one API, whole frames in a row, read one at a time.

use super::{LENGTH_BYTES_MAX, Output};
use crate::failure::Failure;
use ottla_protocol::{
    ApiKey, DecodeError, FRAME_LENGTH_BYTES, FrameDecoder,
    json::{Direction, JsonError, frames_json},
};
use std::{
    io::{self, Read, Write},
    path::Path,
};

pub(super) fn dump(
    source: impl Read,
    path: &Path,
    api_key: ApiKey,
    direction: Direction,
    version: Option<i16>,
    output: &mut Output,
) -> Result<(), Failure> {
    let file = path.display();
    let mut source = io::BufReader::new(source);
    let mut position = 0;
    loop {
        let frame = match next_frame(&mut source) {
            Ok(frame) if frame.is_empty() => return Ok(()),
            Ok(frame) => frame,
            Err(error) => {
                return output.fail("FILE_NOT_READ", format!("{file}: reading the frame at byte {position}: {error}"));
            }
        };
        for shown in frames_json(api_key, direction, version, &frame) {
            match shown {
                Ok(mut shown) => {
                    if let Some(offset) = shown.get_mut("frameOffset") {
                        *offset = position.into();
                    }
                    // Writing to a vector can't fail.
                    output.line(|out| drop(writeln!(out, "{shown}")))?;
                }
                Err(error) => {
                    let what = in_file(error, position);
                    return output.fail("DAMAGED_FILE", format!("{file}: frame at byte {position}: {what}"));
                }
            }
        }
        position += frame.len();
    }
}

/// The next frame with its length; empty at the end. A frame that is cut, or has a length that can't be, is what there is of it.
fn next_frame(source: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut frame = Vec::new();
    source.by_ref().take(FRAME_LENGTH_BYTES as u64).read_to_end(&mut frame)?;
    if let Some(prefix) = frame.first_chunk::<FRAME_LENGTH_BYTES>()
        && let Ok(length) = FrameDecoder::new(LENGTH_BYTES_MAX).frame_length(*prefix)
    {
        // The length is a claim: the buffer grows as bytes come.
        source.by_ref().take(length as u64).read_to_end(&mut frame)?;
    }
    Ok(frame)
}

/// An error whose position counts from the file's start.
fn in_file(error: JsonError, frame_start: usize) -> JsonError {
    match error {
        JsonError::Decode(error) => {
            let position = frame_start + FRAME_LENGTH_BYTES + error.position;
            JsonError::Decode(DecodeError { position, ..error })
        }
        other => other,
    }
}

//! A connection's byte stream, cut into reads: the first byte says how large a frame may be, the second one how long a read is.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use ottla_protocol::{FRAME_LENGTH_BYTES, FrameDecoder, FrameError, Reader, RequestHeader, ResponseHeader};

/// The frames of `stream` in reads of `read_bytes`, what is left, and how it ended.
fn frames(stream: &[u8], limit: usize, read_bytes: usize) -> (Vec<Bytes>, usize, Option<FrameError>) {
    let (mut decoder, mut buffer, mut frames) = (FrameDecoder::new(limit), BytesMut::new(), Vec::new());
    for read in stream.chunks(read_bytes) {
        buffer.extend_from_slice(read);
        loop {
            let wanted = decoder.bytes_wanted(&buffer);
            assert!(wanted <= buffer.len().max(8 * 1024), "asks for {wanted} more with {}", buffer.len());
            match decoder.next_frame(&mut buffer) {
                Ok(Some(frame)) => {
                    assert!(wanted == 0 && frame.len() <= limit);
                    frames.push(frame);
                }
                Ok(None) => {
                    assert!(wanted > 0, "a cut frame wants more");
                    break;
                }
                Err(error) => {
                    assert_eq!(wanted, 0, "a broken stream wants nothing");
                    return (frames, 0, Some(error));
                }
            }
        }
    }
    (frames, buffer.len(), None)
}

/// Both headers, read and written again.
fn headers(frame: &Bytes, flexible: bool) {
    let mut reader = Reader::new(frame);
    if let Ok(header) = RequestHeader::decode(&mut reader, flexible) {
        let mut written = BytesMut::new();
        // A name that is no UTF-8 has become longer, and may be too long.
        if header.encode(flexible, &mut written).is_ok() {
            let written = written.freeze();
            assert_eq!(RequestHeader::decode(&mut Reader::new(&written), flexible), Ok(header));
        }
    }
    let mut reader = Reader::new(frame);
    if let Ok(header) = ResponseHeader::decode(&mut reader, flexible) {
        assert!(reader.position() <= frame.len());
        let mut written = BytesMut::new();
        if header.encode(flexible, &mut written).is_ok() {
            let written = written.freeze();
            assert_eq!(ResponseHeader::decode(&mut Reader::new(&written), flexible), Ok(header));
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let [limit, read_bytes, stream @ ..] = data else { return };
    let limit = usize::from(*limit) * 16;
    let cut = frames(stream, limit, usize::from(*read_bytes) + 1);
    let whole = frames(stream, limit, stream.len().max(1));
    assert_eq!(cut, whole, "however the stream is cut");
    let mut position = 0;
    for frame in &cut.0 {
        position += FRAME_LENGTH_BYTES;
        assert_eq!(stream[position..position + frame.len()], frame[..], "frames stand one after the other");
        position += frame.len();
        for flexible in [false, true] {
            headers(frame, flexible);
        }
    }
});

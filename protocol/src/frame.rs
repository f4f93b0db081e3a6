//! Cuts the byte stream of a connection into frames. No socket here: who owns one reads into a buffer and asks.
//!
//! ```text
//! length i32 | header, body … (length bytes) | length i32 | …
//! ```
//!
//! The length is a claim: it is held against a limit, and never makes anyone take memory before the bytes arrive.

use bytes::{Buf, Bytes, BytesMut};

/// How many bytes a frame's length takes.
pub const FRAME_LENGTH_BYTES: usize = 4;
/// The least room to offer a read.
const READ_BYTES_MIN: usize = 8 * 1024;

/// Finds the frames of one connection, in one direction.
#[derive(Debug, Clone)]
pub struct FrameDecoder {
    frame_bytes_max: usize,
    /// No frame has come yet: what begins with a TLS record or an HTTP status line is then that, also where the limit is larger than
    /// the length these bytes would make.
    first: bool,
}

impl FrameDecoder {
    /// A decoder for frames of at most `frame_bytes_max` bytes, their length field not counted.
    pub fn new(frame_bytes_max: usize) -> Self {
        Self { frame_bytes_max, first: true }
    }

    /// Takes the next frame from the front of `buffer`, if it is there as a whole; without its length field. The frame shares the
    /// buffer's memory, nothing is copied.
    ///
    /// # Errors
    /// A length that is negative or above the limit. The stream can't be read any further then.
    pub fn next_frame(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        let Some(length) = self.length(buffer)? else { return Ok(None) };
        if buffer.len() - FRAME_LENGTH_BYTES < length {
            return Ok(None);
        }
        self.first = false;
        buffer.advance(FRAME_LENGTH_BYTES);
        Ok(Some(buffer.split_to(length).freeze()))
    }

    /// How much free room `buffer` should offer to the next read: 0 if a whole frame is there, or the stream is broken (then
    /// [`next_frame`](Self::next_frame) says how), else up to what the frame still lacks, but never more than doubles what has arrived.
    pub fn bytes_wanted(&self, buffer: &BytesMut) -> usize {
        match self.length(buffer) {
            Ok(Some(length)) => {
                let arrived = buffer.len();
                (FRAME_LENGTH_BYTES + length).saturating_sub(arrived).min(arrived.max(READ_BYTES_MIN))
            }
            Ok(None) => READ_BYTES_MIN,
            Err(_) => 0,
        }
    }

    /// The length of the frame that begins with `prefix`, for a caller that reads frames into buffers of its own.
    ///
    /// # Errors
    /// As [`next_frame`](Self::next_frame).
    pub fn frame_length(&mut self, prefix: [u8; FRAME_LENGTH_BYTES]) -> Result<usize, FrameError> {
        let length = self.check(prefix)?;
        self.first = false;
        Ok(length)
    }

    /// The length at the front of `buffer`, once its four bytes are there.
    fn length(&self, buffer: &[u8]) -> Result<Option<usize>, FrameError> {
        buffer.first_chunk::<FRAME_LENGTH_BYTES>().map(|prefix| self.check(*prefix)).transpose()
    }

    fn check(&self, prefix: [u8; FRAME_LENGTH_BYTES]) -> Result<usize, FrameError> {
        let length = i32::from_be_bytes(prefix);
        let hint = Hint::of(prefix);
        if let Some(length) = usize::try_from(length).ok().filter(|length| *length <= self.frame_bytes_max)
            && !(self.first && hint.is_some())
        {
            return Ok(length);
        }
        Err(FrameError { length, frame_bytes_max: self.frame_bytes_max, hint })
    }
}

/// A frame's length that can't be right. The connection is of no more use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("frame length {length} is outside 0..={frame_bytes_max}{}", .hint.map_or("", Hint::text))]
pub struct FrameError {
    /// The four bytes as a length.
    pub length: i32,
    /// The limit.
    pub frame_bytes_max: usize,
    /// What the bytes look like, if they look like something.
    pub hint: Option<Hint>,
}

/// What else a peer may be speaking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// A TLS alert or handshake: this end speaks plain text to a TLS listener.
    Tls,
    /// An HTTP status line: the port belongs to a web server.
    Http,
}

impl Hint {
    fn of(prefix: [u8; FRAME_LENGTH_BYTES]) -> Option<Self> {
        match prefix {
            [0x15 | 0x16, 0x03, _, _] => Some(Self::Tls),
            [b'H', b'T', b'T', b'P'] => Some(Self::Http),
            _ => None,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Tls => ": the bytes look like TLS; is this a TLS listener?",
            Self::Http => ": the bytes look like HTTP; is this the port of a Kafka broker?",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three frames, one of them empty, and 3 bytes of the next length.
    const STREAM: &[u8] = b"\0\0\0\x05hello\0\0\0\0\0\0\0\x03abc\0\0\0";

    fn feed(decoder: &mut FrameDecoder, parts: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut buffer, mut frames) = (BytesMut::new(), Vec::new());
        for part in parts {
            buffer.extend_from_slice(part);
            while let Some(frame) = decoder.next_frame(&mut buffer).unwrap() {
                frames.push(frame.to_vec());
            }
        }
        assert_eq!(&buffer[..], b"\0\0\0", "what belongs to the next frame stays");
        frames
    }

    #[test]
    fn every_cut_gives_the_same_frames() {
        let whole: Vec<Vec<u8>> = vec![b"hello".to_vec(), Vec::new(), b"abc".to_vec()];
        for i in 0..=STREAM.len() {
            for j in i..=STREAM.len() {
                let parts = [&STREAM[..i], &STREAM[i..j], &STREAM[j..]];
                assert_eq!(feed(&mut FrameDecoder::new(5), &parts), whole, "cut at {i} and {j}");
            }
        }
    }

    fn error(bytes: &[u8], frame_bytes_max: usize) -> FrameError {
        let mut decoder = FrameDecoder::new(frame_bytes_max);
        assert_eq!(decoder.bytes_wanted(&BytesMut::from(bytes)), 0, "nothing more is wanted from a broken stream");
        decoder.next_frame(&mut BytesMut::from(bytes)).unwrap_err()
    }

    #[test]
    fn lengths_outside_the_limit_are_refused_with_a_hint_where_there_is_one() {
        assert_eq!(error(&(-1i32).to_be_bytes(), 100), FrameError { length: -1, frame_bytes_max: 100, hint: None });
        assert_eq!(error(&i32::MAX.to_be_bytes(), 100).length, i32::MAX);
        assert_eq!(
            error(&i32::MIN.to_be_bytes(), usize::MAX).to_string(),
            format!("frame length -2147483648 is outside 0..={}", usize::MAX)
        );
        assert_eq!(error(&[0, 0, 0, 101], 100).length, 101);
        let alert = error(b"\x15\x03\x03\0\x02\x02\x28", 100);
        assert_eq!(alert.hint, Some(Hint::Tls));
        assert_eq!(
            alert.to_string(),
            "frame length 352518912 is outside 0..=100: the bytes look like TLS; is this a TLS listener?"
        );
        assert_eq!(error(b"\x16\x03\x01\x02\0\x01", 100).hint, Some(Hint::Tls), "a hello");
        assert_eq!(error(b"HTTP/1.1 400 Bad Request\r\n", 100).hint, Some(Hint::Http));
    }

    #[test]
    fn a_huge_limit_does_not_hide_the_hint_on_the_first_bytes() {
        let limit = usize::try_from(i32::MAX).unwrap();
        assert_eq!(error(b"\x15\x03\x03\0\x02\x02\x28", limit).hint, Some(Hint::Tls));
        let mut decoder = FrameDecoder::new(limit);
        let mut buffer = BytesMut::from(&b"\0\0\0\0\x15\x03\x03\0\x02"[..]);
        assert_eq!(decoder.next_frame(&mut buffer), Ok(Some(Bytes::new())));
        assert_eq!(decoder.next_frame(&mut buffer), Ok(None), "later it may be a frame of 352 MB");
    }

    #[test]
    fn room_grows_with_what_arrives_not_with_what_is_claimed() {
        let length = 1 << 20;
        let decoder = FrameDecoder::new(length);
        let mut buffer = BytesMut::new();
        assert_eq!(decoder.bytes_wanted(&buffer), READ_BYTES_MIN);
        buffer.extend_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
        let mut reads = 0;
        loop {
            let wanted = decoder.bytes_wanted(&buffer);
            if wanted == 0 {
                break;
            }
            assert!(wanted <= buffer.len().max(READ_BYTES_MIN));
            buffer.resize(buffer.len() + wanted, 7);
            reads += 1;
        }
        assert_eq!(buffer.len(), FRAME_LENGTH_BYTES + length, "it never asks beyond the frame");
        assert!(reads < 12, "by doubling: {reads}");
    }
}

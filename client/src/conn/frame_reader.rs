//! Step 1 of a byte's path: from the socket into a buffer that holds exactly one frame.
//!
//! The length is read by itself; then reads stop at the frame's end, so that a buffer never holds the beginning of the next frame and can
//! go back to the pool whole. A frame is read into a buffer of its own size if it is small, into a pool buffer otherwise, and a longer one
//! grows by doubling as its bytes arrive: memory follows what came, not what was claimed.

use super::{Frame, FramePool};
use bytes::{BufMut, BytesMut};
use ottla_protocol::FrameDecoder;
use std::{io, sync::Arc};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::RequestError;

/// Frames up to this size get a buffer of their own.
const SMALL_FRAME_BYTES: usize = 16 << 10;

/// Reads frames; all state lives here, so that a read that is dropped loses nothing.
#[derive(Debug)]
pub(crate) struct FrameReader {
    pool: Arc<FramePool>,
    decoder: FrameDecoder,
    prefix: [u8; 4],
    prefix_length: usize,
    /// Bytes of the current frame still to come; meaningful once the prefix is whole.
    missing: usize,
    buffer: BytesMut,
    pooled: bool,
}

impl FrameReader {
    pub(crate) fn new(pool: Arc<FramePool>, frame_bytes_max: usize) -> Self {
        Self {
            pool,
            decoder: FrameDecoder::new(frame_bytes_max),
            prefix: [0; 4],
            prefix_length: 0,
            missing: 0,
            buffer: BytesMut::new(),
            pooled: false,
        }
    }

    /// The next whole frame, or `None` when the other side closed. Cancel safe.
    pub(crate) async fn next(&mut self, socket: &mut (impl AsyncRead + Unpin)) -> Result<Option<Frame>, RequestError> {
        while self.prefix_length < self.prefix.len() {
            let Some(rest) = self.prefix.get_mut(self.prefix_length..) else { break };
            let read = socket.read(rest).await?;
            if read == 0 {
                return if self.prefix_length == 0 { Ok(None) } else { Err(cut().into()) };
            }
            self.prefix_length += read;
            if self.prefix_length == self.prefix.len() {
                self.begin()?;
            }
        }
        while self.missing > 0 {
            if self.buffer.len() == self.buffer.capacity() {
                self.buffer.reserve(self.buffer.len().min(self.missing));
            }
            let read = socket.read_buf(&mut (&mut self.buffer).limit(self.missing)).await?;
            if read == 0 {
                return Err(cut().into());
            }
            self.missing -= read;
        }
        self.prefix_length = 0;
        let bytes = std::mem::take(&mut self.buffer).freeze();
        Ok(Some(Frame::new(bytes, self.pooled.then(|| self.pool.clone()))))
    }

    fn begin(&mut self) -> Result<(), RequestError> {
        self.missing = self.decoder.frame_length(self.prefix).map_err(RequestError::Frame)?;
        self.pooled = self.missing > SMALL_FRAME_BYTES;
        self.buffer = if self.pooled { self.pool.take() } else { BytesMut::with_capacity(self.missing) };
        Ok(())
    }
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended in the middle of an answer")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    fn frames(lengths: &[usize]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (i, length) in lengths.iter().enumerate() {
            bytes.extend_from_slice(&(*length as u32).to_be_bytes());
            bytes.resize(bytes.len() + length, i as u8 + 1);
        }
        bytes
    }

    #[tokio::test]
    async fn frames_of_every_size_cut_anywhere() {
        let lengths = [4, 0, 9, 300_000, 20_000, 1];
        let bytes = frames(&lengths);
        for chunk in [1, 3, 4096, 1 << 20] {
            let pool = Arc::new(FramePool::new(64 << 10, 2));
            let mut reader = FrameReader::new(pool.clone(), 1 << 20);
            let (mut near, mut far) = tokio::io::duplex(8192);
            let bytes = bytes.clone();
            let writer = tokio::spawn(async move {
                for part in bytes.chunks(chunk) {
                    far.write_all(part).await.unwrap();
                }
            });
            for (i, length) in lengths.iter().enumerate() {
                let frame = reader.next(&mut near).await.unwrap().unwrap();
                assert_eq!(frame.bytes().len(), *length);
                assert!(frame.bytes().iter().all(|b| *b == i as u8 + 1));
            }
            writer.await.unwrap();
            assert!(reader.next(&mut near).await.unwrap().is_none(), "closed between frames");
            assert_eq!(pool.unused(), 1, "the 20,000-byte frame's buffer is back, the grown one is not kept");
        }
    }

    #[tokio::test]
    async fn a_claimed_length_takes_no_memory_and_a_cut_is_an_error() {
        let pool = Arc::new(FramePool::new(64 << 10, 2));
        let mut reader = FrameReader::new(pool.clone(), 1 << 30);
        let (mut near, mut far) = tokio::io::duplex(64);
        far.write_all(&[0x3f, 0xff, 0xff, 0xff, 1, 2, 3]).await.unwrap();
        drop(far);
        assert!(matches!(reader.next(&mut near).await, Err(RequestError::Io { .. })));
        assert!(reader.buffer.capacity() <= 64 << 10);
    }

    #[tokio::test]
    async fn s_n10_lengths_that_are_no_lengths() {
        for (first, hint) in [
            (*b"HTTP", "HTTP"),
            ([0x15, 0x03, 0x03, 0x00], "TLS"),
            ([0xff, 0xff, 0xff, 0xff], "-1"),
            ([0x7f, 0xff, 0xff, 0xff], "2147483647"),
        ] {
            let mut reader = FrameReader::new(Arc::new(FramePool::new(64 << 10, 2)), 1 << 20);
            let (mut near, mut far) = tokio::io::duplex(64);
            far.write_all(&first).await.unwrap();
            let error = reader.next(&mut near).await.unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
}

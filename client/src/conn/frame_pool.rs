//! Buffers for response frames. They are filled by `read_buf`, never zeroed, and come back when the last view into them is gone.

use bytes::{Bytes, BytesMut};
use std::sync::{Arc, Mutex, PoisonError};

/// A stock of buffers, shared by all connections of a client.
#[derive(Debug)]
pub(crate) struct FramePool {
    buffers: Mutex<Vec<BytesMut>>,
    buffer_bytes: usize,
    buffers_max: usize,
}

impl FramePool {
    /// Buffers of `buffer_bytes`, of which up to `buffers_max` are kept when nobody uses them.
    pub(crate) fn new(buffer_bytes: usize, buffers_max: usize) -> Self {
        Self { buffers: Mutex::default(), buffer_bytes, buffers_max }
    }

    /// An empty buffer.
    pub(crate) fn take(&self) -> BytesMut {
        let kept = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| BytesMut::with_capacity(self.buffer_bytes))
    }

    /// Gives a buffer back. One that had to grow is not kept, so that a single huge batch does not stay in memory for ever.
    fn give_back(&self, mut buffer: BytesMut) {
        if buffer.capacity() > self.buffer_bytes * 2 || buffer.capacity() < self.buffer_bytes / 2 {
            return;
        }
        buffer.clear();
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.len() < self.buffers_max {
            buffers.push(buffer);
        }
    }

    /// How many buffers lie unused.
    #[cfg(test)]
    pub(crate) fn unused(&self) -> usize {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// One response, without its length. Slices of `bytes` must be dropped before the frame for its buffer to be used again.
#[derive(Debug)]
pub(crate) struct Frame {
    bytes: Bytes,
    pool: Option<Arc<FramePool>>,
}

impl Frame {
    /// A frame whose buffer goes back to `pool`, if there is one.
    pub(crate) fn new(bytes: Bytes, pool: Option<Arc<FramePool>>) -> Self {
        Self { bytes, pool }
    }

    /// The frame: response header and body.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool
            && let Ok(buffer) = std::mem::take(&mut self.bytes).try_into_mut()
        {
            pool.give_back(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_the_last_view_is_gone() {
        let pool = Arc::new(FramePool::new(1 << 20, 4));
        let mut buffer = pool.take();
        let address = buffer.as_ptr();
        buffer.extend_from_slice(b"0123456789");
        let frame = Arc::new(Frame::new(buffer.freeze(), Some(pool.clone())));
        let (view, other) = (frame.bytes().slice(2..5), frame.clone());
        drop(frame);
        assert_eq!(pool.unused(), 0, "another partition still holds the frame");
        drop(view);
        drop(other);
        assert_eq!(pool.unused(), 1);
        let buffer = pool.take();
        assert_eq!(buffer.as_ptr(), address, "the same memory");
        assert_eq!((buffer.len(), buffer.capacity()), (0, 1 << 20));
    }

    #[test]
    fn a_grown_buffer_is_not_kept() {
        let pool = Arc::new(FramePool::new(1024, 4));
        let mut buffer = pool.take();
        buffer.resize(10_000, 0);
        drop(Frame::new(buffer.freeze(), Some(pool.clone())));
        assert_eq!(pool.unused(), 0);
    }
}

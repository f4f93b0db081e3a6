//! The buffer that batches are inflated into: grown by doubling as output appears, never from a claimed size, and never beyond its limit.

use super::Failure;

/// The least that the scratch grows to, so that small batches don't make it creep.
const GROWTH_BYTES_MIN: usize = 64 << 10;

/// How much room is made for input that doesn't say how large its output is, as a multiple of its own size.
#[cfg(any(feature = "libdeflate", feature = "zstd"))]
const USUAL_RATIO: usize = 8;

/// `buffer[..length]` is output; the rest is room that was initialised once and is overwritten again and again.
pub(super) struct Scratch {
    buffer: Vec<u8>,
    length: usize,
    max: usize,
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch")
            .field("allocated", &self.buffer.len())
            .field("length", &self.length)
            .field("max", &self.max)
            .finish()
    }
}

impl Scratch {
    pub(super) fn new(max: usize) -> Self {
        Self { buffer: Vec::new(), length: 0, max }
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    pub(super) fn allocated(&self) -> usize {
        self.buffer.len()
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// The output so far.
    pub(super) fn filled(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }

    /// The output from byte `from` on.
    pub(super) fn filled_from(&self, from: usize) -> &[u8] {
        self.buffer.get(from..self.length).unwrap_or_default()
    }

    /// How much was written so far.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Where the next output goes: what there is, without growing, and never beyond the limit.
    pub(super) fn room(&mut self) -> &mut [u8] {
        let end = self.buffer.len().min(self.max);
        self.buffer.get_mut(self.length..end).unwrap_or_default()
    }

    /// `bytes` more of the room have become output.
    pub(super) fn advance(&mut self, bytes: usize) {
        debug_assert!(self.length + bytes <= self.buffer.len());
        self.length += bytes;
    }

    /// At least `bytes` of room: for a codec that must know its room beforehand. `bytes` comes from the size of the input and the codec's
    /// best possible ratio, never from the data's claim alone.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), Failure> {
        let needed = self.length.saturating_add(bytes);
        if needed > self.max {
            return Err(Failure::Limit { max: self.max });
        }
        if needed > self.buffer.len() {
            self.grow_to(needed);
        }
        Ok(())
    }

    /// Room for a codec that inflates all of `input_bytes` at once and doesn't know to how much: what is usual, as far as the limit allows.
    #[cfg(any(feature = "libdeflate", feature = "zstd"))]
    pub(super) fn reserve_first(&mut self, input_bytes: usize) {
        let usual = self.length.saturating_add(input_bytes.saturating_mul(USUAL_RATIO)).min(self.max);
        if usual > self.buffer.len() {
            self.grow_to(usual);
        }
    }

    /// More room than there is, after all of it was used: twice as much in all.
    pub(super) fn grow(&mut self) -> Result<(), Failure> {
        if self.buffer.len() >= self.max {
            return Err(Failure::Limit { max: self.max });
        }
        self.grow_to(self.buffer.len().saturating_add(1));
        Ok(())
    }

    fn grow_to(&mut self, needed: usize) {
        let doubled = self.buffer.len().saturating_mul(2).max(GROWTH_BYTES_MIN);
        let grown = doubled.max(needed).min(self.max);
        if grown > self.buffer.len() {
            // `resize` alone would take up to twice as much.
            self.buffer.reserve_exact(grown - self.buffer.len());
            self.buffer.resize(grown, 0);
        }
    }

    /// Copies `bytes` to the output.
    pub(super) fn extend(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.reserve(bytes.len())?;
        if let Some(room) = self.room().get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.advance(bytes.len());
        Ok(())
    }

    pub(super) fn shrink_to(&mut self, bytes: usize) {
        if self.buffer.len() > bytes {
            self.length = 0;
            self.buffer.truncate(bytes);
            self.buffer.shrink_to_fit();
        }
    }

    pub(super) fn take(&mut self) -> Vec<u8> {
        let mut taken = std::mem::take(&mut self.buffer);
        taken.truncate(self.length);
        self.length = 0;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_by_doubling_and_stops_at_its_limit() {
        let mut scratch = Scratch::new(200_000);
        assert!(scratch.room().is_empty(), "nothing before it is needed");
        scratch.grow().unwrap();
        assert_eq!(scratch.room().len(), GROWTH_BYTES_MIN);
        scratch.grow().unwrap();
        scratch.grow().unwrap();
        assert_eq!(scratch.room().len(), 200_000);
        assert_eq!(scratch.buffer.capacity(), 200_000, "what is taken is bounded as well");
        assert_eq!(scratch.grow(), Err(Failure::Limit { max: 200_000 }));
        scratch.extend(b"abc").unwrap();
        assert_eq!(scratch.reserve(200_000), Err(Failure::Limit { max: 200_000 }));
        assert_eq!(scratch.take(), b"abc");
        assert_eq!(scratch.allocated(), 0);
    }

    #[test]
    fn shrinking_forgets_the_output() {
        let mut scratch = Scratch::new(1 << 20);
        scratch.extend(&[7; 300_000]).unwrap();
        scratch.shrink_to(1000);
        assert_eq!((scratch.allocated(), scratch.filled().len()), (1000, 0));
    }
}

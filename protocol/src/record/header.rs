//! Record headers (KIP-82), parsed lazily.

use crate::varint::{read_varint, take_short, write_varint};
use bytes::{BufMut, BytesMut};

/// One header of a record. Keys may repeat; the order is the producer's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header<'b> {
    /// The key: UTF-8 if the producer kept to the protocol.
    pub key: &'b [u8],
    /// The value; `None` is null.
    pub value: Option<&'b [u8]>,
}

/// A record's headers: their bytes, and how many. The bytes were checked when the record was parsed, so that iterating can't fail.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'b> {
    bytes: &'b [u8],
    count: usize,
}

impl<'b> Headers<'b> {
    /// `count` headers that stand in `bytes` one after the other, already checked: key length varint and key, value length varint
    /// (-1 for null) and value.
    pub(crate) fn from_checked(bytes: &'b [u8], count: usize) -> Self {
        Self { bytes, count }
    }

    /// How many headers there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The headers in the producer's order.
    #[inline]
    pub fn iter(&self) -> HeadersIter<'b> {
        HeadersIter { bytes: self.bytes, left: self.count }
    }
}

impl<'b> IntoIterator for Headers<'b> {
    type Item = Header<'b>;
    type IntoIter = HeadersIter<'b>;
    fn into_iter(self) -> HeadersIter<'b> {
        self.iter()
    }
}

/// Iterates over [`Headers`].
#[derive(Clone, Debug)]
pub struct HeadersIter<'b> {
    bytes: &'b [u8],
    left: usize,
}

impl<'b> HeadersIter<'b> {
    #[inline]
    fn take(&mut self) -> Option<Option<&'b [u8]>> {
        let (length, rest) = match take_short(self.bytes) {
            Some(short) => short,
            None => {
                let (length, used) = read_varint(self.bytes)?;
                (length, self.bytes.get(used..)?)
            }
        };
        let Ok(length) = usize::try_from(length) else {
            self.bytes = rest;
            return Some(None);
        };
        let (taken, rest) = rest.split_at_checked(length)?;
        self.bytes = rest;
        Some(Some(taken))
    }
}

impl<'b> Iterator for HeadersIter<'b> {
    type Item = Header<'b>;
    #[inline]
    fn next(&mut self) -> Option<Header<'b>> {
        self.left = self.left.checked_sub(1)?;
        let key = self.take()??;
        let value = self.take()?;
        Some(Header { key, value })
    }
}

/// Headers with bytes of their own, for building records outside a batch (tests, examples, producers).
#[derive(Clone, Debug, Default)]
pub struct OwnedHeaders {
    bytes: BytesMut,
    count: usize,
}

impl OwnedHeaders {
    /// Adds a header at the end. Of a key or value of more than 2 GiB, which no record can have, that much is kept.
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.put(key);
        match value {
            Some(value) => self.put(value),
            None => write_varint(&mut self.bytes, -1),
        }
        self.count += 1;
    }

    fn put(&mut self, field: &[u8]) {
        let length = i32::try_from(field.len()).unwrap_or(i32::MAX);
        write_varint(&mut self.bytes, length);
        let kept = usize::try_from(length).ok().and_then(|length| field.get(..length));
        self.bytes.put_slice(kept.unwrap_or_default());
    }

    /// The same as a view.
    pub fn as_headers(&self) -> Headers<'_> {
        Headers::from_checked(&self.bytes, self.count)
    }
}

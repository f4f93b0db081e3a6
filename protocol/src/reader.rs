//! Reads the primitive types of Kafka's protocol from a frame: integers, strings, arrays, byte runs, uuids and tagged fields, each in the
//! old encoding and in the compact one (KIP-482). It knows no message; [`crate::message`] does.
//!
//! ```text
//!            old                                 compact
//! string     length i16, -1 is null, UTF-8       length + 1 as uvarint, 0 is null, UTF-8
//! bytes      length i32, -1 is null              length + 1 as uvarint, 0 is null
//! array      count i32, -1 is null, elements     count + 1 as uvarint, 0 is null, elements
//! tags       none                                count uvarint, then (tag uvarint, size uvarint, bytes)…
//! ```
//!
//! A length is a claim: it is held against the bytes that are there before anything is taken. Java's leniencies are kept: every negative
//! length is null, bytes that are no UTF-8 become U+FFFD, varints may be padded, a bool is any byte but 0.

use crate::uuid::Uuid;
use crate::varint::read_uvarint;
use crate::{DecodeError, DecodeErrorKind};
use bytes::Bytes;

/// The longest string, in bytes, that Kafka reads or writes, whatever the encoding of its length.
pub const STRING_BYTES_MAX: usize = i16::MAX as usize;

/// How much memory the elements of all arrays, and the unknown tagged fields, of one message may take; the text of strings and byte fields,
/// which is never longer than the frame, is not counted. An element of a byte or two on the wire can be a struct of a hundred bytes here, so
/// that the frame's length alone is no bound. The metadata of a million partitions fits.
pub const ARRAY_MEMORY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A position in a frame, and the reading of what is there. After an error the position is not to be relied upon.
#[derive(Debug)]
pub struct Reader<'f> {
    frame: &'f Bytes,
    /// What is left: ends where the frame, or the [sub-structure](Self::within) that is being read, ends.
    rest: &'f [u8],
    /// Where `rest` ends, from the start of the frame.
    end: usize,
    array_memory_left: usize,
}

impl<'f> Reader<'f> {
    /// A reader at the start of `frame`; positions in errors count from there.
    pub fn new(frame: &'f Bytes) -> Self {
        Self { frame, rest: frame, end: frame.len(), array_memory_left: ARRAY_MEMORY_BYTES_MAX }
    }

    /// The position, in bytes from the start of the frame.
    #[inline]
    pub fn position(&self) -> usize {
        self.end - self.rest.len()
    }

    /// How many bytes are left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[cold]
    fn truncated(&self, field: &'static str, needed: usize) -> DecodeError {
        self.error(field, DecodeErrorKind::Truncated { needed, available: self.rest.len() })
    }

    #[cold]
    fn error(&self, field: &'static str, kind: DecodeErrorKind) -> DecodeError {
        DecodeError::new(field, self.position(), kind)
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// Fewer are left.
    #[inline]
    pub fn take(&mut self, count: usize, field: &'static str) -> Result<&'f [u8], DecodeError> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.truncated(field, count)),
        }
    }

    #[inline]
    fn array_of<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(self.truncated(field, N)),
        }
    }

    /// One byte, signed.
    ///
    /// # Errors
    /// The bytes end.
    #[inline]
    pub fn i8(&mut self, field: &'static str) -> Result<i8, DecodeError> {
        self.array_of(field).map(i8::from_be_bytes)
    }

    /// Two bytes, big endian.
    ///
    /// # Errors
    /// The bytes end.
    #[inline]
    pub fn i16(&mut self, field: &'static str) -> Result<i16, DecodeError> {
        self.array_of(field).map(i16::from_be_bytes)
    }

    /// Four bytes, big endian.
    ///
    /// # Errors
    /// The bytes end.
    #[inline]
    pub fn i32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        self.array_of(field).map(i32::from_be_bytes)
    }

    /// Eight bytes, big endian.
    ///
    /// # Errors
    /// The bytes end.
    #[inline]
    pub fn i64(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        self.array_of(field).map(i64::from_be_bytes)
    }

    /// One byte; everything but 0 is true.
    ///
    /// # Errors
    /// The bytes end.
    #[inline]
    pub fn bool(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        self.i8(field).map(|byte| byte != 0)
    }

    /// Sixteen bytes.
    ///
    /// # Errors
    /// The bytes end.
    #[inline]
    pub fn uuid(&mut self, field: &'static str) -> Result<Uuid, DecodeError> {
        self.array_of(field).map(Uuid)
    }

    /// An unsigned varint of up to 5 bytes.
    ///
    /// # Errors
    /// The bytes end, or a fifth byte goes on.
    #[inline]
    pub fn uvarint(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        // Nearly all are lengths and counts of one byte.
        if let Some((&byte, rest)) = self.rest.split_first()
            && byte < 0x80
        {
            self.rest = rest;
            return Ok(byte.into());
        }
        self.long_uvarint(field)
    }

    fn long_uvarint(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        let Some((value, length)) = read_uvarint(self.rest) else {
            return Err(if self.rest.len() < 5 {
                self.truncated(field, self.rest.len() + 1)
            } else {
                self.error(field, DecodeErrorKind::Varint { max: 5 })
            });
        };
        self.take(length, field)?;
        Ok(value)
    }

    /// A compact length or count: one less than the varint, in the 32 bit arithmetic of Java; `None`, for null, if that is negative.
    #[inline]
    fn compact_length(&mut self, field: &'static str) -> Result<Option<usize>, DecodeError> {
        Ok(usize::try_from(self.uvarint(field)?.cast_signed().wrapping_sub(1)).ok())
    }

    /// A length or count of four bytes; `None`, for null, if it is negative.
    #[inline]
    fn old_length(&mut self, field: &'static str) -> Result<Option<usize>, DecodeError> {
        Ok(usize::try_from(self.i32(field)?).ok())
    }

    /// A string; `None` is null.
    ///
    /// # Errors
    /// It is longer than what is left or than [`STRING_BYTES_MAX`].
    #[inline]
    pub fn nullable_string(&mut self, compact: bool, field: &'static str) -> Result<Option<String>, DecodeError> {
        let start = self.position();
        let length = if compact { self.compact_length(field)? } else { usize::try_from(self.i16(field)?).ok() };
        let Some(length) = length else { return Ok(None) };
        if length > STRING_BYTES_MAX {
            let kind = DecodeErrorKind::Length { length: claimed(length), max: STRING_BYTES_MAX };
            return Err(DecodeError::new(field, start, kind));
        }
        let bytes = self.take_claimed(length, start, field)?;
        Ok(Some(match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => java_lossy(bytes),
        }))
    }

    /// A run of bytes, as a slice of the frame; `None` is null.
    ///
    /// # Errors
    /// It is longer than what is left.
    #[inline]
    pub fn nullable_bytes(&mut self, compact: bool, field: &'static str) -> Result<Option<Bytes>, DecodeError> {
        let start = self.position();
        let length = if compact { self.compact_length(field)? } else { self.old_length(field)? };
        length.map(|length| self.bytes_claimed(length, start, field)).transpose()
    }

    /// An array's count, held against what is left (each element takes at least a byte) and against [`ARRAY_MEMORY_BYTES_MAX`], where
    /// each element takes `element_memory_bytes`; `None` is null.
    ///
    /// # Errors
    /// A count that can't be right, or is too much.
    #[inline]
    pub fn nullable_array(
        &mut self,
        compact: bool,
        element_memory_bytes: usize,
        field: &'static str,
    ) -> Result<Option<usize>, DecodeError> {
        let start = self.position();
        let count = if compact { self.compact_length(field)? } else { self.old_length(field)? };
        let Some(count) = count else { return Ok(None) };
        let max = self.rest.len().min(self.array_memory_left / element_memory_bytes.max(1));
        if count > max {
            return Err(DecodeError::new(field, start, DecodeErrorKind::Length { length: claimed(count), max }));
        }
        self.array_memory_left -= count * element_memory_bytes;
        Ok(Some(count))
    }

    /// How many elements of `element_memory_bytes` to make room for before the first of `count` is read: no more memory than bytes that
    /// are really there. The rest comes by growing.
    #[inline]
    pub fn capacity_for(&self, count: usize, element_memory_bytes: usize) -> usize {
        count.min(self.rest.len() / element_memory_bytes.max(1))
    }

    /// Reads a structure of exactly `length` bytes: `read` sees no more than those, and has to take them all.
    ///
    /// # Errors
    /// Fewer bytes are left, `read` fails, or it leaves bytes.
    pub fn within<T>(
        &mut self,
        length: usize,
        field: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let start = self.position();
        let Some((inner, after)) = self.rest.split_at_checked(length) else {
            return Err(self.truncated(field, length));
        };
        let outer_end = self.end;
        self.rest = inner;
        self.end = start + length;
        let value = read(self)?;
        if !self.rest.is_empty() {
            return Err(self.error(field, DecodeErrorKind::Leftover { count: self.rest.len() }));
        }
        self.rest = after;
        self.end = outer_end;
        Ok(value)
    }

    /// The tagged fields at the end of a structure. `known` is called with each tag and a reader for its bytes: it takes them all and
    /// says true, or takes nothing and says false; the bytes of those come back, in the order they came.
    ///
    /// # Errors
    /// The bytes end, or a known tag's value does not take exactly its size.
    #[inline]
    pub fn tagged_fields(
        &mut self,
        field: &'static str,
        known: impl FnMut(&mut Self, u32) -> Result<bool, DecodeError>,
    ) -> Result<Vec<TaggedField>, DecodeError> {
        let start = self.position();
        match self.uvarint(field)? {
            0 => Ok(Vec::new()),
            count => self.some_tagged_fields(count, start, field, known),
        }
    }

    /// `count` tagged fields, in the structure whose count stood at `start`.
    #[inline(never)]
    fn some_tagged_fields(
        &mut self,
        count: u32,
        start: usize,
        field: &'static str,
        mut known: impl FnMut(&mut Self, u32) -> Result<bool, DecodeError>,
    ) -> Result<Vec<TaggedField>, DecodeError> {
        let mut unknown = Vec::new();
        // A tag and its size take two bytes at least. A count of 2^31 or more is negative for Java, which then reads no tag at all and goes
        // on in the middle of them: no one writes that.
        let max = (self.rest.len() / 2).min(self.array_memory_left / size_of::<TaggedField>());
        match usize::try_from(count) {
            Ok(count) if count <= max => self.array_memory_left -= count * size_of::<TaggedField>(),
            _ => return Err(DecodeError::new(field, start, DecodeErrorKind::Length { length: count.into(), max })),
        }
        for _ in 0..count {
            let tag = self.uvarint(field)?;
            let start = self.position();
            let size = self.uvarint(field)?;
            let length = usize::try_from(size).unwrap_or(usize::MAX);
            if length > self.rest.len() {
                let kind = DecodeErrorKind::Length { length: size.into(), max: self.rest.len() };
                return Err(DecodeError::new(field, start, kind));
            }
            self.within(length, field, |reader| {
                if !known(reader, tag)? {
                    let data = reader.bytes_claimed(length, start, field)?;
                    unknown.push(TaggedField { tag, data });
                }
                Ok(())
            })?;
        }
        Ok(unknown)
    }

    /// `length` bytes for the field that began at `start` with that length.
    #[inline]
    fn take_claimed(&mut self, length: usize, start: usize, field: &'static str) -> Result<&'f [u8], DecodeError> {
        match self.rest.split_at_checked(length) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => {
                let kind = DecodeErrorKind::Length { length: claimed(length), max: self.rest.len() };
                Err(DecodeError::new(field, start, kind))
            }
        }
    }

    #[inline]
    fn bytes_claimed(&mut self, length: usize, start: usize, field: &'static str) -> Result<Bytes, DecodeError> {
        let from = self.position();
        self.take_claimed(length, start, field)?;
        Ok(self.frame.slice(from..from + length))
    }
}

/// Text of bytes that are not all UTF-8, as Java makes it: U+FFFD for each maximal run that begins a character and doesn't end it. That is
/// Rust's rule too, but for surrogates (`ED A0..BF xx`), which Java takes for one wrong character and Rust for three.
#[cold]
fn java_lossy(mut bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    while let Some(chunk) = bytes.utf8_chunks().next() {
        text.push_str(chunk.valid());
        bytes = bytes.get(chunk.valid().len() + chunk.invalid().len()..).unwrap_or_default();
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
        if chunk.invalid() == [0xed] {
            bytes = match bytes {
                [0xa0..=0xbf, 0x80..=0xbf, rest @ ..] | [0xa0..=0xbf, rest @ ..] => rest,
                _ => bytes,
            };
        }
    }
    text
}

/// A length for an error's text.
fn claimed(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// A tagged field that the schema doesn't know (KIP-482), kept to be written back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TaggedField {
    /// The field's tag. A structure's tags ascend.
    pub tag: u32,
    /// The field's value, without its size.
    pub data: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of reading `bytes`, and what is left after it.
    fn read<T>(
        bytes: &'static [u8],
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
    ) -> Result<(T, usize), DecodeErrorKind> {
        let frame = Bytes::from_static(bytes);
        let mut reader = Reader::new(&frame);
        read(&mut reader).map(|value| (value, reader.remaining())).map_err(|error| error.kind)
    }

    fn string(compact: bool, bytes: &'static [u8]) -> Result<(Option<String>, usize), DecodeErrorKind> {
        read(bytes, |reader| reader.nullable_string(compact, "s"))
    }

    #[test]
    fn every_negative_length_is_null() {
        assert_eq!(string(false, b"\xff\xff!"), Ok((None, 1)));
        assert_eq!(string(false, b"\xff\xfe!"), Ok((None, 1)));
        assert_eq!(string(true, b"\x00!"), Ok((None, 1)));
        assert_eq!(string(true, b"\xff\xff\xff\xff\x0f!"), Ok((None, 1)), "2^32-1 is -1 for Java");
        let bytes = |compact, bytes| read(bytes, |reader| reader.nullable_bytes(compact, "b"));
        assert_eq!(bytes(false, b"\xff\xff\xff\xfe!"), Ok((None, 1)));
        assert_eq!(bytes(true, b"\x00!"), Ok((None, 1)));
        let array = |compact, bytes| read(bytes, |reader| reader.nullable_array(compact, 1, "a"));
        assert_eq!(array(false, b"\xff\xff\xff\xfe!"), Ok((None, 1)));
        assert_eq!(array(true, b"\x00!"), Ok((None, 1)));
    }

    #[test]
    fn java_subtracts_one_in_32_bits() {
        let kind = DecodeErrorKind::Length { length: i32::MAX.into(), max: 1 };
        assert_eq!(
            read(b"\x80\x80\x80\x80\x08!", |reader| reader.nullable_bytes(true, "b")),
            Err(kind),
            "-2^31 less one is 2^31-1, not null"
        );
    }

    #[test]
    fn strings_are_text_whatever_their_bytes() {
        assert_eq!(string(false, b"\0\x03abc!"), Ok((Some("abc".into()), 1)));
        assert_eq!(string(true, b"\x01!"), Ok((Some(String::new()), 1)));
        assert_eq!(string(true, b"\x04a\xffc!"), Ok((Some("a\u{fffd}c".into()), 1)));
        for (bytes, text) in [
            (&b"\xed\xa0\x80|"[..], "\u{fffd}|"),
            (b"\xed\xbf\xbf\xed\xa0\x80", "\u{fffd}\u{fffd}"),
            (b"\xed\xa0|", "\u{fffd}|"),
            (b"|\xed\xa0", "|\u{fffd}"),
            (b"\xed", "\u{fffd}"),
            (b"\xed\x9f\xbf\x80", "\u{d7ff}\u{fffd}"),
            (b"\xe0\x80\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xf0\x9f\x92|", "\u{fffd}|"),
            (b"\xf5\xc0\xff", "\u{fffd}\u{fffd}\u{fffd}"),
        ] {
            assert_eq!(java_lossy(bytes), text, "{bytes:x?}, as new String(bytes, UTF_8)");
        }
        assert_eq!(string(true, b"\x05abc"), Err(DecodeErrorKind::Length { length: 4, max: 3 }));
        assert_eq!(string(false, b"\0"), Err(DecodeErrorKind::Truncated { needed: 2, available: 1 }));
        assert_eq!(
            string(true, b"\x81\x80\x02"),
            Err(DecodeErrorKind::Length { length: 32768, max: STRING_BYTES_MAX }),
            "Java's limit, before it looks for the bytes"
        );
    }

    #[test]
    fn byte_fields_are_slices_of_the_frame() {
        let frame = Bytes::from_static(b"\x04abc!");
        let bytes = Reader::new(&frame).nullable_bytes(true, "b").unwrap().unwrap();
        assert_eq!(bytes, "abc");
        assert_eq!(bytes.as_ptr(), frame[1..].as_ptr());
    }

    #[test]
    fn counts_are_held_against_the_bytes_and_the_memory() {
        let array = |element_memory_bytes| {
            read(b"\0\0\0\x03abc", |reader| reader.nullable_array(false, element_memory_bytes, "a"))
        };
        assert_eq!(array(100), Ok((Some(3), 3)));
        let third = ARRAY_MEMORY_BYTES_MAX / 3;
        assert_eq!(array(third), Ok((Some(3), 3)));
        assert_eq!(array(third + 1), Err(DecodeErrorKind::Length { length: 3, max: 2 }));
        assert_eq!(
            read(b"\x7f\xff\xff\xff", |reader| reader.nullable_array(false, 1, "a")),
            Err(DecodeErrorKind::Length { length: i32::MAX.into(), max: 0 })
        );
        let twice = read(b"\x02a\x02b", |reader| {
            reader.nullable_array(true, ARRAY_MEMORY_BYTES_MAX, "a")?;
            reader.take(1, "a")?;
            reader.nullable_array(true, 1, "a")
        });
        assert_eq!(twice, Err(DecodeErrorKind::Length { length: 1, max: 0 }), "one memory for all arrays");
    }

    #[test]
    fn room_is_made_for_no_more_than_is_there() {
        let frame = Bytes::from_static(&[0; 1000]);
        assert_eq!(Reader::new(&frame).capacity_for(900, 100), 10);
        assert_eq!(Reader::new(&frame).capacity_for(5, 100), 5);
        assert_eq!(Reader::new(&frame).capacity_for(900, 1), 900);
    }

    #[test]
    fn a_sub_structure_takes_its_bytes_and_no_others() {
        let two = |reader: &mut Reader<'_>| reader.i16("inner");
        assert_eq!(read(b"\0\x07!", |reader| reader.within(2, "outer", two)), Ok((7, 1)));
        assert_eq!(
            read(b"\0\x07!", |reader| reader.within(3, "outer", two)),
            Err(DecodeErrorKind::Leftover { count: 1 })
        );
        assert_eq!(
            read(b"\0\x07!", |reader| reader.within(1, "outer", two)),
            Err(DecodeErrorKind::Truncated { needed: 2, available: 1 })
        );
        assert_eq!(
            read(b"\0\x07!", |reader| reader.within(4, "outer", two)),
            Err(DecodeErrorKind::Truncated { needed: 4, available: 3 })
        );
        let frame = Bytes::from_static(b"..\0\x07!");
        let mut reader = Reader::new(&frame);
        reader.take(2, "dots").unwrap();
        let inside = reader.within(3, "outer", |reader| {
            assert_eq!((reader.position(), reader.remaining()), (2, 3));
            reader.take(3, "inner")
        });
        assert_eq!((inside, reader.position()), (Ok(&b"\0\x07!"[..]), 5));
    }

    #[test]
    fn known_tags_are_read_within_their_size_and_others_kept() {
        let tags = |bytes| {
            read(bytes, |reader| {
                let mut seven = None;
                let unknown = reader.tagged_fields("tags", |reader, tag| {
                    if tag == 7 {
                        seven = Some(reader.i16("seven")?);
                    }
                    Ok(tag == 7)
                })?;
                Ok((seven, unknown))
            })
        };
        let other = TaggedField { tag: 9, data: Bytes::from_static(b"xyz") };
        assert_eq!(tags(b"\x00!"), Ok(((None, vec![]), 1)));
        assert_eq!(tags(b"\x02\x07\x02\0\x05\x09\x03xyz!"), Ok(((Some(5), vec![other.clone()]), 1)));
        assert_eq!(
            tags(b"\x02\x09\x03xyz\x07\x02\0\x05!"),
            Ok(((Some(5), vec![other]), 1)),
            "in any order, as Java reads them"
        );
        assert_eq!(
            tags(b"\x02\x07\x02\0\x05\x07\x02\0\x06!"),
            Ok(((Some(6), vec![]), 1)),
            "the last of two, as in Java"
        );
        assert_eq!(tags(b"\x01\x07\x03\0\x05!"), Err(DecodeErrorKind::Leftover { count: 1 }));
        assert_eq!(tags(b"\x01\x07\x01\0\x05!"), Err(DecodeErrorKind::Truncated { needed: 2, available: 1 }));
        assert_eq!(tags(b"\x01\x09\x04xyz"), Err(DecodeErrorKind::Length { length: 4, max: 3 }));
        assert_eq!(tags(b"\x02\x09\x00"), Err(DecodeErrorKind::Length { length: 2, max: 1 }));
        assert_eq!(
            tags(b"\xff\xff\xff\xff\x0f\x09\x00"),
            Err(DecodeErrorKind::Length { length: u32::MAX.into(), max: 1 })
        );
    }

    #[test]
    fn varints_end_in_time() {
        let uvarint = |bytes| read(bytes, |reader| reader.uvarint("v"));
        assert_eq!(uvarint(b"\x82\x80\x00!"), Ok((2, 1)), "a padded form");
        assert_eq!(uvarint(b"\xff\xff\xff\xff\xff\x01"), Err(DecodeErrorKind::Varint { max: 5 }));
        assert_eq!(uvarint(b"\x80\x80"), Err(DecodeErrorKind::Truncated { needed: 3, available: 2 }));
        assert_eq!(read(b"\x02!", |reader| reader.bool("flag")), Ok((true, 1)), "every byte but 0 is true");
    }
}

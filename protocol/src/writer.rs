//! Writes the primitive types of Kafka's protocol; [`crate::reader`] draws them.

use crate::EncodeError;
use crate::reader::{STRING_BYTES_MAX, TaggedField};
use crate::uuid::Uuid;
use crate::varint::write_uvarint;
use bytes::{BufMut, BytesMut};

/// The largest length or count that Kafka reads: Java counts in `int`.
pub(crate) const LENGTH_MAX: usize = i32::MAX as usize;

/// Appends values to a buffer.
#[derive(Debug)]
pub struct Writer<'o> {
    out: &'o mut BytesMut,
}

impl<'o> Writer<'o> {
    /// A writer at the end of `out`.
    pub fn new(out: &'o mut BytesMut) -> Self {
        Self { out }
    }

    /// One byte.
    pub fn i8(&mut self, value: i8) {
        self.out.put_i8(value);
    }

    /// Two bytes, big endian.
    pub fn i16(&mut self, value: i16) {
        self.out.put_i16(value);
    }

    /// Four bytes, big endian.
    pub fn i32(&mut self, value: i32) {
        self.out.put_i32(value);
    }

    /// Eight bytes, big endian.
    pub fn i64(&mut self, value: i64) {
        self.out.put_i64(value);
    }

    /// One byte, 0 or 1.
    pub fn bool(&mut self, value: bool) {
        self.out.put_u8(value.into());
    }

    /// Sixteen bytes.
    pub fn uuid(&mut self, value: Uuid) {
        self.out.put_slice(&value.0);
    }

    /// An unsigned varint.
    pub fn uvarint(&mut self, value: u32) {
        write_uvarint(self.out, value);
    }

    /// A length or count; `None` is null.
    fn length(&mut self, length: Option<usize>, compact: bool, field: &'static str) -> Result<(), EncodeError> {
        let checked = match length {
            Some(length) => {
                let too_long = EncodeError::TooLong { field, length, max: LENGTH_MAX };
                Some(i32::try_from(length).map_err(|_| too_long)?)
            }
            None => None,
        };
        match (checked, compact) {
            (Some(length), true) => self.uvarint(length.cast_unsigned() + 1),
            (Some(length), false) => self.i32(length),
            (None, true) => self.uvarint(0),
            (None, false) => self.i32(-1),
        }
        Ok(())
    }

    /// A string; `None` is null.
    ///
    /// # Errors
    /// It is longer than [`STRING_BYTES_MAX`].
    pub fn nullable_string(
        &mut self,
        value: Option<&str>,
        compact: bool,
        field: &'static str,
    ) -> Result<(), EncodeError> {
        let length = value.map(str::len);
        let too_long = |length| EncodeError::TooLong { field, length, max: STRING_BYTES_MAX };
        let old_length = match length {
            Some(length) => i16::try_from(length).map_err(|_| too_long(length))?,
            None => -1,
        };
        if compact {
            self.length(length, true, field)?;
        } else {
            self.i16(old_length);
        }
        self.out.put_slice(value.unwrap_or_default().as_bytes());
        Ok(())
    }

    /// A run of bytes; `None` is null.
    ///
    /// # Errors
    /// It is longer than 2^31-1 bytes.
    pub fn nullable_bytes(
        &mut self,
        value: Option<&[u8]>,
        compact: bool,
        field: &'static str,
    ) -> Result<(), EncodeError> {
        self.length(value.map(<[u8]>::len), compact, field)?;
        self.out.put_slice(value.unwrap_or_default());
        Ok(())
    }

    /// An array's count; `None` is null. The elements follow.
    ///
    /// # Errors
    /// It is more than 2^31-1.
    pub fn nullable_array(
        &mut self,
        count: Option<usize>,
        compact: bool,
        field: &'static str,
    ) -> Result<(), EncodeError> {
        self.length(count, compact, field)
    }

    /// The start of a structure's tagged fields: `known_count` ones to be [written](TagWriter::known), and the `unknown` ones, which get
    /// their places among them by themselves.
    pub fn tagged_fields<'w>(
        &'w mut self,
        known_count: u32,
        unknown: &'w [TaggedField],
        field: &'static str,
    ) -> TagWriter<'w, 'o> {
        self.uvarint(known_count.saturating_add(u32::try_from(unknown.len()).unwrap_or(u32::MAX)));
        TagWriter { writer: self, unknown, last_tag: None, field }
    }

    /// Writes what `write` writes with its size, as a uvarint, before it.
    fn sized(
        &mut self,
        field: &'static str,
        write: impl FnOnce(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let start = self.out.len();
        write(self)?;
        let length = self.out.len() - start;
        let too_long = EncodeError::TooLong { field, length, max: LENGTH_MAX };
        let size = i32::try_from(length).map_err(|_| too_long)?.cast_unsigned();
        // The size is known, and how many bytes it takes, only now: written at the end and turned to the front.
        self.uvarint(size);
        let size_bytes = self.out.len() - start - length;
        if let Some(written) = self.out.get_mut(start..) {
            written.rotate_right(size_bytes);
        }
        Ok(())
    }
}

/// Writes a structure's tagged fields in ascending order of their tags, as KIP-482 demands.
#[derive(Debug)]
pub struct TagWriter<'w, 'o> {
    writer: &'w mut Writer<'o>,
    unknown: &'w [TaggedField],
    last_tag: Option<u32>,
    field: &'static str,
}

impl<'o> TagWriter<'_, 'o> {
    /// A field that the schema knows, with what `write` writes as its value.
    ///
    /// # Errors
    /// `tag` does not ascend, or `write` fails.
    pub fn known(
        mut self,
        tag: u32,
        write: impl FnOnce(&mut Writer<'o>) -> Result<(), EncodeError>,
    ) -> Result<Self, EncodeError> {
        self.unknown_before(Some(tag))?;
        self.tag(tag)?;
        self.writer.sized(self.field, write)?;
        Ok(self)
    }

    /// The unknown fields that are left.
    ///
    /// # Errors
    /// Their tags don't ascend.
    pub fn finish(mut self) -> Result<(), EncodeError> {
        self.unknown_before(None)
    }

    fn unknown_before(&mut self, end: Option<u32>) -> Result<(), EncodeError> {
        while let Some((first, rest)) = self.unknown.split_first() {
            if end.is_some_and(|end| first.tag >= end) {
                break;
            }
            self.unknown = rest;
            self.tag(first.tag)?;
            self.writer.sized(self.field, |writer| {
                writer.out.put_slice(&first.data);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn tag(&mut self, tag: u32) -> Result<(), EncodeError> {
        if self.last_tag.is_some_and(|last| tag <= last) {
            return Err(EncodeError::TagOrder { field: self.field, tag });
        }
        self.last_tag = Some(tag);
        self.writer.uvarint(tag);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn written(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Result<Vec<u8>, EncodeError> {
        let mut out = BytesMut::new();
        write(&mut Writer::new(&mut out)).map(|()| out.to_vec())
    }

    #[test]
    fn nulls_and_lengths_in_both_encodings() {
        let string = |value: Option<&str>, compact| written(|w| w.nullable_string(value, compact, "s")).unwrap();
        assert_eq!(string(Some("ab"), false), b"\0\x02ab");
        assert_eq!(string(Some("ab"), true), b"\x03ab");
        assert_eq!(string(None, false), b"\xff\xff");
        assert_eq!(string(None, true), b"\0");
        let bytes = |value: Option<&[u8]>, compact| written(|w| w.nullable_bytes(value, compact, "b")).unwrap();
        assert_eq!(bytes(Some(b"ab"), false), b"\0\0\0\x02ab");
        assert_eq!(bytes(Some(b""), true), b"\x01");
        assert_eq!(bytes(None, false), b"\xff\xff\xff\xff");
        let array = |count, compact| written(|w| w.nullable_array(count, compact, "a")).unwrap();
        assert_eq!(array(Some(200), true), b"\xc9\x01");
        assert_eq!(array(None, true), b"\0");
    }

    #[test]
    fn what_no_length_can_say_is_an_error() {
        let longest = "x".repeat(STRING_BYTES_MAX);
        let longer = longest.clone() + "x";
        for compact in [false, true] {
            assert!(written(|w| w.nullable_string(Some(&longest), compact, "s")).is_ok());
            let error = EncodeError::TooLong { field: "s", length: 32768, max: 32767 };
            assert_eq!(written(|w| w.nullable_string(Some(&longer), compact, "s")), Err(error));
        }
        let error = EncodeError::TooLong { field: "a", length: LENGTH_MAX + 1, max: LENGTH_MAX };
        assert_eq!(written(|w| w.nullable_array(Some(LENGTH_MAX + 1), true, "a")), Err(error));
    }

    fn tags(unknown: &[u32]) -> Result<Vec<u8>, EncodeError> {
        let unknown: Vec<_> = unknown.iter().map(|&tag| TaggedField { tag, data: Bytes::from_static(b"u") }).collect();
        written(|writer| {
            let tags = writer.tagged_fields(2, &unknown, "tags");
            let tags = tags.known(1, |writer| {
                writer.i16(7);
                Ok(())
            })?;
            // A value whose size takes two bytes.
            let tags = tags.known(5, |writer| writer.nullable_string(Some(&"k".repeat(200)), true, "k"))?;
            tags.finish()
        })
    }

    #[test]
    fn unknown_tags_stand_where_they_belong() {
        let five = [&b"\x05\xca\x01\xc9\x01"[..], &[b'k'; 200]].concat();
        let expected = [&b"\x05\x00\x01u\x01\x02\0\x07\x03\x01u"[..], &five, b"\x09\x01u"].concat();
        assert_eq!(tags(&[0, 3, 9]), Ok(expected));
        for (wrong, tag) in [(&[1][..], 1), (&[5], 5), (&[3, 3], 3), (&[9, 8], 8), (&[3, 2], 2)] {
            assert_eq!(tags(wrong), Err(EncodeError::TagOrder { field: "tags", tag }), "{wrong:?}");
        }
    }
}

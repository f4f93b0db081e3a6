//! Errors of this layer: which field, at which byte, and what was wrong with it. Topic, partition, offset and broker are added by the
//! layers above, which know them.

/// Bytes that are not what the schema says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} at byte {position}: {kind}")]
pub struct DecodeError {
    /// The field's schema name, with its struct where that helps: `record.key`.
    pub field: &'static str,
    /// Where the field begins, in bytes from the start of the frame (messages) or of the byte run (records).
    pub position: usize,
    /// What was wrong.
    pub kind: DecodeErrorKind,
}

impl DecodeError {
    /// An error of `kind` in `field`, which begins at byte `position`.
    pub fn new(field: &'static str, position: usize, kind: DecodeErrorKind) -> Self {
        Self { field, position, kind }
    }
}

/// What was wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The bytes end inside the field.
    #[error("needs {needed} bytes, {available} are left")]
    Truncated {
        /// How many bytes the field needs.
        needed: usize,
        /// How many were there.
        available: usize,
    },
    /// A length or count that the bytes there, or a limit, rule out.
    #[error("length {length} is outside 0..={max}")]
    Length {
        /// The claimed length.
        length: i64,
        /// The largest that could be right.
        max: usize,
    },
    /// A null where the schema has none.
    #[error("null in a field that can't be null")]
    Null,
    /// A variable-length integer longer than its type allows.
    #[error("a variable-length integer of more than {max} bytes")]
    Varint {
        /// 5 for 32 bits, 10 for 64.
        max: usize,
    },
    /// A value that the field can't have.
    #[error("value {value} is not allowed, {expected}")]
    Value {
        /// The value found.
        value: i64,
        /// What is allowed there.
        expected: &'static str,
    },
    /// Bytes remain where the structure should have ended.
    #[error("{count} bytes too many")]
    Leftover {
        /// How many bytes remain.
        count: usize,
    },
    /// A checksum does not hold.
    #[error("checksum is {computed:#010x}, the bytes say {stored:#010x}")]
    Checksum {
        /// The checksum in the bytes.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A compressed payload that can't be inflated.
    #[error("{codec} data can't be inflated: {reason}")]
    Compression {
        /// The codec's name.
        codec: &'static str,
        /// What the codec said.
        reason: String,
    },
    /// More bytes than a configured limit allows.
    #[error("more than {max} bytes, the limit {limit}")]
    Limit {
        /// The limit's name.
        limit: &'static str,
        /// The most that it allows, in bytes.
        max: usize,
    },
    /// A version that this message doesn't have here.
    #[error("version {version} is outside {min}..={max}")]
    Version {
        /// The version asked for.
        version: i16,
        /// The oldest known.
        min: i16,
        /// The newest known.
        max: i16,
    },
}

/// A message that can't be written at the asked version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The field holds something that this version has no place for.
    #[error("{field} can't be sent in version {version}")]
    NotInVersion {
        /// The field's schema name.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// A string, array or byte run longer than its length field can say.
    #[error("{field} is {length} long, more than {max}")]
    TooLong {
        /// The field's schema name.
        field: &'static str,
        /// Its length.
        length: usize,
        /// The longest the wire can say.
        max: usize,
    },
    /// A null where the schema, or this version of it, has none.
    #[error("{field} can't be null in version {version}")]
    Null {
        /// The field's schema name.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// A codec that could not compress the records of a batch.
    #[error("records can't be compressed with {codec}: {reason}")]
    Compression {
        /// The codec's name.
        codec: &'static str,
        /// What the codec said.
        reason: String,
    },
    /// Tagged fields whose tags don't ascend, or one that the schema knows among the unknown ones.
    #[error("{field}: tag {tag} is out of order")]
    TagOrder {
        /// Where the tagged fields belong.
        field: &'static str,
        /// The tag that is not larger than the one before it.
        tag: u32,
    },
    /// A version that this message doesn't have here.
    #[error("version {version} is outside {min}..={max}")]
    Version {
        /// The version asked for.
        version: i16,
        /// The oldest known.
        min: i16,
        /// The newest known.
        max: i16,
    },
}

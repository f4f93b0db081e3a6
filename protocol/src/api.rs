//! Which APIs there are, in which versions, and what a request and its response have to do with each other.

use crate::{DecodeError, EncodeError};
use bytes::{Bytes, BytesMut};
use std::fmt;

/// An API's number on the wire. APIs that this crate has no messages for have a number all the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ApiKey(pub i16);

impl ApiKey {
    /// Produce (0).
    pub const PRODUCE: Self = Self(0);
    /// Fetch (1).
    pub const FETCH: Self = Self(1);
    /// ListOffsets (2).
    pub const LIST_OFFSETS: Self = Self(2);
    /// Metadata (3).
    pub const METADATA: Self = Self(3);
    /// OffsetCommit (8).
    pub const OFFSET_COMMIT: Self = Self(8);
    /// OffsetFetch (9).
    pub const OFFSET_FETCH: Self = Self(9);
    /// FindCoordinator (10).
    pub const FIND_COORDINATOR: Self = Self(10);
    /// ApiVersions (18).
    pub const API_VERSIONS: Self = Self(18);
    /// OffsetForLeaderEpoch (23).
    pub const OFFSET_FOR_LEADER_EPOCH: Self = Self(23);

    /// The API's name in Kafka's schemas, if this crate has messages for it.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::PRODUCE => "Produce",
            Self::FETCH => "Fetch",
            Self::LIST_OFFSETS => "ListOffsets",
            Self::METADATA => "Metadata",
            Self::OFFSET_COMMIT => "OffsetCommit",
            Self::OFFSET_FETCH => "OffsetFetch",
            Self::FIND_COORDINATOR => "FindCoordinator",
            Self::API_VERSIONS => "ApiVersions",
            Self::OFFSET_FOR_LEADER_EPOCH => "OffsetForLeaderEpoch",
            _ => return None,
        })
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "API {}", self.0),
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An inclusive range of an API's versions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionRange {
    /// The oldest version.
    pub min: i16,
    /// The newest version.
    pub max: i16,
}

impl VersionRange {
    /// `min..=max`.
    pub const fn new(min: i16, max: i16) -> Self {
        Self { min, max }
    }

    /// Whether `version` lies in the range.
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    /// The newest version that both ranges hold.
    pub fn newest_common(self, other: Self) -> Option<i16> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min)).then_some(newest)
    }
}

/// One direction of an API: a struct that holds the fields of every version.
pub trait Message: Sized + Default {
    /// The API it belongs to.
    const API_KEY: ApiKey;
    /// The versions that can be read and written here.
    const VERSIONS: VersionRange;
    /// The first version with compact lengths and tagged fields (KIP-482); `i16::MAX` if none has them.
    const FLEXIBLE_SINCE: i16;

    /// Appends the body, without any header, to `out`.
    ///
    /// # Errors
    /// A version outside [`Self::VERSIONS`], or a field that the version can't carry.
    fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError>;

    /// Reads a body, without any header. Byte fields of the result are slices of `body`. Bytes left after the last field are ignored,
    /// as Java does.
    ///
    /// # Errors
    /// A version outside [`Self::VERSIONS`], or bytes that are not such a message; positions count from the start of `body`.
    fn decode(version: i16, body: &Bytes) -> Result<Self, DecodeError>;

    /// The message as Kafka's own JSON converters show it: the schema's field names, the fields of the version, tagged ones only where
    /// they are not at their default. Bytes are shown as `hex:` and lower-case hex digits, uuids in Kafka's text form, error codes as
    /// numbers.
    #[cfg(feature = "json")]
    fn to_json(&self, version: i16) -> serde_json::Value;

    /// Calls `found` for each tagged field that the schema doesn't know, with the path of its structure in the
    /// [JSON form](Self::to_json): `/topics[0]/partitions[1]`, empty for the message itself.
    #[cfg(feature = "json")]
    fn for_each_unknown_tag(&self, found: &mut dyn FnMut(&str, &crate::TaggedField));
}

/// A request, and the response that answers it.
pub trait Request: Message {
    /// What the broker answers, in the request's version.
    type Response: Message;
}

//! Which APIs there are, in which versions, and what a request and its response have to do with each other.

use crate::{DecodeError, EncodeError};
use bytes::{Bytes, BytesMut};
use std::fmt;

/// An API's number on the wire. APIs that this crate has no messages for have a number all the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ApiKey(pub i16);

/// Makes a constant of every line, and the names from all of them.
macro_rules! api_keys {
    ($($constant:ident = $number:literal, $name:literal;)+) => {
        impl ApiKey {
            $(#[doc = concat!($name, " (", $number, ").")] pub const $constant: Self = Self($number);)+

            /// The API's name in Kafka's schemas, of those that a client uses.
            pub const fn name(self) -> Option<&'static str> {
                Some(match self {
                    $(Self::$constant => $name,)+
                    _ => return None,
                })
            }

            /// The API of this [name](Self::name), in any case.
            pub fn from_name(name: &str) -> Option<Self> {
                [$((Self::$constant, $name),)+]
                    .into_iter()
                    .find_map(|(api_key, known)| known.eq_ignore_ascii_case(name).then_some(api_key))
            }
        }
    };
}

api_keys! {
    PRODUCE = 0, "Produce";
    FETCH = 1, "Fetch";
    LIST_OFFSETS = 2, "ListOffsets";
    METADATA = 3, "Metadata";
    OFFSET_COMMIT = 8, "OffsetCommit";
    OFFSET_FETCH = 9, "OffsetFetch";
    FIND_COORDINATOR = 10, "FindCoordinator";
    JOIN_GROUP = 11, "JoinGroup";
    HEARTBEAT = 12, "Heartbeat";
    LEAVE_GROUP = 13, "LeaveGroup";
    SYNC_GROUP = 14, "SyncGroup";
    DESCRIBE_GROUPS = 15, "DescribeGroups";
    LIST_GROUPS = 16, "ListGroups";
    SASL_HANDSHAKE = 17, "SaslHandshake";
    API_VERSIONS = 18, "ApiVersions";
    CREATE_TOPICS = 19, "CreateTopics";
    DELETE_TOPICS = 20, "DeleteTopics";
    DELETE_RECORDS = 21, "DeleteRecords";
    INIT_PRODUCER_ID = 22, "InitProducerId";
    OFFSET_FOR_LEADER_EPOCH = 23, "OffsetForLeaderEpoch";
    ADD_PARTITIONS_TO_TXN = 24, "AddPartitionsToTxn";
    ADD_OFFSETS_TO_TXN = 25, "AddOffsetsToTxn";
    END_TXN = 26, "EndTxn";
    TXN_OFFSET_COMMIT = 28, "TxnOffsetCommit";
    DESCRIBE_CONFIGS = 32, "DescribeConfigs";
    SASL_AUTHENTICATE = 36, "SaslAuthenticate";
    CREATE_PARTITIONS = 37, "CreatePartitions";
    DELETE_GROUPS = 42, "DeleteGroups";
    OFFSET_DELETE = 47, "OffsetDelete";
    DESCRIBE_CLUSTER = 60, "DescribeCluster";
    CONSUMER_GROUP_HEARTBEAT = 68, "ConsumerGroupHeartbeat";
    CONSUMER_GROUP_DESCRIBE = 69, "ConsumerGroupDescribe";
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_kafkas() {
        for key in kafka_protocol::messages::ApiKey::iter() {
            let ours = ApiKey(key as i16);
            if let Some(name) = ours.name() {
                assert_eq!(name, format!("{key:?}"));
                assert_eq!(ApiKey::from_name(&name.to_lowercase()), Some(ours));
            }
        }
        assert_eq!(ApiKey::FETCH.to_string(), "Fetch");
        assert_eq!(ApiKey(1000).to_string(), "API 1000");
        assert_eq!(ApiKey::from_name("nothing"), None);
    }

    #[test]
    fn the_newest_common_version() {
        let ours = VersionRange::new(4, 18);
        assert_eq!(ours.newest_common(VersionRange::new(0, 12)), Some(12));
        assert_eq!(ours.newest_common(VersionRange::new(18, 20)), Some(18));
        assert_eq!(ours.newest_common(VersionRange::new(0, 3)), None);
        assert_eq!(ours.newest_common(VersionRange::new(19, 20)), None);
        assert!(ours.contains(4) && ours.contains(18) && !ours.contains(3) && !ours.contains(19));
    }
}

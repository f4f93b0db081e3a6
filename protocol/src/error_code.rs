//! Kafka's error codes, by Kafka's names, and what a client does about them: the classes follow from the exception types of Kafka 4.3's
//! `Errors`, where an exception is retriable and asks for fresh metadata or for another coordinator first.

use std::fmt;

/// An error code as the broker sent it; 0 is none. Codes this crate has no name for are kept as they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ErrorCode(pub i16);

/// Makes a constant of every line, and `name` from all of them.
macro_rules! error_codes {
    ($($(#[$doc:meta])+ $name:ident = $code:literal,)+) => {
        impl ErrorCode {
            $($(#[$doc])+ pub const $name: Self = Self($code);)+

            /// Kafka's name for the code; `None` if Kafka 4.3 has none.
            pub const fn name(self) -> Option<&'static str> {
                Some(match self {
                    $(Self::$name => stringify!($name),)+
                    _ => return None,
                })
            }

            #[cfg(test)]
            const ALL: &'static [Self] = &[$(Self::$name,)+];
        }
    };
}

error_codes! {
    /// The broker met an error it has no code for; its log says more.
    UNKNOWN_SERVER_ERROR = -1,
    /// No error.
    NONE = 0,
    /// The offset lies below the log start or above the log end.
    OFFSET_OUT_OF_RANGE = 1,
    /// A batch failed its checksum or is otherwise broken.
    CORRUPT_MESSAGE = 2,
    /// This broker has no such partition: not yet, no longer, or never.
    UNKNOWN_TOPIC_OR_PARTITION = 3,
    /// The asked fetch size is invalid.
    INVALID_FETCH_SIZE = 4,
    /// The partition is electing its leader.
    LEADER_NOT_AVAILABLE = 5,
    /// This broker does not lead the partition (or holds no replica of it).
    NOT_LEADER_OR_FOLLOWER = 6,
    /// The broker gave up waiting.
    REQUEST_TIMED_OUT = 7,
    /// The broker is not available.
    BROKER_NOT_AVAILABLE = 8,
    /// The replica is not available here.
    REPLICA_NOT_AVAILABLE = 9,
    /// A batch is larger than `message.max.bytes`.
    MESSAGE_TOO_LARGE = 10,
    /// The controller has moved to another broker.
    STALE_CONTROLLER_EPOCH = 11,
    /// A commit's metadata is longer than `offset.metadata.max.bytes`.
    OFFSET_METADATA_TOO_LARGE = 12,
    /// The broker lost a connection that it needed for the answer.
    NETWORK_EXCEPTION = 13,
    /// The coordinator is still loading; ask the same broker again.
    COORDINATOR_LOAD_IN_PROGRESS = 14,
    /// There is no coordinator yet.
    COORDINATOR_NOT_AVAILABLE = 15,
    /// Another broker is the coordinator.
    NOT_COORDINATOR = 16,
    /// The topic name is invalid, or the operation is not allowed on this topic.
    INVALID_TOPIC_EXCEPTION = 17,
    /// A batch is larger than a log segment.
    RECORD_LIST_TOO_LARGE = 18,
    /// Fewer replicas are in sync than `min.insync.replicas`; nothing was written.
    NOT_ENOUGH_REPLICAS = 19,
    /// Written, but to fewer replicas than `min.insync.replicas`.
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20,
    /// `acks` has an invalid value.
    INVALID_REQUIRED_ACKS = 21,
    /// The group's generation is not the given one.
    ILLEGAL_GENERATION = 22,
    /// The member's protocols don't fit those of the group.
    INCONSISTENT_GROUP_PROTOCOL = 23,
    /// The group id is invalid.
    INVALID_GROUP_ID = 24,
    /// The group has no such member.
    UNKNOWN_MEMBER_ID = 25,
    /// The session timeout is outside the broker's range.
    INVALID_SESSION_TIMEOUT = 26,
    /// The group is rebalancing; the member has to join again.
    REBALANCE_IN_PROGRESS = 27,
    /// The commit is too large to be written.
    INVALID_COMMIT_OFFSET_SIZE = 28,
    /// Not authorized for the topic.
    TOPIC_AUTHORIZATION_FAILED = 29,
    /// Not authorized for the group.
    GROUP_AUTHORIZATION_FAILED = 30,
    /// Not authorized for the cluster.
    CLUSTER_AUTHORIZATION_FAILED = 31,
    /// A record's timestamp is out of the accepted range.
    INVALID_TIMESTAMP = 32,
    /// The broker does not offer this SASL mechanism.
    UNSUPPORTED_SASL_MECHANISM = 33,
    /// The request does not fit the state of the SASL exchange.
    ILLEGAL_SASL_STATE = 34,
    /// The broker does not know this version of the API, or of a value in it.
    UNSUPPORTED_VERSION = 35,
    /// The topic exists already.
    TOPIC_ALREADY_EXISTS = 36,
    /// The partition count is invalid.
    INVALID_PARTITIONS = 37,
    /// The replication factor is invalid, or larger than the cluster.
    INVALID_REPLICATION_FACTOR = 38,
    /// The replica assignment is invalid.
    INVALID_REPLICA_ASSIGNMENT = 39,
    /// The configuration is invalid.
    INVALID_CONFIG = 40,
    /// Another node is the controller.
    NOT_CONTROLLER = 41,
    /// The request breaks a rule of its API; the broker log says which.
    INVALID_REQUEST = 42,
    /// The log's message format is too old for the request.
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43,
    /// The broker's policy refuses the request.
    POLICY_VIOLATION = 44,
    /// A producer's sequence number left a gap.
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45,
    /// A producer's sequence number came again.
    DUPLICATE_SEQUENCE_NUMBER = 46,
    /// The producer epoch is too old.
    INVALID_PRODUCER_EPOCH = 47,
    /// The transaction is in a state that does not allow the operation.
    INVALID_TXN_STATE = 48,
    /// The producer id is not the transactional id's.
    INVALID_PRODUCER_ID_MAPPING = 49,
    /// The transaction timeout is above `transaction.max.timeout.ms`.
    INVALID_TRANSACTION_TIMEOUT = 50,
    /// Another operation on the same transaction is under way.
    CONCURRENT_TRANSACTIONS = 51,
    /// The writer of a transaction marker is no longer its coordinator.
    TRANSACTION_COORDINATOR_FENCED = 52,
    /// Not authorized for the transactional id.
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53,
    /// Security features are off.
    SECURITY_DISABLED = 54,
    /// Not tried, since another operation of the request failed.
    OPERATION_NOT_ATTEMPTED = 55,
    /// A disk error on the broker's side.
    KAFKA_STORAGE_ERROR = 56,
    /// The broker has no such log directory.
    LOG_DIR_NOT_FOUND = 57,
    /// The credentials were refused.
    SASL_AUTHENTICATION_FAILED = 58,
    /// The broker no longer knows the producer id.
    UNKNOWN_PRODUCER_ID = 59,
    /// A reassignment of the partition is under way.
    REASSIGNMENT_IN_PROGRESS = 60,
    /// Delegation tokens are off.
    DELEGATION_TOKEN_AUTH_DISABLED = 61,
    /// There is no such delegation token.
    DELEGATION_TOKEN_NOT_FOUND = 62,
    /// The delegation token belongs to another principal.
    DELEGATION_TOKEN_OWNER_MISMATCH = 63,
    /// Delegation tokens are not given out on this kind of connection.
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64,
    /// Not authorized for the delegation token.
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65,
    /// The delegation token has expired.
    DELEGATION_TOKEN_EXPIRED = 66,
    /// The principal type is not supported.
    INVALID_PRINCIPAL_TYPE = 67,
    /// The group has members.
    NON_EMPTY_GROUP = 68,
    /// There is no such group.
    GROUP_ID_NOT_FOUND = 69,
    /// The broker has dropped the fetch session (KIP-227).
    FETCH_SESSION_ID_NOT_FOUND = 70,
    /// The fetch session is at another epoch (KIP-227).
    INVALID_FETCH_SESSION_EPOCH = 71,
    /// The leader has no listener of the name that the client uses.
    LISTENER_NOT_FOUND = 72,
    /// Topics can't be deleted here.
    TOPIC_DELETION_DISABLED = 73,
    /// The request's leader epoch is older than the broker's (KIP-320).
    FENCED_LEADER_EPOCH = 74,
    /// The request's leader epoch is newer than the broker's (KIP-320).
    UNKNOWN_LEADER_EPOCH = 75,
    /// The request's version is too old for the batch's codec.
    UNSUPPORTED_COMPRESSION_TYPE = 76,
    /// The broker epoch has changed.
    STALE_BROKER_EPOCH = 77,
    /// The new leader does not know its high watermark yet.
    OFFSET_NOT_AVAILABLE = 78,
    /// Join again with the member id of this answer.
    MEMBER_ID_REQUIRED = 79,
    /// The preferred leader is not available.
    PREFERRED_LEADER_NOT_AVAILABLE = 80,
    /// The group is full.
    GROUP_MAX_SIZE_REACHED = 81,
    /// Another member took over the `group.instance.id`.
    FENCED_INSTANCE_ID = 82,
    /// No replica may become leader.
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83,
    /// The partition needs no election.
    ELECTION_NOT_NEEDED = 84,
    /// No reassignment is under way.
    NO_REASSIGNMENT_IN_PROGRESS = 85,
    /// The group still subscribes to the topic whose offsets should go.
    GROUP_SUBSCRIBED_TO_TOPIC = 86,
    /// A record failed the checks of the broker.
    INVALID_RECORD = 87,
    /// A transaction with a commit for this partition is still open (KIP-447).
    UNSTABLE_OFFSET_COMMIT = 88,
    /// The quota is used up.
    THROTTLING_QUOTA_EXCEEDED = 89,
    /// A newer producer has the same transactional id.
    PRODUCER_FENCED = 90,
    /// There is no such resource.
    RESOURCE_NOT_FOUND = 91,
    /// The request names a resource twice.
    DUPLICATE_RESOURCE = 92,
    /// The credential does not meet the rules.
    UNACCEPTABLE_CREDENTIAL = 93,
    /// Sender or receiver is not among the voters.
    INCONSISTENT_VOTER_SET = 94,
    /// The update version is invalid.
    INVALID_UPDATE_VERSION = 95,
    /// The features could not be updated.
    FEATURE_UPDATE_FAILED = 96,
    /// A forwarded request holds a principal that can't be read.
    PRINCIPAL_DESERIALIZATION_FAILURE = 97,
    /// There is no such snapshot.
    SNAPSHOT_NOT_FOUND = 98,
    /// The position lies outside the snapshot.
    POSITION_OUT_OF_RANGE = 99,
    /// This broker has no topic of this id (KIP-516).
    UNKNOWN_TOPIC_ID = 100,
    /// The broker id is in use.
    DUPLICATE_BROKER_REGISTRATION = 101,
    /// The broker id is not registered.
    BROKER_ID_NOT_REGISTERED = 102,
    /// The request's topic id is not the log's (KIP-516).
    INCONSISTENT_TOPIC_ID = 103,
    /// The request's cluster id is another cluster's.
    INCONSISTENT_CLUSTER_ID = 104,
    /// There is no such transactional id.
    TRANSACTIONAL_ID_NOT_FOUND = 105,
    /// The fetch session began with names and now gets ids, or the other way round.
    FETCH_SESSION_TOPIC_ID_ERROR = 106,
    /// The new in-sync set holds a replica that may not be in it.
    INELIGIBLE_REPLICA = 107,
    /// The update was made, and the leader changed.
    NEW_LEADER_ELECTED = 108,
    /// The offset is only in tiered storage; said to followers.
    OFFSET_MOVED_TO_TIERED_STORAGE = 109,
    /// The member is fenced: give up all partitions and join again (KIP-848).
    FENCED_MEMBER_EPOCH = 110,
    /// Another member still holds the instance id.
    UNRELEASED_INSTANCE_ID = 111,
    /// The group has no such assignor.
    UNSUPPORTED_ASSIGNOR = 112,
    /// The member epoch is not the current one: take it from the next heartbeat and retry (KIP-848).
    STALE_MEMBER_EPOCH = 113,
    /// The request went to an endpoint of the wrong type.
    MISMATCHED_ENDPOINT_TYPE = 114,
    /// The endpoint type is not supported yet.
    UNSUPPORTED_ENDPOINT_TYPE = 115,
    /// There is no controller of this id.
    UNKNOWN_CONTROLLER_ID = 116,
    /// The telemetry subscription is unknown or outdated.
    UNKNOWN_SUBSCRIPTION_ID = 117,
    /// The pushed telemetry is too large.
    TELEMETRY_TOO_LARGE = 118,
    /// The broker's registration is invalid.
    INVALID_REGISTRATION = 119,
    /// The transaction failed; it can be aborted and the transactional id used on.
    TRANSACTION_ABORTABLE = 120,
    /// The record is in a state that does not allow its acknowledgement.
    INVALID_RECORD_STATE = 121,
    /// There is no such share session.
    SHARE_SESSION_NOT_FOUND = 122,
    /// The share session is at another epoch.
    INVALID_SHARE_SESSION_EPOCH = 123,
    /// The share group's state is at another epoch.
    FENCED_STATE_EPOCH = 124,
    /// The voter's key is not the replica's.
    INVALID_VOTER_KEY = 125,
    /// The voter is in the set already.
    DUPLICATE_VOTER = 126,
    /// The voter is not in the set.
    VOTER_NOT_FOUND = 127,
    /// The regular expression is invalid.
    INVALID_REGULAR_EXPRESSION = 128,
    /// The metadata is too old: start again from the bootstrap servers (KIP-1102).
    REBOOTSTRAP_REQUIRED = 129,
    /// The topology is invalid.
    STREAMS_INVALID_TOPOLOGY = 130,
    /// The topology epoch is invalid.
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131,
    /// The topology epoch is outdated.
    STREAMS_TOPOLOGY_FENCED = 132,
    /// The broker holds no further share session.
    SHARE_SESSION_LIMIT_REACHED = 133,
}

impl ErrorCode {
    /// Whether all went well.
    pub const fn is_none(self) -> bool {
        self.0 == Self::NONE.0
    }

    /// Whether the same request may succeed later: at once after [refreshed metadata](Self::refreshes_metadata) or
    /// [another coordinator](Self::refreshes_coordinator), or at the same broker after a pause. Some codes that are not retriable by this
    /// rule have a protocol of their own: rejoin, renegotiate, reset the offset.
    pub const fn is_retriable(self) -> bool {
        self.refreshes_metadata()
            || self.refreshes_coordinator()
            || matches!(
                self,
                Self::CORRUPT_MESSAGE
                    | Self::REQUEST_TIMED_OUT
                    | Self::COORDINATOR_LOAD_IN_PROGRESS
                    | Self::NOT_ENOUGH_REPLICAS
                    | Self::NOT_ENOUGH_REPLICAS_AFTER_APPEND
                    | Self::NOT_CONTROLLER
                    | Self::CONCURRENT_TRANSACTIONS
                    | Self::FETCH_SESSION_ID_NOT_FOUND
                    | Self::INVALID_FETCH_SESSION_EPOCH
                    | Self::UNKNOWN_LEADER_EPOCH
                    | Self::OFFSET_NOT_AVAILABLE
                    | Self::UNSTABLE_OFFSET_COMMIT
                    | Self::THROTTLING_QUOTA_EXCEEDED
                    | Self::FETCH_SESSION_TOPIC_ID_ERROR
                    | Self::SHARE_SESSION_NOT_FOUND
                    | Self::INVALID_SHARE_SESSION_EPOCH
                    | Self::SHARE_SESSION_LIMIT_REACHED
            )
    }

    /// Whether the client's picture of the cluster is out of date: fetch the metadata, then retry.
    pub const fn refreshes_metadata(self) -> bool {
        matches!(
            self,
            Self::UNKNOWN_TOPIC_OR_PARTITION
                | Self::LEADER_NOT_AVAILABLE
                | Self::NOT_LEADER_OR_FOLLOWER
                | Self::REPLICA_NOT_AVAILABLE
                | Self::NETWORK_EXCEPTION
                | Self::KAFKA_STORAGE_ERROR
                | Self::LISTENER_NOT_FOUND
                | Self::FENCED_LEADER_EPOCH
                | Self::PREFERRED_LEADER_NOT_AVAILABLE
                | Self::ELIGIBLE_LEADERS_NOT_AVAILABLE
                | Self::ELECTION_NOT_NEEDED
                | Self::UNKNOWN_TOPIC_ID
                | Self::INCONSISTENT_TOPIC_ID
        )
    }

    /// Whether the client asked the wrong coordinator, or there is none: find it, then retry.
    pub const fn refreshes_coordinator(self) -> bool {
        matches!(self, Self::COORDINATOR_NOT_AVAILABLE | Self::NOT_COORDINATOR)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name().unwrap_or("UNKNOWN"), self.0)
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_print_with_name_and_number_and_unknown_ones_are_kept() {
        assert_eq!(ErrorCode(6).to_string(), "NOT_LEADER_OR_FOLLOWER (6)");
        assert_eq!(ErrorCode(-1).to_string(), "UNKNOWN_SERVER_ERROR (-1)");
        assert_eq!(ErrorCode(1234).to_string(), "UNKNOWN (1234)");
        assert!(ErrorCode(0).is_none());
        assert_eq!(ErrorCode::default(), ErrorCode::NONE);
        for code in i16::MIN..=i16::MAX {
            let code = ErrorCode(code);
            assert!(!(code.name().is_none() && code.is_retriable()), "{code} has no name and yet a class");
        }
    }

    #[test]
    fn the_codes_are_kafkas_without_a_gap() {
        assert_eq!(ErrorCode::ALL.first(), Some(&ErrorCode(-1)));
        assert_eq!(ErrorCode::ALL.last(), Some(&ErrorCode(133)));
        assert!(ErrorCode::ALL.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0));
    }

    #[test]
    fn the_classes_are_those_of_kafkas_exceptions() {
        let codes = |class: fn(ErrorCode) -> bool| -> Vec<i16> {
            ErrorCode::ALL.iter().filter(|code| class(**code)).map(|code| code.0).collect()
        };
        assert_eq!(codes(ErrorCode::refreshes_metadata), [3, 5, 6, 9, 13, 56, 72, 74, 80, 83, 84, 100, 103]);
        assert_eq!(codes(ErrorCode::refreshes_coordinator), [15, 16]);
        let same_place =
            |code: ErrorCode| code.is_retriable() && !code.refreshes_metadata() && !code.refreshes_coordinator();
        assert_eq!(codes(same_place), [2, 7, 14, 19, 20, 41, 51, 70, 71, 75, 78, 88, 89, 106, 122, 123, 133]);
    }
}

//! ListOffsets: the offset of a time, or of an end of the log. Versions 1 to 11.
//!
//! What came when: 2 isolation levels (KIP-98); 4 leader epochs (KIP-320); 6 compact encoding; 7 the newest timestamp (KIP-734); 8 the
//! earliest local offset (KIP-405); 9 the latest tiered one (KIP-1005); 10 a timeout (KIP-1075); 11 the earliest that waits for its upload
//! (KIP-1023).

use super::table::{message, message_struct};
use crate::{ErrorCode, Request};

message! {
    ListOffsetsRequest: LIST_OFFSETS, 1..=11, flexible 6..;
    ListOffsetsResponse: LIST_OFFSETS, 1..=11, flexible 6..;
}

impl Request for ListOffsetsRequest {
    type Response = ListOffsetsResponse;
}

impl ListOffsetsPartition {
    /// The `timestamp` that asks for the end: the high watermark, or the last stable offset when read committed.
    pub const LATEST: i64 = -1;
    /// The `timestamp` that asks for the log start offset.
    pub const EARLIEST: i64 = -2;
    /// The `timestamp` that asks for the record with the largest timestamp. From version 7 on.
    pub const MAX_TIMESTAMP: i64 = -3;
    /// The `timestamp` that asks for the first offset on the leader's own disk. From version 8 on.
    pub const EARLIEST_LOCAL: i64 = -4;
    /// The `timestamp` that asks for the last offset in tiered storage. From version 9 on.
    pub const LATEST_TIERED: i64 = -5;
    /// The `timestamp` that asks for the first offset that is not yet in tiered storage. From version 11 on.
    pub const EARLIEST_PENDING_UPLOAD: i64 = -6;

    /// The first version in which `timestamp` means what it does above. A broker answers UNSUPPORTED_VERSION in the partition to a
    /// special timestamp that is too new for the request's version.
    pub const fn first_version(timestamp: i64) -> i16 {
        match timestamp {
            Self::MAX_TIMESTAMP => 7,
            Self::EARLIEST_LOCAL => 8,
            Self::LATEST_TIERED => 9,
            Self::EARLIEST_PENDING_UPLOAD => 11,
            _ => 1,
        }
    }
}

message_struct! {
    /// Asks the leaders of partitions for offsets.
    ListOffsetsRequest at "ListOffsetsRequest" {
        /// The node id of the broker that asks; -1 for a consumer. The schema's default is 0.
        replica_id: i32, 0.., required;
        /// 0 is read uncommitted, 1 read committed.
        isolation_level: i8, 2.., required;
        /// What to look up.
        topics: Vec<ListOffsetsTopic>, 0.., required;
        /// How long the broker may look in tiered storage, in milliseconds.
        timeout_ms: i32, 10.., ignorable;
    }

    /// A topic to look up.
    ListOffsetsTopic at "ListOffsetsRequest.topics" {
        /// The name.
        name: String, 0.., required;
        /// The partitions, each once.
        partitions: Vec<ListOffsetsPartition>, 0.., required;
    }

    /// A partition to look up.
    ListOffsetsPartition at "ListOffsetsRequest.topics.partitions" {
        /// The partition's number.
        partition_index: i32, 0.., required;
        /// The leader epoch that the client knows, -1 if none.
        current_leader_epoch: i32 = -1, 4.., ignorable;
        /// Milliseconds since the epoch for the first record at or after then, or one of the special values.
        timestamp: i64, 0.., required;
    }
}

message_struct! {
    /// Offsets.
    ListOffsetsResponse at "ListOffsetsResponse" {
        /// For how many milliseconds the client shall send nothing more (KIP-219).
        throttle_time_ms: i32, 2.., ignorable;
        /// The topics.
        topics: Vec<ListOffsetsTopicResponse>, 0.., required;
    }

    /// A topic's offsets.
    ListOffsetsTopicResponse at "ListOffsetsResponse.topics" {
        /// The name.
        name: String, 0.., required;
        /// The partitions.
        partitions: Vec<ListOffsetsPartitionResponse>, 0.., required;
    }

    /// A partition's offset.
    ListOffsetsPartitionResponse at "ListOffsetsResponse.topics.partitions" {
        /// The partition's number.
        partition_index: i32, 0.., required;
        /// What went wrong.
        error_code: ErrorCode, 0.., required;
        /// The timestamp of the record found; -1 for the special values, and if there is none.
        timestamp: i64 = -1, 1.., required;
        /// The offset; -1, without an error, if no record is that new.
        offset: i64 = -1, 1.., required;
        /// The leader epoch of the offset; -1 if not known.
        leader_epoch: i32 = -1, 4.., required;
    }
}

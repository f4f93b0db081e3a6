//! OffsetForLeaderEpoch: where a leader's epoch ended, to notice that a log was truncated (KIP-101, KIP-320). Versions 2 to 4.
//!
//! What came when: 3 the replica's id; 4 compact encoding.

use super::table::{message, message_struct};
use crate::{ErrorCode, Request};

message! {
    OffsetForLeaderEpochRequest: OFFSET_FOR_LEADER_EPOCH, 2..=4, flexible 4..;
    OffsetForLeaderEpochResponse: OFFSET_FOR_LEADER_EPOCH, 2..=4, flexible 4..;
}

impl Request for OffsetForLeaderEpochRequest {
    type Response = OffsetForLeaderEpochResponse;
}

message_struct! {
    /// Asks the leaders of partitions where epochs ended.
    OffsetForLeaderEpochRequest at "OffsetForLeaderEpochRequest" {
        /// The node id of the follower that asks; -1 for a consumer, -2 for one that may see past the high watermark.
        replica_id: i32 = -2, 3.., ignorable;
        /// What to look up.
        topics: Vec<OffsetForLeaderTopic>, 0.., required;
    }

    /// A topic to look up.
    OffsetForLeaderTopic at "OffsetForLeaderEpochRequest.topics" {
        /// The name.
        topic: String, 0.., required;
        /// The partitions.
        partitions: Vec<OffsetForLeaderPartition>, 0.., required;
    }

    /// A partition to look up.
    OffsetForLeaderPartition at "OffsetForLeaderEpochRequest.topics.partitions" {
        /// The partition's number.
        partition: i32, 0.., required;
        /// The leader epoch that the client knows, -1 if none; the broker compares.
        current_leader_epoch: i32 = -1, 2.., ignorable;
        /// The epoch whose end is wanted.
        leader_epoch: i32, 0.., required;
    }
}

message_struct! {
    /// Where epochs ended.
    OffsetForLeaderEpochResponse at "OffsetForLeaderEpochResponse" {
        /// For how many milliseconds the client shall send nothing more (KIP-219).
        throttle_time_ms: i32, 2.., ignorable;
        /// The topics.
        topics: Vec<OffsetForLeaderTopicResult>, 0.., required;
    }

    /// A topic's partitions.
    OffsetForLeaderTopicResult at "OffsetForLeaderEpochResponse.topics" {
        /// The name.
        topic: String, 0.., required;
        /// The partitions.
        partitions: Vec<LeaderEpochEndOffset>, 0.., required;
    }

    /// Where a partition's epoch ended. The schema calls it `EpochEndOffset`, as another struct in Fetch.
    LeaderEpochEndOffset at "OffsetForLeaderEpochResponse.topics.partitions" {
        /// What went wrong.
        error_code: ErrorCode, 0.., required;
        /// The partition's number.
        partition: i32, 0.., required;
        /// The largest epoch that is not newer than the asked one, -1 if none.
        leader_epoch: i32 = -1, 1.., ignorable;
        /// The offset after its last record, -1 if none.
        end_offset: i64 = -1, 0.., required;
    }
}

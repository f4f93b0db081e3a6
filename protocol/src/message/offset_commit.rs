//! OffsetCommit: where a group is in its partitions. Versions 2 to 10.
//!
//! What came when: 5 drops the retention time; 6 leader epochs (KIP-320); 7 static members (KIP-345); 8 compact encoding; 9 member
//! epochs (KIP-848); 10 topic ids instead of names.

use super::table::{message, message_struct};
use crate::{ErrorCode, Request, Uuid};

message! {
    OffsetCommitRequest: OFFSET_COMMIT, 2..=10, flexible 8..;
    OffsetCommitResponse: OFFSET_COMMIT, 2..=10, flexible 8..;
}

impl Request for OffsetCommitRequest {
    type Response = OffsetCommitResponse;
}

message_struct! {
    /// Stores offsets for a group.
    OffsetCommitRequest at "OffsetCommitRequest" {
        /// The group.
        group_id: String, 0.., required;
        /// The generation of a classic group, the member's epoch of a new one (KIP-848), -1 from outside of the group.
        generation_id_or_member_epoch: i32 = -1, 1.., ignorable;
        /// The member, empty from outside of the group.
        member_id: String, 1.., ignorable;
        /// The name of a static member.
        group_instance_id: Option<String> = None, 7.., required, nullable 7..;
        /// How long to keep the offsets, in milliseconds; -1 leaves it to the broker.
        retention_time_ms: i64 = -1, 2..=4, ignorable;
        /// The offsets.
        topics: Vec<OffsetCommitRequestTopic>, 0.., required;
    }

    /// A topic's offsets.
    OffsetCommitRequestTopic at "OffsetCommitRequest.topics" {
        /// The name.
        name: String, 0..=9, ignorable;
        /// The id.
        topic_id: Uuid, 10.., ignorable;
        /// The partitions.
        partitions: Vec<OffsetCommitRequestPartition>, 0.., required;
    }

    /// A partition's offset.
    OffsetCommitRequestPartition at "OffsetCommitRequest.topics.partitions" {
        /// The partition's number.
        partition_index: i32, 0.., required;
        /// The next offset to read.
        committed_offset: i64, 0.., required;
        /// The leader epoch of the last record read, -1 if not known.
        committed_leader_epoch: i32 = -1, 6.., ignorable;
        /// A note to keep with it.
        committed_metadata: Option<String> = Some(String::new()), 0.., required, nullable 0..;
    }
}

message_struct! {
    /// What became of each offset.
    OffsetCommitResponse at "OffsetCommitResponse" {
        /// For how many milliseconds the client shall send nothing more (KIP-219).
        throttle_time_ms: i32, 3.., ignorable;
        /// The topics, in the broker's order.
        topics: Vec<OffsetCommitResponseTopic>, 0.., required;
    }

    /// A topic's partitions.
    OffsetCommitResponseTopic at "OffsetCommitResponse.topics" {
        /// The name.
        name: String, 0..=9, ignorable;
        /// The id.
        topic_id: Uuid, 10.., ignorable;
        /// The partitions, in the broker's order.
        partitions: Vec<OffsetCommitResponsePartition>, 0.., required;
    }

    /// A partition.
    OffsetCommitResponsePartition at "OffsetCommitResponse.topics.partitions" {
        /// The partition's number.
        partition_index: i32, 0.., required;
        /// What went wrong; an error of the group stands in every partition.
        error_code: ErrorCode, 0.., required;
    }
}

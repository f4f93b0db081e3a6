//! OffsetFetch: where a group, or several, is in its partitions. Versions 1 to 10.
//!
//! What came when: 2 all topics, and an error for the group; 5 leader epochs (KIP-320); 6 compact encoding; 7 waiting for transactions
//! (KIP-447); 8 several groups (KIP-709), in place of the one; 9 members (KIP-848); 10 topic ids instead of names.

use super::table::{message, message_struct};
use crate::{ErrorCode, Request, Uuid};

message! {
    OffsetFetchRequest: OFFSET_FETCH, 1..=10, flexible 6..;
    OffsetFetchResponse: OFFSET_FETCH, 1..=10, flexible 6..;
}

impl Request for OffsetFetchRequest {
    type Response = OffsetFetchResponse;
}

message_struct! {
    /// Asks for the offsets of groups.
    OffsetFetchRequest at "OffsetFetchRequest" {
        /// The group, up to version 7.
        group_id: String, 0..=7, required;
        /// Which topics, up to version 7; null for all, from version 2 on.
        topics: Option<Vec<OffsetFetchRequestTopic>> = Some(Vec::new()), 0..=7, required, nullable 2..=7;
        /// The groups, from version 8 on.
        groups: Vec<OffsetFetchRequestGroup>, 8.., required;
        /// Whether partitions with pending transactional commits get a retriable error (KIP-447).
        require_stable: bool, 7.., required;
    }

    /// A topic, up to version 7.
    OffsetFetchRequestTopic at "OffsetFetchRequest.topics" {
        /// The name.
        name: String, 0..=7, required;
        /// The partitions' numbers.
        partition_indexes: Vec<i32>, 0..=7, required;
    }

    /// A group, from version 8 on.
    OffsetFetchRequestGroup at "OffsetFetchRequest.groups" {
        /// The group.
        group_id: String, 8.., required;
        /// The member that asks, null from outside of the group.
        member_id: Option<String> = None, 9.., ignorable, nullable 9..;
        /// The member's epoch, -1 from outside of the group.
        member_epoch: i32 = -1, 9.., ignorable;
        /// Which topics; null for all.
        topics: Option<Vec<OffsetFetchRequestTopics>> = Some(Vec::new()), 8.., required, nullable 8..;
    }

    /// A topic, from version 8 on.
    OffsetFetchRequestTopics at "OffsetFetchRequest.groups.topics" {
        /// The name.
        name: String, 8..=9, ignorable;
        /// The id.
        topic_id: Uuid, 10.., ignorable;
        /// The partitions' numbers.
        partition_indexes: Vec<i32>, 8.., required;
    }
}

message_struct! {
    /// The offsets of groups.
    OffsetFetchResponse at "OffsetFetchResponse" {
        /// For how many milliseconds the client shall send nothing more (KIP-219).
        throttle_time_ms: i32, 3.., ignorable;
        /// The topics, up to version 7.
        topics: Vec<OffsetFetchResponseTopic>, 0..=7, required;
        /// An error of the group, versions 2 to 7. In version 1 it stands in the partitions.
        error_code: ErrorCode, 2..=7, ignorable;
        /// The groups, from version 8 on.
        groups: Vec<OffsetFetchResponseGroup>, 8.., required;
    }

    /// A topic, up to version 7.
    OffsetFetchResponseTopic at "OffsetFetchResponse.topics" {
        /// The name.
        name: String, 0..=7, required;
        /// The partitions.
        partitions: Vec<OffsetFetchResponsePartition>, 0..=7, required;
    }

    /// A partition, up to version 7.
    OffsetFetchResponsePartition at "OffsetFetchResponse.topics.partitions" {
        /// The partition's number.
        partition_index: i32, 0..=7, required;
        /// The next offset to read; -1 without an error if there is no commit.
        committed_offset: i64, 0..=7, required;
        /// The leader epoch of the commit, -1 if not known.
        committed_leader_epoch: i32 = -1, 5..=7, ignorable;
        /// The note that was kept with it.
        metadata: Option<String> = Some(String::new()), 0..=7, required, nullable 0..=7;
        /// What went wrong.
        error_code: ErrorCode, 0..=7, required;
    }

    /// A group, from version 8 on.
    OffsetFetchResponseGroup at "OffsetFetchResponse.groups" {
        /// The group.
        group_id: String, 8.., required;
        /// The topics.
        topics: Vec<OffsetFetchResponseTopics>, 8.., required;
        /// An error of the group; there are no topics then.
        error_code: ErrorCode, 8.., required;
    }

    /// A topic, from version 8 on.
    OffsetFetchResponseTopics at "OffsetFetchResponse.groups.topics" {
        /// The name.
        name: String, 8..=9, ignorable;
        /// The id.
        topic_id: Uuid, 10.., ignorable;
        /// The partitions.
        partitions: Vec<OffsetFetchResponsePartitions>, 8.., required;
    }

    /// A partition, from version 8 on.
    OffsetFetchResponsePartitions at "OffsetFetchResponse.groups.topics.partitions" {
        /// The partition's number.
        partition_index: i32, 8.., required;
        /// The next offset to read; -1 without an error if there is no commit.
        committed_offset: i64, 8.., required;
        /// The leader epoch of the commit, -1 if not known.
        committed_leader_epoch: i32 = -1, 8.., ignorable;
        /// The note that was kept with it.
        metadata: Option<String> = Some(String::new()), 8.., required, nullable 8..;
        /// What went wrong.
        error_code: ErrorCode, 8.., required;
    }
}

//! Fetch: the bytes of partitions from an offset on. Versions 4 to 18.
//!
//! What came when: 5 the log start offset; 7 sessions (KIP-227); 9 leader epochs (KIP-320); 11 reading from the nearest replica
//! (KIP-392); 12 compact encoding, diverging epochs (KIP-595); 13 topic ids instead of names (KIP-516); 15 the replica state (KIP-903);
//! 16 the endpoints of new leaders (KIP-951); 17 the replica's directory (KIP-853); 18 the replica's high watermark (KIP-1166).

use super::table::{message, message_struct};
use crate::{ErrorCode, Request, Uuid};
use bytes::Bytes;

message! {
    FetchRequest: FETCH, 4..=18, flexible 12..;
    FetchResponse: FETCH, 4..=18, flexible 12..;
}

impl Request for FetchRequest {
    type Response = FetchResponse;
}

message_struct! {
    /// Asks for records, or for what is new in a fetch session (KIP-227).
    FetchRequest at "FetchRequest" {
        /// The cluster's id, if a replica that joins wants it checked.
        cluster_id: Option<String> = None, 12.., ignorable, nullable 12.., tag 0;
        /// The node id of the follower that asks; -1 for a consumer.
        replica_id: i32 = -1, 0..=14, required;
        /// The follower that asks, in place of `replica_id`.
        replica_state: ReplicaState, 15.., required, tag 1;
        /// How long the broker may wait for `min_bytes`, in milliseconds.
        max_wait_ms: i32, 0.., required;
        /// How many bytes the broker waits for.
        min_bytes: i32, 0.., required;
        /// How many bytes to answer with at most; a first batch that is larger comes all the same (KIP-74).
        max_bytes: i32 = i32::MAX, 3.., ignorable;
        /// 0 is read uncommitted, 1 read committed.
        isolation_level: i8, 4.., ignorable;
        /// The session, 0 if there is none yet.
        session_id: i32, 7.., ignorable;
        /// The session's epoch: 0 makes a session, -1 is without or ends it.
        session_epoch: i32 = -1, 7.., ignorable;
        /// What to fetch; in a session, what is new or different. The broker fills the answer in this order.
        topics: Vec<FetchTopic>, 0.., required;
        /// Partitions to remove from the session.
        forgotten_topics_data: Vec<ForgottenTopic>, 7.., required;
        /// The rack of the consumer, for reading from the nearest replica (KIP-392).
        rack_id: String, 11.., ignorable;
    }

    /// The follower that asks.
    ReplicaState at "FetchRequest.replica_state" {
        /// Its node id; -1 for a consumer.
        replica_id: i32 = -1, 15.., required;
        /// Its epoch, -1 if there is none.
        replica_epoch: i64 = -1, 15.., required;
    }

    /// A topic to fetch.
    FetchTopic at "FetchRequest.topics" {
        /// The name.
        topic: String, 0..=12, ignorable;
        /// The id.
        topic_id: Uuid, 13.., ignorable;
        /// The partitions.
        partitions: Vec<FetchPartition>, 0.., required;
    }

    /// A partition to fetch.
    FetchPartition at "FetchRequest.topics.partitions" {
        /// The partition's number.
        partition: i32, 0.., required;
        /// The leader epoch that the client knows, -1 if none; the broker compares (KIP-320).
        current_leader_epoch: i32 = -1, 9.., ignorable;
        /// The first offset wanted.
        fetch_offset: i64, 0.., required;
        /// The epoch of the last record that was read, -1 if none; the broker looks for a divergence then.
        last_fetched_epoch: i32 = -1, 12.., required;
        /// A follower's log start offset; -1 for a consumer.
        log_start_offset: i64 = -1, 5.., ignorable;
        /// How many bytes of this partition to answer with at most, as `max_bytes`.
        partition_max_bytes: i32, 0.., required;
        /// The directory of the follower that asks.
        replica_directory_id: Uuid, 17.., ignorable, tag 0;
        /// The high watermark that the follower knows: -1 if none, 2^63-1 if it does not take part.
        high_watermark: i64 = i64::MAX, 18.., ignorable, tag 1;
    }

    /// Partitions of a topic to remove from the session.
    ForgottenTopic at "FetchRequest.forgotten_topics_data" {
        /// The name.
        topic: String, 7..=12, ignorable;
        /// The id.
        topic_id: Uuid, 13.., ignorable;
        /// The partitions' numbers.
        partitions: Vec<i32>, 7.., required;
    }
}

message_struct! {
    /// Records, and how things stand with their partitions.
    FetchResponse at "FetchResponse" {
        /// For how many milliseconds the client shall send nothing more (KIP-219).
        throttle_time_ms: i32, 1.., ignorable;
        /// An error of the session or the whole request.
        error_code: ErrorCode, 7.., ignorable;
        /// The session, 0 if there is none.
        session_id: i32, 7.., required;
        /// The topics. One may come twice: partitions with errors stand apart.
        responses: Vec<FetchableTopicResponse>, 0.., required;
        /// Where the leaders named in the partitions are to be found (KIP-951).
        node_endpoints: Vec<NodeEndpoint>, 16.., required, tag 0;
    }

    /// A topic's partitions.
    FetchableTopicResponse at "FetchResponse.responses" {
        /// The name.
        topic: String, 0..=12, ignorable;
        /// The id.
        topic_id: Uuid, 13.., ignorable;
        /// The partitions.
        partitions: Vec<PartitionData>, 0.., required;
    }

    /// A partition's records.
    PartitionData at "FetchResponse.responses.partitions" {
        /// The partition's number.
        partition_index: i32, 0.., required;
        /// What went wrong with it.
        error_code: ErrorCode, 0.., required;
        /// The first offset that is not yet on all in-sync replicas; -1 with some errors.
        high_watermark: i64, 0.., required;
        /// The first offset of the oldest open transaction, else the high watermark; -1 if not known.
        last_stable_offset: i64 = -1, 4.., ignorable;
        /// The first offset in the log; -1 if not known.
        log_start_offset: i64 = -1, 5.., ignorable;
        /// Set if the log of the request's `last_fetched_epoch` was truncated.
        diverging_epoch: EpochEndOffset, 12.., required, tag 0;
        /// The leader that the broker knows, with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH.
        current_leader: LeaderIdAndEpoch, 12.., required, tag 1;
        /// For followers: the snapshot to fetch instead.
        snapshot_id: SnapshotId, 12.., required, tag 2;
        /// Transactions whose records in this answer are to be skipped; null or empty if none.
        aborted_transactions: Option<Vec<AbortedTransaction>> = Some(Vec::new()), 4.., ignorable, nullable 4..;
        /// The replica to fetch from next, -1 if it stays.
        preferred_read_replica: i32 = -1, 11.., required;
        /// Record batches, the last one possibly cut: a slice of the frame.
        records: Option<Bytes>, 0.., required, nullable 0..;
    }

    /// Where a log parts from what the client read.
    EpochEndOffset at "FetchResponse.responses.partitions.diverging_epoch" {
        /// The largest epoch in common; -1 stands for no divergence.
        epoch: i32 = -1, 12.., required;
        /// The offset after its last record.
        end_offset: i64 = -1, 12.., required;
    }

    /// A partition's leader.
    LeaderIdAndEpoch at "FetchResponse.responses.partitions.current_leader" {
        /// Its node id; -1 if not known.
        leader_id: i32 = -1, 12.., required;
        /// Its epoch; -1 if not known.
        leader_epoch: i32 = -1, 12.., required;
    }

    /// A snapshot of a metadata log.
    SnapshotId at "FetchResponse.responses.partitions.snapshot_id" {
        /// The offset after its last record.
        end_offset: i64 = -1, 0.., required;
        /// Its epoch.
        epoch: i32 = -1, 0.., required;
    }

    /// A transaction that was aborted.
    AbortedTransaction at "FetchResponse.responses.partitions.aborted_transactions" {
        /// Its producer.
        producer_id: i64, 4.., required;
        /// Its first offset, which may lie before the records of the answer.
        first_offset: i64, 4.., required;
    }

    /// Where a broker is to be found.
    NodeEndpoint at "FetchResponse.node_endpoints" {
        /// The broker.
        node_id: i32, 16.., required;
        /// The host's name or address.
        host: String, 16.., required;
        /// The port.
        port: i32, 16.., required;
        /// The rack, if it has one.
        rack: Option<String> = None, 16.., required, nullable 16..;
    }
}

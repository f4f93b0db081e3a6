//! Metadata: the brokers, and who leads which partition. Versions 0 to 13.
//!
//! What came when: 1 the controller, racks; 2 the cluster's id; 4 no automatic creation of topics; 5 offline replicas; 7 leader epochs
//! (KIP-320); 8 authorized operations (KIP-430); 9 compact encoding; 10 topic ids (KIP-516); 12 asking by id; 13 an error for the whole
//! (KIP-1102).

use super::table::{message, message_struct};
use crate::{ErrorCode, Request, Uuid};

message! {
    MetadataRequest: METADATA, 0..=13, flexible 9..;
    MetadataResponse: METADATA, 0..=13, flexible 9..;
}

impl Request for MetadataRequest {
    type Response = MetadataResponse;
}

message_struct! {
    /// Asks for the brokers and for topics.
    MetadataRequest at "MetadataRequest" {
        /// The topics. From version 1 on: null for all, empty for none. In version 0: empty for all.
        topics: Option<Vec<MetadataRequestTopic>> = Some(Vec::new()), 0.., required, nullable 1..;
        /// Whether the broker may create topics that it does not have. Can't be false before version 4.
        allow_auto_topic_creation: bool = true, 4.., required;
        /// Whether to say what the client may do with the cluster.
        include_cluster_authorized_operations: bool, 8..=10, required;
        /// Whether to say what the client may do with the topics.
        include_topic_authorized_operations: bool, 8.., required;
    }

    /// A topic.
    MetadataRequestTopic at "MetadataRequest.topics" {
        /// The id, zero to ask by name. Brokers look at it from version 12 on.
        topic_id: Uuid, 10.., ignorable;
        /// The name, null to ask by id.
        name: Option<String> = Some(String::new()), 0.., required, nullable 10..;
    }
}

message_struct! {
    /// The brokers and the topics.
    MetadataResponse at "MetadataResponse" {
        /// For how many milliseconds the client shall send nothing more (KIP-219).
        throttle_time_ms: i32, 3.., ignorable;
        /// The brokers.
        brokers: Vec<MetadataResponseBroker>, 0.., required;
        /// The cluster's id.
        cluster_id: Option<String> = None, 2.., ignorable, nullable 2..;
        /// The controller's node id, -1 if not known.
        controller_id: i32 = -1, 1.., ignorable;
        /// The topics.
        topics: Vec<MetadataResponseTopic>, 0.., required;
        /// Bits of what the client may do with the cluster; `i32::MIN` if it did not ask.
        cluster_authorized_operations: i32 = i32::MIN, 8..=10, required;
        /// What went wrong with the whole request.
        error_code: ErrorCode, 13.., ignorable;
    }

    /// A broker.
    MetadataResponseBroker at "MetadataResponse.brokers" {
        /// The node id.
        node_id: i32, 0.., required;
        /// The host's name or address.
        host: String, 0.., required;
        /// The port.
        port: i32, 0.., required;
        /// The rack, if it has one.
        rack: Option<String> = None, 1.., ignorable, nullable 1..;
    }

    /// A topic.
    MetadataResponseTopic at "MetadataResponse.topics" {
        /// What went wrong with it.
        error_code: ErrorCode, 0.., required;
        /// The name; null for an id that the broker does not know.
        name: Option<String> = Some(String::new()), 0.., required, nullable 12..;
        /// The id; zero for a name that the broker does not know.
        topic_id: Uuid, 10.., ignorable;
        /// Whether it is one of Kafka's own.
        is_internal: bool, 1.., ignorable;
        /// The partitions.
        partitions: Vec<MetadataResponsePartition>, 0.., required;
        /// Bits of what the client may do with the topic; `i32::MIN` if it did not ask.
        topic_authorized_operations: i32 = i32::MIN, 8.., required;
    }

    /// A partition.
    MetadataResponsePartition at "MetadataResponse.topics.partitions" {
        /// What went wrong with it.
        error_code: ErrorCode, 0.., required;
        /// The partition's number.
        partition_index: i32, 0.., required;
        /// The leader's node id, -1 if there is none.
        leader_id: i32, 0.., required;
        /// The leader's epoch, -1 if not known.
        leader_epoch: i32 = -1, 7.., ignorable;
        /// The nodes that hold a replica.
        replica_nodes: Vec<i32>, 0.., required;
        /// The nodes whose replica is in sync.
        isr_nodes: Vec<i32>, 0.., required;
        /// The nodes whose replica is offline.
        offline_replicas: Vec<i32>, 5.., ignorable;
    }
}

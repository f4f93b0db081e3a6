//! One file an API: its request and its response, in every version that Kafka 4.3 accepts. The structs are plain data with the schema's
//! names and defaults.
//!
//! ```
//! use bytes::BytesMut;
//! use ottla_protocol::message::{FetchPartition, FetchRequest, FetchTopic};
//! use ottla_protocol::{FRAME_LENGTH_BYTES, decode_request, encode_request};
//!
//! let partition = FetchPartition { partition: 3, fetch_offset: 1200, partition_max_bytes: 1 << 20, ..Default::default() };
//! let topic = FetchTopic { topic: "logs".to_owned(), partitions: vec![partition], ..Default::default() };
//! let request = FetchRequest { max_wait_ms: 500, min_bytes: 1, topics: vec![topic], ..Default::default() };
//!
//! let mut out = BytesMut::new();
//! encode_request(12, 7, Some("ottla"), &request, &mut out)?;
//!
//! let frame = out.split_off(FRAME_LENGTH_BYTES).freeze();
//! let (header, read) = decode_request::<FetchRequest>(&frame)?;
//! assert_eq!((header.correlation_id, read), (7, request));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A field that a version does not have is at its default after reading. On writing, a field with another value than the default is
//! dropped if the schema calls it ignorable, and an error otherwise, as in Kafka's own classes: so topics can be given with name and id
//! both, and the version chooses. Where Java's reader is lenient, so is this one, but for two things: a known tagged field has to take
//! exactly its size, and a count of tagged fields beyond 2^31 is an error (Java's reader is misplaced after both).

mod api_versions;
mod fetch;
mod find_coordinator;
mod list_offsets;
mod metadata;
mod offset_commit;
mod offset_fetch;
mod offset_for_leader_epoch;
#[cfg(test)]
mod properties;
mod table;
#[cfg(test)]
mod tests;

pub use api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey};
pub use fetch::{
    AbortedTransaction, EpochEndOffset, FetchPartition, FetchRequest, FetchResponse, FetchTopic,
    FetchableTopicResponse, ForgottenTopic, LeaderIdAndEpoch, NodeEndpoint, PartitionData, ReplicaState, SnapshotId,
};
pub use find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
pub use list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
    ListOffsetsTopicResponse,
};
pub use metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
pub use offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
pub use offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
pub use offset_for_leader_epoch::{
    LeaderEpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition,
    OffsetForLeaderTopic, OffsetForLeaderTopicResult,
};

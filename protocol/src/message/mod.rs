//! One file an API: its request and its response, in every version that Kafka 4.3 accepts. The structs are plain data with the schema's
//! names and defaults; build one with `FetchRequest { max_wait_ms: 500, ..Default::default() }`.
//!
//! A field that a version does not have is at its default after reading. On writing, a field with another value than the default is
//! dropped if the schema calls it ignorable, and an error otherwise, as in Kafka's own classes.

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

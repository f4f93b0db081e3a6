//! What each API does, a file for each group of APIs. Handlers get decoded requests and return responses; bytes, sockets and faults
//! that concern the connection are the matter of [`crate::server`].

mod cluster;
mod fetch;
mod groups;
mod list_offsets;
mod metadata;
mod offsets;
mod produce;
mod topics;
mod transactions;

use kafka_protocol::ResponseError;

use crate::fault::Forced;
use crate::request::{Request, Response};
use crate::state::Shared;

pub(crate) use cluster::unsupported_version;
pub use offsets::CommittedOffset;

/// Who asks, and what the hooks decided.
#[derive(Debug)]
pub(crate) struct Context {
    /// The node that got the request.
    pub(crate) node: i32,
    pub(crate) version: i16,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) forced: Forced,
}

impl Context {
    /// `Err` when the hooks want an error in this partition.
    fn check_partition(&self, topic: &str, partition: i32) -> Result<(), ResponseError> {
        match self.forced.partition(topic, partition).and_then(ResponseError::try_from_code) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// `Err` when the hooks want an error as the response's own.
    fn check_whole(&self) -> Result<(), ResponseError> {
        match self.forced.whole().and_then(ResponseError::try_from_code) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// The code of a result, 0 for success.
fn code<T>(result: &Result<T, ResponseError>) -> i16 {
    result.as_ref().err().map_or(0, ResponseError::code)
}

/// Answers a request; `None` for a produce request with acks=0.
pub(crate) async fn handle(shared: &Shared, context: &Context, request: Request) -> Option<Response> {
    Some(match request {
        Request::ApiVersions(_) => cluster::api_versions(shared, context).into(),
        Request::DescribeCluster(request) => shared.with(|c| cluster::describe_cluster(c, context, &request)).into(),
        Request::FindCoordinator(request) => shared.with(|c| cluster::find_coordinator(c, context, request)).into(),
        Request::Metadata(request) => metadata::handle(shared, context, request).into(),
        Request::CreateTopics(request) => shared.update(|c| topics::create(c, context, shared, request)).into(),
        Request::DeleteTopics(request) => shared.update(|c| topics::delete(c, context, request)).into(),
        Request::CreatePartitions(request) => shared.update(|c| topics::create_partitions(c, context, request)).into(),
        Request::DeleteRecords(request) => shared.update(|c| topics::delete_records(c, context, request)).into(),
        Request::DescribeConfigs(request) => shared.with(|c| topics::describe_configs(c, context, request)).into(),
        Request::Produce(request) => {
            let acks = request.acks;
            let response = shared.update(|c| produce::handle(c, context, request));
            if acks == 0 {
                return None;
            }
            response.into()
        }
        Request::InitProducerId(request) => {
            shared.update(|c| transactions::init_producer_id(c, context, &request)).into()
        }
        Request::Fetch(request) => fetch::handle(shared, context, request).await.into(),
        Request::ListOffsets(request) => shared.with(|c| list_offsets::list_offsets(c, context, request)).into(),
        Request::OffsetForLeaderEpoch(request) => {
            shared.with(|c| list_offsets::offset_for_leader_epoch(c, context, request)).into()
        }
        Request::OffsetCommit(request) => shared.with(|c| offsets::commit(c, context, request)).into(),
        Request::OffsetFetch(request) => shared.with(|c| offsets::fetch(c, context, request)).into(),
        Request::JoinGroup(request) => groups::join(shared, context, request).await.into(),
        Request::SyncGroup(request) => groups::sync(shared, context, request).await.into(),
        Request::Heartbeat(request) => shared.with(|c| groups::heartbeat(c, context, &request)).into(),
        Request::LeaveGroup(request) => shared.update(|c| groups::leave(c, context, request)).into(),
        Request::ListGroups(request) => shared.with(|c| groups::list(c, context, &request)).into(),
        Request::DescribeGroups(request) => shared.with(|c| groups::describe(c, context, request)).into(),
        Request::DeleteGroups(request) => shared.with(|c| groups::delete(c, context, request)).into(),
        Request::AddPartitionsToTxn(request) => {
            shared.with(|c| transactions::add_partitions(c, context, request)).into()
        }
        Request::AddOffsetsToTxn(request) => shared.with(|c| transactions::add_offsets(c, context, &request)).into(),
        Request::TxnOffsetCommit(request) => shared.with(|c| transactions::commit_offsets(c, context, request)).into(),
        Request::EndTxn(request) => shared.update(|c| transactions::end(c, context, &request)).into(),
    })
}

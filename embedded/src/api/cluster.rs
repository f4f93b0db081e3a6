//! ApiVersions, FindCoordinator and DescribeCluster: what a client asks before it can ask anything else.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{
    ApiKey, ApiVersionsResponse, BrokerId, DescribeClusterRequest, DescribeClusterResponse, FindCoordinatorRequest,
    FindCoordinatorResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::Context;
use crate::state::{Cluster, FIRST_NODE_ID, Shared, text};

/// FindCoordinator's key types: a group's or a transactional id's.
const KEY_TYPES: std::ops::RangeInclusive<i8> = 0..=1;
const BROKER_ENDPOINTS: i8 = 1;

pub(super) fn api_versions(shared: &Shared, context: &Context) -> ApiVersionsResponse {
    if let Err(error) = context.check_whole() {
        return ApiVersionsResponse::default().with_error_code(error.code());
    }
    let api_keys = shared.versions.iter().map(|(&api_key, range)| {
        ApiVersion::default().with_api_key(api_key).with_min_version(range.min).with_max_version(range.max)
    });
    ApiVersionsResponse::default().with_api_keys(api_keys.collect())
}

/// The answer, in version 0, to an ApiVersions request that is too new: it names the versions of ApiVersions only (KIP-511).
pub(crate) fn unsupported_version(shared: &Shared) -> ApiVersionsResponse {
    let own = shared.offered(ApiKey::ApiVersions).map(|range| {
        ApiVersion::default()
            .with_api_key(ApiKey::ApiVersions as i16)
            .with_min_version(range.min)
            .with_max_version(range.max)
    });
    ApiVersionsResponse::default()
        .with_error_code(ResponseError::UnsupportedVersion.code())
        .with_api_keys(own.into_iter().collect())
}

/// Where a key's coordinator is. Versions 4 and newer ask for many keys at once (KIP-699).
pub(super) fn find_coordinator(
    cluster: &mut Cluster,
    context: &Context,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let find = |key: StrBytes| -> Coordinator {
        let found = context.check_whole().and_then(|()| {
            if !KEY_TYPES.contains(&request.key_type) {
                return Err(ResponseError::InvalidRequest);
            }
            cluster.node(cluster.coordinator(&key)).ok_or(ResponseError::CoordinatorNotAvailable)
        });
        let coordinator = Coordinator::default().with_key(key);
        match found {
            Ok(node) => coordinator
                .with_node_id(BrokerId(node.id))
                .with_host(text(&node.host))
                .with_port(node.port)
                .with_error_message(Some(StrBytes::new())),
            Err(error) => coordinator
                .with_node_id(BrokerId(-1))
                .with_port(-1)
                .with_error_code(error.code())
                .with_error_message(Some(text(&error.to_string()))),
        }
    };
    if context.version >= 4 {
        return FindCoordinatorResponse::default()
            .with_coordinators(request.coordinator_keys.iter().cloned().map(find).collect());
    }
    let found = find(request.key.clone());
    FindCoordinatorResponse::default()
        .with_error_code(found.error_code)
        .with_error_message(found.error_message)
        .with_node_id(found.node_id)
        .with_host(found.host)
        .with_port(found.port)
}

pub(super) fn describe_cluster(
    cluster: &mut Cluster,
    context: &Context,
    request: &DescribeClusterRequest,
) -> DescribeClusterResponse {
    let response = DescribeClusterResponse::default().with_cluster_id(text(&cluster.id));
    let is_known = request.endpoint_type == BROKER_ENDPOINTS;
    let checked =
        context.check_whole().and(if is_known { Ok(()) } else { Err(ResponseError::UnsupportedEndpointType) });
    if let Err(error) = checked {
        return response.with_error_code(error.code()).with_error_message(Some(text(&error.to_string())));
    }
    let brokers = cluster.nodes.iter().map(|node| {
        DescribeClusterBroker::default()
            .with_broker_id(BrokerId(node.id))
            .with_host(text(&node.host))
            .with_port(node.port)
    });
    response.with_controller_id(BrokerId(FIRST_NODE_ID)).with_brokers(brokers.collect())
}

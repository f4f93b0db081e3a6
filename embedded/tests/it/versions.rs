//! What is offered, and that every version of every API answers with bytes that decode.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, ApiKey, ApiVersionsRequest, ApiVersionsResponse,
    CreatePartitionsRequest, CreateTopicsRequest, DeleteGroupsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeClusterRequest, DescribeConfigsRequest, DescribeGroupsRequest, EndTxnRequest, FetchRequest,
    FindCoordinatorRequest, HeartbeatRequest, InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest,
    ListGroupsRequest, ListOffsetsRequest, MetadataRequest, OffsetCommitRequest, OffsetFetchRequest,
    OffsetForLeaderEpochRequest, ProduceRequest, SyncGroupRequest, TxnOffsetCommitRequest,
};
use kafka_protocol::protocol::{Decodable, Request};
use ottla_embedded::{Action, EmbeddedBroker};

use crate::support::Client;

fn range(response: &ApiVersionsResponse, api_key: ApiKey) -> Option<(i16, i16)> {
    let found = response.api_keys.iter().find(|api| api.api_key == api_key as i16)?;
    Some((found.min_version, found.max_version))
}

#[tokio::test]
async fn an_older_broker_is_played() {
    let broker = EmbeddedBroker::builder()
        .api_versions(ApiKey::Fetch, 0..=11)
        .api_versions(ApiKey::ApiVersions, 0..=0)
        .without_api(ApiKey::DescribeCluster)
        .start()
        .await
        .unwrap();
    let mut client = Client::connect(&broker, 1).await;
    let offered = client.ask(0, ApiVersionsRequest::default()).await;
    assert_eq!(range(&offered, ApiKey::Fetch), Some((4, 11)));
    assert_eq!(range(&offered, ApiKey::ApiVersions), Some((0, 0)));
    assert_eq!(range(&offered, ApiKey::DescribeCluster), None);
    assert_eq!(range(&offered, ApiKey::ListOffsets), Some((1, 10)));
    assert_eq!(range(&offered, ApiKey::OffsetCommit), Some((2, 9)));
    assert_eq!(range(&offered, ApiKey::OffsetFetch), Some((1, 9)));

    // A version that isn't offered closes the connection, but the others of the broker go on.
    client.send(12, &FetchRequest::default()).await;
    assert_eq!(client.receive_frame().await, None);
    let mut client = Client::connect(&broker, 1).await;
    client.ask(0, ApiVersionsRequest::default()).await;
    assert_eq!(broker.connections(1), 2);
}

#[tokio::test]
async fn too_new_api_versions_are_answered_in_version_0() {
    let broker = EmbeddedBroker::builder().api_versions(ApiKey::ApiVersions, 0..=2).start().await.unwrap();
    let mut client = Client::connect(&broker, 1).await;
    client.send(4, &ApiVersionsRequest::default()).await;
    let mut frame = client.receive_frame().await.unwrap().split_off(4);
    let response = ApiVersionsResponse::decode(&mut frame, 0).unwrap();
    assert_eq!(response.error_code, ResponseError::UnsupportedVersion.code());
    assert_eq!(response.api_keys.len(), 1);
    assert_eq!(range(&response, ApiKey::ApiVersions), Some((0, 2)));
    // The same connection goes on with an older version.
    assert_eq!(client.ask(2, ApiVersionsRequest::default()).await.error_code, 0);
}

#[tokio::test]
async fn bytes_that_are_no_request_close_only_their_connection() {
    use tokio::io::AsyncWriteExt;
    let broker = EmbeddedBroker::start().await.unwrap();
    let bad: [&[u8]; 5] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", // TLS: a length of 369 MB
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x03abc",
        b"\x00\x00\x00\x0a\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff", // API key 999
        b"\x00\x00\x00\x0a\x00\x03\x00\x0c\x00\x00\x00\x01\xff\xff", // Metadata 12 without its body
    ];
    for bytes in bad {
        let mut client = Client::connect(&broker, 1).await;
        client.stream.write_all(bytes).await.unwrap();
        assert_eq!(client.receive_frame().await, None, "{bytes:?}");
    }
    Client::connect(&broker, 1).await.ask(4, ApiVersionsRequest::default()).await;
}

/// Asks with an empty request in every offered version, once as it is and once with a forced error.
async fn ask_all<R: Request>(broker: &EmbeddedBroker, offered: &ApiVersionsResponse, request: R) {
    let api_key = ApiKey::try_from(R::KEY).unwrap();
    let (min, max) = range(offered, api_key).unwrap_or_else(|| panic!("{api_key:?} isn't offered"));
    let before = broker.requests(api_key);
    for error in [0, 1] {
        if error != 0 {
            broker.on(api_key, move |_| Action::Error(error));
        }
        let mut client = Client::connect(broker, 1).await;
        for version in min..=max {
            let correlation_id = client.send(version, &request).await;
            client.receive::<R>(version, correlation_id).await;
        }
    }
    broker.clear_hooks(api_key);
    let asked = 2 * u64::try_from(max - min + 1).unwrap();
    assert_eq!(broker.requests(api_key) - before, asked, "{api_key:?}");
}

#[tokio::test]
async fn every_version_of_every_api_answers() {
    let broker = EmbeddedBroker::builder().nodes(2).start().await.unwrap();
    let offered = Client::connect(&broker, 1).await.ask(4, ApiVersionsRequest::default()).await;
    macro_rules! ask_all {
        ($($request:ident),* $(,)?) => {{
            $(ask_all(&broker, &offered, $request::default()).await;)*
            vec![$($request::KEY),*]
        }};
    }
    let mut asked = ask_all!(
        FetchRequest,
        ListOffsetsRequest,
        MetadataRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
        FindCoordinatorRequest,
        JoinGroupRequest,
        HeartbeatRequest,
        LeaveGroupRequest,
        SyncGroupRequest,
        DescribeGroupsRequest,
        ListGroupsRequest,
        ApiVersionsRequest,
        CreateTopicsRequest,
        DeleteTopicsRequest,
        DeleteRecordsRequest,
        InitProducerIdRequest,
        OffsetForLeaderEpochRequest,
        AddPartitionsToTxnRequest,
        AddOffsetsToTxnRequest,
        EndTxnRequest,
        TxnOffsetCommitRequest,
        DescribeConfigsRequest,
        CreatePartitionsRequest,
        DeleteGroupsRequest,
        DescribeClusterRequest,
    );
    // With acks=0, the default of the codec, there would be no answer.
    ask_all(&broker, &offered, ProduceRequest::default().with_acks(1)).await;
    asked.push(ProduceRequest::KEY);
    asked.sort_unstable();
    assert_eq!(asked, offered.api_keys.iter().map(|api| api.api_key).collect::<Vec<_>>(), "each API is asked");
}

//! Reading a message and writing it again, for whichever API and direction: here, or with `kafka-protocol`.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{self as their, ApiKey as TheirKey};
use kafka_protocol::protocol::{Decodable, Encodable};
use ottla_protocol::json::{Direction, MessageJson, message_json};
use ottla_protocol::message::*;
use ottla_protocol::{ApiKey, DecodeError, EncodeError, Message, Request};

/// A message's bytes read and written again, by one of the two libraries.
pub(crate) struct Reread {
    pub(crate) bytes: Result<Bytes, EncodeError>,
    /// None from `kafka-protocol`, which has no JSON form of Kafka's kind.
    pub(crate) json: Option<MessageJson>,
}

#[derive(Debug)]
pub(crate) enum RereadError {
    Ours(DecodeError),
    Theirs(String),
}

fn ours<M: Message>(direction: Direction, version: i16, body: &Bytes) -> Result<Reread, RereadError> {
    let message = M::decode(version, body).map_err(RereadError::Ours)?;
    let mut out = BytesMut::new();
    let bytes = message.encode(version, &mut out).map(|()| out.freeze());
    let json = message_json(M::API_KEY, direction, version, body).expect("it was read a moment ago");
    Ok(Reread { bytes, json: Some(json) })
}

pub(crate) fn theirs(key: i16, direction: Direction, version: i16, body: &Bytes) -> Result<Reread, RereadError> {
    fn one<M: Encodable + Decodable>(version: i16, body: &Bytes) -> Result<Reread, RereadError> {
        let error = |e: &dyn std::fmt::Display| RereadError::Theirs(e.to_string());
        let message = M::decode(&mut body.clone(), version).map_err(|e| error(&e))?;
        let mut out = BytesMut::new();
        message.encode(&mut out, version).map_err(|e| error(&e))?;
        Ok(Reread { bytes: Ok(out.freeze()), json: None })
    }
    macro_rules! dispatch {
        ($($key:ident: $request:ident, $response:ident;)+) => {
            match (TheirKey::try_from(key), direction) {
                $(
                    (Ok(TheirKey::$key), Direction::Request) => one::<their::$request>(version, body),
                    (Ok(TheirKey::$key), Direction::Response) => one::<their::$response>(version, body),
                )+
                _ => Err(RereadError::Theirs(format!("API {key} is read by nobody here"))),
            }
        };
    }
    dispatch! {
        Fetch: FetchRequest, FetchResponse;
        ListOffsets: ListOffsetsRequest, ListOffsetsResponse;
        Metadata: MetadataRequest, MetadataResponse;
        OffsetCommit: OffsetCommitRequest, OffsetCommitResponse;
        OffsetFetch: OffsetFetchRequest, OffsetFetchResponse;
        FindCoordinator: FindCoordinatorRequest, FindCoordinatorResponse;
        ApiVersions: ApiVersionsRequest, ApiVersionsResponse;
        OffsetForLeaderEpoch: OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse;
        JoinGroup: JoinGroupRequest, JoinGroupResponse;
        Heartbeat: HeartbeatRequest, HeartbeatResponse;
        LeaveGroup: LeaveGroupRequest, LeaveGroupResponse;
        SyncGroup: SyncGroupRequest, SyncGroupResponse;
        DescribeGroups: DescribeGroupsRequest, DescribeGroupsResponse;
        ListGroups: ListGroupsRequest, ListGroupsResponse;
        SaslHandshake: SaslHandshakeRequest, SaslHandshakeResponse;
        SaslAuthenticate: SaslAuthenticateRequest, SaslAuthenticateResponse;
        ConsumerGroupHeartbeat: ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse;
        Produce: ProduceRequest, ProduceResponse;
        CreateTopics: CreateTopicsRequest, CreateTopicsResponse;
        DeleteTopics: DeleteTopicsRequest, DeleteTopicsResponse;
        DeleteRecords: DeleteRecordsRequest, DeleteRecordsResponse;
        InitProducerId: InitProducerIdRequest, InitProducerIdResponse;
        AddPartitionsToTxn: AddPartitionsToTxnRequest, AddPartitionsToTxnResponse;
        AddOffsetsToTxn: AddOffsetsToTxnRequest, AddOffsetsToTxnResponse;
        EndTxn: EndTxnRequest, EndTxnResponse;
        TxnOffsetCommit: TxnOffsetCommitRequest, TxnOffsetCommitResponse;
        DescribeConfigs: DescribeConfigsRequest, DescribeConfigsResponse;
        CreatePartitions: CreatePartitionsRequest, CreatePartitionsResponse;
        DeleteGroups: DeleteGroupsRequest, DeleteGroupsResponse;
        OffsetDelete: OffsetDeleteRequest, OffsetDeleteResponse;
        DescribeCluster: DescribeClusterRequest, DescribeClusterResponse;
        ConsumerGroupDescribe: ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse;
    }
}

/// Evaluates `$of` with `$Request` standing for the request type of the API, or `$other` for APIs of `kafka-protocol`.
macro_rules! with_request {
    ($key:expr, $Request:ident => $of:expr, else $other:expr) => {
        with_request!(@arms $key, $Request, $of, $other;
            FETCH FetchRequest, LIST_OFFSETS ListOffsetsRequest, METADATA MetadataRequest,
            OFFSET_COMMIT OffsetCommitRequest, OFFSET_FETCH OffsetFetchRequest,
            FIND_COORDINATOR FindCoordinatorRequest, API_VERSIONS ApiVersionsRequest,
            OFFSET_FOR_LEADER_EPOCH OffsetForLeaderEpochRequest)
    };
    (@arms $key:expr, $Request:ident, $of:expr, $other:expr; $($api:ident $request:ident),+) => {
        match ApiKey($key) {
            $(ApiKey::$api => {
                type $Request = $request;
                $of
            })+
            _ => $other,
        }
    };
}

/// The same for the message type of the API in a direction.
macro_rules! with_message {
    ($key:expr, $direction:expr, $Message:ident => $of:expr, else $other:expr) => {
        with_request!($key, R => match $direction {
            Direction::Request => {
                type $Message = R;
                $of
            }
            Direction::Response => {
                type $Message = <R as Request>::Response;
                $of
            }
        }, else $other)
    };
}

/// Reads a message and writes it again, with the library that the API's messages are taken from.
pub(crate) fn reread(key: i16, direction: Direction, version: i16, body: &Bytes) -> Result<Reread, RereadError> {
    with_message!(key, direction, M => ours::<M>(direction, version, body), else theirs(key, direction, version, body))
}

/// Whether the API's messages are written by hand here.
pub(crate) fn is_ours(key: i16) -> bool {
    with_request!(key, R => R::API_KEY.0 == key, else false)
}

/// `LIST_OFFSETS` of the vectors is `ListOffsets` here.
pub(crate) fn key_of(api: &str) -> Option<i16> {
    let name: String = api
        .split('_')
        .map(|word| word.chars().take(1).chain(word.to_ascii_lowercase().chars().skip(1)).collect::<String>())
        .collect();
    TheirKey::iter().find(|key| format!("{key:?}") == name).map(|key| key as i16)
}

//! The APIs that the broker answers: decoded requests and responses, and the versions of each.
//!
//! The codecs are those of the crate `kafka-protocol`. Its decoders reserve memory from claimed counts, so a hostile peer can make
//! this process abort: it is for tests and demos, behind loopback.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, ApiKey,
    ApiVersionsRequest, ApiVersionsResponse, CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest,
    CreateTopicsResponse, DeleteGroupsRequest, DeleteGroupsResponse, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, DescribeClusterRequest, DescribeClusterResponse, DescribeConfigsRequest,
    DescribeConfigsResponse, DescribeGroupsRequest, DescribeGroupsResponse, EndTxnRequest, EndTxnResponse,
    FetchRequest, FetchResponse, FindCoordinatorRequest, FindCoordinatorResponse, HeartbeatRequest, HeartbeatResponse,
    InitProducerIdRequest, InitProducerIdResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    LeaveGroupResponse, ListGroupsRequest, ListGroupsResponse, ListOffsetsRequest, ListOffsetsResponse,
    MetadataRequest, MetadataResponse, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest,
    OffsetFetchResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, ProduceRequest, ProduceResponse,
    RequestHeader, ResponseHeader, SyncGroupRequest, SyncGroupResponse, TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, Message, VersionRange};

/// The versions that both codecs of an API have, up to `max`.
const fn versions(request: VersionRange, response: VersionRange, max: i16) -> VersionRange {
    const fn smaller(a: i16, b: i16) -> i16 {
        if a < b { a } else { b }
    }
    VersionRange {
        min: if request.min > response.min { request.min } else { response.min },
        max: smaller(smaller(request.max, response.max), max),
    }
}

macro_rules! apis {
    ($($name:ident($request:ident => $response:ident) up to $max:expr),* $(,)?) => {
        /// A decoded request.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Request {
            $(#[doc = concat!("A request to ", stringify!($name), ".")] $name($request),)*
        }

        #[derive(Debug)]
        pub(crate) enum Response {
            $($name($response),)*
        }

        /// Every API that the broker knows, with all of its versions.
        pub(crate) const APIS: &[(ApiKey, VersionRange)] =
            &[$((ApiKey::$name, versions($request::VERSIONS, $response::VERSIONS, $max)),)*];

        impl Request {
            /// Which API the request is for.
            pub fn api_key(&self) -> ApiKey {
                match self {
                    $(Self::$name(_) => ApiKey::$name,)*
                }
            }

            fn decode(api_key: ApiKey, version: i16, body: &mut Bytes) -> Result<Self, DecodeError> {
                match api_key {
                    $(ApiKey::$name => $request::decode(body, version)
                        .map(Self::$name)
                        .map_err(|error| DecodeError::Body { api_key, version, reason: error.to_string() }),)*
                    _ => Err(DecodeError::UnknownApi(api_key as i16)),
                }
            }
        }

        impl Response {
            fn encode(&self, version: i16, frame: &mut BytesMut) -> Result<(), String> {
                match self {
                    $(Self::$name(response) => response.encode(frame, version).map_err(|error| error.to_string()),)*
                }
            }

            /// Writes the throttle time (milliseconds), which every response has.
            pub(crate) fn set_throttle_time_ms(&mut self, throttle_time_ms: i32) {
                match self {
                    $(Self::$name(response) => response.throttle_time_ms = throttle_time_ms,)*
                }
            }
        }

        $(impl From<$response> for Response {
            fn from(response: $response) -> Self {
                Self::$name(response)
            }
        })*
    };
}

/// The newest version that the codecs have.
const NEWEST: i16 = i16::MAX;

apis! {
    Produce(ProduceRequest => ProduceResponse) up to NEWEST,
    Fetch(FetchRequest => FetchResponse) up to NEWEST,
    ListOffsets(ListOffsetsRequest => ListOffsetsResponse) up to NEWEST,
    Metadata(MetadataRequest => MetadataResponse) up to NEWEST,
    OffsetCommit(OffsetCommitRequest => OffsetCommitResponse) up to NEWEST,
    OffsetFetch(OffsetFetchRequest => OffsetFetchResponse) up to NEWEST,
    FindCoordinator(FindCoordinatorRequest => FindCoordinatorResponse) up to NEWEST,
    JoinGroup(JoinGroupRequest => JoinGroupResponse) up to NEWEST,
    Heartbeat(HeartbeatRequest => HeartbeatResponse) up to NEWEST,
    LeaveGroup(LeaveGroupRequest => LeaveGroupResponse) up to NEWEST,
    SyncGroup(SyncGroupRequest => SyncGroupResponse) up to NEWEST,
    DescribeGroups(DescribeGroupsRequest => DescribeGroupsResponse) up to NEWEST,
    ListGroups(ListGroupsRequest => ListGroupsResponse) up to NEWEST,
    ApiVersions(ApiVersionsRequest => ApiVersionsResponse) up to NEWEST,
    CreateTopics(CreateTopicsRequest => CreateTopicsResponse) up to NEWEST,
    DeleteTopics(DeleteTopicsRequest => DeleteTopicsResponse) up to NEWEST,
    DeleteRecords(DeleteRecordsRequest => DeleteRecordsResponse) up to NEWEST,
    InitProducerId(InitProducerIdRequest => InitProducerIdResponse) up to NEWEST,
    OffsetForLeaderEpoch(OffsetForLeaderEpochRequest => OffsetForLeaderEpochResponse) up to NEWEST,
    // From version 4 on it is for brokers only (KIP-890).
    AddPartitionsToTxn(AddPartitionsToTxnRequest => AddPartitionsToTxnResponse) up to 3,
    AddOffsetsToTxn(AddOffsetsToTxnRequest => AddOffsetsToTxnResponse) up to 3,
    // Later versions are for the second transaction protocol (KIP-890), which is off as long as the feature isn't advertised.
    EndTxn(EndTxnRequest => EndTxnResponse) up to 4,
    TxnOffsetCommit(TxnOffsetCommitRequest => TxnOffsetCommitResponse) up to 4,
    DescribeConfigs(DescribeConfigsRequest => DescribeConfigsResponse) up to NEWEST,
    CreatePartitions(CreatePartitionsRequest => CreatePartitionsResponse) up to NEWEST,
    DeleteGroups(DeleteGroupsRequest => DeleteGroupsResponse) up to NEWEST,
    DescribeCluster(DescribeClusterRequest => DescribeClusterResponse) up to NEWEST,
}

/// Why a frame is no request that the broker can answer; it closes the connection then, as Kafka does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum DecodeError {
    /// Fewer bytes than the fixed part of a header.
    #[error("a request of {0} bytes has no header")]
    Short(usize),
    /// An API key that the broker does not have.
    #[error("unknown API key {0}")]
    UnknownApi(i16),
    /// A version outside the advertised ones.
    #[error("{api_key:?} version {version} is not offered")]
    UnsupportedVersion { api_key: ApiKey, version: i16, correlation_id: i32 },
    /// Bytes that do not follow the header's schema.
    #[error("header: {0}")]
    Header(String),
    /// Bytes that do not follow the schema.
    #[error("{api_key:?} version {version}: {reason}")]
    Body { api_key: ApiKey, version: i16, reason: String },
}

/// A request with what its header says.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) api_key: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) client_id: Option<String>,
    pub(crate) request: Request,
}

/// Reads a frame without its length.
///
/// Request header v1 is api_key i16, api_version i16, correlation_id i32, client_id nullable string; v2 adds tagged fields.
pub(crate) fn decode(
    mut frame: Bytes,
    offered: impl Fn(ApiKey) -> Option<VersionRange>,
) -> Result<Incoming, DecodeError> {
    let Some(&[k0, k1, v0, v1, c0, c1, c2, c3]) = frame.first_chunk::<8>() else {
        return Err(DecodeError::Short(frame.len()));
    };
    let version = i16::from_be_bytes([v0, v1]);
    let correlation_id = i32::from_be_bytes([c0, c1, c2, c3]);
    let key = i16::from_be_bytes([k0, k1]);
    let api_key = ApiKey::try_from(key).map_err(|()| DecodeError::UnknownApi(key))?;
    let range = offered(api_key).ok_or(DecodeError::UnknownApi(key))?;
    if version < range.min || version > range.max {
        return Err(DecodeError::UnsupportedVersion { api_key, version, correlation_id });
    }
    let header = RequestHeader::decode(&mut frame, api_key.request_header_version(version))
        .map_err(|error| DecodeError::Header(error.to_string()))?;
    let request = Request::decode(api_key, version, &mut frame)?;
    let client_id = header.client_id.map(|id| id.to_string());
    Ok(Incoming { api_key, version, correlation_id, client_id, request })
}

/// A whole frame with its length: response header v0 is the correlation id, v1 adds tagged fields (never for ApiVersions).
pub(crate) fn encode(api_key: ApiKey, version: i16, correlation_id: i32, response: &Response) -> Result<Bytes, String> {
    let mut frame = BytesMut::from(&[0; 4][..]);
    ResponseHeader::default()
        .with_correlation_id(correlation_id)
        .encode(&mut frame, api_key.response_header_version(version))
        .map_err(|error| error.to_string())?;
    response.encode(version, &mut frame)?;
    let length = i32::try_from(frame.len() - 4).map_err(|_| "a response of 2 GiB or more".to_owned())?;
    if let Some(prefix) = frame.first_chunk_mut::<4>() {
        *prefix = length.to_be_bytes();
    }
    Ok(frame.freeze())
}

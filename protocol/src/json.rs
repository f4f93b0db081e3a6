//! Messages as JSON, for `ottla dump` and for comparing with Kafka: what [`Message::to_json`] gives, chosen by the API's number, from a
//! body alone ([`message_json`]) or from whole frames in a row, as a connection carries them ([`frames_json`]).

use crate::frame::{FrameDecoder, FrameError};
use crate::header::{RequestHeader, ResponseHeader};
use crate::message::{
    ApiVersionsRequest, ApiVersionsResponse, FetchRequest, FindCoordinatorRequest, ListOffsetsRequest, MetadataRequest,
    OffsetCommitRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest,
};
use crate::reader::Reader;
use crate::{ApiKey, DecodeError, Message, Request, TaggedField, VersionRange};
use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From a client to a broker.
    Request,
    /// From a broker to a client.
    Response,
}

/// A message that can't be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// This crate has no messages for the API.
    #[error("{0} has no messages here")]
    UnknownApi(ApiKey),
    /// The bytes are no such message; positions count from the body's or the frame's start.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A frame's length can't be right.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The last frame is cut.
    #[error("the last {available} bytes are no whole frame")]
    Truncated {
        /// How many bytes there are.
        available: usize,
    },
    /// A request of another version than the one asked for.
    #[error("the request is of version {found}, not {expected}")]
    Version {
        /// What its header says.
        found: i16,
        /// What was asked for.
        expected: i16,
    },
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageJson {
    /// As Kafka's own converters show it: [`Message::to_json`].
    pub body: Value,
    /// What they don't show: tagged fields that the schema doesn't know, as objects of `path`, `tag` and, in hex digits, `data`.
    pub unknown_tagged_fields: Vec<Value>,
}

impl MessageJson {
    fn of<M: Message>(message: &M, version: i16) -> Self {
        let mut unknown_tagged_fields = Vec::new();
        message.for_each_unknown_tag(&mut |path: &str, tagged: &TaggedField| {
            let members = [("path", path.into()), ("tag", tagged.tag.into()), ("data", hex(&tagged.data).into())];
            unknown_tagged_fields.push(object(members));
        });
        Self { body: message.to_json(version), unknown_tagged_fields }
    }
}

/// Reads a message, without length and header, and shows it.
///
/// # Errors
/// An API without messages here, or bytes that are no such message.
pub fn message_json(
    api_key: ApiKey,
    direction: Direction,
    version: i16,
    body: &Bytes,
) -> Result<MessageJson, JsonError> {
    let codec = Codec::of(api_key)?;
    Ok(match direction {
        Direction::Request => (codec.request)(version, body)?,
        Direction::Response => (codec.response)(version, body)?,
    })
}

/// Reads `frames`, whole frames in a row with their lengths and headers, and shows each as an object of `frameOffset`, `apiKey`, `version`,
/// `correlationId`, `clientId` (requests), `body` and, if there are any, `unknownTaggedFields`. Ends after the first error.
///
/// A request's header says its version; if `version` is given, it has to be that. A response doesn't, so there it has to be given: `None`
/// stands for the newest version. An ApiVersions response with UNSUPPORTED_VERSION is read as version 0, as brokers write it.
pub fn frames_json(api_key: ApiKey, direction: Direction, version: Option<i16>, frames: &[u8]) -> FramesJson {
    let decoder = FrameDecoder::new(frames.len());
    FramesJson {
        api_key,
        direction,
        version,
        decoder,
        length: frames.len(),
        rest: BytesMut::from(frames),
        failed: false,
    }
}

/// The frames of [`frames_json`].
#[derive(Debug)]
pub struct FramesJson {
    api_key: ApiKey,
    direction: Direction,
    version: Option<i16>,
    decoder: FrameDecoder,
    length: usize,
    rest: BytesMut,
    failed: bool,
}

impl Iterator for FramesJson {
    type Item = Result<Value, JsonError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.rest.is_empty() {
            return None;
        }
        let value = self.next_frame();
        self.failed = value.is_err();
        Some(value)
    }
}

impl FramesJson {
    fn next_frame(&mut self) -> Result<Value, JsonError> {
        let offset = self.length - self.rest.len();
        let available = self.rest.len();
        let frame = self.decoder.next_frame(&mut self.rest)?.ok_or(JsonError::Truncated { available })?;
        let codec = Codec::of(self.api_key)?;
        let mut object = Map::new();
        object.insert("frameOffset".into(), offset.into());
        object.insert("apiKey".into(), self.api_key.to_string().into());
        let mut reader = Reader::new(&frame);
        let shown = match self.direction {
            Direction::Request => {
                // The version decides about the header that it stands in.
                let version_bytes = frame.slice(frame.len().min(2)..);
                let version = Reader::new(&version_bytes).i16("RequestHeader.api_version").unwrap_or_default();
                let header = RequestHeader::decode(&mut reader, version >= codec.flexible_since)?;
                if let Some(expected) = self.version.filter(|expected| *expected != version) {
                    return Err(JsonError::Version { found: version, expected });
                }
                if header.api_key != self.api_key {
                    return Err(crate::header::other_api(header.api_key).into());
                }
                object.insert("version".into(), version.into());
                object.insert("correlationId".into(), header.correlation_id.into());
                object.insert("clientId".into(), header.client_id.into());
                at((codec.request)(version, &frame.slice(reader.position()..)), reader.position())?
            }
            Direction::Response => {
                let asked = self.version.unwrap_or(codec.response_versions.max);
                let flexible = asked >= codec.flexible_since && self.api_key != ApiKey::API_VERSIONS;
                let header = ResponseHeader::decode(&mut reader, flexible)?;
                let body = frame.slice(reader.position()..);
                let version = if self.api_key == ApiKey::API_VERSIONS {
                    ApiVersionsResponse::version_of(asked, &body)?
                } else {
                    asked
                };
                object.insert("version".into(), version.into());
                object.insert("correlationId".into(), header.correlation_id.into());
                at((codec.response)(version, &body), reader.position())?
            }
        };
        object.insert("body".into(), shown.body);
        if !shown.unknown_tagged_fields.is_empty() {
            object.insert("unknownTaggedFields".into(), shown.unknown_tagged_fields.into());
        }
        Ok(object.into())
    }
}

/// A result whose errors count from the frame's start, of one whose errors count from the body's.
fn at<T>(result: Result<T, DecodeError>, body_start: usize) -> Result<T, DecodeError> {
    result.map_err(|error| DecodeError { position: error.position + body_start, ..error })
}

type Show = fn(i16, &Bytes) -> Result<MessageJson, DecodeError>;

/// The APIs that have messages here.
pub const API_KEYS: [ApiKey; 8] = [
    ApiKey::FETCH,
    ApiKey::LIST_OFFSETS,
    ApiKey::METADATA,
    ApiKey::OFFSET_COMMIT,
    ApiKey::OFFSET_FETCH,
    ApiKey::FIND_COORDINATOR,
    ApiKey::API_VERSIONS,
    ApiKey::OFFSET_FOR_LEADER_EPOCH,
];

/// The versions that can be shown; `None` for an API that is not one of [`API_KEYS`].
pub fn versions(api_key: ApiKey, direction: Direction) -> Option<VersionRange> {
    let codec = Codec::of(api_key).ok()?;
    Some(match direction {
        Direction::Request => codec.request_versions,
        Direction::Response => codec.response_versions,
    })
}

/// An API's two messages, without their types.
struct Codec {
    flexible_since: i16,
    request_versions: VersionRange,
    response_versions: VersionRange,
    request: Show,
    response: Show,
}

impl Codec {
    fn new<R: Request>() -> Self {
        Self {
            flexible_since: R::FLEXIBLE_SINCE,
            request_versions: R::VERSIONS,
            response_versions: R::Response::VERSIONS,
            request: show::<R>,
            response: show::<R::Response>,
        }
    }

    fn of(api_key: ApiKey) -> Result<Self, JsonError> {
        Ok(match api_key {
            ApiKey::FETCH => Self::new::<FetchRequest>(),
            ApiKey::LIST_OFFSETS => Self::new::<ListOffsetsRequest>(),
            ApiKey::METADATA => Self::new::<MetadataRequest>(),
            ApiKey::OFFSET_COMMIT => Self::new::<OffsetCommitRequest>(),
            ApiKey::OFFSET_FETCH => Self::new::<OffsetFetchRequest>(),
            ApiKey::FIND_COORDINATOR => Self::new::<FindCoordinatorRequest>(),
            ApiKey::API_VERSIONS => Self::new::<ApiVersionsRequest>(),
            ApiKey::OFFSET_FOR_LEADER_EPOCH => Self::new::<OffsetForLeaderEpochRequest>(),
            _ => return Err(JsonError::UnknownApi(api_key)),
        })
    }
}

fn show<M: Message>(version: i16, body: &Bytes) -> Result<MessageJson, DecodeError> {
    M::decode(version, body).map(|message| MessageJson::of(&message, version))
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>().into()
}

/// Lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut digits, byte| {
        // Writing to a string can't fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// The schema's name of a field, as Kafka's JSON has it: `max_wait_ms` is `maxWaitMs`.
pub(crate) fn key(field: &str) -> String {
    let mut key = String::with_capacity(field.len());
    let mut upper = false;
    for letter in field.chars() {
        match letter {
            '_' => upper = true,
            _ if std::mem::take(&mut upper) => key.push(letter.to_ascii_uppercase()),
            _ => key.push(letter),
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::FetchResponse;
    use crate::{encode_request, encode_response};

    #[test]
    fn names_are_the_schemas() {
        assert_eq!(key("max_wait_ms"), "maxWaitMs");
        assert_eq!(key("topics"), "topics");
        assert_eq!(hex(b"\x00\xff\x1a"), "00ff1a");
    }

    #[test]
    fn the_listed_apis_have_messages() {
        for number in 0..100 {
            let api_key = ApiKey(number);
            let listed = API_KEYS.contains(&api_key);
            assert_eq!(versions(api_key, Direction::Request).is_some(), listed, "{api_key}");
            assert_eq!(versions(api_key, Direction::Response).is_some(), listed, "{api_key}");
        }
        assert_eq!(versions(ApiKey::FETCH, Direction::Response), Some(VersionRange::new(4, 18)));
    }

    fn two_requests() -> BytesMut {
        let mut out = BytesMut::new();
        encode_request(12, 1, Some("me"), &MetadataRequest::default(), &mut out).unwrap();
        encode_request(0, 2, None, &MetadataRequest::default(), &mut out).unwrap();
        out
    }

    #[test]
    fn frames_in_a_row_each_with_its_version() {
        let frames = two_requests();
        let shown: Vec<Value> =
            frames_json(ApiKey::METADATA, Direction::Request, None, &frames).map(Result::unwrap).collect();
        assert_eq!(shown[0]["frameOffset"], 0);
        assert_eq!(shown[0]["apiKey"], "Metadata");
        assert_eq!((&shown[0]["version"], &shown[1]["version"]), (&12.into(), &0.into()));
        assert_eq!((&shown[0]["clientId"], &shown[1]["clientId"]), (&"me".into(), &Value::Null));
        assert_eq!(shown[1]["body"], serde_json::json!({"topics": []}));
        assert!(shown[0].get("unknownTaggedFields").is_none());
    }

    #[test]
    fn the_first_error_ends_it() {
        let frames = two_requests();
        let all = |api_key, direction, version, frames: &[u8]| -> Vec<_> {
            frames_json(api_key, direction, version, frames).collect()
        };
        let other_version = all(ApiKey::METADATA, Direction::Request, Some(12), &frames);
        assert!(other_version[0].is_ok());
        assert_eq!(other_version[1..], [Err(JsonError::Version { found: 0, expected: 12 })]);
        let cut = all(ApiKey::METADATA, Direction::Request, None, &frames[..frames.len() - 1]);
        assert_eq!(cut.len(), 2);
        assert!(matches!(cut[1], Err(JsonError::Truncated { .. })), "{cut:?}");
        let unknown = all(ApiKey::HEARTBEAT, Direction::Request, None, &frames);
        assert_eq!(unknown, [Err(JsonError::UnknownApi(ApiKey::HEARTBEAT))]);
        let other_api = all(ApiKey::FETCH, Direction::Request, None, &frames);
        assert!(matches!(other_api[..], [Err(JsonError::Decode(_))]), "{other_api:?}");
        let huge = all(ApiKey::FETCH, Direction::Response, None, &[0x7f, 0xff, 0xff, 0xff, 0]);
        assert!(matches!(huge[..], [Err(JsonError::Frame(_))]), "{huge:?}");
    }

    #[test]
    fn unknown_tagged_fields_are_listed_with_their_paths() {
        let data = Bytes::from_static(b"\x01\x02");
        let response =
            FetchResponse { unknown_tagged_fields: vec![TaggedField { tag: 77, data }], ..Default::default() };
        let mut frame = BytesMut::new();
        encode_response::<FetchRequest>(18, 3, &response, &mut frame).unwrap();
        let shown = frames_json(ApiKey::FETCH, Direction::Response, Some(18), &frame).next().unwrap().unwrap();
        assert_eq!(shown["unknownTaggedFields"], serde_json::json!([{"path": "", "tag": 77, "data": "0102"}]));
        assert_eq!(shown["body"]["responses"], serde_json::json!([]));
    }
}

//! Every vector of frames and messages: `api`, `live`, and the malformed ones that are about these. Walks the index, so that vectors of
//! the same kinds can be added without new code. Messages that are not written by hand here run through the `kafka-protocol` crate, which
//! the layers above use for them.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what is wrong with a vector's description ends the test"
)]

mod common;

use bytes::{Bytes, BytesMut};
use common::{Area, Entry, entries, report};
use kafka_protocol::messages::{self as their, ApiKey as TheirKey};
use kafka_protocol::protocol::{Decodable, Encodable};
use ottla_protocol::json::{Direction, MessageJson, frames_json, message_json};
use ottla_protocol::message::*;
use ottla_protocol::{
    ApiKey, DecodeError, DecodeErrorKind, EncodeError, ErrorCode, FRAME_LENGTH_BYTES, FrameDecoder, Message, Reader,
    Request, RequestHeader, ResponseHeader,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Why `kafka-protocol` doesn't give Kafka's bytes back: a text that its error begins with, and the reason. Vectors to which none of these
/// applies fail; a reason that applies to none of the project's own vectors fails too.
const KAFKA_PROTOCOL_MISMATCHES: &[(&str, &str)] =
    &[("invalid utf-8", "it refuses strings that are no UTF-8, where Java puts U+FFFD in place of the wrong bytes")];

/// A message's bytes read and written again, by one of the two libraries.
struct Reread {
    bytes: Result<Bytes, EncodeError>,
    /// None from `kafka-protocol`, which has no JSON form of Kafka's kind.
    json: Option<MessageJson>,
}

#[derive(Debug)]
enum RereadError {
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

fn theirs(key: i16, direction: Direction, version: i16, body: &Bytes) -> Result<Reread, RereadError> {
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
fn reread(key: i16, direction: Direction, version: i16, body: &Bytes) -> Result<Reread, RereadError> {
    with_message!(key, direction, M => ours::<M>(direction, version, body), else theirs(key, direction, version, body))
}

/// Whether the API's messages are written by hand here.
fn is_ours(key: i16) -> bool {
    with_request!(key, R => R::API_KEY.0 == key, else false)
}

/// `LIST_OFFSETS` of the vectors is `ListOffsets` here.
fn key_of(api: &str) -> Option<i16> {
    let name: String = api
        .split('_')
        .map(|word| word.chars().take(1).chain(word.to_ascii_lowercase().chars().skip(1)).collect::<String>())
        .collect();
    TheirKey::iter().find(|key| format!("{key:?}") == name).map(|key| key as i16)
}

/// What was run, and what went wrong.
#[derive(Default)]
struct Run {
    vectors: usize,
    frames: usize,
    cases: usize,
    failures: Vec<String>,
    /// What `kafka-protocol` gave other bytes for, and its error if it gave none.
    mismatches: Vec<(String, String)>,
    /// Frames of messages written by hand here that `kafka-protocol` has read and written as well.
    cross_read: usize,
    /// How often each documented difference from Java came up.
    differences: BTreeMap<&'static str, usize>,
}

impl Run {
    fn check(&mut self, name: &str, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.failures.push(format!("{name}: {}", what()));
        }
    }

    /// A whole frame with its length, of a message of `version` in `direction`; compares header, JSON and bytes with what is expected.
    fn frame(&mut self, name: &str, frame: &Bytes, expected: &ExpectedFrame<'_>) {
        self.frames += 1;
        let mut buffer = BytesMut::from(&frame[..]);
        let body = match FrameDecoder::new(frame.len()).next_frame(&mut buffer) {
            Ok(Some(body)) if buffer.is_empty() => body,
            other => return self.failures.push(format!("{name}: no whole frame: {other:?}")),
        };
        let ExpectedFrame { key, version, direction, flexible_header, .. } = *expected;
        let mut reader = Reader::new(&body);
        let mut rewritten = BytesMut::new();
        let header = match direction {
            Direction::Request => RequestHeader::decode(&mut reader, flexible_header).map(|header| {
                self.check(name, header.api_key.0 == key, || format!("API {:?}", header.api_key));
                self.check(name, header.api_version == version, || format!("version {}", header.api_version));
                let client_id = expected.json.get("client_id").and_then(Value::as_str);
                if expected.json.get("client_id").is_some() {
                    self.check(name, header.client_id.as_deref() == client_id, || format!("{:?}", header.client_id));
                }
                header.encode(flexible_header, &mut rewritten).unwrap();
                header.correlation_id
            }),
            Direction::Response => ResponseHeader::decode(&mut reader, flexible_header).map(|header| {
                header.encode(flexible_header, &mut rewritten).unwrap();
                header.correlation_id
            }),
        };
        match header {
            Ok(id) => self.check(name, expected.json["correlation_id"] == json!(id), || format!("correlation id {id}")),
            Err(error) => return self.failures.push(format!("{name}: header: {error}")),
        }
        let body = body.slice(reader.position()..);
        if is_ours(key) {
            match theirs(key, direction, expected.body_version, &body) {
                Ok(theirs) => {
                    self.cross_read += 1;
                    let same = theirs.bytes.as_ref() == Ok(&body);
                    self.check(name, same, || "kafka-protocol writes other bytes".to_owned());
                }
                Err(RereadError::Theirs(error)) if error == "specified version not supported by this message type" => {
                    *self.differences.entry("a frame of a version that kafka-protocol doesn't have").or_default() += 1;
                }
                Err(error) => self.failures.push(format!("{name}: kafka-protocol: {error:?}")),
            }
        }
        match reread(key, direction, expected.body_version, &body) {
            Ok(reread) => {
                match reread.bytes {
                    Ok(bytes) => {
                        rewritten.extend_from_slice(&bytes);
                        let same = rewritten[..] == frame[FRAME_LENGTH_BYTES..];
                        if is_ours(key) {
                            self.check(name, same, || "not written as Kafka wrote it".to_owned());
                        } else if !same {
                            self.mismatches.push((name.to_owned(), "other bytes".to_owned()));
                        }
                    }
                    Err(error) => self.failures.push(format!("{name}: can't be written again: {error}")),
                }
                if let Some(json) = reread.json {
                    let body = as_in_vectors(&json.body, expected.body);
                    self.check(name, body == without_decode(expected.body), || {
                        format!("read as\n  {body}\nbut Kafka reads\n  {}", expected.body)
                    });
                    let known = expected.json.get("unknown_tagged_fields").and_then(Value::as_array);
                    let known = known.cloned().unwrap_or_default();
                    self.check(name, same_elements(&json.unknown_tagged_fields, &known), || {
                        format!("unknown tagged fields {:?}, but Kafka reads {known:?}", json.unknown_tagged_fields)
                    });
                }
            }
            Err(RereadError::Ours(error)) => self.failures.push(format!("{name}: {error}")),
            Err(RereadError::Theirs(error)) => self.mismatches.push((name.to_owned(), error)),
        }
    }
}

/// What a frame should be.
struct ExpectedFrame<'v> {
    key: i16,
    direction: Direction,
    flexible_header: bool,
    /// The version in the request's header.
    version: i16,
    /// The version of the body: another one for the answer to an unsupported version.
    body_version: i16,
    body: &'v Value,
    json: &'v Value,
}

/// Our JSON in the form of the live vectors, which have a size in place of the records.
fn as_in_vectors(ours: &Value, expected: &Value) -> Value {
    match (ours, expected) {
        (Value::Object(ours), Value::Object(expected)) => ours
            .iter()
            .map(|(key, value)| {
                if key == "records" && expected.contains_key("recordsSizeInBytes") {
                    let size = value.as_str().map_or(0, |hex| (hex.len() - "hex:".len()) / 2);
                    ("recordsSizeInBytes".to_owned(), json!(size))
                } else {
                    (key.clone(), as_in_vectors(value, expected.get(key).unwrap_or(&Value::Null)))
                }
            })
            .collect(),
        (Value::Array(ours), Value::Array(expected)) => ours
            .iter()
            .zip(expected.iter().chain(std::iter::repeat(&Value::Null)))
            .map(|(o, e)| as_in_vectors(o, e))
            .collect(),
        _ => ours.clone(),
    }
}

/// The expected JSON without the decoded record batches of the live vectors; those are for the records' tests.
fn without_decode(expected: &Value) -> Value {
    match expected {
        Value::Object(object) => object
            .iter()
            .filter(|(key, _)| !(*key == "decode" && object.contains_key("recordsSizeInBytes")))
            .map(|(key, value)| (key.clone(), without_decode(value)))
            .collect(),
        Value::Array(array) => array.iter().map(without_decode).collect(),
        other => other.clone(),
    }
}

fn same_elements(a: &[Value], b: &[Value]) -> bool {
    let sorted = |list: &[Value]| {
        let mut texts: Vec<String> = list.iter().map(|v| format!("{} {} {}", v["path"], v["tag"], v["data"])).collect();
        texts.sort();
        texts
    };
    sorted(a) == sorted(b)
}

fn number(value: &Value, key: &str) -> usize {
    value[key].as_u64().and_then(|n| n.try_into().ok()).unwrap_or_else(|| panic!("{key} of {value}"))
}

fn version(value: &Value, key: &str) -> i16 {
    value[key].as_i64().and_then(|n| n.try_into().ok()).unwrap_or_else(|| panic!("{key} of {value}"))
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("{key} of {value}"))
}

/// `api/NAME`: frames in a row.
fn api(run: &mut Run, entry: &Entry) {
    let (bin, doc) = (Bytes::from(entry.read_bin()), entry.read_json());
    let mut end = 0;
    for expected in list(&doc, "frames") {
        let name = format!("{} / {}", entry.name, expected["name"].as_str().unwrap_or_default());
        let (offset, length) = (number(expected, "frame_offset"), number(expected, "frame_len"));
        run.check(&name, offset == end, || format!("begins at {offset}, the one before ends at {end}"));
        end = offset + length;
        let frame = bin.slice(offset..end);
        if expected.get("asked_version").is_some() {
            fallback(run, &name, &frame, expected);
            continue;
        }
        let direction = match doc["direction"].as_str() {
            Some("request") => Direction::Request,
            Some("response") => Direction::Response,
            other => panic!("{}: direction {other:?}", entry.name),
        };
        let newer_header = if direction == Direction::Request { 2 } else { 1 };
        let version = version(expected, "version");
        run.frame(
            &name,
            &frame,
            &ExpectedFrame {
                key: self::version(&doc, "api_key"),
                direction,
                flexible_header: number(expected, "header_version") == newer_header,
                version,
                body_version: version,
                body: &expected["body"],
                json: expected,
            },
        );
        if is_ours(self::version(&doc, "api_key")) {
            headers_agree(run, &name, &doc, expected, &frame);
        }
    }
    run.check(&entry.name, end == bin.len(), || format!("{} bytes after the last frame", bin.len() - end));
}

/// The functions that read and write whole frames choose the same header as Kafka.
fn headers_agree(run: &mut Run, name: &str, doc: &Value, expected: &Value, frame: &Bytes) {
    fn request<R: Request>(run: &mut Run, name: &str, version: i16, frame: &Bytes) {
        match ottla_protocol::decode_request::<R>(&frame.slice(FRAME_LENGTH_BYTES..)) {
            Ok((header, request)) => {
                let mut out = BytesMut::new();
                let (id, client_id) = (header.correlation_id, header.client_id.as_deref());
                ottla_protocol::encode_request(version, id, client_id, &request, &mut out).unwrap();
                run.check(name, out[..] == frame[..], || "another frame than Kafka's".to_owned());
            }
            Err(error) => run.failures.push(format!("{name}: whole frame: {error}")),
        }
    }
    fn response<R: Request>(run: &mut Run, name: &str, version: i16, frame: &Bytes) {
        match ottla_protocol::decode_response::<R>(version, &frame.slice(FRAME_LENGTH_BYTES..)) {
            Ok((id, response)) => {
                let mut out = BytesMut::new();
                ottla_protocol::encode_response::<R>(version, id, &response, &mut out).unwrap();
                run.check(name, out[..] == frame[..], || "another frame than Kafka's".to_owned());
            }
            Err(error) => run.failures.push(format!("{name}: whole frame: {error}")),
        }
    }
    let (key, version) = (version(doc, "api_key"), version(expected, "version"));
    let to_broker = doc["direction"] == "request";
    with_request!(key, R => match to_broker {
        true => request::<R>(run, name, version, frame),
        false => response::<R>(run, name, version, frame),
    }, else return);
    let direction = if to_broker { Direction::Request } else { Direction::Response };
    let shown: Vec<_> = frames_json(ApiKey(key), direction, Some(version), frame).collect();
    match shown.as_slice() {
        [Ok(shown)] => {
            run.check(name, shown["body"] == expected["body"], || format!("shown as {shown}"));
            run.check(name, shown["correlationId"] == expected["correlation_id"], || format!("shown as {shown}"));
            let client_id = expected.get("client_id").unwrap_or(&Value::Null);
            run.check(name, shown.get("clientId").unwrap_or(&Value::Null) == client_id, || format!("shown as {shown}"));
        }
        other => run.failures.push(format!("{name}: shown as {other:?}")),
    }
}

/// A frame of the ApiVersions handshake with a version that the broker doesn't have.
fn fallback(run: &mut Run, name: &str, frame: &Bytes, expected: &Value) {
    if !expected["body"].is_null() {
        handshake_answer(run, name, frame, expected, version(expected, "asked_version"), &expected["body"]);
        return;
    }
    run.frames += 1;
    let inner = frame.slice(FRAME_LENGTH_BYTES..);
    let flexible = number(expected, "header_version") == 2;
    match RequestHeader::decode(&mut Reader::new(&inner), flexible) {
        Ok(header) => {
            run.check(name, header.api_version == version(expected, "asked_version"), || format!("{header:?}"));
            run.check(name, expected["correlation_id"] == json!(header.correlation_id), || format!("{header:?}"));
            let error = ottla_protocol::decode_request::<ApiVersionsRequest>(&inner).map(|_| ()).map_err(|e| e.kind);
            let expected_error = ApiVersionsRequest::VERSIONS.contains(header.api_version)
                || matches!(error, Err(DecodeErrorKind::Version { .. }));
            run.check(name, expected_error, || format!("{error:?}"));
        }
        Err(error) => run.failures.push(format!("{name}: {error}")),
    }
}

/// An answer to ApiVersions of `asked`, which the broker doesn't have.
fn handshake_answer(run: &mut Run, name: &str, frame: &Bytes, expected: &Value, asked: i16, body: &Value) {
    run.frame(
        name,
        frame,
        &ExpectedFrame {
            key: ApiKey::API_VERSIONS.0,
            direction: Direction::Response,
            flexible_header: false,
            version: asked,
            body_version: version(expected, "parse_as_version"),
            body,
            json: expected,
        },
    );
    match ApiVersionsResponse::decode_any(asked, &frame.slice(FRAME_LENGTH_BYTES..)) {
        Ok((id, response)) => {
            run.check(name, expected["correlation_id"] == json!(id), || format!("correlation id {id}"));
            run.check(name, response.error_code == ErrorCode::UNSUPPORTED_VERSION, || format!("{response:?}"));
            run.check(name, response.to_json(0) == *body, || format!("{response:?}"));
        }
        Err(error) => run.failures.push(format!("{name}: as the answer to version {asked}: {error}")),
    }
}

/// `live/API`: requests with their responses.
fn live(run: &mut Run, entry: &Entry) {
    let (bin, doc) = (Bytes::from(entry.read_bin()), entry.read_json());
    let key = doc["api"].as_str().and_then(key_of).unwrap_or_else(|| panic!("{}: API {}", entry.name, doc["api"]));
    let their_key = TheirKey::try_from(key).unwrap();
    for (i, pair) in list(&doc, "pairs").iter().enumerate() {
        let asked = version(pair, "version");
        let part = |which: &str| {
            let start = number(pair, &format!("{which}_offset"));
            bin.slice(start..start + number(pair, &format!("{which}_len")))
        };
        let name = format!("live {} / pair {i} v{asked}", entry.name);
        if pair.get("unsupported_version_asked").is_some() {
            unsupported_request(run, &format!("{name} request"), &part("request"), pair, asked);
            handshake_answer(run, &format!("{name} response"), &part("response"), pair, asked, &pair["response"]);
            continue;
        }
        for direction in [Direction::Request, Direction::Response] {
            let (which, flexible_header) = match direction {
                Direction::Request => ("request", their_key.request_header_version(asked) == 2),
                Direction::Response => ("response", their_key.response_header_version(asked) == 1),
            };
            run.frame(
                &format!("{name} {which}"),
                &part(which),
                &ExpectedFrame {
                    key,
                    direction,
                    flexible_header,
                    version: asked,
                    body_version: asked,
                    body: &pair[which],
                    json: pair,
                },
            );
        }
    }
}

/// A request in a version that no one has: only its header can be read.
fn unsupported_request(run: &mut Run, name: &str, frame: &Bytes, pair: &Value, asked: i16) {
    run.frames += 1;
    let inner = frame.slice(FRAME_LENGTH_BYTES..);
    match RequestHeader::decode(&mut Reader::new(&inner), true) {
        Ok(header) => {
            run.check(name, header.api_key == ApiKey::API_VERSIONS && header.api_version == asked, || {
                format!("{header:?}")
            });
            run.check(name, pair["correlation_id"] == json!(header.correlation_id), || format!("{header:?}"));
        }
        Err(error) => run.failures.push(format!("{name}: {error}")),
    }
}

/// Malformed bodies of responses: accepted or not as Java did, and written again as Java did.
fn malformed_body(run: &mut Run, name: &str, item: &Value, body: &Bytes) {
    let api = item["api"].as_str().unwrap_or_default();
    let Some(key) = key_of(api) else { return run.failures.push(format!("{name}: API {api}")) };
    let version = version(item, "version");
    let java_ok = item["java_ok"].as_bool().unwrap_or_else(|| panic!("java_ok of {item}"));
    let java_error = item["java_error"].as_str().unwrap_or_default();
    if !is_ours(key) && java_error.contains("Tried to allocate a collection") {
        // `kafka-protocol` would reserve the memory for as many elements as the bytes claim.
        *run.differences.entry("held back from kafka-protocol, which reserves claimed counts").or_default() += 1;
        return;
    }
    let crc = |bytes: &[u8]| json!(crc32c::crc32c(bytes));
    let flexible = with_request!(key, R => version >= R::FLEXIBLE_SINCE, else false);
    let java_read = &body[..body.len() - item["left_over"].as_u64().map_or(0, |n| n as usize)];
    // Java reads a known tagged field by its content, whatever its size says, and is then misplaced: what it writes is not what it read.
    let java_is_misplaced =
        flexible && item["reserialized_crc32c"].is_number() && item["reserialized_crc32c"] != crc(java_read);
    match reread(key, Direction::Response, version, body) {
        Ok(Reread { bytes, .. }) if java_ok => match (bytes, item.get("reserialize_error")) {
            (Ok(bytes), None) => {
                let same = item["reserialized_crc32c"] == crc(&bytes);
                let error = format!("written again as {} bytes, by Java as {}", bytes.len(), item["reserialized_len"]);
                if is_ours(key) {
                    run.check(name, same, || error);
                } else if !same {
                    run.mismatches.push((name.to_owned(), error));
                }
            }
            (Err(EncodeError::TagOrder { .. }), Some(_)) => {
                *run.differences
                    .entry("read with tags out of order, as Java, and not written, as Java")
                    .or_default() += 1;
            }
            (Ok(_), Some(Value::String(error))) if error.contains("tag 2147483647 as") || error.contains("tag -") => {
                *run.differences.entry("a tag of 2^31-1 or more, which Java reads and can't write").or_default() += 1;
            }
            (bytes, error) => run.failures.push(format!("{name}: written again: {bytes:?}; by Java: {error:?}")),
        },
        Ok(_) => run.failures.push(format!("{name}: accepted, but Java says {java_error}")),
        // Here the size of a known tagged field and its content have to agree.
        Err(RereadError::Ours(error))
            if java_ok
                && java_is_misplaced
                && matches!(
                    error.kind,
                    DecodeErrorKind::Leftover { .. }
                        | DecodeErrorKind::Truncated { .. }
                        | DecodeErrorKind::Length { .. }
                ) =>
        {
            *run.differences.entry("a known tagged field whose size is not its content's").or_default() += 1;
        }
        Err(RereadError::Theirs(error)) if java_ok => run.mismatches.push((name.to_owned(), error)),
        Err(RereadError::Ours(error)) => {
            run.check(name, !java_ok, || format!("refused with {error}, but Java accepts it"));
            run.check(name, error.position <= body.len(), || format!("a position outside the body: {error}"));
        }
        Err(RereadError::Theirs(_)) => {}
    }
}

/// Lengths of frames: what Java's network layer says with a limit of 100 MiB.
fn frame_size(run: &mut Run, name: &str, item: &Value, bytes: &Bytes) {
    const LIMIT: usize = 100 * 1024 * 1024;
    let java = item["java_limit_100MiB"].as_str().unwrap_or_default();
    let mut buffer = BytesMut::from(&bytes[..]);
    let frame = FrameDecoder::new(LIMIT).next_frame(&mut buffer);
    let size = &item["size_field"];
    if java.contains("InvalidReceiveException") {
        let refused = frame.as_ref().is_err_and(|error| *size == json!(error.length));
        run.check(name, refused, || format!("{frame:?}, but Java says {java}"));
    } else if java.contains("complete=true") {
        let whole = matches!(&frame, Ok(Some(frame)) if *size == json!(frame.len()));
        run.check(name, whole, || format!("{frame:?}, but Java says {java}"));
    } else {
        run.check(name, java.contains("complete=false") && frame == Ok(None), || format!("{frame:?}, Java: {java}"));
    }
}

fn malformed(run: &mut Run, entry: &Entry) {
    let (bin, doc) = (Bytes::from(entry.read_bin()), entry.read_json());
    for (i, item) in list(&doc, "items").iter().enumerate() {
        let own_name = item["name"].as_str().map_or_else(|| format!("item {i}"), str::to_owned);
        let name = format!("malformed {} / {own_name}", entry.name);
        let offset = number(item, "offset");
        let bytes = bin.slice(offset..offset + number(item, "len"));
        run.cases += 1;
        if item["api"].is_string() {
            malformed_body(run, &name, item, &bytes);
        } else {
            frame_size(run, &name, item, &bytes);
        }
    }
}

#[test]
fn vectors_of_frames_and_messages_are_read_and_written_as_by_kafka() {
    let mut run = Run::default();
    for entry in entries(Area::Messages) {
        run.vectors += 1;
        match entry.kind.as_str() {
            "api" => api(&mut run, &entry),
            "live" => live(&mut run, &entry),
            _ => malformed(&mut run, &entry),
        }
    }
    let mut reasons_used = vec![false; KAFKA_PROTOCOL_MISMATCHES.len()];
    let mut lines = Vec::new();
    for (name, error) in &run.mismatches {
        match KAFKA_PROTOCOL_MISMATCHES.iter().position(|(start, _)| error.starts_with(start)) {
            Some(i) => {
                reasons_used[i] = true;
                lines.push(format!(
                    "  not Kafka's bytes from kafka-protocol: {name}: {}",
                    KAFKA_PROTOCOL_MISMATCHES[i].1
                ));
            }
            None => run
                .failures
                .push(format!("{name}: not Kafka's bytes from kafka-protocol, for no known reason: {error}")),
        }
    }
    if std::env::var_os("OTTLA_VECTORS").is_none() {
        for ((start, _), used) in KAFKA_PROTOCOL_MISMATCHES.iter().zip(reasons_used) {
            if !used {
                run.failures.push(format!("kafka-protocol no longer fails with {start:?}: take the reason away"));
            }
        }
    }
    let Run { vectors, frames, cases, cross_read, .. } = run;
    report(&format!("vectors of messages: {vectors} vectors, {frames} frames, {cases} malformed cases"));
    report(&format!("  {cross_read} frames of messages written by hand here came through kafka-protocol the same"));
    for (difference, count) in &run.differences {
        report(&format!("  {count} times: {difference}"));
    }
    for line in lines {
        report(&line);
    }
    assert!(run.failures.is_empty(), "{} failures:\n{}", run.failures.len(), run.failures.join("\n"));
    assert_eq!((vectors, frames, cases), counted(), "vectors, frames and cases that ran, and that the index holds");
}

/// How many vectors, frames and malformed cases there are, by the index alone and the numbers in it where it has them.
fn counted() -> (usize, usize, usize) {
    let (mut vectors, mut frames, mut cases) = (0, 0, 0);
    let text = std::fs::read(common::testdata().join("index.json")).unwrap();
    let index: Value = serde_json::from_slice(&text).unwrap();
    for entry in list(&index, "entries") {
        let doc = || -> Value {
            let path = common::testdata().join(entry["json"].as_str().unwrap());
            serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
        };
        let declared = |key: &str| entry[key].as_u64().map(|n| usize::try_from(n).unwrap());
        match entry["kind"].as_str() {
            Some("api") => frames += declared("frames").unwrap_or_else(|| list(&doc(), "frames").len()),
            Some("live") => frames += 2 * declared("pairs").unwrap_or_else(|| list(&doc(), "pairs").len()),
            Some("malformed")
                if doc().pointer("/items/0/java_limit_100MiB").is_some() || doc().pointer("/items/0/api").is_some() =>
            {
                cases += declared("items").unwrap_or_else(|| list(&doc(), "items").len());
            }
            _ => continue,
        }
        vectors += 1;
    }
    (vectors, frames, cases)
}

#[test]
fn vectors_of_the_two_areas_are_all_that_the_index_holds() {
    let all: Vec<String> = common::index().into_iter().map(|entry| entry.name + &entry.kind).collect();
    let mut both: Vec<String> =
        [Area::Messages, Area::Records].into_iter().flat_map(entries).map(|entry| entry.name + &entry.kind).collect();
    assert!(!all.is_empty());
    assert_eq!(both.len(), all.len());
    both.sort();
    let mut sorted = all;
    sorted.sort();
    sorted.dedup();
    assert_eq!(both, sorted, "every entry once, and none under two names");
}

/// The body of every whole frame, of `api` and `live`, of messages written by hand here.
fn bodies() -> Vec<(String, i16, Direction, i16, Bytes)> {
    let mut bodies = Vec::new();
    let mut add = |name: String, key: i16, direction, version: i16, frame: Bytes| {
        let their_key = TheirKey::try_from(key).unwrap();
        let (frame, reader_frame) = (frame.slice(FRAME_LENGTH_BYTES..), frame.slice(FRAME_LENGTH_BYTES..));
        let mut reader = Reader::new(&reader_frame);
        match direction {
            Direction::Request => {
                RequestHeader::decode(&mut reader, their_key.request_header_version(version) == 2).unwrap();
            }
            Direction::Response => {
                ResponseHeader::decode(&mut reader, their_key.response_header_version(version) == 1).unwrap();
            }
        }
        bodies.push((name, key, direction, version, frame.slice(reader.position()..)));
    };
    for entry in entries(Area::Messages).iter().filter(|entry| entry.kind != "malformed") {
        let (bin, doc) = (Bytes::from(entry.read_bin()), entry.read_json());
        if let Some(frames) = doc["frames"].as_array() {
            let (Some(key), Some(direction)) = (doc["api_key"].as_i64(), doc["direction"].as_str()) else { continue };
            let key = i16::try_from(key).unwrap();
            let direction = if direction == "request" { Direction::Request } else { Direction::Response };
            for frame in frames.iter().filter(|_| is_ours(key)) {
                let start = number(frame, "frame_offset");
                let bytes = bin.slice(start..start + number(frame, "frame_len"));
                add(frame["name"].to_string(), key, direction, version(frame, "version"), bytes);
            }
        } else {
            let key = doc["api"].as_str().and_then(key_of).unwrap();
            let pairs = list(&doc, "pairs").iter().filter(|pair| pair.get("unsupported_version_asked").is_none());
            for (i, pair) in pairs.enumerate().filter(|_| is_ours(key)) {
                for (which, direction) in [("request", Direction::Request), ("response", Direction::Response)] {
                    let start = number(pair, &format!("{which}_offset"));
                    let bytes = bin.slice(start..start + number(pair, &format!("{which}_len")));
                    add(format!("live {} {which} {i}", entry.name), key, direction, version(pair, "version"), bytes);
                }
            }
        }
    }
    bodies
}

#[test]
fn vectors_cut_anywhere_are_errors_with_a_place() {
    /// How many cuts were refused; all of them.
    fn cut<M: Message>(name: &str, version: i16, body: &Bytes) -> usize {
        for length in 0..body.len() {
            match M::decode(version, &body.slice(..length)) {
                Err(error) => assert!(error.position <= length, "{name} cut to {length}: {error}"),
                Ok(_) => panic!("{name} v{version} cut to {length} bytes of {} is accepted", body.len()),
            }
        }
        body.len()
    }
    let mut cuts = 0;
    for (name, key, direction, version, body) in bodies() {
        cuts += with_message!(key, direction, M => cut::<M>(&name, version, &body), else panic!("{name} is not ours"));
    }
    report(&format!("vectors of messages, cut: {cuts} times"));
    assert!(cuts > 0, "there were bytes to cut");
}

/// A message with another byte at each place in turn: how many of these are read, and how many refused.
fn change<M: Message + PartialEq + Debug>(
    name: &str,
    version: i16,
    body: &Bytes,
    random: &mut impl FnMut() -> u8,
) -> (usize, usize) {
    let (mut read, mut refused) = (0, 0);
    let mut bytes = body.to_vec();
    for position in 0..body.len() {
        let other = random();
        bytes[position] = if other == body[position] { !other } else { other };
        let changed = Bytes::from(std::mem::take(&mut bytes));
        match M::decode(version, &changed) {
            // What was accepted can be written, and says the same then.
            Ok(message) => {
                let mut out = BytesMut::new();
                match message.encode(version, &mut out) {
                    Ok(()) => {
                        assert_eq!(M::decode(version, &out.freeze()), Ok(message), "{name} byte {position} is {other}");
                    }
                    Err(EncodeError::TagOrder { .. }) => {}
                    Err(error) => panic!("{name} byte {position} is {other}: {error}"),
                }
                read += 1;
            }
            Err(error) => {
                assert!(error.position <= body.len(), "{name} byte {position} is {other}: {error}");
                refused += 1;
            }
        }
        // No copy: no one holds a slice any more.
        bytes = changed.into();
        bytes[position] = body[position];
    }
    (read, refused)
}

#[test]
fn vectors_with_a_changed_byte_are_an_error_or_a_message_that_holds_together() {
    // splitmix64 with a fixed seed, so that a failure comes again.
    let mut state = 0x6f74_746c_6100_0001_u64;
    let mut random = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 56) as u8
    };
    let (mut read, mut refused) = (0, 0);
    for (name, key, direction, version, body) in bodies() {
        let counts =
            with_message!(key, direction, M => change::<M>(&name, version, &body, &mut random), else panic!("{name}"));
        read += counts.0;
        refused += counts.1;
    }
    report(&format!("vectors of messages, a byte changed: {read} are read, {refused} refused"));
    assert!(read > 0 && refused > 0, "both happen");
}

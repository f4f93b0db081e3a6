//! One run over the vectors: frames compared with what is expected of them, and the tally.

use crate::codec::{RereadError, is_ours, reread, theirs};
use bytes::{Bytes, BytesMut};
use ottla_protocol::json::Direction;
use ottla_protocol::{FRAME_LENGTH_BYTES, FrameDecoder, Reader, RequestHeader, ResponseHeader};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What was run, and what went wrong.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) vectors: usize,
    pub(crate) frames: usize,
    pub(crate) cases: usize,
    pub(crate) failures: Vec<String>,
    /// What `kafka-protocol` gave other bytes for, and its error if it gave none.
    pub(crate) mismatches: Vec<(String, String)>,
    /// Frames of messages written by hand here that `kafka-protocol` has read and written as well.
    pub(crate) cross_read: usize,
    /// How often each documented difference from Java came up.
    pub(crate) differences: BTreeMap<&'static str, usize>,
}

impl Run {
    pub(crate) fn check(&mut self, name: &str, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.failures.push(format!("{name}: {}", what()));
        }
    }

    /// A whole frame with its length, of a message of `version` in `direction`; compares header, JSON and bytes with what is expected.
    pub(crate) fn frame(&mut self, name: &str, frame: &Bytes, expected: &ExpectedFrame<'_>) {
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
pub(crate) struct ExpectedFrame<'v> {
    pub(crate) key: i16,
    pub(crate) direction: Direction,
    pub(crate) flexible_header: bool,
    /// The version in the request's header.
    pub(crate) version: i16,
    /// The version of the body: another one for the answer to an unsupported version.
    pub(crate) body_version: i16,
    pub(crate) body: &'v Value,
    pub(crate) json: &'v Value,
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

pub(crate) fn number(value: &Value, key: &str) -> usize {
    value[key].as_u64().and_then(|n| n.try_into().ok()).unwrap_or_else(|| panic!("{key} of {value}"))
}

pub(crate) fn version(value: &Value, key: &str) -> i16 {
    value[key].as_i64().and_then(|n| n.try_into().ok()).unwrap_or_else(|| panic!("{key} of {value}"))
}

pub(crate) fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("{key} of {value}"))
}

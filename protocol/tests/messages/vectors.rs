//! All vectors of this area: frames of each API in a row (`api`), recorded exchanges (`live`), and `malformed` ones.

use crate::codec::{is_ours, key_of};
use crate::common::{self, Area, Entry, entries, report};
use crate::malformed::malformed;
use crate::run::{ExpectedFrame, Run, list, number, version};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::ApiKey as TheirKey;
use ottla_protocol::json::{Direction, frames_json};
use ottla_protocol::message::*;
use ottla_protocol::{ApiKey, DecodeErrorKind, ErrorCode, FRAME_LENGTH_BYTES, Message, Reader, Request, RequestHeader};
use serde_json::{Value, json};

/// Why `kafka-protocol` doesn't give Kafka's bytes back: a text that its error begins with, and the reason. Vectors to which none of these
/// applies fail; a reason that applies to none of the project's own vectors fails too.
const KAFKA_PROTOCOL_MISMATCHES: &[(&str, &str)] =
    &[("invalid utf-8", "it refuses strings that are no UTF-8, where Java puts U+FFFD in place of the wrong bytes")];

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

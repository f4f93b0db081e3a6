//! Vectors that are cut or changed: never a panic, and an error has its place.

use crate::codec::{is_ours, key_of};
use crate::common::{Area, entries, report};
use crate::run::{list, number, version};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::ApiKey as TheirKey;
use ottla_protocol::json::Direction;
use ottla_protocol::message::*;
use ottla_protocol::{
    ApiKey, EncodeError, FRAME_LENGTH_BYTES, Message, Reader, Request, RequestHeader, ResponseHeader,
};
use std::fmt::Debug;

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

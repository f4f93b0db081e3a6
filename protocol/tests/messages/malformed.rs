//! Malformed bodies and frame lengths: the outcome is Java's, or a documented better one.

use crate::codec::{Reread, RereadError, is_ours, key_of, reread};
use crate::common::Entry;
use crate::run::{Run, list, number, version};
use bytes::{Bytes, BytesMut};
use ottla_protocol::json::Direction;
use ottla_protocol::message::*;
use ottla_protocol::{ApiKey, DecodeErrorKind, EncodeError, FrameDecoder, Message};
use serde_json::{Value, json};

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

/// `malformed/NAME` of the two kinds above.
pub(crate) fn malformed(run: &mut Run, entry: &Entry) {
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

//! A record as one line of JSON, with Spark's column names:
//!
//! ```text
//! {"key":null,"value":"v0","topic":"logs","partition":0,"offset":7,"timestamp":1700000000000,"timestampType":0}
//! ```
//!
//! Every column is always there. Bytes are text where they are UTF-8, else base64, and `keyEncoding` or `valueEncoding` says so. `headers`
//! comes only when asked for: an array of `{"key":…,"value":…}` in the producer's order, null if there is none.

use ottla_protocol::record::{Headers, Record, TimestampType};
use std::io::Write;

/// Writes records of one partition as JSON lines. What is the same for all of them is made once.
#[derive(Clone, Debug)]
pub struct JsonRow {
    /// Members of the object, each with a comma before it.
    constant: Vec<u8>,
    include_headers: bool,
}

impl JsonRow {
    /// Rows of `partition` of `topic`; with the column `headers` if `include_headers`.
    pub fn new(topic: &str, partition: i32, include_headers: bool) -> Self {
        let mut constant = b",\"topic\":".to_vec();
        text(&mut constant, topic);
        integer(&mut constant, b",\"partition\":", partition.into());
        Self { constant, include_headers }
    }

    /// Rows of records that are in no topic, a file's: `columns` stand in the place of topic and partition. Always with the column
    /// `headers`.
    pub fn with_columns(columns: &serde_json::Map<String, serde_json::Value>) -> Self {
        let mut constant = Vec::new();
        for (name, value) in columns {
            constant.push(b',');
            text(&mut constant, name);
            // Writing to a vector can't fail.
            let _ = write!(constant, ":{value}");
        }
        Self { constant, include_headers: true }
    }

    /// Appends `record` and a line feed to `out`. Allocates only where `out` has to grow.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>, record: &Record<'_>) {
        self.write_with(out, record, |_| {});
    }

    /// The same with more columns at the end: `more` appends them, each with a comma before it.
    #[inline]
    pub fn write_with(&self, out: &mut Vec<u8>, record: &Record<'_>, more: impl FnOnce(&mut Vec<u8>)) {
        out.extend_from_slice(b"{\"key\":");
        let key_is_text = bytes(out, record.key);
        out.extend_from_slice(b",\"value\":");
        let value_is_text = bytes(out, record.value);
        out.extend_from_slice(&self.constant);
        integer(out, b",\"offset\":", record.offset);
        integer(out, b",\"timestamp\":", record.timestamp);
        integer(out, b",\"timestampType\":", timestamp_type(record.timestamp_type));
        if self.include_headers {
            out.extend_from_slice(b",\"headers\":");
            headers(out, &record.headers);
        }
        encodings(out, key_is_text, value_is_text);
        more(out);
        out.extend_from_slice(b"}\n");
    }
}

/// Spark's number for a timestamp type.
fn timestamp_type(timestamp_type: TimestampType) -> i64 {
    match timestamp_type {
        TimestampType::NoTimestamp => -1,
        TimestampType::CreateTime => 0,
        TimestampType::LogAppendTime => 1,
    }
}

fn headers(out: &mut Vec<u8>, headers: &Headers<'_>) {
    if headers.is_empty() {
        out.extend_from_slice(b"null");
        return;
    }
    for (i, header) in headers.iter().enumerate() {
        out.extend_from_slice(if i == 0 { b"[{\"key\":" } else { b",{\"key\":" });
        let key_is_text = bytes(out, Some(header.key));
        out.extend_from_slice(b",\"value\":");
        let value_is_text = bytes(out, header.value);
        encodings(out, key_is_text, value_is_text);
        out.push(b'}');
    }
    out.push(b']');
}

fn encodings(out: &mut Vec<u8>, key_is_text: bool, value_is_text: bool) {
    if !key_is_text {
        out.extend_from_slice(b",\"keyEncoding\":\"base64\"");
    }
    if !value_is_text {
        out.extend_from_slice(b",\"valueEncoding\":\"base64\"");
    }
}

fn integer(out: &mut Vec<u8>, name: &[u8], number: i64) {
    out.extend_from_slice(name);
    // Writing to a vector can't fail.
    let _ = write!(out, "{number}");
}

/// Appends null, text or base64. Says whether it was null or text.
fn bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) -> bool {
    let Some(bytes) = bytes else {
        out.extend_from_slice(b"null");
        return true;
    };
    match std::str::from_utf8(bytes) {
        Ok(bytes) => {
            text(out, bytes);
            true
        }
        Err(_) => {
            out.push(b'"');
            base64(out, bytes);
            out.push(b'"');
            false
        }
    }
}

/// Appends a JSON string. Runs of plain characters are copied whole.
fn text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(special) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
        let (plain, from_special) = rest.split_at(special);
        out.extend_from_slice(plain);
        let Some((byte, after)) = from_special.split_first() else { break };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                let _ = write!(out, "\\u{control:04x}");
            }
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Appends standard base64 with padding (RFC 4648).
fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    if let Some(place) = out.get_mut(start..) {
        // The room is exactly what the encoding takes.
        let written = STANDARD.encode_slice(bytes, place).unwrap_or(0);
        out.truncate(start + written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_protocol::record::OwnedHeaders;
    use serde_json::{Value, json};

    fn record<'a>(key: Option<&'a [u8]>, value: Option<&'a [u8]>) -> Record<'a> {
        Record {
            offset: 7,
            timestamp: 1_700_000_000_000,
            timestamp_type: TimestampType::CreateTime,
            key,
            value,
            headers: Headers::default(),
        }
    }

    fn row(record: &Record<'_>, include_headers: bool) -> Value {
        let mut out = Vec::new();
        JsonRow::new("lo\"gs", 3, include_headers).write(&mut out, record);
        assert_eq!(out.pop(), Some(b'\n'));
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn every_column_is_there_and_null_is_not_empty() {
        assert_eq!(
            row(&record(None, Some(b"")), false),
            json!({"key": null, "value": "", "topic": "lo\"gs", "partition": 3, "offset": 7, "timestamp": 1_700_000_000_000_i64, "timestampType": 0})
        );
        assert_eq!(row(&record(Some(b""), None), true)["headers"], Value::Null);
    }

    #[test]
    fn other_columns_stand_in_the_place_of_topic_and_partition() {
        let columns = json!({"fi\"le": "a\nb", "count": 3, "codec": null});
        let mut out = Vec::new();
        let rows = JsonRow::with_columns(columns.as_object().unwrap());
        rows.write_with(&mut out, &record(None, None), |out| out.extend_from_slice(b",\"sequence\":5"));
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"key\":null,\"value\":null,\"fi\\\"le\":\"a\\nb\",\"count\":3,\"codec\":null,\"offset\":7,\"timestamp\":1700000000000,\
             \"timestampType\":0,\"headers\":null,\"sequence\":5}\n"
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_base64() {
        let row = row(&record(Some(&[0xff]), Some(&[0, 0x80, 1, 2])), false);
        assert_eq!((&row["key"], &row["keyEncoding"]), (&json!("/w=="), &json!("base64")));
        assert_eq!((&row["value"], &row["valueEncoding"]), (&json!("AIABAg=="), &json!("base64")));
    }

    #[test]
    fn every_character_survives() {
        let all: String = (0..0x250).filter_map(char::from_u32).chain("🚀\u{2028}".chars()).collect();
        assert_eq!(row(&record(None, Some(all.as_bytes())), false)["value"], json!(all));
    }

    #[test]
    fn headers_keep_order_repeats_and_nulls() {
        let mut headers = OwnedHeaders::default();
        headers.push(b"a", Some(b"1"));
        headers.push(b"a", None);
        headers.push(b"b", Some(&[0xfe]));
        let record = Record { headers: headers.as_headers(), ..record(None, None) };
        assert_eq!(
            row(&record, true)["headers"],
            json!([{"key": "a", "value": "1"}, {"key": "a", "value": null}, {"key": "b", "value": "/g==", "valueEncoding": "base64"}])
        );
    }
}

//! Records as tests write them for Java's producer and get them back from Java's consumer.

use std::io;

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// `compression.type` of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Not compressed.
    None,
    /// gzip.
    Gzip,
    /// snappy, framed as Java does (xerial).
    Snappy,
    /// lz4.
    Lz4,
    /// zstd.
    Zstd,
}

impl Codec {
    /// Every codec, none included.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// Kafka's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// A record to produce.
#[derive(Clone, Debug, Default)]
pub struct ProducerRecord {
    /// Null by default.
    pub key: Option<Vec<u8>>,
    /// Null by default.
    pub value: Option<Vec<u8>>,
    /// Milliseconds since 1970; the producer's clock by default.
    pub timestamp_ms: Option<i64>,
    /// The producer's choice by default.
    pub partition: Option<i32>,
    /// In order; a name may come more than once.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl ProducerRecord {
    /// A record with a value and no key.
    #[must_use]
    pub fn value(value: impl AsRef<[u8]>) -> Self {
        Self { value: Some(value.as_ref().to_vec()), ..Self::default() }
    }

    /// A record with key and value.
    #[must_use]
    pub fn new(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        Self { key: Some(key.as_ref().to_vec()), ..Self::value(value) }
    }

    /// With this timestamp in milliseconds since 1970.
    #[must_use]
    pub fn at(mut self, timestamp_ms: i64) -> Self {
        self.timestamp_ms = Some(timestamp_ms);
        self
    }

    /// To this partition.
    #[must_use]
    pub fn to(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// With one more header.
    #[must_use]
    pub fn header(mut self, key: &str, value: Option<&[u8]>) -> Self {
        self.headers.push((key.to_owned(), value.map(<[u8]>::to_vec)));
        self
    }

    fn json(&self) -> Value {
        let headers: Vec<Value> = self.headers.iter().map(|(k, v)| json!([k, v.as_deref().map(hex)])).collect();
        json!({
            "key": self.key.as_deref().map(hex), "value": self.value.as_deref().map(hex), "timestamp": self.timestamp_ms,
            "partition": self.partition, "headers": headers,
        })
    }
}

/// What to produce, and how. Everything is flushed, and by default all records of a partition that fit 1 MB are one
/// batch.
#[derive(Clone, Debug)]
pub struct Produce {
    topic: String,
    config: Map<String, Value>,
    records: Vec<Value>,
    generate: Option<Map<String, Value>>,
    flush_every: u32,
}

impl Produce {
    /// These records.
    #[must_use]
    pub fn records(topic: &str, records: impl IntoIterator<Item = ProducerRecord>) -> Self {
        let mut produce = Self::generated(topic, 0);
        produce.generate = None;
        produce.records = records.into_iter().map(|r| r.json()).collect();
        produce
    }

    /// `count` records made on Java's side: record i has the value `i` and a null key, unless told otherwise below.
    #[must_use]
    pub fn generated(topic: &str, count: u32) -> Self {
        let config = Map::from_iter([
            ("linger.ms".to_owned(), json!(60_000)),
            ("batch.size".to_owned(), json!(1_000_000)),
            ("delivery.timeout.ms".to_owned(), json!(120_000)),
            // With more of them, the first batches of a new partition can come in the wrong order, and never be taken (KAFKA-15591).
            ("max.in.flight.requests.per.connection".to_owned(), json!(1)),
        ]);
        let generate = Map::from_iter([("count".to_owned(), json!(count))]);
        Self { topic: topic.to_owned(), config, records: Vec::new(), generate: Some(generate), flush_every: 0 }
    }

    /// With this codec.
    #[must_use]
    pub fn codec(self, codec: Codec) -> Self {
        self.config("compression.type", codec.name())
    }

    /// With a producer setting, over the harness's own.
    #[must_use]
    pub fn config(mut self, key: &str, value: &str) -> Self {
        self.config.insert(key.to_owned(), json!(value));
        self
    }

    /// Not idempotent: batches without producer id and sequence.
    #[must_use]
    pub fn not_idempotent(self) -> Self {
        self.config("enable.idempotence", "false")
    }

    /// New batches after every so many records.
    #[must_use]
    pub fn flush_every(mut self, records: u32) -> Self {
        self.flush_every = records;
        self
    }

    /// At most so many bytes a batch (before compression).
    #[must_use]
    pub fn batch_bytes(self, bytes: u32) -> Self {
        self.config("batch.size", &bytes.to_string())
    }

    /// Generated: over partitions 0 to `partitions`, in turn.
    #[must_use]
    pub fn partitions(self, partitions: u32) -> Self {
        self.generate("partitions", json!(partitions))
    }

    /// Generated: keys `prefix` + i.
    #[must_use]
    pub fn keys(self, prefix: &str) -> Self {
        self.generate("keyPrefix", json!(prefix))
    }

    /// Generated: values `prefix` + i, filled with words to at least `bytes`.
    #[must_use]
    pub fn values(self, prefix: &str, bytes: u32) -> Self {
        self.generate("valuePrefix", json!(prefix)).generate("valueBytes", json!(bytes))
    }

    /// Generated: timestamps from `first_ms` on, `step_ms` apart.
    #[must_use]
    pub fn timestamps(self, first_ms: i64, step_ms: i64) -> Self {
        self.generate("timestamp", json!(first_ms)).generate("timestampStep", json!(step_ms))
    }

    /// Generated: headers `h0`, `h1`, … with the value `value i`.
    #[must_use]
    pub fn headers(self, count: u32) -> Self {
        self.generate("headers", json!(count))
    }

    fn generate(mut self, key: &str, value: Value) -> Self {
        let generate = self.generate.as_mut().expect("Produce::generated");
        generate.insert(key.to_owned(), value);
        self
    }

    pub(super) fn command(&self, op: &str) -> Value {
        let mut command = json!({"op": op, "topic": self.topic, "config": self.config, "flushEvery": self.flush_every});
        match &self.generate {
            Some(generate) => command["generate"] = json!(generate),
            None => command["records"] = json!(self.records),
        }
        command
    }
}

/// Where a record came to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Produced {
    /// The partition.
    pub partition: i32,
    /// The offset; -1 with `acks=0`.
    pub offset: i64,
    /// Milliseconds since 1970, the broker's with LogAppendTime.
    pub timestamp_ms: i64,
}

impl Produced {
    pub(super) fn list(answer: &Value) -> Vec<Self> {
        let int = |v: &Value| v.as_i64().unwrap_or(-1);
        let rows = answer.as_array().map(Vec::as_slice).unwrap_or_default();
        rows.iter()
            .map(|r| Self { partition: int(&r[0]) as i32, offset: int(&r[1]), timestamp_ms: int(&r[2]) })
            .collect()
    }
}

/// What a record's timestamp means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// None: formats before timestamps.
    None,
    /// The producer's.
    CreateTime,
    /// The broker's.
    LogAppendTime,
}

/// A record as Java's consumer gave it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConsumedRecord {
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// Milliseconds since 1970; -1 for none.
    pub timestamp_ms: i64,
    /// What the timestamp means.
    pub timestamp_type: TimestampType,
    /// The key; `None` for null.
    pub key: Option<Vec<u8>>,
    /// The value; `None` for null.
    pub value: Option<Vec<u8>>,
    /// The headers in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl ConsumedRecord {
    /// The records of a file that `Consumers.java` wrote; its layout is drawn there.
    pub(super) fn parse_file(bytes: &[u8]) -> Result<Vec<Self>> {
        let mut rest = bytes;
        let mut records = Vec::new();
        while !rest.is_empty() {
            records.push(Self::parse(&mut rest).map_err(|e| Error::doing("the Java consumer's file", e))?);
        }
        Ok(records)
    }

    fn parse(from: &mut &[u8]) -> io::Result<Self> {
        let (partition, offset, timestamp_ms) = (i32::from_be_bytes(take(from)?), i64_(from)?, i64_(from)?);
        let timestamp_type = match i8::from_be_bytes(take(from)?) {
            0 => TimestampType::CreateTime,
            1 => TimestampType::LogAppendTime,
            _ => TimestampType::None,
        };
        let (key, value) = (bytes(from)?, bytes(from)?);
        let mut headers = Vec::new();
        for _ in 0..i32::from_be_bytes(take(from)?) {
            headers.push((String::from_utf8_lossy(&bytes(from)?.unwrap_or_default()).into_owned(), bytes(from)?));
        }
        Ok(Self { partition, offset, timestamp_ms, timestamp_type, key, value, headers })
    }

    /// The value as text, invalid UTF-8 replaced; empty for null.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }
}

fn i64_(from: &mut &[u8]) -> io::Result<i64> {
    take(from).map(i64::from_be_bytes)
}

fn take<const N: usize>(from: &mut &[u8]) -> io::Result<[u8; N]> {
    let (head, rest) = from.split_first_chunk::<N>().ok_or(io::ErrorKind::UnexpectedEof)?;
    *from = rest;
    Ok(*head)
}

fn bytes(from: &mut &[u8]) -> io::Result<Option<Vec<u8>>> {
    let Ok(length) = usize::try_from(i32::from_be_bytes(take(from)?)) else { return Ok(None) };
    let (head, rest) = from.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
    *from = rest;
    Ok(Some(head.to_vec()))
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [b >> 4, b & 15]).map(|d| char::from(DIGITS[usize::from(d)])).collect()
}

//! A slow and obvious reader of v2 record areas: copies everything, one byte at a time. What it and the fast one say must be the same.

use ottla_protocol::record::{BatchHeader, Record, TimestampType};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TwinRecord {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl TwinRecord {
    pub(crate) fn of(record: &Record<'_>) -> Self {
        let headers = record.headers.iter();
        Self {
            offset: record.offset,
            timestamp: record.timestamp,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: headers.map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec))).collect(),
        }
    }
}

/// The records up to the first that is damaged, and whether there was one.
pub(crate) fn read(header: &BatchHeader, section: &[u8]) -> (Vec<TwinRecord>, bool) {
    let mut records = Vec::new();
    let mut bytes = Bytes { bytes: section.to_vec(), at: 0 };
    // A record has seven bytes at least: a number that can't be right is seen before the first record.
    let possible = i64::from(header.records_count) * 7 <= section.len() as i64;
    if header.records_count < 0 || !possible || (header.records_count == 0 && !section.is_empty()) {
        return (records, true);
    }
    for i in 1..=header.records_count {
        let Some(record) = one(header, &mut bytes) else { return (records, true) };
        if i == header.records_count && bytes.at < section.len() {
            return (records, true);
        }
        records.push(record);
    }
    (records, false)
}

fn one(header: &BatchHeader, bytes: &mut Bytes) -> Option<TwinRecord> {
    let length = i32::try_from(bytes.varint(5)?).ok()?;
    let mut body = Bytes { bytes: bytes.take(length)?, at: 0 };
    body.take(1)?;
    let timestamp_delta = body.varint(10)?;
    let offset_delta = body.varint(5)?;
    let key = body.nullable()?;
    let value = body.nullable()?;
    let count = body.varint(5)?;
    if count < 0 {
        return None;
    }
    let mut headers = Vec::new();
    for _ in 0..count {
        let key = body.nullable()??;
        headers.push((key, body.nullable()?));
    }
    if body.at < body.bytes.len() {
        return None;
    }
    let timestamp = match header.timestamp_type() {
        TimestampType::LogAppendTime => header.max_timestamp,
        _ => header.base_timestamp.wrapping_add(timestamp_delta),
    };
    Some(TwinRecord { offset: header.base_offset.checked_add(offset_delta)?, timestamp, key, value, headers })
}

struct Bytes {
    bytes: Vec<u8>,
    at: usize,
}

impl Bytes {
    fn take(&mut self, length: i32) -> Option<Vec<u8>> {
        let length = usize::try_from(length).ok()?;
        if length > self.bytes.len() - self.at {
            return None;
        }
        self.at += length;
        Some(self.bytes[self.at - length..self.at].to_vec())
    }

    /// Zigzag, 7 bits a byte, at most `max` bytes; 5 bytes make 32 bits and what is above falls off.
    fn varint(&mut self, max: usize) -> Option<i64> {
        let mut raw = 0u128;
        for i in 0..max {
            let byte = self.take(1)?[0];
            raw |= u128::from(byte % 128) << (7 * i);
            if byte < 128 {
                let raw = if max == 5 { raw % (1 << 32) } else { raw % (1 << 64) };
                let half = i64::try_from(raw / 2).expect("63 bits");
                return Some(if raw % 2 == 0 { half } else { -half - 1 });
            }
        }
        None
    }

    fn nullable(&mut self) -> Option<Option<Vec<u8>>> {
        let length = i32::try_from(self.varint(5)?).ok()?;
        if length < 0 { Some(None) } else { self.take(length).map(Some) }
    }
}

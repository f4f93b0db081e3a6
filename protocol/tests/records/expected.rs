//! The vectors' JSON: comparing batches and records with it.

use ottla_protocol::compression::Decompressor;
use ottla_protocol::record::{BatchHeader, ControlRecord, Record, RecordBatch, TimestampType};
use serde_json::{Value, json};

/// Compares every field of a batch that `expected` has, except its records.
pub(crate) fn batch_differences(batch: &RecordBatch<'_>, expected: &Value) -> Vec<String> {
    let actual = batch_json(batch);
    let expected = expected.as_object().expect("a batch");
    expected
        .iter()
        .filter(|(key, _)| !matches!(key.as_str(), "records" | "invalid_why"))
        .filter(|(key, value)| actual.get(key.as_str()) != Some(value))
        .map(|(key, value)| format!("{key}: expected {value}, read {}", actual.get(key).unwrap_or(&Value::Null)))
        .collect()
}

fn batch_json(batch: &RecordBatch<'_>) -> Value {
    let header = batch.header();
    json!({
        "position": batch.position(),
        "size": batch.bytes().len(),
        "magic": header.magic,
        "base_offset": header.base_offset,
        "wrapper_offset": header.base_offset,
        "attributes": header.attributes,
        "last_offset_delta": header.last_offset_delta,
        "last_offset": header.last_offset(),
        "next_offset": header.next_offset(),
        "crc": header.crc,
        "crc_valid": batch.check_crc().is_ok(),
        "compression": header.compression().map(|compression| compression.name()).unwrap_or("unknown"),
        "timestamp_type": timestamp_type(header.timestamp_type()),
        "max_timestamp": header.max_timestamp,
        "partition_leader_epoch": header.partition_leader_epoch,
        "base_timestamp": header.base_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence(),
        "is_transactional": header.is_transactional(),
        "is_control": header.is_control(),
        "delete_horizon_ms": header.delete_horizon_ms(),
        "records_count": header.records_count,
    })
}

pub(crate) fn timestamp_type(timestamp_type: TimestampType) -> &'static str {
    match timestamp_type {
        TimestampType::NoTimestamp => "NoTimestampType",
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    }
}

/// A record in the vectors' form.
pub(crate) fn record_json(header: &BatchHeader, record: &Record<'_>) -> Value {
    let mut json = json!({
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": bytes_json(record.key),
        "value": bytes_json(record.value),
    });
    let sequence = header.sequence_at(record.offset);
    if sequence != -1 {
        json["sequence"] = sequence.into();
    }
    if !record.headers.is_empty() {
        let headers = record.headers.iter();
        json["headers"] = headers
            .map(|header| json!([String::from_utf8_lossy(header.key), bytes_json(header.value)]))
            .collect::<Vec<_>>()
            .into();
    }
    if header.is_control()
        && let Ok(control) = ControlRecord::parse(record)
    {
        json["control_type"] = control.type_name().into();
        if let ControlRecord::Abort { coordinator_epoch } | ControlRecord::Commit { coordinator_epoch } = control {
            json["coordinator_epoch"] = coordinator_epoch.into();
        }
    }
    json
}

/// Lower-case hex; over 400 bytes the length, CRC-32C and first 16 bytes.
fn bytes_json(bytes: Option<&[u8]>) -> Value {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match bytes {
        None => Value::Null,
        Some(bytes) if bytes.len() > 400 => {
            json!({ "len": bytes.len(), "crc32c": crc32c::crc32c(bytes), "first16": hex(&bytes[..16]) })
        }
        Some(bytes) => hex(bytes).into(),
    }
}

/// The batch's records in the vectors' form, and the error that ended them.
pub(crate) fn records_json(batch: &RecordBatch<'_>, decompressor: &mut Decompressor) -> (Vec<Value>, Option<String>) {
    let mut read = Vec::new();
    let records = match batch.records(decompressor) {
        Ok(records) => records.without_crc_check(),
        Err(error) => return (read, Some(format!("{error}: {}", error.source))),
    };
    for record in records {
        match record {
            Ok(record) => read.push(record_json(batch.header(), &record)),
            Err(error) => return (read, Some(error.to_string())),
        }
    }
    (read, None)
}

/// CRC-32C over all records as the `*-many` vectors define it, continued from `crc`.
pub(crate) fn records_crc32c(crc: u32, record: &Record<'_>) -> u32 {
    let mut bytes = Vec::new();
    bytes.extend(record.offset.to_be_bytes());
    bytes.extend(record.timestamp.to_be_bytes());
    for field in [record.key, record.value] {
        match field {
            None => bytes.extend((-1i32).to_be_bytes()),
            Some(field) => {
                bytes.extend(i32::try_from(field.len()).expect("small").to_be_bytes());
                bytes.extend(field);
            }
        }
    }
    crc32c::crc32c_append(crc, &bytes)
}

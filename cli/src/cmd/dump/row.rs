//! What is printed of a batch and of a record. Numbers are Kafka's own: -1 is none.

use ottla_protocol::record::{BatchHeader, ControlRecord, Record, RecordBatch, TimestampType};
use serde_json::{Map, Value, json};
use std::io::Write;

/// What a batch says of itself, apart from the meaning of its timestamps. `inner` is the first offset and the number of records that were
/// found in a compressed message of magic 0 or 1, whose header knows neither.
pub(super) fn batch_columns(
    file: &str,
    batch: &RecordBatch<'_>,
    crc_valid: bool,
    inner: Option<(i64, usize)>,
) -> Map<String, Value> {
    let header = batch.header();
    let count = match inner {
        Some((_, count)) => json!(count),
        None if header.magic < 2 && header.records_count < 0 => Value::Null,
        None => json!(header.records_count),
    };
    let columns = json!({
        "file": file,
        "baseOffset": inner.map_or(header.base_offset, |(first, _)| first),
        "lastOffset": header.last_offset(),
        "count": count,
        "position": batch.position(),
        "size": header.size(),
        "magic": header.magic,
        "crc": header.crc,
        "crcValid": crc_valid,
        "codec": header.compression().ok().map(|compression| compression.name()),
        "baseTimestamp": header.base_timestamp,
        "maxTimestamp": header.max_timestamp,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence(),
        "isTransactional": header.is_transactional(),
        "isControl": header.is_control(),
        "deleteHorizonMs": header.delete_horizon_ms(),
        "partitionLeaderEpoch": header.partition_leader_epoch,
    });
    match columns {
        Value::Object(columns) => columns,
        _ => Map::new(),
    }
}

/// A batch's own line.
pub(super) fn batch_line(out: &mut Vec<u8>, mut columns: Map<String, Value>, header: &BatchHeader) {
    let timestamp_type = match header.timestamp_type() {
        TimestampType::NoTimestamp => -1,
        TimestampType::CreateTime => 0,
        TimestampType::LogAppendTime => 1,
    };
    columns.insert("timestampType".to_owned(), timestamp_type.into());
    // Writing to a vector can't fail.
    let _ = writeln!(out, "{}", Value::Object(columns));
}

/// What a record's line has besides Spark's columns and its batch's: `control` is null for data.
pub(super) fn record_columns(
    out: &mut Vec<u8>,
    header: &BatchHeader,
    record: &Record<'_>,
    control: Option<ControlRecord>,
) {
    let headers_bytes: usize =
        record.headers.iter().map(|header| header.key.len() + header.value.map_or(0, <[u8]>::len)).sum();
    let _ = write!(out, ",\"sequence\":{}", header.sequence_at(record.offset));
    number(out, "keySize", record.key.map(<[u8]>::len));
    number(out, "valueSize", record.value.map(<[u8]>::len));
    number(out, "headersSize", Some(headers_bytes));
    match control {
        Some(control) => {
            let _ = write!(out, ",\"controlType\":\"{}\"", control.type_name());
        }
        None => out.extend_from_slice(b",\"controlType\":null"),
    }
    let coordinator_epoch = match control {
        Some(ControlRecord::Abort { coordinator_epoch } | ControlRecord::Commit { coordinator_epoch }) => {
            coordinator_epoch
        }
        _ => None,
    };
    number(out, "coordinatorEpoch", coordinator_epoch);
}

fn number(out: &mut Vec<u8>, name: &str, number: Option<impl std::fmt::Display>) {
    let _ = match number {
        Some(number) => write!(out, ",\"{name}\":{number}"),
        None => write!(out, ",\"{name}\":null"),
    };
}

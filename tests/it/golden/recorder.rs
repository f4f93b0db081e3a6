//! A sink that keeps what the answers show: of each task the first and last offset and the number of its rows, and the rows themselves
//! where a step asks for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ottla_stream::{OffsetRange, Record, RecordWriter, Sink, SinkError, TimestampType};
use serde_json::{Map, Value, json};

use super::scenario::Read;

#[derive(Clone, Debug)]
struct Piece {
    topic: String,
    partition: i32,
    first: i64,
    last: i64,
    rows: i64,
    dump: Vec<Value>,
}

/// Records one batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder {
    tasks: bool,
    dump_rows: bool,
    pieces: Arc<Mutex<Vec<Piece>>>,
}

impl Recorder {
    pub(super) fn new(read: &Read) -> Self {
        Self { tasks: read.tasks, dump_rows: read.dump_rows, pieces: Arc::default() }
    }

    /// What was recorded: `readTasks`, `rows` and, where asked for, `dump`.
    pub(super) fn answer(&self, read_tasks: usize) -> Value {
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let row = |piece: &Piece| {
            json!({"topic": piece.topic, "partition": piece.partition, "firstOffset": piece.first, "lastOffset": piece.last,
                "rows": piece.rows})
        };
        let rows: Vec<Value> = if self.tasks {
            pieces.iter().map(row).collect()
        } else {
            let mut partitions: BTreeMap<(&str, i32), (Piece, i64)> = BTreeMap::new();
            for piece in pieces.iter() {
                let (of, tasks) = partitions
                    .entry((&piece.topic, piece.partition))
                    .or_insert_with(|| (Piece { rows: 0, ..piece.clone() }, 0));
                (of.first, of.last) = (of.first.min(piece.first), of.last.max(piece.last));
                of.rows += piece.rows;
                *tasks += 1;
            }
            let with_tasks = |(piece, tasks): &(Piece, i64)| {
                let mut row = row(piece);
                row["tasks"] = json!(tasks);
                row
            };
            partitions.values().map(with_tasks).collect()
        };
        let mut answer = json!({"readTasks": read_tasks, "rows": rows});
        if self.dump_rows {
            answer["dump"] = pieces.iter().flat_map(|piece| piece.dump.clone()).collect();
        }
        answer
    }
}

impl Sink for Recorder {
    type Writer = PieceWriter;

    fn writer(&self, range: &OffsetRange, include_headers: bool) -> Result<PieceWriter, SinkError> {
        let piece = Piece {
            topic: range.topic.clone(),
            partition: range.partition,
            first: -1,
            last: -1,
            rows: 0,
            dump: Vec::new(),
        };
        Ok(PieceWriter { recorder: self.clone(), include_headers, piece })
    }

    async fn finish_batch(&self, _batch_id: i64) -> Result<(), SinkError> {
        Ok(())
    }
}

pub(super) struct PieceWriter {
    recorder: Recorder,
    include_headers: bool,
    piece: Piece,
}

impl RecordWriter for PieceWriter {
    fn write(&mut self, record: &Record<'_>) {
        if self.piece.rows == 0 {
            self.piece.first = record.offset;
        }
        self.piece.last = record.offset;
        self.piece.rows += 1;
        if self.recorder.dump_rows {
            self.piece.dump.push(dump(&self.piece, record, self.include_headers));
        }
    }

    async fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn finish(self) -> Result<(), SinkError> {
        // A task without rows is not listed.
        if self.piece.rows > 0 {
            self.recorder.pieces.lock().unwrap_or_else(PoisonError::into_inner).push(self.piece);
        }
        Ok(())
    }
}

/// A row as Spark writes it as JSON: bytes as base64, and nothing for null.
fn dump(piece: &Piece, record: &Record<'_>, headers: bool) -> Value {
    let mut row = Map::new();
    let put = |row: &mut Map<String, Value>, name: &str, bytes: Option<&[u8]>| {
        if let Some(bytes) = bytes {
            row.insert(name.to_owned(), json!(STANDARD.encode(bytes)));
        }
    };
    put(&mut row, "key", record.key);
    put(&mut row, "value", record.value);
    row.insert("topic".to_owned(), json!(piece.topic));
    row.insert("partition".to_owned(), json!(piece.partition));
    row.insert("offset".to_owned(), json!(record.offset));
    row.insert("timestamp".to_owned(), json!(iso_8601(record.timestamp)));
    let timestamp_type = match record.timestamp_type {
        TimestampType::NoTimestamp => -1,
        TimestampType::CreateTime => 0,
        TimestampType::LogAppendTime => 1,
    };
    row.insert("timestampType".to_owned(), json!(timestamp_type));
    if headers && !record.headers.is_empty() {
        let of = record.headers.iter().map(|header| {
            let mut of = Map::from_iter([("key".to_owned(), json!(String::from_utf8_lossy(header.key)))]);
            put(&mut of, "value", header.value);
            Value::from(of)
        });
        row.insert("headers".to_owned(), of.collect());
    }
    row.into()
}

/// `2023-11-14T22:13:20.000Z`, by the calendar of days since 1970 in which years begin with March.
fn iso_8601(timestamp_ms: i64) -> String {
    let (days, ms) = (timestamp_ms.div_euclid(86_400_000), timestamp_ms.rem_euclid(86_400_000));
    let since_0000 = days + 719_468;
    let (era, day) = (since_0000.div_euclid(146_097), since_0000.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (year + era * 400 + i64::from(month >= 10), if month < 10 { month + 3 } else { month - 9 });
    let (h, m, s, ms) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000);
    format!("{year:04}-{month:02}-{day_of_month:02}T{h:02}:{m:02}:{s:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_times_as_spark_writes_them() {
        assert_eq!(iso_8601(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso_8601(1_700_000_000_500), "2023-11-14T22:13:20.500Z");
        assert_eq!(iso_8601(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(iso_8601(-1), "1969-12-31T23:59:59.999Z");
    }
}

//! Record batches for the tests that fill a broker themselves.

use bytes::Bytes;
use ottla_protocol::{
    compression::Compressor,
    record::{Headers, Record, RecordBatchBuilder, RecordBatchOptions, TimestampType},
};

/// A batch of these values at `base_offset` and on; a broker that it is appended to gives it offsets of its own.
pub(crate) fn batch(base_offset: i64, values: impl IntoIterator<Item = String>) -> Bytes {
    let mut builder = RecordBatchBuilder::new(RecordBatchOptions::new(base_offset));
    for (offset, value) in (base_offset..).zip(values) {
        let record = Record {
            offset,
            timestamp: 1_000,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some(value.as_bytes()),
            headers: Headers::default(),
        };
        builder.append(&record).unwrap();
    }
    builder.build(&mut Compressor::new()).unwrap().freeze()
}

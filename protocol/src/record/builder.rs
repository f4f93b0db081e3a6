//! Writing v2 batches, with the layout that the module above draws.

use super::batch_header::{BatchHeader, HEADER_BYTES_V2};
use super::{ControlRecord, Record, TimestampType};
use crate::EncodeError;
use crate::compression::{Compression, Compressor};
use crate::varint::{write_varint, write_varlong};
use bytes::{BufMut, BytesMut};

/// Where what the CRC covers begins.
const CRC_DATA: usize = 21;

/// What a batch says of itself, apart from its records. All but the base offset has Kafka's value for "none" unless set.
#[derive(Clone, Copy, Debug)]
pub struct RecordBatchOptions {
    base_offset: i64,
    last_offset: Option<i64>,
    partition_leader_epoch: i32,
    compression: Compression,
    log_append_time_ms: Option<i64>,
    delete_horizon_ms: Option<i64>,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    transactional: bool,
    control: bool,
}

impl RecordBatchOptions {
    /// A plain batch whose first offset is `base_offset`: not compressed, of no producer, with the records' own timestamps.
    pub fn new(base_offset: i64) -> Self {
        Self {
            base_offset,
            last_offset: None,
            partition_leader_epoch: -1,
            compression: Compression::None,
            log_append_time_ms: None,
            delete_horizon_ms: None,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            transactional: false,
            control: false,
        }
    }

    /// The batch's last offset, inclusive, if it isn't the last record's: as after compaction.
    #[must_use]
    pub fn last_offset(mut self, last_offset: i64) -> Self {
        self.last_offset = Some(last_offset);
        self
    }

    /// The epoch of the partition's leader.
    #[must_use]
    pub fn partition_leader_epoch(mut self, partition_leader_epoch: i32) -> Self {
        self.partition_leader_epoch = partition_leader_epoch;
        self
    }

    /// The codec of the record area. A batch without records is never compressed.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// LogAppendTime (KIP-32): every record has this time, in ms.
    #[must_use]
    pub fn log_append_time_ms(mut self, timestamp: i64) -> Self {
        self.log_append_time_ms = Some(timestamp);
        self
    }

    /// When tombstones and markers of the batch may go (KIP-534), in ms.
    #[must_use]
    pub fn delete_horizon_ms(mut self, delete_horizon: i64) -> Self {
        self.delete_horizon_ms = Some(delete_horizon);
        self
    }

    /// The idempotent producer, its epoch, and the sequence number of the record at the base offset.
    #[must_use]
    pub fn producer(mut self, producer_id: i64, producer_epoch: i16, base_sequence: i32) -> Self {
        (self.producer_id, self.producer_epoch, self.base_sequence) = (producer_id, producer_epoch, base_sequence);
        self
    }

    /// Makes the batch part of a transaction.
    #[must_use]
    pub fn transactional(mut self) -> Self {
        self.transactional = true;
        self
    }

    fn control(mut self) -> Self {
        self.control = true;
        self
    }

    fn attributes(&self, compression: Compression) -> i16 {
        let flag = |set: bool, bit: i16| if set { 1 << bit } else { 0 };
        compression.id()
            | flag(self.log_append_time_ms.is_some(), 3)
            | flag(self.transactional, 4)
            | flag(self.control, 5)
            | flag(self.delete_horizon_ms.is_some(), 6)
    }
}

/// Builds a v2 batch, a record at a time.
#[derive(Debug)]
pub struct RecordBatchBuilder {
    options: RecordBatchOptions,
    section: BytesMut,
    body: BytesMut,
    count: i32,
    base_timestamp: Option<i64>,
    max_timestamp: i64,
    last_offset: i64,
}

impl RecordBatchBuilder {
    /// A batch without records.
    pub fn new(options: RecordBatchOptions) -> Self {
        Self {
            section: BytesMut::new(),
            body: BytesMut::new(),
            count: 0,
            base_timestamp: options.delete_horizon_ms,
            max_timestamp: -1,
            last_offset: options.base_offset,
            options,
        }
    }

    /// How many bytes the records take so far, before compression.
    pub fn section_bytes(&self) -> usize {
        self.section.len()
    }

    /// How many records the batch has so far.
    pub fn records_count(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0)
    }

    /// Appends a record. Its timestamp type is the batch's, whatever the record says. Offsets may leave gaps.
    ///
    /// # Errors
    /// The offset is more than 31 bits away from the base offset, or the record or the batch is larger than 31 bits can say.
    pub fn append(&mut self, record: &Record<'_>) -> Result<(), EncodeError> {
        let offset_delta = delta("record.offset_delta", record.offset, self.options.base_offset)?;
        let base_timestamp = *self.base_timestamp.get_or_insert(record.timestamp);
        let body = &mut self.body;
        body.clear();
        body.put_i8(0);
        write_varlong(body, record.timestamp.wrapping_sub(base_timestamp));
        write_varint(body, offset_delta);
        put_nullable(body, "record.key", record.key)?;
        put_nullable(body, "record.value", record.value)?;
        write_varint(body, length("record.headers", record.headers.len())?);
        for header in record.headers {
            write_varint(body, length("record.header.key", header.key.len())?);
            body.put_slice(header.key);
            put_nullable(body, "record.header.value", header.value)?;
        }
        let body_length = length("record", body.len())?;
        // A batch is at most 2^31 - 1 bytes long, and so is its section.
        length("batch.records", self.section.len() + body.len() + 5 + HEADER_BYTES_V2)?;
        write_varint(&mut self.section, body_length);
        self.section.put_slice(body);
        self.count += 1;
        self.max_timestamp = self.max_timestamp.max(record.timestamp);
        self.last_offset = self.last_offset.max(record.offset);
        Ok(())
    }

    /// The finished batch.
    ///
    /// # Errors
    /// The codec failed, the last offset is out of reach of the base offset, or the batch is larger than 31 bits can say.
    pub fn build(&self, compressor: &mut Compressor) -> Result<BytesMut, EncodeError> {
        let options = &self.options;
        let last_offset = options.last_offset.unwrap_or(self.last_offset);
        let compression = if self.count == 0 { Compression::None } else { options.compression };
        let append_time = options.log_append_time_ms;
        let mut out = BytesMut::with_capacity(HEADER_BYTES_V2 + self.section.len() / 2);
        out.put_bytes(0, HEADER_BYTES_V2);
        compressor.compress(compression, &self.section, &mut out)?;
        let header = BatchHeader {
            base_offset: options.base_offset,
            batch_length: length("batch.batch_length", out.len())? - 12,
            partition_leader_epoch: options.partition_leader_epoch,
            magic: 2,
            crc: 0,
            attributes: options.attributes(compression),
            last_offset_delta: delta("batch.last_offset_delta", last_offset, options.base_offset)?,
            base_timestamp: self.base_timestamp.unwrap_or(-1),
            max_timestamp: append_time.unwrap_or(self.max_timestamp),
            producer_id: options.producer_id,
            producer_epoch: options.producer_epoch,
            base_sequence: options.base_sequence,
            records_count: self.count,
        };
        header.write(&mut out);
        Ok(out)
    }

    /// A control batch with one transaction marker (KIP-98) at the options' base offset, as a transaction coordinator writes it.
    ///
    /// # Errors
    /// `marker` is neither a commit nor an abort.
    pub fn transaction_marker(
        options: RecordBatchOptions,
        marker: ControlRecord,
        timestamp: i64,
    ) -> Result<BytesMut, EncodeError> {
        let (control_type, epoch) = match marker {
            ControlRecord::Abort { coordinator_epoch } => (0i16, coordinator_epoch),
            ControlRecord::Commit { coordinator_epoch } => (1i16, coordinator_epoch),
            _ => return Err(EncodeError::NotInVersion { field: "control_record.type", version: 0 }),
        };
        let [high, low] = control_type.to_be_bytes();
        let [e0, e1, e2, e3] = epoch.unwrap_or(0).to_be_bytes();
        let mut batch = Self::new(options.transactional().control());
        batch.append(&Record {
            offset: options.base_offset,
            timestamp,
            timestamp_type: TimestampType::CreateTime,
            key: Some(&[0, 0, high, low]),
            value: Some(&[0, 0, e0, e1, e2, e3]),
            headers: super::Headers::default(),
        })?;
        batch.build(&mut Compressor::new())
    }
}

impl BatchHeader {
    /// Writes this header over the first bytes of `batch`, with the CRC of what follows.
    fn write(&self, batch: &mut BytesMut) {
        let mut fields = BytesMut::with_capacity(HEADER_BYTES_V2);
        fields.put_i64(self.base_offset);
        fields.put_i32(self.batch_length);
        fields.put_i32(self.partition_leader_epoch);
        fields.put_i8(self.magic);
        fields.put_u32(0);
        fields.put_i16(self.attributes);
        fields.put_i32(self.last_offset_delta);
        fields.put_i64(self.base_timestamp);
        fields.put_i64(self.max_timestamp);
        fields.put_i64(self.producer_id);
        fields.put_i16(self.producer_epoch);
        fields.put_i32(self.base_sequence);
        fields.put_i32(self.records_count);
        if let Some(header) = batch.first_chunk_mut::<HEADER_BYTES_V2>() {
            header.copy_from_slice(&fields);
        }
        let crc = crc32c::crc32c(batch.get(CRC_DATA..).unwrap_or_default());
        if let Some(stored) = batch.get_mut(CRC_DATA - 4..CRC_DATA) {
            stored.copy_from_slice(&crc.to_be_bytes());
        }
    }
}

fn put_nullable(out: &mut BytesMut, field: &'static str, bytes: Option<&[u8]>) -> Result<(), EncodeError> {
    match bytes {
        Some(bytes) => {
            write_varint(out, length(field, bytes.len())?);
            out.put_slice(bytes);
        }
        None => write_varint(out, -1),
    }
    Ok(())
}

fn length(field: &'static str, length: usize) -> Result<i32, EncodeError> {
    i32::try_from(length).map_err(|_| EncodeError::TooLong { field, length, max: i32::MAX as usize })
}

fn delta(field: &'static str, offset: i64, base: i64) -> Result<i32, EncodeError> {
    let delta = offset.checked_sub(base).and_then(|delta| i32::try_from(delta).ok());
    delta.ok_or(EncodeError::TooLong { field, length: usize::MAX, max: i32::MAX as usize })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::Decompressor;
    use crate::record::{Headers, OwnedHeaders, RecordBatches};

    #[test]
    fn every_codec_gives_back_what_was_appended() {
        let mut headers = OwnedHeaders::default();
        headers.push(b"h", Some(b""));
        headers.push(b"h", None);
        let value = vec![b'v'; 100_000];
        let mut decompressor = Decompressor::new();
        for compression in
            [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd]
        {
            let mut builder = RecordBatchBuilder::new(RecordBatchOptions::new(7).compression(compression));
            for i in 0..5 {
                let record = Record {
                    offset: 7 + 2 * i,
                    timestamp: 1_700_000_000_000 - i,
                    timestamp_type: TimestampType::CreateTime,
                    key: (i % 2 == 0).then_some(b"key"),
                    value: (i != 3).then_some(&value),
                    headers: if i == 4 { headers.as_headers() } else { Headers::default() },
                };
                builder.append(&record).unwrap();
            }
            let bytes = builder.build(&mut Compressor::new()).unwrap();
            let mut batches = RecordBatches::new(&bytes);
            let batch = batches.next().unwrap().unwrap();
            batch.check_crc().unwrap();
            assert_eq!(batch.header().compression(), Ok(compression));
            assert_eq!((batch.header().next_offset(), batches.trailing_bytes()), (16, 0));
            let records: Vec<_> = batch.records(&mut decompressor).unwrap().map(Result::unwrap).collect();
            assert_eq!(records.len(), 5, "{compression}");
            for (i, record) in records.iter().enumerate() {
                assert_eq!(record.offset, 7 + 2 * i as i64);
                assert_eq!(record.timestamp, 1_700_000_000_000 - i as i64);
                assert_eq!(record.key, (i % 2 == 0).then_some(&b"key"[..]));
                assert_eq!(record.value, (i != 3).then_some(&value[..]));
            }
            let read: Vec<_> = records[4].headers.iter().map(|header| (header.key, header.value)).collect();
            assert_eq!(read, [(&b"h"[..], Some(&b""[..])), (b"h", None)]);
        }
    }

    #[test]
    fn a_marker_is_a_control_batch_of_its_producer() {
        let marker = ControlRecord::Abort { coordinator_epoch: Some(3) };
        let options = RecordBatchOptions::new(9).producer(5, 1, -1);
        let bytes = RecordBatchBuilder::transaction_marker(options, marker, 17).unwrap();
        let batch = RecordBatches::new(&bytes).next().unwrap().unwrap();
        assert!(batch.header().is_control() && batch.header().is_transactional());
        assert_eq!((batch.header().producer_id, batch.header().producer_epoch), (5, 1));
        let mut decompressor = Decompressor::new();
        let record = batch.records(&mut decompressor).unwrap().next().unwrap().unwrap();
        assert_eq!(ControlRecord::parse(&record), Ok(marker));
    }
}

//! The header of a record batch v2: read, checked, and the few fields a broker writes.
//!
//! ```text
//!  0 base_offset i64 | 8 batch_length i32 | 12 partition_leader_epoch i32 | 16 magic i8 = 2 | 17 crc u32
//! 21 attributes i16 | 23 last_offset_delta i32 | 27 base_timestamp i64 | 35 max_timestamp i64
//! 43 producer_id i64 | 51 producer_epoch i16 | 53 base_sequence i32 | 57 records_count i32 | 61 records…
//! ```
//!
//! `batch_length` counts what follows it; the CRC-32C covers byte 21 to the end, so that a broker may write `base_offset` and
//! `partition_leader_epoch` without touching it. Everything else stays as produced. Records are the matter of [`crate::records`].

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::ResponseError;

/// Bytes of a batch without records.
pub(crate) const HEADER_BYTES: usize = 61;
/// Bytes before what `batch_length` counts.
const LENGTH_PREFIX_BYTES: usize = 12;
const ATTRIBUTES_AT: usize = 21;

const TIMESTAMP_TYPE_BIT: i16 = 1 << 3;
const TRANSACTIONAL_BIT: i16 = 1 << 4;
const CONTROL_BIT: i16 = 1 << 5;

/// The fields of a batch header that the broker looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    pub(crate) base_offset: i64,
    pub(crate) attributes: i16,
    pub(crate) last_offset_delta: i32,
    pub(crate) base_timestamp: i64,
    pub(crate) max_timestamp: i64,
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    pub(crate) records_count: i32,
}

impl BatchHeader {
    /// Bits 0-2: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
    pub(crate) fn codec(&self) -> i16 {
        self.attributes & 7
    }

    pub(crate) fn is_log_append_time(&self) -> bool {
        self.attributes & TIMESTAMP_TYPE_BIT != 0
    }

    pub(crate) fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }

    pub(crate) fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    fn read(batch: &[u8]) -> Option<Self> {
        Some(Self {
            base_offset: i64::from_be_bytes(field(batch, 0)?),
            attributes: i16::from_be_bytes(field(batch, ATTRIBUTES_AT)?),
            last_offset_delta: i32::from_be_bytes(field(batch, 23)?),
            base_timestamp: i64::from_be_bytes(field(batch, 27)?),
            max_timestamp: i64::from_be_bytes(field(batch, 35)?),
            producer_id: i64::from_be_bytes(field(batch, 43)?),
            producer_epoch: i16::from_be_bytes(field(batch, 51)?),
            records_count: i32::from_be_bytes(field(batch, 57)?),
        })
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Splits a partition's bytes into whole batches v2 with their CRC checked.
///
/// The error is what a broker answers: CORRUPT_MESSAGE for damaged or cut bytes, INVALID_RECORD for older formats and for no batch.
pub(crate) fn split(mut records: Bytes) -> Result<Vec<(BatchHeader, Bytes)>, ResponseError> {
    let mut batches = Vec::new();
    while !records.is_empty() {
        let length = i32::from_be_bytes(field(&records, 8).ok_or(ResponseError::CorruptMessage)?);
        let size = usize::try_from(length)
            .ok()
            .and_then(|length| length.checked_add(LENGTH_PREFIX_BYTES))
            .filter(|&size| size <= records.len())
            .ok_or(ResponseError::CorruptMessage)?;
        match records.get(16).copied() {
            Some(2) => {}
            Some(0 | 1) => return Err(ResponseError::InvalidRecord),
            _ => return Err(ResponseError::CorruptMessage),
        }
        let batch = records.split_to(size);
        let header = BatchHeader::read(&batch).ok_or(ResponseError::CorruptMessage)?;
        let crc = u32::from_be_bytes(field(&batch, 17).ok_or(ResponseError::CorruptMessage)?);
        let covered = batch.get(ATTRIBUTES_AT..).ok_or(ResponseError::CorruptMessage)?;
        if crc != crc32c::crc32c(covered) || header.last_offset_delta < 0 {
            return Err(ResponseError::CorruptMessage);
        }
        batches.push((header, batch));
    }
    if batches.is_empty() { Err(ResponseError::InvalidRecord) } else { Ok(batches) }
}

/// What the broker writes into a batch when it appends it.
pub(crate) struct Assigned {
    pub(crate) base_offset: i64,
    pub(crate) partition_leader_epoch: i32,
    /// Milliseconds since 1970 for a topic with `message.timestamp.type=LogAppendTime`.
    pub(crate) log_append_time_ms: Option<i64>,
}

/// The batch with the assigned fields; its other bytes are those produced.
pub(crate) fn assign(batch: &[u8], assigned: &Assigned) -> Option<Bytes> {
    let mut bytes = BytesMut::from(batch);
    put(&mut bytes, 0, &assigned.base_offset.to_be_bytes())?;
    put(&mut bytes, 12, &assigned.partition_leader_epoch.to_be_bytes())?;
    if let Some(timestamp) = assigned.log_append_time_ms {
        let attributes = i16::from_be_bytes(field(&bytes, ATTRIBUTES_AT)?) | TIMESTAMP_TYPE_BIT;
        put(&mut bytes, ATTRIBUTES_AT, &attributes.to_be_bytes())?;
        put(&mut bytes, 35, &timestamp.to_be_bytes())?;
        let crc = crc32c::crc32c(bytes.get(ATTRIBUTES_AT..)?);
        put(&mut bytes, 17, &crc.to_be_bytes())?;
    }
    Some(bytes.freeze())
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) -> Option<()> {
    bytes.get_mut(at..at.checked_add(value.len())?)?.copy_from_slice(value);
    Some(())
}

/// A control batch with one marker: the end of a transaction.
///
/// The record's key is version i16 = 0 and type i16 (0 abort, 1 commit); its value version i16 = 0 and coordinator_epoch i32.
pub(crate) fn transaction_marker(producer_id: i64, producer_epoch: i16, committed: bool, timestamp_ms: i64) -> Bytes {
    let mut covered = BytesMut::new();
    covered.put_i16(TRANSACTIONAL_BIT | CONTROL_BIT);
    covered.put_i32(0);
    covered.put_i64(timestamp_ms);
    covered.put_i64(timestamp_ms);
    covered.put_i64(producer_id);
    covered.put_i16(producer_epoch);
    covered.put_i32(-1);
    covered.put_i32(1);
    // One record: length 16, attributes, deltas 0 and 0, key of 4, value of 6, no header; lengths are zigzag.
    covered.put_slice(&[32, 0, 0, 0, 8]);
    covered.put_i16(0);
    covered.put_i16(i16::from(committed));
    covered.put_slice(&[12]);
    covered.put_i16(0);
    covered.put_i32(0);
    covered.put_u8(0);

    let mut batch = BytesMut::new();
    batch.put_i64(0);
    // What follows the length: leader epoch, magic and crc (9 bytes), then the covered bytes.
    batch.put_i32(i32::try_from(covered.len()).unwrap_or(i32::MAX).saturating_add(9));
    batch.put_i32(-1);
    batch.put_i8(2);
    batch.put_u32(crc32c::crc32c(&covered));
    batch.put_slice(&covered);
    batch.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_is_a_whole_control_batch() {
        let marker = transaction_marker(7, 3, true, 1_000);
        let batches = split(marker.clone()).unwrap();
        let (header, bytes) = &batches[0];
        assert_eq!((batches.len(), bytes.len()), (1, marker.len()));
        assert!(header.is_control() && header.is_transactional());
        assert_eq!((header.producer_id, header.producer_epoch, header.records_count), (7, 3, 1));
        let record = &marker[HEADER_BYTES..];
        assert_eq!(usize::from(record[0]) / 2, record.len() - 1, "the record's length is what follows it");
    }

    #[test]
    fn assigned_offset_leaves_the_crc_true_and_append_time_renews_it() {
        let marker = transaction_marker(7, 3, false, 1_000);
        for log_append_time_ms in [None, Some(5_000)] {
            let assigned = Assigned { base_offset: 41, partition_leader_epoch: 2, log_append_time_ms };
            let bytes = assign(&marker, &assigned).unwrap();
            let (header, _) = split(bytes).unwrap()[0];
            assert_eq!(header.base_offset, 41);
            assert_eq!(header.is_log_append_time(), log_append_time_ms.is_some());
            assert_eq!(header.max_timestamp, log_append_time_ms.unwrap_or(1_000));
        }
    }

    #[test]
    fn every_cut_and_every_changed_byte_after_the_crc_is_refused() {
        let marker = transaction_marker(7, 3, true, 1_000);
        for cut in 1..marker.len() {
            assert_eq!(split(marker.slice(..cut)), Err(ResponseError::CorruptMessage), "cut at {cut}");
        }
        for at in 17..marker.len() {
            let mut bytes = marker.to_vec();
            bytes[at] ^= 1;
            assert_eq!(split(bytes.into()), Err(ResponseError::CorruptMessage), "byte {at}");
        }
        assert_eq!(split(Bytes::new()), Err(ResponseError::InvalidRecord));
    }
}

//! Record batches and the records in them, as borrowed views.
//!
//! What a Fetch response holds of a partition is a run of batches, the last of which may be cut off anywhere:
//! ```text
//! | batch | batch | ... | batch, cut |
//!
//! v2 (magic 2, KIP-98)                                           bytes
//!  0 base_offset              i64   first offset                \
//!  8 batch_length             i32   bytes after this field       | not in the CRC:
//! 12 partition_leader_epoch   i32   -1 unknown                   | the broker rewrites them
//! 16 magic                    i8    2                           /
//! 17 crc                      u32   CRC-32C of all from byte 21
//! 21 attributes               i16   0-2 codec | 3 timestamp type | 4 transactional | 5 control | 6 delete horizon (KIP-534)
//! 23 last_offset_delta        i32   last offset - base_offset, also after compaction
//! 27 base_timestamp           i64   what the deltas add to; the delete horizon if bit 6 is set
//! 35 max_timestamp            i64   the time of every record if bit 3 is set (LogAppendTime, KIP-32)
//! 43 producer_id              i64   -1 none                     \
//! 51 producer_epoch           i16   -1 none                      | idempotence and transactions
//! 53 base_sequence            i32   -1 none                     /
//! 57 records_count            i32
//! 61 records, compressed as a whole if the codec isn't 0:
//!    length varint | attributes i8 | timestamp_delta varlong | offset_delta varint | key | value | headers count varint, headers
//!    key, value: length varint (negative: null), bytes        header (KIP-82): key length varint, key, value as above
//!
//! message sets (magic 0 and 1)
//!  0 offset i64 | 8 message_size i32 | 12 crc u32 (CRC-32 of all from byte 16) | 16 magic i8 | 17 attributes i8
//!  18 timestamp i64, magic 1 only (KIP-32) | key: i32, bytes | value: i32, bytes
//! A message with a codec is a wrapper: its value is a compressed message set. In magic 0 the inner offsets are absolute, in magic 1 they
//! count up to the wrapper's offset, which is the last inner one's (KIP-31).
//! ```
//! Reading has three steps, so that a batch can be left out before it costs anything:
//! 1. [`RecordBatches`] walks the headers; [`next_fetch_offset`] does only that, for the next request.
//! 2. [`RecordBatch::check_crc`], [`AbortedTransactions::observe`] and what the caller knows of offsets and times decide about a batch.
//! 3. [`RecordBatch::records`] inflates it and iterates over its records. For a search before any record is parsed there is
//!    [`RecordBatch::section`] with [`BatchHeader::record_ranges`] and [`BatchHeader::record_at`].
//!
//! ```
//! use ottla_protocol::compression::Decompressor;
//! use ottla_protocol::record::{AbortedTransactions, BatchError, RecordBatches, Visibility};
//!
//! /// Adds up the values in `[position, until)` and returns where reading goes on.
//! fn read(
//!     bytes: &[u8],
//!     mut position: i64,
//!     until: i64,
//!     aborted: &mut AbortedTransactions,
//!     decompressor: &mut Decompressor,
//!     sum: &mut usize,
//! ) -> Result<i64, BatchError> {
//!     for batch in RecordBatches::new(bytes) {
//!         let batch = batch?;
//!         batch.check_crc()?;
//!         if aborted.observe(&batch, decompressor)? == Visibility::Deliver {
//!             for record in batch.records(decompressor)? {
//!                 let record = record.map_err(|error| batch.error(error))?;
//!                 if record.offset >= position && record.offset < until {
//!                     *sum += record.value.map_or(0, <[u8]>::len);
//!                     position = record.offset + 1;
//!                 }
//!             }
//!         }
//!         // Past what compaction removed, past markers and past what was aborted; and never back.
//!         position = position.max(batch.header().next_offset().min(until));
//!     }
//!     Ok(position)
//! }
//! # let (mut sum, mut aborted) = (0, AbortedTransactions::new([(7, 4)]));
//! # assert_eq!(read(&[], 3, 9, &mut aborted, &mut Decompressor::new(), &mut sum), Ok(3));
//! ```

mod aborted;
mod batch;
mod batch_header;
mod batches;
mod builder;
mod control;
mod header;
mod message_set;
mod ranges;
#[expect(clippy::module_inception, reason = "the module of the record itself")]
mod record;
mod records;

pub use aborted::{AbortedTransactions, Visibility};
pub use batch::{BatchError, RecordBatch};
pub use batch_header::BatchHeader;
pub use batches::{RecordBatches, next_fetch_offset};
pub use builder::{RecordBatchBuilder, RecordBatchOptions};
pub use control::ControlRecord;
pub use header::{Header, Headers, HeadersIter, OwnedHeaders};
pub use ranges::RecordRanges;
pub use record::{Record, TimestampType};
pub use records::{Records, Skimmed};

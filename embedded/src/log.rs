//! One partition's log: batches as they were produced, in offset order, and what follows from them (epochs, open and aborted
//! transactions). No sockets and no clock; who leads the partition is the matter of [`crate::state`].

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use kafka_protocol::ResponseError;

use crate::batch::{self, Assigned, BatchHeader};
use crate::records;

/// A run of bytes that is served whole or from its beginning: one batch v2, or raw bytes that a test appended.
#[derive(Debug, Clone)]
struct Entry {
    base_offset: i64,
    /// The offset after the last one that these bytes stand for.
    next_offset: i64,
    leader_epoch: i32,
    /// `None` for raw bytes, which are never looked into.
    header: Option<BatchHeader>,
    bytes: Bytes,
}

/// A transaction that ended in an abort marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AbortedTransaction {
    pub(crate) producer_id: i64,
    pub(crate) first_offset: i64,
    /// The offset of the marker.
    pub(crate) last_offset: i64,
}

/// How many bytes a read may return.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadLimit {
    /// The last batch is cut at this many bytes.
    pub(crate) bytes_max: usize,
    /// Return the first batch whole even when it is larger (KIP-74), so that a reader always gets on.
    pub(crate) at_least_one_batch: bool,
}

/// The log of one partition.
#[derive(Debug, Default)]
pub(crate) struct PartitionLog {
    entries: VecDeque<Entry>,
    start_offset: i64,
    end_offset: i64,
    /// First offset of each leader epoch, both ascending.
    epochs: Vec<(i32, i64)>,
    /// First offset of the open transaction of each producer id.
    open_transactions: BTreeMap<i64, i64>,
    aborted_transactions: Vec<AbortedTransaction>,
}

/// The answer to a look-up by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffsetAndTimestamp {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) leader_epoch: i32,
}

impl PartitionLog {
    /// The first offset that can be read.
    pub(crate) fn start_offset(&self) -> i64 {
        self.start_offset
    }

    /// The offset that the next record gets; with all replicas in one process also the high watermark.
    pub(crate) fn end_offset(&self) -> i64 {
        self.end_offset
    }

    /// The first offset of the oldest open transaction, or the end.
    pub(crate) fn last_stable_offset(&self) -> i64 {
        self.open_transactions.values().copied().min().unwrap_or(self.end_offset)
    }

    /// Appends one batch and returns its base offset. The caller has checked it.
    pub(crate) fn append(
        &mut self,
        header: &BatchHeader,
        batch: &[u8],
        leader_epoch: i32,
        log_append_time_ms: Option<i64>,
    ) -> Result<i64, ResponseError> {
        let base_offset = self.end_offset;
        let next_offset = base_offset.saturating_add(i64::from(header.last_offset_delta)).saturating_add(1);
        let assigned = Assigned { base_offset, partition_leader_epoch: leader_epoch, log_append_time_ms };
        let bytes = batch::assign(batch, &assigned).ok_or(ResponseError::CorruptMessage)?;
        let mut header = BatchHeader { base_offset, ..*header };
        if let Some(timestamp) = log_append_time_ms {
            header.max_timestamp = timestamp;
        }
        if header.is_transactional() && !header.is_control() {
            self.open_transactions.entry(header.producer_id).or_insert(base_offset);
        }
        self.push(Entry { base_offset, next_offset, leader_epoch, header: Some(header), bytes });
        Ok(base_offset)
    }

    /// Appends bytes as they are; they stand for the offsets from the end to `next_offset` (exclusive).
    pub(crate) fn append_raw(&mut self, bytes: Bytes, next_offset: i64, leader_epoch: i32) {
        let next_offset = next_offset.max(self.end_offset);
        self.push(Entry { base_offset: self.end_offset, next_offset, leader_epoch, header: None, bytes });
    }

    fn push(&mut self, entry: Entry) {
        if self.epochs.last().is_none_or(|&(epoch, _)| epoch < entry.leader_epoch) {
            self.epochs.push((entry.leader_epoch, entry.base_offset));
        }
        self.end_offset = entry.next_offset;
        self.entries.push_back(entry);
    }

    /// Ends the open transaction of a producer with a marker.
    pub(crate) fn end_transaction(
        &mut self,
        producer_id: i64,
        producer_epoch: i16,
        committed: bool,
        timestamp_ms: i64,
        leader_epoch: i32,
    ) -> Result<(), ResponseError> {
        let marker = batch::transaction_marker(producer_id, producer_epoch, committed, timestamp_ms);
        for (header, bytes) in batch::split(marker)? {
            let last_offset = self.append(&header, &bytes, leader_epoch, None)?;
            let first_offset = self.open_transactions.remove(&producer_id);
            if let (Some(first_offset), false) = (first_offset, committed) {
                self.aborted_transactions.push(AbortedTransaction { producer_id, first_offset, last_offset });
            }
        }
        Ok(())
    }

    /// Moves the start of the log up; batches wholly below it go.
    pub(crate) fn delete_records(&mut self, before_offset: i64) {
        self.start_offset = self.start_offset.max(before_offset.min(self.end_offset));
        while self.entries.front().is_some_and(|entry| entry.next_offset <= self.start_offset) {
            self.entries.pop_front();
        }
        self.aborted_transactions.retain(|transaction| transaction.last_offset >= self.start_offset);
    }

    /// Forgets the batches that hold `offset` or later ones, as a log does after an unclean election.
    pub(crate) fn truncate(&mut self, offset: i64) {
        while self.entries.back().is_some_and(|entry| entry.next_offset > offset) {
            if let Some(entry) = self.entries.pop_back() {
                self.end_offset = entry.base_offset;
            }
        }
        self.end_offset = self.end_offset.max(self.start_offset);
        self.epochs.retain(|&(_, start)| start < self.end_offset);
        self.open_transactions.retain(|_, first| *first < self.end_offset);
        self.aborted_transactions.retain(|transaction| transaction.last_offset < self.end_offset);
    }

    /// The bytes from the batch that contains `offset` on, below `until_offset`, and the offset after them; empty when there is nothing.
    pub(crate) fn read(&self, offset: i64, until_offset: i64, limit: ReadLimit) -> (Bytes, i64) {
        let first = self.entries.partition_point(|entry| entry.next_offset <= offset);
        let mut entries = self
            .entries
            .range(first..)
            .filter(|entry| !entry.bytes.is_empty())
            .take_while(|entry| entry.base_offset < until_offset);
        let Some(head) = entries.next() else { return (Bytes::new(), offset) };
        if head.bytes.len() > limit.bytes_max && !limit.at_least_one_batch {
            // A broker sends nothing rather than only a cut batch.
            return (Bytes::new(), offset);
        }
        let mut size = head.bytes.len();
        let rest: Vec<&Entry> = entries
            .take_while(|entry| {
                let begins_inside = size < limit.bytes_max;
                size = size.saturating_add(entry.bytes.len());
                begins_inside
            })
            .collect();
        let Some(last) = rest.last() else { return (head.bytes.clone(), head.next_offset) };
        let mut bytes = BytesMut::with_capacity(size.min(limit.bytes_max));
        for part in std::iter::once(&head).chain(&rest) {
            let room = limit.bytes_max.saturating_sub(bytes.len());
            bytes.extend_from_slice(part.bytes.get(..room).unwrap_or(&part.bytes));
        }
        (bytes.freeze(), last.next_offset)
    }

    /// The aborted transactions that reach into `from_offset` (inclusive) to `until_offset` (exclusive).
    pub(crate) fn aborted_transactions(&self, from_offset: i64, until_offset: i64) -> Vec<AbortedTransaction> {
        let overlaps = |transaction: &&AbortedTransaction| {
            transaction.last_offset >= from_offset && transaction.first_offset < until_offset
        };
        self.aborted_transactions.iter().filter(overlaps).copied().collect()
    }

    /// The leader epoch in which `offset` was written, -1 when unknown.
    pub(crate) fn epoch_at(&self, offset: i64) -> i32 {
        self.epochs.iter().rev().find(|&&(_, start)| start <= offset).map_or(-1, |&(epoch, _)| epoch)
    }

    /// The largest epoch not above `epoch` and the offset where the next one begins, as OffsetForLeaderEpoch answers; `None` for an
    /// epoch that is yet to come. `current_epoch` is the leader's, which may have written nothing yet.
    pub(crate) fn epoch_end(&self, epoch: i32, current_epoch: i32) -> Option<(i32, i64)> {
        if epoch >= current_epoch {
            return (epoch == current_epoch).then_some((epoch, self.end_offset));
        }
        let index = self.epochs.partition_point(|&(known, _)| known <= epoch);
        let end = self.epochs.get(index).map_or(self.end_offset, |&(_, start)| start);
        let floor = index.checked_sub(1).and_then(|index| self.epochs.get(index));
        Some((floor.map_or(epoch, |&(known, _)| known), end))
    }

    /// The first record at or after `timestamp` (milliseconds since 1970) below `until_offset`.
    pub(crate) fn offset_for_time(&self, timestamp: i64, until_offset: i64) -> Option<OffsetAndTimestamp> {
        self.entries
            .iter()
            .filter_map(|entry| Some((entry, entry.header.as_ref()?)))
            .filter(|(_, header)| header.max_timestamp >= timestamp)
            .flat_map(|(entry, header)| {
                records::timestamps(header, &entry.bytes).into_iter().map(move |found| (entry, found))
            })
            .find(|(_, found)| found.timestamp >= timestamp && found.offset >= self.start_offset)
            .filter(|(_, found)| found.offset < until_offset)
            .map(|(entry, found)| OffsetAndTimestamp {
                offset: found.offset,
                timestamp: found.timestamp,
                leader_epoch: entry.leader_epoch,
            })
    }

    /// The record with the largest timestamp, the first of several.
    pub(crate) fn max_timestamp(&self) -> Option<OffsetAndTimestamp> {
        let batches = self.entries.iter().filter_map(|entry| entry.header.as_ref());
        let largest = batches.map(|header| header.max_timestamp).max().filter(|&timestamp| timestamp >= 0)?;
        self.offset_for_time(largest, self.end_offset)
    }
}

//! The filter of `isolation.level=read_committed` (KIP-98): which batches belong to aborted transactions.
//!
//! A broker serves committed and aborted data alike. With it goes, for each partition of a response, a list of the aborted transactions
//! that reach into the response: a producer and the first offset of its transaction. From that offset on all transactional batches of that
//! producer are dropped, up to the producer's next abort marker. Two things make it work without any other state: the list has every
//! aborted transaction that touches the response, and a commit marker needs nothing done.

use super::{ControlRecord, RecordBatch};
use crate::compression::Decompressor;
use crate::record::BatchError;
use std::collections::HashSet;

/// What to do with a batch. Each of them moves the position to the batch's next offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Visibility {
    /// Its records are the user's.
    Deliver,
    /// It belongs to an aborted transaction: nothing of it is delivered.
    Aborted,
    /// It holds control records: nothing of it is delivered.
    Control,
}

/// The aborted transactions of one partition in one response. Every batch of the partition must be shown to it, in order, before any
/// other reason to skip the batch applies. Each response starts anew: the broker repeats what still matters.
#[derive(Clone, Debug, Default)]
pub struct AbortedTransactions {
    /// Producer id and first offset, latest first: those that begin next are taken from the end.
    coming: Vec<(i64, i64)>,
    /// The producers that are inside an aborted transaction at this place of the log.
    aborted: HashSet<i64>,
}

impl AbortedTransactions {
    /// A filter for the response's pairs of producer id and first offset, in any order. None, as for read_uncommitted, means that nothing
    /// is dropped but control batches.
    pub fn new(aborted_transactions: impl IntoIterator<Item = (i64, i64)>) -> Self {
        let mut filter = Self::default();
        filter.reset(aborted_transactions);
        filter
    }

    /// Begins the next response, keeping what memory there is.
    pub fn reset(&mut self, aborted_transactions: impl IntoIterator<Item = (i64, i64)>) {
        self.aborted.clear();
        self.coming.clear();
        self.coming.extend(aborted_transactions);
        self.coming.sort_unstable_by_key(|&(_, first_offset)| std::cmp::Reverse(first_offset));
    }

    /// Takes note of `batch` and says what to do with it. Data is judged by its header alone; a control batch is walked, since its first
    /// record may end an aborted transaction, and damage in it should not pass unseen.
    ///
    /// # Errors
    /// A control batch that can't be read.
    #[inline]
    pub fn observe(
        &mut self,
        batch: &RecordBatch<'_>,
        decompressor: &mut Decompressor,
    ) -> Result<Visibility, BatchError> {
        let header = batch.header();
        if header.producer_id >= 0 && !self.coming.is_empty() {
            let last_offset = header.last_offset();
            while let Some((producer_id, _)) = self.coming.pop_if(|(_, first_offset)| *first_offset <= last_offset) {
                self.aborted.insert(producer_id);
            }
        }
        if header.is_control() {
            return self.observe_control(batch, decompressor);
        }
        // A batch of the same producer outside of transactions is idempotent only, and stays.
        let aborted = header.is_transactional() && self.is_aborted(header.producer_id);
        Ok(if aborted { Visibility::Aborted } else { Visibility::Deliver })
    }

    fn observe_control(
        &mut self,
        batch: &RecordBatch<'_>,
        decompressor: &mut Decompressor,
    ) -> Result<Visibility, BatchError> {
        let producer_id = batch.header().producer_id;
        for (i, record) in batch.records(decompressor)?.enumerate() {
            let record = record.map_err(|error| batch.error(error))?;
            // The first record decides; a marker that the cleaner has emptied says nothing.
            if i == 0 && self.is_aborted(producer_id) {
                let control = ControlRecord::parse(&record).map_err(|error| batch.error(error))?;
                if let ControlRecord::Abort { .. } = control {
                    self.aborted.remove(&producer_id);
                }
            }
        }
        Ok(Visibility::Control)
    }

    #[inline]
    fn is_aborted(&self, producer_id: i64) -> bool {
        !self.aborted.is_empty() && self.aborted.contains(&producer_id)
    }
}

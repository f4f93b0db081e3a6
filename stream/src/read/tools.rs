//! What a decoder needs beside the fetched bytes: the scratch that batches are inflated into, within its part of the byte budget, and the
//! aborted transactions of the piece at hand.

use ottla_client::{BudgetHeld, Client, Room};
use ottla_protocol::{
    DecodeErrorKind,
    compression::{BATCH_INFLATED_BYTES_MAX_DEFAULT, Decompressor},
    record::{AbortedTransactions, BatchError, RecordBatch},
};

/// A decoder's tools, kept from piece to piece so that they are made once.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) decompressor: Decompressor,
    pub(super) aborted: AbortedTransactions,
    room: Room,
}

impl Tools {
    /// Those of one of `decoders` decoders.
    pub(super) fn new(client: &Client, decoders: usize) -> Self {
        let room = client.room(decoders);
        let decompressor = Decompressor::with_limit(room.bytes().min(BATCH_INFLATED_BYTES_MAX_DEFAULT));
        Self { decompressor, aborted: AbortedTransactions::default(), room }
    }

    /// Whether this is only for want of room: there would be more.
    pub(super) fn may_grow(&self, error: &BatchError) -> bool {
        matches!(error.source.kind, DecodeErrorKind::Limit { .. })
            && self.decompressor.batch_inflated_bytes_max() < BATCH_INFLATED_BYTES_MAX_DEFAULT
    }

    /// Waits for room for a batch that the last try to inflate had too little for: how much it needs shows only while it is inflated.
    pub(super) async fn grow(&mut self, batch: &RecordBatch<'_>) -> Result<(), BudgetHeld> {
        let tried = self.decompressor.batch_inflated_bytes_max();
        let least = tried.max(batch.section_bytes_compressed());
        let bytes = least.saturating_mul(2).min(BATCH_INFLATED_BYTES_MAX_DEFAULT);
        // What may be inflated is never more than the room, whatever becomes of the wait.
        self.decompressor.shrink_to(self.room.base());
        self.decompressor.set_batch_inflated_bytes_max(self.room.base());
        self.room.grow_to(bytes, tried).await?;
        self.decompressor.set_batch_inflated_bytes_max(self.room.bytes().min(BATCH_INFLATED_BYTES_MAX_DEFAULT));
        Ok(())
    }

    /// Without a budget.
    #[cfg(test)]
    pub(super) fn unbounded() -> Self {
        Self { decompressor: Decompressor::new(), aborted: AbortedTransactions::default(), room: Room::unbounded() }
    }

    /// Gives back what a large batch needed.
    pub(super) fn shrink(&mut self) {
        let base = self.room.base();
        if self.room.bytes() > base {
            self.decompressor.shrink_to(base);
            self.decompressor.set_batch_inflated_bytes_max(base);
            self.room.give_back();
        }
    }
}

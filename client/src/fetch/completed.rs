//! One partition's part of a fetch answer, on its way to a decoder.

use super::{budget::Reservation, fetcher::Command};
use crate::{TopicPartition, conn::Frame};
use bytes::Bytes;
use ottla_protocol::message::AbortedTransaction;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;

/// A response's frame and the budget it holds, shared by the partitions in it.
#[derive(Debug)]
pub(super) struct HeldFrame {
    /// All are held for their `Drop`.
    pub(super) _frame: Frame,
    pub(super) _reservation: Reservation,
    pub(super) _outstanding: Arc<()>,
}

/// Batches of one partition as they came. While this lives, nothing else of its target is handed out, so that a target's batches are
/// decoded in order whoever decodes them; its buffer and budget come back when it is dropped.
#[derive(Debug)]
pub struct CompletedFetch {
    pub(super) target: usize,
    pub(super) partition: TopicPartition,
    pub(super) fetch_offset: i64,
    // Dropped before the frame, whose buffer can only be used again when no slice of it is left.
    pub(super) records: Bytes,
    pub(super) aborted_transactions: Vec<AbortedTransaction>,
    pub(super) high_watermark: i64,
    pub(super) last_stable_offset: i64,
    pub(super) log_start_offset: i64,
    pub(super) _frame: Arc<HeldFrame>,
    pub(super) _done: DoneSignal,
}

impl CompletedFetch {
    /// The index of the target in the list the fetcher was started with.
    pub fn target(&self) -> usize {
        self.target
    }

    /// The partition.
    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// The offset that was asked for. The first batch may begin before it.
    pub fn fetch_offset(&self) -> i64 {
        self.fetch_offset
    }

    /// Record batches; the last one may be cut.
    pub fn records(&self) -> &[u8] {
        &self.records
    }

    /// Aborted transactions that may be among the batches, under `read_committed`.
    pub fn aborted_transactions(&self) -> &[AbortedTransaction] {
        &self.aborted_transactions
    }

    /// The end of the replicated log, exclusive, when the broker answered.
    pub fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// Where the first open transaction begins, or the high watermark.
    pub fn last_stable_offset(&self) -> i64 {
        self.last_stable_offset
    }

    /// The log's first offset when the broker answered; -1 if it did not say.
    pub fn log_start_offset(&self) -> i64 {
        self.log_start_offset
    }
}

/// Tells the engine, when dropped, that the target's next fetch may be handed out.
#[derive(Debug)]
pub(super) struct DoneSignal {
    pub(super) target: usize,
    pub(super) commands: UnboundedSender<Command>,
}

impl Drop for DoneSignal {
    fn drop(&mut self) {
        // The engine may have ended.
        let _ = self.commands.send(Command::Done(self.target));
    }
}

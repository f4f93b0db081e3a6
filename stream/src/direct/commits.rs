//! Offsets on their way to the group.

use super::ProcessedRanges;
use crate::{CommitOutcome, Error, GroupStore, OffsetStore, StoreCommit};
use std::time::Duration;
use tokio::time::Instant;

/// The pause between two attempts at the stop.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Learns what came of a commit.
pub(super) type Callback = Box<dyn FnOnce(Result<&CommitOutcome, &DirectCommitError>) + Send>;

/// Why the offsets of ranges were not committed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectCommitError {
    /// They were not processed by this stream, of which they say nothing.
    #[error("these ranges are of another stream, and were not processed by this one: {ranges}")]
    OtherStream {
        /// The ranges.
        ranges: String,
    },
    /// The stream was stopped: nothing that waits would be committed any more.
    #[error("the stream was stopped: commit_sync still commits what was processed")]
    Stopped,
    /// The group's coordinator did not answer in time.
    #[error("{store} did not take the offsets of {partitions} within {} ms", .timeout.as_millis())]
    Timeout {
        /// The group.
        store: String,
        /// The partitions.
        partitions: String,
        /// How long it had.
        timeout: Duration,
    },
    /// The group's coordinator could not be asked, or refused.
    #[error(transparent)]
    Store(#[from] Error),
}

impl DirectCommitError {
    /// A name for programs.
    pub fn condition(&self) -> &'static str {
        match self {
            Self::OtherStream { .. } => "RANGES_NOT_PROCESSED",
            Self::Stopped => "STREAM_STOPPED",
            Self::Timeout { .. } => "COMMIT_FAILED",
            Self::Store(error) => error.condition(),
        }
    }
}

/// What waits for the group. At most one commit, however many were asked for; and their callbacks.
pub(super) struct Commits {
    store: GroupStore,
    timeout: Duration,
    waiting: Option<StoreCommit>,
    callbacks: Vec<Callback>,
}

impl Commits {
    pub(super) fn new(store: GroupStore, timeout: Duration) -> Self {
        Self { store, timeout, waiting: None, callbacks: Vec::new() }
    }

    /// Adds ranges to what waits. The later batch counts: its ends are the larger ones, unless a topic was created again in between.
    pub(super) fn queue(&mut self, ranges: &ProcessedRanges, callback: Option<Callback>) {
        let mut commit = ranges.commit.clone();
        match self.waiting.take() {
            Some(mut later) if later.batch_id > commit.batch_id => {
                later.absorb(commit);
                commit = later;
            }
            Some(earlier) => commit.absorb(earlier),
            None => {}
        }
        self.waiting = Some(commit);
        self.callbacks.extend(callback);
    }

    /// Commits what waits, and tells the callbacks only.
    pub(super) async fn send(&mut self) {
        if self.waiting.is_some() {
            // What failed waits on, for the next call or the stop.
            let _ = self.send_now().await;
        }
    }

    /// Commits what waits.
    pub(super) async fn send_now(&mut self) -> Result<CommitOutcome, DirectCommitError> {
        let result = self.attempt(self.timeout).await;
        self.tell(&result);
        result
    }

    /// Commits what waits, again and again until the timeout.
    pub(super) async fn flush(&mut self) -> Result<CommitOutcome, DirectCommitError> {
        let begun = Instant::now();
        loop {
            let result = self.attempt(self.timeout.saturating_sub(begun.elapsed())).await;
            if result.is_ok() || begun.elapsed().saturating_add(RETRY_PAUSE) >= self.timeout {
                self.tell(&result);
                return result;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// What waits stays until the group has it: cancel safe.
    async fn attempt(&mut self, timeout: Duration) -> Result<CommitOutcome, DirectCommitError> {
        let Some(commit) = &self.waiting else { return Ok(CommitOutcome::default()) };
        let Ok(result) = tokio::time::timeout(timeout, self.store.store(commit)).await else {
            let partitions = commit.offsets.keys().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(DirectCommitError::Timeout { store: self.store.name(), partitions, timeout: self.timeout });
        };
        let outcome = result?;
        self.waiting = None;
        Ok(outcome)
    }

    fn tell(&mut self, result: &Result<CommitOutcome, DirectCommitError>) {
        self.callbacks.drain(..).for_each(|callback| callback(result.as_ref()));
    }
}

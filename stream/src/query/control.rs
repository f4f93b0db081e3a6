//! What a query's handle and its task share.

use crate::RangeCounts;
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, time::Instant};

/// Whether a query is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    No,
    /// After the batch at work, if that is done in time.
    Gracefully(Instant),
    /// At once.
    Now,
}

/// Signals between the handle and the task.
#[derive(Debug)]
pub(super) struct Control {
    stop: watch::Sender<Stop>,
    /// The batch that is written down and not committed yet.
    at_work: watch::Sender<Option<i64>>,
    /// Looks that were begun.
    looks: AtomicU64,
    /// The newest look that found nothing new.
    found_nothing: watch::Sender<u64>,
    failed_commits: AtomicU64,
    counts: Mutex<RangeCounts>,
    stop_timeout: Duration,
}

impl Control {
    pub(super) fn new(stop_timeout: Duration) -> Self {
        Self {
            stop: watch::Sender::new(Stop::No),
            at_work: watch::Sender::new(None),
            looks: AtomicU64::new(0),
            found_nothing: watch::Sender::new(0),
            failed_commits: AtomicU64::new(0),
            counts: Mutex::default(),
            stop_timeout,
        }
    }

    /// Asks the query to end: after the batch at work if `gracefully`, else at once.
    pub(super) fn request_stop(&self, gracefully: bool) {
        let timeout = self.stop_timeout;
        self.stop.send_modify(|stop| {
            *stop = match *stop {
                Stop::No if gracefully => Stop::Gracefully(Instant::now() + timeout),
                stop if gracefully => stop,
                _ => Stop::Now,
            };
        });
    }

    pub(super) fn is_stopping(&self) -> bool {
        *self.stop.borrow() != Stop::No
    }

    /// Comes back when the query is asked to end.
    pub(super) async fn stopping(&self) {
        // The sender lives as long as this.
        let _ = self.stop.subscribe().wait_for(|stop| *stop != Stop::No).await;
    }

    /// Comes back when the query is to end although it is not done: at once without a batch at work, else when its time is over.
    pub(super) async fn must_stop(&self) {
        let (mut stop, mut at_work) = (self.stop.subscribe(), self.at_work.subscribe());
        loop {
            let requested = *stop.borrow_and_update();
            let working = at_work.borrow_and_update().is_some();
            let deadline = match requested {
                Stop::Now => return,
                Stop::Gracefully(_) if !working => return,
                Stop::Gracefully(deadline) => Some(deadline),
                Stop::No => None,
            };
            let over = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            // The senders live as long as this.
            tokio::select! {
                _ = stop.changed() => {}
                _ = at_work.changed() => {}
                () = over => return,
            }
        }
    }

    /// Until when what is left to do at the end may take.
    pub(super) fn stop_deadline(&self) -> Instant {
        let timeout = self.stop_timeout;
        match *self.stop.borrow() {
            Stop::No => Instant::now() + timeout,
            Stop::Gracefully(deadline) => deadline,
            Stop::Now => Instant::now(),
        }
    }

    /// A batch is written down, or (`None`) done.
    pub(super) fn at_work(&self, batch_id: Option<i64>) {
        self.at_work.send_replace(batch_id);
    }

    pub(super) fn batch_at_work(&self) -> Option<i64> {
        *self.at_work.borrow()
    }

    /// A look begins: what is there now is seen by it.
    pub(super) fn begin_look(&self) -> u64 {
        self.looks.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(super) fn found_nothing(&self, look: u64) {
        self.found_nothing.send_replace(look);
    }

    /// Comes back when a look that began after this call has found nothing new.
    pub(super) async fn all_processed(&self) {
        let asked = self.looks.load(Ordering::SeqCst);
        // The sender lives as long as this.
        let _ = self.found_nothing.subscribe().wait_for(|look| *look > asked).await;
    }

    /// What the batches that are done looked at.
    pub(super) fn counts(&self) -> RangeCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self, counts: RangeCounts) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) += counts;
    }

    pub(super) fn failed_commits(&self) -> u64 {
        self.failed_commits.load(Ordering::Relaxed)
    }

    pub(super) fn note_failed_commits(&self, failed: u64) {
        self.failed_commits.store(failed, Ordering::Relaxed);
    }
}

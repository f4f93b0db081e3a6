//! How many fetched bytes may be held at one time. Reserved before a request is sent, given back when the last view into its answer is
//! gone.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::Notify;

/// A byte budget, shared by all fetchers of a client.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    used: AtomicUsize,
    released: Notify,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0), released: Notify::new() }
    }

    /// Reserves `bytes`, unless that would exceed the limit. When nothing is held, any amount is admitted: one batch larger than the whole
    /// budget must be readable.
    pub(crate) fn try_reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let fits =
            |used: usize| (used == 0 || used.saturating_add(bytes) <= self.limit).then(|| used.saturating_add(bytes));
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).ok()?;
        Some(Reservation { budget: self.clone(), bytes })
    }

    /// The most that is held at one time.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Wakes when bytes come back. Create the future before trying to reserve.
    pub(crate) fn released(&self) -> tokio::sync::futures::Notified<'_> {
        self.released.notified()
    }

    /// Bytes held now.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }
}

/// Bytes of the budget that are held until this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Reservation {
    /// Holds `bytes` from now on. Growth is always granted: the bytes are already here.
    pub(crate) fn resize(&mut self, bytes: usize) {
        if bytes >= self.bytes {
            self.budget.used.fetch_add(bytes - self.bytes, Ordering::AcqRel);
        } else {
            self.budget.used.fetch_sub(self.bytes - bytes, Ordering::AcqRel);
            self.budget.released.notify_waiters();
        }
        self.bytes = bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::AcqRel);
        self.budget.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserves_up_to_the_limit_and_one_of_any_size() {
        let budget = Arc::new(Budget::new(100));
        let first = budget.try_reserve(60).unwrap();
        assert!(budget.try_reserve(50).is_none());
        let second = budget.try_reserve(40).unwrap();
        drop((first, second));
        assert_eq!(budget.used(), 0);
        let mut huge = budget.try_reserve(1000).expect("nothing else is held");
        assert!(budget.try_reserve(1).is_none());
        huge.resize(10);
        assert!(budget.try_reserve(90).is_some());
    }
}

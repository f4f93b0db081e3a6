//! How many bytes may be held at one time, wire, inflated and kept bytes together, for all fetchers of a client and its threads.
//!
//! Wire bytes are reserved before a request is sent and may fill half of the budget, so that decoders are never kept waiting by answers that
//! wait for a decoder. Each decoder has a small [`Room`] at all times; a larger one is granted when it fits, or when no other decoder has one.
//! So one batch of any size gets through, and nobody who waits holds what another one waits for. What nobody works on any more holds up
//! nobody for ever: a fetcher that has nothing always gets one answer, and a large room comes after [`PATIENCE`]. Bytes that the user keeps
//! count too: where only they are in the way, nothing will change by waiting, and the reader is told so.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// How long a decoder waits for another one's large room.
const PATIENCE: Duration = Duration::from_secs(1);

/// A byte budget, shared by all fetchers of a client.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    held: Mutex<Held>,
    released: Notify,
}

/// Bytes held now, by what they are for.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Answers, from their requests on.
    wire: usize,
    /// What every decoder has.
    rooms: usize,
    /// What decoders have beyond that, for large batches.
    large: usize,
    /// What the user keeps.
    kept: usize,
    /// The most that all of it was.
    peak: usize,
}

impl Held {
    fn all(&self) -> usize {
        self.wire.saturating_add(self.rooms).saturating_add(self.large).saturating_add(self.kept)
    }
}

/// Whether bytes may be held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Admission {
    Now,
    /// Others will give some back.
    Later,
    /// Only what the user keeps is in the way.
    Held,
}

/// Only bytes that the user keeps ([`Client::keep_bytes`](crate::Client::keep_bytes)) are in the way of the next ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{kept} bytes of kept batches leave no room for {needed} more within ottla.memory.bytes={limit}; drop some, and go on"
)]
pub struct BudgetHeld {
    /// Bytes of kept batches.
    pub kept: usize,
    /// Bytes that are needed to go on: [`Client::room_for`](crate::Client::room_for) waits for them. 0 when the budget is full already.
    pub needed: usize,
    /// The budget.
    pub limit: usize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, held: Mutex::default(), released: Notify::new() }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most that answers may hold at one time.
    pub(crate) fn wire_limit(&self) -> usize {
        self.limit / 2
    }

    /// By how many bytes the budget was exceeded at the worst time, by a single batch or answer larger than what was left of it.
    pub(crate) fn excess(&self) -> usize {
        self.held().peak.saturating_sub(self.limit)
    }

    /// Wakes when bytes come back. Create the future before trying to reserve.
    pub(crate) fn released(&self) -> tokio::sync::futures::Notified<'_> {
        self.released.notified()
    }

    /// Changes what is held, and wakes those who wait if it became less.
    fn change(&self, change: impl FnOnce(&mut Held)) {
        let less = {
            let mut held = self.held();
            let before = held.all();
            change(&mut held);
            held.peak = held.peak.max(held.all());
            held.all() < before
        };
        if less {
            self.released.notify_waiters();
        }
    }

    /// `alone` is a fetcher with no request out and no answer held. It always gets one answer: what is in its way may be the answers of a
    /// reader that nobody asks any more, or one that waits for this one.
    fn admits_wire(&self, held: &Held, bytes: usize, alone: bool) -> Admission {
        let fits = held.all().saturating_add(bytes) <= self.limit
            && held.wire.saturating_add(bytes) <= self.wire_limit().max(1);
        match held {
            _ if fits => Admission::Now,
            Held { kept: 0, .. } if alone => Admission::Now,
            Held { large: 0, .. } if alone => Admission::Held,
            _ => Admission::Later,
        }
    }

    /// Reserves `bytes` for an answer, if they may be held now.
    pub(crate) fn try_reserve(self: &Arc<Self>, bytes: usize, alone: bool) -> Option<Reservation> {
        let mut held = self.held();
        if self.admits_wire(&held, bytes, alone) != Admission::Now {
            return None;
        }
        held.wire = held.wire.saturating_add(bytes);
        held.peak = held.peak.max(held.all());
        Some(Reservation { budget: self.clone(), held_for: Use::Wire, bytes })
    }

    /// Whether a fetcher that is alone waits for `bytes` of an answer in vain.
    pub(crate) fn held_by_user(&self, bytes: usize) -> Option<BudgetHeld> {
        let held = self.held();
        (self.admits_wire(&held, bytes, true) == Admission::Held).then(|| self.report(&held, bytes))
    }

    fn report(&self, held: &Held, needed: usize) -> BudgetHeld {
        BudgetHeld { kept: held.kept, needed, limit: self.limit }
    }

    /// Whether what the user keeps has filled the budget.
    pub(crate) fn overfull_with_kept(&self) -> Option<BudgetHeld> {
        let held = self.held();
        (held.kept > 0 && held.all() > self.limit).then(|| self.report(&held, 0))
    }

    /// Waits until `bytes` would fit, or nothing is kept any more.
    pub(crate) async fn room_for(&self, bytes: usize) {
        loop {
            let released = self.released();
            tokio::pin!(released);
            released.as_mut().enable();
            {
                let held = self.held();
                if held.kept == 0 || held.all().saturating_add(bytes) <= self.limit {
                    return;
                }
            }
            released.await;
        }
    }

    /// Counts bytes that the user keeps from now on. They are there already, so there is nothing to wait for.
    pub(crate) fn keep(self: &Arc<Self>, bytes: usize) -> Reservation {
        self.change(|held| held.kept = held.kept.saturating_add(bytes));
        Reservation { budget: self.clone(), held_for: Use::Kept, bytes }
    }

    /// Bytes held now.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.held().all()
    }
}

#[derive(Clone, Copy, Debug)]
enum Use {
    Wire,
    Kept,
}

impl Use {
    fn of(self, held: &mut Held) -> &mut usize {
        match self {
            Self::Wire => &mut held.wire,
            Self::Kept => &mut held.kept,
        }
    }
}

/// Bytes of the budget that are held until this is dropped: from [`Client::keep_bytes`](crate::Client::keep_bytes), for bytes that
/// somebody keeps longer than the reader that fetched them does.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    held_for: Use,
    bytes: usize,
}

impl Reservation {
    /// Holds `bytes` from now on. Growth is always granted: the bytes are already here.
    pub(crate) fn resize(&mut self, bytes: usize) {
        self.budget.change(|held| {
            let part = self.held_for.of(held);
            *part = part.saturating_sub(self.bytes).saturating_add(bytes);
        });
        self.bytes = bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.resize(0);
    }
}

/// A decoder's room for inflated bytes, from [`Client::room`](crate::Client::room). Its base is the decoder's at all times, and counted in the budget
/// at all times. For a batch that inflates to more, the decoder frees its scratch and waits with [`grow_to`](Self::grow_to); when the batch is
/// done it frees what is above the base, and then says so with [`give_back`](Self::give_back).
#[derive(Debug)]
pub struct Room {
    budget: Arc<Budget>,
    /// What it has at all times.
    base: usize,
    /// What it has beyond that.
    large: usize,
}

impl Room {
    /// The room of one of `decoders` decoders: an eighth of the budget is for all of them. Of all such, a quarter of the budget is taken: who
    /// comes later has nothing at all times.
    pub(crate) fn new(budget: &Arc<Budget>, decoders: usize) -> Self {
        let mut base = budget.limit / 8 / decoders.max(1);
        budget.change(|held| {
            base = base.min((budget.limit / 4).saturating_sub(held.rooms));
            held.rooms += base;
        });
        Self { budget: budget.clone(), base, large: 0 }
    }

    /// Room without a budget, as large as anyone needs.
    pub fn unbounded() -> Self {
        Self::new(&Arc::new(Budget::new(usize::MAX)), 1)
    }

    /// How many inflated bytes may be held.
    pub fn bytes(&self) -> usize {
        self.base + self.large
    }

    /// What it has at all times, whatever others do.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Waits for room for `bytes` in all, or for what is left of the budget if that is more than `too_little`, after giving back what it has
    /// beyond its base: what was inflated is no use any more. After a second it takes the room and exceeds the budget: whoever has the
    /// other large room may be a reader that nobody asks any more. Cancel safe: the room is the base then.
    ///
    /// # Errors
    /// Only bytes that the user keeps are in the way.
    pub async fn grow_to(&mut self, bytes: usize, too_little: usize) -> Result<(), BudgetHeld> {
        self.give_back();
        let budget = self.budget.clone();
        let wanted = bytes.saturating_sub(self.base);
        let mut patience = std::pin::pin!(tokio::time::sleep(PATIENCE));
        let mut is_patient = true;
        loop {
            let released = budget.released();
            tokio::pin!(released);
            released.as_mut().enable();
            {
                let mut held = budget.held();
                let left = budget.limit.saturating_sub(held.all());
                let granted = if wanted <= left || (held.kept == 0 && (held.large == 0 || !is_patient)) {
                    Some(wanted)
                } else {
                    Some(left).filter(|left| left.saturating_add(self.base) > too_little)
                };
                if let Some(granted) = granted {
                    held.large += granted;
                    held.peak = held.peak.max(held.all());
                    self.large = granted;
                    return Ok(());
                }
                if held.large == 0 || !is_patient {
                    return Err(budget.report(&held, wanted));
                }
            }
            tokio::select! {
                () = released => {}
                () = &mut patience, if is_patient => is_patient = false,
            }
        }
    }

    /// Gives back what it has beyond its base. The decoder has freed it before.
    pub fn give_back(&mut self) {
        if self.large > 0 {
            self.budget.change(|held| held.large -= self.large);
            self.large = 0;
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.give_back();
        self.budget.change(|held| held.rooms -= self.base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Poll;

    fn budget(limit: usize) -> Arc<Budget> {
        Arc::new(Budget::new(limit))
    }

    #[test]
    fn answers_get_half_and_one_of_any_size_is_admitted() {
        let budget = budget(200);
        let first = budget.try_reserve(60, false).unwrap();
        assert!(budget.try_reserve(50, false).is_none());
        let second = budget.try_reserve(40, false).unwrap();
        drop((first, second));
        assert_eq!(budget.used(), 0);
        let mut huge = budget.try_reserve(1000, true).expect("nothing else is held");
        assert!(budget.try_reserve(1, false).is_none());
        assert_eq!(budget.excess(), 800);
        huge.resize(10);
        assert!(budget.try_reserve(90, false).is_some());
    }

    #[test]
    fn only_what_the_user_keeps_is_reported() {
        let budget = budget(200);
        let kept = budget.keep(150);
        let wire = budget.try_reserve(20, false).expect("it fits beside what is kept");
        assert!(budget.try_reserve(60, false).is_none());
        assert!(budget.try_reserve(60, true).is_none());
        drop(wire);
        assert_eq!(budget.held_by_user(60), Some(BudgetHeld { kept: 150, needed: 60, limit: 200 }));
        assert!(budget.try_reserve(60, false).is_none());
        drop(kept);
        assert_eq!(budget.held_by_user(60), None);
        assert!(budget.try_reserve(60, false).is_some());
    }

    #[tokio::test]
    async fn one_large_batch_at_a_time_gets_more_than_there_is() {
        let budget = budget(800);
        let (mut a, mut b) = (Room::new(&budget, 2), Room::new(&budget, 2));
        assert_eq!((a.bytes(), budget.used()), (50, 100));
        let _wire = budget.try_reserve(400, false).unwrap();
        a.grow_to(250, 0).await.unwrap();
        assert_eq!(budget.excess(), 0);
        {
            let mut wait = Box::pin(b.grow_to(1050, 1000));
            assert!(poll(wait.as_mut()).is_pending(), "another large batch is there");
            a.give_back();
            tokio::time::timeout(Duration::from_secs(5), wait).await.unwrap().unwrap();
        }
        assert_eq!((b.bytes(), budget.excess()), (1050, 700));
        // Whoever waits has given back what it had: no two of them hold what the other one needs.
        let mut c = Room::new(&budget, 2);
        let mut wait = Box::pin(c.grow_to(100, 50));
        assert!(poll(wait.as_mut()).is_pending());
        drop(b);
        tokio::time::timeout(Duration::from_secs(5), wait).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_room_is_refused_where_only_kept_bytes_are_in_the_way() {
        let budget = budget(800);
        let mut room = Room::new(&budget, 1);
        let kept = budget.keep(700);
        let held = room.grow_to(300, 299).await.unwrap_err();
        assert_eq!(held, BudgetHeld { kept: 700, needed: 200, limit: 800 });
        drop(kept);
        room.grow_to(300, 299).await.unwrap();
    }

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }
}

//! Several threads for one read, one core used well before a second one is.
//!
//! The first worker is the caller's own task. When it does little but decode, another thread starts, with connections of its own, and takes
//! about half of the ranges; a worker whose ranges are done takes half of another's. A range is with one worker at a time, so that its
//! records come in order whoever reads them, and no fetched byte ever changes threads.

use super::{
    ReadProgress, ReadSettings,
    range::RangeReader,
    tools::Tools,
    worker::{Share, Slot},
};
use crate::{Error, RecordWriter, Result};
use ottla_client::Client;
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// How long a worker is watched before another one starts beside it.
const WATCH: Duration = Duration::from_millis(10);
/// A share that would be read in less time than this is not worth a hand-over.
const SHARE_MIN: Duration = Duration::from_millis(10);

/// What the workers of a read have in common.
pub(super) struct Crew<W> {
    pub(super) fail_on_data_loss: bool,
    pub(super) progress: Arc<ReadProgress>,
    workers_max: usize,
    ranges: usize,
    state: Mutex<State<W>>,
    /// Shares that are waited for and not yet given; asked after each piece.
    wanted: AtomicUsize,
    stopped: AtomicBool,
    changed: Notify,
}

struct State<W> {
    workers: usize,
    waiting: usize,
    given: Vec<Vec<Slot<W>>>,
    done: Vec<Slot<W>>,
    failure: Option<Failure>,
}

/// Why a worker's thread ended early.
enum Failure {
    Error(Error),
    Panic(Box<dyn Any + Send>),
}

impl<W: RecordWriter> Crew<W> {
    pub(super) fn new(settings: &ReadSettings, ranges: usize, progress: &Arc<ReadProgress>) -> Self {
        Self {
            fail_on_data_loss: settings.fail_on_data_loss,
            progress: progress.clone(),
            workers_max: settings.parallelism.clamp(1, ranges.max(1)),
            ranges,
            state: Mutex::new(State { workers: 1, waiting: 0, given: Vec::new(), done: Vec::new(), failure: None }),
            wanted: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    /// Reads all ranges to their ends and finishes their writers; the first failure ends the others. Dropping the future ends them too.
    pub(super) async fn read(self, client: &Client, slots: Vec<Slot<W>>) -> Result<Vec<RangeReader>> {
        let ranges = self.ranges;
        let crew = StopOnDrop(Arc::new(self));
        let result = crew.0.work(client, slots).await;
        if result.is_err() || crew.0.is_stopped() {
            // Whoever gets the error may begin anew: nobody else writes then.
            crew.0.stop();
            crew.0.alone().await;
        }
        result?;
        let mut done = {
            let mut state = crew.0.state();
            match state.failure.take() {
                Some(Failure::Error(error)) => return Err(error),
                Some(Failure::Panic(panic)) => {
                    drop(state);
                    resume_unwind(panic)
                }
                None => std::mem::take(&mut state.done),
            }
        };
        done.sort_unstable_by_key(|slot| slot.index);
        // Nothing may be committed for a range that ended early, whatever the reason.
        if done.len() != ranges {
            return Err(Error::Unfinished { range: None });
        }
        let mut readers = Vec::with_capacity(ranges);
        for slot in done {
            if !slot.reader.is_done() {
                return Err(Error::Unfinished { range: Some(slot.reader.range) });
            }
            slot.writer.finish().await?;
            readers.push(slot.reader);
        }
        Ok(readers)
    }

    /// One worker: reads its ranges, then what others give it, until all are done.
    async fn work(self: &Arc<Self>, client: &Client, slots: Vec<Slot<W>>) -> Result<()> {
        let mut tools = Tools::new(client, self.workers_max);
        let mut next = Some(slots);
        while let Some(slots) = next {
            self.read_share(client, slots, &mut tools).await?;
            next = self.next_share().await;
        }
        Ok(())
    }

    async fn read_share(self: &Arc<Self>, client: &Client, slots: Vec<Slot<W>>, tools: &mut Tools) -> Result<()> {
        let mut share = Share::start(client, slots);
        let (start, mut offsets) = (Instant::now(), 0_i64);
        let mut watch = Watch::start();
        loop {
            if self.is_stopped() {
                return Ok(());
            }
            let next = tokio::select! {
                biased;
                next = share.next() => next,
                () = self.stopped() => return Ok(()),
            };
            let begun = Instant::now();
            match next {
                Some(Ok(fetch)) => offsets += share.piece(&fetch, self, tools).await?,
                Some(Err(error)) => share.fetch_failed(error, self)?,
                None => break,
            }
            let is_busy = watch.decoded(begun);
            if is_busy || self.wanted.load(Ordering::Relaxed) > 0 {
                let a_while = start.elapsed().as_secs_f64() / SHARE_MIN.as_secs_f64();
                #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "an estimate")]
                let offsets_min = (offsets as f64 / a_while.max(1.0)) as i64;
                self.share_out(client, &mut share, offsets_min.max(1));
            }
        }
        self.state().done.extend(share.into_slots());
        self.changed.notify_waiters();
        Ok(())
    }

    /// Gives half of a share to a worker that waits, or to a new one if there may be one more.
    fn share_out(self: &Arc<Self>, client: &Client, share: &mut Share<W>, offsets_min: i64) {
        let mut state = self.state();
        if state.waiting > state.given.len() {
            let slots = share.split(offsets_min);
            if !slots.is_empty() {
                state.given.push(slots);
                self.note_wanted(&state);
                drop(state);
                self.changed.notify_waiters();
            }
            return;
        }
        if state.workers >= self.workers_max {
            return;
        }
        let slots = share.split(offsets_min);
        if slots.is_empty() {
            return;
        }
        state.workers += 1;
        // Until the thread is there, the ranges lie where any worker finds them.
        state.given.push(slots);
        drop(state);
        let (crew, client) = (self.clone(), client.for_thread());
        let started = thread::Builder::new().name("ottla-read".to_owned()).spawn(move || crew.thread(&client));
        // A system that has no thread to give leaves the others to read alone.
        if started.is_err() {
            self.state().workers -= 1;
        }
    }

    /// A further worker's thread.
    fn thread(self: Arc<Self>, client: &Client) {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            self.state().workers -= 1;
            self.changed.notify_waiters();
            return;
        };
        let work = || {
            runtime.block_on(async {
                match self.next_share().await {
                    Some(slots) => self.work(client, slots).await,
                    None => Ok(()),
                }
            })
        };
        let failure = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Failure::Error(error)),
            Err(panic) => Some(Failure::Panic(panic)),
        };
        {
            let mut state = self.state();
            state.workers -= 1;
            if let Some(failure) = failure {
                state.failure.get_or_insert(failure);
                self.stopped.store(true, Ordering::Release);
            }
        }
        self.changed.notify_waiters();
        // A name look-up that hangs in the system must not hold the thread up.
        runtime.shutdown_background();
    }

    /// Ranges that another worker gives away; `None` when all are done, or the read was stopped.
    async fn next_share(&self) -> Option<Vec<Slot<W>>> {
        let mut waits = false;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut state = self.state();
                let given = state.given.pop();
                let over = self.stopped.load(Ordering::Acquire) || state.done.len() == self.ranges;
                let goes_on = given.is_none() && !over;
                if goes_on != waits {
                    waits = goes_on;
                    state.waiting = if waits { state.waiting + 1 } else { state.waiting - 1 };
                }
                self.note_wanted(&state);
                if !goes_on {
                    return given.filter(|_| !over);
                }
            }
            changed.await;
        }
    }

    fn note_wanted(&self, state: &State<W>) {
        self.wanted.store(state.waiting.saturating_sub(state.given.len()), Ordering::Relaxed);
    }
}

impl<W> Crew<W> {
    fn state(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Waits until all workers but the caller have ended.
    async fn alone(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.state().workers <= 1 {
                return;
            }
            changed.await;
        }
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Resolves when the read was stopped.
    pub(super) async fn stopped(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.stopped.load(Ordering::Acquire) {
                return;
            }
            changed.await;
        }
    }
}

/// Ends all workers with the caller's future, whether it came to its end or was dropped.
struct StopOnDrop<W>(Arc<Crew<W>>);

impl<W> Drop for StopOnDrop<W> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// How much of its time a worker decodes.
struct Watch {
    since: Instant,
    decoding: Duration,
}

impl Watch {
    fn start() -> Self {
        Self { since: Instant::now(), decoding: Duration::ZERO }
    }

    /// A piece was decoded, from `start` to now. Says whether decoding took most of the last while. False until a while has passed.
    fn decoded(&mut self, start: Instant) -> bool {
        self.decoding += start.elapsed();
        let elapsed = self.since.elapsed();
        if elapsed < WATCH {
            return false;
        }
        let decoding = std::mem::replace(self, Self::start()).decoding;
        decoding >= elapsed * 4 / 5
    }
}

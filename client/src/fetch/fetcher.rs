//! The reader's side of the engine: what comes out of it, and what it is told.

use super::{CompletedFetch, FetchError, FetchTarget, budget::Budget, engine::Engine};
use crate::Client;
use std::sync::{Arc, PoisonError};
use tokio::{
    sync::{Mutex, Notify, mpsc},
    task::AbortHandle,
};

/// Reads many ranges of partitions; see [`Fetcher::next`].
#[derive(Debug)]
pub struct Fetcher {
    fetched: Mutex<mpsc::UnboundedReceiver<Result<CompletedFetch, FetchError>>>,
    commands: mpsc::UnboundedSender<Command>,
    blocked: Arc<Blocked>,
    engine: AbortHandle,
}

/// What readers tell the engine.
#[derive(Debug)]
pub(super) enum Command {
    Done(usize),
    Seek(usize, i64),
    Finish(usize),
}

impl Fetcher {
    /// Begins to fetch `targets`. Must be called within a tokio runtime.
    pub fn start(client: &Client, targets: Vec<FetchTarget>) -> Self {
        let (fetched_sender, fetched) = mpsc::unbounded_channel();
        let (commands, receiver) = mpsc::unbounded_channel();
        let blocked = Arc::new(Blocked::new(client.shared.budget.clone()));
        let engine = Engine::new(client.clone(), targets, fetched_sender, commands.clone(), blocked.clone());
        let engine = tokio::spawn(engine.run(receiver)).abort_handle();
        Self { fetched: Mutex::new(fetched), commands, blocked, engine }
    }

    /// The next answer of any target, or `None` when all are over. Several tasks may wait here; a target's answers come in order, each only
    /// after the one before was dropped.
    ///
    /// # Errors
    /// [`FetchErrorKind::OutOfRange`](super::FetchErrorKind::OutOfRange) leaves the choice to the caller;
    /// [`FetchErrorKind::BudgetHeld`](super::FetchErrorKind::BudgetHeld) comes again and again until some of the bytes kept are dropped; after
    /// all others the target is over. Other targets go on.
    pub async fn next(&self) -> Option<Result<CompletedFetch, FetchError>> {
        let mut fetched = self.fetched.lock().await;
        loop {
            let changed = self.blocked.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            // What has come goes first.
            match fetched.try_recv() {
                Ok(fetched) => return Some(fetched),
                Err(mpsc::error::TryRecvError::Disconnected) => return None,
                Err(mpsc::error::TryRecvError::Empty) => {}
            }
            if let Some(error) = self.blocked.error() {
                return Some(Err(error));
            }
            tokio::select! {
                fetched = fetched.recv() => return fetched,
                () = changed => {}
            }
        }
    }

    /// Goes on at `offset` with a target that was out of range.
    pub fn seek(&self, target: usize, offset: i64) {
        // The engine ends only when all targets are over.
        let _ = self.commands.send(Command::Seek(target, offset));
    }

    /// Fetches nothing more of a target, and hands out nothing more of it.
    pub fn finish(&self, target: usize) {
        let _ = self.commands.send(Command::Finish(target));
    }
}

/// The request that only kept bytes are in the way of, for as long as that is so.
#[derive(Debug)]
pub(super) struct Blocked {
    budget: Arc<Budget>,
    request: std::sync::Mutex<Option<BlockedRequest>>,
    changed: Notify,
}

#[derive(Debug)]
struct BlockedRequest {
    bytes: usize,
    error: FetchError,
}

impl Blocked {
    fn new(budget: Arc<Budget>) -> Self {
        Self { budget, request: std::sync::Mutex::default(), changed: Notify::new() }
    }

    /// A request of `bytes` can't be sent, as `error` says for its first target.
    pub(super) fn set(&self, bytes: usize, error: FetchError) {
        *self.request.lock().unwrap_or_else(PoisonError::into_inner) = Some(BlockedRequest { bytes, error });
        self.changed.notify_waiters();
    }

    pub(super) fn clear(&self) {
        *self.request.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What to tell a reader, if it is still true: bytes may have been dropped since, and the engine not yet have run.
    fn error(&self) -> Option<FetchError> {
        let request = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        let BlockedRequest { bytes, error } = request.as_ref()?;
        let held = self.budget.held_by_user(*bytes)?;
        Some(FetchError { source: held.into(), ..error.clone() })
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.engine.abort();
    }
}

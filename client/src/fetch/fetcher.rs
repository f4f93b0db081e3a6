//! The reader's side of the engine: what comes out of it, and what it is told.

use super::{CompletedFetch, FetchError, FetchTarget, engine::Engine};
use crate::Client;
use tokio::{
    sync::{Mutex, mpsc},
    task::AbortHandle,
};

/// Reads many ranges of partitions; see [`Fetcher::next`].
#[derive(Debug)]
pub struct Fetcher {
    fetched: Mutex<mpsc::UnboundedReceiver<Result<CompletedFetch, FetchError>>>,
    commands: mpsc::UnboundedSender<Command>,
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
        let engine = Engine::new(client.clone(), targets, fetched_sender, commands.clone());
        let engine = tokio::spawn(engine.run(receiver)).abort_handle();
        Self { fetched: Mutex::new(fetched), commands, engine }
    }

    /// The next answer of any target, or `None` when all are over. Several tasks may wait here; a target's answers come in order, each only
    /// after the one before was dropped.
    ///
    /// # Errors
    /// [`FetchErrorKind::OutOfRange`](super::FetchErrorKind::OutOfRange) leaves the choice to the caller; after all others the target is over. Other targets go on.
    pub async fn next(&self) -> Option<Result<CompletedFetch, FetchError>> {
        self.fetched.lock().await.recv().await
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

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.engine.abort();
    }
}

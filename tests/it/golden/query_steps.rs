//! The steps of streaming queries: the only file that touches the query API.

use std::path::{Path, PathBuf};

use super::answer::{Answer, Failure};
use super::scenario::{End, Result, Start, Trigger};

/// How a query is brought to its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    Await,
    Stop,
}

/// The queries of one scenario.
pub(super) struct Queries {
    bootstrap: String,
    /// The scenario's folder, with a checkpoint in each folder of it.
    work: PathBuf,
}

impl Queries {
    pub(super) fn new(bootstrap: &str, work: &Path) -> Self {
        Self { bootstrap: bootstrap.to_owned(), work: work.to_owned() }
    }

    fn not_there<T>(&self, what: &str) -> Result<T> {
        Err(format!("streams are not there yet: {what}, with {} and {}", self.bootstrap, self.work.display()))
    }

    /// Starts a query; `Some` says why it did not start.
    pub(super) async fn start(&mut self, start: &Start) -> Result<Option<Failure>> {
        let trigger = match start.trigger {
            Trigger::ProcessingTime(interval) | Trigger::Continuous(interval) => format!("{interval:?}"),
            Trigger::AvailableNow | Trigger::Once => "one run".to_owned(),
        };
        let (fail, slow, topic) = (start.fail_at_batch, start.slow, &start.sink_topic);
        self.not_there(&format!("{} by {trigger}, failing at {fail:?}, slow by {slow:?}, to {topic:?}", start.query))
    }

    /// Waits until everything that is there is processed.
    pub(super) async fn process_all_available(&mut self, query: &str) -> Result<()> {
        self.not_there(query)
    }

    /// The query's end: `progress` and `sink` of its answer, and why it failed.
    pub(super) async fn end(&mut self, end: &End, ending: Ending) -> Result<Answer> {
        self.not_there(&format!("{ending:?} {}, {} for {:?}", end.query, end.full_progress, end.timeout))
    }

    /// Stops what a scenario has left running.
    pub(super) async fn stop_all(&mut self) {}
}

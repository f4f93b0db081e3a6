//! Queries: batches of what is new, one after the other, with what was done written down.

mod builder;
mod control;
mod listener;
mod micro_batch;
mod observer;
mod process;
mod progress;
mod run;
mod source;
mod stores;
mod trigger;

pub use builder::{QueryBuilder, RetryPolicy, RunnableQuery};
pub use listener::{QueryIdle, QueryListener, QueryStarted, QueryTerminated};
pub use micro_batch::{MicroBatch, MicroBatchReader};
pub use progress::{QueryProgress, SinkProgress, SourceProgress};
pub use trigger::{Trigger, TriggerError};

pub(crate) use source::{Source, Span, changed, ids};

use crate::{Error, RangeCounts, StreamOptions};
use control::Control;
use progress::ProgressLog;
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};
use tokio::sync::watch;
use uuid::Uuid;

/// What a query's function may fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A query that runs in a task of its own: batch after batch of what is new in its sources.
///
/// The order of a batch is: plan, write `offsets/N`, read and process, write `commits/N`, commit to the group. Wherever the process dies, nothing
/// is lost, and nothing is committed that was not processed: the next run does the same batch again, with the same id and the same ranges.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use ottla_stream::{MicroBatch, StreamOptions, StreamingQuery, Trigger};
///
/// let options = StreamOptions::stream_from_pairs([("kafka.bootstrap.servers", "localhost:9092"), ("subscribe", "logs")])?;
/// let query = StreamingQuery::builder([options])
///     .checkpoint("/var/lib/jobs/count")
///     .commit_group("count")
///     .trigger(Trigger::AvailableNow)
///     .foreach_batch(|batch: MicroBatch, batch_id| async move {
///         let mut records = 0;
///         batch.for_each(|_| records += 1).await?;
///         println!("batch {batch_id} has {records} records in {} ranges", batch.offset_ranges().len());
///         Ok(())
///     })
///     .start()?;
/// query.await_termination().await?;
/// # Ok(())
/// # }
/// ```
///
/// Dropping the handle stops the query at once: a batch at work is given up, and run again by the next start.
#[derive(Debug)]
pub struct StreamingQuery {
    id: String,
    run_id: String,
    name: Option<String>,
    control: Arc<Control>,
    log: Arc<Mutex<ProgressLog>>,
    ended: watch::Receiver<Option<Result<(), QueryError>>>,
}

impl StreamingQuery {
    /// A query of these sources, each with its own offsets; several are read as a union.
    pub fn builder(sources: impl IntoIterator<Item = StreamOptions>) -> QueryBuilder {
        QueryBuilder::new(sources.into_iter().collect())
    }

    /// The query's id, a UUID: the checkpoint's, the same over restarts. Without a checkpoint a new one each time.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The id of this run, a UUID.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The query's name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether it still runs.
    pub fn is_active(&self) -> bool {
        self.ended.borrow().is_none()
    }

    /// Waits until the query ends.
    ///
    /// # Errors
    /// What it ended with.
    pub async fn await_termination(&self) -> Result<(), QueryError> {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or(Ok(())),
            // The task is gone without a word: its runtime has ended.
            Err(_) => Err(self.error(Error::Unfinished { range: None })),
        }
    }

    /// Asks the query to end, and waits for it. A batch at work is finished if that takes no longer than the
    /// [`stop_timeout`](QueryBuilder::stop_timeout), and given up otherwise: the next start runs it again.
    ///
    /// # Errors
    /// What it ended with: offsets that a store did not take in time, too.
    pub async fn stop(&self) -> Result<(), QueryError> {
        self.control.request_stop(true);
        self.await_termination().await
    }

    /// Asks the query to end at once, and waits for it. A batch at work is given up: the next start runs it again.
    ///
    /// # Errors
    /// What it ended with.
    pub async fn abandon(&self) -> Result<(), QueryError> {
        self.control.request_stop(false);
        self.await_termination().await
    }

    /// Waits until everything that is in the sources now was processed, or the query ends.
    ///
    /// # Errors
    /// What the query ended with.
    pub async fn process_all_available(&self) -> Result<(), QueryError> {
        tokio::select! {
            ended = self.await_termination() => ended,
            () = self.control.all_processed() => Ok(()),
        }
    }

    /// The last batches' progress, oldest first: about a hundred of them.
    pub fn recent_progress(&self) -> Vec<QueryProgress> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).recent()
    }

    /// The newest progress.
    pub fn last_progress(&self) -> Option<QueryProgress> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).last()
    }

    /// What was looked at and kept in the batches that are done. A batch that was read twice counts twice.
    pub fn counts(&self) -> RangeCounts {
        self.control.counts()
    }

    /// How many commits to stores beside the checkpoint failed; each is tried again with the next batch.
    pub fn failed_commits(&self) -> u64 {
        self.control.failed_commits()
    }
}

impl StreamingQuery {
    fn error(&self, source: Error) -> QueryError {
        let (id, run_id) = (self.id.clone(), self.run_id.clone());
        QueryError { id, run_id, batch_id: self.control.batch_at_work(), source: Arc::new(source) }
    }
}

impl Drop for StreamingQuery {
    fn drop(&mut self) {
        self.control.request_stop(false);
    }
}

/// Why a query ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueryError {
    /// The query's id.
    pub id: String,
    /// The id of the run.
    pub run_id: String,
    /// The batch at work, if there was one. It is not committed, and the next start runs it again.
    pub batch_id: Option<i64>,
    /// What went wrong.
    pub source: Arc<Error>,
}

impl QueryError {
    fn new(id: Uuid, run_id: Uuid, batch_id: Option<i64>, source: Error) -> Self {
        Self { id: id.to_string(), run_id: run_id.to_string(), batch_id, source: Arc::new(source) }
    }

    /// A name for programs: Spark's where Spark has one.
    pub fn condition(&self) -> &'static str {
        self.source.condition()
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.batch_id {
            Some(batch_id) => write!(f, "the query stopped in batch {batch_id}"),
            None => f.write_str("the query stopped"),
        }
    }
}

impl std::error::Error for QueryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}

/// Now, in milliseconds since the epoch.
fn wall_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

//! Who wants to hear of a query.

use super::QueryProgress;

/// Hears what a query does. The calls come one after the other from the query's own task, which waits for each: a listener that has more to
/// do hands it on.
pub trait QueryListener: Send + Sync + 'static {
    /// The query was started.
    fn started(&self, _started: &QueryStarted) {}

    /// A batch was committed.
    fn progress(&self, _progress: &QueryProgress) {}

    /// There is nothing new: at the start, or for ten seconds since the last batch or the last time that this was said.
    fn idle(&self, _idle: &QueryIdle) {}

    /// Something that the query goes on from, and that somebody should know: what is gone with `failOnDataLoss=false`, a commit that failed
    /// beside a checkpoint. A sentence.
    fn warning(&self, _warning: &str) {}

    /// The query has ended, by itself or with an error.
    fn terminated(&self, _terminated: &QueryTerminated) {}
}

/// A query was started.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct QueryStarted {
    /// The query's id, a UUID: the checkpoint's, the same over restarts.
    pub id: String,
    /// The id of this run, a UUID.
    pub run_id: String,
    /// The query's name, if it has one.
    pub name: Option<String>,
    /// When, in milliseconds since the epoch.
    pub timestamp_ms: i64,
}

/// A query has nothing to do.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct QueryIdle {
    /// The query's id, a UUID: the checkpoint's, the same over restarts.
    pub id: String,
    /// The id of this run, a UUID.
    pub run_id: String,
    /// When the trigger began that found nothing, in milliseconds since the epoch.
    pub timestamp_ms: i64,
}

/// A query has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct QueryTerminated {
    /// The query's id, a UUID: the checkpoint's, the same over restarts.
    pub id: String,
    /// The id of this run, a UUID.
    pub run_id: String,
    /// What stopped it, with all causes. `None`: it was done, or was told to stop.
    pub exception: Option<String>,
    /// The error's name for programs, which is Spark's where Spark has one.
    pub condition: Option<&'static str>,
}

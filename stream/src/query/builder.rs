//! How a query is put together, and what must hold before it starts.

use super::{
    BoxError, Control, MicroBatch, QueryError, QueryListener, StreamingQuery, Trigger,
    observer::Observer,
    process::{ForeachBatch, IntoSink, Process},
    progress::ProgressLog,
    run::{ENDLESS, Run, Setup, panicked},
};
use crate::{
    Error, Filter, OffsetStore, OptionError, Result, Sink, StoreUrl, StreamOptions, checkpoint::Checkpoint,
    options::check_group,
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::watch;
use uuid::Uuid;

/// How long a query may take to stop, if nothing else is said.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// How often a batch that failed is run again before the query stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// How often a batch is run at most, the first time counted. At least 1.
    pub attempts: u32,
    /// The pause between two attempts.
    pub pause: Duration,
}

impl RetryPolicy {
    /// A batch is run `attempts` times at most, with a pause between.
    pub fn new(attempts: u32, pause: Duration) -> Self {
        Self { attempts: attempts.max(1), pause }
    }
}

impl Default for RetryPolicy {
    /// The first failure stops the query.
    fn default() -> Self {
        Self::new(1, Duration::ZERO)
    }
}

/// A query that is not started yet; made by [`StreamingQuery::builder`].
#[must_use]
pub struct QueryBuilder {
    sources: Vec<StreamOptions>,
    name: Option<String>,
    checkpoint: Option<String>,
    trigger: Trigger,
    filter: Filter,
    commit_group: Option<String>,
    stores: Vec<(usize, Arc<dyn OffsetStore>)>,
    store_urls: Vec<StoreUrl>,
    listeners: Vec<Arc<dyn QueryListener>>,
    retry: RetryPolicy,
    parallelism: usize,
    stop_timeout: Duration,
}

impl QueryBuilder {
    pub(super) fn new(sources: Vec<StreamOptions>) -> Self {
        Self {
            sources,
            name: None,
            checkpoint: None,
            trigger: Trigger::default(),
            filter: Filter::always(),
            commit_group: None,
            stores: Vec::new(),
            store_urls: Vec::new(),
            listeners: Vec::new(),
            retry: RetryPolicy::default(),
            parallelism: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            stop_timeout: STOP_TIMEOUT,
        }
    }

    /// The name in its progress. Default: the option `queryName`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The directory that it keeps its state in, in Spark's layout: a path or a `file:` URL. Default: the option `checkpointLocation`.
    /// Without one there must be a store for each source, which the query goes on from.
    pub fn checkpoint(mut self, location: impl Into<String>) -> Self {
        self.checkpoint = Some(location.into());
        self
    }

    /// When it makes a batch. Default: as soon as there is something new.
    pub fn trigger(mut self, trigger: Trigger) -> Self {
        self.trigger = trigger;
        self
    }

    /// Which records the function or sink sees. What is committed stays the same. Default: all.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// The group that the end offsets are committed to, of all sources that don't name their own. Default: the option
    /// `kafka.consumer.commit.groupid`.
    pub fn commit_group(mut self, group: impl Into<String>) -> Self {
        self.commit_group = Some(group.into());
        self
    }

    /// Another store for the offsets of the source with this number (from 0, in the order given).
    /// Sources may share one if they don't share partitions.
    pub fn offset_store(mut self, source: usize, store: Arc<dyn OffsetStore>) -> Self {
        self.stores.push((source, store));
        self
    }

    /// Another store for the offsets of all sources, by its URL. Of ZooKeeper, the options `ottla.zookeeper.*` of each source say how it is
    /// reached.
    pub fn offset_store_url(mut self, url: StoreUrl) -> Self {
        self.store_urls.push(url);
        self
    }

    /// Somebody who is told what the query does. Several may be.
    pub fn listener(mut self, listener: impl QueryListener) -> Self {
        self.listeners.push(Arc::new(listener));
        self
    }

    /// What happens to a batch that failed. Default: the query stops, with the batch uncommitted.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// How many threads a sink's batch is read by at most. Default: one for each core.
    pub fn parallelism(mut self, threads: usize) -> Self {
        self.parallelism = threads.max(1);
        self
    }

    /// How long it may take to stop: to finish the batch at work, and to commit what stores do not have yet. Default: 20 s.
    pub fn stop_timeout(mut self, timeout: Duration) -> Self {
        // So that there is a time when it is over.
        self.stop_timeout = timeout.min(ENDLESS);
        self
    }

    /// Calls `function` for each batch, with its id. An `Err`, and a panic, leaves the batch uncommitted; see [`retry`](Self::retry).
    ///
    /// A batch that is run again, after a restart or by the retry policy, has the same id and the same ranges: a function that remembers the
    /// last id, or whose effects may be repeated, has each record's effect once.
    pub fn foreach_batch<F, R>(self, function: F) -> RunnableQuery
    where
        F: Fn(MicroBatch, i64) -> R + Send + Sync + 'static,
        R: Future<Output = std::result::Result<(), BoxError>> + Send + 'static,
    {
        RunnableQuery { query: self, process: Arc::new(ForeachBatch(function)) }
    }

    /// Writes what the filter keeps to `sink`, which progress calls `description`.
    pub fn sink<S: Sink>(self, sink: S, description: impl Into<String>) -> RunnableQuery {
        RunnableQuery { query: self, process: Arc::new(IntoSink { sink, description: description.into() }) }
    }
}

/// A query with something to do: all but started.
#[must_use]
pub struct RunnableQuery {
    query: QueryBuilder,
    process: Arc<dyn Process>,
}

impl RunnableQuery {
    /// Opens the checkpoint and starts the query in a task of the tokio runtime at hand. The brokers are asked there: that one is not
    /// reachable, or a topic not there, is an error of the query and not of this call.
    ///
    /// # Errors
    /// Options that don't fit together, a checkpoint that can't be used or is in use, and the lack of one and of stores in its place.
    pub fn start(self) -> Result<StreamingQuery> {
        let Self { query, process } = self;
        let (checkpoint, name) = query.check()?;
        if matches!(query.trigger, Trigger::Continuous(_)) && !(process.is_sink() && query.sources.len() == 1) {
            return Err(OptionError::new(
                "a continuous trigger hands one source's records to a sink as they come: it has no batches for a function, and no union",
            )
            .into());
        }
        if process.needs_exact_replay() && (checkpoint.is_none() || matches!(query.trigger, Trigger::Continuous(_))) {
            let lacking = if checkpoint.is_none() { "without a checkpoint" } else { "in continuous mode" };
            return Err(OptionError::new(format!(
                "{} keeps each record once only if a batch that is run again has the same records, which {lacking} is not so",
                process.description()
            ))
            .into());
        }
        let ignored = match query.trigger {
            Trigger::Continuous(_) => ignored_in_continuous_mode(&query.sources),
            _ => Vec::new(),
        };
        let checkpoint = checkpoint.map(|location| Checkpoint::open(&location)).transpose()?.map(Arc::new);
        let id = checkpoint.as_ref().map_or_else(Uuid::new_v4, |checkpoint| checkpoint.id());
        let control = Arc::new(Control::new(query.stop_timeout));
        let log = Arc::new(Mutex::new(ProgressLog::default()));
        let observer = Observer::new(id, name.clone(), query.listeners, log.clone());
        ignored.iter().for_each(|warning| observer.warn(warning));
        let run_id = observer.run_id();
        let mut sources = query.sources;
        for source in &mut sources {
            source.commit_group = source.commit_group.take().or_else(|| query.commit_group.clone());
        }
        let setup = Setup {
            id,
            trigger: query.trigger,
            filter: query.filter,
            parallelism: query.parallelism,
            process,
            retry: query.retry,
            sources,
            stores: query.stores,
            store_urls: query.store_urls,
            checkpoint,
        };
        let (sender, ended) = watch::channel(None);
        let (task_control, watched) = (control.clone(), control.clone());
        let running = tokio::spawn(Run::start_and_run(setup, observer, task_control));
        // In a task of its own, so that a listener or a store that panics ends the query with an error, and not without a word.
        tokio::spawn(async move {
            let result = running.await.unwrap_or_else(|error| {
                let batch_id = watched.batch_at_work();
                Err(QueryError::new(id, run_id, batch_id, panicked(batch_id, error)))
            });
            sender.send_replace(Some(result));
        });
        Ok(StreamingQuery { id: id.to_string(), run_id: run_id.to_string(), name, control, log, ended })
    }
}

/// Limits of batches, which continuous mode doesn't have.
fn ignored_in_continuous_mode(sources: &[StreamOptions]) -> Vec<String> {
    let given = |source: &StreamOptions| {
        [
            ("maxOffsetsPerTrigger", source.max_offsets_per_trigger.is_some()),
            ("minOffsetsPerTrigger", source.min_offsets_per_trigger.is_some()),
            ("minPartitions", source.min_partitions.is_some()),
            ("maxRecordsPerPartition", source.max_records_per_partition.is_some()),
        ]
    };
    let ignored = sources.iter().flat_map(given).filter(|(_, is_given)| *is_given);
    ignored.map(|(name, _)| format!("option '{name}' has no effect in continuous mode, which has no batches")).collect()
}

impl QueryBuilder {
    /// Holds the parts against each other. Returns where the checkpoint is and the query's name.
    fn check(&self) -> Result<(Option<String>, Option<String>)> {
        if self.sources.is_empty() {
            return Err(OptionError::new("a query needs a source").into());
        }
        let checkpoint =
            self.one("checkpointLocation", self.checkpoint.as_ref(), |options| &options.checkpoint_location)?;
        let name = self.one("queryName", self.name.as_ref(), |options| &options.query_name)?;
        for source in &self.sources {
            check_group(&source.starting, source.commit_group.as_deref().or(self.commit_group.as_deref()))?;
        }
        let has_store = |(index, source): (usize, &StreamOptions)| {
            source.commit_group.is_some()
                || self.commit_group.is_some()
                || !self.store_urls.is_empty()
                || self.stores.iter().any(|(of, _)| *of == index)
        };
        if checkpoint.is_none() && !self.sources.iter().enumerate().all(has_store) {
            return Err(Error::from(OptionError::new(
                "a query needs a place that remembers how far it is: set checkpointLocation (--checkpoint), or \
                 kafka.consumer.commit.groupid (--commit-group) for every source, or an offset store (--offset-store)",
            )));
        }
        if let Some(url) = self.store_urls.iter().find(|url| !url.is_writable()) {
            return Err(OptionError::new(format!(
                "'{url}' can't be a query's store: only its own query writes a checkpoint"
            ))
            .into());
        }
        if let Some((index, _)) = self.stores.iter().find(|(index, _)| *index >= self.sources.len()) {
            return Err(OptionError::new(format!(
                "there is an offset store for source {index}, and only {} sources, counted from 0",
                self.sources.len()
            ))
            .into());
        }
        Ok((checkpoint, name))
    }

    /// A value of the whole query, which may stand here or in the options of any source, and must be the same everywhere.
    fn one(
        &self,
        option: &str,
        here: Option<&String>,
        of: impl Fn(&StreamOptions) -> &Option<String>,
    ) -> Result<Option<String>> {
        let mut values = here.into_iter().chain(self.sources.iter().filter_map(|source| of(source).as_ref()));
        let Some(value) = values.next() else { return Ok(None) };
        match values.find(|other| *other != value) {
            Some(other) => {
                Err(OptionError::new(format!("option '{option}' is both '{value}' and '{other}': a query has one"))
                    .into())
            }
            None => Ok(Some(value.clone())),
        }
    }
}

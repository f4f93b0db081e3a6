//! The loop of a query: look what is new, write down what will be done, do it, write down that it is done (DESIGN, P2; SPARK 5).

mod continuous;
mod recover;

use super::{
    Control, QueryError, RetryPolicy, Trigger,
    micro_batch::{MicroBatch, Tally},
    observer::{BatchReport, Observer, SourceReport},
    process::Process,
    source::{Look, Source, Span},
    stores::Stores,
    trigger::wait,
    wall_ms,
};
use crate::{
    Client, Error, Filter, LostRange, OffsetStore, Offsets, Result, StoreCommit, StoreUrl, StreamOptions,
    batch::{moved_back, recreated_topics},
    checkpoint::{Checkpoint, CheckpointError, OffsetsEntry, OwnEntry},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;
use uuid::Uuid;

/// The pause after a look that found nothing, at least: brokers are not asked in a tight loop.
const IDLE_PAUSE: Duration = Duration::from_millis(100);
/// So many partitions are looked at without a longer pause; with more of them it grows, so that an idle query costs next to nothing.
const IDLE_PARTITIONS: usize = 200;
/// The longest such pause.
const IDLE_PAUSE_MAX: Duration = Duration::from_millis(500);

/// What a query is made of.
pub(super) struct Setup {
    pub(super) id: Uuid,
    pub(super) trigger: Trigger,
    pub(super) filter: Filter,
    pub(super) parallelism: usize,
    pub(super) process: Arc<dyn Process>,
    pub(super) retry: RetryPolicy,
    pub(super) sources: Vec<StreamOptions>,
    pub(super) stores: Vec<(usize, Arc<dyn OffsetStore>)>,
    pub(super) store_urls: Vec<StoreUrl>,
    pub(super) checkpoint: Option<Arc<Checkpoint>>,
}

/// Longer than any query runs.
pub(super) const ENDLESS: Duration = Duration::from_secs(u32::MAX as u64);

/// A query at work.
pub(super) struct Run {
    id: Uuid,
    trigger: Trigger,
    filter: Filter,
    parallelism: usize,
    process: Arc<dyn Process>,
    retry: RetryPolicy,
    sources: Vec<Source>,
    checkpoint: Option<Arc<Checkpoint>>,
    stores: Stores,
    observer: Observer,
    control: Arc<Control>,
    /// The next batch.
    batch_id: i64,
    /// A batch that an earlier run began.
    pending: Option<Batch>,
    told_of_memory: bool,
}

/// A batch that is written down, or will be.
pub(super) struct Batch {
    id: i64,
    sources: Vec<BatchSource>,
}

/// A source's part in a batch.
struct BatchSource {
    /// `None` while the source has no partition.
    span: Option<Span>,
    /// The start for progress: none before the source's first batch.
    shown_start: Option<Offsets>,
    /// What there was when it was planned; not known of a batch that is run again.
    latest: Option<Offsets>,
}

/// What a trigger came to.
#[derive(PartialEq, Eq)]
enum Outcome {
    Ran,
    Idle,
}

impl Run {
    /// Makes contact with the clusters, and runs the query to its end.
    pub(super) async fn start_and_run(
        setup: Setup,
        observer: Observer,
        control: Arc<Control>,
    ) -> std::result::Result<(), QueryError> {
        observer.started();
        let failed = |error| QueryError::new(setup.id, observer.run_id(), None, error);
        let connected = tokio::select! {
            connected = connect(&setup) => connected.map(Some).map_err(failed),
            () = control.must_stop() => Ok(None),
        };
        let (sources, stores) = match connected {
            Ok(Some(connected)) => connected,
            // Told to stop before it began, or failed.
            result => {
                let result = result.map(|_| ());
                observer.terminated(result.as_ref().err());
                return result;
            }
        };
        let run = Self {
            id: setup.id,
            trigger: setup.trigger,
            filter: setup.filter,
            parallelism: setup.parallelism,
            process: setup.process,
            retry: setup.retry,
            sources,
            stores,
            checkpoint: setup.checkpoint,
            observer,
            control,
            batch_id: 0,
            pending: None,
            told_of_memory: false,
        };
        run.run().await
    }

    /// Runs until the trigger is done, the query is stopped, or something fails.
    async fn run(mut self) -> std::result::Result<(), QueryError> {
        let control = self.control.clone();
        let result = tokio::select! {
            result = self.work() => result,
            () = control.must_stop() => Ok(()),
        };
        let flushed = self.flush().await;
        let batch_id = control.batch_at_work();
        let result =
            result.and(flushed).map_err(|error| QueryError::new(self.id, self.observer.run_id(), batch_id, error));
        self.observer.terminated(result.as_ref().err());
        result
    }

    async fn work(&mut self) -> Result<()> {
        match self.trigger {
            Trigger::Continuous(interval) => self.continuous(interval).await,
            _ => self.triggers().await,
        }
    }

    async fn triggers(&mut self) -> Result<()> {
        self.recover().await?;
        loop {
            let begun_ms = wall_ms();
            let look = self.control.begin_look();
            let outcome = self.trigger(begun_ms).await?;
            if outcome == Outcome::Idle {
                self.control.found_nothing(look);
                let refreshed = self.stores.refresh().await;
                self.after_commit(refreshed)?;
            }
            match self.trigger {
                Trigger::Once => return Ok(()),
                Trigger::AvailableNow if outcome == Outcome::Idle => return Ok(()),
                Trigger::ProcessingTime(interval) => {
                    let due = wait(interval, begun_ms, wall_ms());
                    let pause = if outcome == Outcome::Idle { due.max(self.idle_pause()) } else { due };
                    tokio::time::sleep(pause).await;
                }
                _ => {}
            }
            if self.control.is_stopping() {
                return Ok(());
            }
        }
    }

    fn idle_pause(&self) -> Duration {
        let partitions: usize =
            self.sources.iter().filter_map(|source| source.position.as_ref().map(Offsets::len)).sum();
        let times = u32::try_from(partitions.div_ceil(IDLE_PARTITIONS).max(1)).unwrap_or(u32::MAX);
        IDLE_PAUSE.saturating_mul(times).min(IDLE_PAUSE_MAX)
    }

    async fn trigger(&mut self, begun_ms: i64) -> Result<Outcome> {
        let mut report = BatchReport::new(begun_ms);
        let batch = match self.pending.take() {
            Some(batch) => batch,
            None => match self.construct(begun_ms, &mut report).await? {
                Some(batch) => batch,
                None => return Ok(Outcome::Idle),
            },
        };
        self.run_batch(batch, report).await?;
        Ok(Outcome::Ran)
    }

    /// Looks what is new, and writes down the batch if there is any.
    async fn construct(&mut self, begun_ms: i64, report: &mut BatchReport) -> Result<Option<Batch>> {
        let looking = Instant::now();
        let mut looks = Vec::new();
        for index in 0..self.sources.len() {
            self.begin_source(index).await?;
            if let Some(source) = self.sources.get_mut(index) {
                looks.push(source.look(begun_ms, self.trigger != Trigger::Once).await?);
            }
        }
        report.took("latestOffset", looking);
        if !looks.iter().any(|look| look.is_news) {
            if self.observer.tells_idle() {
                let mut report = std::mem::replace(report, BatchReport::new(begun_ms));
                let sources = self.sources.iter().zip(looks);
                report.sources = sources.map(|(source, look)| idle_report(source, look)).collect();
                self.observer.idle(report, self.batch_id, self.process.description());
            } else {
                self.observer.begun(begun_ms);
            }
            return Ok(None);
        }
        let sources: Vec<BatchSource> =
            self.sources.iter().zip(looks).map(|(source, look)| batch_source(source, look)).collect();
        let ends: Vec<_> = sources.iter().map(|source| source.span.as_ref().map(|span| &span.end)).collect();
        self.stores.check_apart(&ends)?;
        let batch = Batch { id: self.batch_id, sources };
        if let Some(checkpoint) = &self.checkpoint {
            let writing = Instant::now();
            let entry = OffsetsEntry {
                metadata: Some(checkpoint.next_metadata(begun_ms)),
                sources: batch.spans().map(|span| span.map(|span| span.end.clone())).collect(),
                own: Some(OwnEntry {
                    sources: batch.spans().map(|span| span.map(|span| span.own.clone()).unwrap_or_default()).collect(),
                }),
            };
            self.control.at_work(Some(batch.id));
            let id = batch.id;
            on_disk(checkpoint, move |checkpoint| checkpoint.write_offsets(id, &entry)).await?;
            report.took("walCommit", writing);
        }
        Ok(Some(batch))
    }

    /// Plans, reads, processes, and writes down that it is done; in this order.
    async fn run_batch(&mut self, batch: Batch, mut report: BatchReport) -> Result<()> {
        self.control.at_work(Some(batch.id));
        let mut attempt = 1;
        let (micro_batch, tallies) = loop {
            match self.process(&batch, &mut report).await {
                Ok(done) => break done,
                Err(error) if attempt < self.retry.attempts && !is_final(&error) => {
                    self.observer.warn(&format!(
                        "batch {} failed and is run again ({attempt} of {} attempts): {}",
                        batch.id,
                        self.retry.attempts,
                        ottla_client::report(&error)
                    ));
                    attempt += 1;
                    tokio::time::sleep(self.retry.pause).await;
                }
                Err(error) => return Err(error),
            }
        };
        let lost = micro_batch.lost_by_source();
        self.done(&batch, tallies, &lost, report).await?;
        self.control.at_work(None);
        Ok(())
    }

    /// A batch was processed (with `lost` by source): writes that down, tells it, and commits it to the stores.
    async fn done(
        &mut self,
        batch: &Batch,
        tallies: Vec<Tally>,
        lost: &[Vec<LostRange>],
        mut report: BatchReport,
    ) -> Result<()> {
        let committing = Instant::now();
        if let Some(checkpoint) = &self.checkpoint {
            let id = batch.id;
            on_disk(checkpoint, move |checkpoint| checkpoint.write_commit(id)).await?;
        }
        report.took("commitOffsets", committing);
        let commits = self.commits_after(batch, &tallies, lost);
        (0..).zip(lost).for_each(|(source, lost)| self.stores.move_back(source, lost));
        for (source, part) in self.sources.iter_mut().zip(&batch.sources) {
            if let Some(span) = &part.span {
                source.move_to(span.end.clone(), span.own.topic_ids.clone());
            }
        }
        self.batch_id = batch.id.saturating_add(1);
        lost.iter().flatten().for_each(|lost| self.observer.warn(&lost.to_string()));
        self.report(batch, tallies, lost, report);
        let committed = self.stores.commit(&commits).await;
        self.after_commit(committed)?;
        if let Some(checkpoint) = &self.checkpoint {
            self.warn_all(checkpoint.warnings());
        }
        self.warn_of_memory();
        Ok(())
    }

    /// Tells once of a batch that took more memory than there was to be. All clients have one budget.
    fn warn_of_memory(&mut self) {
        let Some(client) = self.sources.first().map(|source| &source.client) else { return };
        let excess = client.memory_excess_bytes();
        if excess > 0 && !std::mem::replace(&mut self.told_of_memory, true) {
            let limit = client.config().memory_bytes;
            self.observer.warn(&format!(
                "a single answer or record batch is larger than what was left of ottla.memory.bytes={limit}: {excess} bytes more were held"
            ));
        }
    }

    async fn process(&mut self, batch: &Batch, report: &mut BatchReport) -> Result<(MicroBatch, Vec<Tally>)> {
        let planning = Instant::now();
        let mut parts = Vec::new();
        for (source, part) in self.sources.iter().zip(&batch.sources) {
            if let Some(span) = &part.span {
                parts.push(source.plan(span, self.parallelism).await?);
            } else {
                parts.push(source.nothing(self.parallelism));
            }
        }
        report.took("getBatch", planning);
        let planning = Instant::now();
        let micro_batch = MicroBatch::new(batch.id, self.filter.clone(), parts);
        report.took("queryPlanning", planning);
        let adding = Instant::now();
        let processing = self.process.clone().process(micro_batch.clone());
        let mut task = AbortOnDrop(tokio::spawn(processing));
        match (&mut task.0).await {
            Ok(result) => result?,
            Err(error) => return Err(panicked(Some(batch.id), error)),
        }
        report.took("addBatch", adding);
        let tallies = micro_batch.tallies();
        Ok((micro_batch, tallies))
    }

    fn report(&mut self, batch: &Batch, tallies: Vec<Tally>, lost: &[Vec<LostRange>], mut report: BatchReport) {
        let hits: u64 = tallies.iter().map(|tally| tally.counts.hits).sum();
        tallies.iter().for_each(|tally| self.control.count(tally.counts));
        for (((source, part), tally), lost) in self.sources.iter().zip(&batch.sources).zip(tallies).zip(lost) {
            report.sources.push(SourceReport {
                strategy: source.options.strategy.clone(),
                start: part.shown_start.clone(),
                end: part.span.as_ref().map(|span| span.end.clone()),
                latest: part.latest.clone(),
                records: tally.counts.records,
                lost: lost.clone(),
            });
        }
        let output_rows = self.process.is_sink().then_some(hits);
        self.observer.progress(report, batch.id, self.process.description(), output_rows);
    }

    /// What the stores are to hold after a batch of this run.
    fn commits_after(&self, batch: &Batch, tallies: &[Tally], lost: &[Vec<LostRange>]) -> Vec<Option<StoreCommit>> {
        let commit = |((part, tally), lost): ((&BatchSource, &Tally), &Vec<LostRange>)| {
            let span = part.span.as_ref()?;
            // Of partitions that nothing was read of, the epoch at the end is that of the last batch.
            let mut leader_epochs = span.own.leader_epochs.clone();
            leader_epochs.extend(tally.leader_epochs.iter().map(|(partition, epoch)| (partition.clone(), *epoch)));
            Some(StoreCommit {
                batch_id: batch.id,
                query_id: self.id.to_string(),
                offsets: span.end.clone(),
                from_offsets: span.begin_offsets(),
                leader_epochs,
                topic_ids: span.own.topic_ids.clone(),
                recreated: recreated_topics(&tally.lost),
                repeated: false,
                moved_back: moved_back(lost),
            })
        };
        batch.sources.iter().zip(tallies).zip(lost).map(commit).collect()
    }

    /// Gives the stores what they do not have yet.
    async fn flush(&mut self) -> Result<()> {
        let deadline = self.control.stop_deadline();
        let warnings = self.stores.flush(deadline).await?;
        self.warn_all(warnings);
        Ok(())
    }

    /// Counts what failed, also where it stops the query, and tells what there is to warn of.
    fn after_commit(&self, committed: Result<Vec<String>>) -> Result<()> {
        self.control.note_failed_commits(self.stores.failed());
        self.warn_all(committed?);
        Ok(())
    }

    fn warn_all(&self, warnings: Vec<String>) {
        warnings.iter().for_each(|warning| self.observer.warn(warning));
    }
}

impl Batch {
    fn spans(&self) -> impl Iterator<Item = Option<&Span>> {
        self.sources.iter().map(|source| source.span.as_ref())
    }
}

/// A client for each source, and the stores. Sources with the same settings share a client; all of them share one byte budget.
async fn connect(setup: &Setup) -> Result<(Vec<Source>, Stores)> {
    let mut sources: Vec<Source> = Vec::new();
    let mut stores = Stores::new(setup.checkpoint.is_none());
    for (index, options) in setup.sources.iter().enumerate() {
        let mut options = options.clone();
        if matches!(setup.trigger, Trigger::Continuous(_)) {
            // A read without an end waits for what is to come; that nothing comes is no error.
            options.client.poll_timeout = ENDLESS;
        }
        let client = match sources.iter().find(|source| source.options.client == options.client) {
            Some(same) => same.client.clone(),
            None => {
                Client::connect_beside(sources.first().map(|source| &source.client), options.client.clone()).await?
            }
        };
        for (_, store) in setup.stores.iter().filter(|(of, _)| *of == index) {
            stores.add(index, store.clone(), &options);
        }
        for url in &setup.store_urls {
            let store = stores.opened(url, &client, &options)?;
            stores.add(index, store, &options);
        }
        if let Some(group) = &options.commit_group {
            stores.add_group(index, group, &client, &options);
        }
        sources.push(Source::new(options, client));
    }
    Ok((sources, stores))
}

/// Calls the checkpoint on a thread that may block.
async fn on_disk<T: Send + 'static>(
    checkpoint: &Arc<Checkpoint>,
    call: impl FnOnce(&Checkpoint) -> std::result::Result<T, CheckpointError> + Send + 'static,
) -> Result<T> {
    let checkpoint = checkpoint.clone();
    match tokio::task::spawn_blocking(move || call(&checkpoint)).await {
        Ok(result) => Ok(result?),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime ends, and nobody is left to see this.
        Err(_) => Err(Error::Unfinished { range: None }),
    }
}

fn batch_source(source: &Source, look: Look) -> BatchSource {
    // As Spark, which has no offsets of a source before it has a partition.
    let is_nothing = look.end.is_empty() && !source.began;
    let span = (!is_nothing).then(|| Span {
        start: source.position.clone().unwrap_or_default(),
        start_ids: source.topic_ids().clone(),
        end: look.end,
        own: look.own,
    });
    let shown_start = if source.began { source.position.clone() } else { None };
    BatchSource { span, shown_start, latest: (!is_nothing).then_some(look.latest.offsets) }
}

fn idle_report(source: &Source, look: Look) -> SourceReport {
    SourceReport {
        strategy: source.options.strategy.clone(),
        start: source.position.clone(),
        end: source.position.clone(),
        latest: Some(look.latest.offsets),
        records: 0,
        lost: Vec::new(),
    }
}

/// Whether another try of the batch would come to the same.
fn is_final(error: &Error) -> bool {
    matches!(error, Error::DataLoss(_) | Error::Option(_) | Error::Plan { .. } | Error::Checkpoint(_))
}

pub(super) fn panicked(batch_id: Option<i64>, error: tokio::task::JoinError) -> Error {
    let Ok(panic) = error.try_into_panic() else { return Error::Unfinished { range: None } };
    let message = match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => panic.downcast_ref::<&str>().map_or("a value that is no text", |text| *text).to_owned(),
    };
    Error::Panicked { batch_id, message }
}

/// A task that ends with whoever waits for it.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

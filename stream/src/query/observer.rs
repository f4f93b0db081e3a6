//! Who is told of a query: its listeners, and whoever asks for its recent progress.

use super::{
    QueryError, QueryIdle, QueryListener, QueryProgress, QueryStarted, QueryTerminated, SinkProgress, SourceProgress,
    progress::{ProgressLog, SourceBatch, TriggerTimes},
    wall_ms,
};
use crate::{ConsumerStrategy, LostRange, Offsets};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};
use uuid::Uuid;

/// What a trigger did, as it is gathered.
#[derive(Debug)]
pub(super) struct BatchReport {
    begun_ms: i64,
    durations: BTreeMap<&'static str, u64>,
    pub(super) sources: Vec<SourceReport>,
}

/// A source's part of it.
#[derive(Debug)]
pub(super) struct SourceReport {
    pub(super) strategy: ConsumerStrategy,
    pub(super) start: Option<Offsets>,
    pub(super) end: Option<Offsets>,
    pub(super) latest: Option<Offsets>,
    pub(super) records: u64,
    pub(super) lost: Vec<LostRange>,
}

impl BatchReport {
    pub(super) fn new(begun_ms: i64) -> Self {
        Self { begun_ms, durations: BTreeMap::new(), sources: Vec::new() }
    }

    /// A step that began at `since` is done.
    pub(super) fn took(&mut self, step: &'static str, since: Instant) {
        let took = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        *self.durations.entry(step).or_default() += took;
    }
}

/// Tells everybody.
pub(super) struct Observer {
    id: Uuid,
    run_id: Uuid,
    name: Option<String>,
    listeners: Vec<Arc<dyn QueryListener>>,
    log: Arc<Mutex<ProgressLog>>,
    /// When the last trigger that is told of began.
    previous_ms: Option<i64>,
}

impl Observer {
    pub(super) fn new(
        id: Uuid,
        name: Option<String>,
        listeners: Vec<Arc<dyn QueryListener>>,
        log: Arc<Mutex<ProgressLog>>,
    ) -> Self {
        Self { id, run_id: Uuid::new_v4(), name, listeners, log, previous_ms: None }
    }

    pub(super) fn run_id(&self) -> Uuid {
        self.run_id
    }

    pub(super) fn started(&self) {
        let started = QueryStarted {
            id: self.id.to_string(),
            run_id: self.run_id.to_string(),
            name: self.name.clone(),
            timestamp_ms: wall_ms(),
        };
        self.listeners.iter().for_each(|listener| listener.started(&started));
    }

    pub(super) fn warn(&self, warning: &str) {
        self.listeners.iter().for_each(|listener| listener.warning(warning));
    }

    pub(super) fn progress(&mut self, report: BatchReport, batch_id: i64, sink: &str, output_rows: Option<u64>) {
        let (now_ms, begun_ms) = (wall_ms(), report.begun_ms);
        let progress = self.query_progress(report, batch_id, now_ms, sink, output_rows);
        self.log().push(now_ms, progress.clone());
        self.listeners.iter().for_each(|listener| listener.progress(&progress));
        self.previous_ms = Some(begun_ms);
    }

    /// Whether a trigger that found nothing new is worth an entry now.
    pub(super) fn tells_idle(&self) -> bool {
        self.log().tells_idle(wall_ms())
    }

    /// A trigger found nothing new, and that is worth an entry.
    pub(super) fn idle(&mut self, report: BatchReport, batch_id: i64, sink: &str) {
        let (now_ms, begun_ms) = (wall_ms(), report.begun_ms);
        let progress = self.query_progress(report, batch_id, now_ms, sink, None);
        self.log().push(now_ms, progress);
        let (id, run_id) = (self.id.to_string(), self.run_id.to_string());
        let idle = QueryIdle { id, run_id, timestamp_ms: begun_ms };
        self.listeners.iter().for_each(|listener| listener.idle(&idle));
        self.begun(begun_ms);
    }

    /// A trigger began, of which nothing is told.
    pub(super) fn begun(&mut self, begun_ms: i64) {
        self.previous_ms = Some(begun_ms);
    }

    pub(super) fn terminated(&self, error: Option<&QueryError>) {
        let terminated = QueryTerminated {
            id: self.id.to_string(),
            run_id: self.run_id.to_string(),
            exception: error.map(|error| ottla_client::report(error)),
            condition: error.map(QueryError::condition),
        };
        self.listeners.iter().for_each(|listener| listener.terminated(&terminated));
    }

    fn query_progress(
        &self,
        report: BatchReport,
        batch_id: i64,
        now_ms: i64,
        sink: &str,
        num_output_rows: Option<u64>,
    ) -> QueryProgress {
        let times = TriggerTimes { previous_start_ms: self.previous_ms, start_ms: report.begun_ms, end_ms: now_ms };
        let mut duration_ms = report.durations;
        duration_ms.insert("triggerExecution", times.duration_ms());
        let source = |source: SourceReport| {
            SourceProgress::new(
                SourceBatch {
                    strategy: &source.strategy,
                    start: source.start.as_ref(),
                    end: source.end.as_ref(),
                    latest: source.latest.as_ref(),
                    num_input_rows: source.records,
                    lost: source.lost,
                },
                &times,
            )
        };
        QueryProgress {
            id: self.id.to_string(),
            run_id: self.run_id.to_string(),
            name: self.name.clone(),
            timestamp_ms: report.begun_ms,
            batch_id,
            batch_duration_ms: times.duration_ms(),
            duration_ms,
            sources: report.sources.into_iter().map(source).collect(),
            sink: SinkProgress { description: sink.to_owned(), num_output_rows },
        }
    }

    fn log(&self) -> std::sync::MutexGuard<'_, ProgressLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The steps of streaming queries: the only file that touches the query API.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ottla_stream::{BoxError, MicroBatch, QueryProgress, StreamOptions, StreamingQuery, Trigger};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::answer::{Answer, Failure};
use super::batch_steps;
use super::recorder::Recorder;
use super::scenario::{self, End, Result, Start};

/// How long what is there may take to be processed.
const PROCESS_LIMIT: Duration = Duration::from_secs(120);

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
    started: BTreeMap<String, Started>,
}

struct Started {
    query: StreamingQuery,
    /// What the sink saw, batch by batch.
    seen: Seen,
}

type Seen = Arc<Mutex<Vec<Value>>>;

impl Queries {
    pub(super) fn new(bootstrap: &str, work: &Path) -> Self {
        Self { bootstrap: bootstrap.to_owned(), work: work.to_owned(), started: BTreeMap::new() }
    }

    /// Starts a query; `Some` says why it did not start.
    pub(super) async fn start(&mut self, start: &Start) -> Result<Option<Failure>> {
        let pairs = batch_steps::options(&start.read, &self.bootstrap);
        let options = match StreamOptions::stream_from_pairs(pairs) {
            Ok(options) => options,
            Err(error) => return Ok(Some(Failure::new(error.condition(), &error))),
        };
        let seen = Seen::default();
        let builder = StreamingQuery::builder([options])
            .checkpoint(self.work.join(&start.checkpoint).display().to_string())
            .trigger(trigger(&start.trigger))
            .filter(batch_steps::filter(&start.read));
        let started = if start.sink_topic.is_some() {
            // What such a query writes is nowhere compared.
            builder.sink(Recorder::new(&start.read), "recorder").start()
        } else {
            builder.foreach_batch(sink(start, &seen)).start()
        };
        match started {
            Ok(query) => {
                self.started.insert(start.query.clone(), Started { query, seen });
                Ok(None)
            }
            Err(error) => Ok(Some(Failure::new(error.condition(), &error))),
        }
    }

    /// Waits until everything that is there is processed.
    pub(super) async fn process_all_available(&mut self, query: &str) -> Result<()> {
        let started = self.get(query)?;
        let done = timeout(PROCESS_LIMIT, started.query.process_all_available()).await;
        let done = done.map_err(|_| format!("{query} did not process all in {PROCESS_LIMIT:?}"))?;
        done.map_err(|error| Failure::new(error.condition(), &error).message)
    }

    /// The query's end: `progress` and `sink` of its answer, and why it failed.
    pub(super) async fn end(&mut self, end: &End, ending: Ending) -> Result<Answer> {
        let Started { query, seen } = self.get(&end.query)?;
        let ended = match ending {
            Ending::Await => timeout(end.timeout, query.await_termination()).await,
            Ending::Stop => timeout(end.timeout, query.stop()).await,
        };
        let ended = ended.map_err(|_| format!("{} did not end in {:?}", end.query, end.timeout))?;
        let failure = ended.err().map(|error| Failure::new(error.condition(), &error));
        let progress: Vec<Value> = query.recent_progress().iter().map(|one| entry(one, end.full_progress)).collect();
        let sink = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Answer { value: json!({"progress": progress, "sink": sink}), failure })
    }

    /// Stops what a scenario has left running.
    pub(super) async fn stop_all(&mut self) {
        for (_, started) in std::mem::take(&mut self.started) {
            // Whatever it failed of was told when the scenario asked.
            let _ = timeout(PROCESS_LIMIT, started.query.stop()).await;
        }
    }

    fn get(&self, query: &str) -> Result<&Started> {
        self.started.get(query).ok_or_else(|| format!("the query {query} was not started"))
    }
}

fn trigger(trigger: &scenario::Trigger) -> Trigger {
    match *trigger {
        scenario::Trigger::ProcessingTime(interval) => Trigger::ProcessingTime(interval),
        scenario::Trigger::Continuous(interval) => Trigger::Continuous(interval),
        scenario::Trigger::AvailableNow => Trigger::AvailableNow,
        scenario::Trigger::Once => Trigger::Once,
    }
}

/// What `foreachBatch` does in the scenarios: it notes what it sees, and fails or takes its time where the scenario says so.
fn sink(
    start: &Start,
    seen: &Seen,
) -> impl Fn(MicroBatch, i64) -> std::pin::Pin<Box<dyn Future<Output = std::result::Result<(), BoxError>> + Send>>
+ Send
+ Sync
+ 'static {
    let (read, fail_at_batch, slow) = (start.read.clone(), start.fail_at_batch, start.slow);
    let seen = seen.clone();
    move |batch, batch_id| {
        let (recorder, seen) = (Recorder::new(&read), seen.clone());
        Box::pin(async move {
            batch.write_to(&recorder).await?;
            let mut answer = recorder.answer(batch.offset_ranges().len());
            answer["batchId"] = json!(batch_id);
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
            if fail_at_batch == Some(batch_id) {
                return Err(format!("injected failure in batch {batch_id}").into());
            }
            if let Some(time) = slow {
                tokio::time::sleep(time).await;
            }
            Ok(())
        })
    }
}

/// A progress entry as the scenarios show it.
fn entry(progress: &QueryProgress, full: bool) -> Value {
    // Text that the library writes is JSON.
    let whole: Value = serde_json::from_str(&progress.json()).expect("JSON");
    let source = &whole["sources"][0];
    let mut entry = json!({"batchId": whole["batchId"], "numInputRows": whole["numInputRows"],
        "startOffset": source["startOffset"], "endOffset": source["endOffset"], "latestOffset": source["latestOffset"],
        "metrics": source["metrics"]});
    if full {
        entry["full"] = whole;
    }
    entry
}

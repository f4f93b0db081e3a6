//! `ottla run`: a query, told of on standard error, until it is done or is told to stop.

use super::{commit_group, parallelism, parse_filter};
use crate::{
    args::{Common, RunArgs, SinkUrl},
    failure::Failure,
    progress::Spinner,
    table::counted,
    tell::{tell, warn},
    totals::Totals,
    usage::Usage,
};
use ottla_stream::{
    FileSink, LineFormat, LineSink, NullSink, QueryBuilder, QueryListener, QueryProgress, RunnableQuery, StoreUrl,
    StreamOptions, StreamingQuery,
};
use serde_json::{Value, json};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};
use tokio::signal::unix::{SignalKind, signal};

pub(crate) async fn run(common: &Common, args: &RunArgs) -> Result<(), Failure> {
    let start = Instant::now();
    let filter = parse_filter(args.filter.as_deref())?;
    let sources = sources(common, args)?;
    let watcher = Arc::new(Watcher::new(common.json, args)?);
    let mut query = StreamingQuery::builder(sources)
        .trigger(args.trigger)
        .filter(filter)
        .parallelism(parallelism(common))
        .listener(Told(watcher.clone()));
    if let Some(group) = group(args)? {
        query = query.commit_group(group);
    }
    if let Some(url) = args.offset_store.as_ref().filter(|url| !matches!(url, StoreUrl::Group(_))) {
        query = query.offset_store_url(url.clone());
    }
    // Asked for before the query starts, so that none is missed.
    let failed = |error: io::Error| Failure::failed("SIGNAL", format!("waiting for signals: {error}"));
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    let query = with_sink(query, &args.sink)?.start()?;
    let (ended, interrupt) = tokio::select! {
        ended = query.await_termination() => (ended, false),
        _ = terminated.recv() => (stop(&query, &mut terminated, &mut interrupted).await, false),
        _ = interrupted.recv() => (stop(&query, &mut terminated, &mut interrupted).await, true),
    };
    watcher.spinner.clear();
    watcher.report(&Totals::since(start, Usage::default(), query.counts()), query.failed_commits());
    ended?;
    watcher.failure()?;
    if interrupt {
        Err(Failure::interrupted("interrupted; the batch at work was finished or given up"))
    } else {
        Ok(())
    }
}

/// Lets the batch at work finish; a second signal gives it up.
async fn stop(
    query: &StreamingQuery,
    terminated: &mut tokio::signal::unix::Signal,
    interrupted: &mut tokio::signal::unix::Signal,
) -> Result<(), ottla_stream::QueryError> {
    tokio::select! {
        ended = query.stop() => ended,
        _ = terminated.recv() => query.abandon().await,
        _ = interrupted.recv() => query.abandon().await,
    }
}

/// The options of each source, their warnings told.
fn sources(common: &Common, args: &RunArgs) -> Result<Vec<StreamOptions>, Failure> {
    let mut sources = Vec::new();
    for pairs in common.sources(&args.pairs())? {
        let options = StreamOptions::stream_from_pairs(pairs)?;
        options.warnings.iter().for_each(|warning| warn(common.json, warning));
        sources.push(options);
    }
    if let [source] = &sources[..] {
        commit_group(group(args)?, source.commit_group.as_deref())?;
    }
    Ok(sources)
}

/// The group that `--commit-group` names; `--offset-store group:G` is another word for it.
fn group(args: &RunArgs) -> Result<Option<&str>, Failure> {
    match &args.offset_store {
        Some(StoreUrl::Group(group)) => match args.commit_group.as_deref() {
            Some(other) if other != group => Err(Failure::usage(format!(
                "--offset-store is 'group:{group}' and --commit-group is '{other}': which of them?"
            ))),
            _ => Ok(Some(group)),
        },
        _ => commit_group(args.commit_group.as_deref(), None),
    }
}

fn with_sink(query: QueryBuilder, sink: &SinkUrl) -> Result<RunnableQuery, Failure> {
    Ok(match sink {
        SinkUrl::Console => {
            let sink = LineSink::new(LineFormat::Json, io::stdout())
                .map_err(|error| Failure::failed("SINK_FAILED", format!("starting the output: {error}")))?;
            query.sink(sink, "console:")
        }
        SinkUrl::Null => query.sink(NullSink, "null:"),
        SinkUrl::File(directory) => {
            let sink = FileSink::new(directory).map_err(ottla_stream::Error::from)?;
            query.sink(sink, format!("file:{}", directory.display()))
        }
    })
}

/// Hears of the query, and tells standard error and the progress file.
struct Watcher {
    json: bool,
    spinner: Spinner,
    progress: Option<Mutex<ProgressFile>>,
    seen: Mutex<Seen>,
}

struct ProgressFile {
    file: File,
    name: String,
    failure: Option<io::Error>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    batches: u64,
    lost_offsets: i64,
}

struct Told(Arc<Watcher>);

impl QueryListener for Told {
    fn progress(&self, progress: &QueryProgress) {
        self.0.saw(progress);
    }

    fn warning(&self, warning: &str) {
        self.0.spinner.suspend(|| warn(self.0.json, warning));
    }
}

impl Watcher {
    fn new(json: bool, args: &RunArgs) -> Result<Self, Failure> {
        let open = |path: &PathBuf| -> Result<_, Failure> {
            let name = path.display().to_string();
            let file = OpenOptions::new().create(true).append(true).open(path);
            let file =
                file.map_err(|error| Failure::failed("SINK_FAILED", format!("--progress-json {name}: {error}")))?;
            Ok(Mutex::new(ProgressFile { file, name, failure: None }))
        };
        let progress = args.progress_json.as_ref().map(open).transpose()?;
        Ok(Self { json, spinner: Spinner::new(), progress, seen: Mutex::default() })
    }

    fn saw(&self, progress: &QueryProgress) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.batches += 1;
        let lost = progress.sources.iter().flat_map(|source| &source.lost);
        seen.lost_offsets = lost.fold(seen.lost_offsets, |sum, lost| sum.saturating_add(lost.range.size()));
        self.spinner.set(format!("batch {}: {}", progress.batch_id, counted(progress.num_input_rows(), "record")));
        if let Some(file) = &self.progress {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            let line = progress.json() + "\n";
            // The query goes on: what it does is not lost with the line that tells of it.
            if let Err(error) = file.file.write_all(line.as_bytes())
                && file.failure.is_none()
            {
                self.spinner.suspend(|| warn(self.json, format_args!("--progress-json {}: {error}", file.name)));
                file.failure = Some(error);
            }
        }
    }

    /// A progress file that could not be written is a failed output.
    fn failure(&self) -> Result<(), Failure> {
        let Some(file) = &self.progress else { return Ok(()) };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        match file.failure.take() {
            Some(error) => Err(Failure::failed("SINK_FAILED", format!("--progress-json {}: {error}", file.name))),
            None => Ok(()),
        }
    }

    fn report(&self, totals: &Totals, failed_commits: u64) {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if self.json {
            let mut object = totals.count_fields();
            object.insert("batches".to_owned(), json!(seen.batches));
            object.insert("lostOffsets".to_owned(), json!(seen.lost_offsets));
            object.insert("failedCommits".to_owned(), json!(failed_commits));
            object.extend(totals.cost_fields());
            tell(Value::Object(object));
            return;
        }
        let lost = match seen.lost_offsets {
            0 => String::new(),
            lost => format!(", {} lost", counted(lost.unsigned_abs(), "offset")),
        };
        tell(format_args!(
            "{} in {}, {}{lost}; {}",
            totals.seen(),
            counted(seen.batches, "batch"),
            totals.kept(),
            totals.cost()
        ));
    }
}

//! `ottla offsets follow`: a query's checkpoint is watched, and what is done is stored elsewhere.

use super::{Stores, copy::check_copy, options};
use crate::{
    args::{Common, CopyArgs},
    failure::{Failure, exit},
    table::counted,
    tell::{tell, warn},
};
use ottla_client::report;
use ottla_stream::{CheckpointFollower, CheckpointOffsets, Followed, FollowedBatch, SourceOffset, StoreUrl};
use serde_json::json;
use std::{collections::BTreeSet, io, time::Duration};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep, timeout_at},
};

/// The pause between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The longest pause after failures.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long what is done may take to be stored after a signal.
const STOP_LIMIT: Duration = Duration::from_secs(10);

pub(super) async fn run(common: &Common, args: &CopyArgs) -> Result<(), Failure> {
    let StoreUrl::Checkpoint { location, source } = &args.from else {
        return Err(Failure::usage(format!("'{}' can't be followed: only checkpoint:DIR can", args.from)));
    };
    if args.change.dry_run {
        return super::copy::run(common, args).await;
    }
    check_copy(args)?;
    // Asked for before anything is done, so that none is missed.
    let failed = |error: io::Error| Failure::failed("SIGNAL", format!("waiting for signals: {error}"));
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut follower = None;
    let following = async {
        let options = options(common)?;
        let stores = Stores::connect(&options).await?;
        let store = stores.open(&args.to)?;
        let name = store.name();
        let checkpoint = CheckpointOffsets::new(location, *source)?;
        let new = CheckpointFollower::new(checkpoint, store, &stores.client)
            .topics(args.change.topics())
            .force(args.change.force)
            .recommit_interval(options.recommit_interval);
        let following = follower.insert(Following { follower: new, name, told: Told::new(common.json) });
        following.run().await
    };
    let interrupt = tokio::select! {
        ended = following => return ended,
        _ = terminated.recv() => false,
        _ = interrupted.recv() => true,
    };
    if let Some(mut following) = follower {
        // A second signal gives up.
        tokio::select! {
            ended = following.finish() => ended?,
            _ = terminated.recv() => return Err(gave_up(interrupt)),
            _ = interrupted.recv() => return Err(gave_up(interrupt)),
        }
    }
    if interrupt { Err(Failure::told_with(exit::INTERRUPTED)) } else { Ok(()) }
}

fn gave_up(interrupt: bool) -> Failure {
    let message = "stopped before the last look was over: what was done last may not be stored";
    if interrupt { Failure::interrupted(message) } else { Failure::failed("COMMIT_FAILED", message) }
}

struct Following {
    follower: CheckpointFollower,
    /// The store's.
    name: String,
    told: Told,
}

impl Following {
    /// Looks again and again. Ends only with what no further look can better.
    async fn run(&mut self) -> Result<(), Failure> {
        let mut pause = POLL_INTERVAL;
        loop {
            match self.follower.look().await {
                Ok(seen) => {
                    self.told.seen(&self.name, &seen);
                    pause = POLL_INTERVAL;
                }
                Err(error) if CheckpointFollower::is_final(&error) => return Err(error.into()),
                Err(error) => {
                    self.told.failed(&report(&error));
                    pause = (pause * 2).min(RETRY_PAUSE_MAX);
                }
            }
            sleep(pause).await;
        }
    }

    /// A last look, so that what was done until now is stored.
    async fn finish(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + STOP_LIMIT;
        let mut failure = None;
        loop {
            match timeout_at(deadline, self.follower.look()).await {
                Ok(Ok(seen)) => {
                    self.told.seen(&self.name, &seen);
                    return Ok(());
                }
                Ok(Err(error)) => failure = Some(Failure::from(error)),
                Err(_) => {}
            }
            if Instant::now() + POLL_INTERVAL >= deadline {
                break;
            }
            sleep(POLL_INTERVAL).await;
        }
        let waiting: Vec<String> = self.follower.waiting().await.iter().map(ToString::to_string).collect();
        let reason = failure.map(|failure| format!(": {failure}")).unwrap_or_default();
        if waiting.is_empty() {
            return Err(Failure::failed("FOLLOW_FAILED", format!("the last look at the checkpoint failed{reason}")));
        }
        Err(Failure::failed(
            "COMMIT_FAILED",
            format!("{} did not take the offsets of {} before the end{reason}", self.name, waiting.join(", ")),
        ))
    }
}

/// Tells standard error, but not the same twice in a row.
struct Told {
    json: bool,
    /// What is not yet over.
    trouble: Option<String>,
    /// What was warned of.
    warnings: BTreeSet<String>,
}

impl Told {
    fn new(json: bool) -> Self {
        Self { json, trouble: None, warnings: BTreeSet::new() }
    }

    fn failed(&mut self, trouble: &str) {
        if self.trouble.as_deref() != Some(trouble) {
            warn(self.json, format_args!("{trouble}: it will be tried again"));
            self.trouble = Some(trouble.to_owned());
        }
    }

    fn seen(&mut self, store: &str, seen: &Followed) {
        let batch = match seen {
            Followed::NotThere => {
                let trouble = "the checkpoint is not there yet";
                if self.trouble.as_deref() != Some(trouble) {
                    warn(self.json, format_args!("{trouble}: it is waited for"));
                    self.trouble = Some(trouble.to_owned());
                }
                return;
            }
            Followed::Batch(batch) => batch,
            _ => {
                self.trouble = None;
                return;
            }
        };
        self.trouble = None;
        self.warn_of(store, batch);
        if self.json {
            tell(batch_json(store, batch));
        } else {
            let again = if batch.repeated { " again" } else { "" };
            let committed = u64::try_from(batch.outcome.committed.len()).unwrap_or_default();
            tell(format_args!(
                "batch {}: {} committed{again} to {store}",
                batch.batch_id,
                counted(committed, "partition")
            ));
        }
    }

    /// What the user may not expect; each only when it was not so with the batch before.
    fn warn_of(&mut self, store: &str, batch: &FollowedBatch) {
        let refused = batch.refused.iter().map(|moved| match moved.from {
            _ if moved.to > moved.end => {
                format!("{} is not committed: it lies beyond the end of the log", moved.partition)
            }
            _ => format!("{store} is further already in {} and stays there", moved.partition),
        });
        let kept = batch
            .outcome
            .kept
            .keys()
            .map(|partition| format!("{store} is further already in {partition} and stays there"));
        let gone = batch.outcome.gone.iter().map(|partition| format!("{partition} is not committed: it is gone"));
        let left_out = batch.left_out.iter().map(|(partition, state)| format!("{partition} is not committed: {state}"));
        let not_offsets = batch
            .outcome
            .not_offsets
            .iter()
            .map(|(partition, bad)| format!("{store} held {bad} for {partition}, which is no offset"));
        let warnings: BTreeSet<String> = refused.chain(kept).chain(gone).chain(left_out).chain(not_offsets).collect();
        for warning in warnings.difference(&self.warnings) {
            warn(self.json, warning);
        }
        self.warnings = warnings;
    }
}

fn batch_json(store: &str, batch: &FollowedBatch) -> serde_json::Value {
    let offsets = |offsets: &std::collections::BTreeMap<ottla_client::TopicPartition, i64>| {
        let offsets: SourceOffset = offsets.iter().map(|(partition, offset)| (partition.clone(), *offset)).collect();
        serde_json::from_str::<serde_json::Value>(&offsets.to_string()).unwrap_or_default()
    };
    json!({
        "batchId": batch.batch_id,
        "queryId": batch.query_id,
        "store": store,
        "repeated": batch.repeated,
        "committed": offsets(&batch.outcome.committed),
    })
}

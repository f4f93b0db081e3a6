//! `ottla offsets set`, and what it has in common with `copy`: the table of changes, the checks, and the change.

use super::{Stores, check_writable, copy::source, options};
use crate::{
    args::{ChangeArgs, Common, SetArgs, SetTarget},
    cmd::{print, until_interrupted, warn_of},
    failure::Failure,
    table::{counted, table},
    tell::{tell, warn},
};
use ottla_client::Client;
use ottla_stream::{MoveChange, OffsetMove, OffsetMoves, OffsetStore, OffsetTarget};
use serde_json::json;

pub(super) async fn run(common: &Common, args: &SetArgs) -> Result<(), Failure> {
    check_writable(&args.store)?;
    let work = async {
        let options = options(common)?;
        let strategy = options.by_timestamp_strategy;
        let stores = Stores::connect(&options).await?;
        let store = stores.open(&args.store)?;
        let target = match &args.to {
            SetTarget::Earliest => OffsetTarget::Earliest,
            SetTarget::Latest => OffsetTarget::Latest,
            SetTarget::TimestampMs(timestamp_ms) => OffsetTarget::Timestamp { timestamp_ms: *timestamp_ms, strategy },
            SetTarget::Offsets(offsets) => OffsetTarget::Offsets(offsets.clone()),
            SetTarget::Store(url) => source(url, &stores).await?,
        };
        change(common, &args.change, &stores.client, &*store, &target).await
    };
    until_interrupted(work, || "interrupted".to_owned()).await
}

/// Shows what would change, and changes it, if that may be and is wanted.
pub(super) async fn change(
    common: &Common,
    args: &ChangeArgs,
    client: &Client,
    store: &dyn OffsetStore,
    target: &OffsetTarget,
) -> Result<(), Failure> {
    let moves = OffsetMoves::plan(store, client, target, &args.topics()).await?;
    tell_left_out(common.json, &moves);
    if moves.moves.is_empty() {
        let hint = match target {
            OffsetTarget::Earliest | OffsetTarget::Latest | OffsetTarget::Timestamp { .. } => {
                "name topics with --topic"
            }
            _ => "nothing of what is named is there, or can be stored",
        };
        let message = format!("there is nothing to set in {}: {hint}", store.name());
        return Err(Failure::failed("NOTHING_TO_SET", message));
    }
    print(&show(&moves, common.json))?;
    for moved in moves.moves.iter().filter(|moved| moved.below_log_start() > 0) {
        warn(
            common.json,
            format_args!(
                "{}: offset {} lies before the log start, {}: {} gone",
                moved.partition,
                moved.to,
                moved.earliest,
                are(moved.below_log_start())
            ),
        );
    }
    if !args.force
        && let Err(error) = moves.check()
    {
        let nothing = "nothing was changed; --force does it all the same";
        return Err(Failure::refused(error.condition(), format!("{error}: {nothing}")));
    }
    if args.dry_run {
        if !common.json {
            tell(format_args!("dry run: {} not changed", store.name()));
        }
        return Ok(());
    }
    let outcome = moves.apply(store, args.force).await?;
    warn_of(&store.name(), &outcome.not_offsets, common.json);
    if !common.json {
        let committed = u64::try_from(outcome.committed.len()).unwrap_or_default();
        tell(format_args!("{} set in {}", counted(committed, "partition"), store.name()));
    }
    let kept = outcome.kept.iter().map(|(partition, offset)| format!("{partition} was moved to {offset} meanwhile"));
    let gone = outcome.gone.iter().map(|partition| format!("{partition} was deleted meanwhile"));
    let unset: Vec<String> = kept.chain(gone).collect();
    if unset.is_empty() {
        return Ok(());
    }
    Err(Failure::failed("COMMIT_FAILED", format!("not set in {}: {}", store.name(), unset.join(", "))))
}

fn are(offsets: i64) -> String {
    let counted = counted(offsets.unsigned_abs(), "offset");
    format!("{counted} {}", if offsets == 1 { "is" } else { "are" })
}

pub(super) fn tell_left_out(as_json: bool, moves: &OffsetMoves) {
    warn_of("the source", &moves.not_offsets, as_json);
    for (partition, state) in &moves.left_out {
        warn(as_json, format_args!("{partition} is left out: {state}"));
    }
}

/// The table of changes, or lines of JSON.
fn show(moves: &OffsetMoves, as_json: bool) -> String {
    if as_json {
        return moves.moves.iter().map(|moved| format!("{}\n", move_json(moved))).collect();
    }
    let cells = |moved: &OffsetMove| {
        vec![
            moved.partition.topic.clone(),
            moved.partition.partition.to_string(),
            moved.from.map_or("-".to_owned(), |from| from.to_string()),
            moved.to.to_string(),
            moved.change.to_string(),
        ]
    };
    let cells: Vec<Vec<String>> = moves.moves.iter().map(cells).collect();
    table(&["TOPIC", "PARTITION", "FROM", "TO", "CHANGE"], &cells)
}

fn move_json(moved: &OffsetMove) -> serde_json::Value {
    let change = match moved.change {
        MoveChange::Forward(offsets) => Some(offsets),
        MoveChange::Back(offsets) => Some(-offsets),
        MoveChange::Unchanged => Some(0),
        _ => None,
    };
    json!({
        "topic": moved.partition.topic,
        "partition": moved.partition.partition,
        "from": moved.from,
        "to": moved.to,
        "change": change,
        "needsForce": moved.needs_force(),
    })
}

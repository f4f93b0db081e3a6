//! `ottla offsets validate`: what is wrong with what a store holds.

use super::{inspect, rows};
use crate::{
    args::{Common, ShowArgs},
    cmd::{print, until_interrupted},
    failure::{Failure, exit},
    table::counted,
    tell::tell,
};
use ottla_stream::{OffsetState, PartitionOffsets};
use serde_json::json;
use std::collections::BTreeMap;

pub(super) async fn run(common: &Common, args: &ShowArgs) -> Result<(), Failure> {
    let work = async {
        let (inspected, isolation) = inspect(common, &args.store, &args.topics()).await?;
        let not_ok: Vec<&PartitionOffsets> =
            inspected.partitions.iter().filter(|row| row.state != OffsetState::Ok).collect();
        if !not_ok.is_empty() {
            print(&rows(not_ok.iter().copied(), isolation, common.json))?;
        }
        let mut counts: BTreeMap<OffsetState, u64> = BTreeMap::new();
        inspected.partitions.iter().for_each(|row| *counts.entry(row.state).or_default() += 1);
        let valid = !counts.keys().any(|state| state.is_wrong());
        report(common.json, &counts, valid);
        if valid { Ok(()) } else { Err(Failure::told_with(exit::DATA_LOSS)) }
    };
    until_interrupted(work, || "interrupted".to_owned()).await
}

fn report(as_json: bool, counts: &BTreeMap<OffsetState, u64>, valid: bool) {
    if as_json {
        let counts: BTreeMap<String, u64> = counts.iter().map(|(state, count)| (state.to_string(), *count)).collect();
        tell(json!({"valid": valid, "partitions": counts.values().sum::<u64>(), "states": counts}));
        return;
    }
    let parts: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    tell(format_args!("{}: {}", counted(counts.values().sum(), "partition"), parts.join(", ")));
}

//! `ottla bench fetch`: a bounded read into nothing.

use super::report;
use crate::{
    args::{BenchFetchArgs, Common},
    cmd::{parse_filter, plan, source_options, until_interrupted, warn_of_memory},
    failure::Failure,
    progress::Bar,
    table::counted,
    tell::warn,
    totals::Totals,
    usage::Usage,
};
use ottla_stream::{NullSink, ReadProgress};
use serde_json::{Map, Value};
use std::time::Instant;

pub(super) async fn run(common: &Common, args: &BenchFetchArgs) -> Result<(), Failure> {
    let filter = parse_filter(args.filter.as_deref())?;
    let options = source_options(common, &args.source, None)?;
    if let Some(group) = &options.commit_group {
        warn(common.json, format_args!("nothing is committed to group '{group}': this only measures"));
    }
    let work = async {
        let (client, batch, settings) = plan(common, &options).await?;
        let progress = ReadProgress::shared();
        let offsets = batch.offset_ranges().map(|range| range.size().unsigned_abs()).sum();
        let bar = Bar::follow(progress.clone(), offsets);
        let (start, before) = (Instant::now(), Usage::now());
        let processed = batch.process(&client, &filter, &NullSink, &settings, &progress).await?;
        let totals = Totals::since(start, before, processed.counts());
        drop(bar);
        warn_of_memory(&client, common.json);
        Ok((processed, totals))
    };
    let (processed, totals) = until_interrupted(work, || "interrupted".to_owned()).await?;
    processed.lost().iter().for_each(|lost| warn(common.json, lost));
    let ranges = processed.ranges().len();
    let more = Map::from_iter([("ranges".to_owned(), Value::from(ranges))]);
    report(common.json, &totals, &counted(ranges as u64, "range"), more)
}

//! `ottla read`: plan, read, write out, commit; in this order.

use super::{commit_group, parse_filter, plan, source_options, until_interrupted, warn_of, warn_of_memory};
use crate::{
    args::{Common, Format, ReadArgs},
    failure::Failure,
    progress::Bar,
    table::counted,
    tell::{tell, warn},
    totals::Totals,
    usage::Usage,
};
use ottla_stream::{
    Client, CommitOutcome, Filter, LineFormat, LineSink, NullSink, PlannedBatch, ProcessedBatch, ReadProgress,
    ReadSettings,
};
use serde_json::{Value, json};
use std::{cell::Cell, collections::BTreeMap, time::Instant};

pub(crate) async fn run(common: &Common, args: &ReadArgs) -> Result<(), Failure> {
    let start = Instant::now();
    let filter = parse_filter(args.filter.as_deref())?;
    let options = source_options(common, &args.source, args.commit_group.as_deref())?;
    let group = commit_group(args.commit_group.as_deref(), options.commit_group.as_deref())?;
    let committing = Cell::new(false);
    let work = async {
        let (client, batch, mut settings) = plan(common, &options).await?;
        settings.records_max = args.max_records;
        let processed = process(&client, batch, &filter, args.format, &settings).await?;
        // Before anything else can fail: a loss is never silent.
        processed.lost().iter().for_each(|lost| warn(common.json, lost));
        warn_of_memory(&client, common.json);
        let mut committed = None;
        if let Some(group) = group {
            committing.set(true);
            committed = Some(processed.commit(&client, group, &query_id()).await?);
        }
        Ok((processed, committed))
    };
    let interrupted = || match (group, committing.get()) {
        (None, _) => "interrupted".to_owned(),
        (Some(group), false) => format!("interrupted; nothing was committed to group '{group}'"),
        (Some(group), true) => {
            format!(
                "interrupted while committing to group '{group}'; whether it has the offsets of the read is not known"
            )
        }
    };
    let (processed, committed) = until_interrupted(work, interrupted).await?;
    let totals = Totals::since(start, Usage::default(), processed.counts());
    report(common.json, &processed, group.zip(committed.as_ref()), &totals);
    if args.format == Format::None && !common.json {
        tell(totals.rates());
    }
    Ok(())
}

async fn process(
    client: &Client,
    batch: PlannedBatch,
    filter: &Filter,
    format: Format,
    settings: &ReadSettings,
) -> Result<ProcessedBatch, Failure> {
    let progress = ReadProgress::shared();
    let offsets = batch.offset_ranges().map(|range| range.size().unsigned_abs()).sum();
    let _bar = Bar::follow(progress.clone(), offsets);
    let lines = match format {
        Format::Json => LineFormat::Json,
        Format::Value => LineFormat::Value,
        Format::None => return Ok(batch.process(client, filter, &NullSink, settings, &progress).await?),
    };
    let sink = LineSink::new(lines, std::io::stdout())
        .map_err(|error| Failure::failed("SINK_FAILED", format!("starting the output: {error}")))?;
    Ok(batch.process(client, filter, &sink, settings, &progress).await?)
}

/// Names this run in the metadata of its commit.
pub(super) fn query_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn report(json: bool, processed: &ProcessedBatch, commit: Option<(&str, &CommitOutcome)>, totals: &Totals) {
    if let Some((group, outcome)) = commit {
        warn_of(&format!("group '{group}'"), &outcome.not_offsets, json);
        for partition in &outcome.gone {
            warn(
                json,
                format_args!(
                    "{partition} was deleted, or created again, since it was read: nothing is committed for it to group '{group}'"
                ),
            );
        }
        for (partition, offset) in &outcome.kept {
            warn(json, format_args!("group '{group}' is further already in {partition} and stays at {offset}"));
        }
    }
    let ranges = processed.ranges().iter().filter(|range| range.reached).count();
    let lost: i64 = processed.lost().iter().map(|lost| lost.range.size()).sum();
    if json {
        let committed = commit.map(|(_, outcome)| {
            let mut topics: BTreeMap<&str, BTreeMap<String, i64>> = BTreeMap::new();
            for (partition, offset) in &outcome.committed {
                topics.entry(&partition.topic).or_default().insert(partition.partition.to_string(), *offset);
            }
            topics
        });
        let mut object = totals.count_fields();
        object.insert("ranges".to_owned(), json!(ranges));
        object.insert("lostOffsets".to_owned(), json!(lost));
        object.insert("committed".to_owned(), json!(committed));
        object.extend(totals.cost_fields());
        tell(Value::Object(object));
        return;
    }
    let lost = if lost == 0 { String::new() } else { format!(", {} lost", counted(lost.unsigned_abs(), "offset")) };
    let committed = commit.map_or(String::new(), |(group, outcome)| {
        format!(", {} committed to group '{group}'", counted(outcome.committed.len() as u64, "partition"))
    });
    tell(format_args!(
        "{} in {}, {}{lost}{committed}; {}",
        totals.seen(),
        counted(ranges as u64, "range"),
        totals.kept(),
        totals.cost()
    ));
}

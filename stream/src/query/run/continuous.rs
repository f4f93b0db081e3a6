//! Continuous mode: records are handed on as they arrive, and what was handed on is written down once an interval, as an epoch (SPARK 12).
//! The order of an epoch is: read and write out, finish the sink, `offsets/N`, `commits/N`, the group. So a restart begins after the last
//! epoch that was committed, and what was handed on after it is handed on again.

use super::{Batch, BatchSource, ENDLESS, Run, on_disk};
use crate::{
    BatchReader, Filter, LostRange, OffsetRange, Offsets, PlannedBatch, Result,
    checkpoint::{OffsetsEntry, OwnEntry, OwnSource},
    query::{
        Control,
        micro_batch::Tally,
        observer::BatchReport,
        process::Epochs,
        source::{Source, Span},
        wall_ms,
    },
    read::PlannedRange,
};
use ottla_client::TopicPartition;
use std::time::{Duration, Instant};
use tokio::time::sleep_until;

/// An endless read of all partitions there are.
struct Reading {
    reader: BatchReader,
    own: OwnSource,
    /// What was found to be gone when it began; told with its first epoch.
    lost: Vec<LostRange>,
}

impl Run {
    /// Reads until the query is stopped, or something fails.
    pub(super) async fn continuous(&mut self, interval: Duration) -> Result<()> {
        // The builder refuses what has no epochs.
        let Some(mut epochs) = self.process.clone().epochs() else { return Ok(()) };
        self.recover_epoch().await?;
        let control = self.control.clone();
        let mut reading = None;
        let interval = interval.min(ENDLESS);
        let mut due = tokio::time::Instant::now() + interval;
        while !control.is_stopping() {
            let mut report = BatchReport::new(wall_ms());
            let (looking, look) = (Instant::now(), control.begin_look());
            self.look_again(&mut reading).await?;
            report.took("latestOffset", looking);
            if let Some(current) = &mut reading {
                control.at_work(Some(self.batch_id));
                let adding = Instant::now();
                epochs.begin(self.batch_id).await?;
                let handed_on = hand_on(current, &mut *epochs, due, &control).await?;
                epochs.finish(self.batch_id).await?;
                report.took("addBatch", adding);
                self.end_epoch(current, report).await?;
                control.at_work(None);
                // A range without an end has ended, so what it would have read on from is gone: the next look says where to.
                if current.reader.has_ended_range() {
                    reading = None;
                }
                if !handed_on {
                    control.found_nothing(look);
                }
            } else {
                // A pattern that matches nothing yet.
                sleep_until(due).await;
            }
            due = (due + interval).max(tokio::time::Instant::now());
        }
        Ok(())
    }

    /// Looks which partitions there are, and begins to read anew if they are others than before: new ones from their log's start.
    async fn look_again(&mut self, reading: &mut Option<Reading>) -> Result<()> {
        let (parallelism, filter) = (self.parallelism, self.filter.clone());
        let Some(source) = self.sources.first_mut() else { return Ok(()) };
        let look = source.look(wall_ms(), false).await?;
        let start = source.position.clone().unwrap_or_default();
        let same = look.end.keys().eq(start.keys()) && look.own.new_starts.is_empty();
        if look.end.is_empty() && !source.began || (same && reading.is_some()) {
            return Ok(());
        }
        let start_ids = source.topic_ids().clone();
        let span = Span { start, start_ids, end: look.end, own: look.own };
        // Its ranges end where the log does now; what it says of losses is the same for those without an end.
        let lost = source.plan(&span, parallelism).await?.lost;
        let starts = starts(&span);
        let ranges = starts.iter().map(|(partition, from_offset)| PlannedRange {
            range: endless(partition, *from_offset),
            topic_id: span.own.topic_ids.get(&partition.topic).copied(),
            known_end: span.end.get(partition).copied().unwrap_or(*from_offset),
            end_epoch: None,
        });
        let reader = read(source, ranges.collect(), &filter).await?;
        source.move_to(starts, span.own.topic_ids.clone());
        *reading = Some(Reading { reader, own: OwnSource { new_starts: Offsets::new(), ..span.own }, lost });
        Ok(())
    }

    /// Writes down how far the records that were handed on go.
    async fn end_epoch(&mut self, reading: &mut Reading, mut report: BatchReport) -> Result<()> {
        let outcome = reading.reader.take_outcome();
        let ends = outcome
            .ranges
            .iter()
            .map(|range| (TopicPartition::new(range.range.topic.clone(), range.range.partition), range.position));
        let end: Offsets = ends.collect();
        let mut tally = Tally::default();
        tally.add(outcome);
        tally.lost.splice(0..0, std::mem::take(&mut reading.lost));
        reading.own.leader_epochs.extend(tally.leader_epochs.clone());
        let start = self.sources.first().and_then(|source| source.position.clone());
        let batch = Batch {
            id: self.batch_id,
            sources: vec![BatchSource {
                span: Some(Span {
                    start: start.clone().unwrap_or_default(),
                    start_ids: reading.own.topic_ids.clone(),
                    end: end.clone(),
                    own: reading.own.clone(),
                }),
                shown_start: start,
                latest: None,
            }],
        };
        if let Some(checkpoint) = &self.checkpoint {
            let own = Some(OwnEntry { sources: vec![reading.own.clone()] });
            // Spark leaves the settings out here, and can't run the epoch again as a batch then.
            let metadata = Some(checkpoint.next_metadata(wall_ms()));
            let (id, entry) = (batch.id, OffsetsEntry { metadata, sources: vec![Some(end)], own });
            let writing = Instant::now();
            on_disk(checkpoint, move |checkpoint| checkpoint.write_offsets(id, &entry)).await?;
            report.took("walCommit", writing);
        }
        let lost = vec![tally.lost.clone()];
        self.done(&batch, vec![tally], &lost, report).await
    }
}

/// Hands on what comes until the epoch is over or the query is to stop. False if nothing came.
async fn hand_on(
    reading: &mut Reading,
    epochs: &mut dyn Epochs,
    due: tokio::time::Instant,
    control: &Control,
) -> Result<bool> {
    let mut handed_on = false;
    loop {
        // What is at hand comes before the end: an epoch that was over before it began takes something, too, or short ones never would.
        let more = tokio::select! {
            biased;
            () = control.stopping() => return Ok(handed_on),
            more = reading.reader.advance() => more?,
            () = sleep_until(due) => return Ok(handed_on),
        };
        match reading.reader.at_hand() {
            Some(mut batch) if more => {
                epochs.write(&mut batch)?;
                epochs.flush().await?;
                handed_on = true;
            }
            // Every partition was lost: there may be new ones with the next epoch.
            _ => tokio::select! {
                () = control.stopping() => {}
                () = sleep_until(due) => {}
            },
        }
        if tokio::time::Instant::now() >= due {
            return Ok(handed_on);
        }
    }
}

async fn read(source: &Source, ranges: Vec<PlannedRange>, filter: &Filter) -> Result<BatchReader> {
    let planned = PlannedBatch { batch_id: 0, ranges, end_offsets: Offsets::new(), lost: Vec::new() };
    let settings = source.nothing(1).settings;
    BatchReader::start(&source.client, planned, filter, &settings).await
}

/// Where each partition is read from: on from the epoch before, or from the start of its log if it is a new one.
fn starts(span: &Span) -> Offsets {
    let start = |(partition, end): (&TopicPartition, &i64)| {
        let new = span.own.new_starts.get(partition).copied();
        // One whose log is shorter than what was read of it goes back to its end.
        let known = span.start.get(partition).map(|start| *start.min(end));
        Some((partition.clone(), new.or(known)?))
    };
    span.end.iter().filter_map(start).collect()
}

fn endless(partition: &TopicPartition, from_offset: i64) -> OffsetRange {
    OffsetRange { topic: partition.topic.clone(), partition: partition.partition, from_offset, until_offset: i64::MAX }
}

//! What a batch did, as Spark's `StreamingQueryProgress` says it. No clock is read here: times are arguments.

mod json;
mod log;
mod numbers;

pub(crate) use log::ProgressLog;

use crate::{ConsumerStrategy, LostRange, SourceOffset, offset::Offsets};
use numbers::java_double;
use std::collections::BTreeMap;

/// One batch, or a trigger that found nothing new.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct QueryProgress {
    /// The query's id, a UUID: the checkpoint's, the same over restarts.
    pub id: String,
    /// The id of this run, a UUID.
    pub run_id: String,
    /// The query's name, if it has one.
    pub name: Option<String>,
    /// When the trigger began, in milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// The batch, or the one that comes next if there was nothing new.
    pub batch_id: i64,
    /// How long the trigger took, in milliseconds.
    pub batch_duration_ms: u64,
    /// How long each step of the trigger took, in milliseconds, by Spark's names: `addBatch`, `commitOffsets`, `getBatch`, `latestOffset`,
    /// `queryPlanning`, `triggerExecution`, `walCommit`.
    pub duration_ms: BTreeMap<&'static str, u64>,
    /// The sources, in their order.
    pub sources: Vec<SourceProgress>,
    /// The output.
    pub sink: SinkProgress,
}

/// What a batch has of one source.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct SourceProgress {
    /// Spark's name of the source: `KafkaV2[Subscribe[a, b]]`.
    pub description: String,
    /// Where the batch before ended. `None` for the first one.
    pub start_offset: Option<SourceOffset>,
    /// Where this one ended, exclusive; what is committed. `None` where the source had nothing yet.
    pub end_offset: Option<SourceOffset>,
    /// The end of what there was when the batch was planned, exclusive. `None` for a batch that was planned by an earlier run.
    pub latest_offset: Option<SourceOffset>,
    /// How many records were read, before any filter, and again for each further time the batch was read.
    pub num_input_rows: u64,
    /// Records read, per second since the trigger before began: 0 for the first trigger of a run, and not finite if no time passed.
    pub input_rows_per_second: f64,
    /// Records read, per second of this trigger.
    pub processed_rows_per_second: f64,
    /// Numbers as text by name: how many offsets the partitions are behind their latest (`minOffsetsBehindLatest`,
    /// `maxOffsetsBehindLatest`, `avgOffsetsBehindLatest`).
    pub metrics: BTreeMap<&'static str, String>,
    /// What is gone, exactly, with `failOnDataLoss=false`. Not in Spark's progress.
    pub lost: Vec<LostRange>,
}

/// What a batch did to the output.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SinkProgress {
    /// The name of the kind of output: `ForeachBatchSink`.
    pub description: String,
    /// How many records were written, if the output says so.
    pub num_output_rows: Option<u64>,
}

impl QueryProgress {
    /// How many records were read from all sources.
    pub fn num_input_rows(&self) -> u64 {
        self.sources.iter().map(|source| source.num_input_rows).sum()
    }

    /// The sum of the sources' rates of records that arrive.
    pub fn input_rows_per_second(&self) -> f64 {
        // A float's empty sum is -0.
        self.sources.iter().fold(0.0, |sum, source| sum + source.input_rows_per_second)
    }

    /// The sum of the sources' rates of records that were processed.
    pub fn processed_rows_per_second(&self) -> f64 {
        self.sources.iter().fold(0.0, |sum, source| sum + source.processed_rows_per_second)
    }
}

/// When a trigger ran, in milliseconds since the epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TriggerTimes {
    /// When the trigger before began, if there was one in this run, idle or not.
    pub(crate) previous_start_ms: Option<i64>,
    pub(crate) start_ms: i64,
    pub(crate) end_ms: i64,
}

impl TriggerTimes {
    /// How long the trigger took, in milliseconds. A clock that was set back makes it 0.
    pub(crate) fn duration_ms(&self) -> u64 {
        milliseconds(self.start_ms, self.end_ms)
    }

    fn input_rate(&self, rows: u64) -> f64 {
        match self.previous_start_ms {
            Some(previous) => rows as f64 / (milliseconds(previous, self.start_ms) as f64 / 1000.0),
            None => 0.0,
        }
    }

    fn processed_rate(&self, rows: u64) -> f64 {
        rows as f64 / (self.duration_ms().max(1) as f64 / 1000.0)
    }
}

fn milliseconds(from: i64, until: i64) -> u64 {
    if until > from { until.abs_diff(from) } else { 0 }
}

/// What there is to say of one source.
pub(crate) struct SourceBatch<'a> {
    pub(crate) strategy: &'a ConsumerStrategy,
    pub(crate) start: Option<&'a Offsets>,
    pub(crate) end: Option<&'a Offsets>,
    pub(crate) latest: Option<&'a Offsets>,
    pub(crate) num_input_rows: u64,
    pub(crate) lost: Vec<LostRange>,
}

impl SourceProgress {
    pub(crate) fn new(batch: SourceBatch<'_>, times: &TriggerTimes) -> Self {
        let map = |offsets: Option<&Offsets>| {
            offsets.map(|offsets| offsets.iter().map(|(partition, offset)| (partition.clone(), *offset)).collect())
        };
        let metrics = match (batch.latest, batch.end) {
            (Some(latest), Some(end)) => offsets_behind_latest(latest, end),
            _ => BTreeMap::new(),
        };
        Self {
            description: format!("KafkaV2[{}]", batch.strategy),
            start_offset: map(batch.start),
            end_offset: map(batch.end),
            latest_offset: map(batch.latest),
            num_input_rows: batch.num_input_rows,
            input_rows_per_second: times.input_rate(batch.num_input_rows),
            processed_rows_per_second: times.processed_rate(batch.num_input_rows),
            metrics,
            lost: batch.lost,
        }
    }
}

/// How far `end` is behind `latest`, as Spark's metrics: the least, the most and the average over the partitions of `latest`. One that is not
/// in `end` counts from offset 0. Empty if there is no partition.
fn offsets_behind_latest(latest: &Offsets, end: &Offsets) -> BTreeMap<&'static str, String> {
    let behind: Vec<i128> = latest
        .iter()
        .map(|(partition, latest)| i128::from(*latest) - i128::from(end.get(partition).copied().unwrap_or(0)))
        .collect();
    let (Some(min), Some(max)) = (behind.iter().min(), behind.iter().max()) else { return BTreeMap::new() };
    let average = behind.iter().sum::<i128>() as f64 / behind.len() as f64;
    BTreeMap::from([
        ("avgOffsetsBehindLatest", java_double(average)),
        ("maxOffsetsBehindLatest", max.to_string()),
        ("minOffsetsBehindLatest", min.to_string()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LossKind, OffsetRange};
    use ottla_client::TopicPartition;

    fn offsets(offsets: &[i64]) -> Offsets {
        (0..).zip(offsets).map(|(index, offset)| (TopicPartition::new("t", index), *offset)).collect()
    }

    fn behind(latest: &[i64], end: &[i64]) -> Vec<String> {
        offsets_behind_latest(&offsets(latest), &offsets(end)).into_values().collect()
    }

    #[test]
    fn offsets_behind_latest_are_the_goldens() {
        // d01, d02, h02.
        assert_eq!(behind(&[1000, 100, 1], &[272, 27, 1]), ["267.0", "728", "0"]);
        assert_eq!(behind(&[1000, 100, 1], &[544, 54, 1]), ["167.33333333333334", "456", "0"]);
        assert_eq!(behind(&[4, 2, 1], &[1, 1, 1]), ["1.3333333333333333", "3", "0"]);
        assert_eq!(behind(&[4, 2, 1], &[2, 2, 1]), ["0.6666666666666666", "2", "0"]);
        assert_eq!(behind(&[40, 20], &[0, 0]), ["30.0", "40", "20"]);
    }

    #[test]
    fn offsets_behind_latest_where_something_is_unknown() {
        assert_eq!(behind(&[], &[5]), [""; 0]);
        assert_eq!(behind(&[10, 7], &[10]), ["3.5", "7", "0"]);
        assert_eq!(behind(&[10], &[25]), ["-15.0", "-15", "-15"]);
        assert_eq!(
            behind(&[i64::MAX, i64::MAX], &[0, 0]),
            ["9.223372036854776E18", "9223372036854775807", "9223372036854775807"]
        );
        assert_eq!(behind(&[12_345_678], &[0]), ["1.2345678E7", "12345678", "12345678"]);
    }

    #[test]
    fn rates_need_time() {
        let times = |previous_start_ms, start_ms, end_ms| TriggerTimes { previous_start_ms, start_ms, end_ms };
        assert_eq!(times(None, 1000, 3000).input_rate(10), 0.0);
        assert_eq!(times(Some(0), 1000, 3000).input_rate(10), 10.0);
        assert_eq!(times(None, 1000, 3000).processed_rate(10), 5.0);
        assert_eq!(times(None, 1000, 1000).processed_rate(10), 10_000.0, "a millisecond at least");
        assert!(times(Some(1000), 1000, 1000).input_rate(1).is_infinite());
        assert!(times(Some(2000), 1000, 500).input_rate(0).is_nan(), "and a clock that was set back");
        assert_eq!(times(None, i64::MIN, i64::MAX).duration_ms(), u64::MAX);
    }

    #[test]
    fn what_is_lost_is_told_beside_the_metrics_which_are_sparks() {
        let lost = |from_offset, until_offset| LostRange {
            range: OffsetRange { topic: "t".to_owned(), partition: 0, from_offset, until_offset },
            kind: LossKind::OutOfRange,
            wanted_until_offset: 100,
            log_start_offset: 60,
            log_end_offset: 90,
        };
        let batch = SourceBatch {
            strategy: &ConsumerStrategy::subscribe("t").unwrap(),
            start: Some(&offsets(&[10])),
            end: Some(&offsets(&[100])),
            latest: None,
            num_input_rows: 30,
            lost: vec![lost(10, 60), lost(90, 100)],
        };
        let times = TriggerTimes { previous_start_ms: None, start_ms: 0, end_ms: 1000 };
        let source = SourceProgress::new(batch, &times);
        assert!(source.metrics.is_empty() && source.lost.len() == 2);
        assert_eq!((source.latest_offset, source.processed_rows_per_second), (None, 30.0));
    }
}

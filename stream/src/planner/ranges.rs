//! From the end of the batch before and the end of this one to the ranges that are read, and to what is lost in between.

use crate::Offsets;
use crate::{DataLoss, LossKind, LostRange, OffsetRange};
use ottla_client::TopicPartition;
use std::collections::{BTreeMap, BTreeSet};

/// What is known when the ranges of a batch are planned.
pub(crate) struct RangeInput<'a> {
    /// Where the batch before ended, or the initial offsets.
    pub(crate) start: &'a Offsets,
    /// The batch's end-offset map.
    pub(crate) until: &'a Offsets,
    /// The log start of those partitions of `until` that are not in `start`, or whose topic was created again. One whose log start could not
    /// be had is absent.
    pub(crate) new_starts: &'a Offsets,
    /// Topics that were deleted and created again: their id is another one than when `start` was written.
    pub(crate) recreated: &'a BTreeSet<String>,
    /// Log start and end (high watermark or LSO, exclusive) now, as far as known.
    pub(crate) log: &'a BTreeMap<TopicPartition, (i64, i64)>,
    /// Whether loss is an error.
    pub(crate) fail_on_data_loss: bool,
}

/// The ranges of a batch, not split yet.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct PlannedRanges {
    /// Every partition that is read, in order, empty ranges too.
    pub(crate) ranges: Vec<OffsetRange>,
    /// What is gone, with `failOnDataLoss=false`; in the order of Spark's checks.
    pub(crate) lost: Vec<LostRange>,
}

/// Plans the ranges of a batch. `until` is what is committed whatever comes out here.
///
/// # Errors
/// Every loss of the batch, if `fail_on_data_loss`.
pub(crate) fn plan_ranges(input: &RangeInput<'_>) -> Result<PlannedRanges, DataLoss> {
    let mut planner = Planner { input, losses: Losses::default() };
    let ranges = input.until.iter().filter_map(|(partition, until)| planner.range(partition, *until)).collect();
    for (partition, start) in input.start.iter().filter(|(partition, _)| !input.until.contains_key(*partition)) {
        planner.losses.deleted.push(planner.lost(partition, LossKind::PartitionDeleted, *start, *start));
    }
    let lost = planner.losses.in_order();
    if input.fail_on_data_loss && !lost.is_empty() {
        return Err(DataLoss::new(lost));
    }
    Ok(PlannedRanges { ranges, lost })
}

/// What each of Spark's checks found. The first one names the error.
#[derive(Default)]
struct Losses {
    no_initial_offset: Vec<LostRange>,
    added: Vec<LostRange>,
    deleted: Vec<LostRange>,
    changed: Vec<LostRange>,
    out_of_range: Vec<LostRange>,
}

impl Losses {
    fn in_order(self) -> Vec<LostRange> {
        [self.no_initial_offset, self.added, self.deleted, self.changed, self.out_of_range].concat()
    }
}

struct Planner<'a> {
    input: &'a RangeInput<'a>,
    losses: Losses,
}

impl Planner<'_> {
    /// What is read of a partition. `None` where nothing can be.
    fn range(&mut self, partition: &TopicPartition, until_offset: i64) -> Option<OffsetRange> {
        let from_offset = self.start(partition, until_offset)?;
        if until_offset < from_offset {
            let changed = self.lost(partition, LossKind::OffsetChanged, until_offset, from_offset);
            self.losses.changed.push(changed);
            return None;
        }
        let Some((log_start_offset, log_end_offset)) = self.input.log.get(partition).copied() else {
            return Some(range(partition, from_offset, until_offset));
        };
        for (from_offset, lost_until_offset) in
            [(from_offset, until_offset.min(log_start_offset)), (from_offset.max(log_end_offset), until_offset)]
        {
            if from_offset < lost_until_offset {
                let mut lost = self.lost(partition, LossKind::OutOfRange, from_offset, lost_until_offset);
                lost.wanted_until_offset = until_offset;
                self.losses.out_of_range.push(lost);
            }
        }
        let until_offset = until_offset.min(log_end_offset.max(from_offset));
        Some(range(partition, from_offset.max(log_start_offset).min(until_offset), until_offset))
    }

    /// Where a partition is read from: on from the batch before, or from the begin of its log if it is a new one.
    fn start(&mut self, partition: &TopicPartition, until_offset: i64) -> Option<i64> {
        let recreated = self.input.recreated.contains(&partition.topic);
        match self.input.start.get(partition) {
            Some(start) if !recreated => return Some(*start),
            // How far the old log went is not known any more.
            Some(start) => self.losses.changed.push(self.lost(partition, LossKind::Recreated, *start, *start)),
            None => {}
        }
        match self.input.new_starts.get(partition) {
            Some(0) => Some(0),
            Some(new_start) => {
                self.losses.added.push(self.lost(partition, LossKind::AddedPartition, 0, *new_start));
                Some(*new_start)
            }
            None => {
                let lost = self.lost(partition, LossKind::InitialOffsetNotFound, 0, until_offset);
                self.losses.no_initial_offset.push(lost);
                None
            }
        }
    }

    fn lost(&self, partition: &TopicPartition, kind: LossKind, from_offset: i64, until_offset: i64) -> LostRange {
        let (log_start_offset, log_end_offset) = self.input.log.get(partition).copied().unwrap_or((-1, -1));
        LostRange {
            range: range(partition, from_offset, until_offset),
            kind,
            wanted_until_offset: until_offset,
            log_start_offset,
            log_end_offset,
        }
    }
}

fn range(partition: &TopicPartition, from_offset: i64, until_offset: i64) -> OffsetRange {
    OffsetRange { topic: partition.topic.clone(), partition: partition.partition, from_offset, until_offset }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps written as partition and number, of the topic `t`.
    #[derive(Default, Clone)]
    struct Case {
        start: Vec<(i32, i64)>,
        until: Vec<(i32, i64)>,
        new_starts: Vec<(i32, i64)>,
        log: Vec<(i32, (i64, i64))>,
        recreated: bool,
    }

    fn by_partition<V: Copy>(pairs: &[(i32, V)]) -> BTreeMap<TopicPartition, V> {
        pairs.iter().map(|(index, value)| (TopicPartition::new("t", *index), *value)).collect()
    }

    impl Case {
        fn plan(&self, fail_on_data_loss: bool) -> Result<PlannedRanges, DataLoss> {
            plan_ranges(&RangeInput {
                start: &by_partition(&self.start),
                until: &by_partition(&self.until),
                new_starts: &by_partition(&self.new_starts),
                recreated: &if self.recreated { ["t".to_owned()].into() } else { BTreeSet::new() },
                log: &by_partition(&self.log),
                fail_on_data_loss,
            })
        }

        /// Checks the ranges and losses with `failOnDataLoss=false`, and that the same losses are the error with true.
        #[track_caller]
        fn gives(&self, ranges: &[(i32, i64, i64)], lost: &[(i32, LossKind, i64, i64)]) {
            let planned = self.plan(false).unwrap();
            let found: Vec<_> =
                planned.ranges.iter().map(|range| (range.partition, range.from_offset, range.until_offset)).collect();
            assert_eq!(found, ranges);
            let found: Vec<_> = planned
                .lost
                .iter()
                .map(|lost| (lost.range.partition, lost.kind, lost.range.from_offset, lost.range.until_offset))
                .collect();
            assert_eq!(found, lost);
            match self.plan(true) {
                Ok(same) => assert_eq!((same, true), (planned, lost.is_empty())),
                Err(loss) => assert_eq!(loss, DataLoss::new(planned.lost)),
            }
        }
    }

    #[test]
    fn a_quiet_plan_has_every_partition_empty_ones_too() {
        Case {
            start: vec![(0, 5), (1, 7)],
            until: vec![(0, 9), (1, 7), (2, 4)],
            new_starts: vec![(2, 0)],
            log: vec![(0, (5, 9)), (1, (7, 7))],
            ..Case::default()
        }
        .gives(&[(0, 5, 9), (1, 7, 7), (2, 0, 4)], &[]);
        // Golden f10: everything deleted, but all of it had been read.
        Case { start: vec![(0, 30)], until: vec![(0, 30)], log: vec![(0, (30, 30))], ..Case::default() }
            .gives(&[(0, 30, 30)], &[]);
    }

    #[test]
    fn new_partitions() {
        Case { until: vec![(0, 20), (1, 6)], new_starts: vec![(0, 10)], ..Case::default() }
            .gives(&[(0, 10, 20)], &[(1, LossKind::InitialOffsetNotFound, 0, 6), (0, LossKind::AddedPartition, 0, 10)]);
        let late = Case { until: vec![(0, 20)], new_starts: vec![(0, 25)], ..Case::default() };
        late.gives(&[], &[(0, LossKind::AddedPartition, 0, 25), (0, LossKind::OffsetChanged, 20, 25)]);
        let error = late.plan(true).unwrap_err();
        assert_eq!(error.condition(), "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO");
    }

    /// S-S16, golden f11.
    #[test]
    fn s_s16_partitions_that_are_gone() {
        let gone = Case { start: vec![(0, 5), (1, 6)], until: vec![(0, 5)], ..Case::default() };
        gone.gives(&[(0, 5, 5)], &[(1, LossKind::PartitionDeleted, 6, 6)]);
        assert_eq!(gone.plan(true).unwrap_err().condition(), "KAFKA_DATA_LOSS.PARTITIONS_DELETED");
    }

    /// Goldens a12 and f03: the range is dropped, and the end map, which is not touched here, takes the query back.
    #[test]
    fn an_end_before_the_start() {
        let back = Case {
            start: vec![(0, 25), (1, 5)],
            until: vec![(0, 10), (1, 10)],
            log: vec![(0, (0, 10)), (1, (0, 10))],
            ..Case::default()
        };
        back.gives(&[(1, 5, 10)], &[(0, LossKind::OffsetChanged, 10, 25)]);
        let error = back.plan(true).unwrap_err();
        assert_eq!(error.condition(), "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED");
        assert!(error.to_string().contains("Partition t-0 offset was changed from 25 to 10."), "{error}");
    }

    #[test]
    fn what_the_log_does_not_hold() {
        let check = |from, until, read, lost: &[(i64, i64)]| {
            let case =
                Case { start: vec![(0, from)], until: vec![(0, until)], log: vec![(0, (60, 100))], ..Case::default() };
            let lost: Vec<_> = lost.iter().map(|(from, until)| (0, LossKind::OutOfRange, *from, *until)).collect();
            let (from, until) = read;
            case.gives(&[(0, from, until)], &lost);
            case
        };
        check(60, 100, (60, 100), &[]);
        check(100, 100, (100, 100), &[]);
        check(10, 25, (25, 25), &[(10, 25)]);
        check(80, 150, (80, 100), &[(100, 150)]);
        check(10, 150, (60, 100), &[(10, 60), (100, 150)]);
        check(120, 150, (120, 120), &[(120, 150)]);
        let text = check(10, 100, (60, 100), &[(10, 60)]).plan(true).unwrap_err().to_string();
        assert!(
            text.contains("Reason: Could not read records in offset [10, 100) for topic partition t-0\n"),
            "{text}"
        );
        assert!(text.ends_with("\nt-0: [10, 60) is gone, 50 offsets; the log holds [60, 100)"), "{text}");
    }

    /// S-S04, and the same with a topic that has grown past the checkpoint.
    #[test]
    fn s_s04_a_topic_created_again_is_read_from_its_begin() {
        for end in [20, 500, 700] {
            let case = Case {
                start: vec![(0, 500), (1, 3)],
                until: vec![(0, end), (2, 4)],
                new_starts: vec![(0, 0), (2, 0)],
                log: vec![(0, (0, end)), (2, (0, 4))],
                recreated: true,
            };
            // A partition that the new topic does not have is only deleted.
            case.gives(
                &[(0, 0, end), (2, 0, 4)],
                &[(1, LossKind::PartitionDeleted, 3, 3), (0, LossKind::Recreated, 500, 500)],
            );
        }
        let begins_late = Case {
            start: vec![(0, 5)],
            until: vec![(0, 9)],
            new_starts: vec![(0, 7)],
            recreated: true,
            ..Case::default()
        };
        begins_late.gives(&[(0, 7, 9)], &[(0, LossKind::AddedPartition, 0, 7), (0, LossKind::Recreated, 5, 5)]);
        let unknown = Case { new_starts: vec![], ..begins_late };
        unknown.gives(&[], &[(0, LossKind::InitialOffsetNotFound, 0, 9), (0, LossKind::Recreated, 5, 5)]);
    }
}

//! How much one trigger takes: `maxOffsetsPerTrigger`, `minOffsetsPerTrigger` and `maxTriggerDelay`. All of them count offsets, not records.

use crate::Offsets;
use std::time::Duration;

/// The end-offset map of a batch under `maxOffsetsPerTrigger`: `limit` shared out in proportion to what each partition has.
///
/// `start` has every partition of `latest`, new ones with the begin of their log. Shares are rounded down, but not to nothing, so that the
/// batch can come out a little smaller than `limit`, or larger with many small partitions. A partition whose end fell behind its start goes
/// back to that end: the planner of the ranges tells that loss.
pub(crate) fn rate_limit(limit: i64, start: &Offsets, latest: &Offsets) -> Offsets {
    let size = |partition, end: i64| start.get(partition).map_or(0, |begin| end.saturating_sub(*begin)).max(0);
    let total: i128 = latest.iter().map(|(partition, end)| i128::from(size(partition, *end))).sum();
    let end_of = |partition, end: i64| match (start.get(partition), size(partition, end)) {
        (Some(begin), size) if size > 0 => end.min(begin.saturating_add(share(limit, size, total))),
        _ => end,
    };
    latest.iter().map(|(partition, end)| (partition.clone(), end_of(partition, *end))).collect()
}

/// What a partition with `size` of `total` offsets may take. The order of the operations is Spark's: another one rounds differently.
fn share(limit: i64, size: i64, total: i128) -> i64 {
    let prorate = limit as f64 * (size as f64 / total as f64);
    let take = if prorate < 1.0 { prorate.ceil() } else { prorate.floor() };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a whole number; beyond the largest offset it saturates, as Java's cast does"
    )]
    let take = take as i64;
    take
}

/// `minOffsetsPerTrigger` with `maxTriggerDelay`: whether a trigger makes a batch.
#[derive(Debug)]
pub(crate) struct MinOffsets {
    min: i64,
    max_delay_ms: i64,
    /// The epoch at first, so that the first trigger of a process always fires.
    last_fired_ms: i64,
}

impl MinOffsets {
    /// At least `min` offsets a batch, but no wait of `max_delay` or longer.
    pub(crate) fn new(min: i64, max_delay: Duration) -> Self {
        Self { min, max_delay_ms: i64::try_from(max_delay.as_millis()).unwrap_or(i64::MAX), last_fired_ms: 0 }
    }

    /// Whether the trigger at `now_ms` (since the epoch) makes a batch; if so, the wait begins anew. `start` is what the batch before ended
    /// at: a partition that is not in it counts from offset 0, wherever its log begins.
    pub(crate) fn fires(&mut self, now_ms: i64, start: &Offsets, latest: &Offsets) -> bool {
        let behind =
            |(partition, end): (_, &i64)| i128::from(*end) - i128::from(start.get(partition).copied().unwrap_or(0));
        // A clock that was set back says nothing of how long the wait was: it is over, or it might last for years.
        let waited = now_ms < self.last_fired_ms || now_ms.saturating_sub(self.last_fired_ms) >= self.max_delay_ms;
        let fires = waited || latest.iter().map(behind).sum::<i128>() >= i128::from(self.min);
        if fires {
            self.last_fired_ms = now_ms;
        }
        fires
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_client::TopicPartition;

    fn offsets(offsets: &[i64]) -> Offsets {
        (0..).zip(offsets).map(|(index, offset)| (TopicPartition::new("t", index), *offset)).collect()
    }

    /// The end offsets of the batches from `start` on, until everything up to `latest` is in one.
    fn batches(limit: i64, start: &[i64], latest: &[i64]) -> Vec<Vec<i64>> {
        let (mut at, latest) = (offsets(start), offsets(latest));
        let mut ends = Vec::new();
        while at != latest {
            at = rate_limit(limit, &at, &latest);
            ends.push(at.values().copied().collect());
        }
        ends
    }

    #[test]
    fn golden_d01_shares_in_proportion() {
        let ends = [[272, 27, 1], [544, 54, 1], [816, 81, 1], [1000, 100, 1]];
        assert_eq!(batches(300, &[0, 0, 0], &[1000, 100, 1]), ends);
    }

    #[test]
    fn golden_d02_gives_every_partition_something() {
        let ends = [[1, 1, 1], [2, 2, 1], [3, 2, 1], [4, 2, 1]];
        assert_eq!(batches(1, &[0, 0, 0], &[4, 2, 1]), ends);
    }

    #[test]
    fn s_s02_small_partitions_do_not_starve() {
        assert_eq!(batches(10, &[0, 0, 0], &[101, 11, 1])[0], [8, 1, 1]);
    }

    #[test]
    fn what_is_not_behind_ends_at_latest() {
        let end = |start: &[i64], latest: &[i64]| {
            rate_limit(10, &offsets(start), &offsets(latest)).into_values().collect::<Vec<_>>()
        };
        assert_eq!(end(&[50, 7, 0], &[20, 7, 100]), [20, 7, 10], "one that fell behind its start goes back");
        assert_eq!(end(&[5, 5], &[5, 5]), [5, 5]);
        assert_eq!(end(&[], &[5]), [5], "a partition without a start is for the planner of the ranges to tell");
        assert_eq!(end(&[], &[]), [0; 0]);
    }

    #[test]
    fn huge_numbers_saturate() {
        assert_eq!(batches(i64::MAX, &[10, i64::MAX - 5], &[20, i64::MAX]), [[20, i64::MAX]]);
        assert_eq!(batches(i64::MAX, &[0, 0, 0], &[i64::MAX, i64::MAX, 1])[0][2], 1);
        assert_eq!(batches(10, &[i64::MAX - 100], &[i64::MAX])[0], [i64::MAX - 90]);
    }

    /// Golden d06: 5 records at the start, 100 at least, 4 s at most.
    #[test]
    fn golden_d06_waits_for_enough_or_long_enough() {
        let mut limit = MinOffsets::new(100, Duration::from_secs(4));
        let begin = 1_700_000_000_000;
        assert!(limit.fires(begin, &offsets(&[]), &offsets(&[5])), "the first trigger always fires");
        assert!(!limit.fires(begin + 200, &offsets(&[5]), &offsets(&[5])));
        assert!(!limit.fires(begin + 2600, &offsets(&[5]), &offsets(&[55])));
        assert!(limit.fires(begin + 3600, &offsets(&[5]), &offsets(&[115])), "110 are enough");
        assert!(!limit.fires(begin + 7599, &offsets(&[115]), &offsets(&[125])));
        assert!(limit.fires(begin + 7600, &offsets(&[115]), &offsets(&[125])), "4 s are long enough");
        assert!(!limit.fires(begin + 7700, &offsets(&[125]), &offsets(&[125])));
    }

    #[test]
    fn a_clock_that_was_set_back_ends_the_wait() {
        let mut limit = MinOffsets::new(100, Duration::from_secs(4));
        assert!(limit.fires(1_700_000_000_000, &offsets(&[5]), &offsets(&[6])));
        assert!(limit.fires(1_600_000_000_000, &offsets(&[5]), &offsets(&[6])));
        assert!(!limit.fires(1_600_000_000_001, &offsets(&[5]), &offsets(&[6])), "and the next one begins");
    }

    #[test]
    fn the_backlog_of_an_unknown_partition_counts_from_zero() {
        let mut limit = MinOffsets::new(100, Duration::from_secs(900));
        assert!(limit.fires(1_700_000_000_000, &offsets(&[]), &offsets(&[])));
        assert!(limit.fires(1_700_000_000_001, &offsets(&[5]), &offsets(&[5, 100])));
        assert!(!limit.fires(1_700_000_000_002, &offsets(&[5]), &offsets(&[5, 99])));
        assert!(
            !limit.fires(1_700_000_000_003, &offsets(&[50, 0]), &offsets(&[5, 100])),
            "and one that fell back counts against it"
        );
        let mut never_waits = MinOffsets::new(i64::MAX, Duration::ZERO);
        assert!(never_waits.fires(0, &offsets(&[]), &offsets(&[])));
        assert!(never_waits.fires(0, &offsets(&[]), &offsets(&[])));
        let mut endless = MinOffsets::new(1, Duration::MAX);
        assert!(!endless.fires(i64::MAX - 1, &offsets(&[0]), &offsets(&[0])));
    }
}

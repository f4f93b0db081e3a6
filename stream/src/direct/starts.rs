//! Where partitions begin, and how far a batch goes.

use crate::{
    OffsetRangeLimit, Offsets, Result,
    offset::{Begin, End, OffsetReader},
};
use ottla_client::{Topic, TopicPartition};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Where partitions begin that were not read yet: at what is named for them, else where the group is, else where the options say.
///
/// # Errors
/// Offsets are named for a partition that is not there; what the group holds is not in the log, under `ottla.offsetOutOfRange=fail`.
pub(super) async fn begin(
    reader: &OffsetReader<'_>,
    topics: &BTreeMap<String, Topic>,
    new: &BTreeSet<TopicPartition>,
    explicit: Option<&Offsets>,
) -> Result<Begin> {
    let mut begin = Begin::default();
    if let Some(explicit) = explicit {
        if let Some(missing) = explicit.keys().find(|partition| !new.contains(*partition)) {
            return Err(ottla_client::Error::UnknownPartition { partition: missing.clone() }.into());
        }
        begin.offsets = reader.late_bound(explicit.clone()).await?;
    }
    let left = without(new, &begin.offsets);
    if !left.is_empty() {
        let committed = reader.committed(topics, &left).await?;
        (begin.lost, begin.batch_id) = (committed.lost, committed.batch_id);
        begin.offsets.extend(committed.offsets);
    }
    let left = without(new, &begin.offsets);
    if !left.is_empty() {
        let limit = match &reader.options.starting {
            // Nothing was said of these, and nothing may be passed over.
            OffsetRangeLimit::Specific(_) => &OffsetRangeLimit::Earliest,
            limit => limit,
        };
        begin.offsets.extend(reader.resolve(limit, End::StreamStart, topics, &left).await?.offsets);
    }
    Ok(begin)
}

fn without(partitions: &BTreeSet<TopicPartition>, known: &Offsets) -> BTreeSet<TopicPartition> {
    partitions.iter().filter(|partition| !known.contains_key(*partition)).cloned().collect()
}

/// How many offsets of a partition a batch takes at this rate: one at least, whatever the interval.
pub(super) fn offsets_max(records_per_second: u64, interval: Duration) -> i64 {
    let offsets = u128::from(records_per_second).saturating_mul(interval.as_millis()) / 1000;
    i64::try_from(offsets).unwrap_or(i64::MAX).max(1)
}

/// Ends a batch after `max` offsets of each partition. One whose log ends before its start stays as it is, for the planner to tell.
pub(super) fn clamp(end: &mut Offsets, starts: &Offsets, max: i64) {
    for (partition, end) in end {
        if let Some(start) = starts.get(partition).filter(|start| *start < end) {
            *end = (*end).min(start.saturating_add(max));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_and_an_interval_come_to_one_offset_at_least() {
        let max = |rate, millis| offsets_max(rate, Duration::from_millis(millis));
        assert_eq!((max(10, 1000), max(10, 1550), max(1, 2999)), (10, 15, 2));
        assert_eq!((max(1, 100), max(9, 100)), (1, 1), "less than one is one");
        assert_eq!(offsets_max(u64::MAX, Duration::MAX), i64::MAX);
    }

    #[test]
    fn a_batch_is_clamped_by_partition() {
        let offsets = |offsets: &[i64]| -> Offsets {
            (0..).zip(offsets).map(|(index, offset)| (TopicPartition::new("t", index), *offset)).collect()
        };
        let clamped = |starts: &[i64], ends: &[i64], max| {
            let mut end = offsets(ends);
            clamp(&mut end, &offsets(starts), max);
            end.into_values().collect::<Vec<_>>()
        };
        assert_eq!(clamped(&[0, 0, 30], &[35, 4, 35], 10), [10, 4, 35]);
        assert_eq!(clamped(&[50], &[20], 10), [20], "a log that ends before its start");
        assert_eq!(clamped(&[i64::MAX - 5], &[i64::MAX], 10), [i64::MAX]);
        assert_eq!(clamped(&[], &[7], 1), [7], "no start, nothing to count from");
    }
}

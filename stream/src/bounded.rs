//! Planning a bounded read: which partitions, from where, up to where. Everything is resolved to numbers before anything is read.

use crate::{
    Error, LossKind, LostRange, OffsetRange, OffsetRangeLimit, Offsets, PlannedBatch, Result, StreamOptions,
    offset::{
        End, OffsetReader,
        source_offset::{EARLIEST, LATEST},
    },
    planner::split,
    read::PlannedRange,
};
use ottla_client::{Client, TopicPartition};
use std::collections::BTreeMap;

impl StreamOptions {
    /// Looks up what these options name in the cluster, and plans the one batch of a bounded read.
    ///
    /// # Errors
    /// Topics or partitions that don't exist, offsets that don't fit them, and [`Error::DataLoss`] for ranges that the log does not hold, if
    /// `failOnDataLoss` is true.
    pub async fn plan(&self, client: &Client) -> Result<PlannedBatch> {
        let reader = OffsetReader { client, options: self };
        let topics = reader.topics().await?;
        let partitions = reader.partitions(&topics)?;
        // Log starts first and log ends last: what is deleted or written meanwhile is then no loss.
        let earliest = reader.earliest(&partitions).await?;
        let start = reader.resolve(&self.starting, End::Start, &topics, &partitions).await?;
        let until = reader.resolve(&self.ending, End::Until, &topics, &partitions).await?.offsets;
        let latest = reader.latest(&partitions, None).await?;
        let (mut wanted, mut checked, mut lost) = (Vec::new(), BTreeMap::new(), Vec::new());
        for partition in &partitions {
            let range = OffsetRange {
                topic: partition.topic.clone(),
                partition: partition.partition,
                from_offset: at(&start.offsets, partition),
                until_offset: at(&until, partition),
            };
            let log = (at(&earliest, partition), at(&latest.offsets, partition));
            let left = check_range(range.clone(), log, self.fail_on_data_loss, &mut lost)?;
            checked.insert(partition.clone(), left);
            wanted.push(range);
        }
        if self.fail_on_data_loss && !lost.is_empty() {
            return Err(reader.data_loss(lost).into());
        }
        // These were no error, whatever `failOnDataLoss` says: `ottla.offsetOutOfRange` lets the read begin elsewhere.
        lost.extend(start.lost);
        let ranges = self.pieces(wanted, &checked).into_iter().map(|range| {
            let partition = TopicPartition::new(range.topic.clone(), range.partition);
            PlannedRange {
                topic_id: topics.get(&range.topic).and_then(|topic| topic.topic_id),
                known_end: at(&latest.offsets, &partition),
                end_epoch: latest.epochs.get(&partition).copied(),
                range,
            }
        });
        let ranges = ranges.collect();
        let end_offsets = checked.into_iter().map(|(partition, range)| (partition, range.until_offset)).collect();
        Ok(PlannedBatch { batch_id: 0, ranges, end_offsets, lost })
    }

    /// What is read of the wanted ranges, one piece after the other. `checked` is what is left of each.
    fn pieces(&self, wanted: Vec<OffsetRange>, checked: &BTreeMap<TopicPartition, OffsetRange>) -> Vec<OffsetRange> {
        if !self.splits(&wanted) {
            return checked.values().cloned().collect();
        }
        // What is gone is cut into pieces as well, so that what is left comes in the same ones as in Spark.
        let left = split(wanted, self.min_partitions, self.max_records_per_partition).into_iter().filter_map(|piece| {
            let checked = checked.get(&TopicPartition::new(piece.topic.clone(), piece.partition))?;
            Some(OffsetRange {
                from_offset: piece.from_offset.max(checked.from_offset),
                until_offset: piece.until_offset.min(checked.until_offset),
                ..piece
            })
        });
        left.filter(|piece| !piece.is_empty()).collect()
    }

    /// Whether a bounded read looks at sizes at all (SPARK 7): only if there are fewer partitions than asked for, or one is larger than asked
    /// for by the bounds as they stand in the options, where the whole log counts 1, from -2 to -1.
    ///
    /// Spark leaves those two bounds open until a task reads; here planning and reading are one step, so that they are numbers at once.
    fn splits(&self, wanted: &[OffsetRange]) -> bool {
        let too_few = self.min_partitions.is_some_and(|min| usize::try_from(min).is_ok_and(|min| min > wanted.len()));
        let is_too_large = |range: &OffsetRange| {
            let partition = TopicPartition::new(range.topic.clone(), range.partition);
            let from = as_written(&self.starting, &partition).unwrap_or(range.from_offset);
            let until = as_written(&self.ending, &partition).unwrap_or(range.until_offset);
            self.max_records_per_partition.is_some_and(|max| until.saturating_sub(from) > max)
        };
        too_few || wanted.iter().any(is_too_large)
    }
}

fn at(offsets: &Offsets, partition: &TopicPartition) -> i64 {
    offsets.get(partition).copied().unwrap_or(0)
}

/// A bound that the options leave open, as the number that stands for it in them.
fn as_written(limit: &OffsetRangeLimit, partition: &TopicPartition) -> Option<i64> {
    match limit {
        OffsetRangeLimit::Earliest => Some(EARLIEST),
        OffsetRangeLimit::Latest => Some(LATEST),
        OffsetRangeLimit::Specific(offsets) => offsets.get(partition),
        _ => None,
    }
}

/// Holds a range against the log. What is gone is noted and cut off; a start beyond the end is an error of its own.
fn check_range(
    range: OffsetRange,
    (log_start_offset, log_end_offset): (i64, i64),
    fail_on_data_loss: bool,
    lost: &mut Vec<LostRange>,
) -> Result<OffsetRange> {
    let mut lose = |from_offset, until_offset| {
        let wanted_until_offset = range.until_offset;
        let range = OffsetRange { from_offset, until_offset, ..range.clone() };
        if !range.is_empty() {
            let kind = LossKind::OutOfRange;
            lost.push(LostRange { range, kind, wanted_until_offset, log_start_offset, log_end_offset });
        }
    };
    if range.from_offset > range.until_offset {
        return Err(Error::Plan {
            condition: "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET",
            message: format!(
                "The resolved start offset {} is greater than the resolved end offset {} for topic {} partition {}: the log holds \
                 [{log_start_offset}, {log_end_offset})",
                range.from_offset, range.until_offset, range.topic, range.partition
            ),
        });
    }
    lose(range.from_offset, range.until_offset.min(log_start_offset));
    lose(range.from_offset.max(log_end_offset), range.until_offset);
    if fail_on_data_loss {
        return Ok(range);
    }
    let until_offset = range.until_offset.min(log_end_offset).max(log_start_offset.min(range.until_offset));
    let from_offset = range.from_offset.max(log_start_offset).min(until_offset);
    Ok(OffsetRange { from_offset, until_offset, ..range })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The range that is left, and what is lost.
    type Checked = (Result<(i64, i64), String>, Vec<(i64, i64)>);

    fn check(from_offset: i64, until_offset: i64, fail: bool) -> Checked {
        let mut lost = Vec::new();
        let range = OffsetRange { topic: "t".to_owned(), partition: 0, from_offset, until_offset };
        let result = check_range(range, (60, 100), fail, &mut lost);
        let result = result.map(|range| (range.from_offset, range.until_offset)).map_err(|error| error.to_string());
        (result, lost.iter().map(|lost| (lost.range.from_offset, lost.range.until_offset)).collect())
    }

    #[test]
    fn what_the_log_does_not_hold_is_named_exactly() {
        assert_eq!(check(60, 100, false), (Ok((60, 100)), vec![]));
        assert_eq!(check(10, 100, false), (Ok((60, 100)), vec![(10, 60)]));
        assert_eq!(check(10, 100, true).1, [(10, 60)]);
        assert_eq!(check(10, 25, false), (Ok((25, 25)), vec![(10, 25)]));
        assert_eq!(check(80, 150, false), (Ok((80, 100)), vec![(100, 150)]));
        assert_eq!(check(10, 150, false), (Ok((60, 100)), vec![(10, 60), (100, 150)]));
        assert_eq!(check(120, 150, false), (Ok((100, 100)), vec![(120, 150)]));
        assert_eq!(check(100, 100, true), (Ok((100, 100)), vec![]));
        assert!(
            check(1000, 100, false)
                .0
                .unwrap_err()
                .contains("The resolved start offset 1000 is greater than the resolved end offset 100")
        );
    }
}

//! Planning a bounded read: which partitions, from where, up to where. Everything is resolved to numbers before anything is read.

use crate::{
    DataLoss, Error, LossKind, LostRange, OffsetRange, Offsets, PlannedBatch, Result, StreamOptions,
    offset::{End, OffsetReader},
    read::PlannedRange,
};
use ottla_client::Client;
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
        let earliest = reader.earliest(&partitions).await?;
        let latest = reader.latest(&partitions, None).await?;
        let start = reader.resolve(&self.starting, End::Start, &partitions).await?;
        let until = reader.resolve(&self.ending, End::Until, &partitions).await?;
        let mut batch =
            PlannedBatch { batch_id: 0, ranges: Vec::new(), end_offsets: BTreeMap::new(), lost: Vec::new() };
        for partition in &partitions {
            let at = |offsets: &Offsets| offsets.get(partition).copied().unwrap_or(0);
            let range = OffsetRange {
                topic: partition.topic.clone(),
                partition: partition.partition,
                from_offset: at(&start),
                until_offset: at(&until),
            };
            let log = (at(&earliest), at(&latest.offsets));
            let range = check_range(range, log, self.fail_on_data_loss, &mut batch.lost)?;
            batch.end_offsets.insert(partition.clone(), range.until_offset);
            let topic_id = topics.get(&partition.topic).and_then(|topic| topic.topic_id);
            let end_epoch = latest.epochs.get(partition).copied();
            batch.ranges.push(PlannedRange { range, topic_id, known_end: log.1, end_epoch });
        }
        if self.fail_on_data_loss && !batch.lost.is_empty() {
            return Err(DataLoss::new(batch.lost).into());
        }
        Ok(batch)
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

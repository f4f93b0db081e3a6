//! Planning a bounded read: which partitions, from where, up to where. Everything is resolved to numbers before anything is read.

use crate::{
    ConsumerStrategy, DataLoss, Error, LossKind, LostRange, OffsetRange, OffsetRangeLimit, PlannedBatch, Result,
    StartingOffsetsByTimestampStrategy, StreamOptions,
    offset::{
        looks_like_seconds,
        source_offset::{EARLIEST, LATEST},
    },
    options::partition_set,
    read::PlannedRange,
};
use ottla_client::{Client, OffsetSpec, Topic, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};

type Offsets = BTreeMap<TopicPartition, i64>;

/// Which end of the ranges is being resolved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Start,
    Until,
}

impl StreamOptions {
    /// Looks up what these options name in the cluster, and plans the one batch of a bounded read.
    ///
    /// # Errors
    /// Topics or partitions that don't exist, offsets that don't fit them, and [`Error::DataLoss`] for ranges that the log does not hold, if
    /// `failOnDataLoss` is true.
    pub async fn plan(&self, client: &Client) -> Result<PlannedBatch> {
        let topics = self.topics(client).await?;
        let partitions = self.partitions(&topics)?;
        let isolation = client.config().isolation_level;
        let everywhere =
            |spec| partitions.iter().map(|partition| (partition.clone(), spec)).collect::<BTreeMap<_, _>>();
        let earliest = known(client.list_offsets(&everywhere(OffsetSpec::Earliest), isolation).await?);
        let ends = client.list_offsets(&everywhere(OffsetSpec::Latest), isolation).await?;
        let end_epochs: BTreeMap<TopicPartition, i32> =
            ends.iter().filter_map(|(partition, end)| Some((partition.clone(), end.leader_epoch?))).collect();
        let latest = known(ends);
        let bounds = Bounds { client, partitions: &partitions, earliest: &earliest, latest: &latest };
        let start = bounds.resolve(&self.starting, End::Start, self.starting_by_timestamp_strategy).await?;
        let until = bounds.resolve(&self.ending, End::Until, StartingOffsetsByTimestampStrategy::Latest).await?;
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
            let log = (at(&earliest), at(&latest));
            let range = check_range(range, log, self.fail_on_data_loss, &mut batch.lost)?;
            batch.end_offsets.insert(partition.clone(), range.until_offset);
            let topic_id = topics.get(&partition.topic).and_then(|topic| topic.topic_id);
            let end_epoch = end_epochs.get(partition).copied();
            batch.ranges.push(PlannedRange { range, topic_id, known_end: log.1, end_epoch });
        }
        if self.fail_on_data_loss && !batch.lost.is_empty() {
            return Err(DataLoss::new(batch.lost).into());
        }
        Ok(batch)
    }

    async fn topics(&self, client: &Client) -> Result<BTreeMap<String, Topic>> {
        Ok(match &self.strategy {
            ConsumerStrategy::Subscribe(names) => {
                let mut topics = client.topics(names).await?;
                topics.retain(|_, topic| !topic.is_internal);
                topics
            }
            ConsumerStrategy::Assign(assigned) => client.topics(&assigned.keys().cloned().collect::<Vec<_>>()).await?,
            ConsumerStrategy::SubscribePattern(pattern) => {
                let mut topics = client.all_topics().await?;
                topics.retain(|name, topic| !topic.is_internal && pattern.is_match(name));
                topics
            }
        })
    }

    fn partitions(&self, topics: &BTreeMap<String, Topic>) -> Result<BTreeSet<TopicPartition>> {
        let all = topics
            .iter()
            .flat_map(|(name, topic)| {
                topic.partitions.keys().map(move |index| TopicPartition::new(name.clone(), *index))
            })
            .collect::<BTreeSet<_>>();
        let ConsumerStrategy::Assign(assigned) = &self.strategy else { return Ok(all) };
        let assigned: BTreeSet<TopicPartition> = assigned
            .iter()
            .flat_map(|(topic, indexes)| indexes.iter().map(move |index| TopicPartition::new(topic.clone(), *index)))
            .collect();
        match assigned.iter().find(|partition| !all.contains(partition)) {
            Some(missing) => Err(ottla_client::Error::UnknownPartition { partition: missing.clone() }.into()),
            None => Ok(assigned),
        }
    }
}

fn known(found: BTreeMap<TopicPartition, ottla_client::OffsetAndTimestamp>) -> Offsets {
    found.into_iter().filter_map(|(partition, found)| Some((partition, found.offset?))).collect()
}

/// Where the log of each partition begins and ends, for turning limits into numbers.
struct Bounds<'a> {
    client: &'a Client,
    partitions: &'a BTreeSet<TopicPartition>,
    earliest: &'a Offsets,
    latest: &'a Offsets,
}

impl Bounds<'_> {
    async fn resolve(
        &self,
        limit: &OffsetRangeLimit,
        end: End,
        no_match: StartingOffsetsByTimestampStrategy,
    ) -> Result<Offsets> {
        match limit {
            OffsetRangeLimit::Earliest => Ok(self.earliest.clone()),
            OffsetRangeLimit::Latest => Ok(self.latest.clone()),
            OffsetRangeLimit::Specific(offsets) => {
                self.check_set(offsets.iter().map(|(partition, _)| partition).collect(), end, "")?;
                let number = |partition: TopicPartition, offset| match offset {
                    LATEST => self.latest.get(&partition).map(|latest| (partition, *latest)),
                    EARLIEST => self.earliest.get(&partition).map(|earliest| (partition, *earliest)),
                    number => Some((partition, number)),
                };
                Ok(offsets.iter().filter_map(|(partition, offset)| number(partition, offset)).collect())
            }
            OffsetRangeLimit::GlobalTimestamp(timestamp) => {
                let timestamps = self.partitions.iter().map(|partition| (partition.clone(), *timestamp)).collect();
                self.resolve_timestamps(&timestamps, no_match).await
            }
            OffsetRangeLimit::SpecificTimestamp(timestamps) => {
                self.check_set(timestamps.keys().cloned().collect(), end, "timestamp based ")?;
                self.resolve_timestamps(timestamps, no_match).await
            }
        }
    }

    /// A map in the options must name exactly the partitions there are (SPARK 4).
    fn check_set(&self, specified: BTreeSet<TopicPartition>, end: End, kind: &str) -> Result<()> {
        if specified == *self.partitions {
            return Ok(());
        }
        let (end, hint) = match (end, kind) {
            (End::Start, "") => ("start", "Use -1 for latest, -2 for earliest."),
            (End::Until, "") => ("end", "Use -1 for latest, -2 for earliest."),
            (End::Start, _) => ("start", "or you didn't specify all the partitions."),
            (End::Until, _) => ("end", "or you didn't specify all the partitions."),
        };
        Err(Error::Plan {
            condition: "MISMATCHED_TOPIC_PARTITIONS",
            message: format!(
                "Partitions specified for Kafka {kind}{end} offsets don't match what are assigned. Maybe topic partitions are created \nor \
                 deleted while the query is running. {hint}\nSpecified: {} Assigned: {}",
                partition_set(&specified),
                partition_set(self.partitions)
            ),
        })
    }

    async fn resolve_timestamps(
        &self,
        timestamps: &Offsets,
        no_match: StartingOffsetsByTimestampStrategy,
    ) -> Result<Offsets> {
        let wanted =
            timestamps.iter().map(|(partition, time)| (partition.clone(), OffsetSpec::Timestamp(*time))).collect();
        let found = self.client.list_offsets(&wanted, self.client.config().isolation_level).await?;
        let mut offsets = Offsets::new();
        for (partition, timestamp) in timestamps {
            // No offset means that no record is so late, not the end of the log.
            let offset = match (found.get(partition).and_then(|found| found.offset), no_match) {
                (Some(offset), _) => offset,
                (None, StartingOffsetsByTimestampStrategy::Latest) => self.latest.get(partition).copied().unwrap_or(0),
                (None, StartingOffsetsByTimestampStrategy::Error) => {
                    return Err(Error::Plan {
                        condition: "NO_OFFSET_MATCHED",
                        message: format!(
                            "No offset matched from request of topic-partition {partition} and timestamp {timestamp}.{}",
                            if looks_like_seconds(*timestamp) {
                                " Is it in seconds? It must be in milliseconds."
                            } else {
                                ""
                            }
                        ),
                    });
                }
            };
            offsets.insert(partition.clone(), offset);
        }
        Ok(offsets)
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

//! Where a query starts and ends: which of the options counts, and what needs no broker to be wrong.

use super::{OptionError, StartingOffsetsByTimestampStrategy, names::Pairs, partition_set};
use crate::{
    OffsetRangeLimit, SourceOffset,
    offset::source_offset::{EARLIEST, LATEST},
};
use ottla_client::TopicPartition;
use std::collections::BTreeSet;

/// The first of the three spellings that is given; the others are not even parsed (SPARK 4).
fn limit(
    pairs: &Pairs,
    timestamp: &'static str,
    by_timestamp: &'static str,
    offsets: &'static str,
    default: OffsetRangeLimit,
) -> Result<OffsetRangeLimit, OptionError> {
    if let Some(value) = pairs.get(timestamp) {
        OffsetRangeLimit::parse_timestamp(value)
    } else if let Some(value) = pairs.get(by_timestamp) {
        OffsetRangeLimit::parse_by_timestamp(value)
    } else {
        pairs.get(offsets).map_or(Ok(default), |value| OffsetRangeLimit::parse_offsets(offsets, value))
    }
}

fn with_value(limit: &OffsetRangeLimit, value: i64) -> Option<TopicPartition> {
    let OffsetRangeLimit::Specific(offsets) = limit else { return None };
    offsets.iter().find(|(_, offset)| *offset == value).map(|(partition, _)| partition)
}

/// Where it starts: in a stream by default at the end, in a bounded read at the beginning.
pub(super) fn starting(pairs: &Pairs, default: OffsetRangeLimit) -> Result<OffsetRangeLimit, OptionError> {
    limit(pairs, "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets", default)
}

/// The start of a bounded read, which can't be its end.
pub(super) fn bounded_starting(pairs: &Pairs) -> Result<OffsetRangeLimit, OptionError> {
    let limit = starting(pairs, OffsetRangeLimit::Earliest)?;
    if limit == OffsetRangeLimit::Latest {
        return Err(OptionError::new("starting offset can't be latest for batch queries on Kafka"));
    }
    match with_value(&limit, LATEST) {
        Some(partition) => {
            Err(OptionError::new(format!("startingOffsets for {partition} can't be latest for batch queries on Kafka")))
        }
        None => Ok(limit),
    }
}

/// The end of a bounded read, which can't be its start.
pub(super) fn ending(pairs: &Pairs) -> Result<OffsetRangeLimit, OptionError> {
    let limit = limit(pairs, "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", OffsetRangeLimit::Latest)?;
    if limit == OffsetRangeLimit::Earliest {
        return Err(OptionError::new("ending offset can't be earliest for batch queries on Kafka"));
    }
    match with_value(&limit, EARLIEST) {
        Some(partition) => {
            Err(OptionError::new(format!("ending offset for {partition} can't be earliest for batch queries on Kafka")))
        }
        None => Ok(limit),
    }
}

/// An end is for bounded reads (SPARK 1.1, step 1). Spark lets `endingTimestamp` pass and ignores it.
pub(super) fn refuse_ending(pairs: &Pairs) -> Result<(), OptionError> {
    if pairs.get("endingOffsets").is_some() {
        return Err(OptionError::new("ending offset not valid in streaming queries"));
    }
    match ["endingOffsetsByTimestamp", "endingTimestamp"].iter().find(|name| pairs.get(name).is_some()) {
        Some(name) => {
            Err(OptionError::new(format!("ending timestamp not valid in streaming queries: option '{name}'")))
        }
        None => Ok(()),
    }
}

/// What two explicit ends say of each other needs no broker to be wrong (SPARK 1.1, step 8).
pub(super) fn check_bounds(starting: &OffsetRangeLimit, ending: &OffsetRangeLimit) -> Result<(), OptionError> {
    let (what, starts, ends): (&str, SourceOffset, SourceOffset) = match (starting, ending) {
        (OffsetRangeLimit::Specific(starts), OffsetRangeLimit::Specific(ends)) => {
            ("offset", starts.clone(), ends.clone())
        }
        (OffsetRangeLimit::SpecificTimestamp(starts), OffsetRangeLimit::SpecificTimestamp(ends)) => {
            ("timestamp", starts.clone().into_iter().collect(), ends.clone().into_iter().collect())
        }
        (OffsetRangeLimit::GlobalTimestamp(start), OffsetRangeLimit::GlobalTimestamp(end)) if start > end => {
            return Err(OptionError::new(format!(
                "The specified start timestamp {start} is greater than the end timestamp {end}."
            )));
        }
        _ => return Ok(()),
    };
    let partitions = |offsets: &SourceOffset| offsets.iter().map(|(partition, _)| partition).collect::<BTreeSet<_>>();
    let (start_set, end_set) = (partitions(&starts), partitions(&ends));
    if start_set != end_set {
        return Err(OptionError::with_condition(
            "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET",
            format!(
                "Kafka data source in batch mode needs the same topic-partitions in start and end: start {}, end {}",
                partition_set(&start_set),
                partition_set(&end_set)
            ),
        ));
    }
    for (partition, start) in starts.iter() {
        let end = ends.get(&partition).unwrap_or(LATEST);
        if start >= 0 && end >= 0 && start > end {
            return Err(OptionError::with_condition(
                "START_OFFSET_GREATER_THAN_END_OFFSET",
                format!(
                    "The specified start {what} {start} is greater than the end {what} {end} for topic {} partition {}.",
                    partition.topic, partition.partition
                ),
            ));
        }
    }
    Ok(())
}

/// What a start timestamp after the last record means.
pub(super) fn by_timestamp_strategy(pairs: &Pairs) -> Result<StartingOffsetsByTimestampStrategy, OptionError> {
    let value = pairs.get("startingOffsetsByTimestampStrategy").unwrap_or("error").to_ascii_uppercase();
    match value.as_str() {
        "ERROR" => Ok(StartingOffsetsByTimestampStrategy::Error),
        "LATEST" => Ok(StartingOffsetsByTimestampStrategy::Latest),
        _ => Err(OptionError::new(format!(
            "No value found for '{value}': option 'startingOffsetsByTimestampStrategy' must be error or latest"
        ))),
    }
}

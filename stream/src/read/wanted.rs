//! The part of a range that a filter may keep something of: what lies outside is never fetched. What is committed does not depend on it.

use super::PlannedRange;
use crate::{BoundFilter, Filter, OffsetRange};
use ottla_client::{Client, IsolationLevel, OffsetSpec, TopicPartition};
use std::{collections::BTreeMap, ops::Range};

/// A range's filter, and the offsets it may keep something of.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) filter: BoundFilter,
    /// Lies within the range; empty if nothing of it is kept.
    pub(super) offsets: Range<i64>,
    /// The log's first offset, where it was asked for: what lies before it is gone, though nothing of it would be fetched.
    pub(super) log_start_offset: Option<i64>,
}

/// Narrows each range by what its filter says of topic, partition, offset and timestamp.
pub(super) async fn wanted(client: &Client, ranges: &[PlannedRange], filter: &Filter) -> Vec<Wanted> {
    let mut all: Vec<Wanted> = ranges
        .iter()
        .map(|planned| {
            let filter = filter.bind(&planned.range.topic, planned.range.partition);
            Wanted { offsets: by_offset(&planned.range, &filter), filter, log_start_offset: None }
        })
        .collect();
    let mut timestamps = BTreeMap::new();
    for (planned, wanted) in ranges.iter().zip(&all) {
        if let Some(min @ 0..) = wanted.filter.timestamp_lower_bound()
            && !wanted.offsets.is_empty()
            // Beyond what is known to be there, later records may come.
            && planned.range.until_offset <= planned.known_end
        {
            timestamps.insert(partition(&planned.range), OffsetSpec::Timestamp(min));
        }
    }
    narrow_by_time(client, ranges, &mut all, &timestamps).await;
    look_for_losses(client, ranges, &mut all).await;
    all
}

/// Moves each start to the first offset at or after the range's timestamp. Also what is not committed yet counts: it may be by the time it is
/// read. A log that can't be searched by time is read from its start; a broker that can't be reached will show when it is.
async fn narrow_by_time(
    client: &Client,
    ranges: &[PlannedRange],
    all: &mut [Wanted],
    timestamps: &BTreeMap<TopicPartition, OffsetSpec>,
) {
    if timestamps.is_empty() {
        return;
    }
    let Ok(found) = client.list_offsets(timestamps, IsolationLevel::ReadUncommitted).await else { return };
    for (planned, wanted) in ranges.iter().zip(all) {
        if let Some(found) = found.get(&partition(&planned.range)) {
            let first = found.offset.unwrap_or(wanted.offsets.end);
            wanted.offsets.start = first.clamp(wanted.offsets.start, wanted.offsets.end);
        }
    }
}

/// Asks where the logs begin whose ranges' beginnings won't be fetched: what was deleted there since the plan was made would be passed over
/// without a word. Where that can't be found out, the whole range is fetched.
async fn look_for_losses(client: &Client, ranges: &[PlannedRange], all: &mut [Wanted]) {
    let hides = |planned: &PlannedRange, wanted: &Wanted| {
        !planned.range.is_empty() && (wanted.offsets.is_empty() || wanted.offsets.start > planned.range.from_offset)
    };
    let hidden = ranges.iter().zip(all.iter()).filter(|(planned, wanted)| hides(planned, wanted));
    let earliest: BTreeMap<_, _> =
        hidden.map(|(planned, _)| (partition(&planned.range), OffsetSpec::Earliest)).collect();
    if earliest.is_empty() {
        return;
    }
    let found = client.list_offsets(&earliest, IsolationLevel::ReadUncommitted).await.unwrap_or_default();
    for (planned, wanted) in ranges.iter().zip(all) {
        if hides(planned, wanted) {
            match found.get(&partition(&planned.range)).and_then(|found| found.offset) {
                Some(offset) => wanted.log_start_offset = Some(offset),
                None => wanted.offsets = planned.range.from_offset..planned.range.until_offset,
            }
        }
    }
}

fn partition(range: &OffsetRange) -> TopicPartition {
    TopicPartition::new(range.topic.clone(), range.partition)
}

fn by_offset(range: &OffsetRange, filter: &BoundFilter) -> Range<i64> {
    let (from, until) = (range.from_offset, range.until_offset.max(range.from_offset));
    // How far one without an end got is what was read of it: nothing of it is left out.
    if range.is_endless() {
        return from..until;
    }
    if filter.is_never() {
        return until..until;
    }
    let bounds = filter.offset_bounds();
    let start = (*bounds.start()).clamp(from, until);
    start..bounds.end().saturating_add(1).clamp(start, until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_narrowed_by_what_is_known_before_reading() {
        let range = OffsetRange { topic: "t".to_owned(), partition: 3, from_offset: 10, until_offset: 90 };
        let narrowed = |text: &str| by_offset(&range, &text.parse::<Filter>().unwrap().bind("t", 3));
        assert_eq!(narrowed("value = 'x'"), 10..90);
        assert_eq!(narrowed("offset >= 20 AND offset < 40 AND value = 'x'"), 20..40);
        assert_eq!(narrowed("offset = 50 OR offset = 60"), 50..61);
        assert_eq!(narrowed("offset > 100"), 90..90);
        assert_eq!(narrowed("partition <> 3"), 90..90);
        assert_eq!(narrowed("topic = 'u'"), 90..90);
        assert_eq!(narrowed("offset < 5"), 10..10);
        let endless = OffsetRange { until_offset: i64::MAX, ..range.clone() };
        for text in ["offset > 100", "offset < 5", "partition <> 3"] {
            assert_eq!(by_offset(&endless, &text.parse::<Filter>().unwrap().bind("t", 3)), 10..i64::MAX, "{text}");
        }
    }
}

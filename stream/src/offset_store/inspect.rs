//! What a store holds, held against the logs as they are now.

use super::{OffsetStore, StoredOffset, StoredOffsets};
use crate::{Offsets, Result};
use ottla_client::{Client, IsolationLevel, OffsetSpec, Topic, TopicPartition};
use ottla_protocol::Uuid;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// What a store holds of some topics, and what their logs hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct InspectedOffsets {
    /// Every partition that the store has something of, and every other one of the same topics; in order.
    pub partitions: Vec<PartitionOffsets>,
    /// What the store holds that is no offset: as good as nothing.
    pub not_offsets: BTreeMap<TopicPartition, i64>,
}

/// A partition, in the store and in the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PartitionOffsets {
    /// The partition.
    pub partition: TopicPartition,
    /// What the store holds.
    pub stored: Option<StoredOffset>,
    /// The log start; `None` when the partition is gone.
    pub earliest: Option<i64>,
    /// The log's end for the client's isolation level, exclusive: the high watermark, or the last stable offset.
    pub latest: Option<i64>,
    /// How the stored offset stands to the log.
    pub state: OffsetState,
}

/// How a stored offset stands to the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum OffsetState {
    /// It is in the log, or at its end.
    Ok,
    /// Nothing is stored.
    Missing,
    /// What was to be read next was deleted.
    BelowLogStart,
    /// It lies after the high watermark.
    BeyondEnd,
    /// It is of a topic of the same name that was deleted since.
    TopicRecreated,
    /// The partition is not there any more.
    Gone,
}

impl OffsetState {
    /// Whether a read could not go on from there without a loss.
    pub fn is_wrong(self) -> bool {
        !matches!(self, Self::Ok | Self::Missing)
    }
}

impl fmt::Display for OffsetState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::BelowLogStart => "below log start",
            Self::BeyondEnd => "beyond end",
            Self::TopicRecreated => "topic recreated",
            Self::Gone => "gone",
        })
    }
}

impl PartitionOffsets {
    /// How many offsets are left to read; `None` where that can't be said: nothing is stored, or it is of another log.
    pub fn lag(&self) -> Option<i64> {
        if self.state == OffsetState::TopicRecreated {
            return None;
        }
        Some(self.latest?.saturating_sub(self.stored?.offset))
    }
}

impl InspectedOffsets {
    /// Looks at what `store` holds of `topics`, or of all topics that it has anything of if there are none.
    ///
    /// # Errors
    /// The store or the cluster can't be asked, or one of `topics` is neither in the store nor in the cluster.
    pub async fn of(store: &dyn OffsetStore, client: &Client, topics: &BTreeSet<String>) -> Result<Self> {
        let mut stored = store.load(None).await?;
        let is_wanted = |partition: &TopicPartition| topics.is_empty() || topics.contains(&partition.topic);
        stored.offsets.retain(|partition, _| is_wanted(partition));
        stored.not_offsets.retain(|partition, _| is_wanted(partition));
        let log = Logs::look_up(client, topics.iter().cloned().chain(stored.topics())).await?;
        if let Some(topic) = topics.iter().find(|topic| !log.topics.contains(*topic) && !stored.has(topic)) {
            return Err(ottla_client::Error::UnknownTopic { topic: topic.clone() }.into());
        }
        Ok(log.inspect(stored))
    }

    /// Whether the store holds nothing, no offset and nothing else.
    pub fn is_empty(&self) -> bool {
        self.not_offsets.is_empty() && self.partitions.iter().all(|partition| partition.stored.is_none())
    }
}

impl StoredOffsets {
    /// The topics of all partitions.
    pub(super) fn topics(&self) -> impl Iterator<Item = String> {
        self.offsets.keys().chain(self.not_offsets.keys()).map(|partition| partition.topic.clone())
    }

    fn has(&self, topic: &str) -> bool {
        self.topics().any(|stored| stored == topic)
    }
}

/// Some topics of the cluster, and where their logs begin and end.
#[derive(Debug, Default)]
pub(super) struct Logs {
    /// Those that are there.
    pub(super) topics: BTreeSet<String>,
    /// Their ids, where the brokers have them.
    pub(super) topic_ids: BTreeMap<String, Uuid>,
    /// All their partitions.
    pub(super) partitions: BTreeSet<TopicPartition>,
    pub(super) earliest: Offsets,
    /// For the client's isolation level.
    pub(super) latest: Offsets,
    /// After these there is no record at all.
    pub(super) high_watermarks: Offsets,
}

impl Logs {
    /// Asks for those of `topics` that are there.
    pub(super) async fn look_up(client: &Client, topics: impl IntoIterator<Item = String>) -> Result<Self> {
        let topics = existing(client, topics.into_iter().collect()).await?;
        if topics.is_empty() {
            return Ok(Self::default());
        }
        let partitions: BTreeSet<TopicPartition> = topics
            .iter()
            .flat_map(|(name, topic)| topic.partitions.keys().map(|index| TopicPartition::new(name.clone(), *index)))
            .collect();
        let isolation = client.config().isolation_level;
        let look_up = |spec, isolation| {
            let wanted = partitions.iter().map(|partition| (partition.clone(), spec)).collect::<BTreeMap<_, _>>();
            async move {
                let found = client.list_offsets(&wanted, isolation).await?;
                let known = found.into_iter().filter_map(|(partition, found)| Some((partition, found.offset?)));
                Ok::<Offsets, crate::Error>(known.collect())
            }
        };
        let earliest = look_up(OffsetSpec::Earliest, isolation).await?;
        let latest = look_up(OffsetSpec::Latest, isolation).await?;
        let high_watermarks = match isolation {
            IsolationLevel::ReadUncommitted => latest.clone(),
            // A stored offset may lie after an open transaction.
            IsolationLevel::ReadCommitted => look_up(OffsetSpec::Latest, IsolationLevel::ReadUncommitted).await?,
        };
        let topic_ids = topics.iter().filter_map(|(name, topic)| Some((name.clone(), topic.topic_id?))).collect();
        let topics = topics.into_keys().collect();
        Ok(Self { topics, topic_ids, partitions, earliest, latest, high_watermarks })
    }

    /// How an offset of the topic with this id, if it says so, stands to the log.
    pub(super) fn state(&self, partition: &TopicPartition, stored: &StoredOffset) -> OffsetState {
        let topic_id = self.topic_ids.get(&partition.topic).copied();
        match (self.earliest.get(partition), self.high_watermarks.get(partition)) {
            _ if !stored.is_of(topic_id) => OffsetState::TopicRecreated,
            (Some(earliest), _) if stored.offset < *earliest => OffsetState::BelowLogStart,
            (_, Some(end)) if stored.offset > *end => OffsetState::BeyondEnd,
            (Some(_), Some(_)) => OffsetState::Ok,
            _ => OffsetState::Gone,
        }
    }

    fn inspect(&self, stored: StoredOffsets) -> InspectedOffsets {
        let named = stored.offsets.keys().chain(stored.not_offsets.keys()).cloned();
        let all: BTreeSet<TopicPartition> = named.chain(self.partitions.iter().cloned()).collect();
        let partitions = all.into_iter().map(|partition| {
            let held = stored.offsets.get(&partition).copied();
            PartitionOffsets {
                stored: held,
                earliest: self.earliest.get(&partition).copied(),
                latest: self.latest.get(&partition).copied(),
                state: held.map_or(OffsetState::Missing, |held| self.state(&partition, &held)),
                partition,
            }
        });
        InspectedOffsets { partitions: partitions.collect(), not_offsets: stored.not_offsets }
    }
}

/// Those of the topics that are there. One that may not be asked for is an error, not a topic less.
async fn existing(client: &Client, mut names: BTreeSet<String>) -> Result<BTreeMap<String, Topic>> {
    while !names.is_empty() {
        match client.topics_now(&names.iter().cloned().collect::<Vec<_>>()).await {
            Err(ottla_client::Error::UnknownTopic { topic }) if names.remove(&topic) => {}
            topics => return Ok(topics?),
        }
    }
    Ok(BTreeMap::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_offset_has_its_state() {
        let partition = TopicPartition::new("t", 0);
        let offsets = |offset| Offsets::from([(partition.clone(), offset)]);
        let logs = Logs {
            topics: ["t".to_owned()].into(),
            topic_ids: [("t".to_owned(), Uuid([1; 16]))].into(),
            partitions: [partition.clone()].into(),
            earliest: offsets(60),
            latest: offsets(90),
            high_watermarks: offsets(100),
        };
        let stored = |offset, id: Option<u8>| StoredOffset {
            offset,
            batch_id: None,
            topic_id: id.map(|id| Uuid([id; 16])),
            leader_epoch: None,
        };
        for (offset, id, state) in [
            (0, None, OffsetState::BelowLogStart),
            (59, Some(1), OffsetState::BelowLogStart),
            (60, None, OffsetState::Ok),
            // In an open transaction.
            (95, Some(1), OffsetState::Ok),
            (100, None, OffsetState::Ok),
            (101, None, OffsetState::BeyondEnd),
            (70, Some(2), OffsetState::TopicRecreated),
            (101, Some(2), OffsetState::TopicRecreated),
        ] {
            assert_eq!(logs.state(&partition, &stored(offset, id)), state, "{offset}");
        }
        assert_eq!(logs.state(&TopicPartition::new("t", 1), &stored(5, None)), OffsetState::Gone);
        assert_eq!(logs.state(&TopicPartition::new("u", 0), &stored(5, Some(2))), OffsetState::Gone);
        let held = StoredOffsets {
            offsets: [(partition.clone(), stored(70, None)), (TopicPartition::new("u", 1), stored(5, None))].into(),
            not_offsets: [(TopicPartition::new("t", 2), -3)].into(),
        };
        let rows: Vec<_> = logs
            .inspect(held)
            .partitions
            .into_iter()
            .map(|row| (row.partition.to_string(), row.lag(), row.state.to_string()))
            .collect();
        let row = |name: &str, lag, state: &str| (name.to_owned(), lag, state.to_owned());
        assert_eq!(rows, [row("t-0", Some(20), "ok"), row("t-2", None, "missing"), row("u-1", None, "gone")]);
    }
}

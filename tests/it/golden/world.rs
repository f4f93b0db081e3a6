//! What a scenario has made of its topics so far, by its own steps: which partitions there are, what lies in them, and which topics were
//! deleted and created again. Rules look at it, since Spark's answers alone don't tell.

use std::collections::{BTreeMap, BTreeSet};

use super::scenario::Txn;

/// A topic that is there.
#[derive(Clone, Debug)]
struct Topic {
    partitions: u32,
    /// How often a topic of this name was created, this one counted.
    generation: u32,
    /// The log start of partitions whose first records were deleted.
    log_starts: BTreeMap<i32, i64>,
    /// What was produced to each partition, in order.
    produced: BTreeMap<i32, Vec<Produced>>,
}

/// Records that one step produced.
#[derive(Clone, Copy, Debug)]
struct Produced {
    first: i64,
    last: i64,
    txn: Option<Txn>,
}

/// What a reader of committed records sees of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Committed {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) rows: i64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct World {
    topics: BTreeMap<String, Topic>,
    generations: BTreeMap<String, u32>,
    pub(super) groups: BTreeSet<String>,
}

impl World {
    pub(super) fn create_topic(&mut self, topic: &str, partitions: u32) {
        let generation = self.generations.entry(topic.to_owned()).or_default();
        *generation += 1;
        let made =
            Topic { partitions, generation: *generation, log_starts: BTreeMap::new(), produced: BTreeMap::new() };
        self.topics.insert(topic.to_owned(), made);
    }

    pub(super) fn delete_topic(&mut self, topic: &str) {
        self.topics.remove(topic);
    }

    pub(super) fn add_partitions(&mut self, topic: &str, to: u32) {
        if let Some(topic) = self.topics.get_mut(topic) {
            topic.partitions = to;
        }
    }

    pub(super) fn delete_records(&mut self, topic: &str, partition: i32, before: i64) {
        if let Some(topic) = self.topics.get_mut(topic) {
            topic.log_starts.insert(partition, before);
        }
    }

    pub(super) fn produced(&mut self, topic: &str, partition: i32, first: i64, last: i64, txn: Option<Txn>) {
        if let Some(topic) = self.topics.get_mut(topic) {
            topic.produced.entry(partition).or_default().push(Produced { first, last, txn });
        }
    }

    /// The committed records of a topic's partitions, those with none left out: from the log's start to its last stable offset.
    pub(super) fn committed(&self, topic: &str) -> BTreeMap<i32, Committed> {
        let mut all = BTreeMap::new();
        for (partition, produced) in self.topics.get(topic).into_iter().flat_map(|topic| &topic.produced) {
            let from = self.log_start(topic, *partition);
            let stable = produced.iter().take_while(|part| part.txn != Some(Txn::Open));
            let seen = stable.filter(|part| part.txn != Some(Txn::Abort) && part.last >= from);
            for part in seen.map(|part| Produced { first: part.first.max(from), ..*part }) {
                let of = all.entry(*partition).or_insert(Committed { first: part.first, last: part.last, rows: 0 });
                of.last = part.last;
                of.rows += part.last - part.first + 1;
            }
        }
        all
    }

    /// The topics that are there.
    pub(super) fn topics(&self) -> impl Iterator<Item = &str> {
        self.topics.keys().map(String::as_str)
    }

    /// Whether the topic is there, without this partition.
    pub(super) fn lacks_partition(&self, topic: &str, partition: i64) -> bool {
        self.topics.get(topic).is_some_and(|topic| partition >= i64::from(topic.partitions))
    }

    pub(super) fn log_start(&self, topic: &str, partition: i32) -> i64 {
        self.topics.get(topic).and_then(|topic| topic.log_starts.get(&partition)).copied().unwrap_or(0)
    }

    /// Each topic with its generation: what a checkpoint has seen.
    pub(super) fn generations(&self) -> BTreeMap<String, u32> {
        self.topics.iter().map(|(name, topic)| (name.clone(), topic.generation)).collect()
    }

    /// The topics that are there and were another one when `seen` was taken.
    pub(super) fn created_again_since(&self, seen: &BTreeMap<String, u32>) -> BTreeSet<String> {
        let again = |(name, topic): (&String, &Topic)| {
            seen.get(name).is_some_and(|generation| *generation != topic.generation).then(|| name.clone())
        };
        self.topics.iter().filter_map(again).collect()
    }
}

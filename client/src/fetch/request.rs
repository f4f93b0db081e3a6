//! Building fetch requests and finding out which target an answer is about.

use super::partition::PartitionState;
use crate::ClientConfig;
use ottla_protocol::{
    Uuid,
    message::{FetchPartition, FetchRequest, FetchTopic, FetchableTopicResponse},
};
use std::collections::HashMap;

/// The last version that names topics by name (KIP-516).
pub(super) const NAMES_UNTIL: i16 = 12;

/// One partition of a request.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) index: usize,
    pub(super) topic: String,
    pub(super) topic_id: Option<Uuid>,
    pub(super) partition: i32,
    fetch_offset: i64,
    pub(super) leader_epoch: i32,
}

impl Asked {
    pub(super) fn new(state: &PartitionState) -> Self {
        Self {
            index: state.index,
            topic: state.target.partition.topic.clone(),
            topic_id: state.target.topic_id,
            partition: state.target.partition.partition,
            fetch_offset: state.fetch_offset,
            leader_epoch: state.leader_epoch,
        }
    }
}

/// The newest version in which `asked` can be asked: ids only when every topic has one.
pub(super) fn version_cap(asked: &[Asked]) -> i16 {
    if asked.iter().all(|asked| asked.topic_id.is_some()) { i16::MAX } else { NAMES_UNTIL }
}

/// How many bytes are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) response_bytes_max: i32,
    pub(super) partition_bytes_max: i32,
}

impl Sizes {
    /// As configured, but no more than a quarter of the memory, so that one answer is on its way while others are decoded, and no more than
    /// a frame may hold.
    pub(super) fn new(config: &ClientConfig, memory_bytes: usize) -> Self {
        let room = (memory_bytes / 4).min(config.frame_bytes_max / 2).max(1);
        let room = i32::try_from(room).unwrap_or(i32::MAX);
        let response_bytes_max = config.fetch_max_bytes.clamp(1, room);
        Self { response_bytes_max, partition_bytes_max: config.max_partition_fetch_bytes.clamp(1, response_bytes_max) }
    }

    /// How many partitions fill one answer.
    pub(super) fn fill(self) -> usize {
        usize::try_from(self.response_bytes_max / self.partition_bytes_max).unwrap_or(1).max(1)
    }

    /// What an answer about `partitions` may hold.
    pub(super) fn expected_bytes(self, partitions: usize) -> usize {
        let [response, partition] =
            [self.response_bytes_max, self.partition_bytes_max].map(|bytes| usize::try_from(bytes).unwrap_or(0));
        partition.saturating_mul(partitions).min(response)
    }
}

/// A request for `asked`, in their order: the broker fills the answer in the order of the request. Without a session.
pub(super) fn build(
    config: &ClientConfig,
    sizes: Sizes,
    asked: &[Asked],
    version: i16,
    may_wait: bool,
) -> FetchRequest {
    let mut topics: Vec<FetchTopic> = Vec::new();
    let mut last: Option<&Asked> = None;
    for partition in asked {
        let entry = FetchPartition {
            partition: partition.partition,
            current_leader_epoch: partition.leader_epoch,
            fetch_offset: partition.fetch_offset,
            partition_max_bytes: sizes.partition_bytes_max,
            ..Default::default()
        };
        match topics.last_mut().filter(|_| last.is_some_and(|last| last.topic == partition.topic)) {
            Some(topic) => topic.partitions.push(entry),
            None => {
                let mut topic = FetchTopic { partitions: vec![entry], ..Default::default() };
                match partition.topic_id.filter(|_| version > NAMES_UNTIL) {
                    Some(id) => topic.topic_id = id,
                    None => topic.topic = partition.topic.clone(),
                }
                topics.push(topic);
            }
        }
        last = Some(partition);
    }
    let max_wait_ms = if may_wait { i32::try_from(config.fetch_max_wait.as_millis()).unwrap_or(i32::MAX) } else { 0 };
    FetchRequest {
        max_wait_ms,
        min_bytes: config.fetch_min_bytes,
        max_bytes: sizes.response_bytes_max,
        isolation_level: config.isolation_level.wire(),
        session_id: 0,
        session_epoch: -1,
        topics,
        ..Default::default()
    }
}

/// Finds a request's targets by what an answer calls them.
pub(super) struct Index<'a> {
    by_name: HashMap<(&'a str, i32), usize>,
    by_id: HashMap<(Uuid, i32), usize>,
}

impl<'a> Index<'a> {
    pub(super) fn new(asked: &'a [Asked], version: i16) -> Self {
        let mut index = Self { by_name: HashMap::new(), by_id: HashMap::new() };
        for (place, asked) in asked.iter().enumerate() {
            match asked.topic_id.filter(|_| version > NAMES_UNTIL) {
                Some(id) => index.by_id.insert((id, asked.partition), place),
                None => index.by_name.insert((asked.topic.as_str(), asked.partition), place),
            };
        }
        index
    }

    /// The place in the request; `None` for what was not asked.
    pub(super) fn find(&self, topic: &FetchableTopicResponse, partition: i32) -> Option<usize> {
        if self.by_id.is_empty() {
            self.by_name.get(&(topic.topic.as_str(), partition)).copied()
        } else {
            self.by_id.get(&(topic.topic_id, partition)).copied()
        }
    }
}

//! Building fetch requests, how much they ask for, and finding out which target an answer is about.
//!
//! How much: an answer holds up to `fetch.max.bytes`, or a quarter of what answers may hold if that is less, and the partitions of a request share it.
//! Of each, up to `max.partition.fetch.bytes` are asked for, or as much as its largest batch has ([`piece_bytes`]): only the first batch of
//! an answer comes however large it is, so with less every answer would bring one batch, and nothing of all partitions behind it. A request
//! names partitions until what they are expected to bring fills the answer ([`WantedBytes`]): four with a megabyte each, or a thousand that
//! have a few records more. Near the end of a range, about twice is asked for of what is left of it. What may come at most is reserved
//! before; only that first batch can exceed it.

use super::partition::PartitionState;
use crate::ClientConfig;
use ottla_protocol::{
    Uuid,
    message::{FetchPartition, FetchRequest, FetchTopic, FetchableTopicResponse},
};
use std::{collections::HashMap, sync::Arc};

/// The last version that names topics by name (KIP-516).
pub(super) const NAMES_UNTIL: i16 = 12;

/// A partition is not expected to bring less than this, so that a request has an end: naming and looking it up has its price as well.
const PARTITION_BYTES_MIN: i32 = 4 << 10;

/// At least so much is asked for at the end of a range, which lies within a batch of unknown size.
const END_BYTES_MIN: i32 = 64 << 10;

/// One partition of a request.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) index: usize,
    pub(super) topic: Arc<str>,
    pub(super) topic_id: Option<Uuid>,
    pub(super) partition: i32,
    pub(super) fetch_offset: i64,
    pub(super) leader_epoch: i32,
    /// How much of it to answer with at most.
    pub(super) bytes_max: i32,
    /// Whether its range has an end.
    pub(super) is_bounded: bool,
}

impl Asked {
    pub(super) fn new(state: &PartitionState, bytes_max: i32) -> Self {
        Self {
            index: state.index,
            topic: state.topic.clone(),
            topic_id: state.target.topic_id,
            partition: state.target.partition.partition,
            fetch_offset: state.fetch_offset,
            leader_epoch: state.leader_epoch,
            bytes_max,
            is_bounded: state.is_bounded(),
        }
    }

    /// What requests and answers call its topic: its id, or its name.
    pub(super) fn topic_key(&self, by_id: bool) -> &[u8] {
        match &self.topic_id {
            Some(id) if by_id => &id.0,
            _ => self.topic.as_bytes(),
        }
    }
}

/// What an answer calls a topic.
pub(super) fn answered_topic_key(topic: &FetchableTopicResponse, by_id: bool) -> &[u8] {
    if by_id { &topic.topic_id.0 } else { topic.topic.as_bytes() }
}

/// The newest version in which topics can be asked for: ids only when every topic has one.
pub(super) fn version_cap(all_have_ids: bool) -> i16 {
    if all_have_ids { i16::MAX } else { NAMES_UNTIL }
}

/// How many bytes of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WantedBytes {
    /// What to answer with at most.
    pub(super) at_most: i32,
    /// What will come, most likely.
    pub(super) expected: i32,
}

impl WantedBytes {
    /// Of a partition that may bring `bytes_max` and has `there` more offsets, of which `wanted` are within the range, when an offset takes
    /// `offset_bytes`. The broker does not know where a range ends: it would send what lies behind it, for nothing.
    pub(super) fn new(bytes_max: i32, wanted: i64, there: i64, offset_bytes: Option<i64>) -> Self {
        let Some(offset_bytes) = offset_bytes else { return Self { at_most: bytes_max, expected: bytes_max } };
        let [wanted_bytes, there_bytes] = [wanted.saturating_mul(2), there].map(|offsets| {
            let bytes = offsets.saturating_mul(offset_bytes);
            i32::try_from(bytes).unwrap_or(i32::MAX)
        });
        let at_most = if wanted < there { wanted_bytes.max(END_BYTES_MIN).min(bytes_max) } else { bytes_max };
        Self { at_most, expected: there_bytes.clamp(PARTITION_BYTES_MIN.min(at_most), at_most) }
    }
}

/// How many bytes are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) response_bytes_max: i32,
    pub(super) partition_bytes_max: i32,
}

impl Sizes {
    /// As configured, but no more than a quarter of `memory_bytes`, so that one answer is on its way while others are decoded, and no more than
    /// a frame may hold.
    pub(super) fn new(config: &ClientConfig, memory_bytes: usize) -> Self {
        let room = (memory_bytes / 4).min(config.frame_bytes_max / 2).max(1);
        let room = i32::try_from(room).unwrap_or(i32::MAX);
        let response_bytes_max = config.fetch_max_bytes.clamp(1, room);
        Self { response_bytes_max, partition_bytes_max: config.max_partition_fetch_bytes.clamp(1, response_bytes_max) }
    }

    /// What an answer may hold whose partitions may bring `partitions_bytes` in all, apart from a larger first batch.
    pub(super) fn bound(self, partitions_bytes: usize) -> usize {
        partitions_bytes.min(usize::try_from(self.response_bytes_max).unwrap_or(0))
    }

    /// How much to ask of a partition next, after `records` came when up to `bytes_max` were asked for. Looks at the batches only while they
    /// are, or were, larger than the usual size.
    pub(super) fn piece_bytes(self, records: &[u8], bytes_max: i32) -> i32 {
        let asked = usize::try_from(bytes_max).unwrap_or(0);
        if records.len() <= asked && bytes_max <= self.partition_bytes_max {
            return self.partition_bytes_max;
        }
        let largest = i32::try_from(largest_batch(records)).unwrap_or(i32::MAX);
        largest.clamp(self.partition_bytes_max, self.response_bytes_max)
    }
}

/// The size of the largest batch that begins in `records`, as far as headers tell; the last may be cut.
fn largest_batch(records: &[u8]) -> usize {
    /// The base offset and the length itself, which the length doesn't count.
    const LENGTH_AT: usize = 8;
    const PREFIX: usize = 12;
    let (mut left, mut largest) = (records, 0);
    while let Some(length) = left.get(LENGTH_AT..).and_then(|bytes| bytes.first_chunk())
        && let Ok(length) = usize::try_from(i32::from_be_bytes(*length))
    {
        let size = length.saturating_add(PREFIX);
        largest = largest.max(size);
        let Some(rest) = left.get(size..) else { break };
        left = rest;
    }
    largest
}

/// The topics of a request for `asked`, in their order: the broker fills the answer in the order of the request.
pub(super) fn topics_of<'a>(asked: impl Iterator<Item = &'a Asked>, by_id: bool) -> Vec<FetchTopic> {
    let mut topics: Vec<FetchTopic> = Vec::new();
    let mut last: Option<&Asked> = None;
    for asked in asked {
        let entry = FetchPartition {
            partition: asked.partition,
            current_leader_epoch: asked.leader_epoch,
            fetch_offset: asked.fetch_offset,
            partition_max_bytes: asked.bytes_max,
            ..Default::default()
        };
        match topics.last_mut().filter(|_| last.is_some_and(|last| last.topic_key(by_id) == asked.topic_key(by_id))) {
            Some(topic) => topic.partitions.push(entry),
            None => {
                let mut topic = FetchTopic { partitions: vec![entry], ..Default::default() };
                match asked.topic_id.filter(|_| by_id) {
                    Some(id) => topic.topic_id = id,
                    None => topic.topic = asked.topic.to_string(),
                }
                topics.push(topic);
            }
        }
        last = Some(asked);
    }
    topics
}

/// A request for `topics`, without a session.
pub(super) fn build(config: &ClientConfig, sizes: Sizes, topics: Vec<FetchTopic>) -> FetchRequest {
    FetchRequest {
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
    places: HashMap<(&'a [u8], i32), usize>,
    by_id: bool,
}

impl<'a> Index<'a> {
    pub(super) fn new(asked: &'a [Asked], by_id: bool) -> Self {
        let places = asked.iter().enumerate();
        let places = places.map(|(place, asked)| ((asked.topic_key(by_id), asked.partition), place)).collect();
        Self { places, by_id }
    }

    /// The place in the request; `None` for what was not asked.
    pub(super) fn find(&self, topic: &FetchableTopicResponse, partition: i32) -> Option<usize> {
        self.places.get(&(answered_topic_key(topic, self.by_id), partition)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(fetch_max_bytes: i32, max_partition_fetch_bytes: i32, memory_bytes: usize) -> Sizes {
        let mut config = ClientConfig::from_bootstrap("h:1").unwrap();
        (config.fetch_max_bytes, config.max_partition_fetch_bytes) = (fetch_max_bytes, max_partition_fetch_bytes);
        Sizes::new(&config, memory_bytes)
    }

    /// Batches of these sizes, of which only what counts is set.
    fn batches(sizes: &[usize]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for size in sizes {
            let start = bytes.len();
            bytes.resize(start + size, 0);
            let length = i32::try_from(size - 12).unwrap();
            bytes[start + 8..start + 12].copy_from_slice(&length.to_be_bytes());
        }
        bytes
    }

    #[test]
    fn an_answer_is_a_quarter_of_the_memory_at_most() {
        let sizes = sizes(4 << 20, 1 << 20, 1 << 20);
        assert_eq!((sizes.response_bytes_max, sizes.partition_bytes_max), (1 << 18, 1 << 18));
        assert_eq!((sizes.bound(1000), sizes.bound(10 << 20)), (1000, 1 << 18));
        for extreme in [sizes_of(i32::MAX, 0), sizes_of(0, usize::MAX), sizes_of(-1, 1)] {
            assert!(extreme.partition_bytes_max >= 1 && extreme.partition_bytes_max <= extreme.response_bytes_max);
        }
    }

    fn sizes_of(bytes_max: i32, memory_bytes: usize) -> Sizes {
        sizes(bytes_max, bytes_max, memory_bytes)
    }

    #[test]
    fn pieces_grow_with_batches_and_shrink_again() {
        let sizes = sizes(4 << 20, 1 << 20, 64 << 20);
        assert_eq!(sizes.piece_bytes(&batches(&[900_000, 100_000]), 1 << 20), 1 << 20);
        let large = sizes.piece_bytes(&batches(&[1_500_000]), 1 << 20);
        assert_eq!(large, 1_500_000);
        // The last is cut, and larger than those that fit.
        let larger = batches(&[1_000_000, 2_000_000]);
        assert_eq!(sizes.piece_bytes(&larger[..1_500_000], large), 2_000_000);
        assert_eq!(sizes.piece_bytes(&batches(&[9_000_000]), large), 4 << 20, "but not beyond an answer");
        assert_eq!(sizes.piece_bytes(&batches(&[16_000; 90]), large), 1 << 20);
    }

    #[test]
    fn lengths_that_can_t_be_are_no_harm() {
        let sizes = sizes(4 << 20, 1 << 20, 64 << 20);
        for length in [i32::MIN, -1, 0, i32::MAX] {
            let mut bytes = vec![0; 2 << 20];
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
            let piece = sizes.piece_bytes(&bytes, 1 << 20);
            assert!((1 << 20..=4 << 20).contains(&piece), "{length}: {piece}");
        }
        assert_eq!(sizes.piece_bytes(&[], 2 << 20), 1 << 20);
    }

    #[test]
    fn what_is_expected_follows_from_what_is_there() {
        let wanted = |wanted, there, offset_bytes| {
            let bytes = WantedBytes::new(1 << 20, wanted, there, offset_bytes);
            (bytes.at_most, bytes.expected)
        };
        assert_eq!(wanted(10, 10, None), (1 << 20, 1 << 20), "nothing is known yet");
        assert_eq!(wanted(1000, 1000, Some(100)), (1 << 20, 100_000));
        assert_eq!(wanted(10, 10, Some(100)), (1 << 20, 4096), "a partition has its price");
        assert_eq!(wanted(i64::MAX, i64::MAX, Some(i64::MAX)), (1 << 20, 1 << 20));
        assert_eq!(wanted(-5, -5, Some(100)), (1 << 20, 4096));
        // The range ends before the log does.
        assert_eq!(wanted(2000, 1_000_000, Some(100)), (400_000, 400_000));
        assert_eq!(wanted(10, 1_000_000, Some(100)), (64 << 10, 64 << 10));
        assert_eq!(wanted(900_000, 1_000_000, Some(100)), (1 << 20, 1 << 20));
        // Never beyond the limit, however small.
        let bytes = WantedBytes::new(10, 5, 100, Some(100));
        assert_eq!((bytes.at_most, bytes.expected), (10, 10));
    }
}

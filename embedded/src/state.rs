//! What the cluster knows: its nodes, topics with their partitions, groups, transactions and fetch sessions. Plain data behind one
//! lock; the files in `api/` act on it, and a watch channel tells waiting requests that something changed.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{ApiKey, BrokerId};
use kafka_protocol::protocol::{StrBytes, VersionRange};
use tokio::sync::watch;
use uuid::Uuid;

use crate::fault::Faults;
use crate::group::Group;
use crate::log::PartitionLog;
use crate::session::FetchSessions;
use crate::transaction::Transactions;

/// The number of the first node. Not 0, so that a client that forgets to set a node id is noticed.
pub(crate) const FIRST_NODE_ID: i32 = 1;
/// Kafka's default for `max.message.bytes`.
const MESSAGE_BYTES_MAX: usize = 1_048_588;

/// One listener and the address that clients are told.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) id: i32,
    pub(crate) host: String,
    pub(crate) port: i32,
}

/// A partition: its log and who leads it.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    pub(crate) log: PartitionLog,
    pub(crate) leader: i32,
    pub(crate) leader_epoch: i32,
    pub(crate) replicas: Vec<i32>,
}

/// A topic; a topic that is made again under the same name has another id.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) id: Uuid,
    pub(crate) partitions: Vec<Partition>,
    pub(crate) config: BTreeMap<String, String>,
}

impl Topic {
    pub(crate) fn is_log_append_time(&self) -> bool {
        self.config.get("message.timestamp.type").is_some_and(|value| value == "LogAppendTime")
    }

    pub(crate) fn message_bytes_max(&self) -> usize {
        self.config.get("max.message.bytes").and_then(|value| value.parse().ok()).unwrap_or(MESSAGE_BYTES_MAX)
    }

    pub(crate) fn partition(&self, index: i32) -> Option<&Partition> {
        self.partitions.get(usize::try_from(index).ok()?)
    }

    pub(crate) fn partition_mut(&mut self, index: i32) -> Option<&mut Partition> {
        self.partitions.get_mut(usize::try_from(index).ok()?)
    }
}

/// Everything that requests read and change.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) id: String,
    pub(crate) nodes: Vec<Node>,
    pub(crate) topics: BTreeMap<String, Topic>,
    pub(crate) groups: BTreeMap<String, Group>,
    pub(crate) transactions: Transactions,
    /// One cache a node, as real brokers have.
    pub(crate) sessions: BTreeMap<i32, FetchSessions>,
    /// The coordinators of groups and transactional ids that were moved.
    pub(crate) coordinators: BTreeMap<String, i32>,
}

impl Cluster {
    pub(crate) fn new(nodes: Vec<Node>) -> Self {
        Self {
            id: "ottla-embedded-cluster".to_owned(),
            nodes,
            topics: BTreeMap::new(),
            groups: BTreeMap::new(),
            transactions: Transactions::default(),
            sessions: BTreeMap::new(),
            coordinators: BTreeMap::new(),
        }
    }

    fn node_at(&self, index: usize) -> i32 {
        index
            .checked_rem(self.nodes.len())
            .and_then(|index| self.nodes.get(index))
            .map_or(FIRST_NODE_ID, |node| node.id)
    }

    pub(crate) fn node(&self, id: i32) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The node that coordinates a group or a transactional id.
    pub(crate) fn coordinator(&self, key: &str) -> i32 {
        if let Some(&node) = self.coordinators.get(key) {
            return node;
        }
        let sum = key.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
        self.node_at(sum)
    }

    /// Partitions with leaders round-robin over the nodes.
    pub(crate) fn add_partitions(
        &mut self,
        name: &str,
        until: i32,
        replication_factor: i16,
    ) -> Result<(), ResponseError> {
        let from = self.topics.get(name).ok_or(ResponseError::UnknownTopicOrPartition)?.partitions.len();
        let until = usize::try_from(until).map_err(|_| ResponseError::InvalidPartitions)?;
        let replicas = usize::try_from(replication_factor).unwrap_or(1).clamp(1, self.nodes.len().max(1));
        let partitions: Vec<Partition> = (from..until)
            .map(|index| Partition {
                leader: self.node_at(index),
                replicas: (0..replicas).map(|replica| self.node_at(index + replica)).collect(),
                ..Partition::default()
            })
            .collect();
        self.topics.get_mut(name).ok_or(ResponseError::UnknownTopicOrPartition)?.partitions.extend(partitions);
        Ok(())
    }

    pub(crate) fn create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        replication_factor: i16,
        config: BTreeMap<String, String>,
    ) -> Result<Uuid, ResponseError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || name == "." || name == ".." || name.len() > 249 || !name.chars().all(legal) {
            return Err(ResponseError::InvalidTopicException);
        }
        if self.topics.contains_key(name) {
            return Err(ResponseError::TopicAlreadyExists);
        }
        if partitions < 1 {
            return Err(ResponseError::InvalidPartitions);
        }
        let too_many = usize::try_from(replication_factor).is_ok_and(|factor| factor > self.nodes.len());
        if too_many || replication_factor == 0 || replication_factor < -1 {
            return Err(ResponseError::InvalidReplicationFactor);
        }
        let id = random_topic_id();
        self.topics.insert(name.to_owned(), Topic { id, partitions: Vec::new(), config });
        self.add_partitions(name, partitions, replication_factor)?;
        Ok(id)
    }

    /// Deletes a topic with its records and what groups committed for it.
    pub(crate) fn delete_topic(&mut self, name: &str) -> Result<Uuid, ResponseError> {
        let topic = self.topics.remove(name).ok_or(ResponseError::UnknownTopicOrPartition)?;
        for group in self.groups.values_mut() {
            group.offsets.retain(|(topic, _), _| topic != name);
        }
        Ok(topic.id)
    }

    pub(crate) fn topic_by_id(&self, id: Uuid) -> Option<(&str, &Topic)> {
        self.topics.iter().find(|(_, topic)| topic.id == id).map(|(name, topic)| (name.as_str(), topic))
    }

    /// The partition if `node` leads it and the client's view of the leader is not older or newer (KIP-320); -1 is no view.
    pub(crate) fn led(
        &mut self,
        node: i32,
        topic: &str,
        partition: i32,
        current_leader_epoch: i32,
    ) -> Result<&mut Partition, ResponseError> {
        let partition = self.partition_mut(topic, partition).ok_or(ResponseError::UnknownTopicOrPartition)?;
        if partition.leader != node {
            Err(ResponseError::NotLeaderOrFollower)
        } else if current_leader_epoch == -1 || current_leader_epoch == partition.leader_epoch {
            Ok(partition)
        } else if current_leader_epoch < partition.leader_epoch {
            Err(ResponseError::FencedLeaderEpoch)
        } else {
            Err(ResponseError::UnknownLeaderEpoch)
        }
    }

    pub(crate) fn partition(&self, topic: &str, partition: i32) -> Option<&Partition> {
        self.topics.get(topic)?.partition(partition)
    }

    pub(crate) fn partition_mut(&mut self, topic: &str, partition: i32) -> Option<&mut Partition> {
        self.topics.get_mut(topic)?.partition_mut(partition)
    }
}

/// The state with its lock, and what is set for the broker's life.
pub(crate) struct Shared {
    cluster: Mutex<Cluster>,
    changed: watch::Sender<u64>,
    pub(crate) faults: Faults,
    pub(crate) versions: BTreeMap<i16, VersionRange>,
    pub(crate) auto_create_topics: bool,
    pub(crate) default_partitions: i32,
}

impl Shared {
    pub(crate) fn new(
        cluster: Cluster,
        versions: BTreeMap<i16, VersionRange>,
        auto_create_topics: bool,
        default_partitions: i32,
    ) -> Self {
        Self {
            cluster: Mutex::new(cluster),
            changed: watch::Sender::new(0),
            faults: Faults::default(),
            versions,
            auto_create_topics,
            default_partitions,
        }
    }

    /// Acts on the state without waking those who wait for a change.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Cluster) -> T) -> T {
        act(&mut self.cluster.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Acts on the state and wakes long polls and rebalances.
    pub(crate) fn update<T>(&self, act: impl FnOnce(&mut Cluster) -> T) -> T {
        let result = self.with(act);
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
        result
    }

    /// Tells of each [`Shared::update`] from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn offered(&self, api_key: ApiKey) -> Option<VersionRange> {
        self.versions.get(&(api_key as i16)).copied()
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// 64 bits that differ from call to call: std seeds each `RandomState` apart.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(now_ms())
}

/// Kafka avoids ids whose text form begins with a dash; the version bits of a random UUID are set as in Java.
fn random_topic_id() -> Uuid {
    let random = u128::from(random() >> 1) << 64 | u128::from(random());
    uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid()
}

pub(crate) fn text(value: &str) -> StrBytes {
    StrBytes::from_string(value.to_owned())
}

pub(crate) fn broker_ids(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

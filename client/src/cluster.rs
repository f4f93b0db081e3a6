//! What metadata said: brokers, topics, leaders. Pure; who asks and when is in `metadata.rs`.

use crate::{BrokerAddress, BrokerName, NodeId, types::known_topic_id};
use ottla_protocol::{ErrorCode, Uuid, message::MetadataResponse};
use std::collections::{BTreeMap, HashMap};

/// A topic as metadata shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Topic {
    /// Its id (KIP-516); `None` from brokers older than 2.8.
    pub topic_id: Option<Uuid>,
    /// Whether it is one of Kafka's own, such as `__consumer_offsets`.
    pub is_internal: bool,
    /// Its partitions by index.
    pub partitions: BTreeMap<i32, Partition>,
}

/// A partition as metadata shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Partition {
    /// The broker that leads it; `None` during an election.
    pub leader: Option<NodeId>,
    /// The leader's epoch (KIP-320), -1 if unknown.
    pub leader_epoch: i32,
    /// The brokers that hold it.
    pub replicas: Vec<NodeId>,
    /// Those that are in sync.
    pub in_sync_replicas: Vec<NodeId>,
}

/// The newest known state of the cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cluster {
    brokers: BTreeMap<NodeId, BrokerName>,
    topics: HashMap<String, Topic>,
}

/// What one metadata answer said of one topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TopicAnswer {
    pub(crate) name: String,
    pub(crate) code: ErrorCode,
    /// Whether some partition has no leader just now.
    pub(crate) leaderless: bool,
}

impl TopicAnswer {
    /// What is taken for the answer about a topic that an answer leaves out.
    pub(crate) fn unknown(name: &str) -> Self {
        Self { name: name.to_owned(), code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, leaderless: false }
    }
}

impl Cluster {
    /// Takes an answer in, and says what it held of each topic. Of a topic whose id did not change, a partition's older leader epoch is
    /// ignored: a late answer must not move it back to a former leader.
    pub(crate) fn update(&mut self, response: &MetadataResponse, asked: &BrokerAddress) -> Vec<TopicAnswer> {
        self.brokers = response
            .brokers
            .iter()
            .filter_map(|broker| {
                let address = BrokerAddress { host: broker.host.clone(), port: u16::try_from(broker.port).ok()? };
                let node_id = NodeId(broker.node_id);
                Some((node_id, BrokerName { node_id: Some(node_id), address, advertised_by: Some(asked.clone()) }))
            })
            .collect();
        let mut answers = Vec::with_capacity(response.topics.len());
        for answer in &response.topics {
            let Some(name) = &answer.name else { continue };
            let leaderless = answer.partitions.iter().any(|partition| partition.leader_id < 0);
            answers.push(TopicAnswer { name: name.clone(), code: answer.error_code, leaderless });
            if !answer.error_code.is_none() {
                if answer.error_code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION {
                    self.topics.remove(name);
                }
                continue;
            }
            let topic_id = known_topic_id(answer.topic_id);
            let known = self.topics.get(name).filter(|known| known.topic_id == topic_id);
            let partitions = answer
                .partitions
                .iter()
                .map(|partition| {
                    let fresh = Partition {
                        leader: (partition.leader_id >= 0).then_some(NodeId(partition.leader_id)),
                        leader_epoch: partition.leader_epoch,
                        replicas: partition.replica_nodes.iter().copied().map(NodeId).collect(),
                        in_sync_replicas: partition.isr_nodes.iter().copied().map(NodeId).collect(),
                    };
                    let older = known.and_then(|topic| topic.partitions.get(&partition.partition_index));
                    let stays =
                        older.filter(|older| fresh.leader_epoch >= 0 && older.leader_epoch > fresh.leader_epoch);
                    (partition.partition_index, stays.cloned().unwrap_or(fresh))
                })
                .collect();
            self.topics.insert(name.clone(), Topic { topic_id, is_internal: answer.is_internal, partitions });
        }
        answers
    }

    /// A hint from a fetch answer (KIP-951): believed only when its epoch is newer than what is known.
    pub(crate) fn new_leader(&mut self, topic: &str, partition: i32, leader: NodeId, leader_epoch: i32) -> bool {
        let known = self.topics.get_mut(topic).and_then(|topic| topic.partitions.get_mut(&partition));
        match known {
            Some(known) if leader_epoch > known.leader_epoch => {
                known.leader = Some(leader);
                known.leader_epoch = leader_epoch;
                true
            }
            _ => false,
        }
    }

    /// A broker that a fetch answer named beside such a hint.
    pub(crate) fn add_broker(&mut self, node_id: NodeId, address: BrokerAddress, advertised_by: BrokerAddress) {
        let name = BrokerName { node_id: Some(node_id), address, advertised_by: Some(advertised_by) };
        self.brokers.insert(node_id, name);
    }

    pub(crate) fn brokers(&self) -> impl Iterator<Item = &BrokerName> {
        self.brokers.values()
    }

    pub(crate) fn broker(&self, node_id: NodeId) -> Option<&BrokerName> {
        self.brokers.get(&node_id)
    }

    pub(crate) fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.get(name)
    }

    /// The partition's leader and its epoch, where both the leader and its address are known.
    pub(crate) fn leader(&self, topic: &str, partition: i32) -> Option<(&BrokerName, i32)> {
        let partition = self.topics.get(topic)?.partitions.get(&partition)?;
        Some((self.brokers.get(&partition.leader?)?, partition.leader_epoch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_protocol::message::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic};

    fn answer(topic_id: u8, leader_id: i32, leader_epoch: i32) -> MetadataResponse {
        let partition = MetadataResponsePartition { partition_index: 0, leader_id, leader_epoch, ..Default::default() };
        let topic = MetadataResponseTopic {
            name: Some("t".to_owned()),
            topic_id: Uuid([topic_id; 16]),
            partitions: vec![partition],
            ..Default::default()
        };
        let brokers = [1, 2].map(|node_id| MetadataResponseBroker {
            node_id,
            host: "h".to_owned(),
            port: 9000 + node_id,
            ..Default::default()
        });
        MetadataResponse { brokers: brokers.into(), topics: vec![topic], ..Default::default() }
    }

    fn leader(cluster: &Cluster) -> i32 {
        cluster.leader("t", 0).unwrap().0.node_id.unwrap().0
    }

    #[test]
    fn s_n13_an_older_epoch_does_not_move_a_partition_back() {
        let asked = "boot:9092".parse().unwrap();
        let mut cluster = Cluster::default();
        cluster.update(&answer(1, 2, 7), &asked);
        assert_eq!(leader(&cluster), 2);
        cluster.update(&answer(1, 1, 6), &asked);
        assert_eq!(leader(&cluster), 2, "epoch 6 came late");
        cluster.update(&answer(1, 1, 8), &asked);
        assert_eq!(leader(&cluster), 1);
        cluster.update(&answer(2, 2, 0), &asked);
        assert_eq!(leader(&cluster), 2, "another topic of the same name starts its epochs over");
    }

    #[test]
    fn hints_count_only_when_newer() {
        let mut cluster = Cluster::default();
        cluster.update(&answer(1, 2, 7), &"boot:9092".parse().unwrap());
        assert!(!cluster.new_leader("t", 0, NodeId(1), 7));
        assert!(cluster.new_leader("t", 0, NodeId(1), 8));
        assert_eq!(leader(&cluster), 1);
        assert!(!cluster.new_leader("t", 9, NodeId(1), 8));
    }
}

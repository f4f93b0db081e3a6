//! Metadata: nodes, topics by name or by id (KIP-516), leaders; and topics made on demand.

use std::collections::BTreeMap;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{BrokerId, MetadataRequest, MetadataResponse, TopicName};

use super::Context;
use crate::state::{Cluster, FIRST_NODE_ID, Shared, Topic, broker_ids, text};

/// The version in which null, and no longer the empty list, asks for all topics.
const NULL_MEANS_ALL: i16 = 1;

pub(super) fn handle(shared: &Shared, context: &Context, request: MetadataRequest) -> MetadataResponse {
    shared.with(|cluster| {
        let brokers = cluster.nodes.iter().map(|node| {
            MetadataResponseBroker::default()
                .with_node_id(BrokerId(node.id))
                .with_host(text(&node.host))
                .with_port(node.port)
        });
        let mut response = MetadataResponse::default()
            .with_brokers(brokers.collect())
            .with_cluster_id(Some(text(&cluster.id)))
            .with_controller_id(BrokerId(FIRST_NODE_ID));
        if let Some(code) = context.forced.top_level {
            return response.with_error_code(code);
        }
        let asked = request.topics.filter(|topics| context.version >= NULL_MEANS_ALL || !topics.is_empty());
        response.topics = match asked {
            None => cluster.topics.iter().map(|(name, topic)| describe(context, name, topic)).collect(),
            Some(topics) => {
                let create = shared.auto_create_topics && request.allow_auto_topic_creation;
                let partitions = create.then_some(shared.default_partitions);
                topics.iter().map(|asked| find(cluster, context, asked, partitions)).collect()
            }
        };
        response
    })
}

/// One asked topic; a missing one is made with `create_partitions` partitions if given.
fn find(
    cluster: &mut Cluster,
    context: &Context,
    asked: &MetadataRequestTopic,
    create_partitions: Option<i32>,
) -> MetadataResponseTopic {
    let Some(name) = asked.name.as_ref() else {
        return match cluster.topic_by_id(asked.topic_id) {
            Some((name, topic)) => describe(context, name, topic),
            None => MetadataResponseTopic::default()
                .with_name(None)
                .with_topic_id(asked.topic_id)
                .with_error_code(ResponseError::UnknownTopicId.code()),
        };
    };
    if let (None, Some(partitions)) = (cluster.topics.get(name.as_str()), create_partitions)
        && let Err(error) = cluster.create_topic(name, partitions, 1, BTreeMap::new())
    {
        return MetadataResponseTopic::default().with_name(Some(name.clone())).with_error_code(error.code());
    }
    match cluster.topics.get(name.as_str()) {
        Some(topic) => describe(context, name, topic),
        None => MetadataResponseTopic::default()
            .with_name(Some(name.clone()))
            .with_error_code(ResponseError::UnknownTopicOrPartition.code()),
    }
}

fn describe(context: &Context, name: &str, topic: &Topic) -> MetadataResponseTopic {
    let described = MetadataResponseTopic::default().with_name(Some(TopicName(text(name)))).with_topic_id(topic.id);
    if let Some(code) = context.forced.all {
        return described.with_error_code(code);
    }
    let partitions = (0..).zip(&topic.partitions).map(|(index, partition)| {
        let leaderless = if partition.leader < 0 { ResponseError::LeaderNotAvailable.code() } else { 0 };
        MetadataResponsePartition::default()
            .with_error_code(context.forced.partition(name, index).unwrap_or(leaderless))
            .with_partition_index(index)
            .with_leader_id(BrokerId(partition.leader))
            .with_leader_epoch(partition.leader_epoch)
            .with_replica_nodes(broker_ids(&partition.replicas))
            .with_isr_nodes(broker_ids(&partition.replicas))
    });
    described.with_partitions(partitions.collect())
}

//! CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords and DescribeConfigs. Any node takes them, as with KRaft, where brokers
//! hand them on to the controller; DeleteRecords goes to the leader.

use std::collections::BTreeMap;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use kafka_protocol::messages::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::describe_configs_response::{DescribeConfigsResourceResult, DescribeConfigsResult};
use kafka_protocol::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse, DeleteRecordsRequest,
    DeleteRecordsResponse, DeleteTopicsRequest, DeleteTopicsResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    TopicName,
};
use uuid::Uuid;

use super::{Context, code};
use crate::state::{Cluster, Shared, text};

/// DeleteRecords' offset for everything up to the high watermark.
const HIGH_WATERMARK: i64 = -1;
/// DescribeConfigs' resource types and sources.
const TOPIC_RESOURCE: i8 = 2;
const TOPIC_CONFIG_SOURCE: i8 = 1;

pub(super) fn create(
    cluster: &mut Cluster,
    context: &Context,
    shared: &Shared,
    request: CreateTopicsRequest,
) -> CreateTopicsResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = match (topic.num_partitions, topic.assignments.len()) {
            (-1, 0) => shared.default_partitions,
            (-1, count) => i32::try_from(count).unwrap_or(i32::MAX),
            (count, _) => count,
        };
        let created =
            context.check_whole().and_then(|()| create_one(cluster, &topic, partitions, request.validate_only));
        let result = CreatableTopicResult::default().with_name(topic.name).with_error_code(code(&created));
        match created {
            Ok(id) => result
                .with_topic_id(id)
                .with_num_partitions(partitions)
                .with_replication_factor(topic.replication_factor.max(1))
                .with_configs(Some(
                    topic
                        .configs
                        .into_iter()
                        .filter(|_| context.version >= 5)
                        .map(|config| {
                            CreatableTopicConfigs::default()
                                .with_name(config.name)
                                .with_value(config.value)
                                .with_config_source(TOPIC_CONFIG_SOURCE)
                        })
                        .collect(),
                )),
            Err(error) => result.with_error_message(Some(text(&error.to_string()))),
        }
    });
    CreateTopicsResponse::default().with_topics(topics.collect())
}

fn create_one(
    cluster: &mut Cluster,
    topic: &CreatableTopic,
    partitions: i32,
    validate_only: bool,
) -> Result<Uuid, ResponseError> {
    let config: BTreeMap<String, String> = topic
        .configs
        .iter()
        .filter_map(|config| Some((config.name.to_string(), config.value.as_ref()?.to_string())))
        .collect();
    let id = cluster.create_topic(&topic.name, partitions, topic.replication_factor, config)?;
    if validate_only {
        cluster.topics.remove(topic.name.as_str());
    }
    Ok(id)
}

pub(super) fn delete(cluster: &mut Cluster, context: &Context, request: DeleteTopicsRequest) -> DeleteTopicsResponse {
    // Up to version 5 there is a list of names, from 6 on a list of names or ids.
    let named = request.topic_names.into_iter().map(|name| DeleteTopicState::default().with_name(Some(name)));
    let responses = named.chain(request.topics).map(|asked| {
        let deleted = context.check_whole().and_then(|()| match &asked.name {
            Some(name) => cluster.delete_topic(name).map(|id| (name.clone(), id)),
            None => match cluster.topic_by_id(asked.topic_id).map(|(name, _)| name.to_owned()) {
                Some(name) => cluster.delete_topic(&name).map(|id| (TopicName(text(&name)), id)),
                None => Err(ResponseError::UnknownTopicId),
            },
        });
        let result = DeletableTopicResult::default().with_error_code(code(&deleted));
        match deleted {
            Ok((name, id)) => result.with_name(Some(name)).with_topic_id(id),
            Err(_) => result.with_name(asked.name).with_topic_id(asked.topic_id),
        }
    });
    DeleteTopicsResponse::default().with_responses(responses.collect())
}

pub(super) fn create_partitions(
    cluster: &mut Cluster,
    context: &Context,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let results = request.topics.into_iter().map(|asked| {
        let added = context.check_whole().and_then(|()| {
            let topic = cluster.topics.get(asked.name.as_str()).ok_or(ResponseError::UnknownTopicOrPartition)?;
            let more = usize::try_from(asked.count).is_ok_and(|count| count > topic.partitions.len());
            if !more {
                return Err(ResponseError::InvalidPartitions);
            }
            let replicas = topic.partition(0).map_or(1, |partition| partition.replicas.len());
            let replication_factor = i16::try_from(replicas).unwrap_or(1);
            if request.validate_only {
                return Ok(());
            }
            cluster.add_partitions(&asked.name, asked.count, replication_factor)
        });
        CreatePartitionsTopicResult::default().with_name(asked.name).with_error_code(code(&added))
    });
    CreatePartitionsResponse::default().with_results(results.collect())
}

pub(super) fn delete_records(
    cluster: &mut Cluster,
    context: &Context,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            let index = asked.partition_index;
            let deleted = context.check_partition(&topic.name, index).and_then(|()| {
                let log = &mut cluster.led(context.node, &topic.name, index, -1)?.log;
                let before = if asked.offset == HIGH_WATERMARK { log.end_offset() } else { asked.offset };
                if before < 0 || before > log.end_offset() {
                    return Err(ResponseError::OffsetOutOfRange);
                }
                log.delete_records(before);
                Ok(log.start_offset())
            });
            DeleteRecordsPartitionResult::default()
                .with_partition_index(index)
                .with_error_code(code(&deleted))
                .with_low_watermark(deleted.unwrap_or(-1))
        });
        let partitions = partitions.collect();
        DeleteRecordsTopicResult::default().with_name(topic.name).with_partitions(partitions)
    });
    DeleteRecordsResponse::default().with_topics(topics.collect())
}

/// The configuration that topics were made with; of other resources the broker knows none.
pub(super) fn describe_configs(
    cluster: &mut Cluster,
    context: &Context,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let results = request.resources.into_iter().map(|resource| {
        let described = context.check_whole().and_then(|()| {
            if resource.resource_type != TOPIC_RESOURCE {
                return Ok(Vec::new());
            }
            let topic =
                cluster.topics.get(resource.resource_name.as_str()).ok_or(ResponseError::UnknownTopicOrPartition)?;
            // Null and the empty list both ask for all.
            let keys = resource.configuration_keys.as_deref().unwrap_or_default();
            let asked = |name: &str| keys.is_empty() || keys.iter().any(|key| key.as_str() == name);
            Ok(topic.config.iter().filter(|(name, _)| asked(name)).collect())
        });
        let result = DescribeConfigsResult::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name)
            .with_error_code(code(&described));
        let configs = described.unwrap_or_default().into_iter().map(|(name, value)| {
            DescribeConfigsResourceResult::default()
                .with_name(text(name))
                .with_value(Some(text(value)))
                .with_config_source(TOPIC_CONFIG_SOURCE)
        });
        result.with_configs(configs.collect())
    });
    DescribeConfigsResponse::default().with_results(results.collect())
}

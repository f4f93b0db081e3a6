//! Topics: made, listed, grown, cut and deleted over the wire.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    ApiKey, BrokerId, CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeClusterRequest, DescribeConfigsRequest, MetadataRequest,
};
use ottla_embedded::{EmbeddedBroker, Request};
use uuid::Uuid;

use crate::support::{Client, batch, topic_name};

fn named(name: &'static str) -> MetadataRequestTopic {
    MetadataRequestTopic::default().with_name(Some(topic_name(name)))
}

#[tokio::test]
async fn metadata_spreads_leaders_and_finds_topics_by_name_and_id() {
    let broker = EmbeddedBroker::builder().nodes(3).advertised(2, "no-such-host", 9092).start().await.unwrap();
    let id = Uuid::from_bytes(broker.create_topic("logs", 4, &[]).unwrap());
    let mut client = Client::connect(&broker, 3).await;
    for version in 0..=13 {
        let asked = vec![named("logs"), named("no-such-topic")];
        let response = client.ask(version, MetadataRequest::default().with_topics(Some(asked))).await;
        let hosts: Vec<_> =
            response.brokers.iter().map(|node| (node.node_id.0, node.host.as_str(), node.port)).collect();
        assert_eq!(hosts.len(), 3);
        assert_eq!(hosts[1], (2, "no-such-host", 9092));
        assert_eq!(hosts[2].2, i32::from(broker.address(3).unwrap().port()));
        let leaders: Vec<i32> = response.topics[0].partitions.iter().map(|partition| partition.leader_id.0).collect();
        assert_eq!(leaders, [1, 2, 3, 1], "round-robin");
        assert_eq!(response.topics[1].error_code, ResponseError::UnknownTopicOrPartition.code());
    }
    // Null is all topics, the empty list none; but in version 0 the empty list is all.
    for (version, asked, expected) in [(0, Some(vec![]), 1), (1, Some(vec![]), 0), (1, None, 1), (13, None, 1)] {
        let response = client.ask(version, MetadataRequest::default().with_topics(asked)).await;
        assert_eq!(response.topics.len(), expected, "version {version}");
    }
    let by_id = |id| MetadataRequestTopic::default().with_topic_id(id).with_name(None);
    let asked = vec![by_id(id), by_id(Uuid::from_u128(9))];
    let response = client.ask(12, MetadataRequest::default().with_topics(Some(asked))).await;
    assert_eq!(response.topics[0].name, Some(topic_name("logs")));
    assert_eq!(response.topics[1].error_code, ResponseError::UnknownTopicId.code());
    assert_eq!(response.topics[1].name, None);
}

#[tokio::test]
async fn topics_are_made_on_demand_only_where_both_sides_want_it() {
    for (enabled, allowed, made) in [(false, true, false), (true, false, false), (true, true, true)] {
        let broker = EmbeddedBroker::builder().auto_create_topics(enabled).default_partitions(2).start().await.unwrap();
        let mut client = Client::connect(&broker, 1).await;
        let request =
            MetadataRequest::default().with_topics(Some(vec![named("typo")])).with_allow_auto_topic_creation(allowed);
        let response = client.ask(12, request).await;
        assert_eq!(response.topics[0].partitions.len(), if made { 2 } else { 0 });
        assert_eq!(broker.topic_id("typo").is_some(), made);
        let recorded = broker.last_request(ApiKey::Metadata).unwrap();
        let Request::Metadata(seen) = &recorded.request else { panic!("{recorded:?}") };
        assert_eq!(seen.allow_auto_topic_creation, allowed);
        assert_eq!((recorded.api_version, recorded.client_id.as_deref()), (12, Some("test")));
    }
}

#[tokio::test]
async fn topics_live_and_die() {
    let broker = EmbeddedBroker::builder().nodes(2).start().await.unwrap();
    let mut client = Client::connect(&broker, 1).await;
    let config = CreatableTopicConfig::default().with_name("retention.ms".into()).with_value(Some("5".into()));
    let topic = |name: &'static str, partitions: i32, replicas: i16| {
        CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(replicas)
            .with_configs(vec![config.clone()])
    };
    let topics = vec![
        topic("a", 2, 2),
        topic("a", 2, 2),
        topic("b/c", 1, 1),
        topic("d", 0, 1),
        topic("e", 1, 3),
        topic("f", -1, -1),
    ];
    let response = client.ask(7, CreateTopicsRequest::default().with_topics(topics)).await;
    let codes: Vec<i16> = response.topics.iter().map(|topic| topic.error_code).collect();
    assert_eq!(codes, [0, 36, 17, 37, 38, 0]);
    assert_eq!(response.topics[0].topic_id.into_bytes(), broker.topic_id("a").unwrap());
    let dry = CreateTopicsRequest::default().with_topics(vec![topic("g", 1, 1)]).with_validate_only(true);
    assert_eq!(client.ask(7, dry).await.topics[0].error_code, 0);
    assert_eq!(broker.topic_id("g"), None);

    let resource = DescribeConfigsResource::default().with_resource_type(2).with_resource_name("a".into());
    let described = client.ask(4, DescribeConfigsRequest::default().with_resources(vec![resource])).await;
    let config = &described.results[0].configs[0];
    assert_eq!((config.name.as_str(), config.value.as_deref()), ("retention.ms", Some("5")));

    let grow = |count| {
        CreatePartitionsRequest::default()
            .with_topics(vec![CreatePartitionsTopic::default().with_name(topic_name("a")).with_count(count)])
    };
    assert_eq!(client.ask(3, grow(2)).await.results[0].error_code, ResponseError::InvalidPartitions.code());
    assert_eq!(client.ask(3, grow(3)).await.results[0].error_code, 0);
    assert_eq!(broker.leader("a", 2), Ok((1, 0)));

    for _ in 0..3 {
        broker.append("a", 0, batch(10)).unwrap();
    }
    let cut = |offset| {
        let partition = DeleteRecordsPartition::default().with_offset(offset);
        let topic = DeleteRecordsTopic::default().with_name(topic_name("a")).with_partitions(vec![partition]);
        DeleteRecordsRequest::default().with_topics(vec![topic])
    };
    for (offset, code, low_watermark) in [(15, 0, 15), (31, 1, -1), (-1, 0, 30)] {
        let response = client.ask(2, cut(offset)).await;
        let result = &response.topics[0].partitions[0];
        assert_eq!((result.error_code, result.low_watermark), (code, low_watermark));
    }

    let by_id =
        DeleteTopicState::default().with_name(None).with_topic_id(Uuid::from_bytes(broker.topic_id("a").unwrap()));
    let by_name = DeleteTopicState::default().with_name(Some(topic_name("f")));
    let asked = vec![by_id.clone(), by_name, by_id];
    let response = client.ask(6, DeleteTopicsRequest::default().with_topics(asked)).await;
    let codes: Vec<i16> = response.responses.iter().map(|result| result.error_code).collect();
    assert_eq!(codes, [0, 0, ResponseError::UnknownTopicId.code()]);
    let asked = DeleteTopicsRequest::default().with_topic_names(vec![topic_name("a")]);
    assert_eq!(client.ask(5, asked).await.responses[0].error_code, 3);
}

#[tokio::test]
async fn nodes_stop_and_start_again_on_their_port() {
    let broker = EmbeddedBroker::builder().nodes(2).start().await.unwrap();
    let address = broker.address(2).unwrap();
    let mut client = Client::connect(&broker, 2).await;
    let cluster = client.ask(1, DescribeClusterRequest::default().with_endpoint_type(1)).await;
    assert_eq!(cluster.brokers.iter().map(|node| node.broker_id).collect::<Vec<_>>(), [BrokerId(1), BrokerId(2)]);
    broker.stop_node(2).await;
    assert_eq!(client.receive_frame().await, None);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    broker.start_node(2).await.unwrap();
    let mut client = Client::connect(&broker, 2).await;
    client.ask(1, MetadataRequest::default()).await;

    broker.disconnect_all();
    assert_eq!(client.receive_frame().await, None);
    let mut client = Client::connect(&broker, 2).await;
    client.ask(1, MetadataRequest::default()).await;
    broker.shutdown().await;
    assert_eq!(client.receive_frame().await, None);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn dropping_the_broker_closes_its_ports() {
    let broker = EmbeddedBroker::start().await.unwrap();
    let address = broker.address(1).unwrap();
    let mut client = Client::connect(&broker, 1).await;
    client.ask(1, MetadataRequest::default()).await;
    drop(broker);
    assert_eq!(client.receive_frame().await, None);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

//! Leaders that move, epochs that pass, logs that lose their end.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::{ListOffsetsRequest, MetadataRequest, OffsetForLeaderEpochRequest};
use ottla_embedded::EmbeddedBroker;

use crate::support::{Client, Position, batch, fetch, partitions, produce, topic_name};

const LOGS: Position = Position { topic: "logs", partition: 0, offset: 0 };

#[tokio::test]
async fn an_old_leader_names_the_new_one_where_the_version_can() {
    let broker = EmbeddedBroker::builder().nodes(2).advertised(2, "new-leader", 1234).start().await.unwrap();
    broker.create_topic("logs", 1, &[]).unwrap();
    broker.append("logs", 0, batch(10)).unwrap();
    let mut old = Client::connect(&broker, 1).await;
    let mut new = Client::connect(&broker, 2).await;
    broker.set_leader("logs", 0, 2).unwrap();
    let not_leader = ResponseError::NotLeaderOrFollower.code();
    for version in 4..=18 {
        let response = old.ask(version, fetch(&broker, version, &[LOGS])).await;
        let data = partitions(&response)[0];
        assert_eq!(data.error_code, not_leader, "Fetch {version}");
        let leader = (data.current_leader.leader_id.0, data.current_leader.leader_epoch);
        assert_eq!(leader, if version >= 12 { (2, 1) } else { (-1, -1) });
        let endpoints: Vec<_> =
            response.node_endpoints.iter().map(|node| (node.node_id.0, node.host.as_str(), node.port)).collect();
        assert_eq!(endpoints, if version >= 16 { vec![(2, "new-leader", 1234)] } else { vec![] });
        let response = new.ask(version, fetch(&broker, version, &[LOGS])).await;
        assert_eq!(partitions(&response)[0].error_code, 0);
    }
    for version in 3..=13 {
        let response = old.ask(version, produce(&broker, version, "logs", 0, batch(1))).await;
        let result = &response.responses[0].partition_responses[0];
        assert_eq!(result.error_code, not_leader, "Produce {version}");
        assert_eq!(result.current_leader.leader_id.0, if version >= 10 { 2 } else { -1 });
        assert_eq!(response.node_endpoints.len(), usize::from(version >= 10));
    }
    assert_eq!(broker.end_offset("logs", 0), Ok(10));
}

#[tokio::test]
async fn nobody_leads() {
    let broker = EmbeddedBroker::start().await.unwrap();
    broker.create_topic("logs", 2, &[]).unwrap();
    broker.set_leader("logs", 1, -1).unwrap();
    let mut client = Client::connect(&broker, 1).await;
    let response = client.ask(9, MetadataRequest::default().with_topics(None)).await;
    let codes: Vec<i16> = response.topics[0].partitions.iter().map(|partition| partition.error_code).collect();
    assert_eq!(codes, [0, ResponseError::LeaderNotAvailable.code()]);
    let response = client.ask(12, fetch(&broker, 12, &[Position { partition: 1, ..LOGS }])).await;
    assert_eq!(partitions(&response)[0].error_code, ResponseError::NotLeaderOrFollower.code());
}

#[tokio::test]
async fn epochs_fence_and_part_logs() {
    let broker = EmbeddedBroker::start().await.unwrap();
    broker.create_topic("logs", 1, &[]).unwrap();
    broker.append("logs", 0, batch(10)).unwrap(); // epoch 0: 0..10
    broker.bump_leader_epoch("logs", 0).unwrap();
    broker.bump_leader_epoch("logs", 0).unwrap();
    broker.append("logs", 0, batch(10)).unwrap(); // epoch 2: 10..20
    broker.bump_leader_epoch("logs", 0).unwrap(); // epoch 3, nothing yet
    let mut client = Client::connect(&broker, 1).await;

    for (epoch, error) in [(-1, 0), (3, 0), (2, 74), (4, 75)] {
        let mut request = fetch(&broker, 12, &[LOGS]);
        request.topics[0].partitions[0].current_leader_epoch = epoch;
        assert_eq!(partitions(&client.ask(12, request).await)[0].error_code, error, "Fetch with epoch {epoch}");
        let partition = ListOffsetsPartition::default().with_timestamp(-1).with_current_leader_epoch(epoch);
        let topic = ListOffsetsTopic::default().with_name(topic_name("logs")).with_partitions(vec![partition]);
        let response = client.ask(5, ListOffsetsRequest::default().with_topics(vec![topic])).await;
        let data = &response.topics[0].partitions[0];
        assert_eq!((data.error_code, data.leader_epoch), (error, if error == 0 { 3 } else { -1 }));
    }

    for (epoch, found) in [(0, (0, 10)), (1, (0, 10)), (2, (2, 20)), (3, (3, 20)), (4, (-1, -1))] {
        let partition = OffsetForLeaderPartition::default().with_leader_epoch(epoch).with_current_leader_epoch(-1);
        let topic = OffsetForLeaderTopic::default().with_topic(topic_name("logs")).with_partitions(vec![partition]);
        let response = client.ask(4, OffsetForLeaderEpochRequest::default().with_topics(vec![topic])).await;
        let data = &response.topics[0].partitions[0];
        assert_eq!((data.error_code, data.leader_epoch, data.end_offset), (0, found.0, found.1), "epoch {epoch}");
    }

    // The records of epoch 2 are lost; who has them is told where the logs part.
    assert_eq!(broker.truncate("logs", 0, 15), Ok(10));
    let mut request = fetch(&broker, 12, &[Position { offset: 20, ..LOGS }]);
    request.topics[0].partitions[0].last_fetched_epoch = 2;
    let response = client.ask(12, request).await;
    let data = partitions(&response)[0];
    assert_eq!((data.error_code, data.diverging_epoch.epoch, data.diverging_epoch.end_offset), (0, 0, 10));
}

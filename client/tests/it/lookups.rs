//! Metadata and ListOffsets: leaders that move, topics that come and go, answers that leave something out.

use crate::support::{MS, client, config, edit, start, text, topic};
use ottla_client::{Client, Error, IsolationLevel, OffsetSpec, TopicPartition};
use ottla_embedded::messages::ApiKey;
use ottla_embedded::{Action, EmbeddedBroker, PartitionError};
use ottla_protocol::message::{ListOffsetsRequest, MetadataRequest};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

fn all(partitions: i32, spec: OffsetSpec) -> BTreeMap<TopicPartition, OffsetSpec> {
    (0..partitions).map(|partition| (TopicPartition::new("t", partition), spec)).collect()
}

async fn ends(client: &Client, partitions: i32) -> ottla_client::Result<Vec<Option<i64>>> {
    let found = client.list_offsets(&all(partitions, OffsetSpec::Latest), IsolationLevel::ReadUncommitted).await?;
    Ok(found.into_values().map(|found| found.offset).collect())
}

async fn impatient(broker: &EmbeddedBroker, limit: Duration) -> Client {
    let mut config = config(&broker.bootstrap_servers());
    config.default_api_timeout = limit;
    Client::connect(config).await.unwrap()
}

#[tokio::test]
async fn offsets_of_many_partitions_over_three_nodes() {
    let broker = start(3).await;
    topic(&broker, "t", 300, 10);
    let client = client(&broker).await;
    assert_eq!(ends(&client, 300).await.unwrap(), vec![Some(10); 300]);
    assert_eq!(broker.requests(ApiKey::ListOffsets), 3, "one request a broker");
    broker.delete_records("t", 5, 4).unwrap();
    let found = client.list_offsets(&all(10, OffsetSpec::Earliest), IsolationLevel::ReadCommitted).await.unwrap();
    assert_eq!(found[&TopicPartition::new("t", 5)].offset, Some(4));
    let late = client.list_offsets(&all(1, OffsetSpec::Timestamp(9_999_999)), IsolationLevel::ReadUncommitted).await;
    assert_eq!(late.unwrap()[&TopicPartition::new("t", 0)].offset, None, "no record is so late");
}

#[tokio::test]
async fn moved_leaders_and_passing_errors() {
    let broker = start(3).await;
    topic(&broker, "t", 6, 10);
    let client = client(&broker).await;
    ends(&client, 6).await.unwrap();
    broker.set_leader("t", 0, 3).unwrap();
    broker.set_leader("t", 1, 1).unwrap();
    assert_eq!(ends(&client, 6).await.unwrap(), [Some(10); 6]);
    let before = broker.requests(ApiKey::ListOffsets);
    broker.on(ApiKey::ListOffsets, move |context| {
        let errors = [6, 78, 75].map(|code| PartitionError::new("t", 2, code));
        match usize::try_from(context.index - before).ok().and_then(|index| errors.get(index / 3)) {
            Some(error) => Action::PartitionErrors(vec![error.clone()]),
            None => Action::Pass,
        }
    });
    assert_eq!(ends(&client, 6).await.unwrap(), [Some(10); 6]);
}

#[tokio::test]
async fn a_partition_without_leader_is_waited_for_within_the_limit() {
    let broker = Arc::new(start(2).await);
    topic(&broker, "t", 2, 10);
    let client = impatient(&broker, Duration::from_secs(1)).await;
    ends(&client, 2).await.unwrap();
    broker.set_leader("t", 1, -1).unwrap();
    let start = Instant::now();
    let error = ends(&client, 2).await.unwrap_err();
    assert!(matches!(error, Error::DeadlineExceeded { .. }), "{error:?}");
    assert!(start.elapsed() < 1100 * MS, "{:?}", start.elapsed());
    assert!(broker.requests(ApiKey::ListOffsets) < 30 && broker.requests(ApiKey::Metadata) < 60);
    let election = async {
        tokio::time::sleep(300 * MS).await;
        broker.set_leader("t", 1, 1).unwrap();
    };
    assert_eq!(tokio::join!(ends(&client, 2), election).0.unwrap(), [Some(10); 2]);
}

#[tokio::test]
async fn an_answer_that_leaves_a_partition_out_is_no_hot_loop() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 10);
    let client = impatient(&broker, Duration::from_secs(1)).await;
    broker.on(ApiKey::ListOffsets, |context| {
        edit::<ListOffsetsRequest>(context.api_version, |response| {
            for topic in &mut response.topics {
                topic.partitions.retain(|partition| partition.partition_index == 0);
            }
        })
    });
    let start = Instant::now();
    let error = ends(&client, 2).await.unwrap_err();
    assert!(text(&error).contains("leaves out t-1"), "{}", text(&error));
    assert!(start.elapsed() < 1100 * MS, "{:?}", start.elapsed());
    assert!(broker.requests(ApiKey::ListOffsets) < 30, "{}", broker.requests(ApiKey::ListOffsets));
}

#[tokio::test]
async fn an_end_that_is_no_offset_is_not_an_empty_log() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 10);
    let client = impatient(&broker, Duration::from_secs(5)).await;
    broker.on(ApiKey::ListOffsets, |context| {
        if context.index > 2 {
            return Action::Pass;
        }
        edit::<ListOffsetsRequest>(context.api_version, |response| response.topics[0].partitions[0].offset = -1)
    });
    assert_eq!(ends(&client, 1).await.unwrap(), [Some(10)]);
}

#[tokio::test]
async fn partitions_added_since_the_metadata_was_seen_are_found() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 10);
    let client = client(&broker).await;
    ends(&client, 1).await.unwrap();
    broker.delete_topic("t").unwrap();
    topic(&broker, "t", 3, 10);
    assert_eq!(ends(&client, 3).await.unwrap(), [Some(10); 3]);
    let error = ends(&client, 4).await.unwrap_err();
    assert!(matches!(&error, Error::UnknownPartition { partition } if partition.partition == 3), "{error:?}");
}

#[tokio::test]
async fn a_topic_that_is_not_there_is_named_soon() {
    let broker = start(2).await;
    topic(&broker, "t", 1, 10);
    for limit in [Duration::from_secs(1), Duration::from_secs(60)] {
        let client = impatient(&broker, limit).await;
        let start = Instant::now();
        let error = client.topics(&["t".to_owned(), "nope".to_owned()]).await.unwrap_err();
        assert!(matches!(&error, Error::UnknownTopic { topic } if topic == "nope"), "{error:?}");
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    }
    assert!(broker.topic_id("nope").is_none(), "asking does not create");
}

#[tokio::test]
async fn a_topic_left_out_of_the_answer_is_not_one_without_partitions() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 10);
    let client = impatient(&broker, Duration::from_secs(1)).await;
    broker.on(ApiKey::Metadata, |context| {
        edit::<MetadataRequest>(context.api_version, |response| response.topics.clear())
    });
    let error = client.topics(&["t".to_owned()]).await.unwrap_err();
    assert!(matches!(error, Error::UnknownTopic { .. }), "{error:?}");
}

#[tokio::test]
async fn a_topic_that_is_just_being_made_is_waited_for() {
    let broker = start(1).await;
    let client = client(&broker).await;
    let (names, made) = (["t".to_owned()], async {
        tokio::time::sleep(300 * MS).await;
        topic(&broker, "t", 2, 10);
    });
    let (found, ()) = tokio::join!(client.topics(&names), made);
    assert_eq!(found.unwrap()["t"].partitions.len(), 2);
}

#[tokio::test]
async fn a_broker_that_knows_no_brokers_yet_is_not_believed() {
    let broker = start(2).await;
    topic(&broker, "t", 2, 10);
    broker.on(ApiKey::Metadata, |context| {
        if context.node == 2 {
            return Action::Pass;
        }
        edit::<MetadataRequest>(context.api_version, |response| {
            response.brokers.clear();
            response.topics.clear();
        })
    });
    let client = client(&broker).await;
    assert_eq!(ends(&client, 2).await.unwrap(), [Some(10); 2]);
}

/// A broker that was paused for longer than its session, or has just come up, knows no broker for a moment.
#[tokio::test]
async fn a_lone_broker_without_brokers_is_asked_again() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 10);
    let client = client(&broker).await;
    let since = broker.requests(ApiKey::Metadata);
    broker.on(ApiKey::Metadata, move |context| {
        if context.index > since + 1 {
            return Action::Pass;
        }
        edit::<MetadataRequest>(context.api_version, |response| {
            response.brokers.clear();
            response.topics.clear();
        })
    });
    assert_eq!(ends(&client, 2).await.unwrap(), [Some(10); 2]);
}

#[tokio::test]
async fn s_n13_late_metadata_does_not_move_a_partition_back() {
    let broker = start(2).await;
    topic(&broker, "t", 1, 10);
    let client = client(&broker).await;
    broker.set_leader("t", 0, 2).unwrap();
    client.topics(&["t".to_owned()]).await.unwrap();
    // From now on node 1 claims the old epoch.
    broker.on(ApiKey::Metadata, |context| {
        edit::<MetadataRequest>(context.api_version, |response| {
            for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
                (partition.leader_id, partition.leader_epoch) = (1, 0);
            }
        })
    });
    let topics = client.topics(&["t".to_owned()]).await.unwrap();
    assert_eq!(topics["t"].partitions[&0].leader, Some(ottla_client::NodeId(2)));
    assert_eq!(ends(&client, 1).await.unwrap(), [Some(10)]);
    assert_eq!(broker.requests(ApiKey::ListOffsets), 1);
}

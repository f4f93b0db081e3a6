//! Committing a processed batch to a group.

use crate::support::{Memory, fill, options, process, text, topic};
use ottla_embedded::{Action, CommittedOffset, EmbeddedBroker, PartitionError, messages::ApiKey};
use ottla_stream::{Error, TopicPartition};

#[tokio::test]
async fn every_partition_of_the_plan_is_committed_with_what_was_read() {
    let broker = EmbeddedBroker::start().await.unwrap();
    topic(&broker, 3, 100);
    broker.bump_leader_epoch("t", 1).unwrap();
    fill(&broker, "t", 1, 10);
    let (client, batch) = process(&options(&broker, &[]), &Memory::default()).await.unwrap();
    let outcome = batch.commit(&client, "g", "q").await.unwrap();
    assert_eq!(outcome.committed.len(), 3);
    for (partition, offset, epoch) in [(0, 100, 0), (1, 110, 1), (2, 100, 0)] {
        let committed = broker.committed("g", "t", partition).unwrap();
        assert_eq!((committed.offset, committed.leader_epoch), (offset, epoch));
        assert!(committed.metadata.starts_with("ottla/1 batch=0 query=q topic_id="), "{}", committed.metadata);
    }
    assert_eq!(broker.requests(ApiKey::OffsetCommit), 1);
}

#[tokio::test]
async fn s_o02_an_empty_range_commits_zero() {
    let broker = EmbeddedBroker::start().await.unwrap();
    topic(&broker, 2, 0);
    let (client, batch) = process(&options(&broker, &[]), &Memory::default()).await.unwrap();
    batch.commit(&client, "g", "q").await.unwrap();
    assert_eq!(broker.committed("g", "t", 1).unwrap().offset, 0);
}

#[tokio::test]
async fn a_group_that_is_further_stays_there() {
    let broker = EmbeddedBroker::start().await.unwrap();
    topic(&broker, 2, 100);
    broker.commit("g", "t", 1, CommittedOffset::new(500));
    let (client, batch) = process(&options(&broker, &[]), &Memory::default()).await.unwrap();
    let outcome = batch.commit(&client, "g", "q").await.unwrap();
    assert_eq!(outcome.kept[&TopicPartition::new("t", 1)], 500);
    assert_eq!(outcome.committed.len(), 1);
    assert_eq!(broker.committed("g", "t", 1).unwrap().offset, 500);
}

#[tokio::test]
async fn s_o11_a_group_with_members_is_one_clear_error() {
    let broker = EmbeddedBroker::start().await.unwrap();
    topic(&broker, 40, 10);
    let (client, batch) = process(&options(&broker, &[]), &Memory::default()).await.unwrap();
    broker.on(ApiKey::OffsetCommit, |_| Action::Error(25));
    let error = batch.commit(&client, "g", "q").await.unwrap_err();
    let message = text(&error);
    assert!(message.contains("group 'g'") && message.contains("active members"), "{message}");
    assert!(message.len() < 300, "one sentence for all partitions: {message}");
    assert_eq!(broker.requests(ApiKey::OffsetCommit), 1);
    broker.clear_hooks(ApiKey::OffsetCommit);
    assert_eq!(batch.commit(&client, "g", "q").await.unwrap().committed.len(), 40);
}

#[tokio::test]
async fn s_o12_a_partition_that_is_refused_is_named() {
    let broker = EmbeddedBroker::start().await.unwrap();
    topic(&broker, 3, 10);
    let (client, batch) = process(&options(&broker, &[]), &Memory::default()).await.unwrap();
    broker.on(ApiKey::OffsetCommit, |_| Action::PartitionErrors(vec![PartitionError::new("t", 1, 12)]));
    let error = batch.commit(&client, "g", "q").await.unwrap_err();
    let Error::Commit { refused, .. } = &error else { panic!("{error:?}") };
    assert_eq!((refused.len(), &refused[0].0), (1, &TopicPartition::new("t", 1)));
    assert_eq!(broker.committed("g", "t", 0).unwrap().offset, 10, "the others are committed");
}

//! Committing and looking up offsets: what the coordinator says, and what it does not say.

use crate::support::{MS, client, config, edit, start, text, topic};
use ottla_client::{Client, CommitResults, Error, OffsetAndMetadata, Result, TopicPartition};
use ottla_embedded::messages::ApiKey;
use ottla_embedded::{Action, CommittedOffset, EmbeddedBroker, PartitionError};
use ottla_protocol::{ErrorCode, message::OffsetFetchRequest};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

fn offset(offset: i64) -> OffsetAndMetadata {
    OffsetAndMetadata { offset, leader_epoch: None, metadata: None }
}

async fn commit(client: &Client, offsets: &[(i32, OffsetAndMetadata)]) -> Result<CommitResults> {
    let offsets = offsets.iter().map(|(p, committed)| (TopicPartition::new("t", *p), committed.clone())).collect();
    client.commit_offsets("g", &offsets, &BTreeMap::new()).await
}

async fn committed(client: &Client) -> Result<BTreeMap<TopicPartition, OffsetAndMetadata>> {
    let partitions = [TopicPartition::new("t", 0), TopicPartition::new("t", 1)];
    client.committed_offsets("g", Some(&partitions)).await.map(|committed| committed.offsets)
}

async fn impatient(broker: &EmbeddedBroker, limit: Duration) -> Client {
    let mut config = config(&broker.bootstrap_servers());
    config.default_api_timeout = limit;
    Client::connect(config).await.unwrap()
}

#[tokio::test]
async fn s_o01_no_negative_offset_leaves_the_client() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 10);
    let client = client(&broker).await;
    for bad in [-1, -2, -1001, i64::MIN] {
        let error = commit(&client, &[(0, offset(5)), (1, offset(bad))]).await.unwrap_err();
        assert!(matches!(error, Error::InvalidOffset { offset, .. } if offset == bad), "{error:?}");
    }
    assert_eq!(broker.requests(ApiKey::OffsetCommit), 0);
    // What another client stored by mistake is no position.
    broker.commit("g", "t", 0, CommittedOffset::new(-1001));
    assert!(committed(&client).await.unwrap().is_empty());
    let all = client.committed_offsets("g", None).await.unwrap();
    assert_eq!(all.not_offsets.into_values().collect::<Vec<_>>(), [-1001], "and it is told");
}

#[tokio::test]
async fn s_o02_zero_is_an_offset() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 10);
    let client = client(&broker).await;
    let results = commit(&client, &[(0, offset(0))]).await.unwrap();
    assert!(results.values().all(|code| code.is_none()));
    let found = committed(&client).await.unwrap();
    assert_eq!(found.into_iter().map(|(p, o)| (p.partition, o.offset)).collect::<Vec<_>>(), [(0, 0)]);
    let all = client.committed_offsets("g", None).await.unwrap();
    assert_eq!(all.offsets.len(), 1);
    assert!(client.committed_offsets("another", None).await.unwrap().offsets.is_empty());
}

#[tokio::test]
async fn s_o10_an_error_is_never_nothing_committed() {
    for version in [2, 5, 7, 8, 9] {
        let broker = EmbeddedBroker::builder().nodes(2).api_versions(ApiKey::OffsetFetch, 1..=version);
        let broker = broker.start().await.unwrap();
        topic(&broker, "t", 2, 10);
        broker.commit("g", "t", 0, CommittedOffset::new(7));
        // Coordinator loading, not the coordinator (both without partitions), no answer, a code for each partition, unstable offsets.
        broker.on(ApiKey::OffsetFetch, |context| match context.index {
            0 => Action::TopLevelError(14),
            1 => Action::TopLevelError(16),
            2 => Action::Mute,
            3 => Action::Error(16),
            4 => Action::PartitionErrors(vec![PartitionError::new("t", 1, 88)]),
            _ => Action::Pass,
        });
        let mut config = config(&broker.bootstrap_servers());
        config.request_timeout = 200 * MS;
        let client = Client::connect(config).await.unwrap();
        let found = committed(&client).await.unwrap();
        assert_eq!(found.values().map(|found| found.offset).collect::<Vec<_>>(), [7], "version {version}");
        assert_eq!(broker.requests(ApiKey::OffsetFetch), 6, "version {version}");
        assert!(broker.requests(ApiKey::FindCoordinator) >= 3, "the coordinator is looked up again");
    }
}

#[tokio::test]
async fn s_o10_errors_that_stay_end_in_one() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 10);
    let client = impatient(&broker, Duration::from_secs(1)).await;
    for code in [14, 16] {
        broker.on(ApiKey::OffsetFetch, move |_| Action::TopLevelError(code));
        let before = broker.requests(ApiKey::OffsetFetch);
        let start = Instant::now();
        let error = committed(&client).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode(code)), "{error:?}");
        assert!(start.elapsed() < 1100 * MS, "{:?}", start.elapsed());
        assert!(broker.requests(ApiKey::OffsetFetch) - before < 30);
    }
}

#[tokio::test]
async fn a_partition_left_out_of_the_answer_is_not_nothing_committed() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 10);
    let client = impatient(&broker, Duration::from_secs(1)).await;
    broker.on(ApiKey::OffsetFetch, |context| {
        edit::<OffsetFetchRequest>(context.api_version, |response| {
            for group in &mut response.groups {
                group.topics.clear();
            }
        })
    });
    let error = committed(&client).await.unwrap_err();
    assert!(text(&error).contains("leaves out t-0 of group 'g'"), "{}", text(&error));
}

#[tokio::test]
async fn s_o11_a_group_with_members_is_one_clear_error() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 10);
    let client = client(&broker).await;
    broker.on(ApiKey::OffsetCommit, |_| Action::Error(25));
    let error = commit(&client, &[(0, offset(5)), (1, offset(6))]).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode(25)));
    assert!(text(&error).contains("group 'g'") && text(&error).contains("active members"), "{}", text(&error));
    assert_eq!(broker.requests(ApiKey::OffsetCommit), 1);
    broker.clear_hooks(ApiKey::OffsetCommit);
    assert!(commit(&client, &[(0, offset(5))]).await.unwrap().values().all(|code| code.is_none()));
}

#[tokio::test]
async fn s_o12_too_much_metadata_is_the_fault_of_one_partition() {
    let broker = start(1).await;
    topic(&broker, "t", 3, 10);
    let client = client(&broker).await;
    let with = |metadata: Option<String>| OffsetAndMetadata { metadata, ..offset(5) };
    let offsets = [(0, with(None)), (1, with(Some("ä".repeat(4096)))), (2, with(Some("x".repeat(4097))))];
    let results = commit(&client, &offsets).await.unwrap();
    assert_eq!(results.into_values().collect::<Vec<_>>(), [ErrorCode::NONE, ErrorCode::NONE, ErrorCode(12)]);
    assert_eq!(broker.requests(ApiKey::OffsetCommit), 1, "a retry would not better it");
    assert!(broker.committed("g", "t", 1).is_some() && broker.committed("g", "t", 2).is_none());
}

#[tokio::test]
async fn a_partition_s_passing_error_is_retried_for_that_partition_alone() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 10);
    let client = client(&broker).await;
    broker.on(ApiKey::OffsetCommit, |context| {
        if context.index < 2 { Action::PartitionErrors(vec![PartitionError::new("t", 1, 3)]) } else { Action::Pass }
    });
    let results = commit(&client, &[(0, offset(5)), (1, offset(6))]).await.unwrap();
    assert!(results.len() == 2 && results.values().all(|code| code.is_none()), "{results:?}");
    assert_eq!(broker.requests(ApiKey::OffsetCommit), 3);
    let ottla_embedded::Request::OffsetCommit(last) = broker.last_request(ApiKey::OffsetCommit).unwrap().request else {
        panic!("another request")
    };
    let partitions: Vec<i32> =
        last.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.partition_index).collect();
    assert_eq!(partitions, [1]);
}

#[tokio::test]
async fn a_partition_s_lasting_error_stands_in_the_result() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 10);
    let client = impatient(&broker, Duration::from_secs(1)).await;
    broker.on(ApiKey::OffsetCommit, |_| Action::PartitionErrors(vec![PartitionError::new("t", 1, 3)]));
    let start = Instant::now();
    let results = commit(&client, &[(0, offset(5)), (1, offset(6))]).await.unwrap();
    assert_eq!(results.into_values().collect::<Vec<_>>(), [ErrorCode::NONE, ErrorCode(3)]);
    assert!(start.elapsed() < 1100 * MS && start.elapsed() > 500 * MS, "{:?}", start.elapsed());
    assert!(broker.requests(ApiKey::OffsetCommit) < 30);
}

#[tokio::test]
async fn a_coordinator_that_moves_is_found() {
    let broker = start(3).await;
    topic(&broker, "t", 2, 10);
    let client = client(&broker).await;
    for node in [1, 2, 3, 1] {
        broker.set_coordinator("g", node);
        assert!(commit(&client, &[(0, offset(node.into()))]).await.unwrap().values().all(|code| code.is_none()));
        assert_eq!(committed(&client).await.unwrap().len(), 1);
        assert_eq!(broker.committed("g", "t", 0).unwrap().offset, i64::from(node));
    }
    // And one that goes away for good.
    broker.stop_node(1).await;
    broker.set_coordinator("g", 2);
    assert_eq!(committed(&client).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_coordinator_that_is_not_there_yet_is_waited_for() {
    for version in [0, 2, 3, 4] {
        let broker = EmbeddedBroker::builder().api_versions(ApiKey::FindCoordinator, 0..=version);
        let broker = broker.start().await.unwrap();
        topic(&broker, "t", 2, 10);
        broker.on(ApiKey::FindCoordinator, |context| if context.index < 3 { Action::Error(15) } else { Action::Pass });
        assert!(committed(&client(&broker).await).await.unwrap().is_empty());
        assert_eq!(broker.requests(ApiKey::FindCoordinator), 4);
    }
}

/// A topic that the coordinator does not know may be on its way, but not for as long as a broker may be away.
#[tokio::test]
async fn a_topic_that_is_gone_is_given_up_long_before_the_deadline() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 10);
    let client = impatient(&broker, Duration::from_secs(60)).await;
    broker.on(ApiKey::OffsetCommit, |_| Action::PartitionErrors(vec![PartitionError::new("t", 1, 100)]));
    let start = std::time::Instant::now();
    let results = commit(&client, &[(0, offset(5)), (1, offset(6))]).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    let codes: Vec<i16> = results.values().map(|code| code.0).collect();
    assert_eq!(codes, [0, 100]);
}

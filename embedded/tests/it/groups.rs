//! Groups: offsets with and without members, membership, the group tool's requests.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ApiKey, DeleteGroupsRequest, DescribeGroupsRequest, FindCoordinatorRequest, GroupId, HeartbeatRequest,
    JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, ListGroupsRequest, OffsetCommitRequest, OffsetFetchRequest,
    SyncGroupRequest,
};
use kafka_protocol::protocol::StrBytes;
use ottla_embedded::{Action, CommittedOffset, EmbeddedBroker};

use crate::support::{Client, topic_name};

fn group(id: &'static str) -> GroupId {
    GroupId(StrBytes::from_static_str(id))
}

async fn broker() -> EmbeddedBroker {
    let broker = EmbeddedBroker::start().await.unwrap();
    broker.create_topic("logs", 2, &[]).unwrap();
    broker
}

/// A commit for partitions 0 and 9 of "logs", of which there's only the first.
fn commit(offset: i64, metadata: Option<String>) -> OffsetCommitRequest {
    let partition = |index| {
        OffsetCommitRequestPartition::default()
            .with_partition_index(index)
            .with_committed_offset(offset)
            .with_committed_metadata(metadata.clone().map(StrBytes::from_string))
    };
    let topic = OffsetCommitRequestTopic::default()
        .with_name(topic_name("logs"))
        .with_partitions(vec![partition(9), partition(0)]);
    OffsetCommitRequest::default().with_group_id(group("g")).with_topics(vec![topic])
}

async fn commit_codes(client: &mut Client, version: i16, request: OffsetCommitRequest) -> Vec<i16> {
    let response = client.ask(version, request).await;
    response.topics[0].partitions.iter().map(|partition| partition.error_code).collect()
}

#[tokio::test]
async fn offsets_are_kept_for_groups_without_members() {
    let broker = broker().await;
    let mut client = Client::connect(&broker, 1).await;
    for version in 2..=9 {
        let mut request = commit(i64::from(version), Some("note".to_owned()));
        request.topics[0].partitions[1].committed_leader_epoch = if version >= 6 { 5 } else { -1 };
        assert_eq!(commit_codes(&mut client, version, request).await, [3, 0], "OffsetCommit {version}");
        let committed = broker.committed("g", "logs", 0).unwrap();
        assert_eq!((committed.offset, committed.metadata.as_str()), (i64::from(version), "note"));
        assert_eq!(committed.leader_epoch, if version >= 6 { 5 } else { -1 });
    }
    // The limit counts characters, not bytes.
    assert_eq!(commit_codes(&mut client, 9, commit(10, Some("ä".repeat(4_096)))).await, [3, 0]);
    assert_eq!(commit_codes(&mut client, 9, commit(11, Some("a".repeat(4_097)))).await, [3, 12]);
    assert_eq!(commit_codes(&mut client, 9, commit(12, None)).await, [3, 0]);
    assert_eq!(broker.committed("g", "logs", 0), Some(CommittedOffset::new(12)));
    let generation = commit(13, None).with_generation_id_or_member_epoch(1).with_member_id("m".into());
    assert_eq!(commit_codes(&mut client, 9, generation).await, [3, 22]);
}

#[tokio::test]
async fn offsets_are_fetched_in_every_version() {
    let broker = broker().await;
    broker.commit("g", "logs", 1, CommittedOffset::new(42));
    let mut client = Client::connect(&broker, 1).await;
    for version in 1..=7 {
        let topic = OffsetFetchRequestTopic::default().with_name(topic_name("logs")).with_partition_indexes(vec![0, 1]);
        let request = OffsetFetchRequest::default().with_group_id(group("g")).with_topics(Some(vec![topic]));
        let response = client.ask(version, request).await;
        let offsets: Vec<_> =
            response.topics[0].partitions.iter().map(|p| (p.committed_offset, p.error_code)).collect();
        assert_eq!(offsets, [(-1, 0), (42, 0)], "OffsetFetch {version}");
        assert_eq!(response.topics[0].partitions[0].metadata.as_deref(), Some(""));
        if version >= 2 {
            let all = OffsetFetchRequest::default().with_group_id(group("g")).with_topics(None);
            let response = client.ask(version, all).await;
            assert_eq!(response.topics[0].partitions.len(), 1);
        }
    }
    for version in 8..=9 {
        let topic =
            OffsetFetchRequestTopics::default().with_name(topic_name("logs")).with_partition_indexes(vec![0, 1]);
        let asked = |id, topics| OffsetFetchRequestGroup::default().with_group_id(group(id)).with_topics(topics);
        let groups = vec![asked("g", Some(vec![topic])), asked("g", None), asked("no-such-group", None)];
        let response = client.ask(version, OffsetFetchRequest::default().with_groups(groups)).await;
        assert_eq!(response.groups[0].topics[0].partitions[1].committed_offset, 42);
        assert_eq!(response.groups[1].topics[0].partitions.len(), 1);
        assert_eq!((response.groups[2].error_code, response.groups[2].topics.len()), (0, 0));
    }
    // A group's error has its own place from version 2 on, and is in the partitions before.
    broker.on(ApiKey::OffsetFetch, |_| Action::TopLevelError(14));
    let topic = OffsetFetchRequestTopic::default().with_name(topic_name("logs")).with_partition_indexes(vec![0]);
    let request = OffsetFetchRequest::default().with_group_id(group("g")).with_topics(Some(vec![topic]));
    assert_eq!(client.ask(1, request.clone()).await.topics[0].partitions[0].error_code, 14);
    assert_eq!(client.ask(2, request).await.error_code, 14);
    let groups = vec![OffsetFetchRequestGroup::default().with_group_id(group("g")).with_topics(None)];
    assert_eq!(client.ask(8, OffsetFetchRequest::default().with_groups(groups)).await.groups[0].error_code, 14);
}

#[tokio::test]
async fn a_deleted_topic_takes_its_offsets_along() {
    let broker = broker().await;
    broker.create_topic("other", 1, &[]).unwrap();
    broker.commit("g", "logs", 0, CommittedOffset::new(5));
    broker.commit("g", "other", 0, CommittedOffset::new(6));
    broker.delete_topic("logs").unwrap();
    broker.create_topic("logs", 2, &[]).unwrap();
    assert_eq!(broker.committed("g", "logs", 0), None);
    assert_eq!(broker.committed("g", "other", 0), Some(CommittedOffset::new(6)));
}

#[tokio::test]
async fn only_the_coordinator_answers() {
    let broker = EmbeddedBroker::builder().nodes(3).start().await.unwrap();
    broker.create_topic("logs", 1, &[]).unwrap();
    broker.set_coordinator("g", 3);
    let mut client = Client::connect(&broker, 1).await;
    for version in 0..=6 {
        let request = FindCoordinatorRequest::default();
        let request = if version < 4 {
            request.with_key("g".into())
        } else {
            request.with_coordinator_keys(vec!["g".into(), "other".into()])
        };
        let response = client.ask(version, request).await;
        let (node, port) = match response.coordinators.first() {
            Some(found) => (found.node_id.0, found.port),
            None => (response.node_id.0, response.port),
        };
        assert_eq!((node, port), (3, i32::from(broker.address(3).unwrap().port())), "FindCoordinator {version}");
    }
    let not_coordinator = ResponseError::NotCoordinator.code();
    assert_eq!(commit_codes(&mut client, 9, commit(5, None)).await, [3, not_coordinator]);
    let groups = vec![OffsetFetchRequestGroup::default().with_group_id(group("g")).with_topics(None)];
    let response = client.ask(8, OffsetFetchRequest::default().with_groups(groups)).await;
    assert_eq!(response.groups[0].error_code, not_coordinator);
    let mut coordinator = Client::connect(&broker, 3).await;
    assert_eq!(commit_codes(&mut coordinator, 9, commit(5, None)).await, [3, 0]);
}

fn join(member_id: &str, session_timeout_ms: i32) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default().with_name("range".into()).with_metadata("topics".into());
    JoinGroupRequest::default()
        .with_group_id(group("g"))
        .with_session_timeout_ms(session_timeout_ms)
        .with_rebalance_timeout_ms(60_000)
        .with_member_id(StrBytes::from_string(member_id.to_owned()))
        .with_protocol_type("consumer".into())
        .with_protocols(vec![protocol])
}

fn sync(joined: &JoinGroupResponse, assignments: &[(&StrBytes, &'static str)]) -> SyncGroupRequest {
    let assignments = assignments.iter().map(|&(member, assignment)| {
        SyncGroupRequestAssignment::default().with_member_id(member.clone()).with_assignment(assignment.into())
    });
    SyncGroupRequest::default()
        .with_group_id(group("g"))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_protocol_type(Some("consumer".into()))
        .with_protocol_name(Some("range".into()))
        .with_assignments(assignments.collect())
}

fn heartbeat(joined: &JoinGroupResponse) -> HeartbeatRequest {
    HeartbeatRequest::default()
        .with_group_id(group("g"))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
}

/// Joins with the id that the first answer gives.
async fn join_new(client: &mut Client, session_timeout_ms: i32) -> JoinGroupResponse {
    let required = client.ask(9, join("", session_timeout_ms)).await;
    assert_eq!(required.error_code, ResponseError::MemberIdRequired.code());
    client.ask(9, join(&required.member_id, session_timeout_ms)).await
}

#[tokio::test]
async fn one_member_joins_commits_and_leaves() {
    let broker = broker().await;
    let mut client = Client::connect(&broker, 1).await;
    let joined = join_new(&mut client, 30_000).await;
    assert_eq!((joined.error_code, joined.leader == joined.member_id), (0, true));
    assert_eq!(joined.members[0].metadata, Bytes::from_static(b"topics"));
    let member_commit = || {
        commit(7, None)
            .with_generation_id_or_member_epoch(joined.generation_id)
            .with_member_id(joined.member_id.clone())
    };
    assert_eq!(commit_codes(&mut client, 9, member_commit()).await, [3, 27], "before the assignment");
    let synced = client.ask(5, sync(&joined, &[(&joined.member_id, "mine")])).await;
    assert_eq!((synced.error_code, synced.assignment), (0, Bytes::from_static(b"mine")));
    assert_eq!(client.ask(4, heartbeat(&joined)).await.error_code, 0);

    assert_eq!(commit_codes(&mut client, 9, commit(6, None)).await, [3, 25], "from outside a live group");
    let stale = member_commit().with_generation_id_or_member_epoch(joined.generation_id - 1);
    assert_eq!(commit_codes(&mut client, 9, stale).await, [3, 22]);
    assert_eq!(commit_codes(&mut client, 9, member_commit()).await, [3, 0]);

    let listed = client.ask(5, ListGroupsRequest::default()).await;
    assert_eq!((listed.groups[0].group_state.as_str(), listed.groups[0].group_type.as_str()), ("Stable", "classic"));
    let asked = vec![group("g"), group("no-such-group")];
    let described = client.ask(6, DescribeGroupsRequest::default().with_groups(asked)).await;
    let member = &described.groups[0].members[0];
    assert_eq!((member.client_id.as_str(), member.client_host.as_str()), ("test", "/127.0.0.1"));
    assert_eq!(member.member_assignment, Bytes::from_static(b"mine"));
    assert_eq!(described.groups[1].error_code, ResponseError::GroupIdNotFound.code());
    let delete = || DeleteGroupsRequest::default().with_groups_names(vec![group("g")]);
    assert_eq!(client.ask(2, delete()).await.results[0].error_code, ResponseError::NonEmptyGroup.code());

    let identity = MemberIdentity::default().with_member_id(joined.member_id.clone());
    let leave = LeaveGroupRequest::default().with_group_id(group("g")).with_members(vec![identity]);
    assert_eq!(client.ask(5, leave.clone()).await.members[0].error_code, 0);
    assert_eq!(client.ask(5, leave).await.members[0].error_code, ResponseError::UnknownMemberId.code());
    assert_eq!(client.ask(4, heartbeat(&joined)).await.error_code, ResponseError::UnknownMemberId.code());
    assert_eq!(commit_codes(&mut client, 9, commit(8, None)).await, [3, 0], "nobody is in any more");
    assert_eq!(client.ask(2, delete()).await.results[0].error_code, 0);
    assert_eq!(broker.committed("g", "logs", 0), None);
}

#[tokio::test]
async fn old_versions_join_at_once() {
    let broker = broker().await;
    let mut client = Client::connect(&broker, 1).await;
    let joined = client.ask(1, join("", 30_000)).await;
    assert_eq!(joined.error_code, 0);
    let mut first = sync(&joined, &[(&joined.member_id, "mine")]);
    (first.protocol_type, first.protocol_name) = (None, None);
    assert_eq!(client.ask(1, first).await.assignment, Bytes::from_static(b"mine"));
    let leave = LeaveGroupRequest::default().with_group_id(group("g")).with_member_id(joined.member_id);
    assert_eq!(client.ask(1, leave).await.error_code, 0);
}

#[tokio::test]
async fn a_second_member_starts_a_rebalance() {
    let broker = broker().await;
    let mut first = Client::connect(&broker, 1).await;
    let mut second = Client::connect(&broker, 1).await;
    let alone = join_new(&mut first, 30_000).await;
    first.ask(5, sync(&alone, &[(&alone.member_id, "all")])).await;

    let required = second.ask(9, join("", 30_000)).await;
    let waiting = second.send(9, &join(&required.member_id, 30_000)).await;
    let beat = loop {
        let code = first.ask(4, heartbeat(&alone)).await.error_code;
        if code != 0 {
            break code;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(beat, ResponseError::RebalanceInProgress.code());
    let leader = first.ask(9, join(&alone.member_id, 30_000)).await;
    let follower = second.receive::<JoinGroupRequest>(9, waiting).await;
    assert_eq!(leader.generation_id, alone.generation_id + 1);
    assert_eq!((follower.generation_id, &follower.leader), (leader.generation_id, &leader.member_id));
    assert_eq!((leader.members.len(), follower.members.len()), (2, 0));

    // The follower's SyncGroup waits for the leader's.
    let waiting = second.send(5, &sync(&follower, &[])).await;
    let assignments = [(&leader.member_id, "a"), (&follower.member_id, "b")];
    assert_eq!(first.ask(5, sync(&leader, &assignments)).await.assignment, Bytes::from_static(b"a"));
    let synced = second.receive::<SyncGroupRequest>(5, waiting).await;
    assert_eq!((synced.error_code, synced.assignment), (0, Bytes::from_static(b"b")));
}

#[tokio::test]
async fn a_silent_member_is_let_go() {
    let broker = broker().await;
    let mut client = Client::connect(&broker, 1).await;
    let joined = join_new(&mut client, 50).await;
    client.ask(5, sync(&joined, &[])).await;
    tokio::time::sleep(Duration::from_millis(80)).await;
    assert_eq!(client.ask(4, heartbeat(&joined)).await.error_code, ResponseError::UnknownMemberId.code());
    assert_eq!(client.ask(5, ListGroupsRequest::default()).await.groups[0].group_state.as_str(), "Empty");
    assert_eq!(commit_codes(&mut client, 9, commit(8, None)).await, [3, 0]);
}

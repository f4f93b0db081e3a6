//! Groups beside a checkpoint, and in its place.

use crate::support::{Memory, broker, fill, options, query, run};
use ottla_embedded::{Action, CommittedOffset, EmbeddedBroker, messages::ApiKey};
use ottla_stream::{QueryBuilder, StreamingQuery, Trigger};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

fn without_checkpoint(options: ottla_stream::StreamOptions) -> QueryBuilder {
    StreamingQuery::builder([options]).commit_group("g")
}

fn committed(offset: i64) -> CommittedOffset {
    CommittedOffset::new(offset)
}

/// S-S12: what was processed is committed, and nothing is repeated.
#[tokio::test]
async fn a_group_alone_remembers_offsets_and_batch_ids() {
    let broker = broker(1, 9).await;
    let memory = Memory::default();
    let limited = || without_checkpoint(options(&broker, &[("maxOffsetsPerTrigger", "3")]));
    run(limited(), &memory).await.unwrap();
    assert_eq!(broker.committed("g", "t", 0).unwrap().offset, 9);
    fill(&broker, "t", 0, 2);
    run(limited(), &memory).await.unwrap();
    assert_eq!(memory.batches()[3..], [(3, "t-0: [9, 11)".to_owned())]);
    assert!(memory.counts().values().all(|count| *count == 1));
}

/// S-O02: 0 is an offset.
#[tokio::test]
async fn s_o02_a_committed_offset_of_zero_counts() {
    let broker = broker(1, 5).await;
    broker.commit("g", "t", 0, committed(0));
    let memory = Memory::default();
    run(without_checkpoint(options(&broker, &[("startingOffsets", "latest")])), &memory).await.unwrap();
    assert_eq!(memory.batches(), [(0, "t-0: [0, 5)".to_owned())]);
}

#[tokio::test]
async fn start_options_count_where_the_group_has_nothing() {
    let broker = broker(1, 5).await;
    let memory = Memory::default();
    run(without_checkpoint(options(&broker, &[("startingOffsets", "latest")])), &memory).await.unwrap();
    assert!(memory.counts().is_empty());
    assert_eq!(broker.committed("g", "t", 0).unwrap().offset, 5);
}

/// S-O05 and S-O06: stored offsets on either side of the log.
#[tokio::test]
async fn s_o06_stored_offsets_outside_of_the_log() {
    for (stored, policy, begins, told) in [
        (10, "fail", None, "t-0: [10, 60) is gone, 50 offsets"),
        (10, "earliest", Some(60), "t-0: [10, 60) is gone, 50 offsets"),
        (10, "latest", Some(100), "t-0: [10, 60) is gone, 50 offsets"),
        (1_000_000_000_000, "fail", None, "from 1000000000000 to 100"),
        (1_000_000_000_000, "earliest", Some(60), "[100, 1000000000000)"),
        (1_000_000_000_000, "latest", Some(100), "[100, 1000000000000)"),
    ] {
        let broker = broker(1, 100).await;
        broker.delete_records("t", 0, 60).unwrap();
        broker.commit("g", "t", 0, committed(stored));
        let memory = Memory::default();
        let policy = options(&broker, &[("ottla.offsetOutOfRange", policy)]);
        match (run(without_checkpoint(policy), &memory).await, begins) {
            (Ok(_), Some(begins)) => {
                let first = memory.counts().into_keys().next().map_or(100, |(_, offset)| offset);
                assert_eq!(first, begins, "{stored}");
                if begins < 100 {
                    let held = broker.committed("g", "t", 0).unwrap().offset;
                    assert_eq!(held, 100, "{stored}: the next run goes on from here");
                }
                assert_eq!(
                    memory.warnings().iter().filter(|warning| warning.contains(told)).count(),
                    1,
                    "{:?}",
                    memory.warnings()
                );
            }
            (Err(error), None) => {
                let text = ottla_client::report(&error);
                assert!(text.contains(told) && error.condition().starts_with("KAFKA_DATA_LOSS."), "{text}");
            }
            (ended, _) => panic!("{stored}: {ended:?}"),
        }
    }
}

#[tokio::test]
async fn a_group_says_where_a_checkpoint_begins_if_it_is_asked_to() {
    let broker = broker(2, 10).await;
    broker.commit("g", "t", 0, committed(4));
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let from_group = || query(options(&broker, &[("startingOffsets", "group")]), checkpoint.path());
    assert!(memory.start(from_group()).unwrap_err().to_string().contains("no group is named"));
    run(from_group().commit_group("g"), &memory).await.unwrap();
    assert_eq!(memory.batches(), [(0, "t-0: [4, 10) t-1: [0, 10)".to_owned())]);
}

/// A query that has done what there is, and commits it to group `g` again after each interval.
async fn recommitting(broker: &EmbeddedBroker, checkpoint: &Path, interval: &str, memory: &Memory) -> StreamingQuery {
    let options = options(broker, &[("ottla.recommitInterval", interval)]);
    let running = memory.start(query(options, checkpoint).commit_group("g")).unwrap();
    running.process_all_available().await.unwrap();
    running
}

/// S-O08: what is committed again, or late, never takes back what somebody else committed meanwhile.
#[tokio::test]
async fn s_o08_a_repeated_commit_does_not_go_back() {
    let broker = broker(1, 100).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let running = recommitting(&broker, checkpoint.path(), "200ms", &memory).await;
    broker.commit("g", "t", 0, committed(500));
    let commits = broker.requests(ApiKey::OffsetFetch);
    while broker.requests(ApiKey::OffsetFetch) < commits + 2 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    running.stop().await.unwrap();
    assert_eq!(broker.committed("g", "t", 0).unwrap().offset, 500);
    assert!(memory.warnings().iter().any(|warning| warning.contains("is further already in t-0 and stays at 500")));
}

/// S-O04: what the group has is of a topic that is gone, however large the new one is.
#[tokio::test]
async fn s_o04_a_group_that_was_in_a_topic_of_the_same_name() {
    let broker = broker(1, 5).await;
    run(without_checkpoint(options(&broker, &[])), &Memory::default()).await.unwrap();
    let held = broker.committed("g", "t", 0).unwrap();
    broker.delete_topic("t").unwrap();
    broker.create_topic("t", 1, &[]).unwrap();
    fill(&broker, "t", 0, 9);
    broker.commit("g", "t", 0, held);
    for (fail, seen) in [("true", None), ("false", Some("t-0: [0, 9)"))] {
        let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
        let mut from_group = options(&broker, &[("startingOffsets", "group"), ("failOnDataLoss", fail)]);
        from_group.commit_group = Some("g".to_owned());
        match (run(query(from_group, checkpoint.path()), &memory).await, seen) {
            (Ok(_), Some(range)) => assert_eq!(memory.batches(), [(0, range.to_owned())]),
            (Err(error), None) => assert!(error.condition().starts_with("KAFKA_DATA_LOSS."), "{error:?}"),
            (ended, _) => panic!("{ended:?}"),
        }
    }
    assert_eq!(broker.committed("g", "t", 0).unwrap().offset, 9);
}

#[tokio::test]
async fn a_commit_that_fails_beside_a_checkpoint_is_made_up_for() {
    let broker = broker(1, 6).await;
    let refuses = Arc::new(AtomicBool::new(true));
    let hook = refuses.clone();
    broker
        .on(ApiKey::OffsetCommit, move |_| if hook.load(Ordering::SeqCst) { Action::Error(25) } else { Action::Pass });
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let beside = query(options(&broker, &[("maxOffsetsPerTrigger", "2")]), checkpoint.path()).commit_group("g");
    let running = memory.start(beside).unwrap();
    running.process_all_available().await.unwrap();
    assert_eq!(memory.counts().len(), 6, "the query goes on");
    assert_eq!(running.failed_commits(), 3);
    assert!(
        memory.warnings().iter().any(|warning| warning.contains("group 'g'") && warning.contains("active members")),
        "{:?}",
        memory.warnings()
    );
    refuses.store(false, Ordering::SeqCst);
    // At the stop it is tried once more.
    running.stop().await.unwrap();
    assert_eq!(broker.committed("g", "t", 0).unwrap().offset, 6);
}

#[tokio::test]
async fn a_commit_that_still_fails_at_the_stop_is_an_error_that_names_the_partitions() {
    let broker = broker(1, 6).await;
    broker.on(ApiKey::OffsetCommit, |_| Action::Error(25));
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let beside = query(options(&broker, &[]), checkpoint.path())
        .commit_group("g")
        .stop_timeout(std::time::Duration::from_secs(1));
    let running = memory.start(beside.trigger(Trigger::AvailableNow)).unwrap();
    let error = running.await_termination().await.unwrap_err();
    let text = ottla_client::report(&error);
    assert_eq!(error.condition(), "COMMIT_FAILED");
    assert!(text.contains("group 'g' did not take the offsets of t-0"), "{text}");

    // The next run has nothing but that one. Its first attempt is refused, and no other answered: the reason is told all the same.
    let asked = Arc::new(AtomicBool::new(false));
    broker.on(
        ApiKey::OffsetCommit,
        move |_| if asked.swap(true, Ordering::SeqCst) { Action::Mute } else { Action::Error(25) },
    );
    let beside = query(options(&broker, &[]), checkpoint.path())
        .commit_group("g")
        .stop_timeout(std::time::Duration::from_secs(1));
    let running = memory.start(beside.trigger(Trigger::AvailableNow)).unwrap();
    let error = running.await_termination().await.unwrap_err();
    let text = ottla_client::report(&error);
    assert!(text.contains("did not take the offsets of t-0"), "{text}");
    assert_eq!(running.failed_commits(), 1);
}

/// A stop that comes while a commit is at work does not forget it, whether there is a checkpoint or not.
#[tokio::test]
async fn a_commit_that_a_stop_cuts_off_is_an_error_that_names_the_partitions() {
    let broker = broker(1, 6).await;
    broker.on(ApiKey::OffsetCommit, |_| Action::Mute);
    let checkpoint = tempfile::tempdir().unwrap();
    let beside = query(options(&broker, &[]), checkpoint.path()).commit_group("g");
    for query in [beside, without_checkpoint(options(&broker, &[]))] {
        let memory = Memory::default();
        let before = broker.requests(ApiKey::OffsetCommit);
        let running = memory.start(query.stop_timeout(std::time::Duration::from_millis(300))).unwrap();
        while broker.requests(ApiKey::OffsetCommit) == before {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let error = running.stop().await.unwrap_err();
        let text = ottla_client::report(&error);
        assert_eq!((error.condition(), memory.batches().len()), ("COMMIT_FAILED", 1), "{text}");
        assert!(text.contains("group 'g' did not take the offsets of t-0"), "{text}");
    }
}

#[tokio::test]
async fn a_commit_that_fails_without_a_checkpoint_stops_the_query() {
    let broker = broker(1, 6).await;
    broker.on(ApiKey::OffsetCommit, |_| Action::Error(25));
    let memory = Memory::default();
    let alone = without_checkpoint(options(&broker, &[("maxOffsetsPerTrigger", "2")]))
        .stop_timeout(std::time::Duration::from_millis(100));
    let running = memory.start(alone.trigger(Trigger::AvailableNow)).unwrap();
    let error = running.await_termination().await.unwrap_err();
    assert!(ottla_client::report(&error).contains("active members"), "{}", ottla_client::report(&error));
    assert_eq!(error.condition(), "COMMIT_FAILED");
    assert_eq!((memory.batches().len(), running.failed_commits()), (1, 1));
}

/// S-O07: offsets that nothing is added to expire on the brokers.
#[tokio::test]
async fn s_o07_a_query_without_anything_new_commits_again() {
    let broker = broker(1, 3).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    let running = recommitting(&broker, checkpoint.path(), "300ms", &memory).await;
    let first = broker.requests(ApiKey::OffsetCommit);
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    let again = broker.requests(ApiKey::OffsetCommit) - first;
    running.stop().await.unwrap();
    assert!((2..=5).contains(&again), "{again} commits in 1.5 s");
    assert_eq!(broker.committed("g", "t", 0).unwrap().offset, 3);
    assert_eq!(memory.batches().len(), 1);
}

/// S-O04: offsets of a topic that is gone are not given to the one of its name.
#[tokio::test]
async fn s_o04_offsets_of_a_deleted_topic_are_not_committed() {
    let broker = Arc::new(broker(1, 50).await);
    let checkpoint = tempfile::tempdir().unwrap();
    let function_broker = broker.clone();
    let running = query(options(&broker, &[("failOnDataLoss", "false")]), checkpoint.path())
        .commit_group("g")
        .trigger(Trigger::AvailableNow)
        .foreach_batch(move |batch, _| {
            let broker = function_broker.clone();
            async move {
                broker.delete_topic("t")?;
                broker.create_topic("t", 1, &[])?;
                fill(&broker, "t", 0, 30);
                batch.for_each(|_| ()).await?;
                Ok(())
            }
        })
        .start()
        .unwrap();
    // The topic is another one, which ends an available-now query.
    running.await_termination().await.unwrap_err();
    assert!(broker.committed("g", "t", 0).is_none_or(|committed| committed.offset <= 30));
}

/// Keeps what it is given.
#[derive(Debug, Default)]
struct Recorder(std::sync::Mutex<Vec<ottla_stream::StoreCommit>>);

impl ottla_stream::OffsetStore for Recorder {
    fn name(&self) -> String {
        "recorder".to_owned()
    }

    fn load<'a>(
        &'a self,
        _partitions: Option<&'a std::collections::BTreeSet<ottla_stream::TopicPartition>>,
    ) -> ottla_stream::StoreFuture<'a, ottla_stream::StoredOffsets> {
        Box::pin(async { Ok(ottla_stream::StoredOffsets::default()) })
    }

    fn store<'a>(
        &'a self,
        commit: &'a ottla_stream::StoreCommit,
    ) -> ottla_stream::StoreFuture<'a, ottla_stream::CommitOutcome> {
        self.0.lock().unwrap().push(commit.clone());
        Box::pin(async { Ok(ottla_stream::CommitOutcome::default()) })
    }
}

/// A store that is to read its last batch again is brought up at the start like any other.
#[tokio::test]
async fn a_store_learns_where_the_batch_of_an_earlier_run_began() {
    let broker = broker(1, 3).await;
    let (checkpoint, memory) = (tempfile::tempdir().unwrap(), Memory::default());
    for (records, from, until) in [(0, 0, 3), (4, 3, 7)] {
        fill(&broker, "t", 0, records);
        run(query(options(&broker, &[]), checkpoint.path()), &memory).await.unwrap();
        let recorder = Arc::new(Recorder::default());
        let again = query(options(&broker, &[]), checkpoint.path()).offset_store(0, recorder.clone());
        run(again, &memory).await.unwrap();
        let commits = recorder.0.lock().unwrap();
        let partition = ottla_stream::TopicPartition::new("t", 0);
        assert_eq!(commits.len(), 1);
        assert_eq!((commits[0].from_offsets[&partition], commits[0].offsets[&partition]), (from, until));
    }
}

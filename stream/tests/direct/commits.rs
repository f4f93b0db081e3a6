//! Commits: when, what, and nothing else.

use crate::support::{broker, committed, fill, next, process, ranges, stream};
use ottla_embedded::{Action, CommittedOffset, EmbeddedBroker, messages::ApiKey};
use ottla_stream::{DirectCommitError, DirectStream, TopicPartition};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// What callbacks said: the partitions committed, or the error.
#[derive(Clone, Debug, Default)]
struct Told(Arc<Mutex<Vec<Result<usize, String>>>>);

impl Told {
    fn take(&self) -> Vec<Result<usize, String>> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Processes the next batch and asks to commit it.
async fn step(stream: &mut DirectStream, told: &Told) {
    let (processed, _) = process(next(stream).await).await;
    let told = told.clone();
    let callback = move |result: Result<&ottla_stream::CommitOutcome, &DirectCommitError>| {
        let result = result.map(|outcome| outcome.committed.len()).map_err(|error| ottla_client::report(error));
        told.0.lock().unwrap().push(result);
    };
    stream.commit_async(&processed, callback).unwrap();
}

#[tokio::test]
async fn golden_l01_a_commit_waits_for_the_next_batch() {
    let broker = broker(&[30, 10]).await;
    let (mut stream, told) = (stream(&broker, &[]).start().await.unwrap(), Told::default());
    let batch = next(&mut stream).await;
    assert_eq!(ranges(&batch), [(0, 30), (0, 10)]);
    let (processed, records) = process(batch).await;
    assert_eq!((records, processed.offset_ranges().len()), (40, 2));
    let heard = told.clone();
    stream
        .commit_async(&processed, move |result| {
            let outcome = result.unwrap();
            assert_eq!(outcome.committed[&TopicPartition::new("t", 1)], 10);
            heard.0.lock().unwrap().push(Ok(outcome.committed.len()));
        })
        .unwrap();
    assert_eq!((committed(&broker, 0), told.take().len()), (None, 0));
    let batch = next(&mut stream).await;
    assert_eq!(ranges(&batch), [(30, 30), (10, 10)]);
    assert_eq!((committed(&broker, 0), committed(&broker, 1)), (Some(30), Some(10)));
    assert_eq!(told.take(), [Ok(2)]);
    let held = broker.committed("g", "t", 0).unwrap();
    assert!(held.metadata.starts_with("ottla/1 batch=0 query=") && held.metadata.contains("topic_id="), "{held:?}");
    // Nothing new to commit, nothing is sent.
    process(batch).await;
    next(&mut stream).await;
    assert_eq!(broker.requests(ApiKey::OffsetCommit), 1);
}

/// Golden l02, where Spark loses the commit of the last batch.
#[tokio::test]
async fn golden_l02_the_last_commit_is_made_at_the_stop() {
    let broker = broker(&[25]).await;
    let told = Told::default();
    let mut first = stream(&broker, &[]).start().await.unwrap();
    step(&mut first, &told).await;
    assert_eq!(committed(&broker, 0), None);
    assert_eq!(first.stop().await.unwrap().committed.len(), 1);
    assert_eq!((committed(&broker, 0), told.take()), (Some(25), vec![Ok(1)]));
    assert!(first.next().await.unwrap().is_none());
    let mut second = stream(&broker, &[]).start().await.unwrap();
    let batch = next(&mut second).await;
    assert_eq!((batch.batch_id(), ranges(&batch)), (1, vec![(25, 25)]));
}

#[tokio::test]
async fn of_several_commits_the_largest_end_counts_and_every_callback_is_called() {
    let broker = broker(&[6]).await;
    let mut stream = stream(&broker, &[]).max_rate_per_partition(20).start().await.unwrap();
    let mut done = Vec::new();
    for _ in 0..3 {
        done.push(process(next(&mut stream).await).await.0);
    }
    let told = Told::default();
    for ranges in [&done[1], &done[2], &done[0]] {
        let told = told.clone();
        stream
            .commit_async(ranges, move |result| told.0.lock().unwrap().push(Ok(result.unwrap().committed.len())))
            .unwrap();
    }
    next(&mut stream).await;
    assert_eq!((committed(&broker, 0), told.take().len(), broker.requests(ApiKey::OffsetCommit)), (Some(6), 3, 1));
    assert!(broker.committed("g", "t", 0).unwrap().metadata.contains("batch=2 "));
    // A group is never moved backwards.
    let outcome = stream.commit_sync(&done[0]).await.unwrap();
    assert_eq!(outcome.kept[&TopicPartition::new("t", 0)], 6);
    assert_eq!(committed(&broker, 0), Some(6));
}

#[tokio::test]
async fn commit_sync_takes_what_waits_along() {
    let broker = broker(&[4]).await;
    let (mut stream, told) = (stream(&broker, &[]).max_rate_per_partition(20).start().await.unwrap(), Told::default());
    step(&mut stream, &told).await;
    let (processed, _) = process(next(&mut stream).await).await;
    assert_eq!(committed(&broker, 0), Some(2));
    step(&mut stream, &told).await;
    stream.commit_sync(&processed).await.unwrap();
    assert_eq!((committed(&broker, 0), told.take().len()), (Some(4), 2));
}

#[tokio::test]
async fn a_commit_that_fails_is_told_and_tried_again_with_the_next() {
    let broker = broker(&[2]).await;
    let (mut stream, told) = (stream(&broker, &[]).start().await.unwrap(), Told::default());
    broker.on(ApiKey::OffsetCommit, |_| Action::Error(25));
    step(&mut stream, &told).await;
    step(&mut stream, &told).await;
    let failures = told.take();
    assert!(matches!(&failures[..], [Err(error)] if error.contains("active members")), "{failures:?}");
    let (processed, _) = process(next(&mut stream).await).await;
    let error = stream.commit_sync(&processed).await.unwrap_err();
    assert!(ottla_client::report(&error).contains("active members"), "{error}");
    broker.clear_hooks(ApiKey::OffsetCommit);
    stream.stop().await.unwrap();
    assert_eq!(committed(&broker, 0), Some(2));
}

#[tokio::test]
async fn a_stop_tries_until_the_timeout_and_may_be_tried_again() {
    let broker = broker(&[2]).await;
    let mut stream = stream(&broker, &[]).commit_timeout(Duration::from_millis(700)).start().await.unwrap();
    let told = Told::default();
    step(&mut stream, &told).await;
    broker.on(ApiKey::OffsetCommit, |_| Action::Error(25));
    stream.stop().await.unwrap_err();
    assert!(broker.requests(ApiKey::OffsetCommit) >= 2);
    assert_eq!(told.take().len(), 1);
    broker.clear_hooks(ApiKey::OffsetCommit);
    stream.stop().await.unwrap();
    assert_eq!(committed(&broker, 0), Some(2));
}

#[tokio::test]
async fn a_coordinator_that_does_not_answer_is_an_error_in_time() {
    let broker = broker(&[2]).await;
    let mut stream = stream(&broker, &[]).commit_timeout(Duration::from_millis(200)).start().await.unwrap();
    let (processed, _) = process(next(&mut stream).await).await;
    broker.on(ApiKey::OffsetCommit, |_| Action::Delay(Duration::from_secs(30)));
    let error = stream.commit_sync(&processed).await.unwrap_err();
    assert!(matches!(error, DirectCommitError::Timeout { .. }) && error.to_string().contains("t-0"), "{error}");
}

#[tokio::test]
async fn after_the_stop_only_commit_sync_commits() {
    let broker = broker(&[2]).await;
    let mut stream = stream(&broker, &[]).start().await.unwrap();
    let batch = next(&mut stream).await;
    stream.stop().await.unwrap();
    assert_eq!(committed(&broker, 0), None, "it is not processed");
    let (processed, _) = process(batch).await;
    let refused = stream.commit_async(&processed, |_| panic!("nothing is committed")).unwrap_err();
    assert!(matches!(refused, DirectCommitError::Stopped));
    stream.commit_sync(&processed).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(2));
}

/// Of what another stream processed, this one knows nothing.
#[tokio::test]
async fn ranges_of_another_stream_are_refused() {
    let broker = broker(&[5]).await;
    let mut mine = stream(&broker, &[]).start().await.unwrap();
    let mut other = stream(&broker, &[]).start().await.unwrap();
    next(&mut mine).await;
    let (processed, _) = process(next(&mut other).await).await;
    let refused = mine.commit_sync(&processed).await.unwrap_err();
    assert_eq!(refused.condition(), "RANGES_NOT_PROCESSED");
    assert!(refused.to_string().contains("t-0: [0, 5)"), "{refused}");
    assert!(mine.commit_async(&processed, |_| {}).is_err());
    mine.stop().await.unwrap();
    assert_eq!(committed(&broker, 0), None);
}

/// S-O04, S-O01: offsets of a topic that was there before say nothing of this one, however large they are.
#[tokio::test]
async fn a_commit_names_the_topic_it_is_of() {
    let broker = broker(&[5]).await;
    let mut old = stream(&broker, &[]).start().await.unwrap();
    let (processed, _) = process(next(&mut old).await).await;
    old.commit_sync(&processed).await.unwrap();
    let held = broker.committed("g", "t", 0).unwrap();
    again(&broker, held);
    let mut failing = stream(&broker, &[]).start().await.unwrap();
    assert!(failing.next().await.is_err());
    let mut new = stream(&broker, &[("failOnDataLoss", "false")]).start().await.unwrap();
    let batch = next(&mut new).await;
    assert_eq!((ranges(&batch), batch.lost().len()), (vec![(0, 3)], 1));
    let (processed, _) = process(batch).await;
    new.commit_sync(&processed).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(3), "further back, and in another topic");
}

/// The topic is deleted and created again with fewer records, and the group still has what it had.
fn again(broker: &EmbeddedBroker, held: CommittedOffset) {
    broker.delete_topic("t").unwrap();
    broker.create_topic("t", 1, &[]).unwrap();
    fill(broker, "t", 0, 3);
    broker.commit("g", "t", 0, held);
}

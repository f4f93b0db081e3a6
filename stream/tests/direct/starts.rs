//! Where a stream begins, and where partitions do that appear later.

use crate::support::{broker, committed, fill, next, process, ranges, stream};
use ottla_embedded::{Action, CommittedOffset, messages::ApiKey};
use ottla_stream::{Error, LossKind};

#[tokio::test]
async fn named_offsets_go_before_the_group_and_the_group_before_the_default() {
    let broker = broker(&[10, 10, 10]).await;
    broker.commit("g", "t", 0, CommittedOffset::new(4));
    broker.commit("g", "t", 1, CommittedOffset::new(0));
    for (start, expected) in [
        ("earliest", [4, 0, 0]),
        ("latest", [4, 0, 10]),
        ("group", [4, 0, 0]),
        (r#"{"t":{"0":7,"2":-1}}"#, [7, 0, 10]),
        (r#"{"t":{"1":9}}"#, [4, 9, 0]),
        (r#"{"t":{"0":-2}}"#, [0, 0, 0]),
    ] {
        let mut stream = stream(&broker, &[("startingOffsets", start)]).start().await.unwrap();
        let starts: Vec<i64> = ranges(&next(&mut stream).await).into_iter().map(|(from, _)| from).collect();
        assert_eq!(starts, expected, "{start}");
    }
    let mut by_time = stream(&broker, &[("startingTimestamp", "1000")]).start().await.unwrap();
    assert_eq!(ranges(&next(&mut by_time).await), [(4, 10), (0, 10), (0, 10)]);
}

#[tokio::test]
async fn partitions_that_appear_later_begin_by_the_same_rule() {
    for (start, expected) in [("earliest", (0, 5)), ("latest", (5, 5)), (r#"{"a":{"0":2}}"#, (0, 5))] {
        let broker = broker(&[]).await;
        broker.create_topic("a", 1, &[]).unwrap();
        fill(&broker, "a", 0, 5);
        let more = [("subscribePattern", "^[ab]$"), ("startingOffsets", start)];
        let mut stream = stream(&broker, &more).start().await.unwrap();
        process(next(&mut stream).await).await;
        broker.create_topic("b", 2, &[]).unwrap();
        fill(&broker, "b", 0, 5);
        fill(&broker, "b", 1, 5);
        broker.commit("g", "b", 1, CommittedOffset::new(3));
        let batch = next(&mut stream).await;
        assert_eq!(ranges(&batch), [(5, 5), expected, (3, 5)], "{start}");
    }
}

#[tokio::test]
async fn a_pattern_that_matches_nothing_gives_batches_without_ranges() {
    let broker = broker(&[]).await;
    let mut stream = stream(&broker, &[("subscribePattern", "^x$")]).start().await.unwrap();
    let (processed, _) = process(next(&mut stream).await).await;
    assert!(processed.offset_ranges().is_empty());
    stream.commit_sync(&processed).await.unwrap();
    broker.create_topic("x", 1, &[]).unwrap();
    fill(&broker, "x", 0, 2);
    assert_eq!(ranges(&next(&mut stream).await), [(0, 2)]);
}

/// No repair: whoever named the offset must know.
#[tokio::test]
async fn a_named_offset_that_is_not_there_is_an_error() {
    let broker = broker(&[30]).await;
    broker.delete_records("t", 0, 20).unwrap();
    for (offset, kind) in [(5, LossKind::OutOfRange), (700, LossKind::OffsetChanged)] {
        let start = format!(r#"{{"t":{{"0":{offset}}}}}"#);
        let mut stream = stream(&broker, &[("startingOffsets", &start)]).start().await.unwrap();
        let Err(Error::DataLoss(loss)) = stream.next().await else { panic!("{offset} is not there") };
        assert_eq!(loss.lost[0].kind, kind);
    }
    let nowhere = [("startingOffsets", r#"{"t":{"0":25,"7":0}}"#)];
    let mut stream = stream(&broker, &nowhere).start().await.unwrap();
    let error = stream.next().await.unwrap_err();
    assert_eq!(error.condition(), "UNKNOWN_TOPIC_OR_PARTITION");
    assert!(ottla_client::report(&error).contains("t-7"), "{error}");
}

/// S-O05, S-O06.
#[tokio::test]
async fn group_offsets_outside_of_the_log() {
    let broker = broker(&[100]).await;
    broker.delete_records("t", 0, 60).unwrap();
    for (stored, policy, expected) in [
        (10, "fail", None),
        (10, "earliest", Some((60, 100))),
        (700, "fail", None),
        (700, "earliest", Some((60, 100))),
        (700, "latest", Some((100, 100))),
    ] {
        broker.commit("g", "t", 0, CommittedOffset::new(stored));
        let mut stream = stream(&broker, &[("ottla.offsetOutOfRange", policy)]).start().await.unwrap();
        match (stream.next().await, expected) {
            (Ok(Some(batch)), Some(expected)) => {
                assert_eq!(ranges(&batch), [expected], "{stored} {policy}");
                assert_eq!(batch.lost().len(), 1, "{stored} {policy}");
                // It is told again as long as the batch comes again.
                assert_eq!(next(&mut stream).await.lost(), batch.lost());
                let (processed, _) = process(next(&mut stream).await).await;
                assert!(next(&mut stream).await.lost().is_empty());
                stream.commit_sync(&processed).await.unwrap();
                assert_eq!(committed(&broker, 0), Some(100), "{stored}: also where the group was further than the log");
            }
            (Err(error), None) => assert!(error.condition().starts_with("KAFKA_DATA_LOSS."), "{error}"),
            (batch, _) => panic!("{stored} {policy}: {batch:?}"),
        }
    }
}

/// S-O10: a group that can't be asked is not a group without offsets.
#[tokio::test]
async fn s_o10_a_failing_look_up_is_not_taken_for_none() {
    let broker = broker(&[9]).await;
    broker.commit("g", "t", 0, CommittedOffset::new(4));
    let more = [("kafka.default.api.timeout.ms", "300"), ("fetchOffset.numRetries", "1")];
    for code in [14, 16] {
        broker.on(ApiKey::OffsetFetch, move |_| Action::Error(code));
        let mut stream = stream(&broker, &more).start().await.unwrap();
        assert!(stream.next().await.is_err());
        broker.clear_hooks(ApiKey::OffsetFetch);
        assert_eq!(ranges(&next(&mut stream).await), [(4, 9)], "and the next call asks again");
    }
    assert_eq!(committed(&broker, 0), Some(4));
}

//! Where a bounded read begins and ends, and the ranges it is cut into: Spark's answers, from the golden scenarios.

use crate::support::{Memory, fill, options, process, text, topic};
use ottla_embedded::{Action, CommittedOffset, EmbeddedBroker, Request, messages::ApiKey};
use ottla_stream::{Client, Error, Result, StreamOptions};
use std::sync::Arc;

/// Partition, first offset and end of each range.
type Ranges = Vec<(i32, i64, i64)>;

async fn plan(broker: &EmbeddedBroker, more: &[(&str, &str)]) -> Result<Ranges> {
    let options = options(broker, more);
    let client = Client::connect(options.client.clone()).await?;
    let batch = options.plan(&client).await?;
    let range = |range: &ottla_stream::OffsetRange| (range.partition, range.from_offset, range.until_offset);
    Ok(batch.offset_ranges().map(range).collect())
}

/// Partitions with so many records each.
async fn broker(sizes: &[i64]) -> EmbeddedBroker {
    let broker = EmbeddedBroker::start().await.unwrap();
    broker.create_topic("t", i32::try_from(sizes.len()).unwrap(), &[]).unwrap();
    for (partition, size) in (0..).zip(sizes) {
        fill(&broker, "t", partition, *size);
    }
    broker
}

#[tokio::test]
async fn golden_c02_empty_partitions_are_ranges_too() {
    let broker = broker(&[30, 40, 50]).await;
    let ends = r#"{"t":{"0":20,"1":15,"2":-1}}"#;
    let starts = [("startingOffsets", r#"{"t":{"0":10,"1":-2,"2":5}}"#), ("endingOffsets", ends)];
    assert_eq!(plan(&broker, &starts).await.unwrap(), [(0, 10, 20), (1, 0, 15), (2, 5, 50)]);
    let same = r#"{"t":{"0":10,"1":40,"2":50}}"#;
    let empty = [("startingOffsets", same), ("endingOffsets", same)];
    assert_eq!(plan(&broker, &empty).await.unwrap(), [(0, 10, 10), (1, 40, 40), (2, 50, 50)]);
    // Only what is not split has them.
    let cut = [("startingOffsets", same), ("endingOffsets", r#"{"t":{"0":20,"1":40,"2":50}}"#), ("minPartitions", "4")];
    assert_eq!(plan(&broker, &cut).await.unwrap().iter().map(|range| range.0).collect::<Vec<_>>(), [0; 4]);
}

#[tokio::test]
async fn golden_c10_min_partitions_and_a_maximum_that_counts_for_nothing() {
    let broker = broker(&[90, 30, 10]).await;
    // 130 offsets for 6: the shares are 4.15, 1.38 and 0.46, so that the first gets the 4 that are left.
    let cut = [(0, 0, 22), (0, 22, 44), (0, 44, 67), (0, 67, 90), (1, 0, 30), (2, 0, 10)];
    assert_eq!(plan(&broker, &[("minPartitions", "6")]).await.unwrap(), cut);
    let whole = [(0, 0, 90), (1, 0, 30), (2, 0, 10)];
    assert_eq!(plan(&broker, &[("minPartitions", "3")]).await.unwrap(), whole);
    // Bounds that are open count 1, whatever lies between them.
    assert_eq!(plan(&broker, &[("maxRecordsPerPartition", "25")]).await.unwrap(), whole);
    let open_start = r#"{"t":{"0":-2,"1":-2,"2":-2}}"#;
    let open = [("startingOffsets", open_start), ("maxRecordsPerPartition", "25")];
    assert_eq!(plan(&broker, &open).await.unwrap(), whole);
}

#[tokio::test]
async fn ends_that_are_numbers_count_as_large_as_they_are() {
    let broker = broker(&[90, 30]).await;
    let ends = r#"{"t":{"0":-1,"1":30}}"#;
    // [-2, 30) is larger than 25, and then both are looked at.
    let cut = [(0, 0, 22), (0, 22, 44), (0, 44, 67), (0, 67, 90), (1, 0, 15), (1, 15, 30)];
    let of = |max| [("endingOffsets", ends), ("maxRecordsPerPartition", max)];
    assert_eq!(plan(&broker, &of("25")).await.unwrap(), cut);
    assert_eq!(plan(&broker, &of("32")).await.unwrap(), [(0, 0, 90), (1, 0, 30)]);
    // From 0 on to the open end counts less than nothing.
    let open = [("startingOffsets", r#"{"t":{"0":0,"1":0}}"#), ("maxRecordsPerPartition", "25")];
    assert_eq!(plan(&broker, &open).await.unwrap(), [(0, 0, 90), (1, 0, 30)]);
    // Timestamps are numbers before sizes are looked at.
    let at_time = [("startingTimestamp", "0"), ("endingTimestamp", "9999"), ("maxRecordsPerPartition", "50")];
    assert_eq!(plan(&broker, &at_time).await.unwrap(), [(0, 0, 45), (0, 45, 90), (1, 0, 30)]);
}

#[tokio::test]
async fn what_is_gone_does_not_move_the_pieces() {
    let broker = broker(&[100]).await;
    broker.delete_records("t", 0, 40).unwrap();
    let gone = [
        ("startingOffsets", r#"{"t":{"0":0}}"#),
        ("endingOffsets", r#"{"t":{"0":120}}"#),
        ("maxRecordsPerPartition", "30"),
        ("failOnDataLoss", "false"),
    ];
    assert_eq!(plan(&broker, &gone).await.unwrap(), [(0, 40, 60), (0, 60, 90), (0, 90, 100)]);
    let sink = Memory::default();
    let (_, batch) = process(&options(&broker, &gone), &sink).await.unwrap();
    assert_eq!(batch.lost().iter().map(|lost| lost.range.size()).collect::<Vec<_>>(), [40, 20]);
    assert_eq!(sink.rows()[&0].len(), 60);
}

#[tokio::test]
async fn every_record_of_every_piece_is_read_once_and_the_whole_is_committed() {
    let broker = broker(&[400, 100]).await;
    let sink = Memory::default();
    let (client, batch) = process(&options(&broker, &[("minPartitions", "10")]), &sink).await.unwrap();
    assert_eq!(batch.ranges().len(), 10);
    for (partition, size) in [(0, 400), (1, 100)] {
        let mut offsets = sink.rows()[&partition].clone();
        offsets.sort_unstable();
        assert_eq!(offsets, (0..size).collect::<Vec<_>>());
    }
    assert_eq!(batch.commit(&client, "g", "q").await.unwrap().committed.values().sum::<i64>(), 500);
}

/// A read that stops early commits no further than where it stopped, in whichever piece.
#[tokio::test]
async fn a_read_of_pieces_that_stops_early_commits_what_it_reached() {
    let broker = broker(&[100]).await;
    for (max, reached) in [(5, 5), (25, 25), (30, 30), (99, 99)] {
        let options = options(&broker, &[("minPartitions", "4")]);
        let client = Client::connect(options.client.clone()).await.unwrap();
        let mut settings = ottla_stream::ReadSettings::default();
        settings.records_max = Some(max);
        let batch = options.plan(&client).await.unwrap();
        assert_eq!(batch.offset_ranges().count(), 4);
        let (filter, progress) = (ottla_stream::Filter::always(), ottla_stream::ReadProgress::shared());
        let batch = batch.process(&client, &filter, &Memory::default(), &settings, &progress).await.unwrap();
        assert_eq!(batch.offsets_to_commit().values().copied().collect::<Vec<_>>(), [reached], "{max}");
    }
}

#[tokio::test]
async fn golden_c05_bounds_that_no_broker_needs_to_be_asked_about() {
    let refused = |more: &[(&str, &str)]| {
        let base = [("kafka.bootstrap.servers", "h:1"), ("subscribe", "c05")];
        let error = StreamOptions::from_pairs(base.iter().chain(more).copied()).unwrap_err();
        (error.condition(), error.to_string())
    };
    let invalid = |message: &str| ("INVALID_OPTION", message.to_owned());
    assert_eq!(
        refused(&[("startingOffsets", "latest")]),
        invalid("starting offset can't be latest for batch queries on Kafka")
    );
    assert_eq!(
        refused(&[("endingOffsets", "earliest")]),
        invalid("ending offset can't be earliest for batch queries on Kafka")
    );
    assert_eq!(
        refused(&[("startingOffsets", r#"{"c05":{"0":-1,"1":0}}"#)]),
        invalid("startingOffsets for c05-0 can't be latest for batch queries on Kafka")
    );
    assert_eq!(
        refused(&[("endingOffsets", r#"{"c05":{"0":-2,"1":5}}"#)]),
        invalid("ending offset for c05-0 can't be earliest for batch queries on Kafka")
    );
    let backwards = [("startingOffsets", r#"{"c05":{"0":8,"1":0}}"#), ("endingOffsets", r#"{"c05":{"0":4,"1":5}}"#)];
    let message = "The specified start offset 8 is greater than the end offset 4 for topic c05 partition 0.";
    assert_eq!(refused(&backwards), ("START_OFFSET_GREATER_THAN_END_OFFSET", message.to_owned()));
}

const LOST: &str = "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE";

#[tokio::test]
async fn golden_c07_an_end_beyond_the_log() {
    let broker = broker(&[10]).await;
    let beyond = ("endingOffsets", r#"{"t":{"0":15}}"#);
    let error = plan(&broker, &[beyond]).await.unwrap_err();
    let reason = "Reason: Could not read records in offset [10, 15) for topic partition t-0\n";
    assert_eq!(error.condition(), LOST);
    assert!(text(&error).contains(reason), "{}", text(&error));
    assert_eq!(plan(&broker, &[beyond, ("failOnDataLoss", "false")]).await.unwrap(), [(0, 0, 10)]);
}

#[tokio::test]
async fn golden_c09_a_start_below_the_log() {
    let broker = broker(&[50]).await;
    broker.delete_records("t", 0, 30).unwrap();
    let below = ("startingOffsets", r#"{"t":{"0":10}}"#);
    let error = plan(&broker, &[below]).await.unwrap_err();
    let reason = "Reason: Could not read records in offset [10, 50) for topic partition t-0\n";
    assert_eq!(error.condition(), LOST);
    assert!(text(&error).contains(reason), "{}", text(&error));
    let no_fail = ("failOnDataLoss", "false");
    assert_eq!(plan(&broker, &[below, no_fail]).await.unwrap(), [(0, 30, 50)]);
    let all_gone = [below, no_fail, ("endingOffsets", r#"{"t":{"0":25}}"#)];
    assert_eq!(plan(&broker, &all_gone).await.unwrap(), [(0, 25, 25)], "a range without anything");
}

const FROM_GROUP: [(&str, &str); 2] = [("startingOffsets", "group"), ("kafka.consumer.commit.groupid", "g")];

#[tokio::test]
async fn a_read_goes_on_where_its_group_is() {
    let broker = broker(&[50, 50]).await;
    broker.commit("g", "t", 1, CommittedOffset::new(20));
    let sink = Memory::default();
    let (client, batch) = process(&options(&broker, &FROM_GROUP), &sink).await.unwrap();
    assert_eq!(sink.rows().values().map(Vec::len).collect::<Vec<_>>(), [50, 30]);
    batch.commit(&client, "g", "q").await.unwrap();
    fill(&broker, "t", 0, 10);
    assert_eq!(plan(&broker, &FROM_GROUP).await.unwrap(), [(0, 50, 60), (1, 50, 50)]);
}

/// S-O05, S-O06: what the group holds is not in the log, on either side of it.
#[tokio::test]
async fn s_o06_group_offsets_outside_of_the_log() {
    let broker = broker(&[100]).await;
    broker.delete_records("t", 0, 60).unwrap();
    for (stored, policy, begins, told) in [
        (10, "fail", None, "t-0: [10, 60) is gone, 50 offsets"),
        (10, "earliest", Some(60), "t-0: [10, 60) is gone, 50 offsets"),
        (10, "latest", Some(100), "t-0: [10, 60) is gone, 50 offsets"),
        (700, "fail", None, "t-0: [100, 700) is gone, 600 offsets"),
        (700, "earliest", Some(60), "t-0: [100, 700) is gone, 600 offsets"),
        (700, "latest", Some(100), "t-0: [100, 700) is gone, 600 offsets"),
    ] {
        broker.commit("g", "t", 0, CommittedOffset::new(stored));
        let pairs = [FROM_GROUP[0], FROM_GROUP[1], ("ottla.offsetOutOfRange", policy)];
        match (process(&options(&broker, &pairs), &Memory::default()).await, begins) {
            (Ok((client, batch)), Some(begins)) => {
                assert_eq!(batch.ranges()[0].range.from_offset, begins, "{stored} {policy}");
                assert!(batch.lost()[0].to_string().starts_with(told), "{:?}", batch.lost());
                // The next read begins where this one ended, also where the group was further than the log.
                batch.commit(&client, "g", "q").await.unwrap();
                assert_eq!(broker.committed("g", "t", 0).unwrap().offset, 100, "{stored} {policy}");
            }
            (Err(error), None) => {
                assert!(error.condition().starts_with("KAFKA_DATA_LOSS.") && text(&error).contains(told), "{error}");
            }
            (ended, _) => panic!("{stored} {policy}: {ended:?}"),
        }
    }
}

/// S-O04: what was committed of a topic that is gone says nothing of the one of its name, however large that is.
#[tokio::test]
async fn s_o04_a_group_that_was_in_a_topic_of_the_same_name() {
    let broker = broker(&[50]).await;
    let (client, batch) = process(&options(&broker, &[]), &Memory::default()).await.unwrap();
    batch.commit(&client, "g", "q").await.unwrap();
    let held = broker.committed("g", "t", 0).unwrap();
    broker.delete_topic("t").unwrap();
    topic(&broker, 1, 80);
    // A coordinator that was not there when the topic went still has them.
    broker.commit("g", "t", 0, held);
    let error = plan(&broker, &FROM_GROUP).await.unwrap_err();
    let Error::DataLoss(loss) = &error else { panic!("{error:?}") };
    assert_eq!(loss.lost[0].kind, ottla_stream::LossKind::Recreated);
    let repaired = [FROM_GROUP[0], FROM_GROUP[1], ("failOnDataLoss", "false")];
    let (client, batch) = process(&options(&broker, &repaired), &Memory::default()).await.unwrap();
    assert_eq!(batch.ranges()[0].range.from_offset, 0);
    batch.commit(&client, "g", "q").await.unwrap();
    assert_eq!(plan(&broker, &FROM_GROUP).await.unwrap(), [(0, 80, 80)]);
}

/// Records that arrive while the read is planned are in it or not, and never lost.
#[tokio::test]
async fn records_that_arrive_while_a_read_is_planned_are_no_loss() {
    let broker = Arc::new(broker(&[10]).await);
    let weak = Arc::downgrade(&broker);
    broker.on(ApiKey::ListOffsets, move |context| {
        let Request::ListOffsets(request) = context.request else { return Action::Pass };
        let asked = request.topics.iter().flat_map(|topic| &topic.partitions);
        if let (true, Some(broker)) = (asked.clone().any(|asked| asked.timestamp == -1), weak.upgrade()) {
            fill(&broker, "t", 0, 10);
        }
        Action::Pass
    });
    let ranges = plan(&broker, &[]).await.unwrap();
    assert!(matches!(ranges[..], [(0, 0, 20 | 30)]), "{ranges:?}");
}

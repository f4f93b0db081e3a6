//! What batches hold.

use crate::support::{INTERVAL, broker, committed, fill, next, options, process, ranges, record, stream};
use ottla_stream::{DirectStream, Error, Filter, NullSink, TopicPartition};
use std::time::{Duration, Instant};

/// With 100 records a second in intervals of 100 ms it is golden l05's 10 a batch.
#[tokio::test]
async fn golden_l05_a_batch_takes_no_more_than_its_rate() {
    let broker = broker(&[35, 4]).await;
    let mut stream = stream(&broker, &[]).max_rate_per_partition(100).start().await.unwrap();
    for (id, expected, records) in [
        (0, [(0, 10), (0, 4)], 14),
        (1, [(10, 20), (4, 4)], 10),
        (2, [(20, 30), (4, 4)], 10),
        (3, [(30, 35), (4, 4)], 5),
        (4, [(35, 35), (4, 4)], 0),
    ] {
        let batch = next(&mut stream).await;
        assert_eq!((batch.batch_id(), ranges(&batch)), (id, expected.to_vec()));
        let (processed, count) = process(batch).await;
        assert_eq!(count, records);
        stream.commit_async(&processed, |_| {}).unwrap();
    }
    stream.stop().await.unwrap();
    assert_eq!((committed(&broker, 0), committed(&broker, 1)), (Some(35), Some(4)));
}

#[tokio::test]
async fn a_rate_below_one_a_batch_is_one() {
    let broker = broker(&[3]).await;
    let mut stream = stream(&broker, &[]).max_rate_per_partition(1).start().await.unwrap();
    for until in 1..=3 {
        let batch = next(&mut stream).await;
        assert_eq!(ranges(&batch), [(until - 1, until)]);
        process(batch).await;
    }
}

/// S-O09: three batches, and the function fails in the second one.
#[tokio::test]
async fn s_o09_a_failed_batch_is_not_passed_over() {
    let broker = broker(&[3]).await;
    let mut stream = stream(&broker, &[]).max_rate_per_partition(1).start().await.unwrap();
    let first = next(&mut stream).await.process(|batch| async move { batch.for_each(|_| {}).await }).await.unwrap();
    stream.commit_async(&first, |_| {}).unwrap();
    for _ in 0..3 {
        let batch = next(&mut stream).await;
        assert_eq!((batch.batch_id(), ranges(&batch)), (1, vec![(1, 2)]), "until it succeeds");
        let failed =
            batch.process(|batch| async move { batch.for_each(|_| {}).await.map_err(drop).and(Err(())) }).await;
        assert!(failed.is_err());
        assert_eq!(committed(&broker, 0), Some(1));
    }
    // One that is only dropped was not processed either.
    drop(next(&mut stream).await);
    let mut seen = 0;
    while let Some(batch) = stream.next().await.unwrap() {
        let id = batch.batch_id();
        seen += process(batch).await.1;
        if id == 2 {
            stream.stop().await.unwrap();
        }
    }
    assert_eq!((seen, committed(&broker, 0)), (2, Some(1)), "what nobody asked to commit is not committed");
}

#[tokio::test]
async fn a_batch_can_be_read_in_every_way_and_again() {
    let broker = broker(&[20, 0, 5]).await;
    let filter = Filter::value().contains("1");
    let mut stream = stream(&broker, &[]).filter(filter).parallelism(2).start().await.unwrap();
    let batch = next(&mut stream).await;
    assert_eq!(ranges(&batch), [(0, 20), (0, 0), (0, 5)], "the filter sees records, not ranges");
    let counts = batch.write_to(&NullSink).await.unwrap();
    assert_eq!((counts.records, counts.hits), (25, 12));
    let kept = batch.collect().await.unwrap();
    let mut records = 0;
    kept.iter().for_each(|batch| records += batch.records().count());
    let mut reader = batch.read();
    while let Some(mut batch) = reader.next().await.unwrap() {
        batch.for_each(|_| records += 1).unwrap();
    }
    assert_eq!(records, 24);
    let mut records = 0;
    batch.partition(&TopicPartition::new("t", 2)).unwrap().for_each(|_| records += 1).await.unwrap();
    assert_eq!(records, 1);
    assert!(batch.partition(&TopicPartition::new("t", 1)).is_none());
    stream.commit_sync(&batch.processed()).await.unwrap();
    assert_eq!([0, 1, 2].map(|partition| committed(&broker, partition)), [Some(20), Some(0), Some(5)]);
}

#[tokio::test]
async fn batches_come_an_interval_apart_and_at_once_after_a_long_one() {
    let broker = broker(&[1]).await;
    let interval = Duration::from_millis(300);
    let mut stream = stream(&broker, &[]).batch_interval(interval).start().await.unwrap();
    let begun = Instant::now();
    process(next(&mut stream).await).await;
    process(next(&mut stream).await).await;
    assert!(begun.elapsed() >= interval, "{:?}", begun.elapsed());
    tokio::time::sleep(interval * 2).await;
    let begun = Instant::now();
    next(&mut stream).await;
    assert!(begun.elapsed() < interval, "{:?}", begun.elapsed());
}

/// The future of `next` may be dropped at any time.
#[tokio::test]
async fn nothing_is_lost_by_not_waiting_for_a_batch() {
    let broker = broker(&[5]).await;
    let mut stream = stream(&broker, &[]).max_rate_per_partition(1).start().await.unwrap();
    let mut seen = Vec::new();
    for wait in (0..).step_by(7) {
        if let Ok(batch) = tokio::time::timeout(Duration::from_millis(wait % 150), stream.next()).await {
            let batch = batch.unwrap().unwrap();
            seen.extend(ranges(&batch));
            let (processed, _) = process(batch).await;
            stream.commit_async(&processed, |_| {}).unwrap();
            if seen.len() == 5 {
                break;
            }
        }
    }
    stream.stop().await.unwrap();
    assert_eq!(seen, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]);
    assert_eq!(committed(&broker, 0), Some(5));
}

#[tokio::test]
async fn records_deleted_before_they_were_read_are_an_error_or_told() {
    for fail in [true, false] {
        let broker = broker(&[30]).await;
        let flag = fail.to_string();
        let mut stream =
            stream(&broker, &[("failOnDataLoss", &flag)]).max_rate_per_partition(100).start().await.unwrap();
        process(next(&mut stream).await).await;
        broker.delete_records("t", 0, 15).unwrap();
        if fail {
            for _ in 0..2 {
                let Err(Error::DataLoss(loss)) = stream.next().await else { panic!("it stays an error") };
                assert_eq!(loss.lost[0].to_string(), "t-0: [10, 15) is gone, 5 offsets; the log holds [15, 30)");
            }
        } else {
            let batch = next(&mut stream).await;
            assert_eq!(batch.lost()[0].range.size(), 5);
            assert_eq!(ranges(&batch), [(15, 20)]);
            stream.commit_sync(&batch.processed()).await.unwrap();
            assert_eq!(committed(&broker, 0), Some(20));
        }
    }
}

/// What compaction or transactions leave.
#[tokio::test]
async fn a_hole_in_the_offsets_is_passed_over() {
    let broker = broker(&[1]).await;
    broker.append_raw("t", 0, record(20), 21).unwrap();
    let mut stream = stream(&broker, &[]).max_rate_per_partition(100).start().await.unwrap();
    for (expected, records) in [((0, 10), 1), ((10, 20), 0), ((20, 21), 1)] {
        let batch = next(&mut stream).await;
        assert_eq!(ranges(&batch), [expected]);
        let (processed, count) = process(batch).await;
        assert_eq!(count, records);
        stream.commit_sync(&processed).await.unwrap();
        assert_eq!(committed(&broker, 0), Some(expected.1));
    }
}

/// The topic is another one: what was there is lost, and what is there now is new, from its begin.
#[tokio::test]
async fn a_topic_created_again_is_no_continuation() {
    let broker = broker(&[30]).await;
    let more = [("failOnDataLoss", "false"), ("startingOffsets", "latest")];
    let mut stream = stream(&broker, &more).start().await.unwrap();
    process(next(&mut stream).await).await;
    broker.delete_topic("t").unwrap();
    broker.create_topic("t", 2, &[]).unwrap();
    fill(&broker, "t", 0, 40);
    fill(&broker, "t", 1, 3);
    let mut found = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let batch = next(&mut stream).await;
        found.0.extend(ranges(&batch));
        found.1.extend(batch.lost().iter().map(ToString::to_string));
        process(batch).await;
    }
    assert_eq!(found.0, [(0, 40), (0, 3), (40, 40), (3, 3)]);
    assert_eq!(found.1, ["t-0: everything from 30 on is gone; the topic was deleted and created again"]);
}

#[tokio::test]
async fn options_that_mean_something_else_are_refused() {
    let broker = broker(&[1]).await;
    for (name, value) in [
        ("maxOffsetsPerTrigger", "5"),
        ("minOffsetsPerTrigger", "5"),
        ("minPartitions", "5"),
        ("maxRecordsPerPartition", "5"),
        ("checkpointLocation", "dir"),
        ("queryName", "q"),
        ("startingOffsetsByTimestamp", r#"{"t":{"0":1}}"#),
    ] {
        let error = stream(&broker, &[(name, value)]).start().await.unwrap_err();
        assert!(matches!(error, Error::Option(_)) && error.to_string().contains(name), "{error}");
    }
    let mut no_group = options(&broker, &[]);
    no_group.commit_group = None;
    let builder = DirectStream::builder(no_group).batch_interval(INTERVAL);
    let error = builder.clone().start().await.unwrap_err().to_string();
    assert!(error.contains("kafka.consumer.commit.groupid"), "{error}");
    builder.clone().commit_group("g").start().await.unwrap();
    assert!(builder.commit_group("g").max_rate_per_partition(0).start().await.is_err());
}

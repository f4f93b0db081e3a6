//! Faults of brokers and of the log while a batch is processed.

use crate::support::{Memory, at_offset, batch, edit, fill, options, process, text, topic};
use bytes::Bytes;
use ottla_embedded::{Action, EmbeddedBroker, messages::ApiKey};
use ottla_stream::{Error, LossKind, ReadErrorKind};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

#[tokio::test]
async fn one_to_a_thousand_partitions_over_three_nodes() {
    for (partitions, records) in [(1, 500), (2, 300), (50, 100), (1000, 10)] {
        let broker = EmbeddedBroker::builder().nodes(3).start().await.unwrap();
        topic(&broker, partitions, records);
        let sink = Memory::default();
        let (_, batch) = process(&options(&broker, &[]), &sink).await.unwrap();
        assert_eq!(batch.counts().records, u64::try_from(i64::from(partitions) * records).unwrap());
        let rows = sink.rows();
        assert_eq!(rows.len(), usize::try_from(partitions).unwrap());
        assert!(rows.values().all(|offsets| offsets.iter().copied().eq(0..records)));
        assert!(sink.is_finished());
    }
}

#[tokio::test]
async fn everything_that_passes_is_read_through() {
    let broker = Arc::new(EmbeddedBroker::builder().nodes(3).start().await.unwrap());
    topic(&broker, 6, 200);
    at_offset(&broker, 80, |broker| broker.set_leader("t", 0, 2).unwrap());
    broker.on(ApiKey::Fetch, |context| match context.index {
        3 => Action::Error(6),
        6 => Action::Close,
        9 => Action::Truncate(100),
        12 => Action::TopLevelError(-1),
        15 => Action::Throttle(Duration::from_millis(50)),
        18 => Action::Error(75),
        21 => Action::Error(78),
        _ => Action::Pass,
    });
    let sink = Memory::default();
    process(&options(&broker, &[]), &sink).await.unwrap();
    assert!(sink.rows().values().all(|offsets| offsets.iter().copied().eq(0..200)));
}

#[tokio::test]
async fn s_d08_a_wrong_checksum_ends_the_read_after_the_good_batches() {
    let broker = EmbeddedBroker::start().await.unwrap();
    topic(&broker, 1, 30);
    let mut bad = batch(&broker, "t", 0, 10).to_vec();
    bad[..8].copy_from_slice(&30_i64.to_be_bytes());
    let last = bad.len() - 1;
    bad[last] ^= 0x40;
    broker.append_raw("t", 0, bad.into(), 40).unwrap();
    fill(&broker, "t", 0, 50);
    for memory in ["67108864", "1"] {
        let sink = Memory::default();
        let before = broker.requests(ApiKey::Fetch);
        let error = process(&options(&broker, &[("ottla.memory.bytes", memory)]), &sink).await.unwrap_err();
        let Error::Read(read) = &error else { panic!("{error:?}") };
        let ReadErrorKind::Batch(batch) = &read.source else { panic!("{error:?}") };
        assert_eq!((read.offset, batch.base_offset, batch.last_offset), (30, 30, Some(39)));
        assert_eq!(error.condition(), "CORRUPT_BATCH");
        assert_eq!(sink.rows()[&0], (0..30).collect::<Vec<_>>());
        assert!(!sink.is_finished());
        assert!(broker.requests(ApiKey::Fetch) - before < 12, "no endless retry");
    }
}

#[tokio::test]
async fn data_that_never_comes_is_a_timeout_and_no_loss() {
    let broker = EmbeddedBroker::start().await.unwrap();
    topic(&broker, 1, 100);
    broker.on(ApiKey::Fetch, |context| {
        edit(context.api_version, |response| {
            let partition = &mut response.responses[0].partitions[0];
            partition.records = Some(Bytes::new());
            partition.last_stable_offset = 40;
        })
    });
    for fail in ["true", "false"] {
        let pairs = [("kafkaConsumer.pollTimeoutMs", "500"), ("failOnDataLoss", fail)];
        let started = Instant::now();
        let error = process(&options(&broker, &pairs), &Memory::default()).await.unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        assert_eq!(error.condition(), "FETCH_TIMEOUT");
        let message = text(&error);
        assert!(
            ["t-0 at offset 0", "100", "last stable offset 40", "high watermark 100"]
                .iter()
                .all(|p| message.contains(p)),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_topic_deleted_while_it_is_read_is_lost_from_there_on() {
    let broker = Arc::new(EmbeddedBroker::start().await.unwrap());
    topic(&broker, 2, 300);
    at_offset(&broker, 60, |broker| broker.delete_topic("t").unwrap());
    let (sink, started) = (Memory::default(), Instant::now());
    let error = process(&options(&broker, &[]), &sink).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    let Error::DataLoss(loss) = &error else { panic!("{error:?}") };
    assert_eq!(loss.lost[0].kind, LossKind::PartitionDeleted);
    assert!(loss.lost[0].range.until_offset == 300 && !loss.lost[0].range.is_empty(), "{loss}");
    assert!(!sink.is_finished());
}

/// The very last thing that comes is an error: it counts.
#[tokio::test]
async fn an_error_at_the_end_is_not_taken_for_the_end() {
    let broker = EmbeddedBroker::start().await.unwrap();
    topic(&broker, 1, 100);
    broker.on(ApiKey::Fetch, |context| if context.index == 0 { Action::Error(29) } else { Action::Pass });
    let sink = Memory::default();
    let error = process(&options(&broker, &[]), &sink).await.unwrap_err();
    assert!(text(&error).contains("ACLs"), "{}", text(&error));
    assert!(!sink.is_finished());
}

#[tokio::test]
async fn an_output_that_fails_ends_the_read() {
    let broker = EmbeddedBroker::start().await.unwrap();
    topic(&broker, 3, 300);
    let sink = Memory::failing_after(200);
    let error = process(&options(&broker, &[]), &sink).await.unwrap_err();
    assert!(matches!(error, Error::Sink(_)), "{error:?}");
    assert!(!sink.is_finished());
    // What is on its way may arrive yet.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let requests = broker.requests(ApiKey::Fetch);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(broker.requests(ApiKey::Fetch), requests, "nothing more is fetched");
}

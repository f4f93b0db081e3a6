//! Records that are gone: reported exactly, and `failOnDataLoss` decides.

use crate::support::{Memory, at_offset, edit, fill, options, process, text, topic};
use ottla_embedded::{EmbeddedBroker, messages::ApiKey};
use ottla_stream::{BatchReader, Client, Error, Filter, LossKind, ReadProgress, ReadSettings};
use std::{sync::Arc, time::Duration};

fn specific(offset: i64) -> String {
    format!(r#"{{"t":{{"0":{offset}}}}}"#)
}

fn lost(lost: &[ottla_stream::LostRange]) -> Vec<(i64, i64)> {
    lost.iter().map(|lost| (lost.range.from_offset, lost.range.until_offset)).collect()
}

#[tokio::test]
async fn s_o05_a_start_below_the_log() {
    let broker = EmbeddedBroker::start().await.unwrap();
    topic(&broker, 1, 100);
    broker.delete_records("t", 0, 60).unwrap();
    let start = specific(10);
    let error = process(&options(&broker, &[("startingOffsets", &start)]), &Memory::default()).await.unwrap_err();
    let message = text(&error);
    assert!(message.contains("t-0: [10, 60) is gone, 50 offsets; the log holds [60, 100)"), "{message}");
    let (sink, pairs) = (Memory::default(), [("startingOffsets", start.as_str()), ("failOnDataLoss", "false")]);
    let (_, batch) = process(&options(&broker, &pairs), &sink).await.unwrap();
    assert_eq!(lost(batch.lost()), [(10, 60)]);
    assert_eq!(sink.rows()[&0], (60..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn s_o05_a_start_beyond_the_log_never_rewinds() {
    let broker = EmbeddedBroker::start().await.unwrap();
    topic(&broker, 1, 100);
    let (start, end) = (specific(1000), specific(1100));
    let mut pairs = vec![("startingOffsets", start.as_str()), ("endingOffsets", end.as_str())];
    let error = process(&options(&broker, &pairs), &Memory::default()).await.unwrap_err();
    assert!(text(&error).contains("t-0: [1000, 1100) is gone, 100 offsets"), "{}", text(&error));
    pairs.push(("failOnDataLoss", "false"));
    let sink = Memory::default();
    let (_, batch) = process(&options(&broker, &pairs), &sink).await.unwrap();
    assert_eq!(lost(batch.lost()), [(1000, 1100)]);
    assert!(sink.rows().is_empty());
}

#[tokio::test]
async fn records_deleted_while_they_are_read() {
    for fail in [true, false] {
        let broker = Arc::new(EmbeddedBroker::start().await.unwrap());
        topic(&broker, 2, 300);
        at_offset(&broker, 60, |broker| {
            broker.delete_records("t", 0, 200).unwrap();
        });
        let sink = Memory::default();
        let flag = fail.to_string();
        let result = process(&options(&broker, &[("failOnDataLoss", &flag)]), &sink).await;
        if fail {
            let Err(Error::DataLoss(loss)) = result else { panic!("{result:?}") };
            assert_eq!((loss.lost.len(), loss.lost[0].range.until_offset), (1, 200));
            assert!(!sink.is_finished());
        } else {
            let (_, batch) = result.unwrap();
            let gone = lost(batch.lost());
            assert_eq!(gone.len(), 1);
            let (from, until) = gone[0];
            assert_eq!(until, 200);
            assert_eq!(sink.rows()[&0], (0..from).chain(200..300).collect::<Vec<_>>());
            assert_eq!(sink.rows()[&1], (0..300).collect::<Vec<_>>());
            assert!(batch.offsets_to_commit().values().all(|end| *end == 300));
        }
    }
}

#[tokio::test]
async fn a_topic_made_again_while_it_is_read() {
    for fail in [true, false] {
        let broker = Arc::new(EmbeddedBroker::start().await.unwrap());
        topic(&broker, 1, 300);
        at_offset(&broker, 60, |broker| {
            broker.delete_topic("t").unwrap();
            topic(broker, 1, 900);
        });
        let sink = Memory::default();
        let flag = fail.to_string();
        let result = process(&options(&broker, &[("failOnDataLoss", &flag)]), &sink).await;
        let lost = if fail {
            let Err(Error::DataLoss(loss)) = result else { panic!("{result:?}") };
            assert!(!sink.is_finished());
            loss.lost
        } else {
            let (client, batch) = result.unwrap();
            // The broker takes commits by name: it would give the old topic's offset to the new one.
            let outcome = batch.commit(&client, "g", "q").await.unwrap();
            assert!(outcome.committed.is_empty() && outcome.gone.len() == 1, "{outcome:?}");
            assert_eq!(broker.requests(ApiKey::OffsetCommit), 0);
            batch.lost().to_vec()
        };
        assert_eq!((lost.len(), lost[0].kind, lost[0].range.until_offset), (1, LossKind::Recreated, 300));
        let read = sink.rows().remove(&0).unwrap_or_default();
        assert!(read.iter().copied().eq(0..lost[0].range.from_offset), "nothing of the new topic: {read:?}");
    }
}

/// The log may be cut between the read of the records and the writing of the answer: what came is not lost.
#[tokio::test]
async fn a_log_start_past_records_that_came_is_no_loss() {
    let broker = EmbeddedBroker::start().await.unwrap();
    topic(&broker, 1, 100);
    broker.on(ApiKey::Fetch, |context| {
        edit(context.api_version, |response| response.responses[0].partitions[0].log_start_offset = 90)
    });
    let sink = Memory::default();
    let (_, batch) = process(&options(&broker, &[]), &sink).await.unwrap();
    assert!(batch.lost().is_empty());
    assert_eq!(sink.rows()[&0], (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn gaps_and_a_log_that_begins_above_zero_are_no_loss() {
    let broker = EmbeddedBroker::start().await.unwrap();
    topic(&broker, 1, 100);
    broker.append_raw("t", 0, bytes::Bytes::new(), 150).unwrap();
    fill(&broker, "t", 0, 50);
    broker.append_raw("t", 0, bytes::Bytes::new(), 260).unwrap();
    fill(&broker, "t", 0, 10);
    broker.delete_records("t", 0, 40).unwrap();
    let sink = Memory::default();
    let (_, batch) = process(&options(&broker, &[]), &sink).await.unwrap();
    assert_eq!(sink.rows()[&0], (40..100).chain(150..200).chain(260..270).collect::<Vec<_>>());
    assert!(batch.lost().is_empty());
    assert!(batch.offsets_to_commit().values().eq([&270]));
}

#[tokio::test]
async fn a_filter_does_not_hide_what_was_deleted_since_the_plan() {
    let filters = [
        ("timestamp >= 500", 200, 100),
        ("timestamp >= 500", 300, 0),
        ("offset >= 250", 200, 50),
        ("offset < 0", 200, 0),
        ("partition <> 0", 200, 0),
    ];
    for (text, cut, left) in filters {
        for fail in [true, false] {
            let broker = EmbeddedBroker::start().await.unwrap();
            // All of them at 1000 ms.
            topic(&broker, 1, 300);
            let options = options(&broker, &[]);
            let client = Client::connect(options.client.clone()).await.unwrap();
            let planned = options.plan(&client).await.unwrap();
            broker.delete_records("t", 0, cut).unwrap();
            let (sink, progress) = (Memory::default(), ReadProgress::shared());
            let mut settings = ReadSettings::default();
            settings.fail_on_data_loss = fail;
            let filter: Filter = text.parse().unwrap();
            let result = planned.process(&client, &filter, &sink, &settings, &progress).await;
            if fail {
                let Err(Error::DataLoss(loss)) = result else { panic!("{text}: {result:?}") };
                assert_eq!(lost(&loss.lost), [(0, cut)], "{text}");
            } else {
                assert_eq!(lost(result.unwrap().lost()), [(0, cut)], "{text}");
                assert_eq!(sink.rows().get(&0).map_or(0, Vec::len), left);
            }
        }
    }
}

#[tokio::test]
async fn a_reader_that_lost_records_says_so_to_the_end() {
    for cut in [200, 300] {
        let broker = Arc::new(EmbeddedBroker::start().await.unwrap());
        topic(&broker, 2, 300);
        at_offset(&broker, 60, move |broker| {
            broker.delete_records("t", 0, cut).unwrap();
        });
        let options = options(&broker, &[]);
        let client = Client::connect(options.client.clone()).await.unwrap();
        let planned = options.plan(&client).await.unwrap();
        let mut reader = planned.read(&client, &Filter::always(), &ReadSettings::default()).await.unwrap();
        let next = async |reader: &mut BatchReader| {
            let next = tokio::time::timeout(Duration::from_secs(10), reader.next()).await.expect("it hangs");
            next.map(|batch| batch.is_some())
        };
        let error = loop {
            match next(&mut reader).await {
                Ok(more) => assert!(more, "the loss comes first"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::DataLoss(_)), "{error}");
        assert!(matches!(next(&mut reader).await, Err(Error::DataLoss(_))));
        assert!(matches!(reader.finish(), Err(Error::DataLoss(_))), "nothing to commit");
    }
}

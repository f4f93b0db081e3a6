//! Reported faults of other clients, area O: offsets that are asked for, and those that are committed. S-O11 and S-O17 are in
//! `commit`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ottla_client::{Error, IsolationLevel, OffsetAndMetadata, OffsetSpec, TopicPartition};
use ottla_embedded::messages::ApiKey;
use ottla_embedded::{Action, CommittedOffset, EmbeddedBroker};
use support::{GroupOffset, KafkaCluster, Ottla, Produce, Recipe, kafka_or_skip};

use crate::common::{Embedded, block_on, client, condition, offsets, offsets_json, read, rows, sentence, totals};

fn committed(kafka: &KafkaCluster, group: &str) -> Vec<i64> {
    kafka.group_offsets(group).iter().map(|o| o.offset).collect()
}

#[test]
fn s_o01_logical_offsets_are_not_committed() {
    let broker = Embedded::start(EmbeddedBroker::builder());
    broker.create_topic("t", 2, &[]).unwrap();
    let (first, second) = (TopicPartition::new("t", 0), TopicPartition::new("t", 1));
    let position = |offset| OffsetAndMetadata { offset, leader_epoch: None, metadata: None };
    block_on(async {
        let client = client(&broker.bootstrap_servers()).await;
        for bad in [-1, -1001, -2, i64::MIN] {
            let offsets = BTreeMap::from([(first.clone(), position(5)), (second.clone(), position(bad))]);
            let error = client.commit_offsets("g", &offsets, &BTreeMap::new()).await.expect_err("not an offset");
            assert!(
                matches!(&error, Error::InvalidOffset { partition, offset } if (partition, *offset) == (&second, bad))
            );
            assert!(error.to_string().contains(&bad.to_string()));
        }
    });
    let asked = [ApiKey::FindCoordinator, ApiKey::OffsetCommit].map(|api| broker.requests(api));
    assert_eq!(asked, [0, 0], "nothing was sent");

    // What others stored by mistake is none.
    broker.commit("g", "t", 0, CommittedOffset::new(-1001));
    broker.commit("g", "t", 1, CommittedOffset::new(0));
    block_on(async {
        let client = client(&broker.bootstrap_servers()).await;
        let stored = client.committed_offsets("g", None).await.expect("an answer").offsets;
        assert_eq!(stored.into_iter().map(|(p, o)| (p, o.offset)).collect::<Vec<_>>(), [(second.clone(), 0)]);
    });
}

#[test]
fn s_o02_a_committed_0_is_a_commit() {
    let Some(kafka) = kafka_or_skip("S-O02: offset 0 in a group") else { return };
    let topic = kafka.create_topic("o02", 2, &[]);
    kafka.produce(&Produce::generated(&topic, 5).partitions(1));
    kafka.commit_group_offsets("o02", &[GroupOffset::new(&topic, 0, 0)]);
    block_on(async {
        let client = client(kafka.bootstrap_servers()).await;
        let both = [0, 1].map(|p| TopicPartition::new(&topic, p));
        for asked in [None, Some(&both[..])] {
            let stored = client.committed_offsets("o02", asked).await.expect("an answer").offsets;
            assert_eq!(stored.keys().collect::<Vec<_>>(), [&both[0]], "none for the other one");
            assert_eq!(stored[&both[0]].offset, 0);
        }
    });
    let lag = Ottla::new(["lag", "-b", kafka.bootstrap_servers(), "--group", "o02"]).run().expect_code(0);
    let rows = support::parse_group_table(&lag.text());
    assert_eq!((rows.len(), rows[0].current_offset, rows[0].lag), (1, Some(0), Some(5)));
    assert_eq!(rows, kafka.group_table("o02"));
}

#[test]
fn s_o05_both_sides_of_a_log_are_told_apart() {
    let Some(kafka) = kafka_or_skip("S-O05: offsets out of range") else { return };
    let made = Recipe::Del.make(kafka);
    let run = |from: i64, until: &str, fail: &str, code: i32| {
        let from = offsets_json(&made.topic, &[(0, from)]);
        let args = ["--subscribe", &made.topic, "--starting-offsets", &from, "--ending-offsets", until];
        let start = Instant::now();
        let more = ["--fail-on-data-loss", fail, "--commit-group", "o05"];
        let finished = read(kafka.bootstrap_servers(), &[&args[..], &more].concat()).run().expect_code(code);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        finished
    };
    let gone = format!("{}-0: [10, 60) is gone, 50 offsets; the log holds [60, 100)", made.topic);
    let finished = run(10, "latest", "true", 3);
    assert!(sentence(&finished).ends_with(&gone) && finished.stdout.is_empty(), "{}", finished.stderr);
    assert_eq!(committed(kafka, "o05"), [0; 0]);

    // Beyond the end there is nothing to go on with: never a silent rewind, whatever failOnDataLoss says.
    for fail in ["true", "false"] {
        let finished = run(1_000, "latest", fail, 3);
        let said = sentence(&finished);
        for part in ["start offset 1000", "end offset 100", "the log holds [60, 100)"] {
            assert!(said.contains(part), "{part} is not in: {said}");
        }
        assert_eq!((finished.stdout.len(), committed(kafka, "o05")), (0, vec![]));
    }

    let finished = run(10, "latest", "false", 0);
    assert_eq!(offsets(&rows(&finished)), (60..100).collect::<Vec<_>>());
    let warnings: Vec<&str> = finished.stderr.lines().filter(|l| l.contains("warning")).collect();
    assert_eq!(warnings, [format!("ottla: warning: {gone}")]);
    assert_eq!(committed(kafka, "o05"), [100]);

    // An end beyond the log is cut off, with a warning; everything gone is still an end.
    let beyond = offsets_json(&made.topic, &[(0, 150)]);
    let finished = run(90, &beyond, "false", 0);
    assert_eq!(offsets(&rows(&finished)), (90..100).collect::<Vec<_>>());
    assert!(finished.stderr.contains("[100, 150) is gone, 50 offsets"), "{}", finished.stderr);
    let before = offsets_json(&made.topic, &[(0, 25)]);
    assert_eq!(offsets(&rows(&run(10, &before, "false", 0))), [0_i64; 0]);
}

#[test]
fn s_o05_a_log_that_shrinks_under_the_reader_is_no_hot_loop() {
    let broker = Embedded::start(EmbeddedBroker::builder());
    broker.create_topic("t", 1, &[]).unwrap();
    let ten = || crate::common::batch(ottla_protocol::compression::Compression::None, ["x"; 10]);
    for _ in 0..10 {
        broker.append("t", 0, ten()).unwrap();
    }
    // Whatever the bounds say, a fetch is out of range: the answers contradict each other.
    broker.on(ApiKey::Fetch, |_| Action::Error(1));
    let limit = ["--subscribe", "t", "--commit-group", "g", "-X", "kafka.default.api.timeout.ms=3000"];
    let start = Instant::now();
    let finished = read(&broker.bootstrap_servers(), &limit).run();
    assert!(finished.code == Some(1) || finished.code == Some(3), "{:?}: {}", finished.code, finished.stderr);
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    assert!(broker.requests(ApiKey::Fetch) < 100, "{} fetches", broker.requests(ApiKey::Fetch));
    assert_eq!(broker.committed("g", "t", 0), None);
}

#[test]
fn s_o13_a_timestamp_that_no_record_reaches() {
    let Some(kafka) = kafka_or_skip("S-O13: offsets by timestamp") else { return };
    let made = Recipe::Gz.make(kafka);
    let empty = kafka.create_topic("o13-empty", 1, &[]);
    block_on(async {
        let client = client(kafka.bootstrap_servers()).await;
        for (topic, timestamp, expected) in [
            (&made.topic, 1_700_000_000_099, Some(99)),
            (&made.topic, 1_700_000_000_100, None),
            (&made.topic, 1_700_000_000, Some(0)),
            (&empty, 0, None),
        ] {
            let partition = TopicPartition::new(topic, 0);
            let wanted = BTreeMap::from([(partition.clone(), OffsetSpec::Timestamp(timestamp))]);
            let found = client.list_offsets(&wanted, IsolationLevel::ReadUncommitted).await.expect("an answer");
            assert_eq!(found[&partition].offset, expected, "{timestamp}");
        }
    });

    let from = |timestamp: &str, more: &[&str], code| {
        let args = ["--subscribe", &made.topic, "--starting-timestamp", timestamp, "--json"];
        read(kafka.bootstrap_servers(), &[&args[..], more].concat()).run().expect_code(code)
    };
    assert_eq!(offsets(&rows(&from("1700000000099", &[], 0))), [99]);
    let (name, said) = condition(&from("1700000000100", &[], 1));
    assert_eq!(name, "NO_OFFSET_MATCHED");
    assert!(said.contains(&format!("{}-0 and timestamp 1700000000100", made.topic)), "{said}");
    let latest = ["--starting-offsets-by-timestamp-strategy", "latest", "--commit-group", "o13"];
    assert_eq!(offsets(&rows(&from("1700000000100", &latest, 0))), [0_i64; 0]);
    assert_eq!(committed(kafka, "o13"), [100]);
    // Seconds mean 1970, and so everything: that is said.
    let seconds = from("1700000000", &[], 0);
    assert_eq!(totals(&seconds)["records"].as_u64(), Some(100));
    let warned =
        seconds.stderr.lines().any(|l| l.contains("warning") && l.contains("1700000000") && l.contains("millisecond"));
    assert!(warned, "{}", seconds.stderr);
    let until = |timestamp: &str| {
        let args = ["--subscribe", &made.topic, "--ending-timestamp", timestamp];
        offsets(&rows(&read(kafka.bootstrap_servers(), &args).run().expect_code(0))).len()
    };
    assert_eq!((until("1700000000099"), until("1700000000100"), until("1699999999999")), (99, 100, 0));
}

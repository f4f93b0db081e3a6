//! The stores as a query uses them, where real Kafka has a say: metadata limits, and an offsets file beside a running query.

use std::collections::BTreeMap;

use ottla_client::TopicPartition;
use ottla_stream::{Error, GroupStore, OffsetStore, OffsetsFile, StoreCommit, StreamOptions, StreamingQuery, Trigger};
use support::kafka_or_skip;

use super::{committed, file_url, row, run, show, topic};
use crate::common::{block_on, client, wait_until};

fn commit(topic: &str, offset: i64, query_id: &str) -> StoreCommit {
    let mut commit = StoreCommit::default();
    commit.offsets = BTreeMap::from([(TopicPartition::new(topic, 0), offset)]);
    commit.query_id = query_id.to_owned();
    commit
}

#[test]
fn s_o12_metadata_that_is_too_long_is_told_by_partition() {
    let Some(kafka) = kafka_or_skip("S-O12: metadata limits") else { return };
    let topic = topic(kafka, "o12", 1, 10);
    block_on(async {
        let client = client(kafka.bootstrap_servers()).await;
        let store = GroupStore::new(&client, "o12");
        let rest = "ottla/1 batch=0 query=".len();
        // The limit counts characters, not bytes.
        store.store(&commit(&topic, 3, &"\u{20ac}".repeat(4096 - rest))).await.expect("4096 characters");
        let error = store.store(&commit(&topic, 4, &"x".repeat(4097 - rest))).await.expect_err("4097 characters");
        let Error::Commit { refused, .. } = &error else { panic!("{error:?}") };
        assert_eq!(refused.len(), 1);
        assert!(error.to_string().contains(&format!("{topic}-0: OFFSET_METADATA_TOO_LARGE")), "{error}");
    });
    assert_eq!(committed(kafka, "o12"), [(0, 3)]);
}

#[test]
fn a_query_keeps_its_offsets_in_a_file() {
    let Some(kafka) = kafka_or_skip("a query with an offsets file as its only store") else { return };
    let topic = topic(kafka, "filed", 2, 10);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("offsets.json");
    let url = file_url(&directory, "offsets.json");
    let read = || {
        let pairs = [
            ("kafka.bootstrap.servers", kafka.bootstrap_servers()),
            ("subscribe", topic.as_str()),
            ("startingOffsets", "earliest"),
        ];
        let options = StreamOptions::stream_from_pairs(pairs).expect("options");
        let store = OffsetsFile::new(&path).expect("a path");
        let counted = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let count = counted.clone();
        let query = StreamingQuery::builder([options])
            .trigger(Trigger::AvailableNow)
            .offset_store(0, std::sync::Arc::new(store))
            .foreach_batch(move |batch, _| {
                let count = count.clone();
                async move {
                    batch
                        .for_each(|_| {
                            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        })
                        .await?;
                    Ok::<(), ottla_stream::BoxError>(())
                }
            });
        block_on(async {
            let query = query.start().expect("it starts");
            query.await_termination().await
        })
        .map(|()| counted.load(std::sync::atomic::Ordering::Relaxed))
    };
    assert_eq!(read().expect("it ends"), 20);
    assert_eq!(show(kafka, &url), [row(0, 10, 0, 10, "ok"), row(1, 10, 0, 10, "ok")]);
    super::produce(kafka, &topic, 2, 5);
    assert_eq!(read().expect("it goes on"), 10);
    let rows = super::json_rows(&run(kafka, 0, &["show", &url, "--json"]));
    assert_eq!(rows[0]["batchId"], 1);
    // Retention while it was stopped: the policy of a store, which is to fail here.
    super::produce(kafka, &topic, 2, 5);
    kafka.delete_records(&topic, 0, 18);
    let _ = run(kafka, 3, &["validate", &url]);
    let error = read().expect_err("3 offsets are gone");
    assert!(error.source.to_string().contains(&format!("{topic}-0: [15, 18) is gone")), "{}", error.source);
    let _ = run(kafka, 0, &["set", &url, "--to", "earliest", "--force"]);
    assert_eq!(read().expect("it goes on"), 2 + 20);
}

/// S-O06, and retention while a query without a checkpoint is stopped: what its group holds is held against the log.
#[test]
fn a_group_outside_of_the_log_is_gone_on_from_as_the_policy_says() {
    let Some(kafka) = kafka_or_skip("a query whose group is out of range") else { return };
    let topic = topic(kafka, "policy", 3, 100);
    kafka.delete_records(&topic, 0, 60);
    let stored = [(0, 10), (1, 1_000_000_000_000)].map(|(p, offset)| support::GroupOffset::new(&topic, p, offset));
    kafka.commit_group_offsets("policy", &stored);
    let query = |more: &[&str], code: i32| {
        let args = ["run", "-b", kafka.bootstrap_servers(), "--subscribe", &topic, "--commit-group", "policy"];
        let trigger = ["--trigger", "available-now"];
        support::Ottla::new(args.iter().chain(&trigger).chain(more)).run().expect_code(code)
    };
    let _ = run(kafka, 3, &["validate", "group:policy"]);
    let finished = query(&[], 3);
    for part in ["-0: [10, 60) is gone, 50 offsets", "-1: [100, 1000000000000) is gone"] {
        assert!(finished.stderr.contains(&format!("{topic}{part}")), "{}", finished.stderr);
    }
    assert_eq!(committed(kafka, "policy"), [(0, 10), (1, 1_000_000_000_000)], "nothing was done");
    let finished = query(&["--fail-on-data-loss", "false"], 0);
    assert!(finished.stderr.contains(&format!("{topic}-0: [10, 60) is gone, 50 offsets")), "{}", finished.stderr);
    assert_eq!(finished.lines().len(), 40 + 100 + 100);
    assert_eq!(committed(kafka, "policy"), [(0, 100), (1, 100), (2, 100)]);
    let finished = run(kafka, 0, &["validate", "group:policy"]);
    assert_eq!(finished.stderr, "3 partitions: 3 ok\n");
}

/// Beside a checkpoint the file is only written; one that is in use is told, and does not stop the query.
#[test]
fn an_offsets_file_is_one_query_s_own() {
    let Some(kafka) = kafka_or_skip("two queries with one offsets file") else { return };
    let topic = topic(kafka, "one-file", 2, 10);
    let directory = tempfile::tempdir().unwrap();
    let file = file_url(&directory, "offsets.json");
    let checkpoint = directory.path().join("ck").display().to_string();
    let query = |more: &[&str]| {
        let args = ["run", "-b", kafka.bootstrap_servers(), "--subscribe", &topic, "--sink", "null:"];
        let rest = ["--starting-offsets", "earliest", "--offset-store", &file];
        support::Ottla::new(args.iter().chain(&rest).chain(more)).timeout(std::time::Duration::from_secs(120))
    };
    let first = query(&["--trigger", "100ms"]).spawn();
    let is_there = || directory.path().join("offsets.json").exists();
    wait_until("the first batch is stored", std::time::Duration::from_secs(30), is_there);
    // As its only store: it can't remember anything, and ends.
    super::produce(kafka, &topic, 2, 5);
    let second = query(&["--trigger", "100ms"]).run().expect_code(1);
    assert!(second.stderr.contains("another process keeps its offsets in it"), "{}", second.stderr);
    // Beside a checkpoint it goes on, and says at the end that the store does not have it.
    let third = query(&["--trigger", "available-now", "--checkpoint", &checkpoint]).run().expect_code(1);
    assert!(third.stderr.contains("warning") && third.stderr.contains("another process"), "{}", third.stderr);
    assert!(third.stderr.contains(&format!("{topic}-0, {topic}-1")), "{}", third.stderr);
    first.signal(support::Signal::Kill);
    assert_eq!(first.wait().signal, Some(9));
    // The lock went with its process: the next start brings the store up to the checkpoint.
    super::produce(kafka, &topic, 2, 5);
    let _ = query(&["--trigger", "available-now", "--checkpoint", &checkpoint]).run().expect_code(0);
    assert_eq!(show(kafka, &file), [row(0, 20, 0, 20, "ok"), row(1, 20, 0, 20, "ok")]);
}

//! Queries that keep their offsets in ZooKeeper: beside a checkpoint, and as all they have.

use std::time::Duration;

use ottla_stream::{QueryBuilder, StreamingQuery};
use support::{GroupOffset, KafkaCluster, Ottla, Produce, ZooKeeper, java_or_skip, kafka_or_skip};

use super::{Other, shared, store};
use crate::common::block_on;
use crate::query::{Memory, options, query};

/// Brokers and a server that tests share.
fn both(what: &str) -> Option<(&'static KafkaCluster, &'static ZooKeeper)> {
    Some((kafka_or_skip(what)?, shared(what)?))
}

/// A query that has nothing but ZooKeeper.
fn only(kafka: &KafkaCluster, server: &ZooKeeper, topic: &str, rest: &str, more: &[(&str, &str)]) -> QueryBuilder {
    StreamingQuery::builder([options(kafka, topic, more)])
        .offset_store(0, std::sync::Arc::new(store(server, rest, &[])))
}

fn all(range: std::ops::Range<i64>) -> Vec<(i32, i64)> {
    range.map(|offset| (0, offset)).collect()
}

#[test]
fn what_retention_took_is_told_and_passed_over() {
    let Some((kafka, server)) = both("a purge while a query is stopped") else { return };
    let topic = kafka.create_topic("zk-purge", 1, &[]);
    kafka.produce(&Produce::generated(&topic, 10));
    block_on(async {
        let other = Other::connect(server).await;
        let path = format!("/consumers/purge/offsets/{topic}/0");
        let memory = Memory::default();
        memory.run(only(kafka, server, &topic, "?group=purge", &[])).await.expect("it ends");
        assert_eq!((memory.records(), other.get(&path).await.as_deref()), (all(0..10), Some("10")));

        kafka.produce(&Produce::generated(&topic, 20));
        kafka.delete_records(&topic, 0, 25);
        let strict = [("ottla.offsetOutOfRange", "fail")];
        let error = Memory::default().run(only(kafka, server, &topic, "?group=purge", &strict)).await;
        assert!(error.expect_err("records are gone").condition().starts_with("KAFKA_DATA_LOSS"));
        assert_eq!(other.get(&path).await.as_deref(), Some("10"), "nothing was processed, so nothing is stored");

        let memory = Memory::default();
        memory.run(only(kafka, server, &topic, "?group=purge", &[])).await.expect("it ends");
        assert_eq!(memory.records(), all(25..30));
        assert_eq!(memory.seen()[0].batch_id, 0, "ZooKeeper keeps no batch ids");
        let warnings = memory.warnings();
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        let lost = format!("{topic}-0: [10, 25) is gone, 15 offsets; the log holds [25, 30)");
        assert!(warning.contains("ZooKeeper group 'purge'") && warning.ends_with(&lost), "{warning}");
        assert_eq!(other.get(&path).await.as_deref(), Some("30"));

        let memory = Memory::default();
        memory.run(only(kafka, server, &topic, "?group=purge", &[])).await.expect("it ends");
        assert_eq!((memory.records(), memory.warnings()), (vec![], vec![]));
    });
}

#[test]
fn s_z01_a_topic_that_was_made_anew_ends_before_what_is_stored() {
    let Some((kafka, server)) = both("S-Z01: an offset beyond the end") else { return };
    let topic = kafka.create_topic("zk-z01", 2, &[]);
    kafka.produce(&Produce::generated(&topic, 30).partitions(1));
    block_on(async {
        let other = Other::connect(server).await;
        let path = format!("/consumers/z01/offsets/{topic}/0");
        other.put(&path, b"500").await;
        let memory = Memory::default();
        // Partition 1 has no node: it is read from its start, too, whatever startingOffsets says.
        kafka.produce(&Produce::generated(&topic, 1).partitions(2));
        let latest = [("startingOffsets", "latest")];
        let records = |count: i64| (0..count).map(|offset| (0, offset)).collect::<Vec<_>>();
        memory.run(only(kafka, server, &topic, "?group=z01", &latest)).await.expect("it ends");
        assert_eq!(memory.records(), records(31));
        let warnings = memory.warnings();
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        let lost = format!("{topic}-0: [31, 500) is gone, 469 offsets; the log holds [0, 31)");
        assert!(warning.ends_with(&lost), "{warning}");
        assert_eq!(other.get(&path).await.as_deref(), Some("31"), "rewritten after processing");
        let second = format!("/consumers/z01/offsets/{topic}/1");
        assert_eq!(other.get(&second).await.as_deref(), Some("0"));
    });
}

#[test]
fn garbage_stops_a_query_at_its_start() {
    let Some((kafka, server)) = both("a node that holds no offset") else { return };
    let topic = kafka.create_topic("zk-garbage", 1, &[]);
    kafka.produce(&Produce::generated(&topic, 3));
    block_on(async {
        let other = Other::connect(server).await;
        let path = format!("/consumers/garbage/offsets/{topic}/0");
        other.put(&path, b"-1").await;
        let memory = Memory::default();
        let once = [("fetchOffset.numRetries", "1")];
        let error = memory.run(only(kafka, server, &topic, "?group=garbage", &once)).await.expect_err("no offset");
        let said = ottla_client::report(&error);
        assert!(said.contains(&format!("{path} holds \"-1\", which is no offset")), "{said}");
        assert_eq!((error.condition(), memory.seen()), ("NOT_AN_OFFSET", vec![]));
        assert_eq!(other.get(&path).await.as_deref(), Some("-1"));
    });
}

#[test]
fn the_last_batch_is_read_again_with_offset_from() {
    let Some((kafka, server)) = both("offset=from in a query") else { return };
    let topic = kafka.create_topic("zk-from", 1, &[]);
    kafka.produce(&Produce::generated(&topic, 10));
    let limit = [("maxOffsetsPerTrigger", "4")];
    let again = || only(kafka, server, &topic, "?group=again&offset=from", &limit);
    block_on(async {
        let other = Other::connect(server).await;
        let memory = Memory::default();
        memory.run(again()).await.expect("it ends");
        assert_eq!(memory.records(), all(0..10));
        let path = format!("/consumers/again/offsets/{topic}/0");
        assert_eq!(other.get(&path).await.as_deref(), Some("8"));
        let memory = Memory::default();
        memory.run(again()).await.expect("it ends");
        assert_eq!(memory.records(), all(8..10));
        kafka.produce(&Produce::generated(&topic, 3));
        let memory = Memory::default();
        memory.run(again()).await.expect("it ends");
        assert_eq!(memory.records(), all(8..13));
        assert_eq!(other.get(&path).await.as_deref(), Some("12"));
    });
}

#[test]
fn zookeeper_beside_a_checkpoint_is_written_and_not_read() {
    let Some((kafka, server)) = both("ZooKeeper beside a checkpoint") else { return };
    let topic = kafka.create_topic("zk-beside", 1, &[]);
    kafka.produce(&Produce::generated(&topic, 10));
    let checkpoint = tempfile::tempdir().expect("a folder");
    let beside = || {
        query(options(kafka, &topic, &[]), checkpoint.path())
            .offset_store(0, std::sync::Arc::new(store(server, "?group=beside", &[])))
    };
    block_on(async {
        let other = Other::connect(server).await;
        let path = format!("/consumers/beside/offsets/{topic}/0");
        Memory::default().run(beside()).await.expect("it ends");
        assert_eq!(other.get(&path).await.as_deref(), Some("10"));

        // Behind: it is brought up at the start. The checkpoint says where to go on.
        other.put(&path, b"3").await;
        let memory = Memory::default();
        memory.run(beside()).await.expect("it ends");
        assert_eq!((memory.records(), other.get(&path).await.as_deref()), (vec![], Some("10")));

        // Another writer during the query: it is told, the query goes on, and fails to store at its end.
        let memory = Memory::default();
        let running = memory.start(beside());
        running.process_all_available().await.expect("it runs");
        other.put(&path, b"77").await;
        kafka.produce(&Produce::generated(&topic, 2));
        running.process_all_available().await.expect("it runs");
        assert_eq!((memory.records(), running.failed_commits()), (all(10..12), 1));
        let told = format!("another writer changed {path} from 10 to 77");
        assert!(memory.warnings().iter().any(|warning| warning.contains(&told)), "{:?}", memory.warnings());
        let error = running.stop().await.expect_err("what is not stored is told");
        assert!(ottla_client::report(&error).contains(&told), "{}", ottla_client::report(&error));
        assert_eq!(other.get(&path).await.as_deref(), Some("77"), "nothing was written over");
    });
}

#[test]
fn another_writer_stops_a_query_that_has_nothing_else() {
    let Some((kafka, server)) = both("two writers, one a query") else { return };
    let topic = kafka.create_topic("zk-two", 1, &[]);
    kafka.produce(&Produce::generated(&topic, 4));
    block_on(async {
        let other = Other::connect(server).await;
        let path = format!("/consumers/two-queries/offsets/{topic}/0");
        let running = Memory::default().start(only(kafka, server, &topic, "?group=two-queries", &[]));
        running.process_all_available().await.expect("it runs");
        other.put(&path, b"4").await;
        kafka.produce(&Produce::generated(&topic, 4));
        let error = running.await_termination().await.expect_err("two write there");
        assert_eq!(error.condition(), "CONCURRENT_OFFSET_WRITER");
        let told = format!("another writer changed {path} from 4 to 4");
        assert!(ottla_client::report(&error).ends_with(&told), "{}", ottla_client::report(&error));
        // A new start takes what is there for its own again.
        let memory = Memory::default();
        memory.run(only(kafka, server, &topic, "?group=two-queries", &[])).await.expect("it ends");
        assert_eq!((memory.records(), other.get(&path).await.as_deref()), (all(4..8), Some("8")));
    });
}

#[test]
fn a_query_outlives_a_restart_of_zookeeper() {
    let Some(kafka) = kafka_or_skip("ZooKeeper restarted under a query") else { return };
    let Some(()) = java_or_skip("ZooKeeper restarted under a query") else { return };
    let mut server = ZooKeeper::start();
    let topic = kafka.create_topic("zk-restart", 1, &[]);
    kafka.produce(&Produce::generated(&topic, 5));
    block_on(async {
        let memory = Memory::default();
        let running = memory.start(only(kafka, &server, &topic, "/kafka?group=restart", &[]));
        running.process_all_available().await.expect("it runs");
        server.kill();
        kafka.produce(&Produce::generated(&topic, 5));
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.start_again();
        running.process_all_available().await.expect("it runs");
        running.stop().await.expect("it stops");
        assert_eq!((memory.records(), memory.warnings()), (all(0..10), vec![]));
        let other = Other::connect(&server).await;
        let path = format!("/kafka/consumers/restart/offsets/{topic}/0");
        assert_eq!(other.get(&path).await.as_deref(), Some("10"));
    });
}

#[test]
fn ottla_offsets_shows_and_sets_them() {
    let Some((kafka, server)) = both("ottla offsets on ZooKeeper") else { return };
    let topic = kafka.create_topic("zk-tool", 1, &[]);
    kafka.produce(&Produce::generated(&topic, 5));
    kafka.commit_group_offsets("zk-tool", &[GroupOffset::new(&topic, 0, 3)]);
    let url = format!("zookeeper://{}/tool?group=g", server.connect_string());
    let offsets = |code: i32, args: &[&str]| {
        let common = ["offsets", "-b", kafka.bootstrap_servers(), "-X", "ottla.zookeeper.auth=digest:ann:s3cret"];
        Ottla::new(common.iter().chain(args)).run().expect_code(code)
    };
    offsets(0, &["copy", "group:zk-tool", &url]);
    let shown = offsets(0, &["show", &url, "--json"]).text();
    let row: serde_json::Value = serde_json::from_str(&shown).expect("a row");
    assert_eq!((&row["stored"], &row["lag"], &row["state"]), (&3.into(), &2.into(), &"ok".into()), "{shown}");
    offsets(0, &["set", &url, "--to", "earliest", "--force"]);
    kafka.delete_records(&topic, 0, 2);
    assert!(offsets(3, &["validate", &url]).text().contains("below log start"));
    // It is theirs who have the password.
    let open = Ottla::new(["offsets", "-b", kafka.bootstrap_servers(), "set", &url, "--to", "latest"]).run();
    assert!(open.expect_code(1).stderr.contains("not authorized"));
}

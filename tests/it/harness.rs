//! The harness itself, on real Kafka: what it makes is what Java's own clients and tools see.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{
    Codec, GroupOffset, Isolation, JavaClient, KafkaCluster, OffsetQuery, Ottla, Produce, ProducerRecord, Recipe,
    TimestampType, Version, ZooKeeper, java_or_skip, kafka_or_skip, kcat,
};

#[test]
fn records_of_every_codec_come_back_as_sent() {
    let Some(kafka) = kafka_or_skip("the harness: produce and consume") else { return };
    for codec in Codec::ALL {
        let topic = kafka.create_topic(codec.name(), 2, &[]);
        let sent = [
            ProducerRecord::new("k", "v").at(1_000).to(0),
            ProducerRecord { partition: Some(0), ..ProducerRecord::default() },
            ProducerRecord::new("", "").to(0).header("h", None).header("h", Some(b"")).header("i", Some(&[0, 255])),
            ProducerRecord::value("other").to(1),
        ];
        let placed = kafka.produce(&Produce::records(&topic, sent).codec(codec));
        let places: Vec<(i32, i64)> = placed.iter().map(|p| (p.partition, p.offset)).collect();
        assert_eq!(places, [(0, 0), (0, 1), (0, 2), (1, 0)]);

        let read = kafka.consume(&topic, Isolation::ReadCommitted);
        assert_eq!(read.len(), 4);
        assert_eq!((read[0].timestamp_ms, read[0].timestamp_type), (1_000, TimestampType::CreateTime));
        assert_eq!((read[0].key.as_deref(), read[0].value.as_deref()), (Some(&b"k"[..]), Some(&b"v"[..])));
        assert_eq!((&read[1].key, &read[1].value), (&None, &None));
        assert_eq!((read[2].key.as_deref(), read[2].value.as_deref()), (Some(&b""[..]), Some(&b""[..])));
        let headers = [("h", None), ("h", Some(vec![])), ("i", Some(vec![0, 255]))];
        assert_eq!(read[2].headers, headers.map(|(k, v)| (k.to_owned(), v)));
        assert_eq!((read[3].partition, read[3].text()), (1, "other".to_owned()));
    }
}

#[test]
fn generated_records_are_in_the_order_and_batches_asked_for() {
    let Some(kafka) = kafka_or_skip("the harness: generated records") else { return };
    let topic = kafka.create_topic("generated", 3, &[]);
    let produce = Produce::generated(&topic, 30_000).codec(Codec::Lz4).partitions(3).keys("k").values("v", 100);
    kafka.produce(&produce.timestamps(1_700_000_000_000, 10).headers(2));
    let read = kafka.consume(&topic, Isolation::ReadUncommitted);
    assert_eq!(read.len(), 30_000);
    for (i, record) in read.iter().enumerate() {
        let (partition, offset) = (i / 10_000, i % 10_000);
        let number = offset * 3 + partition;
        assert_eq!((record.partition, record.offset), (partition as i32, offset as i64));
        assert_eq!(record.key, Some(format!("k{number}").into_bytes()));
        assert_eq!(record.timestamp_ms, 1_700_000_000_000 + number as i64 * 10);
        assert!(record.text().starts_with(&format!("v{number} ")) && record.text().len() >= 100);
        assert_eq!(record.headers[1], ("h1".to_owned(), Some(format!("value {number}").into_bytes())));
    }
    let range = kafka.consume_range(&topic, Isolation::ReadCommitted, 1, 9_990, Some(9_995));
    assert_eq!(range.iter().map(|r| r.offset).collect::<Vec<_>>(), [9_990, 9_991, 9_992, 9_993, 9_994]);
}

#[test]
fn every_recipe_has_its_documented_offsets() {
    let Some(kafka) = kafka_or_skip("the harness: recipes of logs with known offsets") else { return };
    for recipe in Recipe::ALL {
        let made = recipe.make(kafka);
        made.verify(kafka);
        let read = kafka.consume(&made.topic, Isolation::ReadUncommitted);
        match recipe {
            Recipe::Open => {
                made.transaction.as_ref().expect("it is open").abort();
                let end = |isolation| kafka.list_offsets(&made.topic, OffsetQuery::Latest, isolation)[0].offset;
                assert_eq!((end(Isolation::ReadUncommitted), end(Isolation::ReadCommitted)), (7, 7));
            }
            Recipe::Gz => assert_eq!(read[99].timestamp_ms, 1_700_000_000_099),
            Recipe::Cmp => assert_eq!(read[1].value, None),
            Recipe::Lat => {
                assert!(read.iter().all(|r| r.timestamp_type == TimestampType::LogAppendTime));
                assert_eq!(read[0].timestamp_ms, read[2].timestamp_ms);
            }
            _ => {}
        }
    }
}

#[test]
fn one_flush_is_one_batch_on_disk() {
    let Some(kafka) = kafka_or_skip("the harness: DumpLogSegments") else { return };
    let made = Recipe::Gz.make(kafka);
    let segments = kafka.node(1).segments(&made.topic, 0);
    let files = segments.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(",");
    let dump = JavaClient::local_tool("org.apache.kafka.tools.DumpLogSegments", &["--files", &files]).expect_ok();
    let batches: Vec<&str> = dump.lines().filter(|l| l.starts_with("baseOffset: ")).collect();
    assert_eq!(batches.len(), 1, "{dump}");
    assert!(batches[0].contains("lastOffset: 99 count: 100") && batches[0].contains("compresscodec: gzip"), "{dump}");
}

#[test]
fn groups_are_what_the_group_tool_prints() {
    let Some(kafka) = kafka_or_skip("the harness: groups") else { return };
    let topic = kafka.create_topic("grouped", 2, &[]);
    kafka.produce(&Produce::generated(&topic, 10).partitions(2));
    let committed = GroupOffset { metadata: "by hand".to_owned(), ..GroupOffset::new(&topic, 0, 3) };
    kafka.commit_group_offsets("harness-group", std::slice::from_ref(&committed));
    assert_eq!(kafka.group_offsets("harness-group"), [committed]);
    assert!(kafka.list_groups().contains(&"harness-group".to_owned()));

    let rows = kafka.group_table("harness-group");
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(
        (rows[0].group.as_str(), rows[0].topic.as_str(), rows[0].partition),
        ("harness-group", topic.as_str(), 0)
    );
    assert_eq!((rows[0].current_offset, rows[0].log_end_offset, rows[0].lag), (Some(3), Some(5), Some(2)));
    assert_eq!(kafka.group_table("no-such-group"), []);

    let member = kafka.join_group("harness-live", &topic, &[("group.protocol", "consumer")]);
    assert_eq!(kafka.describe_group("harness-live"), ("Stable".to_owned(), 1));
    drop(member);
    assert_eq!(kafka.describe_group("harness-live"), ("Empty".to_owned(), 0));
}

#[test]
fn console_tools_and_kcat_see_the_same_records() {
    let Some(kafka) = kafka_or_skip("the harness: console tools and kcat") else { return };
    let topic = kafka.create_topic("console", 1, &[]);
    kafka.console_producer(&topic, "one\ntwo\n", &["--compression-codec", "snappy"]);
    let sent = kcat(["-b", kafka.bootstrap_servers(), "-P", "-t", &topic, "-p", "0", "-z", "zstd"], b"three\n");
    let _ = sent.expect_code(0);
    assert_eq!(kafka.console_consumer(&topic, 0, 0, 3, &[]), "one\ntwo\nthree\n");
    let read =
        kcat(["-b", kafka.bootstrap_servers(), "-C", "-t", &topic, "-p", "0", "-o", "beginning", "-e", "-q"], b"");
    assert_eq!(read.expect_code(0).text(), "one\ntwo\nthree\n");
    let args = ["--formatter-property", "print.offset=true", "--isolation-level", "read_committed"];
    assert_eq!(kafka.console_consumer(&topic, 0, 1, 2, &args), "Offset:1\ttwo\nOffset:2\tthree\n");
    let wrong = kafka.tool("org.apache.kafka.tools.TopicCommand", &["--describe", "--topic", "no-such-topic"]);
    assert_eq!(wrong.code, 1, "{wrong:?}");
    let own = JavaClient::tool_in_own_jvm(
        "org.apache.kafka.tools.TopicCommand",
        &["--bootstrap-server", kafka.bootstrap_servers(), "--list"],
        b"",
    );
    assert!(own.expect_code(0).lines().contains(&topic));
}

#[test]
fn topics_are_changed_for_every_node() {
    let Some(kafka) = kafka_or_skip("the harness: topics") else { return };
    let topic = kafka.create_topic("changed", 1, &[]);
    let id = kafka.topic_id(&topic);
    kafka.add_partitions(&topic, 3);
    assert_eq!(kafka.leaders(&topic), [1, 1, 1]);
    kafka.delete_topic(&topic);
    assert!(!kafka.list_topics().contains(&topic));
    kafka.create_topic_named(&topic, 1, &[]);
    assert_ne!(kafka.topic_id(&topic), id);
    let missing = kafka.try_call(serde_json::json!({"op": "describeTopic", "topic": "no-such-topic"}));
    assert!(missing.unwrap_err().to_string().contains("UnknownTopicOrPartitionException"));
}

#[test]
fn a_cluster_survives_the_loss_of_a_node() {
    let Some(()) = java_or_skip("the harness: three nodes, kill and restart") else { return };
    let kafka = KafkaCluster::builder().nodes(3).start();
    let topic = kafka.create_topic("replicated", 1, &[("min.insync.replicas", "1")]);
    kafka.produce(&Produce::generated(&topic, 100));
    let leader = kafka.leaders(&topic)[0];
    kafka.node(leader).kill();
    let deadline = Instant::now() + Duration::from_secs(60);
    while [leader, -1].contains(&kafka.leaders(&topic)[0]) {
        assert!(Instant::now() < deadline, "no other node became leader");
    }
    kafka.produce(&Produce::generated(&topic, 100));
    kafka.node(leader).restart();
    assert_eq!(kafka.consume(&topic, Isolation::ReadCommitted).len(), 200);

    let folder = kafka.folder().to_owned();
    let processes: Vec<u32> = kafka.nodes().iter().filter_map(support::Node::process_id).collect();
    assert_eq!(processes.len(), 3);
    drop(kafka);
    assert!(!folder.exists());
    assert!(processes.iter().all(|id| !Path::new(&format!("/proc/{id}")).exists()));
}

/// Runs this test again in a process of its own, which starts a broker and is killed.
#[test]
fn a_killed_test_process_leaves_nothing_behind() {
    const CHILD: &str = "OTTLA_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let kafka = KafkaCluster::builder().start();
        println!("\nstarted {} {}", kafka.node(1).process_id().expect("it runs"), kafka.folder().display());
        loop {
            std::thread::park();
        }
    }
    let Some(()) = java_or_skip("the harness: cleaning up after SIGKILL") else { return };
    let name = "harness::a_killed_test_process_leaves_nothing_behind";
    let mut child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("this binary runs");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let started = lines.map_while(Result::ok).find(|l| l.starts_with("started ")).expect("the broker starts");
    let (process, folder) = started["started ".len()..].split_once(' ').expect("two words");
    let process = Path::new("/proc").join(process);
    assert!(process.exists() && Path::new(folder).exists());
    child.kill().expect("SIGKILL");
    child.wait().expect("its end");
    let deadline = Instant::now() + Duration::from_secs(20);
    while process.exists() || Path::new(folder).exists() {
        assert!(Instant::now() < deadline, "{started}: still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_older_broker_serves() {
    let Some(()) = java_or_skip("the harness: Kafka 3.9") else { return };
    let kafka = KafkaCluster::builder().version(Version::V3_9).start();
    let topic = kafka.create_topic("old", 1, &[]);
    kafka.produce(&Produce::generated(&topic, 10).codec(Codec::Zstd));
    assert_eq!(kafka.consume(&topic, Isolation::ReadCommitted).len(), 10);
}

#[test]
fn a_second_listener_may_say_what_it_likes() {
    let Some(()) = java_or_skip("the harness: a second listener") else { return };
    let listeners =
        "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port},ODD://127.0.0.1:{extra_port}";
    let kafka = KafkaCluster::builder()
        .property("listeners", listeners)
        .property("advertised.listeners", "PLAINTEXT://127.0.0.1:{port},ODD://no-such-host:9092")
        .property("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,ODD:PLAINTEXT")
        .start();
    let topic = kafka.create_topic("behind", 1, &[]);
    let listed = kcat(["-b", &format!("127.0.0.1:{}", kafka.node(1).extra_port), "-L"], b"").expect_code(0).text();
    assert!(listed.contains("no-such-host:9092") && listed.contains(&topic), "{listed}");
}

#[test]
fn a_bad_property_fails_with_the_broker_s_own_words() {
    let Some(()) = java_or_skip("the harness: errors of a start") else { return };
    let error = KafkaCluster::builder().property("log.dirs", "").try_start().err().expect("no log folder");
    let said = error.to_string();
    assert!(said.contains("log.dirs"), "{said}");
    let kept = said.rsplit(' ').next().expect("the folder's name");
    assert!(Path::new(kept).join("node1/server.log").exists(), "{said}");
    std::fs::remove_dir_all(kept).expect("the folder that was kept");
}

#[test]
fn zookeeper_serves() {
    let Some(()) = java_or_skip("the harness: ZooKeeper") else { return };
    let zookeeper = ZooKeeper::start();
    let _ = zookeeper.shell(&["create", "/ottla", "42"]).expect_code(0);
    assert!(zookeeper.shell(&["get", "/ottla"]).expect_code(0).lines().contains(&"42".to_owned()));
}

#[test]
fn the_binary_runs() {
    let _ = Ottla::new(["--version"]).run().expect_code(0);
}

//! Commits of `ottla read`, seen with Kafka's own tools: everything that was planned, only after all was written out, never
//! backwards; and `ottla lag`, which shows the same numbers.

use std::time::Duration;

use ottla_embedded::messages::ApiKey;
use ottla_embedded::{Action, EmbeddedBroker};
use ottla_protocol::compression::Compression;
use support::{
    Codec, GroupOffset, GroupRow, Isolation, KafkaCluster, OffsetQuery, Ottla, Produce, Recipe, Signal, kafka_or_skip,
};

use crate::common::{Embedded, batch, condition, read, sentence, totals, wait_until};

/// Partition, committed offset, end and lag of a group, by Kafka's own tool.
fn table(kafka: &KafkaCluster, group: &str) -> Vec<(i32, i64, i64, i64)> {
    let number = |n: Option<i64>| n.expect("a number");
    let row = |r: &GroupRow| (r.partition, number(r.current_offset), number(r.log_end_offset), number(r.lag));
    kafka.group_table(group).iter().map(row).collect()
}

/// The query's id in a commit's metadata, when the rest of it is as documented.
#[track_caller]
fn query_of(committed: &GroupOffset, topic_id: &str) -> String {
    let words: Vec<&str> = committed.metadata.split(' ').collect();
    let [version, batch, query, topic] = words[..] else { panic!("{committed:?}") };
    assert_eq!((version, batch, topic), ("ottla/1", "batch=0", format!("topic_id={topic_id}").as_str()));
    let query = query.strip_prefix("query=").expect("the query's id");
    let hyphens: Vec<usize> = query.match_indices('-').map(|(at, _)| at).collect();
    assert!(query.len() == 36 && hyphens == [8, 13, 18, 23], "{query} is no uuid");
    query.to_owned()
}

#[test]
fn s_o17_a_filter_does_not_change_one_committed_byte() {
    let Some(kafka) = kafka_or_skip("S-O17: commits with and without a filter") else { return };
    let topic = kafka.create_topic("filtered", 4, &[]);
    // Partition 3 stays empty.
    kafka.produce(&Produce::generated(&topic, 300).partitions(3).values("v", 0).codec(Codec::Gzip));
    let topic_id = kafka.topic_id(&topic);
    let mut commits = Vec::new();
    for (group, filter, hits) in [
        ("filtered-all", None, 300),
        ("filtered-none", Some("value = 'nothing'"), 0),
        ("filtered-one", Some("value = 'v42'"), 1),
        ("filtered-partition", Some("partition = 1"), 100),
        ("filtered-late", Some("timestamp > 9000000000000"), 0),
        ("filtered-early", Some("offset < 10 AND partition < 2"), 20),
    ] {
        let mut args = vec!["--subscribe", &topic, "--commit-group", group, "--json"];
        args.extend(filter.iter().flat_map(|filter| ["--where", filter]));
        let finished = read(kafka.bootstrap_servers(), &args).run().expect_code(0);
        assert_eq!((finished.lines().len(), totals(&finished)["hits"].as_u64()), (hits, Some(hits as u64)));
        assert_eq!(table(kafka, group), [(0, 100, 100, 0), (1, 100, 100, 0), (2, 100, 100, 0), (3, 0, 0, 0)]);
        let stored = kafka.group_offsets(group);
        let epochs: Vec<i32> = stored.iter().map(|o| o.leader_epoch).collect();
        assert_eq!(epochs, [0, 0, 0, -1], "of the batches read, none in an empty partition");
        let query = query_of(&stored[0], &topic_id);
        commits.push(
            stored
                .into_iter()
                .map(|o| (o.partition, o.offset, o.leader_epoch, o.metadata.replace(&query, "")))
                .collect::<Vec<_>>(),
        );
    }
    assert!(commits.iter().all(|commit| *commit == commits[0]), "{commits:?}");
}

#[test]
fn the_leader_epoch_is_the_one_of_the_records() {
    let Some(kafka) = kafka_or_skip("the leader epoch of a commit") else { return };
    let topic = kafka.create_topic("epoch", 1, &[]);
    kafka.produce(&Produce::generated(&topic, 5));
    let _ = read(kafka.bootstrap_servers(), &["--subscribe", &topic, "--commit-group", "epochs"]).run().expect_code(0);
    let latest = kafka.list_offsets(&topic, OffsetQuery::Latest, Isolation::ReadUncommitted)[0];
    let stored = kafka.group_offsets("epochs");
    assert_eq!((stored[0].offset, stored[0].leader_epoch), (latest.offset, latest.leader_epoch));
}

#[test]
fn an_output_that_fails_half_way_commits_nothing() {
    let Some(kafka) = kafka_or_skip("a broken pipe and the group") else { return };
    let topic = kafka.create_topic("broken-pipe", 2, &[]);
    kafka.produce(&Produce::generated(&topic, 20_000).partitions(2).values("v", 50));
    for parallelism in ["1", "4"] {
        let args = ["--subscribe", &topic, "--commit-group", "broken", "--parallelism", parallelism];
        let finished = read(kafka.bootstrap_servers(), &args).close_stdout_after(1_000).run().expect_code(1);
        assert!(sentence(&finished).contains("writing the output"), "{}", finished.stderr);
        assert_eq!(kafka.group_table("broken"), []);
    }
    let args = ["--subscribe", &topic, "--commit-group", "broken", "--json"];
    let finished = read(kafka.bootstrap_servers(), &args).close_stdout_after(1_000).run().expect_code(1);
    assert_eq!(condition(&finished).0, "SINK_FAILED");
    assert_eq!(kafka.group_offsets("broken"), []);
}

#[test]
fn ctrl_c_in_the_middle_of_a_read_commits_nothing() {
    let Some(kafka) = kafka_or_skip("Ctrl-C and the group") else { return };
    let topic = kafka.create_topic("ctrl-c", 1, &[]);
    kafka.produce(&Produce::generated(&topic, 50_000).batch_bytes(200).values("v", 20));
    // A batch an answer: many seconds of work.
    let args = ["--subscribe", &topic, "--commit-group", "interrupted", "-X", "kafka.fetch.max.bytes=1"];
    let running = read(kafka.bootstrap_servers(), &args).spawn();
    running.await_stdout(1);
    running.signal(Signal::Interrupt);
    let finished = running.wait().expect_code(130);
    assert!(sentence(&finished).contains("nothing was committed to group 'interrupted'"), "{}", finished.stderr);
    assert!(finished.lines().len() < 50_000);
    assert_eq!(kafka.group_offsets("interrupted"), []);
}

#[test]
fn ctrl_c_while_the_broker_is_silent_ends_at_once() {
    let broker = Embedded::start(EmbeddedBroker::builder());
    broker.create_topic("t", 1, &[]).unwrap();
    broker.append("t", 0, batch(Compression::None, ["a"])).unwrap();
    broker.on(ApiKey::Fetch, |_| Action::Mute);
    let running = read(&broker.bootstrap_servers(), &["--subscribe", "t", "--commit-group", "g"]).spawn();
    wait_until("a fetch is out", Duration::from_secs(30), || broker.requests(ApiKey::Fetch) > 0);
    let start = std::time::Instant::now();
    running.signal(Signal::Interrupt);
    let _ = running.wait().expect_code(130);
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!((broker.committed("g", "t", 0), broker.requests(ApiKey::OffsetCommit)), (None, 0));
}

#[test]
fn a_commit_never_moves_a_group_backwards() {
    let Some(kafka) = kafka_or_skip("a commit behind the group's own") else { return };
    let topic = kafka.create_topic("backwards", 2, &[]);
    kafka.produce(&Produce::generated(&topic, 20).partitions(2));
    let ahead = [GroupOffset::new(&topic, 0, 9), GroupOffset::new(&topic, 1, 2)];
    kafka.commit_group_offsets("ahead", &ahead);
    let ending = format!(r#"{{"{topic}":{{"0":4,"1":6}}}}"#);
    let args = ["--subscribe", &topic, "--ending-offsets", &ending, "--commit-group", "ahead"];
    let finished = read(kafka.bootstrap_servers(), &args).run().expect_code(0);
    let warning = format!("ottla: warning: group 'ahead' is further already in {topic}-0 and stays at 9");
    assert!(finished.stderr.lines().any(|line| line == warning), "{}", finished.stderr);
    assert_eq!(table(kafka, "ahead"), [(0, 9, 10, 1), (1, 6, 10, 4)]);
    // The group's own, untouched.
    assert_eq!(kafka.group_offsets("ahead")[0], ahead[0]);

    let finished = read(kafka.bootstrap_servers(), &[&args[..], &["--json"]].concat()).run().expect_code(0);
    assert_eq!(totals(&finished)["committed"], serde_json::json!({ topic: {"1": 6} }));
}

#[test]
fn max_records_commits_what_was_looked_at() {
    let Some(kafka) = kafka_or_skip("--max-records and the group") else { return };
    let topic = kafka.create_topic("max-records", 3, &[]);
    kafka.produce(&Produce::generated(&topic, 30).partitions(3).values("v", 0).codec(Codec::Snappy));
    let run = |group: &str, more: &[&str]| {
        let args = [&["--subscribe", &topic, "--commit-group", group], more].concat();
        let lines = read(kafka.bootstrap_servers(), &args).run().expect_code(0).lines().len();
        let offsets: Vec<(i32, i64)> = kafka.group_offsets(group).iter().map(|o| (o.partition, o.offset)).collect();
        (lines, offsets)
    };
    assert_eq!(run("max-4", &["--max-records", "4"]), (4, vec![(0, 4)]));
    assert_eq!(run("max-13", &["--max-records", "13"]), (13, vec![(0, 10), (1, 3)]));
    // The one that is kept is the sixth of partition 1; all of partition 0 was looked at.
    let kept = ["--max-records", "1", "--where", "partition = 1 AND offset >= 5"];
    assert_eq!(run("max-filtered", &kept), (1, vec![(0, 10), (1, 6)]));
    assert_eq!(run("max-beyond", &["--max-records", "1000"]), (30, vec![(0, 10), (1, 10), (2, 10)]));
    assert_eq!(run("max-0", &["--max-records", "0"]), (0, vec![]));
}

#[test]
fn a_group_with_a_live_member_is_left_to_it() {
    let Some(kafka) = kafka_or_skip("S-O11: a commit to a group with members") else { return };
    let topic = kafka.create_topic("live", 1, &[]);
    kafka.produce(&Produce::generated(&topic, 5));
    for protocol in ["classic", "consumer"] {
        let group = format!("live-{protocol}");
        let member = kafka.join_group(&group, &topic, &[("group.protocol", protocol), ("enable.auto.commit", "false")]);
        let args = ["--subscribe", &topic, "--format", "none", "--commit-group", &group];
        let finished = read(kafka.bootstrap_servers(), &args).run().expect_code(1);
        let said = sentence(&finished);
        assert!(said.contains(&group) && said.contains("active members"), "{said}");
        assert_eq!(kafka.group_offsets(&group), []);
        drop(member);
        let _ = read(kafka.bootstrap_servers(), &args).run().expect_code(0);
        assert_eq!(table(kafka, &group), [(0, 5, 5, 0)]);
    }
}

#[test]
fn lag_is_what_kafkas_own_tool_says() {
    let Some(kafka) = kafka_or_skip("ottla lag beside ConsumerGroupCommand") else { return };
    let first = kafka.create_topic("lag-a", 3, &[]);
    let second = Recipe::Open.make(kafka);
    kafka.produce(&Produce::generated(&first, 300).partitions(3));
    let committed = [
        GroupOffset::new(&first, 0, 100),
        GroupOffset::new(&first, 1, 0),
        GroupOffset::new(&first, 2, 58),
        GroupOffset::new(&second.topic, 0, 1),
    ];
    kafka.commit_group_offsets("lagging", &committed);
    let lag = |more: &[&str]| {
        let args = ["lag", "-b", kafka.bootstrap_servers(), "--group", "lagging"];
        Ottla::new(args.iter().chain(more)).run().expect_code(0)
    };
    let theirs = kafka.group_table("lagging");
    assert_eq!(theirs.len(), 4);
    // The same columns, so the same parser.
    assert_eq!(support::parse_group_table(&lag(&[]).text()), theirs);
    let rows: Vec<serde_json::Value> =
        lag(&["--json"]).lines().iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let expected: Vec<serde_json::Value> = theirs
        .iter()
        .map(|r| {
            serde_json::json!({"group": r.group, "topic": r.topic, "partition": r.partition,
                "currentOffset": r.current_offset, "logEndOffset": r.log_end_offset, "lag": r.lag})
        })
        .collect();
    assert_eq!(rows, expected);

    // For readers of committed records the end is the last stable offset, 0 here, and the header says so.
    let stable = lag(&["-X", "kafka.isolation.level=read_committed"]).text();
    assert!(stable.lines().next().unwrap_or_default().contains("LOG-END-OFFSET(LSO)"), "{stable}");
    let open = stable.lines().find(|line| line.contains(&second.topic)).expect("its row");
    assert_eq!(open.split_whitespace().collect::<Vec<_>>()[2..], ["0", "1", "0", "-1"]);

    let none = Ottla::new(["lag", "-b", kafka.bootstrap_servers(), "--group", "no-such-group"]).run().expect_code(1);
    assert!(sentence(&none).contains("no-such-group"), "{}", none.stderr);
}

#[test]
fn a_range_that_was_read_is_committed_with_its_own_end() {
    let Some(kafka) = kafka_or_skip("a commit of explicit ranges") else { return };
    let made = Recipe::Txm.make(kafka);
    let ending = format!(r#"{{"{}":{{"0":8}}}}"#, made.topic);
    let args = ["--subscribe", &made.topic, "--ending-offsets", &ending, "--commit-group", "ranges"];
    for isolation in ["read_committed", "read_uncommitted"] {
        let option = format!("kafka.isolation.level={isolation}");
        let _ = read(kafka.bootstrap_servers(), &[&args[..], &["-X", &option]].concat()).run().expect_code(0);
        assert_eq!(table(kafka, "ranges"), [(0, 8, 12, 4)], "aborted records and markers are behind us");
        kafka.delete_group("ranges");
    }
    let _ = read(kafka.bootstrap_servers(), &args[..2]).run().expect_code(0);
    assert_eq!(kafka.group_table("ranges"), [], "no group, no commit");
}

#[test]
fn a_read_in_pieces_goes_on_where_its_group_is() {
    let Some(kafka) = kafka_or_skip("--min-partitions and --starting-offsets group") else { return };
    let topic = kafka.create_topic("pieces", 2, &[]);
    let produce =
        |from| kafka.produce(&Produce::generated(&topic, 40).partitions(2).values("v", from).codec(Codec::Lz4));
    let args = [
        "--subscribe",
        &topic,
        "--starting-offsets",
        "group",
        "--commit-group",
        "pieces",
        "--min-partitions",
        "4",
        "--json",
    ];
    produce(0);
    for (offset, ranges, records) in [(20, 4, 40), (40, 4, 40), (40, 0, 0)] {
        let finished = read(kafka.bootstrap_servers(), &args).run().expect_code(0);
        let totals = totals(&finished);
        assert_eq!((totals["ranges"].as_u64(), totals["records"].as_u64()), (Some(ranges), Some(records)));
        assert_eq!(finished.stderr.lines().count(), 1, "nothing to warn of: {}", finished.stderr);
        assert_eq!(table(kafka, "pieces"), [(0, offset, offset, 0), (1, offset, offset, 0)]);
        if offset == 20 {
            produce(40);
        }
    }
}

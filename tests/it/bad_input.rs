//! Wrong use and a wrong world: one sentence on stderr that names it, the documented exit code, in time, and nothing committed.

use std::time::{Duration, Instant};

use ottla_embedded::EmbeddedBroker;
use ottla_embedded::messages::ApiKey;
use ottla_protocol::compression::Compression;
use support::{Finished, KafkaCluster, Ottla, Produce, free_port, java_or_skip, kafka_or_skip};

use crate::common::{Embedded, Scripted, batch, condition, read, sentence};

/// A broker with the topic `t` of 2 partitions and 3 records.
fn small() -> Embedded {
    let broker = Embedded::start(EmbeddedBroker::builder());
    broker.create_topic("t", 2, &[]).unwrap();
    broker.append("t", 0, batch(Compression::None, ["a", "b", "c"])).unwrap();
    broker
}

#[test]
fn wrong_use_is_named_and_ends_with_2() {
    let broker = small();
    let bootstrap = broker.bootstrap_servers();
    let cases: &[(&[&str], &str)] = &[
        (&[], "One of the following options must be specified for Kafka source"),
        (&["--subscribe", "t", "--assign", r#"{"t":[0]}"#], "Only one of the following options"),
        (&["--subscribe", "t", "--nope"], "unexpected argument '--nope' found"),
        (&["--subscribe", "t", "--max-records", "x"], "invalid value 'x' for '--max-records <N>'"),
        (&["--subscribe", "t", "-X", "startingOfsets=earliest"], "did you mean 'startingOffsets'?"),
        (&["--subscribe", "t", "-X", "kafka.fetch.min.byte=1"], "did you mean 'fetch.min.bytes'?"),
        (&["--subscribe", "t", "-X", "startingOffsets"], "is not KEY=VALUE"),
        (&["--subscribe", "t", "--starting-offsets", r#"{"t":{"0":1"#], r#"{"t":{"0":1"#),
        (&["--subscribe", "t", "--starting-offsets", r#"{"t":[0]}"#], "Expected e.g."),
        (&["--subscribe", "t", "--starting-offsets", "1e3"], "1e3"),
        (&["--subscribe", "t", "--starting-offsets", r#"{"t":{"0":-3,"1":0}}"#], "-3"),
        (&["--subscribe", "t", "--starting-offsets", "latest"], "starting offset can't be latest"),
        (&["--subscribe", "t", "--ending-offsets", "earliest"], "ending offset can't be earliest"),
        (&["--assign", "{\"t\":0}"], "t"),
        (&["--assign", r#"{"t":[-1]}"#], "-1 is not a partition of 't'"),
        (
            &[
                "--subscribe",
                "t",
                "--starting-offsets",
                r#"{"t":{"0":3,"1":0}}"#,
                "--ending-offsets",
                r#"{"t":{"0":1,"1":0}}"#,
            ],
            "The specified start offset 3 is greater than the end offset 1 for topic t partition 0.",
        ),
        (
            &["--subscribe", "t", "--starting-timestamp", "9", "--ending-timestamp", "8"],
            "The specified start timestamp 9 is greater than the end timestamp 8.",
        ),
        (&["--subscribe", "t", "--starting-timestamp=-5"], "-5"),
        (&["--subscribe", "t", "--starting-timestamp", "-1"], "got -1"),
        (&["--subscribe", "t", "--max-records", "-1"], "invalid value '-1' for '--max-records <N>'"),
        (&["--subscribe", "t", "--starting-offsets", "earlist"], "the words earliest and latest"),
        (&["--subscribe", "t", "--min-partitions", "x"], "option 'minPartitions' must be a whole number"),
        (&["--subscribe", "t", "-X", "bootstrap-servers=h"], "did you mean 'kafka.bootstrap.servers'?"),
        (
            &["--subscribe", "t", "--commit-group", "g", "-X", "kafka.consumer.commit.groupid=h"],
            "--commit-group is 'g' and option 'kafka.consumer.commit.groupid' is 'h'",
        ),
        (
            &["--subscribe", "t", "-X", "kafka.enable.auto.commit=true"],
            "'enable.auto.commit' is not supported: offsets are committed only after",
        ),
        (&["--subscribe", "t", "-X", "kafka.auto.offset.reset=latest"], "'auto.offset.reset' is not supported"),
        (&["--subscribe", "t", "-X", "kafka.security.protocol=SSL"], "security.protocol"),
        (&["--subscribe", "t", "-X", "kafka.security.protocol=SASL_PLAINTEXT"], "security.protocol"),
        (
            &["--subscribe", "t", "-X", "kafka.ssl.truststore.location=/ca.pem"],
            "'ssl.truststore.location' is not supported yet",
        ),
        (&["--subscribe", "t", "-X", "kafka.sasl.jaas.config=secret"], "'sasl.jaas.config' is not supported yet"),
        (&["--subscribe", "t", "-X", "kafka.fetch.max.bytes=3000000000"], "'fetch.max.bytes' can't be '3000000000'"),
        (&["--subscribe", "t", "-X", "failOnDataLoss=maybe"], "maybe"),
        (&["--subscribe-pattern", "("], "not a regular expression"),
        (&["--subscribe", "t", "--commit-group", ""], "(--commit-group) is empty"),
        (&["--subscribe", "t", "--config", "/no/such/file.toml"], "/no/such/file.toml"),
    ];
    for (args, expected) in cases {
        let args = if args.contains(&"--commit-group") {
            args.to_vec()
        } else {
            [args, &["--commit-group", "g"][..]].concat()
        };
        let finished = read(&bootstrap, &args).run().expect_code(2);
        let said = sentence(&finished);
        assert!(said.contains(expected), "{args:?}: {said}");
        assert!(!said.contains("secret") && finished.stdout.is_empty(), "{said}");
        // The same as JSON.
        let finished = read(&bootstrap, &[&args[..], &["--json"]].concat()).run().expect_code(2);
        let (condition, error) = condition(&finished);
        assert!(!condition.is_empty() && error.replace('\n', " ").contains(expected), "{condition}: {error}");
    }
    let finished = read(&bootstrap, &["--subscribe", "t", "--starting-offsets", "group"]).run().expect_code(2);
    assert!(sentence(&finished).contains("no group is named"), "{}", finished.stderr);
    assert_eq!(broker.connections(1), 0, "all of it is found without a broker");
}

#[test]
fn conditions_are_sparks_where_it_has_one() {
    let broker = small();
    let run = |args: &[&str], code| {
        let args = [args, &["--json", "--commit-group", "g"]].concat();
        condition(&read(&broker.bootstrap_servers(), &args).run().expect_code(code)).0
    };
    let from_5 = r#"{"t":{"0":5,"1":0}}"#;
    let until_1 = r#"{"t":{"0":1,"1":0}}"#;
    let until_9 = r#"{"t":{"0":9,"1":0}}"#;
    assert_eq!(
        run(&["--subscribe", "t", "--starting-offsets", from_5, "--ending-offsets", until_1], 2),
        "START_OFFSET_GREATER_THAN_END_OFFSET"
    );
    assert_eq!(
        run(&["--subscribe", "t", "--starting-offsets", from_5], 3),
        "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"
    );
    assert_eq!(
        run(&["--subscribe", "t", "--ending-offsets", until_9], 3),
        "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"
    );
    assert_eq!(run(&["--subscribe", "nope"], 1), "UNKNOWN_TOPIC_OR_PARTITION");
    assert_eq!(run(&["--assign", r#"{"t":[0,7]}"#], 1), "UNKNOWN_TOPIC_OR_PARTITION");
    assert_eq!(run(&["--subscribe", "t", "--where", "value >"], 2), "USAGE");
    assert_eq!((broker.requests(ApiKey::OffsetCommit), broker.committed("g", "t", 0)), (0, None));
}

#[test]
fn a_bad_condition_shows_a_caret_at_the_place() {
    let cases = [
        ("value LIKE", "value LIKE".len()),
        ("vlaue = 'x'", 0),
        ("value = 'x' AND", "value = 'x' AND".len()),
        ("value = 'é' AND offset = 'x'", "value = 'é' AND ".chars().count()),
    ];
    for (expression, column) in cases {
        // No broker is needed to find that.
        let finished = read("127.0.0.1:1", &["--subscribe", "t", "--where", expression]).run().expect_code(2);
        let lines: Vec<&str> = finished.stderr.lines().collect();
        let [sentence, shown, caret] = lines[..] else { panic!("{}", finished.stderr) };
        assert!(sentence.starts_with("ottla: --where: "), "{sentence}");
        assert_eq!(shown, format!("  {expression}"));
        let at = caret.chars().position(|c| c == '^').expect("a caret") - 2;
        assert!(at >= column, "{}", finished.stderr);
        assert!(caret.trim() == "^" && (column > 0 || at == 0), "{}", finished.stderr);
    }
}

/// Runs a read that can't work and says how long it took.
#[track_caller]
fn fails(bootstrap: &str, args: &[&str]) -> (String, Duration, Finished) {
    // Building it is not part of what is timed.
    let _ = Ottla::path();
    let start = Instant::now();
    let args = [&["--subscribe", "t", "--commit-group", "g"], args].concat();
    let finished = read(bootstrap, &args).run().expect_code(1);
    assert!(finished.stdout.is_empty());
    (sentence(&finished), start.elapsed(), finished)
}

#[test]
fn nobody_listens() {
    let address = format!("127.0.0.1:{}", free_port());
    let (said, took, _) = fails(&address, &["-X", "kafka.default.api.timeout.ms=2000"]);
    assert!(said.contains(&format!("no broker of {address} could be reached within 2 s")), "{said}");
    assert!(
        said.contains("refused") && took >= Duration::from_secs(2) && took < Duration::from_secs(4),
        "{took:?}: {said}"
    );
    let servers = format!("{address},no-such-host.invalid:9092");
    let (said, ..) = fails(&servers, &["-X", "kafka.default.api.timeout.ms=1000"]);
    assert!(said.contains(&servers), "{said}");
    for command in [&["lag", "--group", "g"][..], &["topics"]] {
        let args = [command, &["-b", &address, "-X", "kafka.default.api.timeout.ms=500", "--json"]].concat();
        assert_eq!(condition(&Ottla::new(args).run().expect_code(1)).0, "NO_BROKER");
    }
}

#[test]
fn s_n10_other_protocols_are_recognised() {
    let cases: [(&'static [u8], &str); 6] = [
        // An alert: handshake failure, as a TLS port answers to plain text.
        (b"\x15\x03\x03\x00\x02\x02\x28", "TLS"),
        (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "HTTP"),
        (b"\xff\xff\xff\xff", "-1"),
        (b"\x7f\xff\xff\xff", "2147483647"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "length"),
        (b"", "closed right after the first request: is this a TLS or SASL port"),
    ];
    for (answer, hint) in cases {
        let server = Scripted::answering(answer);
        let (said, took, _) = fails(&server.address(), &["-X", "kafka.default.api.timeout.ms=1500"]);
        assert!(said.contains(hint) && said.contains(&server.address()), "{answer:?}: {said}");
        assert!(took < Duration::from_secs(4), "{answer:?} took {took:?}");
    }
}

#[test]
fn a_broker_that_keeps_silent_is_given_up_in_time() {
    let server = Scripted::start(|stream| {
        let _ = std::io::copy(stream, &mut std::io::sink());
    });
    let (said, took, _) = fails(&server.address(), &["-X", "kafka.default.api.timeout.ms=1500"]);
    assert!(said.contains(&server.address()) && took < Duration::from_secs(4), "{took:?}: {said}");
}

#[test]
fn unknown_topics_and_groups_on_a_real_broker() {
    let Some(kafka) = kafka_or_skip("errors of a real broker") else { return };
    let topic = kafka.create_topic("known", 1, &[]);
    let run = |args: &[&str], code| {
        let start = Instant::now();
        let args = [args, &["--commit-group", "bad-input"]].concat();
        let said = sentence(&read(kafka.bootstrap_servers(), &args).run().expect_code(code));
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        said
    };
    assert_eq!(run(&["--subscribe", "no-such-topic"], 1), "topic 'no-such-topic' does not exist");
    let assign = format!(r#"{{"{topic}":[3]}}"#);
    assert_eq!(run(&["--assign", &assign], 1), format!("partition {topic}-3 does not exist"));
    let beyond = format!(r#"{{"{topic}":{{"0":5}}}}"#);
    let said = run(&["--subscribe", &topic, "--ending-offsets", &beyond], 3);
    assert!(said.contains(&format!("{topic}-0: [0, 5) is gone, 5 offsets; the log holds [0, 0)")), "{said}");
    assert_eq!(kafka.group_table("bad-input"), []);
    assert!(!kafka.list_topics().contains(&"no-such-topic".to_owned()));
    let finished = Ottla::new(["topics", "-b", kafka.bootstrap_servers(), "no-such-topic"]).run().expect_code(1);
    assert_eq!(sentence(&finished), "topic 'no-such-topic' does not exist");
}

/// One broker for two cases: its second listener advertises a name that nobody knows, and it creates topics when asked to.
#[test]
fn s_n11_a_wrong_advertised_address_and_s_c05_no_topic_by_asking() {
    let Some(()) = java_or_skip("S-N11 and S-C05: advertised addresses and automatic creation") else { return };
    let listeners =
        "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port},ODD://127.0.0.1:{extra_port}";
    let kafka = KafkaCluster::builder()
        .property("listeners", listeners)
        .property("advertised.listeners", "PLAINTEXT://127.0.0.1:{port},ODD://no-such-host.invalid:9092")
        .property("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,ODD:PLAINTEXT")
        .property("auto.create.topics.enable", "true")
        .start();
    let topic = kafka.create_topic("behind", 1, &[]);
    kafka.produce(&Produce::generated(&topic, 3));
    s_n11_the_sentence_names_all_there_is_to_know(&kafka, &topic);
    s_c05_asking_for_a_topic_does_not_create_it(&kafka);
}

fn s_n11_the_sentence_names_all_there_is_to_know(kafka: &KafkaCluster, topic: &str) {
    let bootstrap = format!("127.0.0.1:{}", kafka.node(1).extra_port);
    let limit = "kafka.default.api.timeout.ms=2000";
    let listed = Ottla::new(["topics", "-b", &bootstrap, "-X", limit]).run().expect_code(0);
    let row = listed.lines().into_iter().find(|line| line.starts_with(topic)).expect("the topic is listed");
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), [topic, "0", "1", "0", "1", "1", "-", "-"]);
    assert!(listed.stderr.contains("ottla: warning: offsets are not known: "), "{}", listed.stderr);

    let start = Instant::now();
    let finished = read(&bootstrap, &["--subscribe", topic, "--commit-group", "g", "-X", limit]).run().expect_code(1);
    let said = sentence(&finished);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    for part in
        ["broker 1 at no-such-host.invalid:9092", &bootstrap, "the name 'no-such-host.invalid' can't be resolved: "]
    {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
}

fn s_c05_asking_for_a_topic_does_not_create_it(kafka: &KafkaCluster) {
    let finished = read(kafka.bootstrap_servers(), &["--subscribe", "typo"]).run().expect_code(1);
    assert_eq!(sentence(&finished), "topic 'typo' does not exist");
    let _ = Ottla::new(["topics", "-b", kafka.bootstrap_servers(), "typo"]).run().expect_code(1);
    assert!(!kafka.list_topics().contains(&"typo".to_owned()));
}

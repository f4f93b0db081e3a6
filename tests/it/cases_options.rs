//! Reported faults of other readers, area C: options as people write them, on a real broker. S-C05 is in `bad_input`.

use support::{Finished, KafkaCluster, Produce, kafka_or_skip};

use crate::common::{condition, offsets, read, rows, sentence};

#[track_caller]
fn run(kafka: &KafkaCluster, args: &[&str], code: i32) -> Finished {
    read(kafka.bootstrap_servers(), args).run().expect_code(code)
}

#[test]
fn s_c01_keywords_in_any_case_topics_as_written() {
    let Some(kafka) = kafka_or_skip("S-C01: a topic with capitals") else { return };
    let topic = kafka.create_topic("TopicA", 1, &[]);
    kafka.produce(&Produce::generated(&topic, 5));
    let from = format!(r#" {{"{topic}" : {{"0":3}}}} "#);
    let finished = run(kafka, &["--subscribe", &topic, "--starting-offsets", &from, "--ending-offsets", "LATEST"], 0);
    assert_eq!(offsets(&rows(&finished)), [3, 4]);
    let finished =
        run(kafka, &["--subscribe", &topic, "--starting-offsets", " Earliest ", "--ending-offsets", " lateST"], 0);
    assert_eq!(rows(&finished).len(), 5);
    let lower = topic.to_lowercase();
    assert_eq!(sentence(&run(kafka, &["--subscribe", &lower], 1)), format!("topic '{lower}' does not exist"));
    let from = format!(r#"{{"{lower}":{{"0":3}}}}"#);
    let said = sentence(&run(kafka, &["--subscribe", &topic, "--starting-offsets", &from], 1));
    assert!(said.ends_with(&format!("Specified: Set({lower}-0) Assigned: Set({topic}-0)")), "{said}");
}

#[test]
fn s_c02_offsets_for_some_partitions_only() {
    let Some(kafka) = kafka_or_skip("S-C02: offsets for some of the partitions") else { return };
    let t = kafka.create_topic("c02", 2, &[]);
    kafka.produce(&Produce::generated(&t, 10).partitions(2));
    let starting = |json: &str, code| {
        let json = json.replace('T', &t);
        let finished =
            run(kafka, &["--subscribe", &t, "--starting-offsets", &json, "--commit-group", "c02", "--json"], code);
        if code == 0 { (String::new(), rows(&finished).len().to_string()) } else { condition(&finished) }
    };
    for (json, specified) in [
        (r#"{"T":{"0":4}}"#, format!("Set({t}-0)")),
        (r#"{"T":{"0":4,"1":3,"9":0}}"#, format!("Set({t}-0, {t}-1, {t}-9)")),
    ] {
        let (name, said) = starting(json, 1);
        assert_eq!(name, "MISMATCHED_TOPIC_PARTITIONS");
        assert!(said.ends_with(&format!("Specified: {specified} Assigned: Set({t}-0, {t}-1)")), "{said}");
    }
    for (json, part) in [
        (r#"{"T":{"0":-3,"1":0}}"#, "-3"),
        (r#"{"T":{"0":-1,"1":0}}"#, "can't be latest"),
        (r#"{"T":{"x":1}}"#, "Expected e.g."),
        (r#"{"T":[0]}"#, "Expected e.g."),
        ("1e3", "Expected e.g."),
        (r#"{"T":{"0":1,"0":2,"1":0}}"#, "Expected e.g."),
        (r#"{"T":{"0":1.5,"1":0}}"#, "Expected e.g."),
        (r#"{"T":{"0":99999999999999999999,"1":0}}"#, "Expected e.g."),
    ] {
        let said = starting(json, 2).1;
        assert!(said.contains(part), "{json}: {said}");
    }
    assert_eq!(starting(r#"{"T":{"0":-2,"1":3}}"#, 0).1, "7");
    let ending = format!(r#"{{"{t}":{{"0":-1,"1":2}}}}"#);
    assert_eq!(rows(&run(kafka, &["--subscribe", &t, "--ending-offsets", &ending], 0)).len(), 7);
    let ending = format!(r#"{{"{t}":{{"0":-2,"1":2}}}}"#);
    let said = sentence(&run(kafka, &["--subscribe", &t, "--ending-offsets", &ending], 2));
    assert!(said.contains("can't be earliest"), "{said}");
}

#[test]
fn s_c03_a_topic_that_does_not_exist_is_named() {
    let Some(kafka) = kafka_or_skip("S-C03: a missing topic among others") else { return };
    let topic = kafka.create_topic("c03", 1, &[]);
    kafka.produce(&Produce::generated(&topic, 5));
    let start = std::time::Instant::now();
    let finished = run(kafka, &["--subscribe", &format!("{topic},c03-missing"), "--commit-group", "c03"], 1);
    assert_eq!(sentence(&finished), "topic 'c03-missing' does not exist");
    assert!(start.elapsed().as_secs() < 6 && finished.stdout.is_empty(), "{:?}", start.elapsed());
    assert_eq!(kafka.group_table("c03"), []);
}

#[test]
fn s_c04_patterns_are_searched_and_leave_internal_topics_out() {
    let Some(kafka) = kafka_or_skip("S-C04: patterns") else { return };
    for topic in ["c04orders", "c04orders-v2", "c04reorders"] {
        kafka.create_topic_named(topic, 1, &[]);
        kafka.produce(&Produce::generated(topic, 1).values(topic, 0));
    }
    // Makes __consumer_offsets exist.
    kafka.commit_group_offsets("c04", &[support::GroupOffset::new("c04orders", 0, 1)]);
    let topics = |pattern: &str| {
        let finished = run(kafka, &["--subscribe-pattern", pattern, "--format", "value"], 0);
        let mut lines = finished.lines();
        lines.sort();
        lines
    };
    assert_eq!(topics("c04.*orders"), ["c04orders-v20", "c04orders0", "c04reorders0"]);
    assert_eq!(topics("^c04orders$"), ["c04orders0"]);
    assert_eq!(topics("^_.*"), [""; 0]);
    for bad in ["(", "", " "] {
        let _ = sentence(&run(kafka, &["--subscribe-pattern", bad], 2));
    }
}

#[test]
fn s_c06_blanks_and_delimiters_in_a_topic_list() {
    let Some(kafka) = kafka_or_skip("S-C06: topic lists as people write them") else { return };
    let (a, b) = (kafka.create_topic("c06a", 1, &[]), kafka.create_topic("c06b", 1, &[]));
    kafka.produce(&Produce::generated(&a, 2));
    kafka.produce(&Produce::generated(&b, 3));
    let finished = run(kafka, &["--subscribe", &format!(" {a} , {b},,{a}")], 0);
    assert_eq!(rows(&finished).len(), 5, "each topic once");
    for (list, part) in
        [(",", "No topics to subscribe to"), ("a b", "a b"), ("a;b", "a;b"), ("", "No topics"), ("..", "..")]
    {
        let said = sentence(&run(kafka, &["--subscribe", list], 2));
        assert!(said.contains(part), "{said}");
    }
}

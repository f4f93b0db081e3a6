//! `show` and `validate`: every state, and the numbers of Kafka's own tool.

use support::{GroupOffset, Isolation, OffsetQuery, Produce, kafka_or_skip};

use super::{committed, file_url, json_rows, row, run, show, spark_checkpoint, topic};
use crate::common::{condition, sentence, totals};

#[test]
fn the_numbers_are_those_of_kafkas_own_tool() {
    let Some(kafka) = kafka_or_skip("ottla offsets show and Kafka's own tool") else { return };
    let topic = topic(kafka, "shown", 3, 100);
    kafka.commit_group_offsets("shown", &[0, 1, 2].map(|p| GroupOffset::new(&topic, p, i64::from(p) * 50)));
    let theirs: Vec<_> = kafka
        .group_table("shown")
        .iter()
        .map(|r| (i64::from(r.partition), r.current_offset, Some(0), r.log_end_offset, r.lag, "ok".to_owned()))
        .collect();
    assert_eq!(show(kafka, "group:shown"), theirs);
    let table = run(kafka, 0, &["show", "group:shown"]).lines();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&table[0]), ["TOPIC", "PARTITION", "STORED", "EARLIEST", "LATEST", "LAG", "STATE"]);
    assert_eq!(words(&table[2]), [topic.as_str(), "1", "50", "0", "100", "50", "ok"]);
    let finished = run(kafka, 0, &["validate", "group:shown"]);
    assert_eq!((finished.text(), finished.stderr), (String::new(), "3 partitions: 3 ok\n".to_owned()));
    // What lag shows is the same.
    let lag = support::Ottla::new(["lag", "-b", kafka.bootstrap_servers(), "--group", "shown"]).run().expect_code(0);
    assert_eq!(support::parse_group_table(&lag.text()), kafka.group_table("shown"));
}

#[test]
fn each_state_is_told_and_validate_ends_with_3() {
    let Some(kafka) = kafka_or_skip("the states of stored offsets") else { return };
    let topic = topic(kafka, "states", 4, 100);
    kafka.delete_records(&topic, 0, 60);
    let stored = [(0, 10), (1, 101), (2, 100)].map(|(p, offset)| GroupOffset::new(&topic, p, offset));
    kafka.commit_group_offsets("states", &stored);
    let missing = (3, None, Some(0), Some(100), None, "missing".to_owned());
    assert_eq!(
        show(kafka, "group:states"),
        [row(0, 10, 60, 100, "below log start"), row(1, 101, 0, 100, "beyond end"), row(2, 100, 0, 100, "ok"), missing]
    );
    let finished = run(kafka, 3, &["validate", "group:states"]);
    let states: Vec<String> =
        finished.lines()[1..].iter().map(|l| l.split_whitespace().last().unwrap().to_owned()).collect();
    assert_eq!(states, ["start", "end", "missing"]);
    assert_eq!(finished.stderr, "4 partitions: 1 ok, 1 missing, 1 below log start, 1 beyond end\n");
    let finished = run(kafka, 3, &["validate", "group:states", "--json"]);
    assert_eq!((json_rows(&finished).len(), totals(&finished)["states"]["beyond end"].as_i64()), (3, Some(1)));
    assert_eq!(totals(&finished)["valid"], false);
    // Another topic of the cluster: everything is missing, and nothing is wrong.
    let other = super::topic(kafka, "states-other", 2, 1);
    kafka.commit_group_offsets("states", &[GroupOffset::new(&other, 0, 1)]);
    let finished = run(kafka, 0, &["validate", "group:states", "--topic", &other]);
    assert_eq!(finished.stderr, "2 partitions: 1 ok, 1 missing\n");
    let finished = run(kafka, 1, &["show", "group:states", "--topic", "no-such-topic"]);
    assert_eq!(sentence(&finished), "topic 'no-such-topic' does not exist");
}

#[test]
fn a_topic_that_was_created_again_is_recognised_by_its_id() {
    let Some(kafka) = kafka_or_skip("offsets of a recreated topic") else { return };
    let topic = topic(kafka, "again", 1, 50);
    let directory = tempfile::tempdir().unwrap();
    let file = file_url(&directory, "again.json");
    let _ = run(kafka, 0, &["set", &file, "--to", "latest", "--topic", &topic]);
    assert_eq!(show(kafka, &file), [row(0, 50, 0, 50, "ok")]);
    let spark = spark_checkpoint(&topic);
    let checkpoint = super::checkpoint_url(&spark);
    kafka.delete_topic(&topic);
    let gone = |partition| (partition, None, None, "gone".to_owned());
    let states = |store: &str| -> Vec<_> {
        show(kafka, store).into_iter().map(|(p, _, earliest, latest, _, state)| (p, earliest, latest, state)).collect()
    };
    // Its id is another than that of no topic at all.
    assert_eq!(states(&file), [gone(0)]);
    assert_eq!(states(&checkpoint), [gone(0), gone(1)]);
    let _ = run(kafka, 3, &["validate", &checkpoint]);
    let finished = run(kafka, 1, &["set", &file, "--to", "earliest"]);
    assert!(finished.stderr.contains(&format!("{topic}-0 is left out: gone")), "{}", finished.stderr);
    // It has grown past what is stored: only the id tells.
    kafka.create_topic_named(&topic, 1, &[]);
    kafka.produce(&Produce::generated(&topic, 80));
    let (partition, stored, _, latest, lag, state) = show(kafka, &file).remove(0);
    assert_eq!((partition, stored, latest, lag, state.as_str()), (0, Some(50), Some(80), None, "topic recreated"));
    let _ = run(kafka, 3, &["validate", &file]);
    // Copied, it would be an offset of the new one.
    let finished = run(kafka, 1, &["copy", &file, "group:again"]);
    assert!(finished.stderr.contains(&format!("{topic}-0 is left out: topic recreated")), "{}", finished.stderr);
    assert_eq!(committed(kafka, "again"), []);
    // Set anew, it is.
    let finished = run(kafka, 0, &["set", &file, "--to", "earliest"]);
    assert!(finished.lines()[1].ends_with("50   0  topic recreated"), "{}", finished.text());
    assert_eq!(show(kafka, &file), [row(0, 0, 0, 80, "ok")]);
}

#[test]
fn read_committed_shows_the_last_stable_offset() {
    let Some(kafka) = kafka_or_skip("the last stable offset in ottla offsets show") else { return };
    let topic = topic(kafka, "stable", 1, 10);
    let transaction = kafka.transaction("offsets-stable", &[]);
    transaction.begin();
    let _ = transaction.send_values(&topic, ["open"; 5]);
    kafka.await_ends(&topic, 15, 10);
    kafka.commit_group_offsets("stable", &[GroupOffset::new(&topic, 0, 12)]);
    assert_eq!(show(kafka, "group:stable"), [row(0, 12, 0, 15, "ok")]);
    let args = ["show", "group:stable", "-X", "kafka.isolation.level=read_committed"];
    let table = run(kafka, 0, &args).lines();
    assert!(table[0].contains("LATEST(LSO)"), "{}", table[0]);
    // Beyond the stable end, and not beyond the log's.
    assert!(table[1].ends_with("12         0           10   -2  ok"), "{}", table[1]);
    assert_eq!(kafka.list_offsets(&topic, OffsetQuery::Latest, Isolation::ReadCommitted)[0].offset, 10);
    transaction.abort();
}

#[test]
fn a_store_that_holds_nothing_or_is_not_there_is_an_error() {
    let Some(kafka) = kafka_or_skip("stores that hold nothing") else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = file_url(&directory, "none.json");
    let checkpoint = format!("checkpoint:{}", directory.path().join("none").display());
    for (store, expected) in [
        ("group:nobody", "STORE_WITHOUT_OFFSETS"),
        (file.as_str(), "STORE_WITHOUT_OFFSETS"),
        (checkpoint.as_str(), "CHECKPOINT_NOT_THERE"),
    ] {
        for command in ["show", "validate"] {
            let finished = run(kafka, 1, &[command, store, "--json"]);
            assert_eq!(condition(&finished).0, expected, "{store}");
        }
    }
    std::fs::write(directory.path().join("none.json"), "{").unwrap();
    assert_eq!(condition(&run(kafka, 1, &["show", &file, "--json"])).0, "OFFSETS_FILE_DAMAGED");
    for wrong in ["group:", "nowhere", "zookeeper://h?group=a/b", "checkpoint:s3a://x/y", "checkpoint:x?source=-1"] {
        let _ = run(kafka, 2, &["show", wrong]);
    }
}

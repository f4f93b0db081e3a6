//! `set`: every target, what must be forced, and that nothing is half done.

use ottla_embedded::EmbeddedBroker;
use ottla_embedded::messages::ApiKey;
use support::{GroupOffset, Ottla, Produce, kafka_or_skip};

use super::{committed, file_url, json_rows, run, spark_checkpoint, topic};
use crate::common::{Embedded, condition, offsets_json, sentence};

#[test]
fn every_target() {
    let Some(kafka) = kafka_or_skip("ottla offsets set") else { return };
    let topic = kafka.create_topic("set", 2, &[]);
    kafka.produce(&Produce::generated(&topic, 200).partitions(2).timestamps(1_700_000_000_000, 1));
    kafka.delete_records(&topic, 0, 10);
    let to = |target: &str, more: &[&str], code: i32| {
        let args = ["set", "group:set", "--to", target];
        let finished = run(kafka, code, &[&args[..], more].concat());
        (committed(kafka, "set"), finished)
    };
    // An empty group names no topic.
    let (stored, finished) = to("latest", &[], 1);
    assert!(stored.is_empty() && sentence(&finished).contains("--topic"), "{}", finished.stderr);
    let (stored, finished) = to("latest", &["--topic", &topic], 0);
    assert_eq!(stored, [(0, 100), (1, 100)]);
    assert!(finished.lines()[1].ends_with("0     -  100  new"), "{}", finished.text());
    assert_eq!(finished.stderr, "2 partitions set in group 'set'\n");
    let metadata = &kafka.group_offsets("set")[0].metadata;
    assert!(metadata.starts_with("ottla/1 query=") && metadata.contains(&kafka.topic_id(&topic)), "{metadata}");

    // Backwards needs --force, and is refused as a whole.
    let (stored, finished) = to("earliest", &[], 2);
    assert_eq!(stored, [(0, 100), (1, 100)]);
    let said = finished.stderr.lines().last().unwrap();
    assert!(
        said.contains(&format!("{topic}-0 would go back from 100 to 10, {topic}-1 would go back from 100 to 0")),
        "{said}"
    );
    assert!(said.contains("--force"), "{said}");
    let changes: Vec<_> =
        finished.lines()[1..].iter().map(|l| l.split_whitespace().last().unwrap().to_owned()).collect();
    assert_eq!(changes, ["-90", "-100"]);
    let (stored, _) = to("earliest", &["--force", "--dry-run"], 0);
    assert_eq!(stored, [(0, 100), (1, 100)], "a dry run changes nothing");
    assert_eq!(to("earliest", &["--force"], 0).0, [(0, 10), (1, 0)]);

    // Records of both partitions alternate, a millisecond apart.
    assert_eq!(to("timestamp:1700000000150", &[], 0).0, [(0, 75), (1, 75)]);
    let (stored, finished) = to("timestamp:1700000009999", &[], 1);
    assert_eq!((stored, finished.stdout.len()), (vec![(0, 75), (1, 75)], 0));
    let said = sentence(&finished);
    assert!(
        said.contains(&format!("{topic}-0, {topic}-1")) && said.contains("startingOffsetsByTimestampStrategy"),
        "{said}"
    );
    let latest = ["-X", "startingOffsetsByTimestampStrategy=latest"];
    assert_eq!(to("timestamp:1700000009999", &latest, 0).0, [(0, 100), (1, 100)]);

    // JSON: only what it names, and -1 and -2 as in options.
    assert_eq!(to(&offsets_json(&topic, &[(1, 40)]), &["--force"], 0).0, [(0, 100), (1, 40)]);
    assert_eq!(to(&offsets_json(&topic, &[(0, -2), (1, -1)]), &["--force"], 0).0, [(0, 10), (1, 100)]);
    // Beyond the end: both numbers are named, and the other partition stays as it is.
    let (stored, finished) = to(&offsets_json(&topic, &[(0, 20), (1, 101)]), &["--json"], 2);
    assert_eq!(stored, [(0, 10), (1, 100)]);
    let (condition, said) = condition(&finished);
    assert_eq!(condition, "OFFSET_BEYOND_END");
    assert!(said.contains(&format!("{topic}-1: offset 101 lies beyond the end of the log, 100")), "{said}");
    assert_eq!(json_rows(&finished)[1]["needsForce"], true);
    assert_eq!(to(&offsets_json(&topic, &[(0, 20), (1, 101)]), &["--force"], 0).0, [(0, 20), (1, 101)]);
    let (_, finished) = to(&offsets_json(&topic, &[(2, 0)]), &[], 1);
    assert!(sentence(&finished).contains(&format!("partition {topic}-2 does not exist")), "{}", finished.stderr);
    // Below the log start is no mistake, and told.
    let (stored, finished) = to(&offsets_json(&topic, &[(0, 4)]), &["--force"], 0);
    assert!(
        finished.stderr.contains("offset 4 lies before the log start, 10: 6 offsets are gone"),
        "{}",
        finished.stderr
    );
    assert_eq!(stored, [(0, 4), (1, 101)]);

    // From another store.
    let spark = spark_checkpoint(&topic);
    let (stored, _) = to(&super::checkpoint_url(&spark), &["--force"], 0);
    assert_eq!(stored, [(0, 60), (1, 30)]);
}

#[test]
fn s_o01_a_negative_number_is_refused_before_anybody_is_asked() {
    let broker = Embedded::start(EmbeddedBroker::builder());
    broker.create_topic("t", 1, &[]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    for store in ["group:g".to_owned(), file_url(&directory, "o.json")] {
        for bad in [-3, -1001, i64::MIN] {
            let to = offsets_json("t", &[(0, bad)]);
            let args = ["offsets", "set", &store, "--to", &to, "-b", &broker.bootstrap_servers()];
            let finished = Ottla::new(args).run().expect_code(2);
            assert!(sentence(&finished).contains(&bad.to_string()), "{}", finished.stderr);
        }
    }
    assert_eq!(broker.requests(ApiKey::Metadata), 0, "nothing was sent");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn s_o11_a_group_with_live_members_is_one_clear_error() {
    let Some(kafka) = kafka_or_skip("S-O11: ottla offsets set of a live group") else { return };
    let topic = topic(kafka, "alive", 1, 10);
    let member = kafka.join_group("alive", &topic, &[]);
    let args = ["set", "group:alive", "--to", "latest", "--topic", &topic];
    let finished = run(kafka, 1, &args);
    assert!(finished.stderr.lines().last().unwrap().contains("the group has active members"), "{}", finished.stderr);
    drop(member);
    crate::common::wait_until("the member has left", std::time::Duration::from_secs(30), || {
        kafka.describe_group("alive").1 == 0
    });
    let _ = run(kafka, 0, &args);
    assert_eq!(committed(kafka, "alive"), [(0, 10)]);
}

#[test]
fn what_others_committed_without_a_word_is_moved_like_our_own() {
    let Some(kafka) = kafka_or_skip("ottla offsets set after others") else { return };
    let topic = topic(kafka, "others", 2, 10);
    kafka.commit_group_offsets(
        "others",
        &[GroupOffset::new(&topic, 0, 0), GroupOffset::new(&topic, 1, 1_000_000_000_000)],
    );
    // S-O06: what is committed lies beyond the end; back to the end is backwards.
    let finished = run(kafka, 2, &["set", "group:others", "--to", "latest", "--json"]);
    assert_eq!(condition(&finished).0, "OFFSET_MOVES_BACK");
    let _ = run(kafka, 0, &["set", "group:others", "--to", "latest", "--force"]);
    assert_eq!(committed(kafka, "others"), [(0, 10), (1, 10)]);
    let _ = run(kafka, 2, &["set", "checkpoint:x", "--to", "latest"]);
    let _ = run(kafka, 2, &["set", "group:others", "--to", "sometime"]);
}

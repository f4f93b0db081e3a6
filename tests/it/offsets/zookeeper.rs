//! ZooKeeper as one side of `ottla offsets`.

use std::fs;
use std::time::Duration;

use support::{Signal, ZooKeeper, kafka_or_skip};

use super::{checkpoint_url, committed, offsets, row, run, show, spark_checkpoint, topic};
use crate::common::{offsets_json, wait_until};

/// What ZooKeeper's own shell says a node holds.
fn node(server: &ZooKeeper, path: &str) -> String {
    let text = server.shell(&["get", path]).expect_code(0).text();
    text.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn offsets_in_zookeeper_are_shown_set_and_migrated() {
    let Some(kafka) = kafka_or_skip("ottla offsets and ZooKeeper") else { return };
    let server = ZooKeeper::start();
    let topic = topic(kafka, "zookeeper", 2, 100);
    let store = format!("zookeeper://{}/old/kafka?group=job", server.connect_string());
    let path = |partition: i32| format!("/old/kafka/consumers/job/offsets/{topic}/{partition}");
    let _ = run(kafka, 1, &["show", &store]);
    let _ = run(kafka, 0, &["set", &store, "--to", &offsets_json(&topic, &[(0, 40), (1, 70)])]);
    assert_eq!((node(&server, &path(0)), node(&server, &path(1))), ("40".to_owned(), "70".to_owned()));
    assert_eq!(show(kafka, &store), [row(0, 40, 0, 100, "ok"), row(1, 70, 0, 100, "ok")]);
    let _ = run(kafka, 0, &["validate", &store]);

    // Into a group, where tools see it.
    let _ = run(kafka, 0, &["copy", &store, "group:from-zookeeper"]);
    let lags: Vec<_> = kafka.group_table("from-zookeeper").iter().map(|r| (r.current_offset, r.lag)).collect();
    assert_eq!(lags, [(Some(40), Some(60)), (Some(70), Some(30))]);

    // Retention took what was to be read next.
    kafka.delete_records(&topic, 0, 60);
    let finished = run(kafka, 3, &["validate", &store]);
    assert_eq!(finished.stderr, "2 partitions: 1 ok, 1 below log start\n");
    let finished = run(kafka, 2, &["set", &store, "--to", "earliest"]);
    assert!(finished.stderr.contains(&format!("{topic}-1 would go back from 70 to 0")), "{}", finished.stderr);
    assert_eq!(node(&server, &path(0)), "40", "all or nothing");
    let _ = run(kafka, 0, &["set", &store, "--to", &offsets_json(&topic, &[(0, -2)])]);
    assert_eq!(show(kafka, &store), [row(0, 60, 60, 100, "ok"), row(1, 70, 0, 100, "ok")]);
    let _ = run(kafka, 0, &["copy", "group:from-zookeeper", &store, "--force"]);
    assert_eq!(node(&server, &path(0)), "40");

    // What is no number is never taken for one, or for none.
    let _ = server.shell(&["set", &path(1), "abc"]).expect_code(0);
    let finished = run(kafka, 1, &["show", &store]);
    assert!(finished.stderr.contains(&path(1)) && finished.stderr.contains("abc"), "{}", finished.stderr);
    let _ = run(kafka, 1, &["copy", &store, "group:from-zookeeper", "--force"]);
    assert_eq!(committed(kafka, "from-zookeeper"), [(0, 40), (1, 70)]);
}

#[test]
fn a_checkpoint_is_followed_into_zookeeper_through_its_restart() {
    let Some(kafka) = kafka_or_skip("following into ZooKeeper") else { return };
    let mut server = ZooKeeper::start();
    let topic = topic(kafka, "into-zookeeper", 2, 100);
    let spark = spark_checkpoint(&topic);
    let store = format!("zookeeper://{}?group=job", server.connect_string());
    let args = ["follow", &checkpoint_url(&spark), &store, "-X", "ottla.zookeeper.timeout.ms=5000"];
    let following = offsets(kafka, &args).timeout(Duration::from_secs(120)).spawn();
    following.await_stderr("batch 6: 2 partitions committed");
    assert_eq!(show(kafka, &store), [row(0, 60, 0, 100, "ok"), row(1, 30, 0, 100, "ok")]);
    server.kill();
    let write = |name: &str, text: &str| fs::write(spark.path().join(name), text).expect("written");
    write("offsets/7", &format!("v1\n\n{}", offsets_json(&topic, &[(0, 70), (1, 40)])));
    write("commits/7", "v1\n{}");
    following.await_stderr("it will be tried again");
    server.start_again();
    following.await_stderr("batch 7: 2 partitions committed");
    following.signal(Signal::Terminate);
    let _ = following.wait().expect_code(0);
    wait_until("the offsets are there", Duration::from_secs(10), || {
        show(kafka, &store) == [row(0, 70, 0, 100, "ok"), row(1, 40, 0, 100, "ok")]
    });
}

//! `follow`: a running query's checkpoint, watched from outside.

use std::fs;
use std::path::Path;
use std::time::Duration;

use support::{GroupOffset, KafkaCluster, Ottla, RunningOttla, Signal, java_or_skip, kafka_or_skip};
use tempfile::TempDir;

use super::{checkpoint_url, committed, file_url, offsets, produce, row, run, show, spark_checkpoint, topic};
use crate::common::{condition, sentence, wait_until};

const LIMIT: Duration = Duration::from_secs(30);

fn follow(kafka: &KafkaCluster, from: &str, to: &str, more: &[&str]) -> RunningOttla {
    offsets(kafka, &[&["follow", from, to], more].concat()).timeout(Duration::from_secs(120)).spawn()
}

/// Waits until Kafka's own client sees these offsets.
#[track_caller]
fn await_committed(kafka: &KafkaCluster, group: &str, expected: &[(i32, i64)]) {
    wait_until(&format!("{expected:?} in {group}"), LIMIT, || committed(kafka, group) == expected);
}

/// Kafka's own tool shows so many partitions, none of them with a lag.
#[track_caller]
fn await_no_lag(kafka: &KafkaCluster, group: &str, partitions: usize) {
    wait_until("no lag in Kafka's own tool", LIMIT, || {
        let table = kafka.group_table(group);
        table.len() == partitions && table.iter().all(|row| row.lag == Some(0))
    });
}

/// A query that writes a checkpoint, and commits nothing.
fn query(kafka: &KafkaCluster, topic: &str, directory: &Path) -> RunningOttla {
    let location = directory.display().to_string();
    let args = ["run", "-b", kafka.bootstrap_servers(), "--subscribe", topic, "--sink", "null:"];
    let more = ["--starting-offsets", "earliest", "--trigger", "100ms", "--checkpoint", &location];
    Ottla::new(args.iter().chain(&more)).timeout(Duration::from_secs(120)).spawn()
}

/// Writes a batch as Spark does: the file appears whole under its name. `sources` are the lines of its offsets.
fn plan(directory: &Path, batch_id: i64, sources: &[String]) {
    appear(&directory.join("offsets").join(batch_id.to_string()), &format!("v1\n\n{}", sources.join("\n")));
}

fn finish(directory: &Path, batch_id: i64) {
    appear(&directory.join("commits").join(batch_id.to_string()), "v1\n{\"nextBatchWatermarkMs\":0}");
}

fn appear(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    let temporary = path.with_file_name(".new.tmp");
    fs::write(&temporary, text).expect("written");
    fs::rename(&temporary, path).expect("renamed");
}

/// A checkpoint without a batch.
fn new_checkpoint() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    appear(&directory.path().join("metadata"), "{\"id\":\"11111111-2222-4333-8444-555555555555\"}");
    directory
}

fn line(topic: &str, offsets: &[(i32, i64)]) -> String {
    crate::common::offsets_json(topic, offsets)
}

#[test]
fn s_s11_a_running_query_is_followed_through_kills_of_either_side() {
    let Some(kafka) = kafka_or_skip("following a running query") else { return };
    let topic = topic(kafka, "followed", 3, 10);
    // A partition without data shows, too.
    kafka.add_partitions(&topic, 4);
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("not/there/yet");
    let from = format!("checkpoint:{}", place.display());
    let following = follow(kafka, &from, "group:followed", &[]);
    following.await_stderr("the checkpoint is not there yet");
    let running = query(kafka, &topic, &place);
    following.await_stderr("committed to group 'followed'");
    await_no_lag(kafka, "followed", 4);
    assert_eq!(committed(kafka, "followed"), [(0, 10), (1, 10), (2, 10), (3, 0)]);
    let id: serde_json::Value = serde_json::from_slice(&fs::read(place.join("metadata")).unwrap()).unwrap();
    let metadata = &kafka.group_offsets("followed")[0].metadata;
    let expected = format!("query={} topic_id={}", id["id"].as_str().unwrap(), kafka.topic_id(&topic));
    assert!(metadata.starts_with("ottla/1 batch=") && metadata.ends_with(&expected), "{metadata}");

    following.signal(Signal::Kill);
    assert_eq!(following.wait().signal, Some(9));
    produce(kafka, &topic, 3, 5);
    let following = follow(kafka, &from, "group:followed", &["--json"]);
    await_no_lag(kafka, "followed", 4);
    running.signal(Signal::Kill);
    assert_eq!(running.wait().signal, Some(9));
    produce(kafka, &topic, 3, 5);
    let running = query(kafka, &topic, &place);
    await_no_lag(kafka, "followed", 4);
    running.signal(Signal::Terminate);
    let _ = running.wait().expect_code(0);
    following.signal(Signal::Terminate);
    let finished = following.wait().expect_code(0);
    let lines: Vec<serde_json::Value> =
        finished.stderr.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect();
    let ids: Vec<i64> = lines.iter().map(|l| l["batchId"].as_i64().expect("a batch")).collect();
    assert!(ids.len() >= 2 && ids.is_sorted(), "{ids:?}");
    assert_eq!(lines[lines.len() - 1]["committed"][&topic], serde_json::json!({"0": 20, "1": 20, "2": 20, "3": 0}));
}

#[test]
fn what_is_done_and_nothing_else_while_files_come_and_go() {
    let Some(kafka) = kafka_or_skip("following files that are being written and purged") else { return };
    let topic = topic(kafka, "files", 1, 200);
    let checkpoint = new_checkpoint();
    let directory = checkpoint.path();
    let batch = |offset: i64| [line(&topic, &[(0, offset)])];
    let following = follow(kafka, &checkpoint_url(&checkpoint), "group:files", &[]);
    plan(directory, 0, &batch(1));
    finish(directory, 0);
    await_committed(kafka, "files", &[(0, 1)]);
    // Planned, and with half of a commit: neither is done.
    plan(directory, 1, &batch(2));
    fs::write(directory.join("commits/1"), "v1\n{\"nextBatch").unwrap();
    fs::write(directory.join("commits/.1.00000000-0000-4000-8000-000000000000.tmp"), "v1\n{}").unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(committed(kafka, "files"), [(0, 1)]);
    finish(directory, 1);
    await_committed(kafka, "files", &[(0, 2)]);
    // Batch after batch, the old ones deleted as Spark deletes them: offsets and commits at different times.
    for batch_id in 2..150 {
        plan(directory, batch_id, &batch(batch_id + 1));
        let old = (batch_id - 100).to_string();
        let _ = fs::remove_file(directory.join("offsets").join(&old));
        finish(directory, batch_id);
        let _ = fs::remove_file(directory.join("commits").join(&old));
        std::thread::sleep(Duration::from_millis(10));
    }
    await_committed(kafka, "files", &[(0, 150)]);
    // Everything but the newest one is gone.
    for batch_id in 0..149 {
        let _ = fs::remove_file(directory.join("offsets").join(batch_id.to_string()));
        let _ = fs::remove_file(directory.join("commits").join(batch_id.to_string()));
    }
    // S-S12: a batch that was done just before the signal is committed, too.
    plan(directory, 150, &batch(160));
    finish(directory, 150);
    following.signal(Signal::Interrupt);
    let finished = following.wait().expect_code(130);
    assert_eq!(committed(kafka, "files"), [(0, 160)]);
    assert!(!finished.stderr.contains("warning"), "{}", finished.stderr);
    assert!(finished.stderr.ends_with("batch 150: 1 partition committed to group 'files'\n"), "{}", finished.stderr);
}

/// A query purges its own checkpoint from batch 101 on.
#[test]
fn a_query_of_more_batches_than_its_checkpoint_keeps() {
    let Some(kafka) = kafka_or_skip("following a query that purges its checkpoint") else { return };
    let topic = topic(kafka, "purged", 1, 120);
    let directory = tempfile::tempdir().unwrap();
    let location = directory.path().display().to_string();
    let following = follow(kafka, &checkpoint_url(&directory), "group:purged", &[]);
    let args = [
        "run",
        "-b",
        kafka.bootstrap_servers(),
        "--subscribe",
        &topic,
        "--sink",
        "null:",
        "--trigger",
        "available-now",
    ];
    let more = ["--starting-offsets", "earliest", "--max-offsets-per-trigger", "1", "--checkpoint", &location];
    let _ = Ottla::new(args.iter().chain(&more)).run().expect_code(0);
    await_no_lag(kafka, "purged", 1);
    let kept = fs::read_dir(directory.path().join("commits")).unwrap().count();
    assert!((100..=102).contains(&kept), "{kept} batches are kept of 120");
    following.signal(Signal::Terminate);
    let finished = following.wait().expect_code(0);
    let warnings: Vec<&str> =
        finished.stderr.lines().filter(|l| l.contains("warning") && !l.contains("not there yet")).collect();
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn s_s10_a_union_into_one_group_or_each_source_into_its_own() {
    let Some(kafka) = kafka_or_skip("following a union") else { return };
    let [one, two] = ["union-one", "union-two"].map(|prefix| topic(kafka, prefix, 2, 10));
    let directory = tempfile::tempdir().unwrap();
    let (place, config) = (directory.path().join("ck"), directory.path().join("union.toml"));
    let text = format!(
        "startingOffsets = \"earliest\"\n[[source]]\nsubscribe = \"{one}\"\n[[source]]\nsubscribe = \"{two}\"\n"
    );
    fs::write(&config, text).unwrap();
    let (place, config) = (place.display().to_string(), config.display().to_string());
    let (first, second) = (format!("checkpoint:{place}?source=0"), format!("checkpoint:{place}?source=1"));
    let followers = [
        follow(kafka, &format!("checkpoint:{place}"), "group:union", &[]),
        follow(kafka, &first, "group:union-g1", &[]),
        follow(kafka, &second, "group:union-g2", &[]),
    ];
    let args = ["run", "-b", kafka.bootstrap_servers(), "--config", &config, "--sink", "null:"];
    let more = ["--trigger", "available-now", "--checkpoint", &place];
    let batch = || drop(Ottla::new(args.iter().chain(&more)).run().expect_code(0));
    let sums = |group: &str, topic: &str| -> Vec<i64> {
        kafka.group_offsets(group).iter().filter(|o| o.topic == topic).map(|o| o.offset).collect()
    };
    for (grown, ends) in [(None, [10, 10]), (Some(&two), [10, 15]), (Some(&one), [15, 15])] {
        if let Some(topic) = grown {
            produce(kafka, topic, 2, 5);
        }
        batch();
        await_no_lag(kafka, "union", 4);
        await_no_lag(kafka, "union-g1", 2);
        await_no_lag(kafka, "union-g2", 2);
        assert_eq!((sums("union-g1", &one), sums("union-g1", &two)), (vec![ends[0]; 2], vec![]));
        assert_eq!((sums("union-g2", &one), sums("union-g2", &two)), (vec![], vec![ends[1]; 2]));
        assert_eq!((sums("union", &one), sums("union", &two)), (vec![ends[0]; 2], vec![ends[1]; 2]));
    }
    for following in followers {
        following.signal(Signal::Terminate);
        let _ = following.wait().expect_code(0);
    }
    // Which source is shown, or copied, must be said.
    let finished = run(kafka, 2, &["show", &format!("checkpoint:{place}")]);
    assert!(sentence(&finished).contains("2 sources: name one as ?source=N"), "{}", finished.stderr);
    let finished = run(kafka, 2, &["copy", &format!("checkpoint:{place}?source=2"), "group:union"]);
    assert!(sentence(&finished).contains("no source 2"), "{}", finished.stderr);
    // Two sources of the same partitions have no common offset.
    let shared = new_checkpoint();
    plan(shared.path(), 0, &[line(&one, &[(0, 1)]), line(&one, &[(0, 2)])]);
    finish(shared.path(), 0);
    let finished = run(kafka, 2, &["follow", &checkpoint_url(&shared), "group:union", "--json"]);
    assert_eq!(condition(&finished).0, "SOURCES_SHARE_PARTITIONS");
}

#[test]
fn nothing_moves_back_and_what_can_not_be_committed_is_told() {
    let Some(kafka) = kafka_or_skip("following into a group that is further") else { return };
    let topic = topic(kafka, "further", 3, 100);
    let spark = spark_checkpoint(&topic);
    let from = checkpoint_url(&spark);
    kafka.commit_group_offsets("further", &[GroupOffset::new(&topic, 0, 80)]);
    let dry = run(kafka, 0, &["follow", &from, "group:further", "--dry-run", "--force"]);
    assert!(dry.lines()[1].ends_with("80  60  -20"), "{}", dry.text());
    let following = follow(kafka, &from, "group:further", &[]);
    await_committed(kafka, "further", &[(0, 80), (1, 30)]);
    following.await_stderr(&format!("group 'further' is further already in {topic}-0 and stays there"));
    // Nor beyond the end.
    plan(spark.path(), 7, &[line(&topic, &[(0, 90), (1, 101)])]);
    finish(spark.path(), 7);
    await_committed(kafka, "further", &[(0, 90), (1, 30)]);
    following.await_stderr(&format!("{topic}-1 is not committed: it lies beyond the end of the log"));
    following.signal(Signal::Terminate);
    let _ = following.wait().expect_code(0);
    plan(spark.path(), 8, &[line(&topic, &[(0, 50), (1, 50)])]);
    finish(spark.path(), 8);
    let following = follow(kafka, &from, "group:further", &["--force"]);
    await_committed(kafka, "further", &[(0, 50), (1, 50)]);

    // S-O04: the topic is created again; what was committed of the old one is not committed to the new one.
    following.signal(Signal::Terminate);
    let _ = following.wait().expect_code(0);
    let following = follow(kafka, &from, "group:further", &["-X", "ottla.recommitInterval=1s"]);
    following.await_stderr("committed again");
    kafka.delete_topic(&topic);
    wait_until("the topic is gone", LIMIT, || !kafka.list_topics().contains(&topic));
    kafka.create_topic_named(&topic, 3, &[]);
    produce(kafka, &topic, 3, 60);
    following.await_stderr(&format!("{topic}-0 is not committed: topic recreated"));
    assert_eq!(committed(kafka, "further"), []);
    following.signal(Signal::Terminate);
    let _ = following.wait().expect_code(0);
}

#[test]
fn an_offsets_file_that_is_followed_into_is_written_by_nobody_else() {
    let Some(kafka) = kafka_or_skip("following into an offsets file") else { return };
    let topic = topic(kafka, "into-file", 2, 100);
    let spark = spark_checkpoint(&topic);
    let file = file_url(&spark, "followed.json");
    let following = follow(kafka, &checkpoint_url(&spark), &file, &[]);
    following.await_stderr("batch 6: 2 partitions committed");
    assert_eq!(show(kafka, &file), [row(0, 60, 0, 100, "ok"), row(1, 30, 0, 100, "ok")]);
    let set = ["set", &file, "--to", "latest", "--json"];
    assert_eq!(condition(&run(kafka, 1, &set)).0, "OFFSETS_FILE_LOCKED");
    plan(spark.path(), 7, &[line(&topic, &[(0, 61), (1, 31)])]);
    finish(spark.path(), 7);
    following.await_stderr("batch 7: 2 partitions committed");
    following.signal(Signal::Kill);
    assert_eq!(following.wait().signal, Some(9));
    // The system has let go of the lock.
    let _ = run(kafka, 0, &set);
    assert_eq!(show(kafka, &file), [row(0, 100, 0, 100, "ok"), row(1, 100, 0, 100, "ok")]);
    // Behind now, and not moved back.
    let following = follow(kafka, &checkpoint_url(&spark), &file, &[]);
    following.await_stderr("is further already");
    following.signal(Signal::Terminate);
    let _ = following.wait().expect_code(0);
    assert_eq!(show(kafka, &file)[0], row(0, 100, 0, 100, "ok"));
}

#[test]
fn s_o11_a_live_member_is_waited_for_and_named_at_the_end() {
    let Some(kafka) = kafka_or_skip("following into a group with live members") else { return };
    let topic = topic(kafka, "follow-alive", 2, 100);
    let spark = spark_checkpoint(&topic);
    let member = kafka.join_group("follow-alive", &topic, &[]);
    let start = || follow(kafka, &checkpoint_url(&spark), "group:follow-alive", &[]);
    let following = start();
    following.await_stderr("the group has active members");
    following.signal(Signal::Terminate);
    let finished = following.wait().expect_code(1);
    let last = finished.stderr.lines().last().unwrap();
    assert!(last.contains(&format!("did not take the offsets of {topic}-0, {topic}-1")), "{}", finished.stderr);
    assert!(last.contains("active members"), "{last}");
    assert_eq!(finished.stderr.lines().count(), 2, "told once, and at the end: {}", finished.stderr);
    // A second signal does not wait for that.
    let (following, begun) = (start(), std::time::Instant::now());
    following.await_stderr("the group has active members");
    following.signal(Signal::Terminate);
    std::thread::sleep(Duration::from_millis(500));
    following.signal(Signal::Interrupt);
    let finished = following.wait().expect_code(1);
    assert!(
        finished.stderr.contains("may not be stored") && begun.elapsed() < Duration::from_secs(9),
        "{}",
        finished.stderr
    );
    let following = start();
    following.await_stderr("the group has active members");
    drop(member);
    await_committed(kafka, "follow-alive", &[(0, 60), (1, 30)]);
    following.signal(Signal::Terminate);
    let _ = following.wait().expect_code(0);
    let finished = run(kafka, 2, &["follow", "group:a", "group:b"]);
    assert!(sentence(&finished).contains("only checkpoint:DIR can"), "{}", finished.stderr);
}

/// S-O07, and a broker that goes away for a while.
#[test]
fn s_o07_an_idle_group_that_is_followed_does_not_expire() {
    let Some(()) = java_or_skip("S-O07: offsets that expire") else { return };
    let kafka = KafkaCluster::builder()
        .property("offsets.retention.minutes", "1")
        .property("offsets.retention.check.interval.ms", "1000")
        .start();
    let topic = topic(&kafka, "idle", 2, 100);
    let spark = spark_checkpoint(&topic);
    let from = checkpoint_url(&spark);
    let _ = run(&kafka, 0, &["copy", &from, "group:forgotten"]);
    let following = follow(&kafka, &from, "group:idle", &["-X", "ottla.recommitInterval=5s"]);
    await_committed(&kafka, "idle", &[(0, 60), (1, 30)]);
    kafka.nodes()[0].restart();
    wait_until("the other group expires", Duration::from_secs(85), || committed(&kafka, "forgotten").is_empty());
    assert_eq!(committed(&kafka, "idle"), [(0, 60), (1, 30)]);
    // What a group lost can be had again from the checkpoint.
    let finished = run(&kafka, 1, &["show", "group:forgotten"]);
    assert_eq!(sentence(&finished), "group 'forgotten' holds no offset");
    let _ = run(&kafka, 0, &["copy", &from, "group:forgotten"]);
    assert_eq!(committed(&kafka, "forgotten"), [(0, 60), (1, 30)]);
    following.signal(Signal::Terminate);
    let _ = following.wait().expect_code(0);
}

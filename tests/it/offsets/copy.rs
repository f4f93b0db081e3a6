//! `copy` between checkpoints, groups and files.

use support::{GroupOffset, kafka_or_skip};

use super::{SPARK_QUERY, checkpoint_url, committed, file_url, json_rows, run, show, spark_checkpoint, topic};
use crate::common::{offsets_json, sentence};

#[test]
fn a_spark_checkpoint_into_a_group_into_a_file_and_back() {
    let Some(kafka) = kafka_or_skip("copying a Spark checkpoint's offsets") else { return };
    let topic = topic(kafka, "migrated", 3, 100);
    let spark = spark_checkpoint(&topic);
    let (checkpoint, file) = (checkpoint_url(&spark), file_url(&spark, "offsets.json"));
    let before = tree(spark.path());
    let finished = run(kafka, 0, &["copy", &checkpoint, "group:migrated", "--dry-run"]);
    let words: Vec<String> = finished.lines()[1].split_whitespace().map(str::to_owned).collect();
    assert_eq!(words, [topic.as_str(), "0", "-", "60", "new"]);
    assert_eq!(committed(kafka, "migrated"), []);
    let _ = run(kafka, 0, &["copy", &checkpoint, "group:migrated"]);
    assert_eq!(committed(kafka, "migrated"), [(0, 60), (1, 30)]);
    assert_eq!(tree(spark.path()), before, "the checkpoint is only read");
    // P5: what the commit is of.
    let id = kafka.topic_id(&topic);
    let metadata = &kafka.group_offsets("migrated")[0].metadata;
    assert_eq!(*metadata, format!("ottla/1 batch=6 query={SPARK_QUERY} topic_id={id}"));
    let theirs: Vec<_> = kafka.group_table("migrated").iter().map(|r| (r.current_offset, r.lag)).collect();
    assert_eq!(theirs, [(Some(60), Some(40)), (Some(30), Some(70))]);

    let _ = run(kafka, 0, &["copy", "group:migrated", &file]);
    let rows = json_rows(&run(kafka, 0, &["show", &file, "--json"]));
    assert_eq!(
        (rows.len(), &rows[0]["stored"], &rows[0]["batchId"], &rows[0]["topicId"]),
        (3, &60.into(), &6.into(), &id.into())
    );
    assert_eq!(rows[2]["state"], "missing");
    assert_eq!(show(kafka, &file), show(kafka, "group:migrated"));
    // The group goes on; the file's offsets are behind then.
    kafka.commit_group_offsets("migrated", &[GroupOffset::new(&topic, 0, 80)]);
    let finished = run(kafka, 2, &["copy", &file, "group:migrated"]);
    assert!(finished.stderr.contains(&format!("{topic}-0 would go back from 80 to 60")), "{}", finished.stderr);
    assert_eq!(committed(kafka, "migrated"), [(0, 80), (1, 30)]);
    let _ = run(kafka, 0, &["copy", &file, "group:migrated", "--force"]);
    assert_eq!(committed(kafka, "migrated"), [(0, 60), (1, 30)]);
    // A query goes on from there, and counts on.
    let args = ["run", "-b", kafka.bootstrap_servers(), "--subscribe", &topic, "--commit-group", "migrated"];
    let finished = support::Ottla::new(args.iter().chain(&["--trigger", "available-now"])).run().expect_code(0);
    assert_eq!(finished.lines().len(), 40 + 70 + 100);
    assert_eq!(committed(kafka, "migrated"), [(0, 100), (1, 100), (2, 100)]);
    assert!(kafka.group_offsets("migrated")[2].metadata.starts_with("ottla/1 batch=7 "));
}

#[test]
fn only_what_is_meant_is_copied_and_what_can_not_be_is_told() {
    let Some(kafka) = kafka_or_skip("copying some topics' offsets") else { return };
    let [one, two] = ["copy-one", "copy-two"].map(|name| topic(kafka, name, 1, 10));
    kafka.commit_group_offsets("copy-from", &[GroupOffset::new(&one, 0, 3), GroupOffset::new(&two, 0, 4)]);
    let _ = run(kafka, 0, &["copy", "group:copy-from", "group:copy-to", "--topic", &two]);
    let stored: Vec<_> = kafka.group_offsets("copy-to").into_iter().map(|o| (o.topic, o.offset)).collect();
    assert_eq!(stored, [(two.clone(), 4)]);
    // Beyond the end: the source is wrong, and that is not spread.
    kafka.commit_group_offsets("copy-from", &[GroupOffset::new(&one, 0, 11)]);
    let finished = run(kafka, 2, &["copy", "group:copy-from", "group:copy-to"]);
    assert!(finished.stderr.contains("offset 11 lies beyond the end of the log, 10"), "{}", finished.stderr);
    assert_eq!(kafka.group_offsets("copy-to").len(), 1);
    // A topic that is gone is left out of a checkpoint's.
    let spark = spark_checkpoint("a-topic-long-gone");
    let finished = run(kafka, 1, &["copy", &checkpoint_url(&spark), "group:copy-to"]);
    assert!(finished.stderr.contains("a-topic-long-gone-1 is left out: gone"), "{}", finished.stderr);
    assert_eq!(kafka.group_offsets("copy-to").len(), 1);

    let finished = run(kafka, 2, &["copy", "group:copy-to", "group:copy-to"]);
    assert!(sentence(&finished).contains("onto itself"), "{}", finished.stderr);
    let finished = run(kafka, 2, &["copy", "group:copy-to", &checkpoint_url(&spark)]);
    assert!(sentence(&finished).contains("only its query writes a checkpoint"), "{}", finished.stderr);
    let finished = run(kafka, 1, &["copy", "group:nobody", "group:copy-to"]);
    assert_eq!(sentence(&finished), "group 'nobody' holds no offset");
}

/// A checkpoint that Ottla wrote, without what only Ottla writes, is like Spark's.
#[test]
fn our_own_checkpoint_with_and_without_topic_ids() {
    let Some(kafka) = kafka_or_skip("copying our own checkpoint's offsets") else { return };
    let topic = topic(kafka, "own", 2, 10);
    let directory = tempfile::tempdir().unwrap();
    let location = directory.path().display().to_string();
    let starting = offsets_json(&topic, &[(0, 0), (1, 0)]);
    let args = ["run", "-b", kafka.bootstrap_servers(), "--subscribe", &topic, "--sink", "null:"];
    let more = ["--starting-offsets", &starting, "--trigger", "available-now", "--checkpoint", &location];
    let _ = support::Ottla::new(args.iter().chain(&more)).run().expect_code(0);
    let shown = || json_rows(&run(kafka, 0, &["show", &checkpoint_url(&directory), "--json"])).remove(0);
    assert_eq!(shown()["topicId"], kafka.topic_id(&topic));
    std::fs::remove_dir_all(directory.path().join("ottla")).unwrap();
    assert_eq!((&shown()["topicId"], &shown()["stored"]), (&serde_json::Value::Null, &10.into()));
    let _ = run(kafka, 0, &["copy", &checkpoint_url(&directory), "group:own"]);
    assert_eq!(committed(kafka, "own"), [(0, 10), (1, 10)]);
    assert!(!directory.path().join("ottla").exists(), "nothing is written into a checkpoint");
}

/// All files below a directory, with what they hold; without the one that the test itself keeps there.
fn tree(directory: &std::path::Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(tree(&path));
        } else {
            files.push((path.clone(), std::fs::read(&path).expect("a file")));
        }
    }
    files.sort();
    files
}

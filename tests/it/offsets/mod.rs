//! `ottla offsets` against real Kafka, and against what Kafka's own tools show.

mod copy;
mod follow;
mod set;
mod show;
mod stores;
mod zookeeper;

use std::fs;
use std::path::Path;

use serde_json::Value;
use support::{Finished, KafkaCluster, Ottla, Produce};
use tempfile::TempDir;

/// `ottla offsets ARGS… -b BOOTSTRAP`.
fn offsets(kafka: &KafkaCluster, args: &[&str]) -> Ottla {
    Ottla::new(["offsets"].iter().chain(args).chain(&["-b", kafka.bootstrap_servers()]))
}

/// A run of `ottla offsets` that must end with this code.
#[track_caller]
fn run(kafka: &KafkaCluster, code: i32, args: &[&str]) -> Finished {
    offsets(kafka, args).run().expect_code(code)
}

/// The rows of `--json`.
#[track_caller]
fn json_rows(finished: &Finished) -> Vec<Value> {
    let row = |line: &String| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    finished.lines().iter().map(row).collect()
}

/// Partition, stored, earliest, latest, lag and state of `show --json`.
type Row = (i64, Option<i64>, Option<i64>, Option<i64>, Option<i64>, String);

#[track_caller]
fn show(kafka: &KafkaCluster, store: &str) -> Vec<Row> {
    let row = |row: Value| {
        let number = |name: &str| row[name].as_i64();
        let state = row["state"].as_str().expect("a state").to_owned();
        (
            number("partition").expect("a partition"),
            number("stored"),
            number("earliest"),
            number("latest"),
            number("lag"),
            state,
        )
    };
    json_rows(&run(kafka, 0, &["show", store, "--json"])).into_iter().map(row).collect()
}

fn row(partition: i64, stored: i64, earliest: i64, latest: i64, state: &str) -> Row {
    (partition, Some(stored), Some(earliest), Some(latest), Some(latest - stored), state.to_owned())
}

/// Partition and committed offset of a group, by Kafka's own client.
fn committed(kafka: &KafkaCluster, group: &str) -> Vec<(i32, i64)> {
    kafka.group_offsets(group).iter().map(|o| (o.partition, o.offset)).collect()
}

/// A topic of so many partitions, with so many records in each.
fn topic(kafka: &KafkaCluster, prefix: &str, partitions: u32, records: u32) -> String {
    let topic = kafka.create_topic(prefix, partitions, &[]);
    produce(kafka, &topic, partitions, records);
    topic
}

/// So many records more in each partition.
fn produce(kafka: &KafkaCluster, topic: &str, partitions: u32, records: u32) {
    kafka.produce(&Produce::generated(topic, partitions * records).partitions(partitions));
}

/// The checkpoint that Spark wrote for the goldens (7 batches, the last one ends at 60 and 30), as if it were of `topic`. Spark's checksums
/// are of other bytes then, and left out.
fn spark_checkpoint(topic: &str) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/checkpoint-sample");
    for folder in ["", "offsets", "commits", "sources/0"] {
        fs::create_dir_all(directory.path().join(folder)).expect("a folder");
        for file in fs::read_dir(sample.join(folder)).expect("the sample") {
            let file = file.expect("a file").path();
            let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
            if file.is_file() && !name.starts_with('.') {
                let text = fs::read_to_string(&file).expect("text").replace("\"h02\"", &format!("\"{topic}\""));
                fs::write(directory.path().join(folder).join(name), text).expect("written");
            }
        }
    }
    directory
}

/// What the query's id is in that checkpoint.
const SPARK_QUERY: &str = "2dbd350d-fa68-44a5-adc2-faa460a7e098";

/// `checkpoint:DIR`.
fn checkpoint_url(directory: &TempDir) -> String {
    format!("checkpoint:{}", directory.path().display())
}

/// `offsets-file:DIR/NAME`.
fn file_url(directory: &TempDir, name: &str) -> String {
    format!("offsets-file:{}", directory.path().join(name).display())
}

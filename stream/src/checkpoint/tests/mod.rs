//! Whole checkpoints: what Spark wrote, what is damaged, who else writes, and what a killed process leaves.

mod crash;
mod damage;
mod recovery;
mod spark;
mod writers;

use super::*;
use std::{
    error::Error as _,
    fs,
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};
use tempfile::TempDir;

const ID: &str = r#"{"id":"11111111-2222-4333-8444-555555555555"}"#;

/// A directory with these files in it.
fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "metadata", ID);
    files.iter().for_each(|(name, text)| write(directory.path(), name, text));
    directory
}

fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn open(directory: &Path) -> Checkpoint {
    Checkpoint::open(directory.to_str().unwrap()).unwrap()
}

fn offsets(offsets: &[(&str, i32, i64)]) -> Offsets {
    offsets.iter().map(|(topic, index, offset)| (TopicPartition::new(*topic, *index), *offset)).collect()
}

fn entry(checkpoint: &Checkpoint, sources: Vec<Option<Offsets>>) -> OffsetsEntry {
    OffsetsEntry { metadata: Some(checkpoint.next_metadata(5)), sources, own: None }
}

/// An offsets file as Spark needs it.
fn v1(offsets: &str) -> String {
    format!(
        "v1\n{{\"batchWatermarkMs\":0,\"batchTimestampMs\":0,\"conf\":{{\"spark.sql.shuffle.partitions\":\"2\"}}}}\n{offsets}"
    )
}

/// The whole text of an error, as a user sees it.
fn told(error: &CheckpointError) -> String {
    format!("{error}: {}", error.source().unwrap())
}

/// All names below, directories left out, ours too.
fn spark_files(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                names.push(path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    names.retain(|name| !name.starts_with("ottla/"));
    names.sort();
    names
}

/// What the test `name` below this module does as a process of its own: with this variable, which has the checkpoint's place.
const CHILD: &str = "OTTLA_TEST_CHECKPOINT";

fn child(name: &str, directory: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("checkpoint::tests::{name}"), "--nocapture"])
        .env(CHILD, directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// What the child says after this word, if it says it.
fn said(output: &mut impl BufRead, word: &str) -> Option<String> {
    output.lines().map_while(Result::ok).find_map(|line| line.strip_prefix(word).map(str::to_owned))
}

//! What a process leaves that is killed between two steps of a write.

use super::*;
use std::{thread, time::Duration};

const UUID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

#[test]
fn temporary_files_are_removed_at_the_next_start() {
    let directory = directory(&[("offsets/0", &v1("{}"))]);
    let left = [
        format!(".metadata.{UUID}.tmp"),
        format!("offsets/.1.{UUID}.tmp"),
        format!("commits/.0.{UUID}.tmp"),
        format!("sources/0/.0.{UUID}.tmp"),
        format!("ottla/offsets/.1.{UUID}.tmp"),
    ];
    let others = ["offsets/.1.tmp", "offsets/1.tmp", "offsets/.1.crc", "offsets/.notes.x.tmp"];
    for name in left.iter().map(String::as_str).chain(others) {
        write(directory.path(), name, "v1\n{");
    }
    let checkpoint = open(directory.path());
    assert!(left.iter().all(|name| !directory.path().join(name).exists()));
    assert!(others.iter().all(|name| directory.path().join(name).exists()), "others' files are left alone");
    assert!(matches!(checkpoint.recover(1).unwrap(), Recovered::Pending { batch_id: 0, .. }));
}

#[test]
fn a_file_that_has_its_name_and_its_temporary_name_is_whole() {
    let directory = directory(&[("offsets/0", &v1("{\"t\":{\"0\":5}}"))]);
    let temporary = directory.path().join(format!("offsets/.0.{UUID}.tmp"));
    fs::hard_link(directory.path().join("offsets/0"), &temporary).unwrap();
    let checkpoint = open(directory.path());
    assert!(!temporary.exists());
    let Recovered::Pending { entry, .. } = checkpoint.recover(1).unwrap() else { panic!() };
    assert_eq!(entry.sources, [Some(offsets(&[("t", 0, 5)]))]);
}

#[test]
fn our_own_file_without_its_batch_is_replaced() {
    let directory = directory(&[]);
    write(directory.path(), "ottla/offsets/0", "{\"version\":1,\"offsetsCrc32c\":1,\"sources\":[]}");
    let checkpoint = open(directory.path());
    assert_eq!(checkpoint.recover(1).unwrap(), Recovered::New);
    let own = Some(OwnEntry { sources: vec![OwnSource::default()] });
    let next = OffsetsEntry { own, ..entry(&checkpoint, vec![None]) };
    checkpoint.write_offsets(0, &next).unwrap();
    assert_eq!(checkpoint.recover(1).unwrap(), Recovered::Pending { batch_id: 0, entry: next, before: None });
    // Nothing of ours to say about the next batch: what lies there must not look like its.
    write(directory.path(), "ottla/offsets/1", "{\"version\":1,\"offsetsCrc32c\":1,\"sources\":[]}");
    checkpoint.write_offsets(1, &entry(&checkpoint, vec![None])).unwrap();
    assert!(!directory.path().join("ottla/offsets/1").exists());
    assert_eq!(checkpoint.warnings(), [""; 0]);
}

#[test]
fn what_the_file_system_refuses_is_an_error_with_the_path() {
    let directory = directory(&[]);
    let checkpoint = open(directory.path());
    // A file where a directory is needed: refused to every user, root too.
    write(directory.path(), "offsets", "");
    let error = checkpoint.write_offsets(0, &entry(&checkpoint, vec![None])).unwrap_err();
    assert_eq!((error.condition(), error.path.starts_with(directory.path())), ("CHECKPOINT_IO", true));
    assert!(error.source.source().is_some(), "the system's reason is kept");
    write(directory.path(), "file", "");
    let below = directory.path().join("file/checkpoint");
    assert_eq!(Checkpoint::open(below.to_str().unwrap()).unwrap_err().condition(), "CHECKPOINT_IO");
}

/// Started by the test below as a process of its own; otherwise there is nothing to do.
#[test]
fn child_that_runs_batches() {
    let Ok(location) = std::env::var(CHILD) else { return };
    let checkpoint = Checkpoint::open(&location).unwrap();
    let mut next = match checkpoint.recover(1).unwrap() {
        Recovered::New => 0,
        Recovered::Committed { batch_id, .. } => batch_id + 1,
        Recovered::Pending { batch_id, .. } => {
            checkpoint.write_commit(batch_id).unwrap();
            batch_id + 1
        }
    };
    println!("\nbatch {next}");
    loop {
        checkpoint.write_offsets(next, &numbered(&checkpoint, next)).unwrap();
        checkpoint.write_commit(next).unwrap();
        println!("committed {next}");
        next += 1;
    }
}

/// A batch that says in all its parts which one it is.
fn numbered(checkpoint: &Checkpoint, batch_id: i64) -> OffsetsEntry {
    let own = OwnSource { new_starts: offsets(&[("t", 1, batch_id)]), ..OwnSource::default() };
    let own = Some(OwnEntry { sources: vec![own] });
    OffsetsEntry { own, ..entry(checkpoint, vec![Some(offsets(&[("t", 0, batch_id + 1)]))]) }
}

#[test]
fn a_process_killed_at_any_time_leaves_a_checkpoint_to_go_on_from() {
    let directory = tempfile::tempdir().unwrap();
    let mut newest = -1;
    for round in 0..12 {
        let (mut child, mut output) = child("crash::child_that_runs_batches", directory.path());
        let began: i64 = said(&mut output, "batch ").expect("it goes on").parse().unwrap();
        assert!(began > newest, "batch {newest} was known to be planned");
        // Not the same step each time.
        for _ in 0..round % 3 {
            said(&mut output, "committed ").expect("it goes on");
        }
        thread::sleep(Duration::from_micros(700 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let checkpoint = open(directory.path());
        let (batch_id, entry) = match checkpoint.recover(1).unwrap() {
            Recovered::New => continue,
            Recovered::Committed { batch_id, entry, .. } => (batch_id, entry),
            Recovered::Pending { batch_id, entry, before } => {
                let expected = batch_id.checked_sub(1).filter(|id| *id >= 0).map(|id| numbered(&checkpoint, id));
                assert_eq!(before, expected);
                (batch_id, entry)
            }
        };
        assert!(batch_id >= newest);
        newest = batch_id;
        assert_eq!(entry, numbered(&checkpoint, batch_id));
        assert_eq!(checkpoint.warnings(), [""; 0]);
        for log in [&checkpoint.offsets, &checkpoint.commits] {
            let oldest = log.ids().unwrap().first().copied().unwrap_or(0);
            let expected: Vec<i64> = (oldest..oldest + i64::try_from(log.ids().unwrap().len()).unwrap()).collect();
            assert_eq!(log.ids().unwrap(), expected, "no hole");
        }
    }
    assert!(newest > 0, "batches were run");
}

//! What a process leaves that is killed between two steps of a write.

use super::*;

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

//! Two who write into one checkpoint.

use super::*;
use std::{sync::Barrier, thread};

#[test]
fn a_second_opener_is_told_until_the_first_one_ends() {
    let directory = directory(&[]);
    let location = directory.path().to_str().unwrap();
    let first = Checkpoint::open(location).unwrap();
    let error = Checkpoint::open(location).unwrap_err();
    assert_eq!(error.condition(), "CHECKPOINT_LOCKED");
    assert!(told(&error).contains("Multiple streaming queries are concurrently using"), "{}", told(&error));
    drop(first);
    Checkpoint::open(location).unwrap();
}

#[test]
fn one_of_many_threads_gets_the_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let barrier = Barrier::new(8);
    let opened = thread::scope(|scope| {
        let open = || {
            barrier.wait();
            Checkpoint::open(directory.path().to_str().unwrap())
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(opened.iter().filter(|opened| opened.is_ok()).count(), 1);
    let locked = |opened: &&Result<Checkpoint, CheckpointError>| matches!(opened, Err(error) if error.condition() == "CHECKPOINT_LOCKED");
    assert_eq!(opened.iter().filter(locked).count(), 7);
}

/// Spark knows nothing of our lock: whoever comes second with a file loses, and the file stays the first one's.
#[test]
fn a_file_is_never_written_twice() {
    let directory = directory(&[]);
    let log = |name: &str| MetadataLog::new(directory.path().join(name));
    let barrier = Barrier::new(8);
    for round in 0..20 {
        let results = thread::scope(|scope| {
            let add = |writer: i64| {
                barrier.wait();
                (writer, log("offsets").add(round, format!("v1\n{writer}").as_bytes()))
            };
            let threads: Vec<_> = (0..8).map(|writer| scope.spawn(move || add(writer))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let winners: Vec<_> = results.iter().filter(|(_, result)| result.is_ok()).map(|(writer, _)| writer).collect();
        assert_eq!(winners.len(), 1);
        let text = log("offsets").read(round).unwrap().unwrap();
        assert_eq!(text, format!("v1\n{}", winners[0]).into_bytes());
        for (_, result) in results {
            let Err(error) = result else { continue };
            assert_eq!(error.condition(), "CONCURRENT_STREAM_LOG_UPDATE");
        }
    }
    assert_eq!(log("offsets").ids().unwrap().len(), 20);
    assert_eq!(fs::read_dir(directory.path().join("offsets")).unwrap().count(), 20, "no temporary file stays");
}

#[test]
fn a_batch_that_is_there_already_is_sparks_error_and_stays() {
    let directory = directory(&[("offsets/3", "spark's"), ("commits/3", "spark's"), ("sources/0/0", "spark's")]);
    write(directory.path(), "ottla/offsets/3", "ours of spark's");
    let checkpoint = open(directory.path());
    let next = entry(&checkpoint, vec![None]);
    for error in [
        checkpoint.write_offsets(3, &next).unwrap_err(),
        checkpoint.write_commit(3).unwrap_err(),
        checkpoint.write_initial_offsets(0, &Offsets::new()).unwrap_err(),
    ] {
        assert_eq!(error.condition(), "CONCURRENT_STREAM_LOG_UPDATE");
        assert!(told(&error).contains("Multiple streaming queries are concurrently using"), "{}", told(&error));
        assert_eq!(fs::read_to_string(&error.path).unwrap(), "spark's");
    }
    assert_eq!(fs::read_to_string(directory.path().join("ottla/offsets/3")).unwrap(), "ours of spark's");
}

/// Started by the test below as a process of its own; otherwise there is nothing to do.
#[test]
fn child_that_holds_the_lock() {
    let Ok(location) = std::env::var(CHILD) else { return };
    let checkpoint = Checkpoint::open(&location).unwrap();
    println!("\nlocked {}", checkpoint.id());
    // Until it is killed, or whoever started it is gone.
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn a_killed_process_lets_go_of_the_lock() {
    let directory = tempfile::tempdir().unwrap();
    let location = directory.path().to_str().unwrap();
    let (mut child, mut output) = child("writers::child_that_holds_the_lock", directory.path());
    let id = said(&mut output, "locked ").unwrap();
    assert_eq!(Checkpoint::open(location).unwrap_err().condition(), "CHECKPOINT_LOCKED");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(Checkpoint::open(location).unwrap().id().to_string(), id);
}

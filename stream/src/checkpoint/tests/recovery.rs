//! Which files are needed, and what their absence means.

use super::*;
use crate::checkpoint::recover::RecoveredEpoch;

fn recover(files: &[(&str, &str)]) -> Result<Recovered, CheckpointError> {
    open(directory(files).path()).recover(1)
}

#[test]
fn a_new_directory_gets_an_id_that_stays() {
    let parent = tempfile::tempdir().unwrap();
    let location = format!("file://{}", parent.path().join("deep/er").display());
    let checkpoint = Checkpoint::open(&location).unwrap();
    assert_eq!(checkpoint.recover(1).unwrap(), Recovered::New);
    assert_eq!(checkpoint.initial_offsets(0).unwrap(), None);
    assert_eq!(checkpoint.warnings(), [""; 0]);
    let id = checkpoint.id();
    assert_eq!(id.get_version_num(), 4);
    assert_eq!(spark_files(&parent.path().join("deep/er")), ["metadata"]);
    let text = fs::read_to_string(parent.path().join("deep/er/metadata")).unwrap();
    assert_eq!(text, format!("{{\"id\":\"{id}\"}}"));
    drop(checkpoint);
    assert_eq!(Checkpoint::open(&location).unwrap().id(), id);
}

#[test]
fn a_damaged_id_is_an_error_that_says_what_to_write() {
    for text in ["", "{\"id\":", "{}", "{\"id\":7}", "{\"id\":\"x\"}", "[]"] {
        let directory = directory(&[("metadata", text)]);
        let error = Checkpoint::open(directory.path().to_str().unwrap()).unwrap_err();
        assert_eq!(error.condition(), "CHECKPOINT_METADATA", "{text}");
        let told = told(&error);
        assert!(told.contains("/metadata") && told.contains(ID.split('1').next().unwrap()), "{told}");
        assert_eq!(fs::read_to_string(directory.path().join("metadata")).unwrap(), text, "nothing is overwritten");
    }
}

#[test]
fn the_state_of_a_stateful_query_is_refused_and_nothing_is_written() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "state/0/0/1.delta", "x");
    let error = Checkpoint::open(directory.path().to_str().unwrap()).unwrap_err();
    assert_eq!(error.condition(), "CHECKPOINT_STATE");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn s_s07_a_hole_in_the_offsets_names_the_files_and_a_safe_action() {
    let (seven, nine) = (v1("{\"t\":{\"0\":70}}"), v1("{\"t\":{\"0\":90}}"));
    let directory = directory(&[("offsets/7", &seven), ("offsets/9", &nine), ("commits/7", "v1\n{}")]);
    let text = told(&open(directory.path()).recover(1).unwrap_err());
    for part in [
        "batch 8 doesn't exist",
        "found here: 7, 9;",
        "in commits: 7.",
        "Restore 8 from a backup",
        "Without one: delete offsets/9, then copy offsets/7 to offsets/6",
        "Batch 7 is done",
    ] {
        assert!(text.contains(part), "{text} has not {part}");
    }
    // The action does what it says.
    fs::remove_file(directory.path().join("offsets/9")).unwrap();
    fs::copy(directory.path().join("offsets/7"), directory.path().join("offsets/6")).unwrap();
    let recovered = open(directory.path()).recover(1).unwrap();
    let Recovered::Committed { batch_id: 7, entry, .. } = recovered else { panic!("{recovered:?}") };
    assert_eq!(entry.sources, [Some(offsets(&[("t", 0, 70)]))]);
}

#[test]
fn a_newest_batch_alone_is_refused_as_in_spark() {
    let text = told(&recover(&[("offsets/3", &v1("{}")), ("commits/3", "v1\n{}")]).unwrap_err());
    assert!(text.contains("batch 2 doesn't exist") && text.contains("one: copy offsets/3 to offsets/2"), "{text}");
    // Where a batch that is not done began, the batch itself doesn't say.
    let text = told(&recover(&[("offsets/3", &v1("{}")), ("commits/2", "v1\n{}")]).unwrap_err());
    assert!(text.contains("batch 2 doesn't exist") && text.contains("start with a new checkpoint"), "{text}");
}

#[test]
fn h18_commits_without_offsets() {
    let error = recover(&[("commits/0", "v1\n{}"), ("commits/1", "v1\n{}")]).unwrap_err();
    assert_eq!(error.condition(), "CHECKPOINT_COMMITS_WITHOUT_OFFSETS");
    let text = told(&error);
    assert!(text.contains("assertion failed") && text.contains("(0, 1)"), "{text}");
}

#[test]
fn a_batch_without_its_commit_is_pending() {
    let zero = v1(r#"{"t":{"0":5}}"#);
    let one = v1(r#"{"t":{"0":9}}"#);
    let Recovered::Pending { batch_id: 0, before: None, entry } = recover(&[("offsets/0", &zero)]).unwrap() else {
        panic!()
    };
    assert_eq!(entry.sources, [Some(offsets(&[("t", 0, 5)]))]);
    let cases: [(&[(&str, &str)], usize); 4] = [
        // The usual one, and none at all: Spark re-runs without a word.
        (&[("commits/0", "v1\n{}")], 0),
        (&[], 0),
        // Higher and lower ones are told.
        (&[("commits/0", "v1\n{}"), ("commits/4", "v1\n{}")], 1),
        (&[("offsets/2", &one), ("commits/0", "v1\n{}")], 1),
    ];
    for (files, warnings) in cases {
        let files = [files, &[("offsets/0", zero.as_str()), ("offsets/1", one.as_str())]].concat();
        let directory = directory(&files);
        let checkpoint = open(directory.path());
        let newest = checkpoint.offsets.ids().unwrap().into_iter().max().unwrap();
        let Recovered::Pending { batch_id, entry, before } = checkpoint.recover(1).unwrap() else { panic!() };
        assert_eq!(batch_id, newest);
        assert_eq!(entry.sources, [Some(offsets(&[("t", 0, 9)]))]);
        let start = if newest == 2 { 9 } else { 5 };
        assert_eq!(before.unwrap().sources, [Some(offsets(&[("t", 0, start)]))]);
        let told: Vec<_> = checkpoint.warnings().into_iter().filter(|w| w.contains("is run again")).collect();
        assert_eq!(told.len(), warnings, "{told:?}");
    }
}

#[test]
fn a_pending_batch_needs_the_settings_that_spark_needs() {
    let empty = "v1\n\n{\"t\":{\"0\":5}}";
    let no_conf = "v1\n{\"conf\":{}}\n{\"t\":{\"0\":5}}";
    let good = v1("{\"t\":{\"0\":5}}");
    for (zero, one, text) in [
        (empty, empty, Some("requirement failed: Batch 1 metadata not found")),
        (empty, good.as_str(), Some("requirement failed: Batch 0 metadata not found")),
        (good.as_str(), empty, Some("requirement failed: Batch 1 metadata not found")),
        (empty, no_conf, Some("None.get")),
        (no_conf, good.as_str(), Some("None.get")),
        (good.as_str(), good.as_str(), None),
    ] {
        let recovered = recover(&[("offsets/0", zero), ("offsets/1", one), ("commits/0", "v1\n{}")]);
        match (recovered, text) {
            (Err(error), Some(text)) => assert!(told(&error).contains(text), "{}", told(&error)),
            (Ok(Recovered::Pending { batch_id: 1, .. }), None) => {}
            (other, text) => panic!("{text:?}: {other:?}"),
        }
    }
    // Committed batches, batch 0, and batches without any commit need none.
    for files in [
        &[("offsets/0", empty), ("offsets/1", empty), ("commits/1", "v1\n{}")][..],
        &[("offsets/0", empty)],
        &[("offsets/0", empty), ("offsets/1", empty)],
    ] {
        assert!(recover(files).is_ok());
    }
}

#[test]
fn s_s08_other_files_are_nobodys_business() {
    let directory = directory(&[
        ("offsets/6", &v1("{}")),
        ("offsets/7", &v1("{\"t\":{\"0\":5}}")),
        ("commits/7", "v1\n{}"),
        ("offsets/.8.tmp", "v1\n"),
        ("offsets/8.tmp", "v1\n"),
        ("offsets/.8.crc", "crc\0"),
        ("offsets/7~", "v1\n"),
        ("offsets/007", "v9\n"),
        ("offsets/+8", "v9\n"),
        ("offsets/-1", "v9\n"),
        ("commits/8x", ""),
        ("commits/99999999999999999999", ""),
    ]);
    fs::create_dir(directory.path().join("offsets/9")).unwrap();
    let checkpoint = open(directory.path());
    let Recovered::Committed { batch_id: 7, entry, .. } = checkpoint.recover(1).unwrap() else { panic!() };
    checkpoint.write_offsets(8, &entry).unwrap();
    assert!(!directory.path().join("offsets/.8.crc").exists(), "Spark would check our file against it");
    assert!(matches!(checkpoint.recover(1).unwrap(), Recovered::Pending { batch_id: 8, .. }));
}

#[test]
fn settings_and_watermark_are_handed_on() {
    let metadata = r#"{"batchWatermarkMs":40,"batchTimestampMs":1,"conf":{"b":"1","a":"2"},"later":[1]}"#;
    let directory = directory(&[
        ("offsets/0", &format!("v1\n{metadata}\n{{}}")),
        ("commits/0", "v1\n{\"nextBatchWatermarkMs\":50}"),
    ]);
    let checkpoint = open(directory.path());
    let Recovered::Committed { .. } = checkpoint.recover(1).unwrap() else { panic!() };
    let next = entry(&checkpoint, vec![None]);
    assert_eq!(
        next.write(),
        "v1\n{\"batchWatermarkMs\":50,\"batchTimestampMs\":5,\"conf\":{\"b\":\"1\",\"a\":\"2\",\"spark.sql.shuffle.partitions\":\"200\"}}\n-"
    );
    checkpoint.write_offsets(1, &next).unwrap();
    checkpoint.write_commit(1).unwrap();
    let commit = fs::read_to_string(directory.path().join("commits/1")).unwrap();
    assert_eq!(commit, "v1\n{\"nextBatchWatermarkMs\":50}");
    let Recovered::Committed { batch_id: 1, entry, .. } = checkpoint.recover(1).unwrap() else { panic!() };
    assert_eq!(entry.sources, [None]);
}

#[test]
fn s_s09_sources_without_offsets_keep_their_place() {
    let directory = directory(&[]);
    let checkpoint = open(directory.path());
    checkpoint.write_initial_offsets(0, &offsets(&[("a", 0, 3)])).unwrap();
    checkpoint.write_initial_offsets(1, &offsets(&[])).unwrap();
    let next = entry(&checkpoint, vec![None, Some(offsets(&[("b", 0, 7)])), Some(offsets(&[]))]);
    checkpoint.write_offsets(0, &next).unwrap();
    let Recovered::Pending { batch_id: 0, entry, .. } = checkpoint.recover(3).unwrap() else { panic!() };
    assert_eq!(entry.sources, next.sources);
    assert_eq!(checkpoint.initial_offsets(0).unwrap(), Some(offsets(&[("a", 0, 3)])));
    assert_eq!(checkpoint.initial_offsets(1).unwrap(), Some(offsets(&[])));
    assert_eq!(checkpoint.initial_offsets(2).unwrap(), None);
    for sources in [1, 2, 4] {
        let text = told(&checkpoint.recover(sources).unwrap_err());
        assert!(
            text.contains(&format!("There are [3] sources in the checkpoint offsets and now there are [{sources}]"))
        );
    }
}

#[test]
fn continuous_mode_goes_on_after_the_last_committed_epoch() {
    let directory = directory(&[]);
    let checkpoint = open(directory.path());
    let none = RecoveredEpoch { next_epoch: 0, committed: None };
    assert_eq!(checkpoint.recover_continuous(1).unwrap(), none);
    for epoch in 0..3 {
        let sources = vec![Some(offsets(&[("t", 0, epoch)]))];
        checkpoint.write_offsets(epoch, &OffsetsEntry { metadata: None, sources, own: None }).unwrap();
        if epoch < 2 {
            checkpoint.write_commit(epoch).unwrap();
        }
    }
    assert_eq!(fs::read_to_string(directory.path().join("offsets/1")).unwrap(), "v1\n\n{\"t\":{\"0\":1}}");
    let recovered = checkpoint.recover_continuous(1).unwrap();
    assert_eq!(recovered.next_epoch, 3);
    assert_eq!(recovered.committed.unwrap().1.sources, [Some(offsets(&[("t", 0, 1)]))]);
    fs::remove_file(directory.path().join("offsets/1")).unwrap();
    let text = told(&checkpoint.recover_continuous(1).unwrap_err());
    assert!(text.contains("Batch 1 was committed without end epoch offsets!"), "{text}");
    fs::remove_dir_all(directory.path().join("commits")).unwrap();
    assert_eq!(checkpoint.recover_continuous(1).unwrap(), RecoveredEpoch { next_epoch: 3, committed: None });
}

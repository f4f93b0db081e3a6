//! Directories that real Spark wrote.

use super::*;
use serde_json::Value;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() { copy(&path, &target) } else { assert!(fs::copy(&path, target).is_ok()) }
    }
}

fn sample() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/checkpoint-sample"), directory.path());
    directory
}

#[test]
fn a_real_directory_is_read_with_its_checksums_and_gone_on_from() {
    let directory = sample();
    assert!(directory.path().join("offsets/.6.crc").is_file(), "the hidden files belong to the sample");
    let checkpoint = open(directory.path());
    assert_eq!(checkpoint.id().to_string(), "2dbd350d-fa68-44a5-adc2-faa460a7e098");
    assert_eq!(checkpoint.initial_offsets(0).unwrap(), Some(offsets(&[("h02", 0, 0), ("h02", 1, 0)])));
    let Recovered::Committed { batch_id: 6, entry, .. } = checkpoint.recover(1).unwrap() else { panic!() };
    assert_eq!(entry.sources, [Some(offsets(&[("h02", 0, 60), ("h02", 1, 30)]))]);
    let conf = entry.metadata.as_ref().unwrap().conf.clone();
    assert_eq!((conf.len(), &conf["spark.sql.shuffle.partitions"]), (15, &"2".into()));
    assert_eq!(
        checkpoint.warnings(),
        [
            "no topic ids are known for batch 6: a topic that was deleted and created again is noticed only when it is smaller"
        ]
    );
    assert_eq!(checkpoint.warnings(), [""; 0]);

    // A checksum of an earlier file 7 would make Spark refuse ours.
    write(directory.path(), "offsets/.7.crc", "crc\0stale");
    let next = OffsetsEntry {
        metadata: Some(checkpoint.next_metadata(1_795_992_600_000)),
        sources: vec![Some(offsets(&[("h02", 0, 70), ("h02", 1, 35)]))],
        own: Some(OwnEntry { sources: vec![OwnSource::default()] }),
    };
    checkpoint.write_offsets(7, &next).unwrap();
    checkpoint.write_commit(7).unwrap();
    let spark = fs::read_to_string(directory.path().join("offsets/6")).unwrap();
    let ours = fs::read_to_string(directory.path().join("offsets/7")).unwrap();
    let expected = spark.replace("1795992590805", "1795992600000").replace("\"0\":60,\"1\":30", "\"0\":70,\"1\":35");
    assert_eq!(ours, expected, "the settings are Spark's, to the byte");
    let commit = |id: i64| fs::read(directory.path().join(format!("commits/{id}"))).unwrap();
    assert_eq!(commit(7), commit(6));
    assert!(!directory.path().join("offsets/.7.crc").exists());

    drop(checkpoint);
    let checkpoint = open(directory.path());
    let Recovered::Committed { batch_id: 7, entry, before } = checkpoint.recover(1).unwrap() else { panic!() };
    assert_eq!(entry, next);
    assert_eq!(before.unwrap().sources, [Some(offsets(&[("h02", 0, 60), ("h02", 1, 30)]))]);
}

#[test]
fn a_damaged_byte_is_found_by_sparks_checksum() {
    let directory = sample();
    let path = directory.path().join("offsets/6");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"0\":60", "\"0\":61")).unwrap();
    let checkpoint = open(directory.path());
    let error = checkpoint.recover(1).unwrap_err();
    assert_eq!((error.condition(), &error.path), ("CHECKPOINT_CHECKSUM", &path));
    let text = told(&error);
    assert!(text.contains("chunk 2 (bytes 1024 to 1039)") && text.contains("delete .6.crc"), "{text}");
    // The batch before is needed, and checked, too.
    drop(checkpoint);
    let directory = sample();
    fs::write(directory.path().join("offsets/5"), "v1\n\n{\"h02\":{\"0\":56,\"1\":28}}").unwrap();
    assert_eq!(open(directory.path()).recover(1).unwrap_err().condition(), "CHECKPOINT_CHECKSUM");
}

#[test]
fn a_checksum_file_that_is_none_or_has_too_many_sums_is_an_error() {
    for (bytes, chunk) in [
        (&b""[..], 0),
        (b"crc\0", 0),
        (b"crc\0\0\0\0\0", 0),
        (b"crc\0\0\0\x02\0", 0),
        (b"crc\0\0\0\x02\0\x01\x02\x03", 0),
        (b"crc\0\0\0\x02\0\x01\x02\x03\x04", 0),
    ] {
        let directory = directory(&[("offsets/0", &v1("{}")), ("commits/0", "v1\n{}")]);
        fs::write(directory.path().join("offsets/.0.crc"), bytes).unwrap();
        let error = open(directory.path()).recover(1).unwrap_err();
        assert!(matches!(error.source, CheckpointErrorKind::Checksum { chunk: c, .. } if c == chunk), "{error:?}");
    }
    let directory = directory(&[("commits/0", "v1\n{}"), ("offsets/0", "v1\n\n{}")]);
    let mut crc = b"crc\0\0\0\x02\0".to_vec();
    crc.extend(crc32fast::hash(b"v1\n\n{}").to_be_bytes());
    fs::write(directory.path().join("offsets/.0.crc"), &crc).unwrap();
    let checkpoint = open(directory.path());
    assert!(matches!(checkpoint.recover(1), Ok(Recovered::Committed { batch_id: 0, .. })));
    crc.extend([0; 4]);
    fs::write(directory.path().join("offsets/.0.crc"), &crc).unwrap();
    assert_eq!(checkpoint.recover(1).unwrap_err().condition(), "CHECKPOINT_CHECKSUM");
}

/// Every checkpoint of the recorded scenarios is recovered as Spark did, and each file we would write has Spark's text.
#[test]
fn recorded_checkpoints_mean_what_they_mean_to_spark() {
    let recorded = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/spark-checkpoints.json"));
    let recorded: Vec<Value> = serde_json::from_str(&recorded.unwrap()).unwrap();
    assert_eq!(recorded.len(), 21);
    for scenario in recorded {
        let name = scenario["scenario"].as_str().unwrap();
        let files = scenario["files"].as_object().unwrap();
        let directory = directory(&[]);
        let newest = |log: &str| files.keys().filter_map(|file| file.strip_prefix(log)?.parse::<i64>().ok()).max();
        for (file, text) in files.iter().filter(|(file, _)| *file != "metadata") {
            let mut text = text.as_str().unwrap().to_owned();
            // The recorder emptied what Spark had written itself.
            if !["h20", "h21"].contains(&&name[..3]) {
                text = text.replace("\"conf\":{}", "\"conf\":{\"spark.sql.shuffle.partitions\":\"2\"}");
            }
            write(directory.path(), file, &text);
        }
        let checkpoint = open(directory.path());
        let outcome = checkpoint.recover(1).and_then(|recovered| {
            let initial = checkpoint.initial_offsets(0)?;
            Ok((recovered, initial))
        });
        if let Some(error) = scenario["error"].as_str() {
            let text = told(&outcome.unwrap_err());
            let short = error.split(". The log file").next().unwrap();
            assert!(text.contains(short), "{name}: {text} has not {short}");
            continue;
        }
        let (recovered, initial) = outcome.unwrap();
        let (committed, batch_id, entry) = match recovered {
            Recovered::New => {
                assert_eq!(newest("offsets/"), None, "{name}");
                continue;
            }
            Recovered::Committed { batch_id, entry, .. } => (Some(batch_id), batch_id, entry),
            Recovered::Pending { batch_id, entry, before } => {
                assert_eq!(before.is_some(), batch_id > 0, "{name}");
                (batch_id.checked_sub(1).filter(|id| *id >= 0), batch_id, entry)
            }
        };
        assert_eq!((newest("offsets/"), newest("commits/")), (Some(batch_id), committed), "{name}");
        let on_disk = fs::read_to_string(directory.path().join(format!("offsets/{batch_id}"))).unwrap();
        let (ours, spark) = (entry.write(), on_disk);
        let lines =
            |text: &str| text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
        assert_eq!(lines(&ours), lines(&spark), "{name}");
        let written = files.get("sources/0/0").and_then(Value::as_str).filter(|text| text.starts_with("\0v1"));
        if let (Some(initial), Some(text)) = (initial, written) {
            assert_eq!(initial_offsets::write(&initial).len(), text.len(), "{name}");
        }
        checkpoint.write_offsets(batch_id + 1, &entry).unwrap();
    }
}

#[test]
fn h13_files_of_old_batches_are_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let checkpoint = open(directory.path());
    checkpoint.write_initial_offsets(0, &offsets(&[("h13", 0, 0)])).unwrap();
    for batch_id in 0..105 {
        let own = Some(OwnEntry { sources: vec![OwnSource::default()] });
        let sources = vec![Some(offsets(&[("h13", 0, batch_id + 1)]))];
        let entry = OffsetsEntry { metadata: Some(checkpoint.next_metadata(0)), sources, own };
        checkpoint.write_offsets(batch_id, &entry).unwrap();
        let oldest = checkpoint.offsets.ids().unwrap()[0];
        assert_eq!(oldest, (batch_id - 100).max(0));
        checkpoint.write_commit(batch_id).unwrap();
    }
    let kept: Vec<i64> = (4..105).collect();
    assert_eq!(checkpoint.offsets.ids().unwrap(), kept);
    assert_eq!(checkpoint.commits.ids().unwrap(), kept);
    assert_eq!(checkpoint.own.ids().unwrap(), kept);
    let mut expected: Vec<String> =
        kept.iter().flat_map(|id| [format!("commits/{id}"), format!("offsets/{id}")]).collect();
    expected.extend(["metadata".to_owned(), "sources/0/0".to_owned()]);
    expected.sort();
    assert_eq!(spark_files(directory.path()), expected);
    assert_eq!(
        fs::read_to_string(directory.path().join("offsets/104")).unwrap(),
        "v1\n{\"batchWatermarkMs\":0,\"batchTimestampMs\":0,\"conf\":{\"spark.sql.shuffle.partitions\":\"200\"}}\n{\"h13\":{\"0\":105}}"
    );
    assert_eq!(fs::read_to_string(directory.path().join("commits/104")).unwrap(), "v1\n{\"nextBatchWatermarkMs\":0}");
    assert_eq!(fs::read(directory.path().join("sources/0/0")).unwrap(), b"\0v1\n{\"h13\":{\"0\":0}}");
    assert_eq!(checkpoint.warnings(), [""; 0]);
}

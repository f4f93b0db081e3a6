//! Files that are cut, empty, of other versions, or say what they can't.

use super::*;
use ottla_protocol::Uuid as TopicId;
use proptest::prelude::*;
use serde_json::Map;

fn recover(offsets: &str, sources: usize) -> Result<Recovered, CheckpointError> {
    open(directory(&[("offsets/0", offsets), ("commits/0", "v1\n{}")]).path()).recover(sources)
}

#[test]
fn versions_are_sparks() {
    for (text, condition) in [
        ("", "INCOMPLETE_LOG_FILE"),
        ("\n", "INCOMPLETE_LOG_FILE"),
        ("v1", "INCOMPLETE_LOG_FILE"),
        ("v9\n\n{}", "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION"),
        ("v3\n{}\n0:{}", "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION"),
        ("v\n\n{}", "INVALID_LOG_VERSION"),
        ("v0\n\n{}", "INVALID_LOG_VERSION"),
        ("1\n\n{}", "INVALID_LOG_VERSION"),
        ("{}\n{}", "INVALID_LOG_VERSION"),
        ("v1\n{\n{}", "MALFORMED_LOG_FILE"),
        ("v1\n[]\n{}", "MALFORMED_LOG_FILE"),
        ("v1\n{\"conf\":1}\n{}", "MALFORMED_LOG_FILE"),
        ("v1\n{\"batchWatermarkMs\":\"1\"}\n{}", "MALFORMED_LOG_FILE"),
        ("v1\n\n", "CHECKPOINT_SOURCES"),
        ("v1\n\n{}\n{}", "CHECKPOINT_SOURCES"),
        ("v2\n\n0:{}", "MALFORMED_LOG_FILE"),
        ("v1\n\n0:{}", "MALFORMED_LOG_FILE"),
        ("v1\n\n--", "MALFORMED_LOG_FILE"),
    ] {
        assert_eq!(recover(text, 1).unwrap_err().condition(), condition, "{text:?}");
    }
    let text = told(&recover("v9\n\n{}", 1).unwrap_err());
    let expected = "[INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION] UnsupportedLogVersion. The maximum supported log version is v2, but encountered v9.";
    assert!(
        text.contains(expected) && text.contains("Failed to read log file") && text.contains("offsets/0"),
        "{text}"
    );
    assert!(told(&recover("", 1).unwrap_err()).contains("Incomplete log file"));
}

#[test]
fn version_2_names_its_sources() {
    let text = "v2\n{}\n1:{\"b\":{\"0\":2}}\n0:{\"a:x\":{\"0\":1}}\n2:-";
    let Ok(Recovered::Committed { entry, .. }) = recover(text, 3) else { panic!() };
    assert_eq!(entry.sources, [Some(offsets(&[("a:x", 0, 1)])), Some(offsets(&[("b", 0, 2)])), None]);
}

#[test]
fn offsets_that_are_none_are_refused_with_an_example() {
    for bad in ["{\"t\":{\"0\":-1}}", "{\"t\":{\"0\":-2}}", "{\"t\":{\"0\":-3}}"] {
        let text = told(&recover(&v1(bad), 1).unwrap_err());
        assert!(text.contains(" of t-0 is "), "{text}");
    }
    for bad in ["{\"t\":{\"0\":\"1\"}}", "{\"t\":{\"0\":1.5}}", "{bad", "earliest", ""] {
        // A last line that is empty is no line.
        let text = told(&recover(&v1(&format!("{bad}\n")), 1).unwrap_err());
        let expected =
            format!(r#"Line 3: Expected e.g. {{"topicA":{{"0":23,"1":-1}},"topicB":{{"0":-2}}}}, got {bad}"#);
        assert!(text.contains(&expected), "{text}");
    }
    let error = open(directory(&[("sources/0/0", "\0v1\n{\"t\":{\"0\":-1}}")]).path()).initial_offsets(0);
    assert!(told(&error.unwrap_err()).contains("-1 of t-0"));
}

#[test]
fn every_prefix_of_an_offsets_file_is_an_error() {
    let one = v1(r#"{"a":{"0":23,"1":5},"b":{"0":0}}"#);
    let three = v1("{\"a\":{\"0\":23}}\n-\n{\"b\":{\"10\":7}}");
    let long = "v1\n\n{\"t\":{\"0\":5}}";
    for (text, sources) in [(one.as_str(), 1), (&three, 3), (long, 1)] {
        assert!(recover(text, sources).is_ok());
        for length in 0..text.len() {
            let prefix = &text[..length];
            assert!(recover(prefix, sources).is_err(), "{prefix:?}");
        }
    }
}

#[test]
fn every_prefix_of_initial_offsets_is_an_error() {
    let path = Path::new("sources/0/0");
    for text in ["\0v1\n{\"t\":{\"0\":1}}", "\0{\"t\":{\"0\":1}}"] {
        assert_eq!(initial_offsets::parse(path, text.as_bytes()).unwrap(), offsets(&[("t", 0, 1)]));
        for length in 0..text.len() {
            assert!(initial_offsets::parse(path, &text.as_bytes()[..length]).is_err(), "{length}");
        }
    }
    let parse = |text: &str| initial_offsets::parse(path, text.as_bytes()).map_err(|error| error.condition());
    assert_eq!(parse("\0v7\n{}"), Err("INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION"));
    assert_eq!(parse("\0v2\n{}"), Err("INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION"));
    assert_eq!(parse(""), Err("INCOMPLETE_LOG_FILE"));
    assert_eq!(parse("\0v1\n"), Err("INCOMPLETE_LOG_FILE"));
    assert_eq!(parse("v1\n{}"), Err("MALFORMED_LOG_FILE"), "the first byte is skipped, whatever it is");
    assert_eq!(parse("\0v1\n{}"), Ok(offsets(&[])), "no partition matched yet");
}

#[test]
fn bytes_that_are_no_text_are_an_error_with_their_line() {
    let error = OffsetsEntry::parse(Path::new("0"), b"v1\n\n{\"\xff\":{}}", 1).unwrap_err();
    assert!(matches!(error.source, CheckpointErrorKind::Malformed { line: 3, .. }), "{error:?}");
}

fn own() -> OwnEntry {
    let source = OwnSource {
        topic_ids: [("t".to_owned(), TopicId([7; 16]))].into(),
        leader_epochs: [(TopicPartition::new("t", 0), 3)].into(),
        new_starts: offsets(&[("t", 1, 4)]),
    };
    OwnEntry { sources: vec![source] }
}

/// Ignored, it would have the batch before it run again, and then be found in the way.
#[test]
fn a_batch_that_is_no_file_is_damage_and_not_an_older_position() {
    let offsets = "v1\n\n{\"t\":{\"0\":1}}";
    let files = [("offsets/0", offsets), ("commits/0", "v1\n{}"), ("offsets/1", offsets), ("commits/1", "v1\n{}")];
    for name in ["offsets/1", "offsets/2", "commits/1", "commits/2", "offsets/.1.crc", "ottla/offsets/1"] {
        for make in [make_dangling_link, make_pipe] {
            let directory = directory(&files);
            let path = directory.path().join(name);
            let _ = fs::remove_file(&path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            make(&path);
            let error = open(directory.path()).recover(1).unwrap_err();
            assert_eq!(
                (error.condition(), error.path.as_path()),
                ("CHECKPOINT_IO", path.as_path()),
                "{}",
                told(&error)
            );
        }
    }
    let directory = directory(&[]);
    fs::remove_file(directory.path().join("metadata")).unwrap();
    make_pipe(&directory.path().join("metadata"));
    let error = Checkpoint::open(directory.path().to_str().unwrap()).unwrap_err();
    assert!(error.source.source().unwrap().to_string().contains("it is no file"), "{}", told(&error));
}

fn make_dangling_link(path: &Path) {
    std::os::unix::fs::symlink("/nonexistent", path).unwrap();
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn with_own(directory: &Path) -> (OffsetsEntry, String) {
    let checkpoint = open(directory);
    let entry = OffsetsEntry { own: Some(own()), ..entry(&checkpoint, vec![Some(offsets(&[("t", 0, 9)]))]) };
    checkpoint.write_offsets(0, &entry).unwrap();
    (entry, fs::read_to_string(directory.join("ottla/offsets/0")).unwrap())
}

#[test]
fn our_own_file_is_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let (entry, text) = with_own(directory.path());
    assert!(text.starts_with("{\"version\":1,\"offsetsCrc32c\":"), "{text}");
    let checkpoint = open(directory.path());
    assert_eq!(checkpoint.recover(1).unwrap(), Recovered::Pending { batch_id: 0, entry, before: None });
    assert_eq!(checkpoint.warnings(), [""; 0]);
}

#[test]
fn our_own_file_that_does_not_fit_is_left_out_with_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let (mut entry, text) = with_own(directory.path());
    entry.own = None;
    let number = text.split(&[':', ','][..]).nth(3).unwrap();
    let mut changed: Vec<(String, &str)> = (0..text.len()).map(|at| (text[..at].to_owned(), "damaged")).collect();
    changed.extend([
        (text.replace(number, "1"), "somebody else wrote"),
        (text.replace(":3}", ":3000000000}"), "no leader epoch"),
        (text.replace("BwcH", "B"), "the id of 't'"),
        (text.replace("\"sources\":[", "\"sources\":[{},"), "has not 1 sources"),
        (text.replace("newStarts", "x"), "newStarts"),
    ]);
    for (text, part) in changed {
        fs::write(directory.path().join("ottla/offsets/0"), &text).unwrap();
        let checkpoint = open(directory.path());
        let expected = Recovered::Pending { batch_id: 0, entry: entry.clone(), before: None };
        assert_eq!(checkpoint.recover(1).unwrap(), expected, "{text}");
        let warnings = checkpoint.warnings();
        assert_eq!(warnings.len(), 1, "{text}");
        assert!(warnings[0].contains("ottla/offsets/0 is not used") && warnings[0].contains(part), "{warnings:?}");
        assert!(warnings[0].contains("offsets/0 is taken as it is, without topic ids"), "{warnings:?}");
    }
    fs::write(directory.path().join("ottla/offsets/0"), text.replace("\"version\":1", "\"version\":2")).unwrap();
    assert_eq!(open(directory.path()).recover(1).unwrap_err().condition(), "CHECKPOINT_OWN_VERSION");
}

fn any_offsets() -> impl Strategy<Value = Offsets> {
    let topic = prop_oneof![
        Just("t".to_owned()),
        "[a-zA-Z0-9._-]{1,20}",
        // No broker has such names; a file may.
        "\\PC{1,8}",
        Just("a\"b\\\n\t\u{2028}ä".to_owned()),
    ];
    proptest::collection::btree_map((topic, 0..i32::MAX), 0..i64::MAX, 0..6).prop_map(|map| {
        map.into_iter().map(|((topic, index), offset)| (TopicPartition::new(topic, index), offset)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_written_is_read(
        sources in proptest::collection::vec(proptest::option::of(any_offsets()), 1..4),
        ids in proptest::collection::btree_map("\\PC{1,8}", any::<[u8; 16]>().prop_map(TopicId), 0..4),
        epochs in proptest::collection::btree_map(0..100i32, 0..i32::MAX, 0..4),
        (watermark, timestamp) in (0..i64::MAX, 0..i64::MAX),
    ) {
        let metadata = OffsetsMetadata { batch_watermark_ms: watermark, batch_timestamp_ms: timestamp, conf: Map::new() };
        let text = OffsetsEntry { metadata: Some(metadata.clone()), sources: sources.clone(), own: None };
        let path = Path::new("offsets/0");
        let read = OffsetsEntry::parse(path, text.write().as_bytes(), sources.len()).unwrap();
        prop_assert_eq!(&read, &text);
        for offsets in sources.iter().flatten() {
            let read = initial_offsets::parse(path, initial_offsets::write(offsets).as_bytes()).unwrap();
            prop_assert_eq!(&read, offsets);
        }
        let epochs: BTreeMap<_, _> =
            epochs.into_iter().map(|(index, epoch)| (TopicPartition::new("t", index), epoch)).collect();
        let source = |offsets: &Option<Offsets>| OwnSource {
            topic_ids: ids.clone(),
            leader_epochs: epochs.clone(),
            new_starts: offsets.clone().unwrap_or_default(),
        };
        let own = OwnEntry { sources: sources.iter().map(source).collect() };
        let written = own.write(b"offsets");
        let read = OwnEntry::parse(path, written.as_bytes(), b"offsets", sources.len()).unwrap();
        prop_assert_eq!(read, Ok(own));
    }

    #[test]
    fn bytes_from_anywhere_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "v[0-9]\\PC{0,40}\n\\PC{0,40}\n\\PC{0,40}") {
        for bytes in [bytes.as_slice(), text.as_bytes()] {
            let path = Path::new("0");
            drop(OffsetsEntry::parse(path, bytes, 1));
            drop(initial_offsets::parse(path, bytes));
            drop(commit_log::parse(path, bytes));
            drop(OwnEntry::parse(path, bytes, b"", 1));
        }
    }
}

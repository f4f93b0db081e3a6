//! `ottla dump` next to Kafka's own DumpLogSegments: our lines, put into its words, are its lines.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Codec, JavaClient, KafkaCluster, Ottla, Produce, ProducerRecord, Recipe, java_or_skip, kafka_or_skip};

/// What a line of Kafka's tool is held against.
#[derive(Debug)]
enum Expected {
    Line(String),
    /// Text follows that Java doesn't show as it is, or that only Java knows.
    Begins(String),
}

/// A log of one partition as both tools show it. Says what was compared: our lines of batches, and of records.
#[track_caller]
fn compare(files: &[PathBuf]) -> (Vec<Value>, Vec<Value>) {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let args = ["--print-data-log", "--files", &names.join(",")];
    let theirs = JavaClient::local_tool("org.apache.kafka.tools.DumpLogSegments", &args).expect_ok();
    let theirs = entries(&theirs);
    let (batches, records) = (dump(&["--headers-only"], files), dump(&[], files));
    let mut ours = Vec::new();
    let mut rest = &records[..];
    for batch in &batches {
        ours.push(batch_entry(batch));
        let place = |row: &Value| (row["file"].clone(), row["position"].clone());
        let count = rest.iter().take_while(|record| place(record) == place(batch)).count();
        let (of_batch, after) = rest.split_at(count);
        assert!(batch["count"] == count || batch["count"].is_null(), "{count} records: {batch}");
        ours.extend(of_batch.iter().map(|record| record_entry(record, timestamp_type(batch))));
        rest = after;
    }
    assert!(rest.is_empty(), "records of no batch: {rest:?}");
    assert_eq!(ours.len(), theirs.len(), "{names:?}\nours: {ours:#?}\nKafka's: {theirs:#?}");
    for (ours, theirs) in ours.iter().zip(&theirs) {
        match ours {
            Expected::Line(line) => assert_eq!(line, theirs, "{names:?}"),
            Expected::Begins(start) => assert!(theirs.starts_with(start), "{names:?}: {start:?} {theirs:?}"),
        }
    }
    (batches, records)
}

#[track_caller]
fn dump(flags: &[&str], files: &[PathBuf]) -> Vec<Value> {
    let files = files.iter().map(|file| file.display().to_string());
    let run = Ottla::new(["dump"].into_iter().chain(flags.iter().copied()).map(str::to_owned).chain(files)).run();
    rows(&run.expect_code(0).text())
}

#[track_caller]
fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// The lines of Kafka's tool that show a batch or a record; a line feed in a value makes lines of its own.
fn entries(text: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        let first = ["baseOffset: ", "offset: ", "| offset: ", "Dumping ", "Log starting offset: ", "Found "];
        match entries.last_mut().filter(|_| !first.iter().any(|word| line.starts_with(word))) {
            Some(last) => *last = format!("{last}\n{line}"),
            None => entries.push(line.to_owned()),
        }
    }
    entries.retain(|entry| {
        entry.contains("offset: ") && !entry.starts_with("Log starting") || entry.contains("baseOffset")
    });
    // The checksum of a message inside a compressed one.
    entries
        .iter()
        .map(|entry| match entry.split_once(" isValid: true crc: ") {
            Some((before, after)) => format!("{before}{}", after.trim_start_matches(|c: char| c.is_ascii_digit())),
            None => entry.clone(),
        })
        .collect()
}

fn timestamp_type(row: &Value) -> &'static str {
    match row["timestampType"].as_i64() {
        Some(0) => "CreateTime",
        Some(1) => "LogAppendTime",
        _ => "NoTimestampType",
    }
}

fn batch_entry(row: &Value) -> Expected {
    let common = format!(
        "position: {} {}: {} size: {} magic: {} compresscodec: {} crc: {} isvalid: {}",
        row["position"],
        timestamp_type(row),
        row["maxTimestamp"],
        row["size"],
        row["magic"],
        row["codec"].as_str().expect("a codec"),
        row["crc"],
        row["crcValid"]
    );
    if row["magic"] != 2 {
        return Expected::Line(format!("offset: {} {common}", row["lastOffset"]));
    }
    let horizon = match row["deleteHorizonMs"].as_i64() {
        Some(horizon) => format!("OptionalLong[{horizon}]"),
        None => "OptionalLong.empty".to_owned(),
    };
    let before = [
        "baseOffset",
        "lastOffset",
        "count",
        "baseSequence",
        "lastSequence",
        "producerId",
        "producerEpoch",
        "partitionLeaderEpoch",
        "isTransactional",
        "isControl",
    ]
    .map(|name| format!("{name}: {}", row[name]))
    .join(" ");
    Expected::Line(format!("{before} deleteHorizonMs: {horizon} {common}"))
}

/// Kafka's tool shows the batch's type of timestamps with each record; a message of magic 0 in one of magic 1 has another.
fn record_entry(row: &Value, timestamp_type: &str) -> Expected {
    let size = |name: &str| row[name].as_i64().unwrap_or(-1);
    let mut line = format!(
        "| offset: {} {}: {} keySize: {} valueSize: {}",
        row["offset"],
        timestamp_type,
        row["timestamp"],
        size("keySize"),
        size("valueSize")
    );
    if row["magic"] == 2 {
        let keys: Vec<&str> =
            row["headers"].as_array().into_iter().flatten().filter_map(|header| header["key"].as_str()).collect();
        line += &format!(" sequence: {} headerKeys: [{}]", row["sequence"], keys.join(","));
    }
    if row["isControl"] == true {
        return match row["controlType"].as_str().expect("a control record has a type") {
            kind @ ("ABORT" | "COMMIT") => {
                let epoch = &row["coordinatorEpoch"];
                Expected::Line(format!("{line} endTxnMarker: {kind} coordinatorEpoch: {epoch}"))
            }
            _ => Expected::Begins(line),
        };
    }
    for (name, label) in [("key", "key"), ("value", "payload")] {
        if !row[format!("{name}Encoding")].is_null() {
            return Expected::Begins(format!("{line} {label}: "));
        }
        if let Some(text) = row[name].as_str() {
            line += &format!(" {label}: {text}");
        }
    }
    Expected::Line(line)
}

/// A folder with copies of the segments as they are now.
fn copied(kafka: &KafkaCluster, topic: &str) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = Vec::new();
    for segment in kafka.nodes()[0].segments(topic, 0) {
        let copy = folder.path().join(segment.file_name().expect("a name"));
        fs::copy(&segment, &copy).unwrap_or_else(|e| panic!("{}: {e}", segment.display()));
        files.push(copy);
    }
    (folder, files)
}

#[test]
fn segments_of_every_codec_are_shown_as_kafkas_own_tool_shows_them() {
    let Some(kafka) = kafka_or_skip("ottla dump: every codec") else { return };
    for codec in Codec::ALL {
        let topic = kafka.create_topic(&format!("dump-{}", codec.name()), 1, &[]);
        let odd = [
            ProducerRecord::new("k", "v").at(1_000),
            ProducerRecord { partition: Some(0), ..ProducerRecord::default() },
            ProducerRecord::new("", "").header("h", None).header("h", Some(b"")).header("i", Some(&[0, 255])),
            ProducerRecord::value("two\nlines \"and\" 🚀"),
            ProducerRecord::new([0xff, 0xfe], [0x80]),
        ];
        kafka.produce(&Produce::records(&topic, odd).codec(codec));
        kafka.produce(&Produce::generated(&topic, 500).codec(codec).not_idempotent().values("plain", 50));
        let many = Produce::generated(&topic, 2_000).codec(codec).keys("key").values("v", 100).headers(2);
        kafka.produce(&many.batch_bytes(20_000).timestamps(1_700_000_000_000, -3));
        let (_folder, files) = copied(kafka, &topic);
        let (batches, records) = compare(&files);
        assert_eq!(records.len(), 2_505);
        assert!(batches.len() > 5 && batches.iter().all(|batch| batch["codec"] == codec.name()), "{batches:?}");
        assert!(batches.iter().any(|batch| batch["producerId"] == -1), "a batch that is not idempotent");
        assert!(batches.iter().any(|batch| batch["baseSequence"].as_i64() > Some(0)), "a batch that goes on");
        assert_eq!((&records[4]["key"], &records[4]["keyEncoding"]), (&"//4=".into(), &"base64".into()));
    }
}

#[test]
fn transactions_compaction_and_append_time_are_shown_as_kafkas_own_tool_shows_them() {
    let Some(kafka) = kafka_or_skip("ottla dump: transactions, compaction, LogAppendTime") else { return };
    for recipe in [Recipe::Txm, Recipe::Open, Recipe::Del, Recipe::Lat] {
        let made = recipe.make(kafka);
        let (_folder, files) = copied(kafka, &made.topic);
        let (batches, records) = compare(&files);
        let control: Vec<&str> = records.iter().filter_map(|record| record["controlType"].as_str()).collect();
        match recipe {
            Recipe::Txm => {
                assert_eq!(control, ["COMMIT", "ABORT", "COMMIT"]);
                assert!(batches.iter().all(|batch| batch["isTransactional"] == true));
            }
            Recipe::Lat => assert!(records.iter().all(|record| record["timestampType"] == 1)),
            _ => assert!(control.is_empty() && !records.is_empty()),
        }
    }
}

#[test]
fn a_delete_horizon_is_shown_as_kafkas_own_tool_shows_it() {
    let Some(kafka) = kafka_or_skip("ottla dump: a delete horizon") else { return };
    let made = Recipe::Cmp.make(kafka);
    // The cleaner renames its files into place; a look in between finds none.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let (_folder, files) = copied(kafka, &made.topic);
        let (batches, records) = compare(&files);
        let tombstone = records.iter().find(|record| record["key"] == "z" && record["value"].is_null());
        if let Some(horizon) = tombstone.and_then(|record| record["deleteHorizonMs"].as_i64()) {
            assert!(horizon > 1_700_000_000_000 && batches.iter().any(|batch| batch["count"] != 0));
            return;
        }
        assert!(Instant::now() < deadline, "no tombstone has a horizon: {records:?}");
        thread::sleep(Duration::from_millis(500));
    }
}

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol/testdata").join(name)
}

fn index() -> Vec<Value> {
    let text = fs::read(testdata("index.json")).expect("the vectors' index");
    let index: Value = serde_json::from_slice(&text).expect("JSON");
    index["entries"].as_array().expect("entries").clone()
}

#[test]
fn vectors_of_every_format_are_shown_as_kafkas_own_tool_shows_them() {
    let Some(()) = java_or_skip("ottla dump: the vectors") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    // The tool wants the name of a segment.
    let file = folder.path().join("00000000000000000000.log");
    let mut compared = 0;
    for entry in index().iter().filter(|entry| entry["kind"] == "records") {
        let tags = entry["tags"].to_string();
        if tags.contains("java_rejects") {
            continue;
        }
        fs::copy(testdata(entry["bin"].as_str().expect("a name")), &file).expect("copied");
        compare(std::slice::from_ref(&file));
        compared += 1;
    }
    assert!(compared > 80, "only {compared} vectors");
}

/// How much of what is shown of a vector is looked at.
const SHOWN_BYTES_MAX: usize = 4 << 20;

#[test]
fn no_vector_makes_it_panic_and_what_it_shows_before_damage_is_whole() {
    for entry in index().iter().filter(|entry| entry["kind"] == "records" || entry["kind"] == "malformed") {
        let file = testdata(entry["bin"].as_str().expect("a name")).display().to_string();
        for flags in [&["dump"][..], &["dump", "--headers-only"]] {
            // A small vector may hold millions of records: the first of them will do.
            let run =
                Ottla::new(flags.iter().copied().chain([file.as_str()])).close_stdout_after(SHOWN_BYTES_MAX).run();
            assert!(matches!(run.code, Some(0 | 1)), "{file}: {:?} {:?}", run.code, run.stderr);
            let whole_lines = run.stdout.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            rows(&String::from_utf8_lossy(&run.stdout[..whole_lines]));
            if run.stdout.len() < SHOWN_BYTES_MAX {
                assert_eq!(
                    run.code == Some(1),
                    run.stderr.contains(&format!("ottla: {file}: ")),
                    "{file}: {}",
                    run.stderr
                );
            }
        }
    }
}

/// A folder with one file.
struct Sample {
    _folder: tempfile::TempDir,
    file: PathBuf,
}

impl Sample {
    fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("sample.log");
        fs::write(&file, bytes).expect("written");
        Self { _folder: folder, file }
    }

    /// The exit code, the lines, standard error.
    #[track_caller]
    fn dump(&self, flags: &[&str]) -> (i32, Vec<Value>, String) {
        let file = self.file.display().to_string();
        let run = Ottla::new(["dump"].into_iter().chain(flags.iter().copied()).chain([file.as_str()])).run();
        let stderr = run.stderr.replace(&file, "FILE");
        (run.code.expect("it ended by itself"), rows(&run.text().replace(&file, "FILE")), stderr)
    }
}

/// Three batches, and where each begins.
fn three() -> (Vec<u8>, [usize; 3]) {
    let parts = ["v2-none-create", "v2-lz4-create", "v1-none-create"]
        .map(|name| fs::read(testdata(&format!("records/{name}.bin"))).expect("a vector"));
    // Of the old messages one is enough.
    let [first, second, third] = &parts;
    let size = |run: &[u8]| 12 + u32::from_be_bytes(run[8..12].try_into().expect("4 bytes")) as usize;
    let (first, second, third) = (&first[..size(first)], &second[..size(second)], &third[..size(third)]);
    ([first, second, third].concat(), [0, first.len(), first.len() + second.len()])
}

#[test]
fn a_length_beyond_all_limits_is_damage_and_takes_no_memory() {
    let (mut bytes, _) = three();
    bytes[8..12].copy_from_slice(&(i32::MAX - 10).to_be_bytes());
    let (code, rows, stderr) = Sample::new(&bytes).dump(&[]);
    assert_eq!((code, rows.len()), (1, 0));
    assert!(stderr.starts_with("ottla: FILE: byte 8: the batch's length asks for "), "{stderr}");
    let frame = [&(i32::MAX - 10).to_be_bytes()[..], &[0; 100]].concat();
    let (code, _, stderr) = Sample::new(&frame).dump(&["--api", "Fetch", "--version", "13", "--response"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("FILE: frame at byte 0"), "{stderr}");
}

#[test]
fn a_changed_byte_shows_as_a_checksum_that_does_not_hold() {
    let (bytes, [_, second, third]) = three();
    let (code, whole, stderr) = Sample::new(&bytes).dump(&[]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let mut changed = bytes;
    changed[third - 1] ^= 1;
    let sample = Sample::new(&changed);
    let (code, batches, stderr) = sample.dump(&["--headers-only"]);
    let valid: Vec<&Value> = batches.iter().map(|batch| &batch["crcValid"]).collect();
    assert_eq!((code, valid), (1, vec![&Value::Bool(true), &false.into(), &true.into()]));
    assert!(stderr.starts_with(&format!("ottla: FILE: record batch at byte {second}, offsets ")), "{stderr}");
    assert!(stderr.contains(&format!("batch.crc at byte {}: checksum is ", second + 17)), "{stderr}");
    let (code, records, stderr) = sample.dump(&[]);
    let before = records.iter().take_while(|record| record["position"] == 0).count();
    assert_eq!((code, &records[..before]), (1, &whole[..before]));
    assert!(before > 1 && stderr.contains(&format!("record batch at byte {second}, ")), "{stderr}");
    let json = sample.dump(&["--json"]).2;
    let told: Value = serde_json::from_str(json.lines().next().expect("a line")).expect("JSON");
    assert_eq!(told["condition"], "DAMAGED_FILE");
}

#[test]
fn a_broken_header_ends_the_file_with_its_place() {
    let (bytes, [_, second, _]) = three();
    let changes: [(usize, &[u8], &str); 3] =
        [(8, &[0, 0, 0, 0], "batch.batch_length"), (8, &[0xff; 4], "batch.batch_length"), (16, &[3], "batch.magic")];
    for (at, with, field) in changes {
        let mut changed = bytes.clone();
        changed[second + at..second + at + with.len()].copy_from_slice(with);
        let (code, batches, stderr) = Sample::new(&changed).dump(&["--headers-only"]);
        assert_eq!((code, batches.len()), (1, 1), "{stderr}");
        assert!(stderr.contains(&format!(": {field} at byte {}: ", second + at)), "{stderr}");
    }
}

#[test]
fn a_cut_batch_and_zeros_at_the_end_are_no_damage() {
    let (bytes, starts) = three();
    for (whole, (from, to)) in starts.iter().zip(starts[1..].iter().chain([&bytes.len()])).enumerate() {
        for cut in [from + 1, from + 11, from + 16, from + 17, from + 30, to - 1] {
            let (code, batches, stderr) = Sample::new(&bytes[..cut]).dump(&["--headers-only"]);
            assert_eq!((code, batches.len()), (0, whole), "cut at {cut}: {stderr}");
            let warned = stderr.starts_with("ottla: warning: FILE: ") && stderr.contains(&format!("at byte {from}"));
            assert!(warned || stderr.contains(&format!("from byte {from}")), "cut at {cut}: {stderr}");
        }
        let (code, batches, stderr) = Sample::new(&bytes[..*to]).dump(&["--headers-only"]);
        assert_eq!((code, batches.len(), stderr.as_str()), (0, whole + 1, ""));
    }
    for zeros in [1, 16, 17, 100, 3_000_000] {
        let (code, batches, stderr) = Sample::new(&[&bytes[..], &vec![0; zeros]].concat()).dump(&["--headers-only"]);
        assert_eq!((code, batches.len()), (0, 3), "{stderr}");
        assert!(
            stderr.contains(&format!("FILE: {zeros} bytes from byte {} to the end are zero", bytes.len())),
            "{stderr}"
        );
    }
    let (code, _, stderr) = Sample::new(&[&bytes[..], &[0; 3_000], &[1]].concat()).dump(&[]);
    assert!(code == 1 && stderr.contains(&format!("batch.batch_length at byte {}", bytes.len() + 8)), "{stderr}");
}

#[test]
fn files_that_are_no_logs() {
    let (code, lines, stderr) = Sample::new(b"").dump(&[]);
    assert_eq!((code, lines.len(), stderr.as_str()), (0, 0, ""));
    let (code, lines, stderr) = Sample::new(b"a letter to nobody, of more than a few bytes").dump(&[]);
    assert_eq!((code, lines.len()), (1, 0));
    assert!(stderr.contains("batch.magic at byte 16"), "{stderr}");
    // What can't be read doesn't keep the others from being read.
    let sample = Sample::new(&three().0);
    let file = sample.file.display().to_string();
    let run = Ottla::new(["dump", "--headers-only", "no such file", &file]).run().expect_code(1);
    assert_eq!(rows(&run.text()).len(), 3);
    assert!(run.stderr.starts_with("ottla: no such file: "), "{}", run.stderr);
}

#[test]
fn a_claimed_length_takes_no_memory() {
    let (mut bytes, _) = three();
    // Within the limit, and more than there is.
    bytes[8..12].copy_from_slice(&(255i32 << 20).to_be_bytes());
    let sample = Sample::new(&bytes);
    let script = format!(
        "ulimit -v 300000; exec '{}' dump --parallelism 1 '{}'",
        Ottla::path().display(),
        sample.file.display()
    );
    let output = std::process::Command::new("sh").args(["-c", &script]).output().expect("a shell");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.contains("is cut"), "{:?} {stderr}", output.status);
}

#[test]
fn a_reader_that_leaves_ends_it() {
    let (bytes, _) = three();
    let many: Vec<u8> = bytes.iter().copied().cycle().take(bytes.len() * 500).collect();
    let sample = Sample::new(&many);
    let run = Ottla::new(["dump", &sample.file.display().to_string()]).close_stdout_after(1_000).run();
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.starts_with("ottla: writing the output: "), "{}", run.stderr);
}

#[test]
fn frames_of_every_api_and_version_are_shown_with_the_schemas_names() {
    let apis = [
        "Fetch",
        "ListOffsets",
        "Metadata",
        "OffsetCommit",
        "OffsetFetch",
        "FindCoordinator",
        "ApiVersions",
        "OffsetForLeaderEpoch",
    ];
    let (mut files, mut shown) = (0, 0);
    for entry in index().iter().filter(|entry| entry["kind"] == "api") {
        let json = fs::read(testdata(entry["json"].as_str().expect("a name"))).expect("a file");
        let doc: Value = serde_json::from_slice(&json).expect("JSON");
        // The answer to an unknown version is of another one than its request, and has no API in its file.
        let (Some(constant), Some(direction)) = (doc["api"].as_str(), doc["direction"].as_str()) else { continue };
        let name = constant.replace('_', "");
        let Some(api) = apis.iter().find(|api| api.eq_ignore_ascii_case(&name)) else { continue };
        let bin = fs::read(testdata(entry["bin"].as_str().expect("a name"))).expect("a file");
        let frames = doc["frames"].as_array().expect("frames");
        let mut versions: Vec<i64> = frames.iter().filter_map(|frame| frame["version"].as_i64()).collect();
        versions.sort_unstable();
        versions.dedup();
        for version in versions {
            let of_version: Vec<&Value> = frames.iter().filter(|frame| frame["version"] == version).collect();
            let mut bytes = Vec::new();
            for frame in &of_version {
                let number = |name: &str| frame[name].as_u64().expect("a number") as usize;
                bytes.extend_from_slice(&bin[number("frame_offset")..][..number("frame_len")]);
            }
            let (flag, number) = (format!("--{direction}"), version.to_string());
            let flags = ["--api", api, "--version", &number, &flag];
            let (code, lines, stderr) = Sample::new(&bytes).dump(&flags);
            assert_eq!((code, stderr.as_str(), lines.len()), (0, "", of_version.len()), "{api} {direction} {version}");
            for (line, frame) in lines.iter().zip(of_version) {
                assert_eq!((&line["body"], &line["version"]), (&frame["body"], &frame["version"]), "{}", frame["name"]);
                assert_eq!(line["correlationId"], frame["correlation_id"]);
                assert_eq!(line["clientId"], frame["client_id"]);
                shown += 1;
            }
            let (code, lines, stderr) = Sample::new(&bytes[..bytes.len() - 1]).dump(&flags);
            assert_eq!((code, lines.len() + 1), (1, shown_in(&bytes)), "{stderr}");
            assert!(stderr.starts_with("ottla: FILE: frame at byte "), "{stderr}");
        }
        files += 1;
    }
    assert!(files >= 16 && shown > 200, "{files} files, {shown} frames");
}

/// How many frames there are.
fn shown_in(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        bytes = &rest[u32::from_be_bytes(*length) as usize..];
        count += 1;
    }
    count
}

#[test]
fn a_damaged_frame_is_told_with_its_place() {
    let flags = ["--api", "Metadata", "--version", "0", "--response"];
    // A correlation id, no brokers, no topics.
    let good = b"\0\0\0\x0c\0\0\0\x01\0\0\0\0\0\0\0\0";
    let short = b"\0\0\0\x08\0\0\0\x01\0\0\0\0";
    for (after, part) in [
        (&short[..], "frame at byte 16: MetadataResponse.topics at byte 28: "),
        (&good[..15], "frame at byte 16: the last 15 bytes are no whole frame"),
        (&[0xff; 4], "frame at byte 16: frame length -1 is outside "),
        (&[0], "frame at byte 16: the last 1 bytes are no whole frame"),
    ] {
        let (code, lines, stderr) = Sample::new(&[&good[..], after].concat()).dump(&flags);
        assert_eq!((code, lines.len()), (1, 1), "{stderr}");
        assert!(stderr.starts_with(&format!("ottla: FILE: {part}")), "{part:?}: {stderr}");
    }
}

#[test]
fn wrong_use_is_one_sentence() {
    let wrong: [(&[&str], &str); 9] = [
        (&["--api", "Fetch"], "either --request or --response"),
        (&["--api", "Fetch", "--request", "--response"], "either --request or --response"),
        (&["--api", "Fetch", "--response"], "--version"),
        (&["--api", "Fetch", "--response", "--version", "19"], "4 to 18"),
        (&["--api", "Fetch", "--request", "--version", "-1"], "4 to 18"),
        (&["--api", "Heartbeat", "--request"], "Fetch, ListOffsets"),
        (&["--request"], "--api"),
        (&["--version", "3"], "--api"),
        (&["--api", "Fetch", "--request", "--headers-only"], "--headers-only"),
    ];
    for (flags, part) in wrong {
        let run = Ottla::new(["dump"].iter().chain(flags).chain(&["/dev/null"])).run().expect_code(2);
        assert!(run.stderr.contains(part) && run.stderr.lines().count() == 1, "{flags:?}: {}", run.stderr);
    }
    assert!(Ottla::new(["dump"]).run().expect_code(2).stderr.contains("<FILE>"));
    assert!(Ottla::new(["dump", "--help"]).run().expect_code(0).text().contains("Examples:"));
}

//! `ottla bench` and the totals of `ottla read --format none`: what was seen is exact, and what it cost is there.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ottla_embedded::EmbeddedBroker;
use ottla_protocol::compression::Compression;
use ottla_protocol::record::{ControlRecord, RecordBatchBuilder, RecordBatchOptions};
use serde_json::Value;
use support::{Finished, Ottla};
use tempfile::TempDir;

use crate::common::{Embedded, batch, condition, read, sentence, totals};

const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
const PURCHASES: &str = "value LIKE '%purchase%'";

/// A batch of 1,000 records of 20 bytes, ten of them purchases.
fn events(compression: Compression) -> Bytes {
    batch(compression, (0..1_000).map(|i| format!("{:<20}", if i % 100 == 7 { "a purchase" } else { "click, click" })))
}

/// A topic with a partition of each codec, ten batches in each.
fn topic() -> Embedded {
    let broker = Embedded::start(EmbeddedBroker::builder());
    broker.create_topic("events", 5, &[]).expect("a topic");
    for (partition, compression) in CODECS.into_iter().enumerate() {
        for _ in 0..10 {
            broker.append("events", partition as i32, events(compression)).expect("appended");
        }
    }
    broker
}

fn fetch(broker: &Embedded, args: &[&str]) -> Finished {
    let common = ["bench", "fetch", "-b", &broker.bootstrap_servers(), "--subscribe", "events"].map(str::to_owned);
    Ottla::new(common.into_iter().chain(args.iter().map(|arg| (*arg).to_owned()))).run()
}

fn decode(args: &[&str], files: &[&Path]) -> Finished {
    let files = files.iter().map(|file| file.display().to_string());
    Ottla::new(["bench", "decode"].iter().chain(args).map(|arg| (*arg).to_owned()).chain(files)).run()
}

/// The object on standard output.
#[track_caller]
fn printed(finished: Finished) -> Value {
    let finished = finished.expect_code(0);
    assert_eq!(finished.stderr, "");
    serde_json::from_str(&finished.text()).unwrap_or_else(|e| panic!("{e}: {}", finished.text()))
}

#[track_caller]
fn number(totals: &Value, name: &str) -> f64 {
    totals[name].as_f64().unwrap_or_else(|| panic!("{name} in {totals}"))
}

/// The rates are those of the numbers beside them.
#[track_caller]
fn check_costs(totals: &Value) {
    let (wall, cpu) = (number(totals, "wallSeconds"), number(totals, "cpuSeconds"));
    assert!(wall > 0.0 && cpu > 0.0 && wall < 60.0 && cpu < 120.0, "{totals}");
    assert!((1e6..1e9).contains(&number(totals, "peakRssBytes")), "{totals}");
    for (rate, expected) in [
        ("valueBytesPerSecond", number(totals, "valueBytes") / wall),
        ("recordsPerSecond", number(totals, "records") / wall),
        ("cpuSecondsPerGigabyte", cpu * 1e9 / number(totals, "valueBytes")),
    ] {
        let rate = number(totals, rate);
        assert!((rate / expected - 1.0).abs() < 1e-6, "{rate} is not {expected}: {totals}");
    }
}

#[test]
fn a_fetch_counts_as_a_read_does() {
    let broker = topic();
    let args = ["--json", "--where", PURCHASES];
    let fetched = printed(fetch(&broker, &args));
    let read_args = ["--subscribe", "events", "--format", "none", "--json", "--where", PURCHASES];
    let read = totals(&read(&broker.bootstrap_servers(), &read_args).run().expect_code(0));
    for totals in [&fetched, &read] {
        assert_eq!(
            ["records", "valueBytes", "hits", "ranges"].map(|name| totals[name].as_u64()),
            [Some(50_000), Some(1_000_000), Some(500), Some(5)],
            "{totals}"
        );
        check_costs(totals);
    }
    let allocations = number(&fetched, "allocationsPerRecord");
    assert!(
        allocations > 0.0 && allocations < 0.1,
        "a read of its own allocates something, and hardly more: {fetched}"
    );
    assert!(number(&read, "allocationsPerRecord") >= allocations, "the whole run: {read}");
}

#[test]
fn a_fetch_commits_nothing_and_says_so() {
    let broker = topic();
    let finished = fetch(&broker, &["-X", "kafka.consumer.commit.groupid=nightly"]).expect_code(0);
    assert!(finished.stderr.contains("nothing is committed to group 'nightly'"), "{}", finished.stderr);
    assert!(broker.committed("nightly", "events", 0).is_none());
    let text = finished.text();
    assert!(text.starts_with("50,000 records (1,000,000 value bytes) in 5 ranges, 50,000 kept; "), "{text}");
    let rates = text.lines().nth(1).expect("a second line");
    for unit in [" MB/s, ", " records/s, ", " CPU s a GB, ", " allocations a record"] {
        assert!(rates.contains(unit), "{rates}");
    }
}

#[test]
fn a_read_that_prints_nothing_prints_its_rates() {
    let broker = topic();
    let lines = |format: &str| {
        let args = ["--subscribe", "events", "--where", PURCHASES, "--format", format];
        let finished = read(&broker.bootstrap_servers(), &args).run().expect_code(0);
        finished.stderr.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines("value").len(), 1);
    let lines = lines("none");
    assert!(lines[0].starts_with("50,000 records (1,000,000 value bytes) in 5 ranges, 500 kept; "), "{lines:?}");
    assert!(lines[1].ends_with(" allocations a record") && lines.len() == 2, "{lines:?}");
}

/// Segments as a broker names them: `TOPIC-PARTITION/….log`.
fn segment(dir: &TempDir, folder: &str, parts: &[&[u8]]) -> PathBuf {
    let folder = dir.path().join(folder);
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("00000000000000000000.log");
    fs::write(&file, parts.concat()).expect("a segment");
    file
}

#[test]
fn a_decode_visits_every_record_and_allocates_nothing() {
    let dir = TempDir::new().expect("a folder");
    let marker = ControlRecord::Commit { coordinator_epoch: Some(0) };
    let marker = RecordBatchBuilder::transaction_marker(RecordBatchOptions::new(0).producer(7, 0, -1), marker, 0);
    let marker = marker.expect("a marker");
    let batches = CODECS.map(events);
    let parts: Vec<&[u8]> = batches.iter().map(|batch| &batch[..]).chain([&marker[..]]).collect();
    let (events, others) = (segment(&dir, "events-3", &parts), segment(&dir, "others-0", &parts[..1]));

    let decoded = printed(decode(&["--json", "--where", PURCHASES], &[&events, &others]));
    assert_eq!(
        ["records", "valueBytes", "hits", "batches"].map(|name| decoded[name].as_u64()),
        [Some(6_000), Some(120_000), Some(60), Some(7)],
        "markers are no records: {decoded}"
    );
    let bytes = parts.concat().len() + parts[0].len();
    assert_eq!(decoded["fileBytes"].as_u64(), Some(bytes as u64));
    assert!(number(&decoded, "inflatedBytes") > 6_000.0 * 20.0, "{decoded}");
    assert_eq!(number(&decoded, "allocationsPerRecord"), 0.0, "{decoded}");
    check_costs(&decoded);

    let partitions = printed(decode(&["--json", "--where", "topic = 'events' AND partition = 3"], &[&events, &others]));
    assert_eq!(partitions["hits"], 5_000);

    let text = decode(&[], &[&others]).expect_code(0).text();
    assert!(text.starts_with("1,000 records (20,000 value bytes) in 1 batch of 1 file, "), "{text}");
}

#[test]
fn what_a_decode_leaves_out_and_what_it_refuses() {
    let dir = TempDir::new().expect("a folder");
    let whole = events(Compression::Gzip);
    for (what, tail) in [("cut", &whole[..whole.len() - 1]), ("zeros", &[0; 100]), ("a few zeros", &[0; 5])] {
        let file = segment(&dir, "events-0", &[&whole, tail]);
        let finished = decode(&["--json"], &[&file]).expect_code(0);
        let decoded: Value = serde_json::from_str(&finished.text()).expect("totals");
        assert_eq!(decoded["records"], 1_000, "{what}");
        let warned = totals(&finished)["warning"].as_str().unwrap_or_default().to_owned();
        let left_out = format!("{} bytes from byte {} on are no whole batch", tail.len(), whole.len());
        assert!(warned.contains(&left_out), "{what}: {warned}");
    }
    let mut damaged = whole.to_vec();
    *damaged.last_mut().expect("bytes") ^= 1;
    for (what, parts) in [("a checksum", [&whole[..], &damaged]), ("no batch", [&whole[..], &[b'x'; 100]])] {
        let file = segment(&dir, "events-0", &parts);
        let finished = decode(&["--json"], &[&file]).expect_code(1);
        let (condition, error) = condition(&finished);
        assert_eq!(condition, "DAMAGED_FILE", "{what}");
        assert!(error.contains(&format!("byte {}", whole.len())) || what == "no batch", "{what}: {error}");
        assert_eq!(finished.text(), "", "{what}");
    }
    let missing = dir.path().join("missing.log");
    assert!(sentence(&decode(&[], &[&missing]).expect_code(1)).contains("missing.log"));
    let (_, error) = condition(&decode(&["--json", "--where", "value LIKE"], &[&missing]).expect_code(2));
    assert!(error.starts_with("--where: "), "{error}");
    assert!(sentence(&decode(&[], &[]).expect_code(2)).contains("<FILE>"));
    assert!(sentence(&Ottla::new(["bench", "fetch", "-b", "h:1"]).run().expect_code(2)).contains("subscribe"));
}

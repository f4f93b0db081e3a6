//! Reported faults of other readers, area D: what is in a log and how it comes back. The pure ones are tests of the record
//! layer; here are those that need a broker.

use ottla_embedded::messages::ApiKey;
use ottla_embedded::{Action, EmbeddedBroker, PartitionError};
use ottla_protocol::compression::Compression;
use ottla_protocol::record::RecordBatchOptions;
use support::{
    Codec, ConsumedRecord, Finished, Isolation, KafkaCluster, Produce, ProducerRecord, Recipe, TimestampType,
    kafka_or_skip,
};

use crate::common::{Embedded, batch, build, isolation_option, offsets, offsets_json, read, rows, totals};

const BOTH: [Isolation; 2] = [Isolation::ReadUncommitted, Isolation::ReadCommitted];

/// A run with `--json` and headers, and its rows.
#[track_caller]
fn run(bootstrap: &str, args: &[&str]) -> (Finished, Vec<ConsumedRecord>) {
    let finished = read(bootstrap, &[args, &["--json", "--include-headers"]].concat()).run().expect_code(0);
    let rows = rows(&finished);
    (finished, rows)
}

fn committed(kafka: &KafkaCluster, group: &str) -> Vec<i64> {
    kafka.group_offsets(group).iter().map(|o| o.offset).collect()
}

#[test]
fn s_d01_a_range_that_ends_in_a_marker() {
    let Some(kafka) = kafka_or_skip("S-D01: a range that ends in a commit marker") else { return };
    let made = Recipe::Txc.make(kafka);
    for isolation in BOTH {
        let start = std::time::Instant::now();
        let group = format!("d01-{isolation:?}");
        let args = ["--subscribe", &made.topic, "-X", isolation_option(isolation), "--commit-group", &group];
        let (_, rows) = run(kafka.bootstrap_servers(), &args);
        assert_eq!((offsets(&rows), committed(kafka, &group)), (vec![0], vec![2]));
        assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    }
}

#[test]
fn s_d02_what_compaction_removed_moves_the_position() {
    let broker = Embedded::start(EmbeddedBroker::builder());
    broker.create_topic("t", 1, &[]).unwrap();
    // A batch of no records, offsets 0 to 9; a gap; 8737 to 8747 with one record left.
    broker.append_raw("t", 0, build::<&str>(RecordBatchOptions::new(0).last_offset(9), []), 10).unwrap();
    broker.append_raw("t", 0, bytes::Bytes::new(), 8737).unwrap();
    let thinned = build(RecordBatchOptions::new(8737).last_offset(8747), [(8738, "left")]);
    broker.append_raw("t", 0, thinned, 8748).unwrap();
    let bootstrap = broker.bootstrap_servers();
    for (from, until, expected) in [
        (0, 10, vec![]),
        (3, 7, vec![]),
        (8747, 8748, vec![]),
        (8738, 8739, vec![8738]),
        (10, 8748, vec![8738]),
        (0, 8748, vec![8738]),
        (9, 8737, vec![]),
    ] {
        let (from, until_json) = (offsets_json("t", &[(0, from)]), offsets_json("t", &[(0, until)]));
        let args = ["--subscribe", "t", "--starting-offsets", &from, "--ending-offsets", &until_json];
        let (_, rows) = run(&bootstrap, &[&args[..], &["--commit-group", &from]].concat());
        assert_eq!(offsets(&rows), expected, "{from} {until}");
        assert_eq!(broker.committed(&from, "t", 0).map(|c| c.offset), Some(until));
    }
}

#[test]
fn s_d03_offsets_that_compaction_left_out_are_no_loss() {
    let Some(kafka) = kafka_or_skip("S-D03: a compacted topic from earliest") else { return };
    let made = Recipe::Cmp.make(kafka);
    let args = ["--subscribe", &made.topic, "--fail-on-data-loss", "true", "--commit-group", "d03"];
    let (finished, rows) = run(kafka.bootstrap_servers(), &args);
    assert_eq!((offsets(&rows), committed(kafka, "d03")), (vec![11, 12, 13], vec![14]));
    assert_eq!((totals(&finished)["lostOffsets"].as_i64(), &rows[1].value), (Some(0), &None));
    assert_eq!(finished.stderr.lines().count(), 1, "no warning: {}", finished.stderr);
}

#[test]
fn s_d04_commits_jump_over_markers_and_aborted_records() {
    let Some(kafka) = kafka_or_skip("S-D04: commits over markers and aborted records") else { return };
    let several = Recipe::Txm.make(kafka);
    let opened = Recipe::Open.make(kafka);
    opened.transaction.as_ref().expect("it is open").abort();
    for isolation in BOTH {
        let committed_only = isolation == Isolation::ReadCommitted;
        for (topic, end, count) in [
            (&several.topic, 12, if committed_only { 6 } else { 9 }),
            (&opened.topic, 7, if committed_only { 5 } else { 6 }),
        ] {
            let group = format!("d04-{topic}-{isolation:?}");
            let args = ["--subscribe", topic, "-X", isolation_option(isolation), "--commit-group", &group];
            let (finished, rows) = run(kafka.bootstrap_servers(), &args);
            assert_eq!((rows.len(), committed(kafka, &group)), (count, vec![end]), "{}", finished.stderr);
            assert_eq!(finished.stderr.lines().count(), 1, "no warning: {}", finished.stderr);
        }
    }
}

#[test]
fn s_d05_limits_are_soft_for_the_first_batch() {
    let Some(kafka) = kafka_or_skip("S-D05: batches larger than the fetch limits") else { return };
    let made = Recipe::Gz.make(kafka);
    let limits = ["-X", "kafka.fetch.max.bytes=1", "-X", "kafka.max.partition.fetch.bytes=1"];
    let (_, rows) = run(kafka.bootstrap_servers(), &[&["--subscribe", &made.topic][..], &limits].concat());
    assert_eq!(offsets(&rows), (0..100).collect::<Vec<_>>());

    let topic = kafka.create_topic("d05-large", 1, &[("max.message.bytes", "10000000")]);
    let large = ProducerRecord::value(vec![b'x'; 5_000_000]);
    let records = [ProducerRecord::value("before"), large, ProducerRecord::value("behind")];
    let produce = Produce::records(&topic, records).flush_every(1);
    kafka.produce(&produce.config("max.request.size", "10000000").config("buffer.memory", "20000000"));
    let (_, rows) = run(kafka.bootstrap_servers(), &["--subscribe", &topic]);
    let sizes: Vec<usize> = rows.iter().map(|r| r.value.as_ref().map_or(0, Vec::len)).collect();
    assert_eq!(sizes, [6, 5_000_000, 6]);
    let (_, again) = run(kafka.bootstrap_servers(), &[&["--subscribe", &topic][..], &limits].concat());
    assert!(again == rows);
}

#[test]
fn s_d06_answers_that_end_in_a_cut_batch() {
    let Some(kafka) = kafka_or_skip("S-D06: reading with limits that cut batches") else { return };
    let made = Recipe::Open.make(kafka);
    for limit in ["1", "71", "130", "141", "150", "200", "300"] {
        let (bytes, partition) =
            (format!("kafka.fetch.max.bytes={limit}"), format!("kafka.max.partition.fetch.bytes={limit}"));
        let args = ["--subscribe", &made.topic, "-X", &bytes, "-X", &partition];
        let (_, rows) = run(kafka.bootstrap_servers(), &args);
        assert_eq!(offsets(&rows), [0, 1, 2, 3, 4, 5], "{limit} bytes");
    }
}

#[test]
fn s_d07_records_before_the_start_of_a_batch_are_not_seen() {
    let Some(kafka) = kafka_or_skip("S-D07: starts in the middle of a batch") else { return };
    let gz = Recipe::Gz.make(kafka);
    let del = Recipe::Del.make(kafka);
    let bounds = |topic: &str, from| offsets_json(topic, &[(0, from)]);
    for (topic, from, expected) in [
        (&gz.topic, bounds(&gz.topic, 57), 57..100),
        (&gz.topic, bounds(&gz.topic, 99), 99..100),
        (&del.topic, "earliest".to_owned(), 60..100),
    ] {
        // Prefixes of all values; one with a literal to search for, one without.
        for filter in
            [None, Some("value LIKE 'gz%'"), Some("offset >= 0"), Some("value LIKE '%9%' OR value IS NOT NULL")]
        {
            let mut args = vec!["--subscribe", topic, "--starting-offsets", &from];
            args.extend(filter.iter().flat_map(|filter| ["--where", filter]));
            let (finished, rows) = run(kafka.bootstrap_servers(), &args);
            assert_eq!(offsets(&rows), expected.clone().collect::<Vec<_>>(), "{filter:?}");
            let totals = totals(&finished);
            assert_eq!(
                (totals["records"].as_u64(), totals["hits"].as_u64()),
                (Some(rows.len() as u64), Some(rows.len() as u64))
            );
        }
    }
    // Values before the start match, those behind it don't.
    let from = bounds(&gz.topic, 57);
    let args = ["--subscribe", &gz.topic, "--starting-offsets", &from, "--where", "value = 'gz5'"];
    let (finished, rows) = run(kafka.bootstrap_servers(), &args);
    assert_eq!((rows.len(), totals(&finished)["records"].as_u64()), (0, Some(43)));
}

#[test]
fn s_d12_zstd_frames_without_a_content_size() {
    let Some(kafka) = kafka_or_skip("S-D12: zstd by Java's console producer") else { return };
    let topic = kafka.create_topic("d12", 1, &[]);
    let lines: String = (0..2_000).map(|i| format!("line {i} {}\n", "x".repeat(i % 90))).collect();
    kafka.console_producer(&topic, &lines, &["--compression-codec", "zstd"]);
    let printed = read(kafka.bootstrap_servers(), &["--subscribe", &topic, "--format", "value"]).run().expect_code(0);
    assert!(printed.text() == lines);
}

#[test]
fn s_d13_each_partition_of_an_answer_gets_its_own_bytes() {
    let Some(kafka) = kafka_or_skip("S-D13: several compressed partitions in an answer") else { return };
    let topic = kafka.create_topic("d13", 3, &[]);
    let records = |partition| (0..100).map(move |i| ProducerRecord::value(format!("p{partition} {i}")).to(partition));
    // Partition 1 stays empty.
    kafka.produce(&Produce::records(&topic, records(0).chain(records(2))).codec(Codec::Gzip));
    let (_, rows) = run(kafka.bootstrap_servers(), &["--subscribe", &topic, "--parallelism", "1"]);
    assert!(rows == kafka.consume(&topic, Isolation::ReadCommitted) && rows.len() == 200);
}

#[test]
fn s_d13_an_error_between_two_partitions_shifts_nothing() {
    let broker = Embedded::start(EmbeddedBroker::builder());
    broker.create_topic("t", 4, &[]).unwrap();
    for partition in [0, 1, 3] {
        let values = (0..50).map(|i| format!("p{partition} {i}"));
        broker.append("t", partition, batch(Compression::Gzip, values)).unwrap();
    }
    broker.on(ApiKey::Fetch, |request| match request.index {
        0..3 => Action::PartitionErrors(vec![PartitionError::new("t", 1, 6)]),
        _ => Action::Pass,
    });
    let (_, rows) = run(&broker.bootstrap_servers(), &["--subscribe", "t"]);
    let expected = [0, 1, 3].into_iter().flat_map(|p| (0..50).map(move |i| format!("p{p} {i}")));
    assert!(rows.iter().map(ConsumedRecord::text).eq(expected), "{rows:?}");
}

#[test]
fn s_d14_log_append_time_is_the_time_of_every_record() {
    let Some(kafka) = kafka_or_skip("S-D14: LogAppendTime") else { return };
    let made = Recipe::Lat.make(kafka);
    let (_, rows) = run(kafka.bootstrap_servers(), &["--subscribe", &made.topic]);
    assert!(rows == kafka.consume(&made.topic, Isolation::ReadCommitted));
    let time = rows[0].timestamp_ms;
    assert!(rows.iter().all(|r| (r.timestamp_ms, r.timestamp_type) == (time, TimestampType::LogAppendTime)));
    // The producer's times were 5, 1005 and 2005.
    for (filter, kept) in [
        ("timestamp < 3000".to_owned(), 0),
        (format!("timestamp = {time}"), 3),
        (format!("timestamp > {time}"), 0),
        ("timestampType = 1".to_owned(), 3),
    ] {
        let (_, rows) = run(kafka.bootstrap_servers(), &["--subscribe", &made.topic, "--where", &filter]);
        assert_eq!(rows.len(), kept, "{filter}");
    }
}

#[test]
fn s_d15_null_is_not_empty() {
    let Some(kafka) = kafka_or_skip("S-D15: null and empty") else { return };
    let topic = kafka.create_topic("d15", 1, &[]);
    let record = |key: Option<&str>, value: Option<&str>| ProducerRecord {
        key: key.map(|k| k.as_bytes().to_vec()),
        value: value.map(|v| v.as_bytes().to_vec()),
        ..ProducerRecord::default()
    };
    let headers = record(None, None).header("a", None).header("a", Some(b"")).header("a", Some(b"1")).header("a", None);
    let records = [record(None, Some("")), record(Some(""), None), record(Some(""), Some("")), headers];
    kafka.produce(&Produce::records(&topic, records));
    let (_, rows) = run(kafka.bootstrap_servers(), &["--subscribe", &topic]);
    let empty = || Some(Vec::new());
    let fields: Vec<_> = rows.iter().map(|r| (r.key.clone(), r.value.clone())).collect();
    assert_eq!(fields, [(None, empty()), (empty(), None), (empty(), empty()), (None, None)]);
    let values: Vec<_> = rows[3].headers.iter().map(|(k, v)| (k.as_str(), v.as_deref())).collect();
    assert_eq!(values, [("a", None), ("a", Some(&b""[..])), ("a", Some(b"1")), ("a", None)]);

    for (filter, kept) in [
        ("value IS NULL", vec![1, 3]),
        ("value = ''", vec![0, 2]),
        ("NOT (value = '')", vec![]),
        ("value LIKE '%'", vec![0, 2]),
        ("key IS NOT NULL AND value IS NULL", vec![1]),
        ("headers['a'] = '1'", vec![3]),
        ("headers['b'] IS NULL", vec![0, 1, 2, 3]),
    ] {
        let (_, rows) = run(kafka.bootstrap_servers(), &["--subscribe", &topic, "--where", filter]);
        assert_eq!(offsets(&rows), kept, "{filter}");
    }
}

#[test]
fn s_d16_an_abort_marker_ends_its_own_transaction() {
    let Some(kafka) = kafka_or_skip("S-D16: commit, abort, commit by one producer") else { return };
    let made = Recipe::Txm.make(kafka);
    for (isolation, expected) in
        [("read_committed", vec![0, 1, 2, 8, 9, 10]), ("READ_UNCOMMITTED", vec![0, 1, 2, 4, 5, 6, 8, 9, 10])]
    {
        let option = format!("kafka.isolation.level={isolation}");
        // A batch an answer too, so that the list of aborted transactions comes piece by piece.
        for limit in ["kafka.fetch.max.bytes=1", "kafka.fetch.max.bytes=1000000"] {
            let args = ["--subscribe", &made.topic, "-X", &option, "-X", limit];
            assert_eq!(offsets(&run(kafka.bootstrap_servers(), &args).1), expected);
        }
    }
}

#[test]
fn s_d18_the_fetch_size_is_no_cap_on_answers() {
    let Some(kafka) = kafka_or_skip("S-D18: small and huge fetch sizes") else { return };
    let topic = kafka.create_topic("d18", 20, &[]);
    // 60 MB: more than the memory budget of the last run, and many answers of the first.
    kafka.produce(&Produce::generated(&topic, 60_000).partitions(20).values("v", 1_000));
    let run = |options: &[&str]| {
        let options: Vec<&str> = options.iter().flat_map(|option| ["-X", option]).collect();
        let args = [&["--subscribe", &topic, "--format", "none", "--json"][..], &options].concat();
        totals(&read(kafka.bootstrap_servers(), &args).run().expect_code(0))
    };
    let huge = ["kafka.fetch.max.bytes=2147483647", "kafka.max.partition.fetch.bytes=2147483647"];
    let budget = [&huge[..], &["ottla.memory.bytes=16777216"]].concat();
    for options in [&["kafka.fetch.max.bytes=4194304"][..], &huge, &budget] {
        assert_eq!(run(options)["records"].as_u64(), Some(60_000), "{options:?}");
    }
    for impossible in
        ["kafka.fetch.max.bytes=2147483648", "kafka.fetch.max.bytes=-1", "kafka.max.partition.fetch.bytes=x"]
    {
        let finished = read(kafka.bootstrap_servers(), &["--subscribe", &topic, "-X", impossible]).run().expect_code(2);
        let (name, value) = impossible["kafka.".len()..].split_once('=').expect("an option");
        let said = crate::common::sentence(&finished);
        assert!(said.contains(name) && said.contains(value), "{said}");
    }
}

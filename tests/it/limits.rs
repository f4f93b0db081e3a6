//! What one run may take or lose: memory, time to stop, words on a standard error that is gone, losses beside other failures.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ottla_embedded::messages::ApiKey;
use ottla_embedded::{Action, EmbeddedBroker};
use ottla_protocol::compression::Compression;
use serde_json::Value;
use support::{Ottla, Signal};

use crate::common::{Embedded, batch, read};

/// A topic whose batches are small on the wire and large inflated: all of a partition fits into one answer.
fn compressible(batches: u32) -> Embedded {
    let broker = Embedded::start(EmbeddedBroker::builder());
    broker.create_topic("dense", 2, &[]).expect("a topic");
    let batch = batch(Compression::Zstd, (0..5_000).map(|_| [b'a'; 200]));
    for i in 0..batches {
        broker.append("dense", (i % 2) as i32, batch.clone()).expect("appended");
    }
    broker
}

#[test]
fn what_waits_to_be_written_is_bounded() {
    let broker = compressible(100);
    for format in ["json", "value"] {
        let args = ["--subscribe", "dense", "--format", format, "--json", "--parallelism", "2"];
        let finished = read(&broker.bootstrap_servers(), &args).run().expect_code(0);
        assert_eq!(finished.stdout.iter().filter(|byte| **byte == b'\n').count(), 500_000);
        let totals: Value = serde_json::from_str(finished.stderr.trim()).expect("totals");
        let peak = totals["peakRssBytes"].as_u64().expect("a number");
        assert!(peak < 96 << 20, "{format}: {peak} bytes at the peak");
    }
}

#[test]
fn a_batch_larger_than_the_memory_is_read_and_told() {
    let broker = compressible(8);
    let run = |memory: &str| {
        let memory = format!("ottla.memory.bytes={memory}");
        let args = ["--subscribe", "dense", "--format", "none", "--json", "--parallelism", "2", "-X", &memory];
        let finished = read(&broker.bootstrap_servers(), &args).run().expect_code(0);
        let mut told = finished.stderr.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let totals = told.next_back().expect("totals");
        assert_eq!((totals["records"].as_u64(), totals["valueBytes"].as_u64()), (Some(40_000), Some(8_000_000)));
        told.map(|told| told["warning"].as_str().expect("a warning").to_owned()).collect::<Vec<_>>()
    };
    // Inflated, each has a good megabyte.
    let warnings = run("500000");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("ottla.memory.bytes=500000"), "{warnings:?}");
    assert!(run("64000000").is_empty());
}

#[test]
fn two_hundred_partitions_take_no_more_memory_than_one() {
    let broker = Embedded::start(EmbeddedBroker::builder());
    broker.create_topic("wide", 200, &[]).expect("a topic");
    // Hard to compress, so that the answers are as large as they may be: 200 MB in all.
    let mut state = 7_u64;
    let values: Vec<Vec<u8>> = (0..1_000)
        .map(|_| {
            let value = std::iter::repeat_with(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            });
            value.take(1_000).collect()
        })
        .collect();
    for codec in [Compression::None, Compression::Zstd] {
        let batch = batch(codec, values.iter());
        for partition in 0..200 {
            broker.append("wide", partition, batch.clone()).expect("appended");
        }
        let args = ["--subscribe", "wide", "--format", "none", "--json"];
        let finished = read(&broker.bootstrap_servers(), &args).run().expect_code(0);
        let totals: Value = serde_json::from_str(finished.stderr.trim()).expect("totals");
        let peak = totals["peakRssBytes"].as_u64().expect("a number");
        assert!(peak < 96 << 20, "{codec}: {peak} bytes at the peak");
    }
}

#[test]
fn an_interrupt_does_not_wait_for_the_decoders() {
    let broker = compressible(400);
    for parallelism in ["1", "2"] {
        let args = ["--subscribe", "dense", "--format", "json", "--commit-group", "g", "--parallelism", parallelism];
        let running = read(&broker.bootstrap_servers(), &args).spawn();
        running.await_stdout(1);
        let start = Instant::now();
        running.signal(Signal::Interrupt);
        let finished = running.wait().expect_code(130);
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        assert!(finished.stderr.contains("nothing was committed"), "{}", finished.stderr);
    }
    assert!(broker.committed("g", "dense", 0).is_none());
}

#[test]
fn a_standard_error_that_is_gone_changes_nothing() {
    let broker = compressible(2);
    let run = |args: &str| {
        let script = format!("exec \"$0\" {args} 2>/dev/full >/dev/null");
        let status = Command::new("sh").arg("-c").arg(script).arg(Ottla::path()).stdin(Stdio::null()).status();
        status.expect("sh").code()
    };
    let servers = broker.bootstrap_servers();
    assert_eq!(run(&format!("read -b {servers} --subscribe dense --commit-group g -X queryName=x")), Some(0));
    assert_eq!(broker.committed("g", "dense", 1).expect("an offset").offset, 5_000);
    assert_eq!(run(&format!("read -b {servers} --subscribe nope")), Some(1));
    assert_eq!(run("dump /no/such/file"), Some(1));
    assert_eq!(run("read --nonsense"), Some(2));
}

#[test]
fn a_loss_is_told_whatever_fails_after_it() {
    let broker = compressible(2);
    broker.delete_records("dense", 0, 1_000).expect("deleted");
    broker.on(ApiKey::OffsetCommit, |_| Action::Error(30));
    let from = r#"{"dense":{"0":400,"1":-2}}"#;
    let args = ["--subscribe", "dense", "--format", "none", "--starting-offsets", from, "--commit-group", "g"];
    let args = [&args[..], &["--fail-on-data-loss", "false"]].concat();
    let finished = read(&broker.bootstrap_servers(), &args).run().expect_code(1);
    assert!(finished.stderr.contains("dense-0: [400, 1000) is gone, 600 offsets"), "{}", finished.stderr);
    assert!(finished.stderr.contains("GROUP_AUTHORIZATION_FAILED"), "{}", finished.stderr);

    let finished = read(&broker.bootstrap_servers(), &[&args[..], &["--json"]].concat()).run().expect_code(1);
    let lines: Vec<Value> = finished.stderr.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(lines[0]["warning"].as_str().is_some_and(|warning| warning.contains("is gone")), "{lines:?}");
    assert!(lines.last().is_some_and(|last| last["error"].is_string()), "{lines:?}");
}

#[test]
fn a_configuration_that_never_ends_is_refused() {
    let start = Instant::now();
    let finished = Ottla::new(["topics", "--config", "/dev/zero"]).run().expect_code(2);
    assert!(finished.stderr.contains("/dev/zero"), "{}", finished.stderr);
    assert!(start.elapsed() < Duration::from_secs(30));
}

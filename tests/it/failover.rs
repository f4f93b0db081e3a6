//! Brokers that die or fall silent in the middle of a read: it goes on, and every record is printed once and in order.

use std::time::{Duration, Instant};

use support::{Codec, Finished, Isolation, KafkaCluster, Produce, java_or_skip};

use crate::common::{read, sentence, totals, wait_until};

/// Values `0`, `1`, … of one partition, each once and in order.
#[track_caller]
fn assert_complete(finished: &Finished, count: usize) {
    let mut lines = 0;
    for (i, line) in finished.text().lines().enumerate() {
        assert!(line == i.to_string(), "line {i} is {line:?}");
        lines += 1;
    }
    assert_eq!(lines, count);
}

#[test]
fn a_killed_leader_is_replaced_in_the_middle_of_a_read() {
    let Some(()) = java_or_skip("a read that goes on after SIGKILL of the leader") else { return };
    let kafka = KafkaCluster::builder().nodes(3).start();
    let topic = kafka.create_topic("killed", 1, &[("min.insync.replicas", "1")]);
    let count = 40_000;
    kafka.produce(&Produce::generated(&topic, count).batch_bytes(200));
    let leader = kafka.leaders(&topic)[0];

    // A batch an answer makes it a long read.
    let args = ["--subscribe", &topic, "--format", "value", "--commit-group", "after-the-kill"];
    let args = [&args[..], &["-X", "kafka.fetch.max.bytes=1"]].concat();
    let running = read(kafka.bootstrap_servers(), &args).timeout(Duration::from_secs(180)).spawn();
    running.await_stdout(1_000);
    kafka.node(leader).kill();
    let before = running.stdout_bytes();
    let finished = running.wait().expect_code(0);
    assert_complete(&finished, count as usize);
    assert!(before < finished.stdout.len(), "all was printed before the leader was gone");
    assert_ne!(kafka.leaders(&topic)[0], leader);
    let stored = kafka.group_offsets("after-the-kill");
    assert_eq!((stored[0].offset, stored[0].leader_epoch), (i64::from(count), 0), "the epoch of the last batch");

    // From the followers as well as from the leader that comes back.
    kafka.node(leader).restart();
    let args = ["--subscribe", &topic, "--format", "value"];
    assert_complete(&read(kafka.bootstrap_servers(), &args).run().expect_code(0), count as usize);
}

/// A broker of its own that stands still for a while; the shared one serves other tests meanwhile.
#[test]
fn a_silent_broker_is_waited_for() {
    let Some(()) = java_or_skip("a read across SIGSTOP of the broker") else { return };
    let kafka = KafkaCluster::builder().start();
    let topic = kafka.create_topic("silent", 1, &[]);
    let count = 30_000;
    kafka.produce(&Produce::generated(&topic, count).batch_bytes(200).codec(Codec::Lz4));
    let args = ["--subscribe", &topic, "--format", "value", "--commit-group", "patient"];
    // Shorter than the silence, so that a request times out within it; S-S06: no reason to skip anything.
    let slow = ["-X", "kafka.fetch.max.bytes=1", "-X", "kafka.request.timeout.ms=2000", "--fail-on-data-loss", "false"];
    let running =
        read(kafka.bootstrap_servers(), &[&args[..], &slow].concat()).timeout(Duration::from_secs(120)).spawn();
    running.await_stdout(1_000);
    kafka.node(1).pause();
    std::thread::sleep(Duration::from_secs(5));
    kafka.node(1).resume();
    let finished = running.wait().expect_code(0);
    assert_complete(&finished, count as usize);
    assert_eq!(kafka.group_offsets("patient")[0].offset, i64::from(count));
    assert_eq!(kafka.consume(&topic, Isolation::ReadCommitted).len(), count as usize);

    s_n12_a_broker_that_stays_silent_is_an_error_in_time(&kafka, &topic);
}

fn s_n12_a_broker_that_stays_silent_is_an_error_in_time(kafka: &KafkaCluster, topic: &str) {
    let args =
        ["--subscribe", topic, "--format", "value", "--commit-group", "impatient", "-X", "kafka.fetch.max.bytes=1"];
    let limits =
        ["kafka.request.timeout.ms=1000", "kafka.default.api.timeout.ms=3000", "kafkaConsumer.pollTimeoutMs=3000"];
    let limits: Vec<&str> = limits.iter().flat_map(|limit| ["-X", limit]).collect();
    let running = read(kafka.bootstrap_servers(), &[&args[..], &limits].concat()).spawn();
    running.await_stdout(1_000);
    kafka.node(1).pause();
    let start = Instant::now();
    let finished = running.wait().expect_code(1);
    let took = start.elapsed();
    let said = sentence(&finished);
    assert!(said.contains(&format!("{topic}-0 at offset ")) && said.contains(&kafka.node(1).address()), "{said}");
    assert!(took < Duration::from_secs(12), "{took:?}: {said}");

    // Nor does any other command wait for ever.
    let start = Instant::now();
    for command in [&["lag", "--group", "patient"][..], &["topics"]] {
        let args = [command, &["-b", kafka.bootstrap_servers(), "-X", "kafka.default.api.timeout.ms=1500"]].concat();
        let _ = sentence(&support::Ottla::new(args).run().expect_code(1));
    }
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    kafka.node(1).resume();
    assert_eq!(kafka.group_offsets("impatient"), []);
    wait_until("it serves again", Duration::from_secs(30), || {
        let run = read(kafka.bootstrap_servers(), &["--subscribe", topic, "--format", "none", "--json"]).run();
        run.code == Some(0) && totals(&run)["records"] == 30_000
    });
}

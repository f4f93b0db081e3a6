//! What a query commits to its group, as `kafka-consumer-groups` shows it.

use std::time::Duration;

use ottla_stream::{StreamingQuery, Trigger};
use support::{GroupRow, KafkaCluster, Produce, Recipe, kafka_or_skip};
use tokio::sync::mpsc;

use super::{Memory, committed, options, query};
use crate::common::{block_on, offsets_json, wait_until};

/// Partition, committed offset and lag of a group, by Kafka's own tool.
fn table(kafka: &KafkaCluster, group: &str) -> Vec<(i32, i64, i64)> {
    let row = |r: &GroupRow| (r.partition, r.current_offset.expect("an offset"), r.lag.expect("a lag"));
    kafka.group_table(group).iter().map(row).collect()
}

#[test]
fn s_s11_kafkas_own_tool_shows_no_lag_of_an_idle_query() {
    let Some(kafka) = kafka_or_skip("S-S11: the lag of a query") else { return };
    // Partition 2 stays empty.
    let topic = kafka.create_topic("s11", 3, &[]);
    kafka.produce(&Produce::generated(&topic, 5).partitions(1));
    let checkpoint = tempfile::tempdir().expect("a folder");
    block_on(async {
        let memory = Memory::default();
        let running = memory.start(query(options(kafka, &topic, &[]), checkpoint.path()).commit_group("s11"));
        for batch in 0..5 {
            // Partition 1 has nothing after the second batch.
            kafka.produce(&Produce::generated(&topic, 4).partitions(if batch < 2 { 2 } else { 1 }));
            running.process_all_available().await.expect("it runs");
        }
        assert!(memory.seen().len() >= 5, "{:?}", memory.seen());
        let ends = [(0, 21, 0), (1, 4, 0), (2, 0, 0)];
        assert_eq!(table(kafka, "s11"), ends, "while it runs");
        running.stop().await.expect("it stops");
        assert_eq!(table(kafka, "s11"), ends);
        assert_eq!(running.failed_commits(), 0);
    });
}

#[test]
fn s_s12_the_last_batch_before_a_stop_is_committed() {
    let Some(kafka) = kafka_or_skip("S-S12: a stop right after a batch") else { return };
    let topic = kafka.create_topic("s12", 1, &[]);
    kafka.produce(&Produce::generated(&topic, 9));
    let limited = || options(kafka, &topic, &[("maxOffsetsPerTrigger", "3"), ("kafka.consumer.commit.groupid", "s12")]);
    block_on(async {
        // The group is the only memory.
        let (sender, mut batches) = mpsc::unbounded_channel();
        let running = StreamingQuery::builder([limited()]).foreach_batch(move |_, batch_id| {
            let sent = sender.send(batch_id);
            async move { Ok(sent?) }
        });
        let running = running.start().expect("it starts");
        while batches.recv().await.expect("a batch") < 2 {}
        running.stop().await.expect("it stops");
        assert_eq!(table(kafka, "s12"), [(0, 9, 0)]);

        let memory = Memory::default();
        memory.run(StreamingQuery::builder([limited()])).await.expect("it ends");
        assert_eq!(memory.records(), [], "nothing is repeated");
        kafka.produce(&Produce::generated(&topic, 2));
        memory.run(StreamingQuery::builder([limited()])).await.expect("it ends");
        assert_eq!(
            memory.seen().iter().map(|seen| (seen.batch_id, seen.ranges[0])).collect::<Vec<_>>(),
            [(3, (0, 9, 11))]
        );
        assert_eq!(table(kafka, "s12"), [(0, 11, 0)]);
    });
}

#[test]
fn s_s01_every_range_ends_and_is_committed_whatever_is_invisible() {
    let Some(kafka) = kafka_or_skip("S-S01: batches that begin or end in invisible offsets") else { return };
    let made = Recipe::Txm.make(kafka);
    for (from, until, visible, stored) in [(3, 4, 0, 0), (3, 8, 0, 3), (0, 4, 3, 3), (0, 12, 6, 9), (4, 7, 0, 3)] {
        for (isolation, count) in [("read_committed", visible), ("read_uncommitted", stored)] {
            let group = format!("query-s01-{from}-{until}-{isolation}");
            let (start, limit) = (offsets_json(&made.topic, &[(0, from)]), (until - from).to_string());
            let pairs = [
                ("startingOffsets", start.as_str()),
                ("maxOffsetsPerTrigger", &limit),
                ("kafka.isolation.level", isolation),
            ];
            let checkpoint = tempfile::tempdir().expect("a folder");
            let one = query(options(kafka, &made.topic, &pairs), checkpoint.path()).commit_group(&group);
            // The second batch fails, so that the commit of the first one can be looked at.
            let memory = Memory::failing_at(1);
            let ended = block_on(memory.run(one));
            assert_eq!(ended.is_ok(), until == made.end);
            let first = memory.seen().remove(0);
            assert_eq!((first.ranges, first.records.len()), (vec![(0, from, until)], count), "{isolation}");
            assert_eq!(committed(kafka, &group), [until]);
        }
    }
}

#[test]
fn s_o03_a_commit_is_what_was_processed_and_not_what_was_fetched() {
    let Some(kafka) = kafka_or_skip("S-O03: commits beside transaction markers") else { return };
    let made = Recipe::Txm.make(kafka);
    let read = |limit: &str, group: &str, memory: &Memory| {
        let pairs = [("maxOffsetsPerTrigger", limit), ("kafka.isolation.level", "read_committed")];
        let checkpoint = tempfile::tempdir().expect("a folder");
        let one = query(options(kafka, &made.topic, &pairs), checkpoint.path()).commit_group(group);
        block_on(memory.run(one))
    };
    // Records 0 and 1 are processed, of one record batch with 2; then the query fails.
    let memory = Memory::failing_at(1);
    let error = read("2", "o03-two", &memory).expect_err("batch 1 fails");
    assert_eq!((error.batch_id, error.condition()), (Some(1), "FOREACH_BATCH_FAILED"));
    assert_eq!(memory.seen()[0].records, [(0, 0), (0, 1)]);
    assert_eq!(table(kafka, "o03-two"), [(0, 2, 10)]);
    // All of it: the marker behind the last record counts.
    for limit in ["2", "100"] {
        let (memory, group) = (Memory::default(), format!("o03-all-{limit}"));
        read(limit, &group, &memory).expect("it ends");
        assert_eq!(memory.records(), [0, 1, 2, 8, 9, 10].map(|offset| (0, offset)));
        assert_eq!(table(kafka, &group), [(0, 12, 0)]);
    }
}

/// The broker forgets offsets of a group that has been empty for `offsets.retention.minutes`; here its admin does.
#[test]
fn s_o07_a_checkpoint_is_trusted_when_the_group_is_gone() {
    let Some(kafka) = kafka_or_skip("S-O07: a group that has expired") else { return };
    let topic = kafka.create_topic("o07", 2, &[]);
    kafka.produce(&Produce::generated(&topic, 10).partitions(2));
    let checkpoint = tempfile::tempdir().expect("a folder");
    let latest = || {
        let pairs = [("startingOffsets", "latest")];
        query(options(kafka, &topic, &pairs), checkpoint.path()).commit_group("o07")
    };
    let memory = Memory::default();
    block_on(async {
        // Begins at the end; the records after that count.
        memory.run(latest()).await.expect("it ends");
        kafka.produce(&Produce::generated(&topic, 4).partitions(2));
        memory.run(latest()).await.expect("it ends");
        assert_eq!(committed(kafka, "o07"), [7, 7]);
        kafka.delete_group("o07");
        assert_eq!(kafka.group_table("o07"), []);

        // Produced while nobody runs: `latest` would skip it.
        kafka.produce(&Produce::generated(&topic, 1).partitions(1));
        memory.run(latest()).await.expect("it ends");
        assert_eq!(memory.records(), [(0, 5), (0, 6), (0, 7), (1, 5), (1, 6)]);
        assert_eq!(committed(kafka, "o07"), [8, 7], "every partition, the idle one too");

        // Gone again, and nothing new: the next start gives the group its offsets back.
        kafka.delete_group("o07");
        memory.run(latest()).await.expect("it ends");
        assert_eq!(table(kafka, "o07"), [(0, 8, 0), (1, 7, 0)]);

        // Gone while the query runs.
        let running = memory.start(latest().trigger(Trigger::default()));
        running.process_all_available().await.expect("it runs");
        kafka.delete_group("o07");
        kafka.produce(&Produce::generated(&topic, 1).partitions(1));
        running.process_all_available().await.expect("it runs");
        running.stop().await.expect("it stops");
        assert_eq!(table(kafka, "o07"), [(0, 9, 0), (1, 7, 0)]);

        // Gone while the query runs and has nothing to do: it commits again before the broker would forget.
        let pairs = [("startingOffsets", "latest"), ("ottla.recommitInterval", "300ms")];
        let idle = query(options(kafka, &topic, &pairs), checkpoint.path()).commit_group("o07");
        let running = memory.start(idle);
        running.process_all_available().await.expect("it runs");
        kafka.delete_group("o07");
        wait_until("the group has its offsets again", Duration::from_secs(10), || committed(kafka, "o07") == [9, 7]);
        running.stop().await.expect("it stops");
    });
    assert_eq!(memory.warnings(), [""; 0]);
}

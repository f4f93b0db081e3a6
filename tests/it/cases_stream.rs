//! Reported faults of batch streams, area S: the parts that a bounded read can have.

use ottla_stream::{Error, LossKind};
use support::{Isolation, KafkaCluster, Produce, Recipe, kafka_or_skip};

use crate::common::{
    block_on, isolation_option, offsets, offsets_json, options, process, read, rows, sentence, totals,
};

fn committed(kafka: &KafkaCluster, group: &str) -> Vec<i64> {
    kafka.group_offsets(group).iter().map(|o| o.offset).collect()
}

#[test]
fn s_s01_rows_are_counted_and_every_range_ends() {
    let Some(kafka) = kafka_or_skip("S-S01: ranges that begin or end in invisible offsets") else { return };
    let made = Recipe::Txm.make(kafka);
    for (from, until, visible, stored) in [(3, 4, 0, 0), (3, 8, 0, 3), (0, 4, 3, 3), (0, 12, 6, 9), (4, 7, 0, 3)] {
        for (isolation, count) in [(Isolation::ReadCommitted, visible), (Isolation::ReadUncommitted, stored)] {
            let group = format!("s01-{from}-{until}-{isolation:?}");
            let bounds = [from, until].map(|offset| offsets_json(&made.topic, &[(0, offset)]));
            let args = ["--subscribe", &made.topic, "--starting-offsets", &bounds[0], "--ending-offsets", &bounds[1]];
            let more = ["--json", "-X", isolation_option(isolation), "--commit-group", &group];
            let finished = read(kafka.bootstrap_servers(), &[&args[..], &more].concat()).run().expect_code(0);
            let counted = (totals(&finished)["records"].as_u64(), rows(&finished).len());
            assert_eq!(counted, (Some(count), count as usize), "[{from}, {until}) {isolation:?}");
            assert_eq!(committed(kafka, &group), [until]);
        }
    }
}

#[test]
fn s_s14_an_empty_log_that_starts_above_0() {
    let Some(kafka) = kafka_or_skip("S-S14: a log of which everything was deleted") else { return };
    let made = Recipe::Gz.make(kafka);
    assert_eq!(kafka.delete_records(&made.topic, 0, -1), 100);
    let run = |more: &[&str], group: &str, code| {
        let start = std::time::Instant::now();
        let args = [&["--subscribe", &made.topic, "--commit-group", group], more].concat();
        let finished = read(kafka.bootstrap_servers(), &args).run().expect_code(code);
        assert!(start.elapsed().as_secs() < 5 && finished.stdout.is_empty(), "{:?}", start.elapsed());
        (finished, committed(kafka, group))
    };
    for isolation in ["read_committed", "read_uncommitted"] {
        let option = format!("kafka.isolation.level={isolation}");
        let (finished, stored) = run(&["-X", &option], &format!("s14-{isolation}"), 0);
        assert_eq!(stored, [100]);
        assert_eq!(finished.stderr.lines().count(), 1, "no warning: {}", finished.stderr);
    }
    let from_0 = offsets_json(&made.topic, &[(0, 0)]);
    let gone = format!("{}-0: [0, 100) is gone, 100 offsets; the log holds [100, 100)", made.topic);
    let (finished, stored) = run(&["--starting-offsets", &from_0], "s14-fail", 3);
    assert!(sentence(&finished).ends_with(&gone) && stored.is_empty(), "{}", finished.stderr);
    let (finished, stored) = run(&["--starting-offsets", &from_0, "--fail-on-data-loss", "false"], "s14-go-on", 0);
    assert!(finished.stderr.contains(&format!("ottla: warning: {gone}")), "{}", finished.stderr);
    assert_eq!(stored, [100]);
}

/// The plan is made first, then the log changes, then it is read.
#[test]
fn s_s15_what_goes_between_plan_and_read() {
    let Some(kafka) = kafka_or_skip("S-S15: records that go after the plan was made") else { return };
    for fail in [true, false] {
        let made = Recipe::Gz.make(kafka);
        let flag = fail.to_string();
        let bounds = [10, 100].map(|offset| offsets_json(&made.topic, &[(0, offset)]));
        let pairs = [
            ("subscribe", made.topic.as_str()),
            ("startingOffsets", bounds[0].as_str()),
            ("endingOffsets", bounds[1].as_str()),
            ("failOnDataLoss", flag.as_str()),
        ];
        block_on(async {
            let (options, client) = options(kafka.bootstrap_servers(), &pairs).await;
            let batch = options.plan(&client).await.expect("all of it is there");
            kafka.delete_records(&made.topic, 0, 60);
            let result = process(batch, &client, fail).await;
            match (result, fail) {
                (Err(Error::DataLoss(loss)), true) => {
                    let lost = &loss.lost[0];
                    assert_eq!(
                        (lost.range.from_offset, lost.range.until_offset, lost.kind),
                        (10, 60, LossKind::OutOfRange)
                    );
                    assert_eq!((lost.log_start_offset, lost.log_end_offset), (60, 100));
                }
                (Ok((values, processed)), false) => {
                    assert_eq!(values, (60..100).map(|i| format!("gz{i}")).collect::<Vec<_>>());
                    assert_eq!(
                        processed.lost()[0].to_string(),
                        format!("{}-0: [10, 60) is gone, 50 offsets; the log holds [60, 100)", made.topic)
                    );
                    assert_eq!(processed.offsets_to_commit().values().collect::<Vec<_>>(), [&100]);
                }
                (other, _) => panic!("failOnDataLoss={fail}: {:?}", other.map(|(values, _)| values)),
            }
        });
    }
}

#[test]
fn s_s15_a_topic_that_was_created_again_is_another_one() {
    let Some(kafka) = kafka_or_skip("S-S15: a topic that is created again after the plan was made") else { return };
    for (fail, again) in [(true, 50), (false, 50), (true, 500), (false, 500)] {
        let topic = kafka.create_topic("s15-again", 1, &[]);
        kafka.produce(&Produce::generated(&topic, 100));
        let flag = fail.to_string();
        let from = offsets_json(&topic, &[(0, 80)]);
        let pairs = [("subscribe", topic.as_str()), ("startingOffsets", &from), ("failOnDataLoss", &flag)];
        block_on(async {
            let (options, client) = options(kafka.bootstrap_servers(), &pairs).await;
            let batch = options.plan(&client).await.expect("all of it is there");
            kafka.delete_topic(&topic);
            kafka.create_topic_named(&topic, 1, &[]);
            kafka.produce(&Produce::generated(&topic, again).values("another", 0));
            let result = process(batch, &client, fail).await;
            match (result, fail) {
                (Err(Error::DataLoss(loss)), true) => {
                    let lost = &loss.lost[0];
                    assert_eq!(
                        (lost.range.from_offset, lost.range.until_offset, lost.kind),
                        (80, 100, LossKind::Recreated)
                    );
                }
                (Ok((values, processed)), false) => {
                    assert!(values.is_empty(), "rows outside the plan: {values:?}");
                    let lost = &processed.lost()[0];
                    assert_eq!(
                        (lost.range.from_offset, lost.range.until_offset, lost.kind),
                        (80, 100, LossKind::Recreated)
                    );
                }
                (other, _) => panic!("failOnDataLoss={fail}, {again} records: {:?}", other.map(|(values, _)| values)),
            }
        });
    }
}

#[test]
fn s_s15_the_command_never_prints_a_row_outside_the_plan() {
    let Some(kafka) = kafka_or_skip("S-S15: rows outside the plan") else { return };
    let made = Recipe::Del.make(kafka);
    let bounds = [10, 80].map(|offset| offsets_json(&made.topic, &[(0, offset)]));
    let args = ["--subscribe", &made.topic, "--starting-offsets", &bounds[0], "--ending-offsets", &bounds[1]];
    let args = [&args[..], &["--fail-on-data-loss", "false", "--commit-group", "s15", "--json"]].concat();
    let finished = read(kafka.bootstrap_servers(), &args).run().expect_code(0);
    assert_eq!(offsets(&rows(&finished)), (60..80).collect::<Vec<_>>());
    assert_eq!((totals(&finished)["lostOffsets"].as_i64(), committed(kafka, "s15")), (Some(50), vec![80]));
}

//! How far an epoch of continuous mode says it got: its ranges have no end.

use std::fs;
use std::time::Duration;

use ottla_stream::{NullSink, Trigger};
use support::{Produce, kafka_or_skip};

use super::{committed, options, query};
use crate::common::{block_on, wait_until};

/// The filter rules out a whole partition, and the topic is another one after a while.
#[test]
fn an_epoch_ends_where_the_read_got_to() {
    let Some(kafka) = kafka_or_skip("continuous mode across a topic that is created again") else { return };
    let topic = kafka.create_topic("endless", 2, &[]);
    let group = format!("{topic}-group");
    kafka.produce(&Produce::generated(&topic, 100).partitions(2));
    let checkpoint = tempfile::tempdir().expect("a folder");
    let lenient = options(kafka, &topic, &[("failOnDataLoss", "false")]);
    let filter = "partition = 0".parse().expect("a filter");
    let continuous = query(lenient, checkpoint.path()).filter(filter).commit_group(&group);
    let continuous = continuous.trigger(Trigger::Continuous(Duration::from_secs(5))).sink(NullSink, "null:");
    let until = Duration::from_secs(60);
    block_on(async {
        let running = continuous.start().expect("the query starts");
        wait_until("the first topic is read", until, || committed(kafka, &group).iter().sum::<i64>() == 100);
        kafka.delete_topic(&topic);
        kafka.create_topic_named(&topic, 2, &[]);
        kafka.produce(&Produce::generated(&topic, 40).partitions(2));
        wait_until("the second topic is read", until, || committed(kafka, &group).iter().sum::<i64>() == 40);
        running.stop().await.expect("it stops");
    });
    for file in fs::read_dir(checkpoint.path().join("offsets")).expect("the epochs") {
        let text = fs::read_to_string(file.expect("an entry").path()).expect("UTF-8");
        assert!(!text.contains(&i64::MAX.to_string()), "{text}");
    }
}

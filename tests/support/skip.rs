//! What happens on a machine without Java: the tests fail and say what to install, unless told to leave Kafka out.

use std::io::Write;

use crate::{KafkaCluster, setup};

/// The test binary's shared cluster ([`KafkaCluster::shared`]), or `None` with `OTTLA_WITHOUT_KAFKA=1`; then
/// `left_out`, the thing that is not tested for that, is printed.
///
/// # Panics
/// When Kafka can't be started; the message says what is missing.
#[track_caller]
#[must_use]
pub fn kafka_or_skip(left_out: &str) -> Option<&'static KafkaCluster> {
    java_or_skip(left_out).map(|()| KafkaCluster::shared())
}

/// As [`kafka_or_skip`], for tests that start what they need themselves: clusters of their own, ZooKeeper, or Java's
/// clients against another broker.
///
/// # Panics
/// When Java or Maven are missing; the message says how to get them.
#[track_caller]
#[must_use]
pub fn java_or_skip(left_out: &str) -> Option<()> {
    if std::env::var("OTTLA_WITHOUT_KAFKA").is_ok_and(|v| v == "1") {
        // Past the test runner's capture: what was not tested must be seen when all is green, too.
        let line = format!("left out (OTTLA_WITHOUT_KAFKA=1): {left_out}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
        return None;
    }
    if let Err(missing) = setup::helper_classes() {
        panic!("{missing}. To run the tests that need no Kafka, set OTTLA_WITHOUT_KAFKA=1");
    }
    Some(())
}

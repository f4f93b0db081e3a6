//! S-S06: a broker that says nothing is not one that has nothing.

use std::thread;
use std::time::Duration;

use ottla_stream::Trigger;
use support::{KafkaCluster, Produce, java_or_skip};
use tokio::sync::mpsc;

use super::{Memory, committed, options, query, ranges_of};
use crate::common::block_on;

/// A broker of its own that stands still for a while; the shared one serves other tests meanwhile.
#[test]
fn s_s06_a_silent_broker_loses_nothing() {
    let Some(()) = java_or_skip("S-S06: a query across SIGSTOP of the broker") else { return };
    let kafka = KafkaCluster::builder().start();
    let topic = kafka.create_topic("s06", 1, &[]);
    let count = 4_000;
    kafka.produce(&Produce::generated(&topic, count).batch_bytes(200));
    let all: Vec<(i32, i64)> = (0..i64::from(count)).map(|offset| (0, offset)).collect();
    // A record batch an answer; and requests that time out within the silence.
    let slow = [("failOnDataLoss", "false"), ("kafka.fetch.max.bytes", "1"), ("kafka.request.timeout.ms", "1000")];
    let checkpoint = tempfile::tempdir().expect("a folder");

    block_on(async {
        // Silent for longer than the query waits: an error, and nothing is committed.
        let limits = [("kafkaConsumer.pollTimeoutMs", "2000"), ("kafka.default.api.timeout.ms", "2000")];
        let impatient = options(&kafka, &topic, &[&slow[..], &limits].concat());
        let (sender, mut begun) = mpsc::unbounded_channel();
        let reading = query(impatient, checkpoint.path()).commit_group("s06").foreach_batch(move |batch, _| {
            let sender = sender.clone();
            async move {
                let mut seen = 0;
                batch
                    .for_each(|_| {
                        seen += 1;
                        if seen == 500 {
                            let _ = sender.send(());
                        }
                    })
                    .await?;
                Ok(())
            }
        });
        let running = reading.start().expect("it starts");
        begun.recv().await.expect("a batch");
        kafka.node(1).pause();
        let error = running.await_termination().await.expect_err("the broker is silent");
        kafka.node(1).resume();
        let told = ottla_client::report(&error);
        assert!(!error.condition().contains("DATA_LOSS") && told.contains(&kafka.node(1).address()), "{told}");
        assert_eq!((error.batch_id, committed(&kafka, "s06")), (Some(0), vec![]));

        // The batch is run again; silent once more, for longer than a request may take: it is asked again.
        let patient = options(&kafka, &topic, &slow);
        let memory = Memory::default();
        let (sender, mut begun) = mpsc::unbounded_channel();
        let seen = memory.seen.clone();
        let reading = query(patient, checkpoint.path()).commit_group("s06").trigger(Trigger::AvailableNow);
        let reading = reading.listener(memory.clone()).foreach_batch(move |batch, batch_id| {
            let (sender, seen) = (sender.clone(), seen.clone());
            async move {
                let mut records = Vec::new();
                batch
                    .for_each(|record| {
                        records.push((0, record.offset));
                        if records.len() == 500 {
                            let _ = sender.send(());
                        }
                    })
                    .await?;
                assert_eq!(batch.lost(), []);
                seen.lock().expect("no panic").push(super::Seen { batch_id, ranges: ranges_of(&batch), records });
                Ok(())
            }
        });
        let running = reading.start().expect("it starts");
        begun.recv().await.expect("a batch");
        kafka.node(1).pause();
        thread::sleep(Duration::from_secs(3));
        kafka.node(1).resume();
        running.await_termination().await.expect("it ends");
        assert_eq!(memory.records(), all);
        assert_eq!(memory.warnings(), [""; 0]);
        assert_eq!(committed(&kafka, "s06"), [i64::from(count)]);
    });
}

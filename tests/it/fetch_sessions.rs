//! Long polls in fetch sessions (KIP-227) against a real broker: with a session, without one, and over a restart that forgets it.

use std::collections::BTreeMap;
use std::time::Duration;

use ottla_client::{Client, ClientConfig, FetchTarget, Fetcher, TopicPartition};
use ottla_protocol::compression::Decompressor;
use ottla_protocol::record::RecordBatches;
use support::{KafkaCluster, Produce, java_or_skip};

const PARTITIONS: i32 = 40;

/// Takes what comes until there are `count` records more, each at the next offset of its partition.
async fn take(fetcher: &Fetcher, next: &mut BTreeMap<i32, i64>, count: usize) {
    let (mut taken, mut decompressor) = (0, Decompressor::new());
    while taken < count {
        let fetch = tokio::time::timeout(Duration::from_secs(60), fetcher.next()).await.expect("nothing comes");
        let fetch = fetch.expect("it has no end").expect("no error");
        let next = next.entry(fetch.partition().partition).or_default();
        for batch in RecordBatches::new(fetch.records()) {
            for record in batch.expect("a batch").records(&mut decompressor).expect("records") {
                assert_eq!(record.expect("a record").offset, *next, "each once and in order");
                *next += 1;
                taken += 1;
            }
        }
    }
    assert_eq!(taken, count);
}

#[test]
fn polls_go_on_with_and_without_a_session_and_over_a_restart() {
    let Some(()) = java_or_skip("long polls in fetch sessions") else { return };
    // Room for one session: the second poll gets none, and says everything each time.
    let kafka = KafkaCluster::builder().property("max.incremental.fetch.session.cache.slots", "1").start();
    let topic = kafka.create_topic("polled", PARTITIONS.unsigned_abs(), &[]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut readers = Vec::new();
        // The first by the topic's id, the second by its name.
        for by_id in [true, false] {
            let mut config = ClientConfig::from_bootstrap(kafka.bootstrap_servers()).expect("an address");
            // As long as a broker may take to start on a busy machine.
            config.default_api_timeout = Duration::from_secs(300);
            let client = Client::connect(config).await.expect("a broker");
            let topics = client.topics(std::slice::from_ref(&topic)).await.expect("the topic");
            let topic_id = topics[&topic].topic_id.filter(|_| by_id);
            let target = |partition| FetchTarget {
                partition: TopicPartition::new(&*topic, partition),
                topic_id,
                from_offset: 0,
                until_offset: i64::MAX,
                known_end: 0,
            };
            let fetcher = Fetcher::start(&client, (0..PARTITIONS).map(target).collect());
            readers.push((fetcher, BTreeMap::new()));
            // The first has the only session.
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        for round in 0..4 {
            // Some polls without news.
            tokio::time::sleep(Duration::from_millis(1_200)).await;
            if round == 2 {
                kafka.nodes()[0].restart();
            }
            kafka.produce(&Produce::generated(&topic, 400).partitions(PARTITIONS.unsigned_abs()));
            for (fetcher, next) in &mut readers {
                take(fetcher, next, 400).await;
            }
        }
    });
}

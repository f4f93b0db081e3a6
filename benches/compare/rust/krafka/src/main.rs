//! krafka: a consumer without a group, `assign` and `poll`, on a runtime of one thread. It always checks CRCs.

use compare_common::{Arguments, Count};
use krafka::Kafka;
use krafka::consumer::AutoOffsetReset;
use std::collections::HashMap;
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments = Arguments::parse();
    let topic = &arguments.topic;
    let kafka = Kafka::builder(arguments.bootstrap.clone()).connect().await.expect("a broker");
    let consumer = kafka
        .consumer_without_group()
        .enable_auto_commit(false)
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .fetch_max_bytes(50 << 20)
        .max_partition_fetch_bytes(4 << 20)
        .max_poll_records(100_000)
        .max_buffered_records(500_000)
        .build()
        .await
        .expect("a consumer");
    let partitions = 0..arguments.partitions;
    let mut ends = HashMap::new();
    for partition in partitions.clone() {
        let (_, end) = consumer.fetch_watermarks(topic, partition).await.expect("an end");
        if end > 0 {
            ends.insert(partition, end);
        }
    }
    consumer.assign(topic, partitions.clone().collect()).await.expect("an assignment");
    for partition in partitions {
        consumer.seek_to_beginning(topic, partition).await.expect("a position");
    }
    let mut count = Count::default();
    while !ends.is_empty() {
        for record in consumer.poll(Duration::from_secs(1)).await.expect("records") {
            let value = record.value.as_deref().unwrap_or_default();
            if arguments.visit {
                let headers = record.headers.iter();
                let headers = headers.map(|(name, text)| (name.as_bytes(), text.as_deref().unwrap_or_default()));
                count.visit(record.key.as_deref(), value, record.timestamp, headers);
            } else {
                count.filter(value);
            }
            if ends.get(&record.partition).is_some_and(|end| record.offset + 1 >= *end) {
                ends.remove(&record.partition);
            }
        }
    }
    count.print();
    // Not through the consumer's drop, which waits.
    std::process::exit(0);
}

//! rskafka: `PartitionClient::fetch_records` in a loop, a task for each partition on a runtime of one thread. It always checks CRCs.

use compare_common::{Arguments, Count};
use rskafka::client::ClientBuilder;
use rskafka::client::partition::{OffsetAt, UnknownTopicHandling};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments = Arguments::parse();
    let client = ClientBuilder::new(vec![arguments.bootstrap.clone()]).build().await.expect("a broker");
    let topics = client.list_topics().await.expect("topics");
    let topic = topics.into_iter().find(|topic| topic.name == arguments.topic).expect("the topic");
    let mut tasks = Vec::new();
    for partition in topic.partitions {
        let partition =
            client.partition_client(&arguments.topic, partition, UnknownTopicHandling::Error).await.expect("a leader");
        tasks.push(tokio::spawn(async move {
            let mut count = Count::default();
            let mut position = partition.get_offset(OffsetAt::Earliest).await.expect("a start");
            let end = partition.get_offset(OffsetAt::Latest).await.expect("an end");
            while position < end {
                let (records, _) = partition.fetch_records(position, 1..4 << 20, 500).await.expect("records");
                for found in &records {
                    let record = &found.record;
                    let value = record.value.as_deref().unwrap_or_default();
                    if arguments.visit {
                        let headers = record.headers.iter();
                        let headers = headers.map(|(name, text)| (name.as_bytes(), text.as_slice()));
                        count.visit(record.key.as_deref(), value, record.timestamp.timestamp_millis(), headers);
                    } else {
                        count.filter(value);
                    }
                }
                position = records.last().map_or(position, |found| found.offset + 1);
            }
            count
        }));
    }
    let mut total = Count::default();
    for task in tasks {
        total.add(&task.await.expect("a whole partition"));
    }
    total.print();
}

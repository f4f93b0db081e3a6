//! `ottla topics`: partitions, their leaders, and where their logs begin and end.

use super::{client_config, connect, print, until_interrupted};
use crate::{
    args::{Common, TopicsArgs},
    failure::Failure,
    table::table,
    tell::warn,
};
use ottla_client::{Client, IsolationLevel, NodeId, OffsetSpec, Topic, TopicPartition};
use serde_json::json;
use std::{collections::BTreeMap, time::Duration};

/// Metadata is there at once; offsets need every leader. A leader that can't be reached makes them unknown, not the listing impossible.
const OFFSETS_LIMIT: Duration = Duration::from_secs(10);

pub(crate) async fn run(common: &Common, args: &TopicsArgs) -> Result<(), Failure> {
    let mut config = client_config(common)?;
    config.default_api_timeout = config.default_api_timeout.min(OFFSETS_LIMIT);
    let work = async {
        let client = connect(config).await?;
        let topics = if args.names.is_empty() {
            let mut topics = client.all_topics().await?;
            topics.retain(|_, topic| !topic.is_internal);
            topics
        } else {
            client.topics(&args.names).await?
        };
        let offsets =
            [OffsetSpec::Earliest, OffsetSpec::Latest].map(|spec| offsets(&client, &topics, spec, common.json));
        let [earliest, latest] = offsets;
        let (earliest, latest) = (earliest.await, latest.await);
        print(&if common.json {
            json_lines(&topics, &earliest, &latest)
        } else {
            topic_table(&topics, &earliest, &latest)
        })
    };
    until_interrupted(work, || "interrupted".to_owned()).await
}

type Offsets = BTreeMap<TopicPartition, i64>;

async fn offsets(client: &Client, topics: &BTreeMap<String, Topic>, spec: OffsetSpec, json: bool) -> Offsets {
    let wanted: BTreeMap<TopicPartition, OffsetSpec> =
        partitions(topics).map(|(partition, _)| (partition, spec)).collect();
    match client.list_offsets(&wanted, IsolationLevel::ReadUncommitted).await {
        Ok(found) => found.into_iter().filter_map(|(partition, found)| Some((partition, found.offset?))).collect(),
        Err(error) => {
            if spec == OffsetSpec::Earliest {
                warn(json, format_args!("offsets are not known: {}", ottla_client::report(&error)));
            }
            Offsets::new()
        }
    }
}

fn partitions(topics: &BTreeMap<String, Topic>) -> impl Iterator<Item = (TopicPartition, &ottla_client::Partition)> {
    topics.iter().flat_map(|(name, topic)| {
        topic.partitions.iter().map(move |(index, partition)| (TopicPartition::new(name.clone(), *index), partition))
    })
}

fn topic_table(topics: &BTreeMap<String, Topic>, earliest: &Offsets, latest: &Offsets) -> String {
    let nodes = |nodes: &[NodeId]| nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let number = |number: Option<i64>| number.map_or("-".to_owned(), |number| number.to_string());
    let rows: Vec<Vec<String>> = partitions(topics)
        .map(|(partition, metadata)| {
            vec![
                partition.topic.clone(),
                partition.partition.to_string(),
                metadata.leader.map_or("none".to_owned(), |leader| leader.to_string()),
                metadata.leader_epoch.to_string(),
                nodes(&metadata.replicas),
                nodes(&metadata.in_sync_replicas),
                number(earliest.get(&partition).copied()),
                number(latest.get(&partition).copied()),
            ]
        })
        .collect();
    table(&["TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "EARLIEST", "LATEST"], &rows)
}

fn json_lines(topics: &BTreeMap<String, Topic>, earliest: &Offsets, latest: &Offsets) -> String {
    let nodes = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect::<Vec<_>>();
    partitions(topics)
        .map(|(partition, metadata)| {
            let topic_id = topics.get(&partition.topic).and_then(|topic| topic.topic_id).map(|id| id.to_string());
            let row = json!({
                "topic": partition.topic,
                "topicId": topic_id,
                "partition": partition.partition,
                "leader": metadata.leader.map(|leader| leader.0),
                "leaderEpoch": metadata.leader_epoch,
                "replicas": nodes(&metadata.replicas),
                "isr": nodes(&metadata.in_sync_replicas),
                "earliest": earliest.get(&partition),
                "latest": latest.get(&partition),
            });
            format!("{row}\n")
        })
        .collect()
}

//! `ottla lag`: what a group has committed against the ends of its partitions.

use super::{client_config, connect, print, until_interrupted};
use crate::{
    args::{Common, LagArgs},
    failure::Failure,
    table::table,
    tell::warn,
};
use ottla_client::{Client, IsolationLevel, OffsetSpec, TopicPartition};
use serde_json::json;
use std::collections::BTreeMap;

pub(crate) async fn run(common: &Common, args: &LagArgs) -> Result<(), Failure> {
    let config = client_config(common)?;
    let isolation = config.isolation_level;
    let work = async {
        let client = connect(config).await?;
        let rows = rows(&client, &args.group, common.json).await?;
        if rows.is_empty() {
            return Err(Failure::failed(
                "GROUP_WITHOUT_OFFSETS",
                format!("group '{}' has committed no offset", args.group),
            ));
        }
        print(&if common.json { json_lines(&args.group, &rows) } else { lag_table(&args.group, &rows, isolation) })
    };
    until_interrupted(work, || "interrupted".to_owned()).await
}

/// One partition of the group.
pub(super) struct LagRow {
    pub(super) partition: TopicPartition,
    pub(super) current_offset: i64,
    /// `None` when the topic or partition is gone.
    pub(super) log_end_offset: Option<i64>,
}

impl LagRow {
    pub(super) fn lag(&self) -> Option<i64> {
        Some(self.log_end_offset? - self.current_offset)
    }
}

/// Tells of numbers in a group that are no offsets.
pub(super) fn warn_of(group: &str, not_offsets: &BTreeMap<TopicPartition, i64>, json: bool) {
    for (partition, number) in not_offsets {
        warn(
            json,
            format_args!("group '{group}' holds {number} for {partition}, which is no offset and counts as none"),
        );
    }
}

pub(super) async fn rows(client: &Client, group: &str, json: bool) -> Result<Vec<LagRow>, Failure> {
    let committed = client.committed_offsets(group, None).await?;
    warn_of(group, &committed.not_offsets, json);
    let committed = committed.offsets;
    let topics = client.all_topics().await?;
    let exists = |partition: &TopicPartition| {
        topics.get(&partition.topic).is_some_and(|topic| topic.partitions.contains_key(&partition.partition))
    };
    let wanted: BTreeMap<TopicPartition, OffsetSpec> = committed
        .keys()
        .filter(|partition| exists(partition))
        .map(|partition| (partition.clone(), OffsetSpec::Latest))
        .collect();
    let ends = client.list_offsets(&wanted, client.config().isolation_level).await?;
    Ok(committed
        .into_iter()
        .map(|(partition, committed)| LagRow {
            log_end_offset: ends.get(&partition).and_then(|end| end.offset),
            partition,
            current_offset: committed.offset,
        })
        .collect())
}

pub(super) fn lag_table(group: &str, rows: &[LagRow], isolation: IsolationLevel) -> String {
    let end = match isolation {
        IsolationLevel::ReadUncommitted => "LOG-END-OFFSET",
        IsolationLevel::ReadCommitted => "LOG-END-OFFSET(LSO)",
    };
    let number = |number: Option<i64>| number.map_or("-".to_owned(), |number| number.to_string());
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                group.to_owned(),
                row.partition.topic.clone(),
                row.partition.partition.to_string(),
                row.current_offset.to_string(),
                number(row.log_end_offset),
                number(row.lag()),
            ]
        })
        .collect();
    table(&["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", end, "LAG"], &cells)
}

fn json_lines(group: &str, rows: &[LagRow]) -> String {
    let line = |row: &LagRow| {
        let row = json!({
            "group": group,
            "topic": row.partition.topic,
            "partition": row.partition.partition,
            "currentOffset": row.current_offset,
            "logEndOffset": row.log_end_offset,
            "lag": row.lag(),
        });
        format!("{row}\n")
    };
    rows.iter().map(line).collect()
}

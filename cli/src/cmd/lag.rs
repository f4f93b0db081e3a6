//! `ottla lag`: what a group has committed against the ends of its partitions.

use super::{client_config, connect, print, until_interrupted, warn_of};
use crate::{
    args::{Common, LagArgs},
    failure::Failure,
    table::table,
};
use ottla_client::{Client, IsolationLevel, TopicPartition};
use ottla_stream::{GroupStore, InspectedOffsets, OffsetStore, PartitionOffsets};
use serde_json::json;
use std::collections::BTreeSet;

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

pub(super) async fn rows(client: &Client, group: &str, json: bool) -> Result<Vec<LagRow>, Failure> {
    let store = GroupStore::new(client, group);
    let inspected = InspectedOffsets::of(&store, client, &BTreeSet::new()).await?;
    warn_of(&store.name(), &inspected.not_offsets, json);
    let row = |row: PartitionOffsets| {
        Some(LagRow { partition: row.partition, current_offset: row.stored?.offset, log_end_offset: row.latest })
    };
    Ok(inspected.partitions.into_iter().filter_map(row).collect())
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

//! Consumer groups as Kafka's own tools show them.

use serde_json::{Value, json};

use super::client::{JavaClient, int, text};

/// A group's committed offset for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOffset {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The committed offset: the next to read.
    pub offset: i64,
    /// The leader epoch committed with it; -1 for none.
    pub leader_epoch: i32,
    /// The text committed with it.
    pub metadata: String,
}

impl GroupOffset {
    /// An offset with neither epoch nor metadata.
    #[must_use]
    pub fn new(topic: &str, partition: i32, offset: i64) -> Self {
        Self { topic: topic.to_owned(), partition, offset, leader_epoch: -1, metadata: String::new() }
    }

    pub(super) fn json(&self) -> Value {
        json!({"topic": self.topic, "partition": self.partition, "offset": self.offset, "leaderEpoch": self.leader_epoch,
            "metadata": self.metadata})
    }

    pub(super) fn from_json(row: &Value) -> Self {
        Self {
            topic: text(&row["topic"]),
            partition: int(&row["partition"]) as i32,
            offset: int(&row["offset"]),
            leader_epoch: int(&row["leaderEpoch"]) as i32,
            metadata: text(&row["metadata"]),
        }
    }
}

/// A line of `kafka-consumer-groups --describe`; `None` where it prints `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRow {
    /// GROUP.
    pub group: String,
    /// TOPIC.
    pub topic: String,
    /// PARTITION.
    pub partition: i32,
    /// CURRENT-OFFSET.
    pub current_offset: Option<i64>,
    /// LOG-END-OFFSET.
    pub log_end_offset: Option<i64>,
    /// LAG.
    pub lag: Option<i64>,
}

/// The rows of `kafka-consumer-groups --describe`'s table, by topic and partition. Lines that are no rows are left out.
///
/// # Panics
/// When the text has rows but no header with the known columns.
#[track_caller]
#[must_use]
pub fn parse_group_table(text: &str) -> Vec<GroupRow> {
    let mut columns: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split_whitespace().collect();
        if cells.first() == Some(&"GROUP") {
            columns = cells;
            continue;
        }
        let cell = |name: &str| columns.iter().position(|c| *c == name).and_then(|i| cells.get(i)).copied();
        let number = |name: &str| cell(name).and_then(|c| c.parse().ok());
        let (Some(group), Some(topic), Some(partition)) = (cell("GROUP"), cell("TOPIC"), number("PARTITION")) else {
            continue;
        };
        rows.push(GroupRow {
            group: group.to_owned(),
            topic: topic.to_owned(),
            partition: partition as i32,
            current_offset: number("CURRENT-OFFSET"),
            log_end_offset: number("LOG-END-OFFSET"),
            lag: number("LAG"),
        });
    }
    rows.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
    rows
}

/// A live member of a group, polling; it leaves when dropped.
pub struct GroupMember {
    pub(super) client: JavaClient,
    pub(super) handle: String,
}

impl Drop for GroupMember {
    fn drop(&mut self) {
        // A test that fails has said why already.
        let _ = self.client.try_call(json!({"op": "leave", "handle": self.handle}));
    }
}

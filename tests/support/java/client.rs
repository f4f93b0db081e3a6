//! Kafka's Java clients and command-line classes against one cluster, whoever's it is: a real one or an embedded broker.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::groups::{GroupMember, GroupOffset, GroupRow, parse_group_table};
use super::helper::JavaHelper;
use super::records::{ConsumedRecord, Produce, Produced};
use super::tool::ToolOutput;
use super::transaction::Transaction;
use crate::error::{Error, Result};
use crate::kafka::cluster::{Folder, unique};
use crate::process::{self, Finished};
use crate::{Version, setup};

/// `isolation.level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Everything up to the high watermark.
    ReadUncommitted,
    /// No aborted records, nothing behind an open transaction.
    ReadCommitted,
}

/// What [`JavaClient::list_offsets`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetQuery {
    /// The log's start.
    Earliest,
    /// The high watermark, or the last stable offset with [`Isolation::ReadCommitted`].
    Latest,
    /// The record with the greatest timestamp.
    MaxTimestamp,
    /// The first record with at least this timestamp in milliseconds.
    At(i64),
}

/// An answer of [`JavaClient::list_offsets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset; -1 for none.
    pub offset: i64,
    /// The record's timestamp in milliseconds; -1 for none.
    pub timestamp_ms: i64,
    /// The leader epoch; -1 for none.
    pub leader_epoch: i32,
}

/// Java's admin, producer, consumer and tools with one `bootstrap.servers`. The methods panic with Java's exception;
/// [`try_call`](Self::try_call) returns it.
#[derive(Clone, Debug)]
pub struct JavaClient {
    bootstrap: String,
}

impl JavaClient {
    /// Clients of the brokers at these comma-separated addresses; connects to nothing yet.
    #[must_use]
    pub fn new(bootstrap_servers: &str) -> Self {
        Self { bootstrap: bootstrap_servers.to_owned() }
    }

    /// The comma-separated addresses.
    #[must_use]
    pub fn bootstrap_servers(&self) -> &str {
        &self.bootstrap
    }

    /// Runs a command of the helper (`tests/kafka`) against these brokers.
    ///
    /// # Errors
    /// Java's exception, or that there is no Java.
    pub fn try_call(&self, mut command: Value) -> Result<Value> {
        command["bootstrap"] = json!(self.bootstrap);
        JavaHelper::shared()?.call(command)
    }

    /// As [`try_call`](Self::try_call).
    ///
    /// # Panics
    /// Instead of returning the error.
    #[track_caller]
    pub fn call(&self, command: Value) -> Value {
        self.try_call(command).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Creates a topic; [`KafkaCluster::create_topic`](crate::KafkaCluster::create_topic) also waits for every node.
    #[track_caller]
    pub fn create_topic(&self, topic: &str, partitions: u32, config: &[(&str, &str)]) {
        self.call(json!({"op": "createTopic", "topic": topic, "partitions": partitions, "topicConfig": pairs(config)}));
    }

    /// Deletes a topic.
    #[track_caller]
    pub fn delete_topic(&self, topic: &str) {
        self.call(json!({"op": "deleteTopic", "topic": topic}));
    }

    /// The names of all topics that are not internal, sorted.
    #[track_caller]
    #[must_use]
    pub fn list_topics(&self) -> Vec<String> {
        let mut names: Vec<String> = array(&self.call(json!({"op": "listTopics"}))).iter().map(text).collect();
        names.sort();
        names
    }

    /// A topic's id, as Kafka prints it: base64url without padding.
    #[track_caller]
    #[must_use]
    pub fn topic_id(&self, topic: &str) -> String {
        text(&self.call(json!({"op": "describeTopic", "topic": topic}))["topicId"])
    }

    /// The node id of each partition's leader; -1 for none.
    #[track_caller]
    #[must_use]
    pub fn leaders(&self, topic: &str) -> Vec<i32> {
        array(&self.call(json!({"op": "describeTopic", "topic": topic}))["leaders"])
            .iter()
            .map(|v| int(v) as i32)
            .collect()
    }

    /// Raises a topic's partitions to `total`.
    #[track_caller]
    pub fn add_partitions(&self, topic: &str, total: u32) {
        self.call(json!({"op": "addPartitions", "topic": topic, "total": total}));
    }

    /// Sets topic configs.
    #[track_caller]
    pub fn alter_topic(&self, topic: &str, config: &[(&str, &str)]) {
        self.call(json!({"op": "alterTopic", "topic": topic, "topicConfig": pairs(config)}));
    }

    /// Deletes the records below `before` and returns the new log start; -1 for `before` means all.
    #[track_caller]
    pub fn delete_records(&self, topic: &str, partition: i32, before: i64) -> i64 {
        int(&self.call(json!({"op": "deleteRecords", "topic": topic, "partition": partition, "before": before})))
    }

    /// Offsets of each partition, in order, as the isolation level sees them.
    #[track_caller]
    #[must_use]
    pub fn list_offsets(&self, topic: &str, query: OffsetQuery, isolation: Isolation) -> Vec<ListedOffset> {
        let spec = match query {
            OffsetQuery::Earliest => "earliest".to_owned(),
            OffsetQuery::Latest => "latest".to_owned(),
            OffsetQuery::MaxTimestamp => "maxTimestamp".to_owned(),
            OffsetQuery::At(timestamp_ms) => timestamp_ms.to_string(),
        };
        let committed = isolation == Isolation::ReadCommitted;
        let answer = self.call(json!({"op": "listOffsets", "topic": topic, "spec": spec, "readCommitted": committed}));
        let one = |v: &Value| ListedOffset {
            offset: int(&v["offset"]),
            timestamp_ms: int(&v["timestamp"]),
            leader_epoch: int(&v["leaderEpoch"]) as i32,
        };
        array(&answer).iter().map(one).collect()
    }

    /// Produces; returns where the listed records came to lie (nothing for generated ones).
    #[track_caller]
    pub fn produce(&self, produce: &Produce) -> Vec<Produced> {
        Produced::list(&self.call(produce.command("produce")))
    }

    /// Opens a transactional producer (`initTransactions`), with producer settings. A second one with the same id fences
    /// the first.
    #[track_caller]
    #[must_use]
    pub fn transaction(&self, transactional_id: &str, config: &[(&str, &str)]) -> Transaction {
        let handle = unique("transaction");
        // As for Produce: what is sent between two flushes is one batch, and one batch after the other.
        let mut settings = pairs(&[
            ("linger.ms", "60000"),
            ("batch.size", "1000000"),
            ("delivery.timeout.ms", "120000"),
            ("max.in.flight.requests.per.connection", "1"),
        ]);
        for (key, value) in config {
            settings[*key] = json!(value);
        }
        let command =
            json!({"op": "transactionOpen", "handle": handle, "transactionalId": transactional_id, "config": settings});
        self.call(command);
        Transaction { client: self.clone(), handle }
    }

    /// All records of all partitions with Java's consumer, partition by partition in offset order.
    #[track_caller]
    #[must_use]
    pub fn consume(&self, topic: &str, isolation: Isolation) -> Vec<ConsumedRecord> {
        self.consume_ranges(topic, isolation, None)
    }

    /// The records in `[from, until)` of one partition; until the end, as the isolation level sees it, with `None`.
    #[track_caller]
    #[must_use]
    pub fn consume_range(
        &self,
        topic: &str,
        isolation: Isolation,
        partition: i32,
        from: i64,
        until: Option<i64>,
    ) -> Vec<ConsumedRecord> {
        self.consume_ranges(topic, isolation, Some(json!([{"partition": partition, "from": from, "until": until}])))
    }

    #[track_caller]
    fn consume_ranges(&self, topic: &str, isolation: Isolation, ranges: Option<Value>) -> Vec<ConsumedRecord> {
        let read = || -> Result<Vec<ConsumedRecord>> {
            let file = JavaHelper::shared()?.folder().join(unique("consumed"));
            let committed = isolation == Isolation::ReadCommitted;
            self.try_call(json!({"op": "consume", "topic": topic, "readCommitted": committed, "ranges": ranges,
                "timeoutSeconds": 120, "file": file.display().to_string()}))?;
            let bytes = fs::read(&file).map_err(|e| Error::doing(file.display(), e))?;
            let _ = fs::remove_file(&file);
            ConsumedRecord::parse_file(&bytes)
        };
        let mut records = read().unwrap_or_else(|e| panic!("{e}"));
        // Stable: the consumer's order within a partition stays.
        records.sort_by_key(|r| r.partition);
        records
    }

    /// The ids of all groups, sorted.
    #[track_caller]
    #[must_use]
    pub fn list_groups(&self) -> Vec<String> {
        let mut groups: Vec<String> = array(&self.call(json!({"op": "listGroups"}))).iter().map(text).collect();
        groups.sort();
        groups
    }

    /// A group's committed offsets by topic and partition.
    #[track_caller]
    #[must_use]
    pub fn group_offsets(&self, group: &str) -> Vec<GroupOffset> {
        let answer = self.call(json!({"op": "groupOffsets", "group": group}));
        let mut offsets: Vec<GroupOffset> = array(&answer).iter().map(GroupOffset::from_json).collect();
        offsets.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
        offsets
    }

    /// Commits offsets for a group without members.
    #[track_caller]
    pub fn commit_group_offsets(&self, group: &str, offsets: &[GroupOffset]) {
        let offsets: Vec<Value> = offsets.iter().map(GroupOffset::json).collect();
        self.call(json!({"op": "commitGroupOffsets", "group": group, "offsets": offsets}));
    }

    /// Deletes a group without members.
    #[track_caller]
    pub fn delete_group(&self, group: &str) {
        self.call(json!({"op": "deleteGroup", "group": group}));
    }

    /// Deletes a group's offsets of some partitions.
    #[track_caller]
    pub fn delete_group_offsets(&self, group: &str, topic: &str, partitions: &[i32]) {
        self.call(json!({"op": "deleteGroupOffsets", "group": group, "topic": topic, "partitions": partitions}));
    }

    /// A group's state (`Empty`, `Stable`, …) and how many members it has.
    #[track_caller]
    #[must_use]
    pub fn describe_group(&self, group: &str) -> (String, usize) {
        let answer = self.call(json!({"op": "describeGroup", "group": group}));
        (text(&answer["state"]), int(&answer["members"]) as usize)
    }

    /// A live member of a group that holds partitions of a topic until it is dropped, with consumer settings.
    #[track_caller]
    #[must_use]
    pub fn join_group(&self, group: &str, topic: &str, config: &[(&str, &str)]) -> GroupMember {
        let handle = unique("member");
        self.call(json!({"op": "join", "handle": handle, "group": group, "topic": topic, "config": pairs(config)}));
        GroupMember { client: self.clone(), handle }
    }

    /// Runs the main class of one of Kafka's command-line tools with `--bootstrap-server` set, its own code in the
    /// helper's JVM. Tools run one after the other.
    #[track_caller]
    #[must_use]
    pub fn tool(&self, class: &str, args: &[&str]) -> ToolOutput {
        self.tool_with_input(class, args, "")
    }

    /// As [`tool`](Self::tool), with something to read on stdin.
    #[track_caller]
    #[must_use]
    pub fn tool_with_input(&self, class: &str, args: &[&str], stdin: &str) -> ToolOutput {
        let mut all = vec!["--bootstrap-server", &self.bootstrap];
        all.extend(args);
        ToolOutput::new(&self.call(json!({"op": "tool", "class": class, "args": all, "stdin": stdin})))
    }

    /// Runs a main class that talks to no broker, such as `org.apache.kafka.tools.DumpLogSegments`, in the helper's JVM.
    #[track_caller]
    #[must_use]
    pub fn local_tool(class: &str, args: &[&str]) -> ToolOutput {
        let command = json!({"op": "tool", "class": class, "args": args});
        ToolOutput::new(&JavaHelper::shared().and_then(|helper| helper.call(command)).unwrap_or_else(|e| panic!("{e}")))
    }

    /// Runs a main class in a JVM of its own, as the scripts of a Kafka distribution do.
    #[track_caller]
    pub fn tool_in_own_jvm(class: &str, args: &[&str], stdin: &[u8]) -> Finished {
        let run = || -> Result<Finished> {
            let folder = Folder::new()?;
            let mut java = setup::java(Version::V4_3, "-Xmx256m", &folder.path, class)?;
            process::run(java.args(args), stdin, Duration::from_secs(120))
        };
        run().unwrap_or_else(|e| panic!("{e}"))
    }

    /// The table of `kafka-consumer-groups --describe`, by Kafka's own tool. Empty for a group without offsets.
    #[track_caller]
    #[must_use]
    pub fn group_table(&self, group: &str) -> Vec<GroupRow> {
        let class = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
        let output = self.tool(class, &["--describe", "--group", group]);
        parse_group_table(&output.stdout)
    }

    /// What Kafka's console consumer prints of one partition from an offset on: at most `max_records` lines, and ends
    /// after 10 s without a record.
    #[track_caller]
    #[must_use]
    pub fn console_consumer(&self, topic: &str, partition: i32, from: i64, max_records: u64, args: &[&str]) -> String {
        let (partition, from, max) = (partition.to_string(), from.to_string(), max_records.to_string());
        let mut all = vec!["--topic", topic, "--partition", &partition, "--offset", &from, "--max-messages", &max];
        all.extend(["--timeout-ms", "10000"]);
        all.extend(args);
        self.tool("org.apache.kafka.tools.consumer.ConsoleConsumer", &all).expect_ok()
    }

    /// Feeds lines to Kafka's console producer.
    #[track_caller]
    pub fn console_producer(&self, topic: &str, lines: &str, args: &[&str]) {
        let mut all = vec!["--topic", topic];
        all.extend(args);
        let _ = self.tool_with_input("org.apache.kafka.tools.ConsoleProducer", &all, lines).expect_ok();
    }

    /// Closes what the helper keeps open towards these brokers.
    pub(crate) fn forget(&self) {
        let _ = self.try_call(json!({"op": "forget"}));
    }
}

pub(super) fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or(-1)
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn pairs(config: &[(&str, &str)]) -> Value {
    Value::Object(config.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect())
}

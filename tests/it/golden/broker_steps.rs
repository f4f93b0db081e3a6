//! The steps that change or ask the cluster, with Java's clients.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use support::{Codec, Isolation, KafkaCluster, OffsetQuery, Produce, ProducerRecord, Transaction};

use super::answer::Answer;
use super::scenario::{Op, ProduceStep, Result, Txn};
use super::world::World;

/// The cluster as one scenario uses it.
pub(super) struct BrokerSteps<'a> {
    kafka: &'a KafkaCluster,
    scenario: &'a str,
    /// Transactions that stay open until the scenario is over.
    open: Vec<Transaction>,
    transactions: usize,
}

impl<'a> BrokerSteps<'a> {
    pub(super) fn new(kafka: &'a KafkaCluster, scenario: &'a str) -> Self {
        Self { kafka, scenario, open: Vec::new(), transactions: 0 }
    }

    /// Runs the step, if it is one for the cluster.
    pub(super) fn run(&mut self, op: &Op, world: &mut World) -> Result<Option<Answer>> {
        let mut answer = Answer::default();
        match op {
            Op::CreateTopic { topic, partitions, configs } => {
                let configs: Vec<(&str, &str)> = configs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
                self.kafka.create_topic_named(topic, *partitions, &configs);
                world.create_topic(topic, *partitions);
            }
            Op::DeleteTopic { topic } => {
                self.kafka.delete_topic(topic);
                world.delete_topic(topic);
            }
            Op::AddPartitions { topic, to } => {
                self.kafka.add_partitions(topic, *to);
                world.add_partitions(topic, *to);
            }
            Op::DeleteRecords { topic, partition, before } => {
                let start = self.kafka.delete_records(topic, *partition, *before);
                world.delete_records(topic, *partition, start);
            }
            Op::Produce(step) => answer.value = self.produce(step, world)?,
            Op::ListOffsets { topic } => answer.value = self.list_offsets(topic),
            Op::GroupOffsets { group } => {
                world.groups.insert(group.clone());
                let offsets = self.kafka.group_offsets(group);
                let offset = |o: &support::GroupOffset| (format!("{}-{}", o.topic, o.partition), json!(o.offset));
                answer.value = offsets.iter().map(offset).collect::<Map<_, _>>().into();
            }
            Op::ListGroups { prefix } => {
                answer.value = self.kafka.list_groups().into_iter().filter(|group| group.starts_with(prefix)).collect();
            }
            _ => return Ok(None),
        }
        Ok(Some(answer))
    }

    fn produce(&mut self, step: &ProduceStep, world: &mut World) -> Result<Value> {
        let mut produce = Produce::records(&step.topic, records(step));
        let codec = match &step.compression {
            None => Codec::None,
            Some(name) => *Codec::ALL
                .iter()
                .find(|codec| codec.name() == name)
                .ok_or_else(|| format!("there is no compression {name}"))?,
        };
        let produced = match step.txn {
            None => {
                produce = produce.codec(codec);
                self.kafka.produce(&produce)
            }
            Some(end) => self.transaction(step, &produce, codec, end),
        };
        let offsets = produced.iter().map(|record| record.offset);
        let (first, last) = (offsets.clone().min().unwrap_or(-1), offsets.max().unwrap_or(-1));
        world.produced(&step.topic, step.partition, first, last, step.txn);
        Ok(json!({"firstOffset": first, "lastOffset": last}))
    }

    fn transaction(&mut self, step: &ProduceStep, produce: &Produce, codec: Codec, end: Txn) -> Vec<support::Produced> {
        self.transactions += 1;
        let id = format!("golden-{}-{}", self.scenario, self.transactions);
        // An open one must outlive the scenario.
        let config = [("compression.type", codec.name()), ("transaction.timeout.ms", "900000")];
        let transaction = self.kafka.transaction(&id, &config);
        transaction.begin();
        let produced = transaction.send(produce);
        match end {
            Txn::Commit => transaction.commit(),
            Txn::Abort => transaction.abort(),
            Txn::Open => {
                self.open.push(transaction);
                return produced;
            }
        }
        // The producer is told before the marker is in the log.
        let end = produced.iter().map(|record| record.offset).max().unwrap_or(-1) + 2;
        self.await_end(&step.topic, step.partition, end);
        produced
    }

    fn await_end(&self, topic: &str, partition: i32, end: i64) {
        let deadline = Instant::now() + Duration::from_secs(30);
        let isolation = if self.open.is_empty() { Isolation::ReadCommitted } else { Isolation::ReadUncommitted };
        loop {
            let ends = self.kafka.list_offsets(topic, OffsetQuery::Latest, isolation);
            if ends[partition as usize].offset >= end {
                return;
            }
            assert!(Instant::now() < deadline, "no marker came to {topic}-{partition}: {ends:?}, expected {end}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn list_offsets(&self, topic: &str) -> Value {
        let ask = |query| self.kafka.list_offsets(topic, query, Isolation::ReadUncommitted);
        let pairs = ask(OffsetQuery::Earliest).into_iter().zip(ask(OffsetQuery::Latest)).enumerate();
        let pairs: BTreeMap<String, Value> =
            pairs.map(|(p, (first, end))| (p.to_string(), json!([first.offset, end.offset]))).collect();
        json!(pairs)
    }

    /// Leaves the cluster as it was: other scenarios may have topics and groups of the same names.
    pub(super) fn clean_up(mut self, world: &World) {
        for transaction in self.open.drain(..) {
            transaction.abort();
        }
        for topic in world.topics() {
            self.kafka.delete_topic(topic);
        }
        let groups = self.kafka.list_groups();
        for group in world.groups.iter().filter(|group| groups.contains(group)) {
            self.kafka.delete_group(group);
        }
    }
}

fn records(step: &ProduceStep) -> impl Iterator<Item = ProducerRecord> {
    (0..step.count).map(|n| {
        let i = step.from + n;
        let headers = step.headers.iter();
        ProducerRecord {
            key: step.key_prefix.as_ref().map(|prefix| format!("{prefix}{i}").into_bytes()),
            value: (!step.null_value).then(|| format!("{}{i}", step.value_prefix).into_bytes()),
            timestamp_ms: Some(step.first_timestamp_ms + step.timestamp_step_ms * n),
            partition: Some(step.partition),
            headers: headers.map(|(key, value)| (key.clone(), value.clone().map(String::into_bytes))).collect(),
        }
    })
}

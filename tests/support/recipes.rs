//! Logs of one partition whose offsets are known in advance: the shapes that readers of Kafka get wrong.

use std::thread;
use std::time::{Duration, Instant};

use crate::kafka::cluster::unique;
use crate::{Codec, Isolation, KafkaCluster, OffsetQuery, Produce, ProducerRecord, Transaction};

/// A log to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// One transaction of 1 record, committed: 0, marker 1; end 2.
    Txc,
    /// One transaction of 3 records, aborted: 0-2, marker 3; end 4.
    Txab,
    /// One producer's three transactions of 3 records: commit, abort, commit. 0-2, marker 3, 4-6 aborted, marker 7, 8-10,
    /// marker 11; end 12.
    Txm,
    /// A transactional record at 0, left open, then 5 plain records 1-5, one batch each; end 6, last stable offset 0.
    Open,
    /// 100 records in one gzip batch, timestamps 1700000000000 + i.
    Gz,
    /// [`Gz`](Self::Gz), then the records below 60 deleted: log start 60, the batch on disk still begins at 0.
    Del,
    /// Compacted: log start 0, records 11, 12 (null value), 13; end 14.
    Cmp,
    /// LogAppendTime: 3 records in one batch, sent with timestamps 5, 1005, 2005.
    Lat,
}

/// A log that was made.
pub struct Fixture {
    /// The topic; its only partition is 0.
    pub topic: String,
    /// The log's start.
    pub start: i64,
    /// The high watermark.
    pub end: i64,
    /// The last stable offset.
    pub stable_end: i64,
    /// The offsets of the records that `read_committed` sees.
    pub committed: Vec<i64>,
    /// The offsets of the records that `read_uncommitted` sees.
    pub uncommitted: Vec<i64>,
    /// The open transaction of [`Recipe::Open`]; after `abort` its marker is at 6, and both ends are 7.
    pub transaction: Option<Transaction>,
}

impl Recipe {
    /// Every recipe.
    pub const ALL: [Self; 8] =
        [Self::Txc, Self::Txab, Self::Txm, Self::Open, Self::Gz, Self::Del, Self::Cmp, Self::Lat];

    /// Makes the log in a topic of its own.
    ///
    /// # Panics
    /// When that fails.
    #[track_caller]
    #[must_use]
    pub fn make(self, kafka: &KafkaCluster) -> Fixture {
        let topic = kafka.create_topic(&format!("{self:?}").to_lowercase(), 1, self.topic_config());
        match self {
            Self::Txc => txc(kafka, topic),
            Self::Txab => txab(kafka, topic),
            Self::Txm => txm(kafka, topic),
            Self::Open => open(kafka, topic),
            Self::Gz => gz(kafka, topic),
            Self::Del => del(kafka, topic),
            Self::Cmp => cmp(kafka, topic),
            Self::Lat => lat(kafka, topic),
        }
    }

    fn topic_config(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Cmp => {
                &[("cleanup.policy", "compact"), ("segment.ms", "1000"), ("min.cleanable.dirty.ratio", "0.01")]
            }
            Self::Lat => &[("message.timestamp.type", "LogAppendTime")],
            _ => &[],
        }
    }
}

fn fixture(topic: String, end: i64, committed: &[i64], uncommitted: &[i64]) -> Fixture {
    let (committed, uncommitted) = (committed.to_vec(), uncommitted.to_vec());
    Fixture { topic, start: 0, end, stable_end: end, committed, uncommitted, transaction: None }
}

fn txc(kafka: &KafkaCluster, topic: String) -> Fixture {
    let producer = kafka.transaction(&unique("txc"), &[]);
    producer.begin();
    producer.send_values(&topic, ["c0"]);
    producer.commit();
    fixture(topic, 2, &[0], &[0])
}

fn txab(kafka: &KafkaCluster, topic: String) -> Fixture {
    let producer = kafka.transaction(&unique("txab"), &[]);
    producer.begin();
    producer.send_values(&topic, ["a0", "a1", "a2"]);
    producer.abort();
    fixture(topic, 4, &[], &[0, 1, 2])
}

fn txm(kafka: &KafkaCluster, topic: String) -> Fixture {
    let producer = kafka.transaction(&unique("txm"), &[]);
    for (prefix, commit) in [("x", true), ("y", false), ("z", true)] {
        producer.begin();
        producer.send_values(&topic, (0..3).map(|i| format!("{prefix}{i}")));
        if commit {
            producer.commit();
        } else {
            producer.abort();
        }
    }
    fixture(topic, 12, &[0, 1, 2, 8, 9, 10], &[0, 1, 2, 4, 5, 6, 8, 9, 10])
}

fn open(kafka: &KafkaCluster, topic: String) -> Fixture {
    let producer = kafka.transaction(&unique("open"), &[]);
    producer.begin();
    producer.send_values(&topic, ["open"]);
    kafka.produce(&Produce::generated(&topic, 5).values("plain", 0).flush_every(1));
    let made = fixture(topic, 6, &[], &[0, 1, 2, 3, 4, 5]);
    Fixture { stable_end: 0, transaction: Some(producer), ..made }
}

fn gz(kafka: &KafkaCluster, topic: String) -> Fixture {
    kafka.produce(&Produce::generated(&topic, 100).codec(Codec::Gzip).values("gz", 0).timestamps(1_700_000_000_000, 1));
    let all: Vec<i64> = (0..100).collect();
    fixture(topic, 100, &all, &all)
}

fn del(kafka: &KafkaCluster, topic: String) -> Fixture {
    let made = gz(kafka, topic);
    kafka.delete_records(&made.topic, 0, 60);
    let left: Vec<i64> = (60..100).collect();
    Fixture { start: 60, committed: left.clone(), uncommitted: left, ..made }
}

fn cmp(kafka: &KafkaCluster, topic: String) -> Fixture {
    let pause = || thread::sleep(Duration::from_millis(1_500));
    let record = |key: &str, value: String| ProducerRecord::new(key, value);
    let first = (0..10).map(|i| record("k", format!("k{i}"))).chain([record("z", "z0".to_owned())]);
    kafka.produce(&Produce::records(&topic, first).flush_every(1));
    pause();
    // A record after segment.ms closes the segment before it, and only closed segments are cleaned.
    let tombstone = ProducerRecord { value: None, ..record("z", String::new()) };
    kafka.produce(&Produce::records(&topic, [record("k", "k10".to_owned()), tombstone]).flush_every(1));
    pause();
    kafka.produce(&Produce::records(&topic, [record("w", "w0".to_owned())]));
    let deadline = Instant::now() + Duration::from_secs(60);
    let left = [11, 12, 13];
    while offsets(kafka, &topic) != left {
        assert!(Instant::now() < deadline, "{topic} was not compacted within 60 s: {:?}", offsets(kafka, &topic));
        thread::sleep(Duration::from_millis(200));
    }
    fixture(topic, 14, &left, &left)
}

fn lat(kafka: &KafkaCluster, topic: String) -> Fixture {
    kafka.produce(&Produce::generated(&topic, 3).values("lat", 0).timestamps(5, 1_000));
    fixture(topic, 3, &[0, 1, 2], &[0, 1, 2])
}

fn offsets(kafka: &KafkaCluster, topic: &str) -> Vec<i64> {
    kafka.consume(topic, Isolation::ReadUncommitted).iter().map(|r| r.offset).collect()
}

impl Fixture {
    /// Checks the log against what it should be, with Java's consumer and admin.
    ///
    /// # Panics
    /// When it differs.
    #[track_caller]
    pub fn verify(&self, kafka: &KafkaCluster) {
        for (isolation, end, records) in [
            (Isolation::ReadUncommitted, self.end, &self.uncommitted),
            (Isolation::ReadCommitted, self.stable_end, &self.committed),
        ] {
            let start = kafka.list_offsets(&self.topic, OffsetQuery::Earliest, isolation)[0].offset;
            let latest = kafka.list_offsets(&self.topic, OffsetQuery::Latest, isolation)[0].offset;
            let read: Vec<i64> = kafka.consume(&self.topic, isolation).iter().map(|r| r.offset).collect();
            assert_eq!((start, latest, &read), (self.start, end, records), "{} {isolation:?}", self.topic);
        }
    }
}

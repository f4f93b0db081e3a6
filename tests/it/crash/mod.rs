//! A query that is killed between any two steps of a batch, again and again, on a real broker: every record reaches the output exactly
//! once, the group never has what is not processed, and every restart goes on. `SOAK_KILLS` says how often, `SOAK_SEED` replays a schedule
//! (which process dies where; what runs beside it is the machine's).

mod child;
mod continuous;
mod disk;
mod process;
mod replay;
mod schedule;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};
use std::{env, fs};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use support::{Isolation, KafkaCluster, Produce, ProducerRecord, Transaction, kafka_or_skip};

use child::Life;
use disk::{Disk, State, ranges_of_batches};
use process::Running;
use schedule::Aim;

/// Of partitions, by weight: the last one stays empty.
const WEIGHTS: [u32; 5] = [60, 25, 12, 3, 0];

#[test]
fn killed_between_any_two_steps_nothing_is_lost_or_written_twice() {
    let Some(kafka) = kafka_or_skip("a query that is killed between any two steps") else { return };
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let kills = number("SOAK_KILLS").unwrap_or(10) as usize;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let seed = number("SOAK_SEED").unwrap_or(now.as_nanos() as u64 % 1_000_000_000);
    println!("{kills} kills, SOAK_SEED={seed}");
    let mut crash = Crash::new(kafka, seed);
    for _ in 0..kills {
        crash.live_and_die();
    }
    crash.finish(kills);
}

struct Crash {
    kafka: &'static KafkaCluster,
    folder: PathBuf,
    topic: String,
    group: String,
    random: StdRng,
    /// The next ones come from the end.
    aims: Vec<Aim>,
    transaction: Transaction,
    /// Makes each value another one.
    produced: u32,
    /// How many kills hit each state, by the kind of aim.
    hits: BTreeMap<State, [usize; 3]>,
    began: Instant,
}

impl Crash {
    fn new(kafka: &'static KafkaCluster, seed: u64) -> Self {
        let folder = kept_folder();
        let topic = kafka.create_topic("crash", WEIGHTS.len() as u32, &[]);
        let group = format!("{topic}-group");
        let transaction = kafka.transaction(&format!("{topic}-transaction"), &[]);
        let random = StdRng::seed_from_u64(seed);
        let (aims, hits) = (Vec::new(), BTreeMap::new());
        Self { kafka, folder, topic, group, random, aims, transaction, produced: 0, hits, began: Instant::now() }
    }

    /// Produces, starts a process, kills it, and checks what is left.
    fn live_and_die(&mut self) {
        if self.aims.is_empty() {
            self.aims = Aim::draw_ten(&mut self.random);
        }
        let aim = self.aims.pop().expect("there are ten");
        let limit = *[1, 7, 20, 60].choose(&mut self.random).expect("there are some");
        self.produce(60.max(limit * 8), false);
        let before = Disk::of(&self.folder);
        let group_before = self.group_offsets();
        let said_before = self.log().len();
        let file_sink = self.random.random();
        let more = self.random.random_bool(0.5);
        let own = match aim {
            Aim::Point(point, times) => Some((point, times)),
            _ => None,
        };
        let life = self.life(Some(limit), file_sink, own);
        let mut process = Running::start(&life);
        if more {
            self.produce(limit * 2, true);
        }
        process.kill(&aim, &self.folder, before.planned() + 1);
        let (disk, group) = (Disk::of(&self.folder), self.group_offsets());
        disk.check(&group);
        let log = self.log();
        let steps: Vec<String> = log[said_before..].lines().filter(|line| *line != "life").map(str::to_owned).collect();
        assert!(!steps.iter().any(|step| step.starts_with("warning ")), "{steps:?}");
        let state = disk.state(&before, [&group_before, &group], &steps);
        self.hits.entry(state).or_default()[aim.column()] += 1;
    }

    /// Reads the rest, and holds the output against what Java's consumer reads.
    fn finish(mut self, kills: usize) {
        self.produce(50, true);
        let file_sink = self.random.random();
        let life = Life { trigger: "available-now".to_owned(), ..self.life(None, file_sink, None) };
        Running::start(&life).end();
        let disk = Disk::of(&self.folder);
        let group = self.group_offsets();
        disk.check(&group);
        assert_eq!((disk.committed(), &disk.ends(disk.committed())), (disk.planned(), &group), "all is done");
        let lags: Vec<Option<i64>> = self.kafka.group_table(&self.group).iter().map(|row| row.lag).collect();
        assert_eq!(lags, [Some(0); WEIGHTS.len()]);

        let mut expected = rows(self.kafka, &self.topic);
        let mut written = disk.rows();
        written.sort();
        expected.sort();
        assert!(written == expected, "{} rows instead of {}", written.len(), expected.len());

        let (batches, replays) = ranges_of_batches(&self.log());
        assert_eq!(batches.keys().copied().collect::<Vec<_>>(), (0..=disk.planned()).collect::<Vec<_>>());
        let mut ends: BTreeMap<i32, i64> = BTreeMap::new();
        for (batch_id, ranges) in &batches {
            for (partition, from, until) in ranges {
                let end = ends.insert(*partition, *until).unwrap_or(0);
                assert_eq!(end, *from, "batch {batch_id} goes on where partition {partition} was");
            }
        }
        assert!(ends.iter().all(|(partition, end)| group[partition] == *end), "{ends:?} and {group:?}");
        self.print_table(kills);
        println!(
            "{} records of {} offsets in {} batches, {replays} of them run again; {:.0} s",
            written.len(),
            group.values().sum::<i64>(),
            batches.len(),
            self.began.elapsed().as_secs_f64()
        );
        assert_eq!(self.hits.values().flatten().sum::<usize>(), kills);
        if kills >= 300 {
            let missed = State::ALL.iter().find(|(state, _)| !self.hits.contains_key(state));
            assert!(missed.is_none(), "no kill hit: {missed:?}");
        }
        fs::remove_dir_all(&self.folder).expect("the folder can be removed");
    }

    fn print_table(&self, kills: usize) {
        println!("{:<44} {:>8} {:>8} {:>8} {:>8}", "killed while", "by itself", "by file", "by time", "all");
        let mut sums = [0; 3];
        for (state, name) in State::ALL {
            let hits = self.hits.get(&state).copied().unwrap_or_default();
            for (sum, hits) in sums.iter_mut().zip(hits) {
                *sum += hits;
            }
            let all: usize = hits.iter().sum();
            println!("{name:<44} {:>8} {:>8} {:>8} {all:>8}", hits[0], hits[1], hits[2]);
        }
        println!("{:<44} {:>8} {:>8} {:>8} {kills:>8}", "", sums[0], sums[1], sums[2]);
    }

    fn life(&self, limit: Option<u32>, file_sink: bool, kill: Option<(child::Point, i64)>) -> Life {
        Life {
            folder: self.folder.clone(),
            bootstrap: self.kafka.bootstrap_servers().to_owned(),
            topic: self.topic.clone(),
            group: self.group.clone(),
            limit,
            file_sink,
            trigger: "0s".to_owned(),
            kill,
        }
    }

    /// Records over the partitions, most of them in the first; one time in three in a transaction, which comes to nothing half the time if it
    /// may.
    fn produce(&mut self, at_least: u32, may_abort: bool) {
        let count = at_least + self.random.random_range(0..20);
        let all: u32 = WEIGHTS.iter().sum();
        let mut records = Vec::new();
        for _ in 0..count {
            let mut at = self.random.random_range(0..all);
            let heavier = |weight: &u32| {
                let is_here = at < *weight;
                at = at.wrapping_sub(*weight);
                is_here
            };
            let partition = WEIGHTS.iter().position(heavier).expect("below the sum");
            self.produced += 1;
            let value = format!("{}-{}", self.produced, "x".repeat(self.random.random_range(0..120)));
            records.push(ProducerRecord::value(value).to(partition as i32));
        }
        let produce = Produce::records(&self.topic, records).flush_every(self.random.random_range(5..60));
        if self.random.random_ratio(1, 3) {
            self.transaction.begin();
            self.transaction.send(&produce);
            if may_abort && self.random.random() { self.transaction.abort() } else { self.transaction.commit() }
        } else {
            self.kafka.produce(&produce);
        }
    }

    fn group_offsets(&self) -> BTreeMap<i32, i64> {
        group_offsets(self.kafka, &self.group)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

/// Partition, offset and value of every committed record of a topic, by Java's consumer.
fn rows(kafka: &KafkaCluster, topic: &str) -> Vec<(i64, i64, String)> {
    let records = kafka.consume(topic, Isolation::ReadCommitted);
    records.iter().map(|record| (i64::from(record.partition), record.offset, record.text())).collect()
}

/// A group's offset of each partition.
fn group_offsets(kafka: &KafkaCluster, group: &str) -> BTreeMap<i32, i64> {
    kafka.group_offsets(group).iter().map(|offset| (offset.partition, offset.offset)).collect()
}

/// A folder that stays when the test fails, and says where it is.
fn kept_folder() -> PathBuf {
    let folder = tempfile::Builder::new().prefix("ottla-crash-").tempdir().expect("a folder").keep();
    println!("the query's folder is {}", folder.display());
    folder
}

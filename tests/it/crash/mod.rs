//! A query that is killed between any two steps of a batch, again and again, on a real broker: every record reaches the output exactly
//! once, the group never has what is not processed, and every restart goes on. `SOAK_KILLS` says how often, `SOAK_SEED` replays a schedule
//! (which process dies where; what runs beside it is the machine's).

mod child;
mod disk;
mod schedule;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use std::{env, thread};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use support::{Isolation, KafkaCluster, Produce, ProducerRecord, Transaction, kafka_or_skip};

use child::Life;
use disk::{Disk, State, ranges_of_batches};
use schedule::Aim;

/// Of partitions, by weight: the last one stays empty.
const WEIGHTS: [u32; 5] = [60, 25, 12, 3, 0];
/// A process that does not come to its aim is killed all the same.
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn killed_between_any_two_steps_nothing_is_lost_or_written_twice() {
    let Some(kafka) = kafka_or_skip("a query that is killed between any two steps") else { return };
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let kills = number("SOAK_KILLS").unwrap_or(10) as usize;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let seed = number("SOAK_SEED").unwrap_or(now.as_nanos() as u64 % 1_000_000_000);
    println!("{kills} kills, SOAK_SEED={seed}");
    let mut crash = Crash::new(kafka, seed);
    for kill in 0..kills {
        crash.live_and_die(kill);
    }
    crash.finish(kills);
}

struct Crash {
    kafka: &'static KafkaCluster,
    folder: PathBuf,
    topic: String,
    group: String,
    random: StdRng,
    transaction: Transaction,
    /// Makes each value another one.
    produced: u32,
    /// How many kills hit each state, by the kind of aim.
    hits: BTreeMap<State, [usize; 3]>,
    began: Instant,
}

impl Crash {
    fn new(kafka: &'static KafkaCluster, seed: u64) -> Self {
        // It stays when the test fails, and says where it is.
        let folder = tempfile::Builder::new().prefix("ottla-crash-").tempdir().expect("a folder").keep();
        println!("the query's folder is {}", folder.display());
        let topic = kafka.create_topic("crash", WEIGHTS.len() as u32, &[]);
        let group = format!("{topic}-group");
        let transaction = kafka.transaction(&format!("{topic}-transaction"), &[]);
        let random = StdRng::seed_from_u64(seed);
        Self {
            kafka,
            folder,
            topic,
            group,
            random,
            transaction,
            produced: 0,
            hits: BTreeMap::new(),
            began: Instant::now(),
        }
    }

    /// Produces, starts a process, kills it, and checks what is left.
    fn live_and_die(&mut self, kill: usize) {
        let limit = *[1, 7, 20, 60].get(self.random.random_range(0..4)).expect("one of them");
        let aim = Aim::draw(kill, limit, &mut self.random);
        self.produce(limit * 6);
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
            self.produce(limit * 2);
        }
        process.kill(&aim, &self.folder, before.planned() + 1);
        let (disk, group) = (Disk::of(&self.folder), self.group_offsets());
        disk.check(&group);
        let log = self.log();
        let steps: Vec<String> = log[said_before..].lines().filter(|line| *line != "life").map(str::to_owned).collect();
        let state = disk.state(&before, [&group_before, &group], &steps);
        self.hits.entry(state).or_default()[aim.column()] += 1;
    }

    /// Reads the rest, and holds the output against what Java's consumer reads.
    fn finish(mut self, kills: usize) {
        self.produce(50);
        let file_sink = self.random.random();
        let life = Life { until_done: true, ..self.life(None, file_sink, None) };
        Running::start(&life).end();
        let disk = Disk::of(&self.folder);
        let group = self.group_offsets();
        disk.check(&group);
        assert_eq!((disk.committed(), &disk.ends(disk.committed())), (disk.planned(), &group), "all is done");
        assert!(self.kafka.group_table(&self.group).iter().all(|row| row.lag == Some(0)));

        let mut expected = Vec::new();
        for record in self.kafka.consume(&self.topic, Isolation::ReadCommitted) {
            expected.push((i64::from(record.partition), record.offset, record.text()));
        }
        let mut written = Vec::new();
        for batch_id in &disk.outputs {
            let text = fs::read_to_string(self.folder.join(disk::OUTPUT).join(child::file_name(*batch_id))).unwrap();
            for line in text.lines() {
                let row: Value = serde_json::from_str(line).expect("a row of JSON");
                let number = |name: &str| row[name].as_i64().expect("a number");
                written.push((number("partition"), number("offset"), row["value"].as_str().unwrap().to_owned()));
            }
        }
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
            until_done: false,
            kill,
        }
    }

    /// Records over the partitions, most of them in the first; one time in four in a transaction, which comes to nothing half the time.
    fn produce(&mut self, at_least: u32) {
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
        if self.random.random_ratio(1, 4) {
            self.transaction.begin();
            self.transaction.send(&produce);
            if self.random.random() { self.transaction.commit() } else { self.transaction.abort() }
        } else {
            self.kafka.produce(&produce);
        }
    }

    fn group_offsets(&self) -> BTreeMap<i32, i64> {
        self.kafka.group_offsets(&self.group).iter().map(|offset| (offset.partition, offset.offset)).collect()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

/// A life at work; it ends with its owner.
struct Running {
    child: Child,
    errors: PathBuf,
}

impl Running {
    fn start(life: &Life) -> Self {
        let errors = life.folder.join("errors");
        let mut command = Command::new(env::current_exe().expect("this program"));
        command.args(["--exact", child::TEST, "--nocapture", "--test-threads", "1"]);
        command.env(child::VARIABLE, serde_json::to_string(life).expect("JSON"));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(File::create(&errors).expect("a file"));
        Self { child: command.spawn().expect("this program"), errors }
    }

    /// Waits for the place, kills it there, and makes sure that nothing else ended it.
    #[track_caller]
    fn kill(&mut self, aim: &Aim, folder: &std::path::Path, next_batch: i64) {
        let began = Instant::now();
        let patience = match aim {
            Aim::Time(after) => *after,
            _ => PATIENCE,
        };
        while began.elapsed() < patience {
            match aim {
                Aim::File(seen, others, later) if seen.is_there(folder, next_batch + others) => {
                    let at = Instant::now();
                    while at.elapsed() < *later {
                        std::hint::spin_loop();
                    }
                    break;
                }
                Aim::File(..) => thread::yield_now(),
                _ if self.child.try_wait().expect("a child").is_some() => break,
                _ => thread::sleep(Duration::from_millis(1)),
            }
        }
        let missed = aim.is_own() && began.elapsed() >= patience;
        let _ = self.child.kill();
        let status = self.child.wait().expect("a child");
        assert_eq!(status.signal(), Some(9), "{aim:?}: it ended by itself: {}", self.errors());
        assert!(!missed, "{aim:?}: it never came there: {}", self.errors());
    }

    /// Waits until it is done.
    #[track_caller]
    fn end(mut self) {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            match self.child.try_wait().expect("a child") {
                Some(status) => return assert!(status.success(), "{status}: {}", self.errors()),
                None => assert!(Instant::now() < deadline, "it does not end: {}", self.errors()),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

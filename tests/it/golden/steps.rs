//! Runs one scenario: each step, and at once the comparison of its answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread;

use serde_json::{Value, json};
use support::KafkaCluster;
use tokio::runtime::Handle;

use super::answer::{Answer, Failure};
use super::broker_steps::BrokerSteps;
use super::query_steps::{Ending, Queries};
use super::rules::dstream::{self, GroupOffsets};
use super::rules::{self, Case};
use super::scenario::{End, Op, Result, Scenario, Start};
use super::world::World;
use super::{batch_steps, checkpoint, compare, dstream_steps, errors};

/// What came of a scenario.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) differences: Vec<String>,
    /// Each rule as often as it said what to expect.
    pub(super) rules: Vec<&'static str>,
}

/// Runs a scenario on a cluster without its topics.
pub(super) fn run(scenario: &Scenario, kafka: &KafkaCluster, runtime: &Handle) -> Outcome {
    let work = tempfile::Builder::new().prefix("ottla-golden-").tempdir().expect("a temporary folder");
    let mut run = Run {
        scenario,
        bootstrap: kafka.bootstrap_servers(),
        runtime,
        work: work.path(),
        world: World::default(),
        broker: BrokerSteps::new(kafka, &scenario.name),
        queries: Queries::new(kafka.bootstrap_servers(), work.path()),
        refused: BTreeMap::new(),
        seen: BTreeMap::new(),
        created_again: BTreeMap::new(),
        flushed: BTreeMap::new(),
    };
    let mut outcome = Outcome::default();
    for index in 0..scenario.steps.len() {
        let at = format!("step {index}, {}", describe(&scenario.steps[index].op));
        match caught(|| run.step(index)).flatten() {
            Ok(answer) => {
                let (differences, rules) = run.compare(index, &answer);
                outcome.differences.extend(differences.into_iter().map(|difference| format!("{at}: {difference}")));
                outcome.rules.extend(rules);
            }
            // What comes after it would fail for that, too.
            Err(why) => {
                outcome.differences.push(format!("{at}: {why}"));
                break;
            }
        }
    }
    runtime.block_on(run.queries.stop_all());
    run.broker.clean_up(&run.world);
    outcome
}

/// The harness panics when something fails; one scenario must not take the others with it.
pub(super) fn caught<T>(run: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| match panic.downcast::<String>() {
        Ok(why) => *why,
        Err(panic) => panic.downcast_ref::<&str>().map_or_else(|| "it panicked".to_owned(), ToString::to_string),
    })
}

fn describe(op: &Op) -> String {
    match op {
        Op::Batch(read) => format!("batch of {:?}", read.options),
        Op::Start(start) => format!("start {}", start.query),
        Op::AwaitTermination(end) => format!("awaitTermination {}", end.query),
        Op::Stop(end) => format!("stop {}", end.query),
        other => format!("{other:?}"),
    }
}

struct Run<'a> {
    scenario: &'a Scenario,
    bootstrap: &'a str,
    runtime: &'a Handle,
    work: &'a Path,
    world: World,
    broker: BrokerSteps<'a>,
    queries: Queries,
    /// Queries that did not start, and why.
    refused: BTreeMap<String, Failure>,
    /// Each checkpoint with the topics that the last query to end well saw.
    seen: BTreeMap<String, BTreeMap<String, u32>>,
    /// Each query with the topics that were created again since then.
    created_again: BTreeMap<String, BTreeSet<String>>,
    /// Where direct streams left their groups.
    flushed: BTreeMap<String, GroupOffsets>,
}

impl<'a> Run<'a> {
    fn step(&mut self, index: usize) -> Result<Answer> {
        let scenario = self.scenario;
        let op = &scenario.steps[index].op;
        if let Some(answer) = self.broker.run(op, &mut self.world)? {
            return Ok(answer);
        }
        match op {
            Op::Sleep(time) => thread::sleep(*time),
            Op::WriteFile { path, content } => self.write_file(path, content)?,
            Op::DeleteFile { path } => self.delete_file(path)?,
            Op::Batch(read) => return Ok(self.runtime.block_on(batch_steps::batch(read, self.bootstrap))),
            Op::Start(start) => return self.start(start),
            Op::ProcessAllAvailable { query } => {
                self.runtime.block_on(self.queries.process_all_available(query))?;
            }
            Op::AwaitTermination(end) => return self.end(index, end, Ending::Await),
            Op::Stop(end) => return self.end(index, end, Ending::Stop),
            Op::Dstream(step) => {
                self.world.groups.insert(step.group.clone());
                return self.runtime.block_on(dstream_steps::dstream(step, self.bootstrap));
            }
            other => return Err(format!("nothing runs {other:?}")),
        }
        Ok(Answer::default())
    }

    fn start(&mut self, start: &Start) -> Result<Answer> {
        self.world.groups.extend(start.read.option("kafka.consumer.commit.groupid").map(str::to_owned));
        let seen = self.seen.get(&start.checkpoint).cloned().unwrap_or_default();
        self.created_again.insert(start.query.clone(), self.world.created_again_since(&seen));
        self.refused.remove(&start.query);
        let failure = self.runtime.block_on(self.queries.start(start))?;
        if let Some(failure) = &failure {
            self.refused.insert(start.query.clone(), failure.clone());
        }
        Ok(Answer { value: Value::Null, failure })
    }

    fn end(&mut self, index: usize, end: &End, ending: Ending) -> Result<Answer> {
        let start = self.start_of(index).ok_or_else(|| format!("there is no query {}", end.query))?;
        let mut answer = match self.refused.get(&end.query) {
            Some(failure) => Answer { value: json!({"progress": [], "sink": []}), failure: Some(failure.clone()) },
            None => self.runtime.block_on(self.queries.end(end, ending))?,
        };
        let folder = self.work.join(&start.checkpoint);
        if end.checkpoint_dump {
            answer.value["checkpoint"] = checkpoint::files(&folder)?;
        }
        // Only Ottla's own files tell one topic from the next of its name.
        if answer.failure.is_none() && folder.join("ottla").is_dir() {
            self.seen.insert(start.checkpoint.clone(), self.world.generations());
        }
        Ok(answer)
    }

    fn write_file(&self, path: &str, content: &[u8]) -> Result<()> {
        let file = self.work.join(path);
        let failed = |e: std::io::Error| format!("{path}: {e}");
        fs::create_dir_all(file.parent().unwrap_or(self.work)).map_err(failed)?;
        fs::write(&file, content).map_err(failed)
    }

    fn delete_file(&self, path: &str) -> Result<()> {
        let file = self.work.join(path);
        fs::remove_file(&file).map_err(|e| format!("{path}: {e}"))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        // There is one only in a checkpoint that Spark wrote.
        let _ = fs::remove_file(file.with_file_name(format!(".{name}.crc")));
        Ok(())
    }

    fn compare(&mut self, index: usize, answer: &Answer) -> (Vec<String>, Vec<&'static str>) {
        let step = &self.scenario.steps[index];
        let none = BTreeSet::new();
        let start = self.start_of(index);
        let read = match &step.op {
            Op::Batch(read) => Some(read),
            _ => start.map(|start| &start.read),
        };
        let (mut expected, mut end) = (step.result.clone(), self.end_of(index, start).clone());
        errors::translate(&mut expected, read);
        errors::translate(&mut end, read);
        let case = Case {
            op: &step.op,
            start,
            end: &end,
            created_again: start.and_then(|start| self.created_again.get(&start.query)).unwrap_or(&none),
            flushed: &self.flushed,
            world: &self.world,
            got: answer,
        };
        let rules = rules::apply(&case, &mut expected);
        if let Op::Dstream(stream) = &step.op
            && stream.commit
        {
            self.flushed.insert(stream.group.clone(), dstream::ends(&expected));
        }
        (compare::differences(self.scenario.compare, &step.op, &expected, answer), rules)
    }

    /// The start that the step is, or that of the query which it ends.
    fn start_of(&self, index: usize) -> Option<&'a Start> {
        let query = match &self.scenario.steps[index].op {
            Op::Start(start) => &start.query,
            Op::AwaitTermination(end) | Op::Stop(end) => &end.query,
            _ => return None,
        };
        self.scenario.steps[..=index].iter().rev().find_map(|step| match &step.op {
            Op::Start(start) if start.query == *query => Some(&**start),
            _ => None,
        })
    }

    /// Spark's answer to the query's end.
    fn end_of(&self, index: usize, start: Option<&Start>) -> &'a Value {
        const NONE: &Value = &Value::Null;
        let Some(start) = start else { return NONE };
        let ends = self.scenario.steps[index..].iter().find(|step| match &step.op {
            Op::AwaitTermination(end) | Op::Stop(end) => end.query == start.query,
            _ => false,
        });
        ends.map_or(NONE, |step| &step.result)
    }
}

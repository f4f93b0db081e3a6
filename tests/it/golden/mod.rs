//! Scenarios with the answers that real Spark gave, run on Ottla: `tests/golden`, whose README describes the steps, or the folder that
//! `OTTLA_GOLDEN` names. Further scenarios of the same kinds need no code.
//!
//! [`scenario`] (with [`fields`]) reads a file, [`schedule`] runs several side by side, [`steps`] runs one; [`broker_steps`], [`batch_steps`],
//! [`query_steps`] and [`dstream_steps`] do what a step says; [`compare`] (with [`progress`], [`checkpoint`] and [`errors`]) finds what
//! differs, after [`rules`] has put what Ottla does on purpose in the place of what Spark does.

mod answer;
mod batch_steps;
mod broker_steps;
mod checkpoint;
mod compare;
#[cfg(test)]
mod compare_tests;
mod dstream_steps;
mod errors;
mod fields;
mod progress;
mod query_steps;
mod recorder;
mod rules;
mod scenario;
mod schedule;
mod steps;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use support::{KafkaCluster, java_or_skip};

use scenario::{Loaded, Scenario};
use schedule::Uses;
use steps::Outcome;

/// How many scenarios run at a time. They wait more than they work: for sleeps, triggers and retries.
const WIDTH: usize = 8;
/// Differences that are shown of one scenario.
const SHOWN: usize = 12;

fn folder() -> PathBuf {
    let named = std::env::var_os("OTTLA_GOLDEN").filter(|folder| !folder.is_empty());
    named.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("golden"), PathBuf::from)
}

#[test]
fn golden_scenarios_give_sparks_answers() {
    let Some(()) = java_or_skip("scenarios with Spark's answers") else { return };
    let began = Instant::now();
    let (mut scenarios, mut report) = (Vec::new(), Report::default());
    for (name, loaded) in scenario::load_folder(&folder()) {
        match loaded {
            Ok(Loaded::Runnable(scenario)) => scenarios.push(scenario),
            Ok(Loaded::NotRun { name, reason }) => report.not_run.push((name, reason)),
            Err(mistake) => report.failed.push((name, vec![mistake])),
        }
    }
    // A broker of its own: patterns must not see the topics of other tests.
    let kafka = KafkaCluster::builder().start();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let uses: Vec<Uses> = scenarios.iter().map(Uses::of).collect();
    let outcomes = schedule::side_by_side(&uses, WIDTH, |index| {
        let began = Instant::now();
        let outcome = steps::caught(|| steps::run(&scenarios[index], &kafka, runtime.handle()))
            .unwrap_or_else(|why| Outcome { differences: vec![why], ..Outcome::default() });
        (outcome, began.elapsed())
    });
    for (scenario, (outcome, elapsed)) in scenarios.iter().zip(outcomes) {
        report.add(scenario, outcome, elapsed);
    }
    let text = report.text(began.elapsed());
    // Past the test runner's capture: what ran and by which rules must be seen when all is green, too.
    let _ = std::io::stderr().write_all(text.as_bytes());
    assert!(report.failed.is_empty(), "{} scenarios differ from Spark; they are listed above", report.failed.len());
    assert!(report.ran > 0, "there are no scenarios in {}", folder().display());
}

/// What came of all of them.
#[derive(Default)]
struct Report {
    ran: usize,
    same: usize,
    not_run: Vec<(String, String)>,
    failed: Vec<(String, Vec<String>)>,
    rules: BTreeMap<&'static str, usize>,
    slowest: Vec<(Duration, String)>,
}

impl Report {
    fn add(&mut self, scenario: &Scenario, outcome: Outcome, elapsed: Duration) {
        self.ran += 1;
        self.slowest.push((elapsed, scenario.name.clone()));
        for rule in outcome.rules {
            *self.rules.entry(rule).or_default() += 1;
        }
        if outcome.differences.is_empty() {
            self.same += 1;
        } else {
            self.failed.push((scenario.name.clone(), outcome.differences));
        }
    }

    fn text(&mut self, elapsed: Duration) -> String {
        let mut text = String::new();
        for (name, differences) in &self.failed {
            let _ = writeln!(text, "golden: {name} differs:");
            for difference in differences.iter().take(SHOWN) {
                let _ = writeln!(text, "    {difference}");
            }
            if let Some(more @ 1..) = differences.len().checked_sub(SHOWN) {
                let _ = writeln!(text, "    and {more} more");
            }
        }
        let seconds = elapsed.as_secs_f64();
        let _ =
            writeln!(text, "golden: {} scenarios ran in {seconds:.0} s, {} gave Spark's answers", self.ran, self.same);
        for (name, reason) in &self.not_run {
            let _ = writeln!(text, "golden: {name} was not run: {reason}");
        }
        for rule in rules::RULES {
            if let Some(count) = self.rules.get(rule.name) {
                let _ = writeln!(text, "golden: {count} answers by the rule `{}`: {}", rule.name, rule.why);
            }
        }
        self.slowest.sort_by(|a, b| b.cmp(a));
        let slowest: Vec<String> =
            self.slowest.iter().take(5).map(|(time, name)| format!("{name} {:.1} s", time.as_secs_f64())).collect();
        let _ = writeln!(text, "golden: the slowest: {}", slowest.join(", "));
        text
    }
}

//! Runs scenarios side by side on one cluster, so that their sleeps overlap: never two that could see each other's topics or groups.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use regex::Regex;

use super::scenario::{Op, Read, Scenario};

/// What a scenario uses of a cluster.
pub(super) struct Uses {
    topics: BTreeSet<String>,
    groups: BTreeSet<String>,
    group_prefixes: Vec<String>,
    patterns: Vec<Regex>,
    /// A pattern that is none here may match anything.
    alone: bool,
    sleeps: Duration,
}

impl Uses {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let mut uses = Self {
            topics: BTreeSet::new(),
            groups: BTreeSet::new(),
            group_prefixes: Vec::new(),
            patterns: Vec::new(),
            alone: false,
            sleeps: Duration::ZERO,
        };
        for step in &scenario.steps {
            match &step.op {
                Op::CreateTopic { topic, .. } => drop(uses.topics.insert(topic.clone())),
                Op::Sleep(time) => uses.sleeps += *time,
                Op::GroupOffsets { group } => drop(uses.groups.insert(group.clone())),
                Op::ListGroups { prefix } => uses.group_prefixes.push(prefix.clone()),
                Op::Dstream(step) => drop(uses.groups.insert(step.group.clone())),
                Op::Batch(read) => uses.read(read),
                Op::Start(start) => uses.read(&start.read),
                _ => {}
            }
        }
        uses
    }

    fn read(&mut self, read: &Read) {
        // A topic that is missing must not be there because of others.
        let names = read.option("subscribe").into_iter().flat_map(|names| names.split(','));
        self.topics.extend(names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()));
        self.groups.extend(read.option("kafka.consumer.commit.groupid").map(str::to_owned));
        match read.option("subscribePattern").map(Regex::new) {
            None => {}
            Some(Ok(pattern)) => self.patterns.push(pattern),
            Some(Err(_)) => self.alone = true,
        }
    }

    fn conflicts(&self, other: &Self) -> bool {
        let sees = |one: &Self, two: &Self| {
            one.alone
                || one.patterns.iter().any(|pattern| two.topics.iter().any(|topic| pattern.is_match(topic)))
                || one.group_prefixes.iter().any(|prefix| two.groups.iter().any(|group| group.starts_with(prefix)))
        };
        !self.topics.is_disjoint(&other.topics)
            || !self.groups.is_disjoint(&other.groups)
            || sees(self, other)
            || sees(other, self)
    }
}

/// Calls `run` for each scenario, `width` of them at a time, and returns what it gave in their order.
pub(super) fn side_by_side<T: Send>(uses: &[Uses], width: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    // Those that sleep most come first: they are what is waited for in the end.
    let mut waiting: Vec<usize> = (0..uses.len()).collect();
    waiting.sort_by_key(|index| std::cmp::Reverse(uses[*index].sleeps));
    let state = Mutex::new(State { waiting, running: BTreeSet::new(), done: Vec::new() });
    let changed = Condvar::new();
    thread::scope(|scope| {
        for _ in 0..width {
            scope.spawn(|| {
                while let Some(index) = next(&state, &changed, uses) {
                    let result = run(index);
                    let mut state = lock(&state);
                    state.running.remove(&index);
                    state.done.push((index, result));
                    changed.notify_all();
                }
            });
        }
    });
    let mut done = state.into_inner().unwrap_or_else(PoisonError::into_inner).done;
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

struct State<T> {
    waiting: Vec<usize>,
    running: BTreeSet<usize>,
    done: Vec<(usize, T)>,
}

/// The next scenario that none of the running ones can meet.
fn next<T>(state: &Mutex<State<T>>, changed: &Condvar, uses: &[Uses]) -> Option<usize> {
    let mut state = lock(state);
    loop {
        if state.waiting.is_empty() {
            return None;
        }
        let free = |index: &usize| !state.running.iter().any(|other| uses[*index].conflicts(&uses[*other]));
        if let Some(place) = state.waiting.iter().position(free) {
            let index = state.waiting.remove(place);
            state.running.insert(index);
            return Some(index);
        }
        state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

fn lock<T>(mutex: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::golden::scenario::{self, Loaded};

    fn uses(steps: &str) -> Uses {
        let text = format!(r#"{{"name":"x","compare":"exact","steps":[{steps}]}}"#);
        let Ok(Loaded::Runnable(scenario)) = scenario::load(&text) else { panic!("{text}") };
        Uses::of(&scenario)
    }

    #[test]
    fn golden_scenarios_that_could_meet_never_run_at_once() {
        let topic = uses(r#"{"op":"createTopic","topic":"xa10y","partitions":1}"#);
        let pattern = uses(r#"{"op":"batch","options":{"subscribePattern":"a10"}}"#);
        let other = uses(r#"{"op":"createTopic","topic":"b","partitions":1},{"op":"groupOffsets","group":"g-1"}"#);
        let groups = uses(r#"{"op":"listGroups","prefix":"g"}"#);
        assert!(topic.conflicts(&pattern) && pattern.conflicts(&topic) && groups.conflicts(&other));
        assert!(!topic.conflicts(&other) && !other.conflicts(&pattern));

        let all = [topic, pattern, other, groups];
        let running = AtomicUsize::new(0);
        let done = side_by_side(&all, 4, |index| {
            running.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(20));
            assert!(running.fetch_sub(1, Ordering::SeqCst) <= 2, "no more than one of each pair");
            index
        });
        assert_eq!(done, [0, 1, 2, 3]);
    }
}

//! Where Ottla differs from Spark on purpose (the README lists it): each rule says for a kind of answer when it applies, what is expected
//! instead, and why. A rule rewrites the expected answer, which is then compared as any other: where a rule applies and Ottla does as Spark
//! does, that is a difference, too.

mod batches;
pub(super) mod dstream;
mod options;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::answer::Answer;
use super::errors;
use super::scenario::{Op, Read, Start};
use super::world::World;
use dstream::GroupOffsets;

/// A step with everything that a rule may look at.
pub(super) struct Case<'a> {
    pub(super) op: &'a Op,
    /// The start of the query that the step is of.
    pub(super) start: Option<&'a Start>,
    /// What Spark answered when that query ended.
    pub(super) end: &'a Value,
    /// Topics that were created again since the query's checkpoint last saw them, as of its start; none where the checkpoint was not
    /// written by Ottla.
    pub(super) created_again: &'a BTreeSet<String>,
    /// Where the direct streams of the scenario left their groups.
    pub(super) flushed: &'a BTreeMap<String, GroupOffsets>,
    pub(super) world: &'a World,
    pub(super) got: &'a Answer,
}

impl Case<'_> {
    /// What is read, if the step reads.
    fn read(&self) -> Option<&Read> {
        match self.op {
            Op::Batch(read) => Some(read),
            _ => self.start.map(|start| &start.read),
        }
    }

    fn is_stream(&self) -> bool {
        !matches!(self.op, Op::Batch(_))
    }

    fn is_end(&self) -> bool {
        matches!(self.op, Op::AwaitTermination(_) | Op::Stop(_))
    }

    /// Whether Spark refuses the options as well, for a mistake that it sees first.
    fn spark_refuses(&self, expected: &Value) -> bool {
        (self.is_end() && expected.is_null()) || errors::is_of_options(&expected["error"])
    }

    /// The options are refused: by the start of a query, which then never runs.
    fn refused(&self, expected: &mut Value, condition: &str, contains: &[&str]) {
        let error = errors::ottla(condition, contains);
        *expected =
            if self.is_end() { json!({"error": error, "progress": [], "sink": []}) } else { json!({"error": error}) };
    }
}

pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) why: &'static str,
    /// Rewrites the expected answer where the rule applies, and says whether it does.
    apply: fn(&Case<'_>, &mut Value) -> bool,
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "schema text",
        why: "a DataFrame's schema has no counterpart: columns show in the dumped rows",
        apply: schema,
    },
    Rule {
        name: "endingTimestamp in a stream is refused",
        why: "Spark forgets to check it and ignores it, so that the stream never ends where it was told to",
        apply: options::ending_timestamp,
    },
    Rule {
        name: "limits of 0 or less are refused",
        why: "Spark stops advancing with 0 and fails of data loss below",
        apply: options::limits,
    },
    Rule {
        name: "offsets that are none are refused at once",
        why: "Spark cuts fractions, takes the last of equal keys, and kills the task of an offset below -2",
        apply: options::offsets,
    },
    Rule {
        name: "kafka.isolation.level in any case",
        why: "Spark's driver takes any case and its task does not",
        apply: options::isolation_level,
    },
    Rule {
        name: "an option that does not exist is refused",
        why: "Spark ignores it, and a slip of the pen goes unnoticed",
        apply: options::unknown_option,
    },
    Rule {
        name: "an assigned partition that does not exist is refused",
        why: "Spark leaves it out, and nobody notices that it is not read",
        apply: options::assigned_partition,
    },
    Rule {
        name: "a mistake in the options is found by the start",
        why: "Spark parses some values only in the query's thread, after it has made a checkpoint",
        apply: options::found_at_start,
    },
    Rule {
        name: "a topic that was created again is data loss",
        why: "Spark does not notice it where the new topic has as many records, and reads the new one from the old offset",
        apply: batches::created_again,
    },
    Rule {
        name: "a stop lets the batch at work finish",
        why: "Spark interrupts it, and runs it again with the next start",
        apply: batches::stopped_at_work,
    },
    Rule {
        name: "continuous mode writes what batches need",
        why: "Spark leaves out where it began and the settings, and can't go on in batches from an epoch that was not committed",
        apply: batches::continuous,
    },
    Rule {
        name: "a direct stream commits what is queued when it stops",
        why: "Spark loses the last batch's commit, and reads that batch again",
        apply: dstream::flushed_at_stop,
    },
    Rule {
        name: "a loss that the plan sees has no tasks",
        why: "Ottla holds a bounded read's ranges against the log before it reads",
        apply: batches::planned_loss,
    },
];

/// Applies every rule, and returns the names of those that did.
pub(super) fn apply(case: &Case<'_>, expected: &mut Value) -> Vec<&'static str> {
    RULES.iter().filter(|rule| (rule.apply)(case, expected)).map(|rule| rule.name).collect()
}

fn schema(_: &Case<'_>, expected: &mut Value) -> bool {
    expected.as_object_mut().is_some_and(|answer| answer.shift_remove("schema").is_some())
}

//! What a killed process left: how far it was, and what must hold wherever that is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::child::file_name;

/// How far a process was when it died, as its files and the group tell; in the order of a batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum State {
    Starting,
    Planning,
    OwnHalf,
    OwnWritten,
    OffsetsHalf,
    OffsetsWritten,
    Reading,
    OutputHalf,
    OutputWritten,
    CommitHalf,
    CommitWritten,
}

impl State {
    pub(super) const ALL: [(Self, &'static str); 11] = [
        (Self::Starting, "starting: nothing done yet in this run"),
        (Self::Planning, "group committed, next batch being planned"),
        (Self::OwnHalf, "ottla/offsets/N half written"),
        (Self::OwnWritten, "ottla/offsets/N written, offsets/N not"),
        (Self::OffsetsHalf, "offsets/N half written"),
        (Self::OffsetsWritten, "offsets/N written, batch not begun"),
        (Self::Reading, "batch begun, being read"),
        (Self::OutputHalf, "output half written"),
        (Self::OutputWritten, "output written, commits/N not"),
        (Self::CommitHalf, "commits/N half written"),
        (Self::CommitWritten, "commits/N written, group not committed"),
    ];
}

/// What lies in the folder of the query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    offsets: Vec<i64>,
    commits: Vec<i64>,
    own: Vec<i64>,
    /// The batches whose output is there.
    pub(super) outputs: Vec<i64>,
    temporaries: BTreeSet<(&'static str, String)>,
}

/// The folders of a query's files.
pub(super) const OFFSETS: &str = "checkpoint/offsets";
pub(super) const COMMITS: &str = "checkpoint/commits";
pub(super) const OWN: &str = "checkpoint/ottla/offsets";
pub(super) const OUTPUT: &str = "output";

impl Disk {
    pub(super) fn of(folder: &Path) -> Self {
        let mut temporaries = BTreeSet::new();
        let mut ids = |name: &'static str| {
            let mut ids = Vec::new();
            for file in names(&folder.join(name)) {
                let id = file.strip_prefix("batch-").and_then(|rest| rest.strip_suffix(".jsonl")).unwrap_or(&file);
                match id.parse() {
                    Ok(id) => ids.push(id),
                    Err(_) => drop(temporaries.insert((name, file))),
                }
            }
            ids.sort_unstable();
            ids
        };
        let (offsets, commits, own, outputs) = (ids(OFFSETS), ids(COMMITS), ids(OWN), ids(OUTPUT));
        Self { folder: folder.to_owned(), offsets, commits, own, outputs, temporaries }
    }

    /// The newest batch that is written down; -1 for none.
    pub(super) fn planned(&self) -> i64 {
        self.offsets.last().copied().unwrap_or(-1)
    }

    /// The newest batch that is done; -1 for none.
    pub(super) fn committed(&self) -> i64 {
        self.commits.last().copied().unwrap_or(-1)
    }

    /// What must hold at any time.
    ///
    /// # Panics
    /// When it doesn't.
    #[track_caller]
    pub(super) fn check(&self, group: &BTreeMap<i32, i64>) {
        let (planned, committed) = (self.planned(), self.committed());
        for ids in [&self.offsets, &self.commits, &self.outputs] {
            assert!(ids.windows(2).all(|pair| pair[0] + 1 == pair[1]), "a hole in {ids:?}");
        }
        assert!(committed == planned || committed == planned - 1, "{committed} is committed, {planned} planned");
        let written = self.outputs.last().copied().unwrap_or(-1);
        assert!(self.outputs.first().is_none_or(|first| *first == 0), "the first output is gone");
        assert!(committed <= written, "batch {committed} is committed, and only {written} is in the output");
        assert!(written <= planned, "batch {written} is in the output, and only {planned} is planned");
        // The group has the end of the newest batch that is done, and never of one that is not. It may lack that of the newest batch
        // only until the next one is planned: it is committed after the batch, or at the start, before the first trigger.
        let is_next_planned = planned > committed || self.own.last().copied().unwrap_or(-1) > planned;
        let mut allowed = vec![self.ends(committed)];
        if !is_next_planned {
            allowed.push(self.ends(committed - 1));
        }
        assert!(allowed.contains(group), "the group has {group:?} after batch {committed}, which ends at {allowed:?}");
    }

    /// Where a batch ends, by partition.
    pub(super) fn ends(&self, batch_id: i64) -> BTreeMap<i32, i64> {
        let Ok(text) = fs::read_to_string(self.folder.join(OFFSETS).join(batch_id.to_string())) else {
            return BTreeMap::new();
        };
        let line = text.lines().nth(2).expect("a line for the source");
        let offsets: Value = serde_json::from_str(line).expect("offsets in JSON");
        let topic = offsets.as_object().and_then(|topics| topics.values().next()?.as_object()).expect("one topic");
        let number = |(partition, offset): (&String, &Value)| (partition.parse().unwrap(), offset.as_i64().unwrap());
        topic.iter().map(number).collect()
    }

    /// Partition, offset and value of every row in the output.
    pub(super) fn rows(&self) -> Vec<(i64, i64, String)> {
        let mut rows = Vec::new();
        for batch_id in &self.outputs {
            let text = fs::read_to_string(self.folder.join(OUTPUT).join(file_name(*batch_id))).expect("a file");
            for line in text.lines() {
                let row: Value = serde_json::from_str(line).expect("a row of JSON");
                let number = |name: &str| row[name].as_i64().expect("a number");
                rows.push((number("partition"), number("offset"), row["value"].as_str().expect("a text").to_owned()));
            }
        }
        rows
    }

    /// How far the process was that began with `before`, left this, and said `steps`.
    pub(super) fn state(&self, before: &Self, group: [&BTreeMap<i32, i64>; 2], steps: &[String]) -> State {
        let (planned, committed) = (self.planned(), self.committed());
        let is_half = |folder: &str| {
            self.temporaries.iter().any(|temporary| temporary.0 == folder && !before.temporaries.contains(temporary))
        };
        let said = |step: &str| steps.contains(&format!("{step} {planned}"));
        if self == before && group[0] == group[1] && steps.is_empty() {
            State::Starting
        } else if is_half(OWN) {
            State::OwnHalf
        } else if self.own.last().copied().unwrap_or(-1) > planned && self.own != before.own {
            if is_half(OFFSETS) { State::OffsetsHalf } else { State::OwnWritten }
        } else if committed == planned {
            if *group[1] == self.ends(committed) { State::Planning } else { State::CommitWritten }
        } else if is_half(COMMITS) {
            State::CommitHalf
        } else if said("done") || self.outputs.contains(&planned) && !before.outputs.contains(&planned) {
            State::OutputWritten
        } else if said("begin") {
            if is_half(OUTPUT) { State::OutputHalf } else { State::Reading }
        } else {
            State::OffsetsWritten
        }
    }
}

/// The names in a folder; none where it is not there.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    // A file may go while its folder is listed.
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// Partition, inclusive start and exclusive end of each range of a batch.
pub(super) type Ranges = BTreeSet<(i32, i64, i64)>;

/// The ranges of each batch, as its attempts were given them: every attempt that was not cut short the same. And how many attempts were repetitions.
///
/// # Panics
/// When two attempts of a batch differ.
#[track_caller]
pub(super) fn ranges_of_batches(log: &str) -> (BTreeMap<i64, Ranges>, usize) {
    let mut attempts: Vec<(i64, Ranges)> = Vec::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["begin", batch_id] => attempts.push((batch_id.parse().unwrap(), BTreeSet::new())),
            ["range", partition, from, until] => {
                let range = (partition.parse().unwrap(), from.parse().unwrap(), until.parse().unwrap());
                attempts.last_mut().expect("a batch was begun").1.insert(range);
            }
            _ => {}
        }
    }
    let mut batches: BTreeMap<i64, Ranges> = BTreeMap::new();
    for (batch_id, ranges) in &attempts {
        let whole = batches.entry(*batch_id).or_default();
        if ranges.len() > whole.len() {
            *whole = ranges.clone();
        }
    }
    for (batch_id, ranges) in &attempts {
        assert!(ranges.is_subset(&batches[batch_id]), "batch {batch_id}: {ranges:?} and {:?}", batches[batch_id]);
    }
    let replays = attempts.len() - batches.len();
    (batches, replays)
}

//! When processes are killed, drawn from a seed.

use std::path::Path;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

use super::child::{Point, file_name};
use super::disk::{COMMITS, OFFSETS, OUTPUT, OWN, names};

/// Where a process is to die.
#[derive(Clone, Debug)]
pub(super) enum Aim {
    /// It kills itself there, the how-manieth time it comes there.
    Point(Point, i64),
    /// The test kills it as soon as it sees this file of the batch after so many others, and so much later.
    File(Seen, i64, Duration),
    /// The test kills it after so long.
    Time(Duration),
}

/// A file of batch N.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    OwnTemporary,
    Own,
    OffsetsTemporary,
    Offsets,
    OutputTemporary,
    Output,
    CommitTemporary,
    Commit,
}

impl Seen {
    const ALL: [Self; 8] = [
        Self::OwnTemporary,
        Self::Own,
        Self::OffsetsTemporary,
        Self::Offsets,
        Self::OutputTemporary,
        Self::Output,
        Self::CommitTemporary,
        Self::Commit,
    ];

    /// Whether it is there, or was. Looked at in a tight loop: temporary files are there for a few hundred microseconds.
    pub(super) fn is_there(self, folder: &Path, batch_id: i64) -> bool {
        let there = |name: &str, file: &str| folder.join(name).join(file).exists();
        let temporary = |name: &str, file: &str| {
            names(&folder.join(name)).iter().any(|n| n == file || n.starts_with(&format!(".{file}.")))
        };
        let number = batch_id.to_string();
        match self {
            Self::OwnTemporary => temporary(OWN, &number),
            Self::Own => there(OWN, &number),
            Self::OffsetsTemporary => temporary(OFFSETS, &number),
            Self::Offsets => there(OFFSETS, &number),
            Self::OutputTemporary => temporary(OUTPUT, &file_name(batch_id)),
            Self::Output => there(OUTPUT, &file_name(batch_id)),
            Self::CommitTemporary => temporary(COMMITS, &number),
            Self::Commit => there(COMMITS, &number),
        }
    }
}

impl Aim {
    pub(super) fn is_own(&self) -> bool {
        matches!(self, Self::Point(..))
    }

    /// The column of the table.
    pub(super) fn column(&self) -> usize {
        match self {
            Self::Point(..) => 0,
            Self::File(..) => 1,
            Self::Time(_) => 2,
        }
    }

    /// Ten kills in any order: one at each exact point, three by a file, one by the clock.
    pub(super) fn draw_ten(random: &mut StdRng) -> Vec<Self> {
        let points = [
            Point::BatchBegun,
            Point::Reading,
            Point::BatchRead,
            Point::OutputWritten,
            Point::Committed,
            Point::Stored,
        ];
        // The first batch of a run is the one that an earlier run may have begun.
        let times = |random: &mut StdRng| *[1, 1, 2, 4].choose(random).expect("there are some");
        let mut ten = Vec::new();
        for point in points {
            let many = if point == Point::Reading { random.random_range(1..=60) } else { times(random) };
            ten.push(Self::Point(point, many));
        }
        for _ in 0..3 {
            let seen = *Seen::ALL.choose(random).expect("there are some");
            // After a commit come the group and the next plan, which leave no file: so much later they are at work.
            let micros = if seen == Seen::Commit { random.random_range(0..6_000) } else { 0 };
            ten.push(Self::File(seen, times(random) - 1, Duration::from_micros(micros)));
        }
        // Also while the process only starts.
        let most = if random.random_ratio(1, 3) { 50 } else { 700 };
        ten.push(Self::Time(Duration::from_millis(random.random_range(0..most))));
        ten.shuffle(random);
        ten
    }
}

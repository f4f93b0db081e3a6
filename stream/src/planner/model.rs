//! The rules once more, slow and obvious, and the planner held against them over random cases. Where Spark computes with whole numbers the
//! model counts one by one or in `i128`; where Spark computes with `f64`, that is part of the rule, and the model does the same.

use super::{MinOffsets, RangeInput, plan_ranges, ranges::PlannedRanges, rate_limit, split};
use crate::Offsets;
use crate::{LossKind, OffsetRange};
use ottla_client::TopicPartition;
use proptest::{collection::vec, prelude::*, sample::select};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// `maxOffsetsPerTrigger`: the end of each `(start, latest)`.
fn model_limit(limit: i64, partitions: &[(i64, i64)]) -> Vec<i64> {
    let mut total: i128 = 0;
    for (start, latest) in partitions {
        if latest > start {
            total += i128::from(*latest) - i128::from(*start);
        }
    }
    let mut ends = Vec::new();
    for (start, latest) in partitions {
        if latest <= start {
            ends.push(*latest);
            continue;
        }
        let fraction = (latest - start) as f64 / total as f64;
        let prorate = fraction * limit as f64;
        // The whole numbers around it, without `floor` or `ceil`.
        let below = prorate as i128;
        let take = if prorate >= 1.0 || below as f64 == prorate { below } else { below + 1 };
        let end = i128::from(*start) + take;
        ends.push(i64::try_from(end.min(i128::from(*latest))).unwrap());
    }
    ends
}

/// The whole number next to a share; halves go up.
fn model_parts(size: i128, total: i128, min: i128) -> i128 {
    let share = size as f64 / total as f64 * min as f64;
    let below = share as i128;
    let rounded = if share - below as f64 >= 0.5 { below + 1 } else { below };
    if rounded < 1 { 1 } else { rounded }
}

/// Lengths that differ by one at most, the longer ones last; none is 0.
fn model_divide(piece: &Piece, count: i128) -> Vec<Piece> {
    let size = piece.until - piece.from;
    let longer = size % count;
    let mut pieces = Vec::new();
    let mut from = piece.from;
    for index in 0..count {
        let length = size / count + if index >= count - longer { 1 } else { 0 };
        if length > 0 {
            pieces.push(Piece { tp: piece.tp.clone(), from, until: from + length });
        }
        from += length;
    }
    assert_eq!(from, piece.until);
    pieces
}

#[derive(Clone, PartialEq, Debug)]
struct Piece {
    tp: (String, i32),
    from: i128,
    until: i128,
}

fn model_split(ranges: &[OffsetRange], min: Option<i64>, max: Option<i64>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for range in ranges {
        let tp = (range.topic.clone(), range.partition);
        let piece = Piece { tp, from: range.from_offset.into(), until: range.until_offset.into() };
        if piece.until > piece.from {
            pieces.push(piece);
        }
    }
    if let Some(max) = max {
        let mut cut = Vec::new();
        for piece in &pieces {
            let size = piece.until - piece.from;
            let mut count = size / i128::from(max);
            if count * i128::from(max) < size {
                count += 1;
            }
            cut.extend(model_divide(piece, count));
        }
        pieces = cut;
    }
    let Some(min) = min.map(i128::from).filter(|min| *min > pieces.len() as i128) else { return pieces };
    let total: i128 = pieces.iter().map(|piece| piece.until - piece.from).sum();
    let (small, large): (Vec<_>, Vec<_>) =
        pieces.iter().cloned().partition(|piece| model_parts(piece.until - piece.from, total, min) == 1);
    let large_total: i128 = large.iter().map(|piece| piece.until - piece.from).sum();
    let large_min = if min - small.len() as i128 > 1 { min - small.len() as i128 } else { 1 };
    let mut cut = Vec::new();
    for piece in pieces {
        if small.iter().any(|small| small.tp == piece.tp) {
            cut.push(piece);
        } else {
            cut.extend(model_divide(&piece, model_parts(piece.until - piece.from, large_total, large_min)));
        }
    }
    cut
}

/// What the planner may know of one partition. Small numbers, so that offsets can be looked at one by one.
#[derive(Clone, Debug)]
struct Known {
    topic: &'static str,
    start: Option<i64>,
    until: Option<i64>,
    new_start: Option<i64>,
    log: Option<(i64, i64)>,
}

/// Offsets that are read of a partition, `None` if it is not read at all, and what is lost of it, offset by offset. Losses without a known
/// end stand as -1.
fn model_range(known: &Known, recreated: bool) -> (Option<BTreeSet<i64>>, BTreeMap<LossKind, BTreeSet<i64>>) {
    let mut lost: BTreeMap<LossKind, BTreeSet<i64>> = BTreeMap::new();
    let Some(until) = known.until else {
        if known.start.is_some() {
            lost.insert(LossKind::PartitionDeleted, [-1].into());
        }
        return (None, lost);
    };
    if known.start.is_some() && recreated {
        lost.insert(LossKind::Recreated, [-1].into());
    }
    let is_new = known.start.is_none() || recreated;
    let from = if is_new { known.new_start } else { known.start };
    let Some(from) = from else {
        lost.insert(LossKind::InitialOffsetNotFound, (0..until).collect());
        return (None, lost);
    };
    if is_new && from != 0 {
        lost.insert(LossKind::AddedPartition, (0..from).collect());
    }
    if until < from {
        lost.insert(LossKind::OffsetChanged, (until..from).collect());
        return (None, lost);
    }
    let mut read = BTreeSet::new();
    for offset in from..until {
        if known.log.is_none_or(|(begin, end)| begin <= offset && offset < end) {
            read.insert(offset);
        } else {
            lost.entry(LossKind::OutOfRange).or_default().insert(offset);
        }
    }
    (Some(read), lost)
}

fn partitions(values: impl IntoIterator<Item = i64>) -> Offsets {
    (0..).zip(values).map(|(index, value)| (TopicPartition::new("t", index), value)).collect()
}

/// Offsets of all magnitudes: none, few, as many as a topic has, as many as there can be.
fn offset() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(0),
        0..5_i64,
        0..1000_i64,
        0..10_000_000_i64,
        0..=i64::MAX,
        Just(i64::MAX),
        (i64::MAX - 1000)..=i64::MAX
    ]
}

/// Start and latest: anything, nothing new, or a little new at any height.
fn start_and_latest() -> impl Strategy<Value = (i64, i64)> {
    prop_oneof![
        (offset(), offset()),
        offset().prop_map(|at| (at, at)),
        (offset(), 0..100_i64).prop_map(|(at, more)| (at, at.saturating_add(more)))
    ]
}

fn limit() -> impl Strategy<Value = i64> {
    prop_oneof![1..20_i64, 1..100_000_i64, 1..=i64::MAX, Just(i64::MAX)]
}

/// Ranges of which some are of one partition, as a split gives them.
fn ranges() -> impl Strategy<Value = Vec<OffsetRange>> {
    let size = prop_oneof![-3..3_i64, 0..40_i64, 0..5000_i64, 0..=i64::MAX];
    vec((0..4_i32, prop_oneof![Just(0), 0..1000_i64, 0..i64::MAX / 2], size), 0..8).prop_map(|ranges| {
        let range = |(partition, from_offset, size): (i32, i64, i64)| {
            let until_offset = from_offset.saturating_add(size);
            OffsetRange { topic: "t".to_owned(), partition, from_offset, until_offset }
        };
        ranges.into_iter().map(range).collect()
    })
}

fn known() -> impl Strategy<Value = Known> {
    let some = |max: i64| prop_oneof![1 => Just(None), 3 => (0..max).prop_map(Some)];
    let log = prop_oneof![
        1 => Just(None),
        2 => (0..30_i64, 0..30_i64).prop_map(|(begin, size)| Some((begin, begin + size))),
        2 => Just(Some((0, 60)))
    ];
    let new_start = prop_oneof![2 => Just(Some(0)), 2 => some(30)];
    (select(vec!["a", "b"]), some(40), some(60), new_start, log)
        .prop_map(|(topic, start, until, new_start, log)| Known { topic, start, until, new_start, log })
}

/// The maps of the planner's input.
struct Maps {
    start: Offsets,
    until: Offsets,
    new_starts: Offsets,
    log: BTreeMap<TopicPartition, (i64, i64)>,
}

impl Maps {
    fn new(all: &[(TopicPartition, Known)]) -> Self {
        let map = |value: fn(&Known) -> Option<i64>| -> Offsets {
            all.iter().filter_map(|(tp, known)| Some((tp.clone(), value(known)?))).collect()
        };
        Self {
            start: map(|known| known.start),
            until: map(|known| known.until),
            new_starts: map(|known| known.new_start),
            log: all.iter().filter_map(|(tp, known)| Some((tp.clone(), known.log?))).collect(),
        }
    }

    fn input<'a>(&'a self, recreated: &'a BTreeSet<String>, fail_on_data_loss: bool) -> RangeInput<'a> {
        let Self { start, until, new_starts, log } = self;
        RangeInput { start, until, new_starts, recreated, log, fail_on_data_loss }
    }
}

fn of<'a>(planned: &'a PlannedRanges, tp: &TopicPartition) -> Option<&'a OffsetRange> {
    let mut found = planned.ranges.iter().filter(|range| range.topic == tp.topic && range.partition == tp.partition);
    let range = found.next();
    assert_eq!(found.next(), None, "a partition has one range");
    range
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_limit_is_the_models(limit in limit(), pairs in vec(start_and_latest(), 0..12), unknown in 0..3_usize) {
        let latest = partitions(pairs.iter().map(|(_, latest)| *latest));
        let mut start = partitions(pairs.iter().map(|(start, _)| *start));
        let ends = rate_limit(limit, &start, &latest);
        prop_assert_eq!(ends.values().copied().collect::<Vec<_>>(), model_limit(limit, &pairs));
        prop_assert!(ends.keys().eq(latest.keys()));
        // Every partition with something new moves, none beyond what there is.
        for ((start, latest), end) in pairs.iter().zip(ends.values()) {
            let moves = start < end && end <= latest;
            prop_assert!(moves || (latest <= start && end == latest));
        }
        // The others share as if a partition without a start were not there.
        start.retain(|tp, _| usize::try_from(tp.partition).unwrap() >= unknown);
        let ends: Vec<_> = rate_limit(limit, &start, &latest).into_values().collect();
        let unknown = unknown.min(pairs.len());
        prop_assert!(ends[..unknown].iter().zip(&pairs).all(|(end, (_, latest))| end == latest));
        prop_assert_eq!(&ends[unknown..], model_limit(limit, &pairs[unknown..]));
    }

    #[test]
    fn the_minimum_is_the_models(
        min in limit(),
        max_delay_ms in 0..100_000_u64,
        triggers in vec((0..50_000_i64, vec(start_and_latest(), 0..5)), 1..10),
        begin in prop_oneof![Just(0), Just(1_700_000_000_000), 0..i64::MAX / 2],
        unknown in 0..3_usize,
    ) {
        let mut limit = MinOffsets::new(min, Duration::from_millis(max_delay_ms));
        let (mut last, mut now) = (0_i128, begin);
        for (pause, pairs) in triggers {
            now += pause;
            let latest = partitions(pairs.iter().map(|(_, latest)| *latest));
            let mut start = partitions(pairs.iter().map(|(start, _)| *start));
            start.retain(|tp, _| usize::try_from(tp.partition).unwrap() >= unknown);
            let mut backlog = 0_i128;
            for (index, (start, latest)) in pairs.iter().enumerate() {
                backlog += i128::from(*latest);
                if index >= unknown {
                    backlog -= i128::from(*start);
                }
            }
            let fires = i128::from(now) - last >= i128::from(max_delay_ms) || backlog >= i128::from(min);
            prop_assert_eq!(limit.fires(now, &start, &latest), fires);
            if fires {
                last = i128::from(now);
            }
        }
    }

    #[test]
    fn the_pieces_are_the_models(
        ranges in ranges(),
        min in prop_oneof![Just(None), (1..60_i64).prop_map(Some), (1..5000_i64).prop_map(Some)],
        // Either none, or such that the largest range is in some thousand pieces at most.
        pieces_max in prop_oneof![Just(None), (1..10_i64).prop_map(Some), (1..3000_i64).prop_map(Some)],
        odd in 0..3_i64,
    ) {
        let largest = ranges.iter().map(OffsetRange::size).max().unwrap_or(0);
        let max = pieces_max.map(|pieces| (largest / pieces).saturating_add(odd).max(1));
        let pieces: Vec<_> = split(ranges.clone(), min, max)
            .into_iter()
            .map(|piece| Piece {
                tp: (piece.topic, piece.partition),
                from: piece.from_offset.into(),
                until: piece.until_offset.into(),
            })
            .collect();
        prop_assert_eq!(&pieces, &model_split(&ranges, min, max));
        // They cover the ranges exactly, in order, and none is longer than allowed.
        let mut left = pieces.iter().peekable();
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let mut at = i128::from(range.from_offset);
            while at < i128::from(range.until_offset) {
                let piece = left.next().unwrap();
                prop_assert_eq!((piece.tp.1, piece.from), (range.partition, at));
                prop_assert!(piece.until > at && max.is_none_or(|max| piece.until - at <= i128::from(max)));
                at = piece.until;
            }
            prop_assert_eq!(at, i128::from(range.until_offset));
        }
        prop_assert!(left.peek().is_none());
    }

    #[test]
    fn the_ranges_are_the_models(all in vec(known(), 0..8), recreated in prop_oneof![Just(None), Just(Some("a"))]) {
        let all: Vec<_> =
            (0..).zip(all).map(|(index, known)| (TopicPartition::new(known.topic, index), known)).collect();
        let recreated: BTreeSet<String> = recreated.into_iter().map(str::to_owned).collect();
        let maps = Maps::new(&all);
        let planned = plan_ranges(&maps.input(&recreated, false)).unwrap();
        for (tp, known) in &all {
            let (read, lost) = model_range(known, recreated.contains(&tp.topic));
            let range = of(&planned, tp);
            prop_assert_eq!(range.map(|range| (range.from_offset..range.until_offset).collect::<BTreeSet<_>>()), read);
            let mut found: BTreeMap<LossKind, BTreeSet<i64>> = BTreeMap::new();
            for lost in planned.lost.iter().filter(|lost| lost.partition() == *tp) {
                let offsets = found.entry(lost.kind).or_default();
                if !lost.range.is_empty() {
                    // Each offset once.
                    prop_assert!((lost.range.from_offset..lost.range.until_offset).all(|at| offsets.insert(at)));
                } else if lost.kind == LossKind::InitialOffsetNotFound {
                    prop_assert_eq!((lost.range.from_offset, known.until), (0, Some(0)));
                } else {
                    prop_assert_eq!(Some(lost.range.from_offset), known.start);
                    prop_assert!(offsets.insert(-1));
                }
                prop_assert_eq!((lost.log_start_offset, lost.log_end_offset), known.log.unwrap_or((-1, -1)));
                let end = if lost.kind == LossKind::OutOfRange { known.until.unwrap() } else { lost.range.until_offset };
                prop_assert_eq!(lost.wanted_until_offset, end);
            }
            prop_assert_eq!(found, lost);
        }
        prop_assert!(planned.ranges.is_sorted());
        // The same losses are the error, and only they.
        match plan_ranges(&maps.input(&recreated, true)) {
            Ok(same) => prop_assert!(same == planned && planned.lost.is_empty()),
            Err(loss) => prop_assert!(loss.lost == planned.lost && !planned.lost.is_empty()),
        }
    }

    #[test]
    fn huge_ranges_are_cut_at_both_ends_of_the_log(
        (start, until) in start_and_latest(), (begin, end) in start_and_latest(), is_known in any::<bool>(),
    ) {
        let (begin, end) = (begin.min(end), begin.max(end));
        let known = Known { topic: "a", start: Some(start), until: Some(until), new_start: None, log: is_known.then_some((begin, end)) };
        let tp = TopicPartition::new("a", 0);
        let planned = plan_ranges(&Maps::new(&[(tp.clone(), known)]).input(&BTreeSet::new(), false)).unwrap();
        let lost: i128 = planned.lost.iter().map(|lost| i128::from(lost.range.size())).sum();
        let read: i128 = of(&planned, &tp).map_or(0, |range| range.size().into());
        prop_assert_eq!(lost + read, i128::from(until.abs_diff(start)));
        let overlap = (i128::from(until.min(end)) - i128::from(start.max(begin))).max(0);
        let expected = match (until < start, is_known) {
            (true, _) => 0,
            (false, true) => overlap,
            (false, false) => i128::from(until) - i128::from(start),
        };
        prop_assert_eq!(read, expected);
    }
}

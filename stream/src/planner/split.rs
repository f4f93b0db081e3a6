//! Splitting the ranges of a batch into pieces that are read side by side: `minPartitions` and `maxRecordsPerPartition`.

use crate::OffsetRange;
use std::collections::BTreeSet;

/// A batch is cut into about this many pieces at most, even if they come out longer than asked for: the ends of logs are what brokers say,
/// and no claim of theirs may take all memory.
const PIECES_MAX: u32 = 1 << 20;

/// Cuts ranges into pieces, in their order and ascending within each; empty ranges and empty pieces are dropped.
///
/// A piece spans at most `max_records_per_partition` offsets. There are about `min_partitions` pieces: the numbers are rounded shares, so
/// that there can be a few less or more. Both options are positive.
pub(crate) fn split(
    ranges: Vec<OffsetRange>,
    min_partitions: Option<i64>,
    max_records_per_partition: Option<i64>,
) -> Vec<OffsetRange> {
    let mut pieces: Vec<OffsetRange> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
    if let Some(max) = max_records_per_partition {
        let count_max = u64::from(PIECES_MAX) / (pieces.len() as u64).max(1);
        let count = |range| size(range).div_ceil(max.max(1).unsigned_abs()).min(count_max);
        pieces = pieces.iter().flat_map(|range| divide(range, count(range))).collect();
    }
    let min = min_partitions.map(|min| min.min(PIECES_MAX.into()));
    match min {
        Some(min) if usize::try_from(min).is_ok_and(|min| min > pieces.len()) => split_to_min(&pieces, min),
        _ => pieces,
    }
}

/// Ranges whose share of `min` pieces is one stay whole, and the others share what is left.
fn split_to_min(ranges: &[OffsetRange], min: i64) -> Vec<OffsetRange> {
    let total: u128 = ranges.iter().map(|range| u128::from(size(range))).sum();
    let (mut whole_count, mut whole_total) = (0, 0);
    // By partition, as in Spark: where one piece of a partition stays whole, so do its others.
    let mut whole = BTreeSet::new();
    for range in ranges.iter().filter(|range| parts(size(range), total, min) == 1) {
        whole.insert((&range.topic, range.partition));
        whole_count += 1;
        whole_total += u128::from(size(range));
    }
    let (total, min) = (total - whole_total, min.saturating_sub(whole_count).max(1));
    let cut = |range: &OffsetRange| match whole.contains(&(&range.topic, range.partition)) {
        true => divide(range, 1),
        false => divide(range, parts(size(range), total, min)),
    };
    ranges.iter().flat_map(cut).collect()
}

/// The share of a range with `size` of `total` offsets in `min` pieces, rounded half up. The order of the operations is Spark's.
fn parts(size: u64, total: u128, min: i64) -> u64 {
    let share = (size as f64 / total as f64 * min as f64).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number, not negative; it saturates"
    )]
    let share = share as u64;
    share.max(1)
}

/// Cuts a range into `count` pieces that differ by one offset at most, the longer ones last. Empty ones are dropped.
fn divide(range: &OffsetRange, count: u64) -> Vec<OffsetRange> {
    let mut from_offset = range.from_offset;
    let mut pieces = Vec::new();
    for left in (1..=count).rev() {
        let length = range.until_offset.abs_diff(from_offset) / left;
        let until_offset = from_offset.saturating_add_unsigned(length);
        if length > 0 {
            pieces.push(OffsetRange { from_offset, until_offset, ..range.clone() });
        }
        from_offset = until_offset;
    }
    pieces
}

fn size(range: &OffsetRange) -> u64 {
    range.size().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(partition: i32, from_offset: i64, until_offset: i64) -> OffsetRange {
        OffsetRange { topic: "t".to_owned(), partition, from_offset, until_offset }
    }

    /// Partition, first and end of each piece.
    fn pieces(sizes: &[i64], min: Option<i64>, max: Option<i64>) -> Vec<(i32, i64, i64)> {
        let ranges = (0..).zip(sizes).map(|(partition, size)| range(partition, 0, *size)).collect();
        let pieces = split(ranges, min, max);
        pieces.into_iter().map(|piece| (piece.partition, piece.from_offset, piece.until_offset)).collect()
    }

    #[test]
    fn golden_e01_min_partitions() {
        let expected = [(0, 0, 25), (0, 25, 50), (0, 50, 75), (0, 75, 100), (1, 0, 10)];
        assert_eq!(pieces(&[100, 10], Some(5), None), expected);
        // Golden c10, whose batch query divides in the same way.
        let expected = [(0, 0, 22), (0, 22, 44), (0, 44, 67), (0, 67, 90), (1, 0, 30), (2, 0, 1)];
        assert_eq!(pieces(&[90, 30, 1], Some(6), None), expected);
        assert_eq!(pieces(&[90, 30, 1], Some(3), None), [(0, 0, 90), (1, 0, 30), (2, 0, 1)], "there are enough");
        // One more would cut the first, by its share among those that are not small.
        assert_eq!(pieces(&[100, 30, 1, 1, 1, 1, 1], Some(7), None).len(), 7, "there are just enough");
    }

    #[test]
    fn golden_e03_max_records_per_partition() {
        let expected = [(0, 0, 20), (0, 20, 40), (0, 40, 60), (0, 60, 80), (0, 80, 101), (1, 0, 10)];
        assert_eq!(pieces(&[101, 10], None, Some(25)), expected);
    }

    #[test]
    fn no_option_no_split_and_nothing_empty() {
        assert_eq!(pieces(&[7, 0, 1], None, None), [(0, 0, 7), (2, 0, 1)]);
        assert_eq!(split(vec![range(0, 5, 3), range(1, 4, 4)], Some(9), Some(1)), []);
        assert_eq!(pieces(&[2], Some(5), None), [(0, 0, 1), (0, 1, 2)], "not more pieces than offsets");
        assert_eq!(pieces(&[10], None, Some(4)), [(0, 0, 3), (0, 3, 6), (0, 6, 10)]);
    }

    /// Pieces of 25, 25, 25 and 26 of the first partition, and 2 of the second, for 6: the second stays whole and the first is in 4 already.
    #[test]
    fn both_options_apply_one_after_the_other() {
        assert_eq!(pieces(&[101, 2], Some(5), Some(26)).len(), 5, "there are enough after the first");
        // 40 | 40 | 5: of 7 pieces the shares are 3.29, 3.29 and 0.41; 2 whole pieces fewer leave 6 for the first two.
        assert_eq!(
            pieces(&[80, 5], Some(7), Some(40)),
            [(0, 0, 13), (0, 13, 26), (0, 26, 40), (0, 40, 53), (0, 53, 66), (0, 66, 80), (1, 0, 5)]
        );
    }

    /// 3 offsets in pieces of 1 and 2: of 4 pieces the shares are 1.33 and 2.67, so the first piece stays whole, and with it the second,
    /// though that alone would be cut.
    #[test]
    fn a_partition_with_a_whole_piece_stays_whole() {
        assert_eq!(pieces(&[3], Some(4), Some(2)), [(0, 0, 1), (0, 1, 3)]);
        assert_eq!(pieces(&[3], Some(4), None), [(0, 0, 1), (0, 1, 2), (0, 2, 3)]);
    }

    #[test]
    fn s_s05_pieces_cover_their_range_exactly() {
        for size in 0..=1000 {
            for count in 1..=50 {
                let pieces = pieces(&[size], Some(count), None);
                assert!(pieces.iter().all(|(_, from, until)| from < until), "{size} in {count}: {pieces:?}");
                assert!(pieces.windows(2).all(|pair| pair[0].2 == pair[1].1), "{size} in {count}: {pieces:?}");
                assert_eq!(pieces.first().map_or(0, |first| first.1), 0);
                assert_eq!(pieces.last().map_or(0, |last| last.2), size);
                assert_eq!(i64::try_from(pieces.len()).unwrap(), size.min(count));
            }
        }
        assert_eq!(
            pieces(&[29, 29, 29], Some(4), None),
            [(0, 0, 29), (1, 0, 29), (2, 0, 29)],
            "a third of 4 is nearer to 1 than to 2"
        );
        assert_eq!(
            pieces(&[29, 29, 29], Some(5), None),
            [(0, 0, 14), (0, 14, 29), (1, 0, 14), (1, 14, 29), (2, 0, 14), (2, 14, 29)]
        );
    }

    #[test]
    fn a_claimed_end_makes_no_endless_list() {
        let pieces = split(vec![range(0, 0, i64::MAX)], Some(i64::MAX), Some(1));
        assert_eq!(pieces.len(), 1 << 20);
        assert_eq!((pieces[0].from_offset, pieces[pieces.len() - 1].until_offset), (0, i64::MAX));
        assert!(pieces.windows(2).all(|pair| pair[0].until_offset == pair[1].from_offset));
        assert_eq!(split(vec![range(0, 0, i64::MAX); 2], Some(i64::MAX), None).len(), 1 << 20);
    }
}

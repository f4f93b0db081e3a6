//! A range of one partition's offsets.

use std::fmt;

/// Offsets `from_offset` (inclusive) to `until_offset` (exclusive) of a partition.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct OffsetRange {
    /// The topic.
    pub topic: String,
    /// The partition's index.
    pub partition: i32,
    /// The first offset of the range.
    pub from_offset: i64,
    /// The offset after the last one of the range.
    pub until_offset: i64,
}

impl OffsetRange {
    /// How many offsets the range spans. Records are at most as many: markers, compaction and aborted records leave gaps.
    pub fn size(&self) -> i64 {
        self.until_offset.saturating_sub(self.from_offset).max(0)
    }

    /// Whether the range holds no offset.
    pub fn is_empty(&self) -> bool {
        self.from_offset >= self.until_offset
    }

    /// Whether the range goes on for as long as records come (continuous mode).
    pub(crate) fn is_endless(&self) -> bool {
        self.until_offset == i64::MAX
    }
}

impl fmt::Display for OffsetRange {
    /// `logs-3: [1200, 1850)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}: [{}, {})", self.topic, self.partition, self.from_offset, self.until_offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_knows_its_size() {
        let range = |from_offset, until_offset| OffsetRange {
            topic: "logs".to_owned(),
            partition: 3,
            from_offset,
            until_offset,
        };
        assert_eq!(range(1200, 1850).to_string(), "logs-3: [1200, 1850)");
        assert_eq!(range(1200, 1850).size(), 650);
        assert_eq!((range(5, 4).size(), range(5, 4).is_empty()), (0, true));
        assert_eq!(range(i64::MIN, i64::MAX).size(), i64::MAX);
    }
}

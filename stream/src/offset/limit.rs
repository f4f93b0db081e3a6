//! Where a read starts or ends, as the options say it.

use super::{SourceOffset, json::partition_numbers};
use crate::OptionError;
use ottla_client::TopicPartition;
use std::collections::BTreeMap;

/// Timestamps by partition, in milliseconds since the epoch.
pub type PartitionTimestamps = BTreeMap<TopicPartition, i64>;

/// One end of what is read, before it is resolved to numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OffsetRangeLimit {
    /// The log start of every partition.
    Earliest,
    /// The log end of every partition.
    Latest,
    /// An offset for each partition; -1 is latest and -2 earliest.
    Specific(SourceOffset),
    /// The first offset whose record is as late as the partition's timestamp.
    SpecificTimestamp(PartitionTimestamps),
    /// The first offset whose record is as late as this, in milliseconds since the epoch, in every partition.
    GlobalTimestamp(i64),
    /// What the commit group has committed; the log start where it has committed nothing. For starts only.
    Group,
}

impl OffsetRangeLimit {
    /// Reads `startingOffsets` or `endingOffsets`, as `option` says: `earliest`, `latest` (any case), or Spark's JSON, in which topics stay
    /// as written. A start may be `group`.
    pub(crate) fn parse_offsets(option: &str, text: &str) -> Result<Self, OptionError> {
        match text.trim() {
            word if option == "startingOffsets" && word.eq_ignore_ascii_case("group") => Ok(Self::Group),
            word if word.eq_ignore_ascii_case("earliest") => Ok(Self::Earliest),
            word if word.eq_ignore_ascii_case("latest") => Ok(Self::Latest),
            json if json.starts_with('{') => json.parse().map(Self::Specific),
            word => Err(OptionError::new(format!(
                r#"Expected e.g. {{"topicA":{{"0":23,"1":-1}},"topicB":{{"0":-2}}}}, got {word} (or one of the words earliest and latest)"#
            ))),
        }
    }

    /// Reads `startingTimestamp` or `endingTimestamp`.
    pub(crate) fn parse_timestamp(text: &str) -> Result<Self, OptionError> {
        let timestamp = text.trim().parse().ok().filter(|timestamp: &i64| *timestamp >= 0);
        timestamp.map(Self::GlobalTimestamp).ok_or_else(|| {
            OptionError::new(format!("Expected a single long value, got {text} (milliseconds since the epoch)"))
        })
    }

    /// Reads `startingOffsetsByTimestamp` or `endingOffsetsByTimestamp`.
    pub(crate) fn parse_by_timestamp(text: &str) -> Result<Self, OptionError> {
        let expected = |reason: String| {
            let example =
                "{\"topicA\": {\"0\": 123456789, \"1\": 123456789},\n\"topicB\": {\"0\": 123456789, \"1\": 123456789}}";
            OptionError::new(format!("Expected e.g. {example}, got {text} ({reason})"))
        };
        let topics = partition_numbers(text).map_err(expected)?;
        let mut timestamps = PartitionTimestamps::new();
        for (topic, partitions) in topics {
            for (index, timestamp) in partitions {
                let partition = TopicPartition::new(topic.clone(), index);
                if timestamp < 0 {
                    return Err(expected(format!("{timestamp} of {partition} is not a timestamp")));
                }
                timestamps.insert(partition, timestamp);
            }
        }
        Ok(Self::SpecificTimestamp(timestamps))
    }
}

impl OffsetRangeLimit {
    /// The first of its timestamps, if there is one, that looks as if it were in seconds.
    pub(crate) fn in_seconds(&self) -> Option<i64> {
        match self {
            Self::GlobalTimestamp(timestamp) => Some(*timestamp),
            Self::SpecificTimestamp(timestamps) => {
                timestamps.values().copied().find(|timestamp| looks_like_seconds(*timestamp))
            }
            _ => None,
        }
        .filter(|timestamp| looks_like_seconds(*timestamp))
    }
}

/// A time of this century in seconds is one of January 1970 in milliseconds.
pub(crate) fn looks_like_seconds(timestamp_ms: i64) -> bool {
    (1_000_000_000..10_000_000_000).contains(&timestamp_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_o13_seconds_are_told_from_milliseconds() {
        assert!(looks_like_seconds(1_700_000_000));
        assert!(!looks_like_seconds(1_700_000_000_000));
        assert!(!looks_like_seconds(0));
        let by_partition = OffsetRangeLimit::parse_by_timestamp(r#"{"t":{"0":0,"1":1700000000}}"#).unwrap();
        assert_eq!(by_partition.in_seconds(), Some(1_700_000_000));
        assert_eq!(OffsetRangeLimit::GlobalTimestamp(1_700_000_000_000).in_seconds(), None);
        assert_eq!(OffsetRangeLimit::Latest.in_seconds(), None);
    }

    #[test]
    fn s_c01_keywords_in_any_case_and_topics_as_written() {
        assert_eq!(OffsetRangeLimit::parse_offsets("startingOffsets", "LATEST"), Ok(OffsetRangeLimit::Latest));
        assert_eq!(OffsetRangeLimit::parse_offsets("startingOffsets", " Earliest "), Ok(OffsetRangeLimit::Earliest));
        let Ok(OffsetRangeLimit::Specific(offsets)) =
            OffsetRangeLimit::parse_offsets("startingOffsets", r#"{"TopicA":{"0":3}}"#)
        else {
            panic!()
        };
        assert_eq!(offsets.iter().collect::<Vec<_>>(), [(TopicPartition::new("TopicA", 0), 3)]);
        let error = OffsetRangeLimit::parse_offsets("startingOffsets", "first").unwrap_err().to_string();
        assert!(error.contains("got first"), "{error}");
    }

    #[test]
    fn timestamps() {
        assert_eq!(OffsetRangeLimit::parse_timestamp(" 5 "), Ok(OffsetRangeLimit::GlobalTimestamp(5)));
        assert_eq!(
            OffsetRangeLimit::parse_timestamp("x").unwrap_err().to_string(),
            "Expected a single long value, got x (milliseconds since the epoch)"
        );
        let Ok(OffsetRangeLimit::SpecificTimestamp(times)) = OffsetRangeLimit::parse_by_timestamp(r#"{"t":{"1":7}}"#)
        else {
            panic!()
        };
        assert_eq!(times, [(TopicPartition::new("t", 1), 7)].into());
        assert!(
            OffsetRangeLimit::parse_by_timestamp(r#"{"t":{"1":"7"}}"#)
                .unwrap_err()
                .to_string()
                .starts_with("Expected e.g. {\"topicA\": {")
        );
    }
}

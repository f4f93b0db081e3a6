//! Next offsets by topic and partition, in Spark's JSON.

use super::json::{partition_numbers, partition_numbers_json};
use crate::OptionError;
use ottla_client::TopicPartition;
use std::{collections::BTreeMap, fmt, str::FromStr};

/// The next offset to read of each partition: `{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}`. In options, -1 stands for latest and -2 for
/// earliest; no other negative number is an offset.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceOffset(BTreeMap<String, BTreeMap<i32, i64>>);

/// Latest, in option JSON.
pub(crate) const LATEST: i64 = -1;
/// Earliest, in option JSON.
pub(crate) const EARLIEST: i64 = -2;

impl SourceOffset {
    /// The offset of a partition.
    pub fn get(&self, partition: &TopicPartition) -> Option<i64> {
        self.0.get(&partition.topic)?.get(&partition.partition).copied()
    }

    /// Sets the offset of a partition.
    pub fn insert(&mut self, partition: TopicPartition, offset: i64) {
        self.0.entry(partition.topic).or_default().insert(partition.partition, offset);
    }

    /// Partitions and offsets, in order.
    pub fn iter(&self) -> impl Iterator<Item = (TopicPartition, i64)> {
        self.0.iter().flat_map(|(topic, partitions)| {
            partitions.iter().map(move |(index, offset)| (TopicPartition::new(topic.clone(), *index), *offset))
        })
    }

    /// As an object, for JSON of which it is a part.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        partition_numbers_json(&self.0)
    }
}

impl FromIterator<(TopicPartition, i64)> for SourceOffset {
    fn from_iter<I: IntoIterator<Item = (TopicPartition, i64)>>(offsets: I) -> Self {
        let mut all = Self::default();
        offsets.into_iter().for_each(|(partition, offset)| all.insert(partition, offset));
        all
    }
}

impl FromStr for SourceOffset {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let expected = |reason: String| {
            OptionError::new(format!(
                r#"Expected e.g. {{"topicA":{{"0":23,"1":-1}},"topicB":{{"0":-2}}}}, got {text} ({reason})"#
            ))
        };
        let offsets = Self(partition_numbers(text).map_err(expected)?);
        let unknown = offsets.iter().find(|(_, offset)| *offset < EARLIEST);
        if let Some((partition, offset)) = unknown {
            let reason = "-1 is latest, -2 earliest, no other is negative";
            return Err(expected(format!("{offset} of {partition} is not an offset; {reason}")));
        }
        Ok(offsets)
    }
}

impl fmt::Display for SourceOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_json().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SourceOffset, String> {
        text.parse().map_err(|error: OptionError| error.to_string())
    }

    #[test]
    fn sparks_json_both_ways() {
        let text = r#"{"Topic.A":{"0":23,"1":-1,"10":5},"topicB":{"0":-2}}"#;
        assert_eq!(parse(text).unwrap().to_string(), text);
        assert_eq!(parse(" { \"t\" : { \"0\" : 4 } } ").unwrap().to_string(), r#"{"t":{"0":4}}"#);
        assert_eq!(parse("{}").unwrap(), SourceOffset::default());
        assert_eq!(parse(r#"{"t":{}}"#).unwrap(), SourceOffset::default());
        let odd = SourceOffset::from_iter([(TopicPartition::new("a\"b\\\u{e4}\n", 0), i64::MAX)]);
        assert_eq!(parse(&odd.to_string()).unwrap(), odd);
    }

    #[test]
    fn s_c02_json_that_is_no_offset_map_shows_an_example() {
        for bad in [
            r#"{"t":{"0":-3}}"#,
            r#"{"t":{"x":1}}"#,
            r#"{"t":{"-1":1}}"#,
            r#"{"t":{"01":1}}"#,
            r#"{"t":[0]}"#,
            "1e3",
            r#"{"t":{"0":1e3}}"#,
            r#"{"t":{"0":1.5}}"#,
            r#"{"t":{"0":"0"}}"#,
            r#"{"t":{"0":1,"0":2}}"#,
            r#"{"t":{"0":1},"t":{"1":2}}"#,
            r#"{"t":{"0":9223372036854775808}}"#,
            "first",
            "",
        ] {
            let error = parse(bad).unwrap_err();
            let start = format!(r#"Expected e.g. {{"topicA":{{"0":23,"1":-1}},"topicB":{{"0":-2}}}}, got {bad}"#);
            assert!(error.starts_with(&start), "{error}");
        }
    }
}

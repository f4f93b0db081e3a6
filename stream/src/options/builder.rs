//! Options in typed form. They become pairs and take the same way as those, so that both spellings mean the same.

use super::{OffsetOutOfRange, OptionError, StartingOffsetsByTimestampStrategy, StreamOptions};
use crate::{OffsetRangeLimit, PartitionTimestamps, SourceOffset};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

/// Collects [`StreamOptions`]; made by [`StreamOptions::builder`]. What was set twice counts as set last.
///
/// ```
/// use ottla_stream::{OffsetRangeLimit, StreamOptions};
///
/// let options = StreamOptions::builder()
///     .bootstrap_servers("localhost:9092")
///     .subscribe(["logs"])
///     .starting(OffsetRangeLimit::Earliest)
///     .max_offsets_per_trigger(10_000)
///     .build_stream()?;
/// let pairs = [
///     ("kafka.bootstrap.servers", "localhost:9092"),
///     ("subscribe", "logs"),
///     ("startingOffsets", "earliest"),
///     ("maxOffsetsPerTrigger", "10000"),
/// ];
/// assert_eq!(options, StreamOptions::stream_from_pairs(pairs)?);
/// # Ok::<(), ottla_stream::OptionError>(())
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct StreamOptionsBuilder {
    pairs: Vec<(String, String)>,
}

/// The names only: a value may be a password.
impl fmt::Debug for StreamOptionsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.pairs.iter().map(|(name, _)| name)).finish()
    }
}

impl StreamOptionsBuilder {
    /// An option by its name.
    pub fn option(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.pairs.push((name.into(), value.into()));
        self
    }

    /// `kafka.bootstrap.servers`: `host:port`, several with commas between.
    pub fn bootstrap_servers(self, servers: impl Into<String>) -> Self {
        self.option("kafka.bootstrap.servers", servers)
    }

    /// `subscribe`.
    pub fn subscribe<T: AsRef<str>>(self, topics: impl IntoIterator<Item = T>) -> Self {
        let topics: Vec<String> = topics.into_iter().map(|topic| topic.as_ref().to_owned()).collect();
        self.option("subscribe", topics.join(","))
    }

    /// `subscribePattern`.
    pub fn subscribe_pattern(self, pattern: impl Into<String>) -> Self {
        self.option("subscribePattern", pattern)
    }

    /// `assign`.
    pub fn assign(self, partitions: &BTreeMap<String, BTreeSet<i32>>) -> Self {
        self.option("assign", serde_json::json!(partitions).to_string())
    }

    /// Where to start: `startingOffsets`, `startingOffsetsByTimestamp` or `startingTimestamp`.
    pub fn starting(self, limit: OffsetRangeLimit) -> Self {
        self.limit(["startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp"], limit)
    }

    /// Where a bounded read ends, exclusive: `endingOffsets`, `endingOffsetsByTimestamp` or `endingTimestamp`.
    pub fn ending(self, limit: OffsetRangeLimit) -> Self {
        self.limit(["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"], limit)
    }

    /// `startingOffsetsByTimestampStrategy`.
    pub fn starting_by_timestamp_strategy(self, strategy: StartingOffsetsByTimestampStrategy) -> Self {
        let word = match strategy {
            StartingOffsetsByTimestampStrategy::Error => "error",
            StartingOffsetsByTimestampStrategy::Latest => "latest",
        };
        self.option("startingOffsetsByTimestampStrategy", word)
    }

    /// `failOnDataLoss`.
    pub fn fail_on_data_loss(self, fail: bool) -> Self {
        self.option("failOnDataLoss", fail.to_string())
    }

    /// `includeHeaders`.
    pub fn include_headers(self, include: bool) -> Self {
        self.option("includeHeaders", include.to_string())
    }

    /// `maxOffsetsPerTrigger`.
    pub fn max_offsets_per_trigger(self, offsets: u64) -> Self {
        self.option("maxOffsetsPerTrigger", offsets.to_string())
    }

    /// `minOffsetsPerTrigger`.
    pub fn min_offsets_per_trigger(self, offsets: u64) -> Self {
        self.option("minOffsetsPerTrigger", offsets.to_string())
    }

    /// `maxTriggerDelay`, to the millisecond.
    pub fn max_trigger_delay(self, delay: Duration) -> Self {
        self.option("maxTriggerDelay", delay.as_millis().to_string())
    }

    /// `minPartitions`.
    pub fn min_partitions(self, partitions: u32) -> Self {
        self.option("minPartitions", partitions.to_string())
    }

    /// `maxRecordsPerPartition`.
    pub fn max_records_per_partition(self, records: u64) -> Self {
        self.option("maxRecordsPerPartition", records.to_string())
    }

    /// `kafka.consumer.commit.groupid`.
    pub fn commit_group(self, group: impl Into<String>) -> Self {
        self.option("kafka.consumer.commit.groupid", group)
    }

    /// `ottla.offsetOutOfRange`.
    pub fn offset_out_of_range(self, policy: OffsetOutOfRange) -> Self {
        let word = match policy {
            OffsetOutOfRange::Fail => "fail",
            OffsetOutOfRange::Earliest => "earliest",
            OffsetOutOfRange::Latest => "latest",
        };
        self.option("ottla.offsetOutOfRange", word)
    }

    /// The options of a bounded read.
    ///
    /// # Errors
    /// As [`StreamOptions::from_pairs`].
    pub fn build(self) -> Result<StreamOptions, OptionError> {
        StreamOptions::from_pairs(self.pairs)
    }

    /// The options of a stream.
    ///
    /// # Errors
    /// As [`StreamOptions::stream_from_pairs`].
    pub fn build_stream(self) -> Result<StreamOptions, OptionError> {
        StreamOptions::stream_from_pairs(self.pairs)
    }

    /// Only one of the three names may be left, since they rank each other.
    fn limit(mut self, names: [&'static str; 3], limit: OffsetRangeLimit) -> Self {
        self.pairs.retain(|(name, _)| !names.iter().any(|known| known.eq_ignore_ascii_case(name)));
        let [offsets, by_timestamp, timestamp] = names;
        match limit {
            OffsetRangeLimit::Earliest => self.option(offsets, "earliest"),
            OffsetRangeLimit::Latest => self.option(offsets, "latest"),
            OffsetRangeLimit::Group => self.option(offsets, "group"),
            OffsetRangeLimit::Specific(map) => self.option(offsets, map.to_string()),
            OffsetRangeLimit::SpecificTimestamp(times) => self.option(by_timestamp, by_partition(times)),
            OffsetRangeLimit::GlobalTimestamp(time) => self.option(timestamp, time.to_string()),
        }
    }
}

/// Timestamps have the JSON of offsets.
fn by_partition(timestamps: PartitionTimestamps) -> String {
    timestamps.into_iter().collect::<SourceOffset>().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_client::TopicPartition;

    #[test]
    fn both_spellings_of_every_option_mean_the_same() {
        let offsets: SourceOffset = r#"{"a":{"0":5}}"#.parse().unwrap();
        let built = StreamOptions::builder()
            .bootstrap_servers("h:1")
            .assign(&[("a".to_owned(), [0].into())].into())
            .starting(OffsetRangeLimit::Latest)
            .starting(OffsetRangeLimit::Specific(offsets))
            .starting_by_timestamp_strategy(StartingOffsetsByTimestampStrategy::Latest)
            .fail_on_data_loss(false)
            .include_headers(true)
            .max_offsets_per_trigger(20)
            .min_offsets_per_trigger(10)
            .max_trigger_delay(Duration::from_secs(30))
            .min_partitions(4)
            .max_records_per_partition(1000)
            .commit_group("g")
            .offset_out_of_range(OffsetOutOfRange::Latest)
            .build_stream();
        let pairs = [
            ("kafka.bootstrap.servers", "h:1"),
            ("assign", r#"{"a":[0]}"#),
            ("startingOffsets", r#"{"a":{"0":5}}"#),
            ("startingOffsetsByTimestampStrategy", "LATEST"),
            ("failOnDataLoss", "FALSE"),
            ("includeHeaders", "true"),
            ("maxOffsetsPerTrigger", "20"),
            ("minOffsetsPerTrigger", "10"),
            ("maxTriggerDelay", "30s"),
            ("minPartitions", "4"),
            ("maxRecordsPerPartition", "1000"),
            ("kafka.consumer.commit.groupid", "g"),
            ("ottla.offsetOutOfRange", "latest"),
        ];
        assert_eq!(built.unwrap(), StreamOptions::stream_from_pairs(pairs).unwrap());
    }

    #[test]
    fn a_bounded_read_has_an_end() {
        let times: PartitionTimestamps = [(TopicPartition::new("a", 0), 7)].into();
        let built = StreamOptions::builder()
            .bootstrap_servers("h:1")
            .subscribe(["a", "b"])
            .starting(OffsetRangeLimit::GlobalTimestamp(3))
            .ending(OffsetRangeLimit::SpecificTimestamp(times.clone()))
            .build()
            .unwrap();
        assert_eq!(built.starting, OffsetRangeLimit::GlobalTimestamp(3));
        assert_eq!(built.ending, OffsetRangeLimit::SpecificTimestamp(times));
        assert_eq!(built.strategy.to_string(), "Subscribe[a, b]");
        let refused =
            StreamOptions::builder().bootstrap_servers("h:1").subscribe(["a"]).ending(OffsetRangeLimit::Latest);
        assert_eq!(refused.build_stream().unwrap_err().to_string(), "ending offset not valid in streaming queries");
    }
}

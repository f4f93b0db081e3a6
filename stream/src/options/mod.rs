//! What a read is told: Spark's options by their names, checked in Spark's order and parsed once, into types.

mod bounds;
mod builder;
mod client;
mod error;
mod maintenance;
mod names;
mod toml;
mod values;
mod zookeeper;

pub use builder::StreamOptionsBuilder;
pub use error::OptionError;
pub use maintenance::MaintenanceOptions;
pub use toml::TomlOptions;

use crate::{ConsumerStrategy, OffsetRangeLimit, offset::assignment};
use bounds::{bounded_starting, by_timestamp_strategy, check_bounds, ending, refuse_ending, starting};
use client::client;
use names::Pairs;
use ottla_client::{ClientConfig, TopicPartition};
use std::time::Duration;
pub(crate) use values::duration;
use values::{boolean, long, positive};
pub use zookeeper::{ZooKeeperAuth, ZooKeeperOptions};

/// The default of `ottla.recommitInterval`: far less than the week for which brokers remember a group, and next to no traffic.
pub(crate) const RECOMMIT_INTERVAL_DEFAULT: Duration = Duration::from_secs(10 * 60);

/// What a start timestamp that no record reaches means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StartingOffsetsByTimestampStrategy {
    /// It is an error.
    #[default]
    Error,
    /// The partition starts at its end.
    Latest,
}

/// What a stored offset outside of the log means (`ottla.offsetOutOfRange`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OffsetOutOfRange {
    /// It is an error.
    Fail,
    /// The partition is read from the log's start, with a warning that counts what is gone.
    Earliest,
    /// The partition is read from the log's end, with a warning that counts what is passed over.
    Latest,
}

/// The options of a source: of a bounded read ([`from_pairs`](Self::from_pairs)) or of a stream
/// ([`stream_from_pairs`](Self::stream_from_pairs)).
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct StreamOptions {
    /// `kafka.*`: how brokers are reached.
    pub client: ClientConfig,
    /// `subscribe`, `subscribePattern` or `assign`.
    pub strategy: ConsumerStrategy,
    /// `startingTimestamp`, `startingOffsetsByTimestamp` or `startingOffsets`, the first of them that is given. Default earliest in a bounded
    /// read, latest in a stream, where it counts for the very first start only.
    pub starting: OffsetRangeLimit,
    /// `startingOffsetsByTimestampStrategy`. Default `error`.
    pub starting_by_timestamp_strategy: StartingOffsetsByTimestampStrategy,
    /// `endingTimestamp`, `endingOffsetsByTimestamp` or `endingOffsets`, the first of them that is given. Default latest, which it always is
    /// in a stream.
    pub ending: OffsetRangeLimit,
    /// `failOnDataLoss`. Default true.
    pub fail_on_data_loss: bool,
    /// `includeHeaders`. Default false.
    pub include_headers: bool,
    /// `maxOffsetsPerTrigger`: a batch of a stream spans about so many offsets, shared among the partitions by how much each has. Default: no
    /// limit.
    pub max_offsets_per_trigger: Option<i64>,
    /// `minOffsetsPerTrigger`: a stream waits for so many offsets before it makes a batch, for `max_trigger_delay` at most. Default: none.
    pub min_offsets_per_trigger: Option<i64>,
    /// `maxTriggerDelay`. Default 15 min.
    pub max_trigger_delay: Duration,
    /// `minPartitions`: ranges are split until there are about so many. Default: a range a partition.
    pub min_partitions: Option<i64>,
    /// `maxRecordsPerPartition`: ranges that span more offsets are split. Default: a range a partition.
    pub max_records_per_partition: Option<i64>,
    /// `fetchOffset.numRetries`: how often a look-up of partitions or offsets is tried, the first time counted. Default 3.
    pub fetch_offset_num_retries: u32,
    /// `fetchOffset.retryIntervalMs`: the pause between two tries. Default 1 s.
    pub fetch_offset_retry_interval: Duration,
    /// `kafkaConsumer.pollTimeoutMs`, if it is given: how long a range may give nothing before that is an error. Default 120 s; 512 ms in
    /// continuous mode, where it is no error.
    pub poll_timeout: Option<Duration>,
    /// `kafka.consumer.commit.groupid`: the group that the end offsets are committed to.
    pub commit_group: Option<String>,
    /// `ottla.offsetOutOfRange`: what stored offsets outside of the log mean. Default `fail` when `failOnDataLoss` is true, else `earliest`.
    pub offset_out_of_range: Option<OffsetOutOfRange>,
    /// `ottla.recommitInterval`: how long after its last commit a query that has nothing new commits the same offsets again, so that they
    /// don't expire on the brokers (`offsets.retention.minutes`, a week by default). Default 10 min.
    pub recommit_interval: Duration,
    /// `ottla.zookeeper.*`: how a store in ZooKeeper is reached, if there is one.
    pub zookeeper: ZooKeeperOptions,
    /// `checkpointLocation`: the directory that a stream keeps its state in.
    pub checkpoint_location: Option<String>,
    /// `queryName`: a stream's name in its progress.
    pub query_name: Option<String>,
    /// Whether `kafka.group.id` was given, of which Spark's messages speak.
    pub(crate) custom_group_id: bool,
    /// What was accepted but does not do what the user may think, a sentence each.
    pub warnings: Vec<String>,
}

/// What the options are for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Bounded,
    Stream,
}

/// Options that Spark accepts in bounded reads without an effect.
const STREAM_ONLY: &[&str] = &[
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "checkpointLocation",
    "queryName",
    "ottla.recommitInterval",
];

impl StreamOptions {
    /// Reads the options of a bounded read (Spark's `spark.read`). Names compare without case; of an option given twice the last counts.
    ///
    /// ```
    /// use ottla_stream::StreamOptions;
    ///
    /// let options = StreamOptions::from_pairs([
    ///     ("kafka.bootstrap.servers", "localhost:9092"),
    ///     ("subscribe", "logs"),
    ///     ("startingOffsets", r#"{"logs":{"0":23,"1":-2}}"#),
    /// ])?;
    /// assert_eq!(options.strategy.to_string(), "Subscribe[logs]");
    /// # Ok::<(), ottla_stream::OptionError>(())
    /// ```
    ///
    /// # Errors
    /// The first mistake in Spark's order of validation; unknown names before all others.
    pub fn from_pairs<K: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, OptionError> {
        Self::parse(&Pairs::new(pairs)?, Use::Bounded)
    }

    /// Reads the options of a stream (Spark's `spark.readStream`). What Spark finds only when the query runs, as JSON that is none, is found
    /// here already.
    ///
    /// ```
    /// use ottla_stream::{OffsetRangeLimit, StreamOptions};
    ///
    /// let options = StreamOptions::stream_from_pairs([
    ///     ("kafka.bootstrap.servers", "localhost:9092"),
    ///     ("subscribe", "logs"),
    ///     ("maxOffsetsPerTrigger", "100000"),
    /// ])?;
    /// assert_eq!(options.starting, OffsetRangeLimit::Latest);
    /// assert_eq!(options.max_offsets_per_trigger, Some(100_000));
    /// # Ok::<(), ottla_stream::OptionError>(())
    /// ```
    ///
    /// # Errors
    /// The first mistake in Spark's order of validation; unknown names before all others.
    pub fn stream_from_pairs<K: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, OptionError> {
        Self::parse(&Pairs::new(pairs)?, Use::Stream)
    }

    /// Options in typed form.
    pub fn builder() -> StreamOptionsBuilder {
        StreamOptionsBuilder::default()
    }

    fn parse(pairs: &Pairs, usage: Use) -> Result<Self, OptionError> {
        let (start, end) = match usage {
            Use::Bounded => (Some(bounded_starting(pairs)?), ending(pairs)?),
            Use::Stream => {
                refuse_ending(pairs)?;
                (None, OffsetRangeLimit::Latest)
            }
        };
        let strategy = strategy(pairs)?;
        let min_partitions = pairs.get("minPartitions").map(|value| positive("minPartitions", value)).transpose()?;
        // As Spark spells it.
        let max_records = pairs.get("maxRecordsPerPartition").map(|value| positive("maxrecordsperpartition", value));
        let max_records_per_partition = max_records.transpose()?;
        let mut warnings = Vec::new();
        let (mut client, commit_group) = client(pairs, &mut warnings)?;
        let rate = |name: &'static str| pairs.get(name).map(|value| positive(name, value)).transpose();
        let (min_offsets_per_trigger, max_offsets_per_trigger) =
            (rate("minOffsetsPerTrigger")?, rate("maxOffsetsPerTrigger")?);
        if let (Some(min), Some(max)) = (min_offsets_per_trigger, max_offsets_per_trigger)
            && min > max
        {
            return Err(OptionError::new(format!(
                "The value of minOffsetPerTrigger({min}) is higher than the maxOffsetsPerTrigger({max})."
            )));
        }
        let starting = match start {
            Some(start) => start,
            None => starting(pairs, OffsetRangeLimit::Latest)?,
        };
        check_bounds(&starting, &end)?;
        // A query may get its group elsewhere, and looks itself.
        if usage == Use::Bounded {
            check_group(&starting, commit_group.as_deref())?;
        }
        let poll_timeout = match pairs.get("kafkaConsumer.pollTimeoutMs") {
            Some(value) => Some(millis("kafkaConsumer.pollTimeoutMs", value)?),
            None => None,
        };
        client.poll_timeout = poll_timeout.unwrap_or(client.poll_timeout);
        if let Some(value) = pairs.get("ottla.memory.bytes") {
            let bytes = positive("ottla.memory.bytes", value)?;
            client.memory_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        for (name, limit) in [("starting", &starting), ("ending", &end)] {
            if let Some(timestamp) = limit.in_seconds() {
                warnings.push(format!(
                    "the {name} timestamp {timestamp} is one of 1970: timestamps are in milliseconds, and this looks like seconds"
                ));
            }
        }
        if usage == Use::Bounded {
            for name in STREAM_ONLY.iter().chain(&zookeeper::NAMES).filter(|name| pairs.get(name).is_some()) {
                warnings.push(format!("option '{name}' is for streams; a bounded read ignores it"));
            }
        }
        if pairs.get("groupIdPrefix").is_some() {
            warnings.push("option 'groupIdPrefix' has no effect: no group is joined to read".to_owned());
        }
        let zookeeper = ZooKeeperOptions::of(pairs)?;
        let flag = |name, default| pairs.get(name).map_or(Ok(default), |value| boolean(name, value));
        Ok(Self {
            client,
            strategy,
            starting,
            starting_by_timestamp_strategy: by_timestamp_strategy(pairs)?,
            ending: end,
            fail_on_data_loss: flag("failOnDataLoss", true)?,
            include_headers: flag("includeHeaders", false)?,
            max_offsets_per_trigger,
            min_offsets_per_trigger,
            max_trigger_delay: match pairs.get("maxTriggerDelay") {
                Some(value) => duration("maxTriggerDelay", value)?,
                None => Duration::from_secs(15 * 60),
            },
            min_partitions,
            max_records_per_partition,
            fetch_offset_num_retries: match pairs.get("fetchOffset.numRetries") {
                // None at all would not even ask once.
                Some(value) => u32::try_from(not_negative("fetchOffset.numRetries", value)?.max(1)).unwrap_or(u32::MAX),
                None => 3,
            },
            fetch_offset_retry_interval: match pairs.get("fetchOffset.retryIntervalMs") {
                Some(value) => {
                    Duration::from_millis(not_negative("fetchOffset.retryIntervalMs", value)?.unsigned_abs())
                }
                None => Duration::from_secs(1),
            },
            poll_timeout,
            commit_group,
            offset_out_of_range: pairs.get("ottla.offsetOutOfRange").map(out_of_range).transpose()?,
            recommit_interval: match pairs.get("ottla.recommitInterval") {
                Some(value) => duration("ottla.recommitInterval", value)?,
                None => RECOMMIT_INTERVAL_DEFAULT,
            },
            zookeeper,
            checkpoint_location: pairs.get("checkpointLocation").map(str::to_owned),
            query_name: pairs.get("queryName").map(str::to_owned),
            custom_group_id: pairs.kafka.iter().any(|(key, _)| key == "group.id"),
            warnings,
        })
    }

    /// What a stored offset outside of the log means, with the default of its store, or the one that `failOnDataLoss` gives.
    pub(crate) fn out_of_range(&self, of_store: Option<OffsetOutOfRange>) -> OffsetOutOfRange {
        let default = if self.fail_on_data_loss { OffsetOutOfRange::Fail } else { OffsetOutOfRange::Earliest };
        self.offset_out_of_range.or(of_store).unwrap_or(default)
    }
}

/// Reads the options of a command that asks brokers but reads no source: `kafka.*` only. Returns the settings and what to warn of.
///
/// # Errors
/// Any other option, and every mistake that [`StreamOptions::from_pairs`] finds in `kafka.*`.
pub fn client_config<K: AsRef<str>, V: AsRef<str>>(
    pairs: impl IntoIterator<Item = (K, V)>,
) -> Result<(ClientConfig, Vec<String>), OptionError> {
    let pairs = Pairs::new(pairs)?;
    if let Some(name) = pairs.names().next() {
        return Err(OptionError::new(format!("option '{name}' says what to read, and nothing is read here")));
    }
    let mut warnings = Vec::new();
    let (client, _) = client(&pairs, &mut warnings)?;
    Ok((client, warnings))
}

fn strategy(pairs: &Pairs) -> Result<ConsumerStrategy, OptionError> {
    const NAMES: &str = "subscribe, subscribepattern, assign. See the docs for more details.";
    match (pairs.raw("subscribe"), pairs.raw("subscribePattern"), pairs.raw("assign")) {
        (Some(topics), None, None) => ConsumerStrategy::subscribe(topics),
        (None, Some(pattern), None) => ConsumerStrategy::subscribe_pattern(pattern),
        (None, None, Some(partitions)) => ConsumerStrategy::assign(assignment(partitions)?),
        (None, None, None) => {
            Err(OptionError::new(format!("One of the following options must be specified for Kafka source: {NAMES}")))
        }
        _ => Err(OptionError::new(format!(
            "Only one of the following options can be specified for Kafka source: {NAMES}"
        ))),
    }
}

/// To start where a group is takes a group.
pub(crate) fn check_group(starting: &OffsetRangeLimit, group: Option<&str>) -> Result<(), OptionError> {
    if *starting == OffsetRangeLimit::Group && group.is_none() {
        return Err(OptionError::new(
            "option 'startingOffsets' is group, and no group is named: set kafka.consumer.commit.groupid (--commit-group)",
        ));
    }
    Ok(())
}

fn not_negative(name: &'static str, value: &str) -> Result<i64, OptionError> {
    match long(name, value)? {
        number @ 0.. => Ok(number),
        number => Err(OptionError::new(format!("{name} must not be negative, got {number}"))),
    }
}

fn millis(name: &'static str, value: &str) -> Result<Duration, OptionError> {
    Ok(Duration::from_millis(positive(name, value)?.unsigned_abs()))
}

fn out_of_range(value: &str) -> Result<OffsetOutOfRange, OptionError> {
    match value.to_ascii_lowercase().as_str() {
        "fail" => Ok(OffsetOutOfRange::Fail),
        "earliest" => Ok(OffsetOutOfRange::Earliest),
        "latest" => Ok(OffsetOutOfRange::Latest),
        _ => Err(OptionError::new(format!(
            "option 'ottla.offsetOutOfRange' can't be '{value}': it must be fail, earliest or latest"
        ))),
    }
}

/// `Set(a-0, a-1)`, as Spark's messages show sets.
pub(crate) fn partition_set<'a>(partitions: impl IntoIterator<Item = &'a TopicPartition>) -> String {
    format!("Set({})", partitions.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Result<StreamOptions, String> {
        let base = [("kafka.bootstrap.servers", "h:1"), ("subscribe", "t")];
        StreamOptions::from_pairs(base.iter().chain(pairs).copied()).map_err(|error| error.to_string())
    }

    fn refused(pairs: &[(&str, &str)], text: &str) {
        match options(pairs) {
            Ok(options) => panic!("{pairs:?} was taken as {options:?}"),
            Err(error) => assert!(error.contains(text), "{pairs:?}: {error}"),
        }
    }

    #[test]
    fn names_in_any_case_and_the_last_of_two() {
        let options =
            options(&[("STARTINGOFFSETS", "earliest"), ("FailOnDataLoss", "FALSE"), ("failondataloss", "true")])
                .unwrap();
        assert_eq!(options.starting, OffsetRangeLimit::Earliest);
        assert!(options.fail_on_data_loss);
    }

    #[test]
    fn sparks_texts() {
        refused(&[("startingOffsets", "latest")], "starting offset can't be latest for batch queries on Kafka");
        refused(
            &[("startingOffsets", r#"{"c05":{"0":-1}}"#)],
            "startingOffsets for c05-0 can't be latest for batch queries on Kafka",
        );
        refused(&[("endingOffsets", "earliest")], "ending offset can't be earliest for batch queries on Kafka");
        refused(
            &[("endingOffsets", r#"{"c05":{"0":-2}}"#)],
            "ending offset for c05-0 can't be earliest for batch queries on Kafka",
        );
        refused(&[("assign", r#"{"t":[0]}"#)], "Only one of the following options can be specified for Kafka source");
        refused(&[("minPartitions", "0")], "minPartitions must be positive");
        refused(&[("minPartitions", "a")], "For input string: \"a\"");
        refused(&[("maxRecordsPerPartition", "-1")], "maxrecordsperpartition must be positive");
        refused(&[("kafka.auto.offset.reset", "latest")], "Kafka option 'auto.offset.reset' is not supported.");
        refused(
            &[("kafka.Enable.Auto.Commit", "true")],
            "Kafka option 'enable.auto.commit' is not supported: offsets are committed only",
        );
        refused(
            &[("kafka.key.deserializer", "x")],
            "as keys are deserialized as byte arrays with ByteArrayDeserializer",
        );
        refused(&[("kafka.interceptor.classes", "x")], "Kafka option 'interceptor.classes' is not supported");
        refused(
            &[("minOffsetsPerTrigger", "20"), ("maxOffsetsPerTrigger", "10")],
            "The value of minOffsetPerTrigger(20) is higher than the maxOffsetsPerTrigger(10).",
        );
        refused(
            &[("startingOffsets", r#"{"c05":{"0":8}}"#), ("endingOffsets", r#"{"c05":{"0":4}}"#)],
            "The specified start offset 8 is greater than the end offset 4 for topic c05 partition 0.",
        );
        refused(
            &[("startingOffsets", r#"{"c05":{"0":8}}"#), ("endingOffsets", r#"{"c05":{"1":9}}"#)],
            "start Set(c05-0), end Set(c05-1)",
        );
        refused(&[("startingOffsetsByTimestampStrategy", "nearest")], "No value found for 'NEAREST'");
        let none: [(&str, &str); 0] = [];
        let error = StreamOptions::from_pairs(none).unwrap_err().to_string();
        assert_eq!(
            error,
            "One of the following options must be specified for Kafka source: subscribe, subscribepattern, assign. See the docs for more details."
        );
        let error = StreamOptions::from_pairs([("subscribe", "t")]).unwrap_err().to_string();
        assert!(error.contains("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer"));
    }

    #[test]
    fn a_lower_ranked_option_is_not_even_parsed() {
        let options = options(&[
            ("startingTimestamp", "5"),
            ("startingOffsetsByTimestamp", "nonsense"),
            ("startingOffsets", "nonsense"),
        ])
        .unwrap();
        assert_eq!(options.starting, OffsetRangeLimit::GlobalTimestamp(5));
    }

    #[test]
    fn unknown_options_name_the_nearest_known_one() {
        refused(
            &[("startingOffset", "earliest")],
            "there is no option 'startingOffset'; did you mean 'startingOffsets'?",
        );
        refused(&[("kafka.fetch.min.byte", "1")], "did you mean 'fetch.min.bytes'?");
        refused(&[("zzz", "1")], "there is no option 'zzz'");
    }

    #[test]
    fn settings_without_effect_warn_once_each() {
        let without_effect = [
            ("kafka.max.poll.records", "5"),
            ("kafka.group.id", "g"),
            ("maxOffsetsPerTrigger", "5"),
            ("groupIdPrefix", "p"),
            ("ottla.zookeeper.timeout.ms", "5"),
        ];
        let warnings = options(&without_effect).unwrap().warnings;
        assert_eq!(warnings.len(), without_effect.len(), "{warnings:?}");
        for (name, _) in without_effect {
            let name = name.trim_start_matches("kafka.");
            assert!(warnings.iter().any(|warning| warning.contains(&format!("'{name}'"))), "{name}: {warnings:?}");
        }
    }
}

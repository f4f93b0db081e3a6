//! What a read is told: Spark's options by their names, checked in Spark's order and parsed once, into types.

mod error;
mod names;
mod values;

pub use error::OptionError;

use crate::{
    ConsumerStrategy, OffsetRangeLimit, SourceOffset,
    offset::{
        assignment,
        source_offset::{EARLIEST, LATEST},
    },
};
use names::Pairs;
use ottla_client::{ClientConfig, SettingEffect, TopicPartition};
use std::{collections::BTreeSet, time::Duration};
use values::{boolean, duration, long, positive};

/// What a start timestamp that no record reaches means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StartingOffsetsByTimestampStrategy {
    /// It is an error.
    #[default]
    Error,
    /// The partition starts at its end.
    Latest,
}

/// The options of a bounded read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StreamOptions {
    /// `kafka.*`: how brokers are reached.
    pub client: ClientConfig,
    /// `subscribe`, `subscribePattern` or `assign`.
    pub strategy: ConsumerStrategy,
    /// `startingTimestamp`, `startingOffsetsByTimestamp` or `startingOffsets`, the first of them that is given. Default earliest.
    pub starting: OffsetRangeLimit,
    /// `startingOffsetsByTimestampStrategy`. Default `error`.
    pub starting_by_timestamp_strategy: StartingOffsetsByTimestampStrategy,
    /// `endingTimestamp`, `endingOffsetsByTimestamp` or `endingOffsets`, the first of them that is given. Default latest.
    pub ending: OffsetRangeLimit,
    /// `failOnDataLoss`. Default true.
    pub fail_on_data_loss: bool,
    /// `includeHeaders`. Default false.
    pub include_headers: bool,
    /// `kafka.consumer.commit.groupid`: the group that the end offsets are committed to.
    pub commit_group: Option<String>,
    /// What was accepted but does not do what the user may think, a sentence each.
    pub warnings: Vec<String>,
}

/// Options that Spark accepts in bounded reads without an effect.
const STREAM_ONLY: &[&str] =
    &["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "checkpointLocation", "queryName"];
/// Options that are checked and then have no effect here, each with what happens instead.
const CHECKED_ONLY: &[(&str, &str)] = &[
    ("minPartitions", "each partition is read as one range"),
    ("maxRecordsPerPartition", "each partition is read as one range"),
    ("fetchOffset.numRetries", "look-ups are tried until kafka.default.api.timeout.ms has passed"),
    ("fetchOffset.retryIntervalMs", "the pauses are those of kafka.retry.backoff.ms and kafka.retry.backoff.max.ms"),
    ("groupIdPrefix", "no group is joined to read"),
];
/// The client setting under which the listener that people pair with Spark takes its group.
const COMMIT_GROUP: &str = "consumer.commit.groupid";

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
        let pairs = Pairs::new(pairs)?;
        let starting = starting(&pairs)?;
        let ending = ending(&pairs)?;
        let strategy = strategy(&pairs)?;
        check_counts(&pairs)?;
        let mut warnings = Vec::new();
        let (mut client, commit_group) = client(&pairs, &mut warnings)?;
        check_rates(&pairs)?;
        check_bounds(&starting, &ending)?;
        let by_timestamp_strategy = by_timestamp_strategy(&pairs)?;
        if let Some(value) = pairs.get("kafkaConsumer.pollTimeoutMs") {
            let ms = positive("kafkaConsumer.pollTimeoutMs", value)?;
            client.poll_timeout = Duration::from_millis(ms.unsigned_abs());
        }
        if let Some(value) = pairs.get("ottla.memory.bytes") {
            let bytes = positive("ottla.memory.bytes", value)?;
            client.memory_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        for (name, limit) in [("starting", &starting), ("ending", &ending)] {
            if let Some(timestamp) = limit.in_seconds() {
                warnings.push(format!(
                    "the {name} timestamp {timestamp} is one of 1970: timestamps are in milliseconds, and this looks like seconds"
                ));
            }
        }
        for name in STREAM_ONLY.iter().filter(|name| pairs.get(name).is_some()) {
            warnings.push(format!("option '{name}' is for streams; a bounded read ignores it"));
        }
        for (name, instead) in CHECKED_ONLY.iter().filter(|(name, _)| pairs.get(name).is_some()) {
            warnings.push(format!("option '{name}' has no effect: {instead}"));
        }
        let flag = |name, default| pairs.get(name).map_or(Ok(default), |value| boolean(name, value));
        Ok(Self {
            client,
            strategy,
            starting,
            starting_by_timestamp_strategy: by_timestamp_strategy,
            ending,
            fail_on_data_loss: flag("failOnDataLoss", true)?,
            include_headers: flag("includeHeaders", false)?,
            commit_group,
            warnings,
        })
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

/// The first of the three spellings that is given; the others are not even parsed (SPARK 4).
fn limit(
    pairs: &Pairs,
    timestamp: &'static str,
    by_timestamp: &'static str,
    offsets: &'static str,
    default: OffsetRangeLimit,
) -> Result<OffsetRangeLimit, OptionError> {
    if let Some(value) = pairs.get(timestamp) {
        OffsetRangeLimit::parse_timestamp(value)
    } else if let Some(value) = pairs.get(by_timestamp) {
        OffsetRangeLimit::parse_by_timestamp(value)
    } else {
        pairs.get(offsets).map_or(Ok(default), OffsetRangeLimit::parse_offsets)
    }
}

fn with_value(limit: &OffsetRangeLimit, value: i64) -> Option<TopicPartition> {
    let OffsetRangeLimit::Specific(offsets) = limit else { return None };
    offsets.iter().find(|(_, offset)| *offset == value).map(|(partition, _)| partition)
}

fn starting(pairs: &Pairs) -> Result<OffsetRangeLimit, OptionError> {
    if pairs.get("startingOffsets").is_some_and(|word| word.eq_ignore_ascii_case("group")) {
        return Err(OptionError::new(
            "startingOffsets=group is not there yet: give the offsets that `ottla lag --json` shows as JSON",
        ));
    }
    let limit =
        limit(pairs, "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets", OffsetRangeLimit::Earliest)?;
    if limit == OffsetRangeLimit::Latest {
        return Err(OptionError::new("starting offset can't be latest for batch queries on Kafka"));
    }
    match with_value(&limit, LATEST) {
        Some(partition) => {
            Err(OptionError::new(format!("startingOffsets for {partition} can't be latest for batch queries on Kafka")))
        }
        None => Ok(limit),
    }
}

fn ending(pairs: &Pairs) -> Result<OffsetRangeLimit, OptionError> {
    let limit = limit(pairs, "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", OffsetRangeLimit::Latest)?;
    if limit == OffsetRangeLimit::Earliest {
        return Err(OptionError::new("ending offset can't be earliest for batch queries on Kafka"));
    }
    match with_value(&limit, EARLIEST) {
        Some(partition) => {
            Err(OptionError::new(format!("ending offset for {partition} can't be earliest for batch queries on Kafka")))
        }
        None => Ok(limit),
    }
}

fn strategy(pairs: &Pairs) -> Result<ConsumerStrategy, OptionError> {
    const NAMES: &str = "subscribe, subscribepattern, assign. See the docs for more details.";
    match (pairs.get("subscribe"), pairs.get("subscribePattern"), pairs.get("assign")) {
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

fn check_counts(pairs: &Pairs) -> Result<(), OptionError> {
    if let Some(value) = pairs.get("minPartitions") {
        positive("minPartitions", value)?;
    }
    if let Some(value) = pairs.get("maxRecordsPerPartition") {
        // As Spark spells it.
        positive("maxrecordsperpartition", value)?;
    }
    for name in ["fetchOffset.numRetries", "fetchOffset.retryIntervalMs"] {
        if let Some(value) = pairs.get(name)
            && long(name, value)? < 0
        {
            return Err(OptionError::new(format!("{name} must not be negative, got {value}")));
        }
    }
    Ok(())
}

fn client(pairs: &Pairs, warnings: &mut Vec<String>) -> Result<(ClientConfig, Option<String>), OptionError> {
    let deserializer = |key: &str, what: &str| {
        OptionError::new(format!(
            "Kafka option '{key}' is not supported as {what} are deserialized as byte arrays with ByteArrayDeserializer. Use DataFrame \
             operations to explicitly deserialize the {what}."
        ))
    };
    let mut client = ClientConfig::new(Vec::new());
    let mut commit_group = None;
    for (key, value) in &pairs.kafka {
        match key.as_str() {
            "auto.offset.reset" => {
                return Err(OptionError::new(
                    "\nKafka option 'auto.offset.reset' is not supported.\nInstead set the source option 'startingOffsets' to specify where \
                     to start: which offsets are read is managed here, so that no record is missed",
                ));
            }
            "key.deserializer" => return Err(deserializer(key, "keys")),
            "value.deserializer" => return Err(deserializer(key, "values")),
            "enable.auto.commit" => {
                return Err(OptionError::new(
                    "Kafka option 'enable.auto.commit' is not supported: offsets are committed only after the records were processed, never \
                     by the clock; name the group with --commit-group",
                ));
            }
            "interceptor.classes" => return Err(OptionError::new("Kafka option 'interceptor.classes' is not supported")),
            "group.id" => warnings.push(
                "Kafka option 'group.id' joins no group here: partitions are assigned, and offsets are committed only to the group of \
                 --commit-group"
                    .to_owned(),
            ),
            COMMIT_GROUP => commit_group = Some(value.trim().to_owned()),
            _ => match client.set(key, value) {
                Ok(SettingEffect::Applied) => {}
                Ok(SettingEffect::NoEffect) => warnings.push(format!("Kafka option '{key}' has no effect here")),
                Err(error) => return Err(OptionError::new(format!("Kafka option {error}"))),
            },
        }
    }
    if commit_group.as_deref() == Some("") {
        return Err(OptionError::new("option 'kafka.consumer.commit.groupid' is empty: a group has a name"));
    }
    if client.bootstrap_servers.is_empty() {
        return Err(OptionError::new(
            "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer: name the brokers with -b HOST:PORT",
        ));
    }
    Ok((client, commit_group))
}

fn check_rates(pairs: &Pairs) -> Result<(), OptionError> {
    let rate = |name: &'static str| pairs.get(name).map(|value| positive(name, value)).transpose();
    let (min, max) = (rate("minOffsetsPerTrigger")?, rate("maxOffsetsPerTrigger")?);
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        return Err(OptionError::new(format!(
            "The value of minOffsetPerTrigger({min}) is higher than the maxOffsetsPerTrigger({max})."
        )));
    }
    if let Some(value) = pairs.get("maxTriggerDelay") {
        duration("maxTriggerDelay", value)?;
    }
    Ok(())
}

/// What two explicit ends say of each other needs no broker to be wrong (SPARK 1.1, step 8).
fn check_bounds(starting: &OffsetRangeLimit, ending: &OffsetRangeLimit) -> Result<(), OptionError> {
    let (what, starts, ends): (&str, SourceOffset, SourceOffset) = match (starting, ending) {
        (OffsetRangeLimit::Specific(starts), OffsetRangeLimit::Specific(ends)) => {
            ("offset", starts.clone(), ends.clone())
        }
        (OffsetRangeLimit::SpecificTimestamp(starts), OffsetRangeLimit::SpecificTimestamp(ends)) => {
            ("timestamp", starts.clone().into_iter().collect(), ends.clone().into_iter().collect())
        }
        (OffsetRangeLimit::GlobalTimestamp(start), OffsetRangeLimit::GlobalTimestamp(end)) if start > end => {
            return Err(OptionError::new(format!(
                "The specified start timestamp {start} is greater than the end timestamp {end}."
            )));
        }
        _ => return Ok(()),
    };
    let partitions = |offsets: &SourceOffset| offsets.iter().map(|(partition, _)| partition).collect::<BTreeSet<_>>();
    let (start_set, end_set) = (partitions(&starts), partitions(&ends));
    if start_set != end_set {
        return Err(OptionError::with_condition(
            "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET",
            format!(
                "Kafka data source in batch mode needs the same topic-partitions in start and end: start {}, end {}",
                partition_set(&start_set),
                partition_set(&end_set)
            ),
        ));
    }
    for (partition, start) in starts.iter() {
        let end = ends.get(&partition).unwrap_or(LATEST);
        if start >= 0 && end >= 0 && start > end {
            return Err(OptionError::with_condition(
                "START_OFFSET_GREATER_THAN_END_OFFSET",
                format!(
                    "The specified start {what} {start} is greater than the end {what} {end} for topic {} partition {}.",
                    partition.topic, partition.partition
                ),
            ));
        }
    }
    Ok(())
}

fn by_timestamp_strategy(pairs: &Pairs) -> Result<StartingOffsetsByTimestampStrategy, OptionError> {
    let value = pairs.get("startingOffsetsByTimestampStrategy").unwrap_or("error").to_ascii_uppercase();
    match value.as_str() {
        "ERROR" => Ok(StartingOffsetsByTimestampStrategy::Error),
        "LATEST" => Ok(StartingOffsetsByTimestampStrategy::Latest),
        _ => Err(OptionError::new(format!(
            "No value found for '{value}': option 'startingOffsetsByTimestampStrategy' must be error or latest"
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
            ("minPartitions", "8"),
            ("maxRecordsPerPartition", "1000"),
            ("fetchOffset.numRetries", "3"),
            ("fetchOffset.retryIntervalMs", "10"),
            ("groupIdPrefix", "p"),
        ];
        let warnings = options(&without_effect).unwrap().warnings;
        assert_eq!(warnings.len(), without_effect.len(), "{warnings:?}");
        for (name, _) in without_effect {
            let name = name.trim_start_matches("kafka.");
            assert!(warnings.iter().any(|warning| warning.contains(&format!("'{name}'"))), "{name}: {warnings:?}");
        }
    }
}

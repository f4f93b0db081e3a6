//! The options there are. Names compare without case, as in Spark.

use super::OptionError;
use std::collections::BTreeMap;

/// Every option but the `kafka.*` ones, as it is written in documents.
const KNOWN: &[&str] = &[
    "assign",
    "checkpointLocation",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "ottla.memory.bytes",
    "ottla.offsetOutOfRange",
    "ottla.recommitInterval",
    "ottla.zookeeper.auth",
    "ottla.zookeeper.session.timeout.ms",
    "ottla.zookeeper.ssl.keystore.location",
    "ottla.zookeeper.ssl.truststore.location",
    "ottla.zookeeper.timeout.ms",
    "queryName",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
];

/// Options as they were given: the last of several wins.
#[derive(Clone, Debug, Default)]
pub(super) struct Pairs {
    /// Values by the documented name.
    named: BTreeMap<&'static str, String>,
    /// `kafka.*` settings by their lower-case name without the prefix, in the order given.
    pub(super) kafka: Vec<(String, String)>,
}

impl Pairs {
    pub(super) fn new<K: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, OptionError> {
        let mut all = Self::default();
        for (key, value) in pairs {
            let (key, value) = (key.as_ref().trim(), value.as_ref());
            if let Some(known) = KNOWN.iter().find(|known| known.eq_ignore_ascii_case(key)) {
                all.named.insert(known, value.to_owned());
            } else if key.get(..6).is_some_and(|prefix| prefix.eq_ignore_ascii_case("kafka.")) {
                let setting = key.get(6..).unwrap_or_default().to_ascii_lowercase();
                all.kafka.retain(|(known, _)| *known != setting);
                all.kafka.push((setting, value.to_owned()));
            } else {
                let hint = nearest(key).map(|nearest| format!("; did you mean '{nearest}'?")).unwrap_or_default();
                return Err(OptionError::with_condition("UNKNOWN_OPTION", format!("there is no option '{key}'{hint}")));
            }
        }
        Ok(all)
    }

    /// The names given, `kafka.*` apart.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.named.keys().copied()
    }

    /// The value of an option as it was given, for messages that show it.
    pub(super) fn raw(&self, name: &'static str) -> Option<&str> {
        self.named.get(name).map(String::as_str)
    }

    /// The trimmed value of an option, by its documented name.
    pub(super) fn get(&self, name: &'static str) -> Option<&str> {
        debug_assert!(KNOWN.contains(&name), "{name}");
        self.named.get(name).map(|value| value.trim())
    }
}

/// The option that `key` may stand for: a flag's spelling, a client setting without its prefix, or a slip of the pen.
fn nearest(key: &str) -> Option<String> {
    let squeezed =
        |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let lower = squeezed(key);
    if let Some(setting) = ottla_client::ClientConfig::settings().find(|setting| squeezed(setting) == lower) {
        return Some(format!("kafka.{setting}"));
    }
    let similarity = |known: &str| strsim::jaro_winkler(&lower, &squeezed(known));
    let (similarity, nearest) =
        KNOWN.iter().map(|known| (similarity(known), *known)).max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (similarity > 0.85).then(|| nearest.to_owned())
}

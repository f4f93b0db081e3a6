//! Which topics and partitions a query reads (SPARK: `subscribe`, `subscribePattern`, `assign`).

use crate::OptionError;
use regex::Regex;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// How the partitions of a query are chosen. Looked up afresh in the cluster's metadata for every batch; no consumer group takes part.
#[derive(Clone, Debug)]
pub enum ConsumerStrategy {
    /// These partitions.
    Assign(BTreeMap<String, BTreeSet<i32>>),
    /// All partitions of these topics. A topic that does not exist is an error.
    Subscribe(Vec<String>),
    /// All partitions of the topics in whose name the pattern is found, anywhere unless it is anchored. Kafka's internal topics never
    /// match. No match is not an error.
    SubscribePattern(Regex),
}

/// The longest name a topic can have.
const TOPIC_CHARS_MAX: usize = 249;

impl ConsumerStrategy {
    /// Topics by name: split at commas, trimmed, empty parts dropped, each once.
    ///
    /// # Errors
    /// No name, or one that no topic can have.
    pub fn subscribe(topics: &str) -> Result<Self, OptionError> {
        let mut names: Vec<String> = Vec::new();
        for name in topics.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            check_topic("subscribe", name)?;
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        if names.is_empty() {
            return Err(OptionError::new(format!(
                "No topics to subscribe to as specified value for option 'subscribe' is '{topics}'"
            )));
        }
        Ok(Self::Subscribe(names))
    }

    /// Topics by a regular expression.
    ///
    /// # Errors
    /// A blank pattern, or one that is not a regular expression.
    pub fn subscribe_pattern(pattern: &str) -> Result<Self, OptionError> {
        if pattern.trim().is_empty() {
            return Err(OptionError::new(format!(
                "Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{pattern}'"
            )));
        }
        let pattern = Regex::new(pattern.trim()).map_err(|error| {
            let reason = error.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ");
            OptionError::new(format!(
                "option 'subscribePattern' is '{pattern}', which is not a regular expression: {reason}"
            ))
        })?;
        Ok(Self::SubscribePattern(pattern))
    }

    /// Partitions by topic.
    ///
    /// # Errors
    /// No partition, a negative one, or a name that no topic can have.
    pub fn assign(partitions: BTreeMap<String, BTreeSet<i32>>) -> Result<Self, OptionError> {
        for (topic, indexes) in &partitions {
            check_topic("assign", topic)?;
            if let Some(negative) = indexes.iter().find(|index| **index < 0) {
                return Err(OptionError::new(format!(
                    "option 'assign' names partition {negative} of '{topic}', which can't be"
                )));
            }
        }
        if partitions.values().all(BTreeSet::is_empty) {
            return Err(OptionError::new("option 'assign' names no partition"));
        }
        Ok(Self::Assign(partitions))
    }
}

/// Refuses names that no broker accepts, before one is asked.
fn check_topic(option: &str, name: &str) -> Result<(), OptionError> {
    let legal = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    if legal && !matches!(name, "" | "." | "..") && name.len() <= TOPIC_CHARS_MAX {
        return Ok(());
    }
    Err(OptionError::new(format!(
        "option '{option}' names '{name}', which can't be a topic: 1 to {TOPIC_CHARS_MAX} letters, digits, '.', '_' and '-'"
    )))
}

impl PartialEq for ConsumerStrategy {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Assign(mine), Self::Assign(theirs)) => mine == theirs,
            (Self::Subscribe(mine), Self::Subscribe(theirs)) => mine == theirs,
            (Self::SubscribePattern(mine), Self::SubscribePattern(theirs)) => mine.as_str() == theirs.as_str(),
            _ => false,
        }
    }
}

impl Eq for ConsumerStrategy {}

impl fmt::Display for ConsumerStrategy {
    /// As Spark's progress shows it: `Subscribe[a, b]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subscribe(topics) => write!(f, "Subscribe[{}]", topics.join(", ")),
            Self::SubscribePattern(pattern) => write!(f, "SubscribePattern[{pattern}]"),
            Self::Assign(partitions) => {
                let names: Vec<String> = partitions
                    .iter()
                    .flat_map(|(topic, indexes)| indexes.iter().map(move |index| format!("{topic}-{index}")))
                    .collect();
                write!(f, "Assign[{}]", names.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscribe(topics: &str) -> Result<String, String> {
        ConsumerStrategy::subscribe(topics).map(|strategy| strategy.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn s_c06_topic_lists_as_people_write_them() {
        assert_eq!(subscribe(" a , b,,a").unwrap(), "Subscribe[a, b]");
        assert_eq!(
            subscribe(",").unwrap_err(),
            "No topics to subscribe to as specified value for option 'subscribe' is ','"
        );
        for bad in ["a b", "a;b", "..", "a/b", "ä"] {
            assert!(subscribe(bad).unwrap_err().contains(&format!("'{bad}', which can't be a topic")), "{bad}");
        }
        assert!(subscribe(&"x".repeat(249)).is_ok());
        assert!(subscribe(&"x".repeat(250)).is_err());
    }

    #[test]
    fn patterns_are_checked_at_once() {
        let pattern = |text| ConsumerStrategy::subscribe_pattern(text).map_err(|error| error.to_string());
        assert!(
            matches!(pattern("orders"), Ok(ConsumerStrategy::SubscribePattern(found)) if found.is_match("reorders-v2"))
        );
        assert!(
            matches!(pattern(" ^orders$\t"), Ok(ConsumerStrategy::SubscribePattern(found)) if found.is_match("orders")),
            "the values of options are trimmed"
        );
        assert!(pattern("(").unwrap_err().contains("'(', which is not a regular expression"));
        assert!(pattern("  ").unwrap_err().contains("Pattern to subscribe is empty"));
    }
}

//! Spark's JSON of partitions: `{"topic":{"0":23}}` and `{"topic":[0,2]}`. Stricter than Spark's parser where that one guesses: no repeated
//! keys, no fractions, no numbers in quotes.

use crate::OptionError;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    marker::PhantomData,
};

/// A JSON object whose keys must not repeat.
struct UniqueKeys<V>(BTreeMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for UniqueKeys<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Keys<V> {
            type Value = UniqueKeys<V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<UniqueKeys<V>, A::Error> {
                let mut map = BTreeMap::new();
                while let Some((key, value)) = entries.next_entry::<String, V>()? {
                    if map.contains_key(&key) {
                        return Err(A::Error::custom(format!("the key \"{key}\" stands twice")));
                    }
                    map.insert(key, value);
                }
                Ok(UniqueKeys(map))
            }
        }
        deserializer.deserialize_map(Keys(PhantomData))
    }
}

/// Reads `{"topic":{"0":number}}`. `Err` is the reason.
pub(super) fn partition_numbers(text: &str) -> Result<BTreeMap<String, BTreeMap<i32, i64>>, String> {
    let topics: UniqueKeys<UniqueKeys<i64>> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut result = BTreeMap::new();
    for (topic, numbers) in topics.0 {
        let mut partitions = BTreeMap::new();
        for (key, number) in numbers.0 {
            let index: i32 = key
                .parse()
                .ok()
                .filter(|index: &i32| *index >= 0 && index.to_string() == key)
                .ok_or_else(|| format!("\"{key}\" is not a partition of '{topic}'"))?;
            partitions.insert(index, number);
        }
        // A topic without partitions says nothing, so that equal maps are equal.
        if !partitions.is_empty() {
            result.insert(topic, partitions);
        }
    }
    Ok(result)
}

/// Reads the option `assign`: `{"topic":[0,2]}`.
pub(crate) fn assignment(text: &str) -> Result<BTreeMap<String, BTreeSet<i32>>, OptionError> {
    if !text.trim_start().starts_with('{') {
        return Err(OptionError::new(format!(
            "No topicpartitions to assign as specified value for option 'assign' is '{text}'"
        )));
    }
    let expected = |reason: String| {
        OptionError::new(format!(r#"Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text} ({reason})"#))
    };
    let topics: UniqueKeys<Vec<i32>> = serde_json::from_str(text).map_err(|error| expected(error.to_string()))?;
    let mut assigned = BTreeMap::new();
    for (topic, indexes) in topics.0 {
        if let Some(index) = indexes.iter().find(|index| **index < 0) {
            return Err(expected(format!("{index} is not a partition of '{topic}'")));
        }
        if !indexes.is_empty() {
            assigned.insert(topic, indexes.into_iter().collect());
        }
    }
    Ok(assigned)
}

/// `{"topic":{"0":number}}`, in the order of topics and partitions.
pub(super) fn partition_numbers_json(map: &BTreeMap<String, BTreeMap<i32, i64>>) -> serde_json::Value {
    let object: serde_json::Map<String, serde_json::Value> = map
        .iter()
        .map(|(topic, partitions)| {
            let partitions = partitions.iter().map(|(index, number)| (index.to_string(), (*number).into())).collect();
            (topic.clone(), serde_json::Value::Object(partitions))
        })
        .collect();
    serde_json::Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_names_partitions_by_topic() {
        let assigned = assignment(r#"{"Topic.A":[2,0,2], "b":[1], "none":[]}"#).unwrap();
        assert_eq!(assigned, [("Topic.A".to_owned(), [0, 2].into()), ("b".to_owned(), [1].into())].into());
        assert_eq!(assignment("{}").unwrap(), BTreeMap::new());
    }

    #[test]
    fn an_assignment_that_is_none_shows_an_example() {
        for bad in [
            "{bad",
            r#"{"t":"0"}"#,
            r#"{"t":{"0":1}}"#,
            r#"{"t":["0"]}"#,
            r#"{"t":[0.5]}"#,
            r#"{"t":[-1]}"#,
            r#"{"t":[2147483648]}"#,
            r#"{"t":[0],"t":[1]}"#,
            r#"{"t":[0]} x"#,
        ] {
            let error = assignment(bad).unwrap_err().to_string();
            let start = format!(r#"Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {bad}"#);
            assert!(error.starts_with(&start), "{error}");
        }
        for bad in ["a,b", "", "[0]"] {
            let expected = format!("No topicpartitions to assign as specified value for option 'assign' is '{bad}'");
            assert_eq!(assignment(bad).unwrap_err().to_string(), expected);
        }
    }
}

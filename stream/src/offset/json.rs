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
            let index: i32 = key.parse().ok().filter(|index: &i32| *index >= 0 && index.to_string() == key).ok_or_else(|| {
                format!("\"{key}\" is not a partition of '{topic}'")
            })?;
            partitions.insert(index, number);
        }
        result.insert(topic, partitions);
    }
    Ok(result)
}

/// Reads the option `assign`: `{"topic":[0,2]}`.
pub(crate) fn assignment(text: &str) -> Result<BTreeMap<String, BTreeSet<i32>>, OptionError> {
    if !text.starts_with('{') {
        return Err(OptionError::new(format!("No topicpartitions to assign as specified value for option 'assign' is '{text}'")));
    }
    let topics: UniqueKeys<Vec<i32>> = serde_json::from_str(text)
        .map_err(|error| OptionError::new(format!(r#"Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text} ({error})"#)))?;
    Ok(topics.0.into_iter().map(|(topic, indexes)| (topic, indexes.into_iter().collect())).collect())
}

/// Writes `{"topic":{"0":number}}`, compact, in the order of topics and partitions.
pub(super) fn write_partition_numbers(map: &BTreeMap<String, BTreeMap<i32, i64>>) -> String {
    let object: serde_json::Map<String, serde_json::Value> = map
        .iter()
        .map(|(topic, partitions)| {
            let partitions = partitions.iter().map(|(index, number)| (index.to_string(), (*number).into())).collect();
            (topic.clone(), serde_json::Value::Object(partitions))
        })
        .collect();
    serde_json::Value::Object(object).to_string()
}

//! Options in a TOML file: the same names, and `[[source]]` tables for a query of several sources.

use super::OptionError;
use std::fmt;

/// The table that stands for one source of several.
const SOURCE: &str = "source";
/// How a `[[source]]` names its group; the option has a longer name.
const COMMIT_GROUP: &str = "commit_group";

/// The options of a TOML file as pairs. Tables nest by dots: `kafka.bootstrap.servers = "h:9092"` and `[kafka]` with
/// `bootstrap.servers = "h:9092"` are the same.
///
/// ```
/// use ottla_stream::{StreamOptions, TomlOptions};
///
/// let file = TomlOptions::parse(
///     r#"
///     kafka.bootstrap.servers = "localhost:9092"
///     checkpointLocation = "/var/lib/jobs/union"
///     [[source]]
///     subscribe = "orders"
///     commit_group = "orders-job"
///     [[source]]
///     subscribePattern = "^audit-"
///     startingOffsets = "earliest"
///     "#,
/// )?;
/// let sources = file.sources().map(StreamOptions::stream_from_pairs).collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(sources[0].commit_group.as_deref(), Some("orders-job"));
/// assert_eq!(sources[1].strategy.to_string(), "SubscribePattern[^audit-]");
/// # Ok::<(), ottla_stream::OptionError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct TomlOptions {
    /// What stands outside of `[[source]]`: for all sources.
    pub common: Vec<(String, String)>,
    /// What each `[[source]]` says; it wins over `common`. Empty where there is no such table, and `common` is the one source.
    pub per_source: Vec<Vec<(String, String)>>,
}

impl fmt::Debug for TomlOptions {
    /// The names: a value may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |pairs: &[(String, String)]| pairs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let per_source: Vec<_> = self.per_source.iter().map(|pairs| names(pairs)).collect();
        f.debug_struct("TomlOptions").field("common", &names(&self.common)).field("per_source", &per_source).finish()
    }
}

impl TomlOptions {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// Text that is not TOML, with the line; values that are no string, whole number or boolean.
    pub fn parse(text: &str) -> Result<Self, OptionError> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            OptionError::new(format!("line {}: {}", 1 + before.matches('\n').count(), error.message()))
        })?;
        let mut options = Self::default();
        for (key, value) in table {
            match value {
                toml::Value::Array(tables) if key == SOURCE => {
                    for table in tables {
                        let mut pairs = Vec::new();
                        flatten("", &table, &mut pairs)?;
                        options.per_source.push(pairs);
                    }
                }
                value => flatten(&key, &value, &mut options.common)?,
            }
        }
        Ok(options)
    }

    /// The pairs of each source, those for all before its own. At least one source.
    pub fn sources(&self) -> impl Iterator<Item = Vec<(String, String)>> {
        let none = Vec::new();
        let per_source = if self.per_source.is_empty() { vec![&none] } else { self.per_source.iter().collect() };
        let sources: Vec<Vec<_>> = per_source.into_iter().map(|own| [&self.common[..], own].concat()).collect();
        sources.into_iter()
    }
}

fn flatten(name: &str, value: &toml::Value, pairs: &mut Vec<(String, String)>) -> Result<(), OptionError> {
    let text = match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(&name, value, pairs)?;
            }
            return Ok(());
        }
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Boolean(flag) => flag.to_string(),
        _ => return Err(OptionError::new(format!("'{name}' must be a string, a whole number or a boolean"))),
    };
    let name = if name == COMMIT_GROUP { "kafka.consumer.commit.groupid" } else { name };
    pairs.push((name.to_owned(), text));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TomlOptions, String> {
        TomlOptions::parse(text).map_err(|error| error.to_string())
    }

    #[test]
    fn without_source_tables_the_file_is_one_source() {
        let file = parse("subscribe = \"a\"\nminPartitions = 4\n[kafka]\nfetch.min.bytes = 5\n").unwrap();
        let sources: Vec<_> = file.sources().collect();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let expected = [pair("kafka.fetch.min.bytes", "5"), pair("minPartitions", "4"), pair("subscribe", "a")];
        assert_eq!(sources.len(), 1);
        assert!(expected.iter().all(|pair| sources[0].contains(pair)), "{sources:?}");
    }

    #[test]
    fn a_source_of_its_own_wins_over_what_is_for_all() {
        let file =
            parse("failOnDataLoss = true\n[[source]]\nsubscribe = \"a\"\n[[source]]\nsubscribe = \"b\"\nfailOnDataLoss = false\n")
                .unwrap();
        let sources: Vec<_> = file.sources().collect();
        assert_eq!(sources.len(), 2);
        assert_eq!(sources[1].last().map(|(key, _)| key.as_str()), Some("subscribe"));
        let position =
            |value: &str| sources[1].iter().position(|pair| *pair == ("failOnDataLoss".to_owned(), value.to_owned()));
        assert!(position("true") < position("false"), "the later one counts");
    }

    #[test]
    fn mistakes_say_where() {
        assert!(parse("subscribe = \"a\"\nx = = 1\n").unwrap_err().starts_with("line 2: "));
        assert!(parse("subscribe = [1]\n").unwrap_err().contains("'subscribe' must be a string"));
        assert!(parse("[[source]]\nsubscribe = 1.5\n").unwrap_err().contains("'subscribe' must be a string"));
    }
}

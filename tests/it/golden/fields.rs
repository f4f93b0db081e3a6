//! The fields of an object of a scenario file.

use serde_json::{Map, Value};

use super::scenario::{Options, Result};

/// The fields of an object, taken one by one; what is left in the end is not known.
pub(super) struct Fields {
    /// What they are of, for the sentence about a mistake.
    pub(super) of: String,
    left: Map<String, Value>,
}

impl Fields {
    pub(super) fn of(value: Value, of: &str) -> Result<Self> {
        match value {
            Value::Object(left) => Ok(Self { of: of.to_owned(), left }),
            other => Err(format!("{of} is {other}")),
        }
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.left.shift_remove(name).filter(|value| !value.is_null())
    }

    fn wrong<T>(&self, name: &str, value: &Value) -> Result<T> {
        Err(format!("{}: {name} is {value}", self.of))
    }

    pub(super) fn optional_text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => self.wrong(name, &other),
        }
    }

    pub(super) fn text(&mut self, name: &str) -> Result<String> {
        self.optional_text(name)?.ok_or_else(|| format!("{}: no {name}", self.of))
    }

    pub(super) fn optional_int(&mut self, name: &str) -> Result<Option<i64>> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => value.as_i64().map_or_else(|| self.wrong(name, &value), |int| Ok(Some(int))),
        }
    }

    pub(super) fn int_or(&mut self, name: &str, default: i64) -> Result<i64> {
        Ok(self.optional_int(name)?.unwrap_or(default))
    }

    pub(super) fn int(&mut self, name: &str) -> Result<i64> {
        self.optional_int(name)?.ok_or_else(|| format!("{}: no {name}", self.of))
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<bool> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => self.wrong(name, &other),
        }
    }

    pub(super) fn pairs(&mut self, name: &str) -> Result<Options> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Object(pairs)) => Ok(pairs
                .into_iter()
                .map(|(key, value)| match value {
                    Value::String(text) => (key, text),
                    other => (key, other.to_string()),
                })
                .collect()),
            Some(other) => self.wrong(name, &other),
        }
    }

    pub(super) fn finish(self) -> Result<()> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!("{}: there is no field {name}", self.of)),
        }
    }
}

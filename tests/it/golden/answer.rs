//! What Ottla answered to a step, in the shape of the scenario files.

use std::error::Error;

use serde_json::Value;

/// Why Ottla refused or failed.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) condition: String,
    /// The whole chain, as `ottla` prints it.
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(condition: &str, error: &dyn Error) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        Self { condition: condition.to_owned(), message }
    }
}

/// A step's result, a failure apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) value: Value,
    pub(super) failure: Option<Failure>,
}

impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        Self { value, failure: None }
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        Self { value: Value::Null, failure: Some(failure) }
    }
}

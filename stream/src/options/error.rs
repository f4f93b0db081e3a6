//! A user's mistake in the options: one sentence that names the option and the value.

/// An option that can't be used. The text holds Spark's own where Spark has one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct OptionError {
    condition: &'static str,
    message: String,
}

impl OptionError {
    /// A mistake that `message` tells.
    pub fn new(message: impl Into<String>) -> Self {
        Self { condition: "INVALID_OPTION", message: message.into() }
    }

    /// The same under Spark's name for it.
    pub(crate) fn with_condition(condition: &'static str, message: impl Into<String>) -> Self {
        Self { condition, message: message.into() }
    }

    /// A name for programs: Spark's where Spark has one, else `INVALID_OPTION`.
    pub fn condition(&self) -> &'static str {
        self.condition
    }
}

//! What went wrong, as a sentence for people or JSON for programs, and the exit code that says what kind it was.

use crate::tell::tell;
use ottla_stream::{CheckpointErrorKind, Error, QueryError};
use std::fmt;

/// Exit codes. They are a contract with scripts.
pub(crate) mod exit {
    /// Unknown topic, unreachable broker, failed output.
    pub(crate) const FAILED: u8 = 1;
    /// Wrong use.
    pub(crate) const USAGE: u8 = 2;
    /// Data loss stopped the command.
    pub(crate) const DATA_LOSS: u8 = 3;
    /// Ctrl-C.
    pub(crate) const INTERRUPTED: u8 = 130;
}

/// Why a command ended early.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    condition: &'static str,
    message: String,
}

impl Failure {
    /// A failure of the world.
    pub(crate) fn failed(condition: &'static str, message: impl Into<String>) -> Self {
        Self { code: exit::FAILED, condition, message: message.into() }
    }

    /// Failures of the world that standard error has been told of already: only the exit code is left.
    pub(crate) fn told() -> Self {
        Self::told_with(exit::FAILED)
    }

    /// As [`told`](Self::told), with another exit code.
    pub(crate) fn told_with(code: u8) -> Self {
        Self { code, condition: "", message: String::new() }
    }

    /// A wish that is not fulfilled as it stands.
    pub(crate) fn refused(condition: &'static str, message: impl Into<String>) -> Self {
        Self { code: exit::USAGE, condition, message: message.into() }
    }

    /// A mistake of the user.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: exit::USAGE, condition: "USAGE", message: message.into() }
    }

    /// The user's own wish.
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self { code: exit::INTERRUPTED, condition: "INTERRUPTED", message: message.into() }
    }

    /// Tells standard error.
    pub(crate) fn print(&self, json: bool) {
        if self.message.is_empty() {
            return;
        }
        if json {
            tell(serde_json::json!({"error": self.message, "condition": self.condition}));
        } else {
            tell(format_args!("ottla: {}", one_line(&self.message)));
        }
    }
}

/// Spark's texts have line breaks; an expression with its caret must keep them.
fn one_line(message: &str) -> String {
    if message.lines().any(|line| line.trim_start().starts_with('^')) {
        return message.to_owned();
    }
    message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { code: code(&error), condition: error.condition(), message: ottla_client::report(&error) }
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        Self { code: code(&error.source), condition: error.condition(), message: ottla_client::report(&error) }
    }
}

fn code(error: &Error) -> u8 {
    match error {
        Error::Option(_) => exit::USAGE,
        Error::Checkpoint(error) if is_named_wrong(&error.source) => exit::USAGE,
        Error::Move(_) => exit::USAGE,
        Error::Plan { condition: "SOURCES_SHARE_PARTITIONS", .. } => exit::USAGE,
        Error::DataLoss(_) => exit::DATA_LOSS,
        Error::Plan { condition: "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET", .. } => exit::DATA_LOSS,
        _ => exit::FAILED,
    }
}

/// Whether it is what the user wrote that is wrong, and not the checkpoint.
fn is_named_wrong(kind: &CheckpointErrorKind) -> bool {
    matches!(
        kind,
        CheckpointErrorKind::Location { .. }
            | CheckpointErrorKind::SeveralSources { .. }
            | CheckpointErrorKind::NoSuchSource { .. }
            | CheckpointErrorKind::ReadOnly
    )
}

impl From<ottla_client::Error> for Failure {
    fn from(error: ottla_client::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<ottla_stream::OptionError> for Failure {
    fn from(error: ottla_stream::OptionError) -> Self {
        Error::from(error).into()
    }
}

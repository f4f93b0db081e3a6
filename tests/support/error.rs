//! What went wrong in the harness, as a sentence; there is nothing for a test to match on.

use std::fmt;

/// A sentence that says what failed and, where known, what to do about it.
#[derive(Clone)]
pub struct Error(String);

/// A result whose error is a sentence.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }

    /// Names what was being done when `cause` came up.
    pub(crate) fn doing(what: impl fmt::Display, cause: impl fmt::Display) -> Self {
        Self(format!("{what}: {cause}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// As `Display`, since `unwrap` in a test prints this one.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

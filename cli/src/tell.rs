//! Standard error. What can't be told there is not told: that must neither change what a command does nor how it ends.

use std::{fmt::Display, io::Write};

/// A line on standard error.
pub(crate) fn tell(line: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Something that was accepted, or done, but may not be what was meant; an object of its own for programs.
pub(crate) fn warn(json: bool, warning: impl Display) {
    if json {
        tell(serde_json::json!({"warning": warning.to_string()}));
    } else {
        tell(format_args!("ottla: warning: {warning}"));
    }
}

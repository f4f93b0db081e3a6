//! What one of Kafka's command-line classes printed.

use serde_json::Value;

/// The end of a command-line class.
#[derive(Clone, Debug)]
pub struct ToolOutput {
    /// The exit code.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl ToolOutput {
    pub(super) fn new(answer: &Value) -> Self {
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        Self { code: answer["code"].as_i64().unwrap_or(-1) as i32, stdout: text("stdout"), stderr: text("stderr") }
    }

    /// What it printed, when its exit code is 0.
    ///
    /// # Panics
    /// Otherwise, with all that it wrote.
    #[track_caller]
    #[must_use]
    pub fn expect_ok(self) -> String {
        assert!(self.code == 0, "exit code {}\nstdout: {}\nstderr: {}", self.code, self.stdout, self.stderr);
        self.stdout
    }
}

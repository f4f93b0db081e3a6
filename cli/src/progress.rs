//! The progress bar on standard error, where that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ottla_stream::ReadProgress;
use std::{io::IsTerminal, sync::Arc, time::Duration};

const EVERY: Duration = Duration::from_millis(100);

/// A bar that follows a read until it is dropped.
pub(crate) struct Bar {
    bar: ProgressBar,
    follower: tokio::task::JoinHandle<()>,
}

impl Bar {
    /// Shows how many of `offsets` are done. Without a terminal it draws nothing.
    pub(crate) fn follow(progress: Arc<ReadProgress>, offsets: u64) -> Self {
        let target =
            if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template(
            "{bar:40.cyan/blue} {percent:>3}%  {human_pos}/{human_len} offsets  {msg}  eta {eta}",
        );
        let bar = ProgressBar::with_draw_target(Some(offsets), target);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let shown = bar.clone();
        let follower = tokio::spawn(async move {
            loop {
                shown.set_position(progress.offsets());
                shown.set_message(format!("{} records, {} kept", progress.records(), progress.hits()));
                tokio::time::sleep(EVERY).await;
            }
        });
        Self { bar, follower }
    }
}

/// What a query does at the moment, where standard error is a terminal.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    pub(crate) fn new() -> Self {
        let target =
            if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self(ProgressBar::with_draw_target(None, target))
    }

    /// Shows this from now on.
    pub(crate) fn set(&self, message: String) {
        self.0.set_message(message);
        self.0.tick();
    }

    /// Takes it away while `tell` writes lines of its own.
    pub(crate) fn suspend(&self, tell: impl FnOnce()) {
        self.0.suspend(tell);
    }

    /// Takes it away.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.follower.abort();
        self.bar.finish_and_clear();
    }
}

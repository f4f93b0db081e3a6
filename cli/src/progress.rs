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

impl Drop for Bar {
    fn drop(&mut self) {
        self.follower.abort();
        self.bar.finish_and_clear();
    }
}

//! What the process has used so far, as the system counts it.

use nix::sys::resource::{UsageWho, getrusage};
use std::time::Duration;

/// Processor time and memory of the whole process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// User and system time of all threads.
    pub(crate) cpu: Duration,
    /// The largest resident set, in bytes.
    pub(crate) peak_rss_bytes: u64,
}

impl Usage {
    /// Until now. Zero where the system does not say.
    pub(crate) fn now() -> Self {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Self::default() };
        let micros = [usage.user_time(), usage.system_time()].map(|time| time.tv_sec() * 1_000_000 + time.tv_usec());
        let cpu = Duration::from_micros(micros.iter().sum::<i64>().unsigned_abs());
        // Linux counts in KiB.
        Self { cpu, peak_rss_bytes: usage.max_rss().unsigned_abs() * 1024 }
    }
}

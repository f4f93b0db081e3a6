//! What the process has used so far, as the system counts it.

use nix::sys::resource::{UsageWho, getrusage};
use std::{fs, time::Duration};

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
        // Linux counts in KiB. Its `ru_maxrss` begins with what the parent held when it started this process, so it is only asked where
        // there is no /proc.
        let peak_kib = high_water_mark_kib().unwrap_or(usage.max_rss().unsigned_abs());
        Self { cpu, peak_rss_bytes: peak_kib * 1024 }
    }
}

fn high_water_mark_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_counted() {
        let before = Usage::now();
        let mut sum = 0u64;
        for i in 0..20_000_000u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(i));
        }
        let after = Usage::now();
        assert!(after.cpu > before.cpu && sum > 0);
        assert!(after.peak_rss_bytes > 1 << 20 && after.peak_rss_bytes < 1 << 34, "{}", after.peak_rss_bytes);
    }
}

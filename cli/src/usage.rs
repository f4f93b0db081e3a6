//! What the process has used so far, as the system and the allocator count it.

use nix::sys::resource::{UsageWho, getrusage};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::{alloc::System, fs::File, io::Read, time::Duration};

/// The system's allocator, counted: a few atomic additions each time, and the loops over records never allocate.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Processor time and memory of the whole process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// User and system time of all threads.
    pub(crate) cpu: Duration,
    /// The largest resident set, in bytes.
    pub(crate) peak_rss_bytes: u64,
    /// How often Rust code asked for memory, or for more of it.
    pub(crate) allocations: u64,
}

impl Usage {
    /// Until now. Zero where the system does not say.
    pub(crate) fn now() -> Self {
        let counted = ALLOCATOR.stats();
        let allocations = (counted.allocations + counted.reallocations) as u64;
        let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Self { allocations, ..Self::default() } };
        let micros = [usage.user_time(), usage.system_time()].map(|time| time.tv_sec() * 1_000_000 + time.tv_usec());
        let cpu = Duration::from_micros(micros.iter().sum::<i64>().unsigned_abs());
        // Linux counts in KiB. Its `ru_maxrss` begins with what the parent held when it started this process, so it is only asked where
        // there is no /proc.
        let peak_kib = high_water_mark_kib().unwrap_or(usage.max_rss().unsigned_abs());
        Self { cpu, peak_rss_bytes: peak_kib * 1024, allocations }
    }

    /// What was used after `before`; the peak is that of the whole time.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            peak_rss_bytes: self.peak_rss_bytes,
            allocations: self.allocations.saturating_sub(before.allocations),
        }
    }
}

/// Read without taking memory, which would be counted. It stands in the first lines.
fn high_water_mark_kib() -> Option<u64> {
    let mut start = [0; 2048];
    let length = File::open("/proc/self/status").and_then(|mut file| file.read(&mut start)).ok()?;
    let status = std::str::from_utf8(start.get(..length)?).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted() {
        let before = Usage::now();
        let kept = std::hint::black_box(Box::new(1u8));
        let mut sum = u64::from(*kept);
        for i in 0..20_000_000u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(i));
        }
        let after = Usage::now();
        assert!(after.cpu > before.cpu && sum > 0);
        assert!(after.since(before).allocations >= 1);
        assert!(after.peak_rss_bytes > 1 << 20 && after.peak_rss_bytes < 1 << 34, "{}", after.peak_rss_bytes);
    }
}

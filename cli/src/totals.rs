//! What reading gave and what it cost, as numbers for programs and as words for people.

use crate::{
    table::{counted, grouped},
    usage::Usage,
};
use ottla_stream::RangeCounts;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// What was seen, and what that took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals {
    counts: RangeCounts,
    wall: Duration,
    usage: Usage,
}

impl Totals {
    /// What was seen since `start`, and what the process has used since `before`.
    pub(crate) fn since(start: Instant, before: Usage, counts: RangeCounts) -> Self {
        Self { counts, wall: start.elapsed(), usage: Usage::now().since(before) }
    }

    /// The fields of what was seen.
    pub(crate) fn count_fields(&self) -> Map<String, Value> {
        fields(json!({
            "records": self.counts.records,
            "valueBytes": self.counts.value_bytes,
            "hits": self.counts.hits,
        }))
    }

    /// The fields of what it cost; null where there is nothing to divide by.
    pub(crate) fn cost_fields(&self) -> Map<String, Value> {
        fields(json!({
            "wallSeconds": self.wall.as_secs_f64(),
            "cpuSeconds": self.usage.cpu.as_secs_f64(),
            "peakRssBytes": self.usage.peak_rss_bytes,
            "valueBytesPerSecond": self.value_bytes_per_second(),
            "recordsPerSecond": self.records_per_second(),
            "cpuSecondsPerGigabyte": self.cpu_seconds_per_gigabyte(),
            "allocationsPerRecord": self.allocations_per_record(),
        }))
    }

    /// `400,000 records (29,692,180 value bytes)`.
    pub(crate) fn seen(&self) -> String {
        format!("{} ({} value bytes)", counted(self.counts.records, "record"), grouped(self.counts.value_bytes))
    }

    /// `4,000 kept`.
    pub(crate) fn kept(&self) -> String {
        format!("{} kept", grouped(self.counts.hits))
    }

    /// `0.61 s, 0.71 CPU s, 18 MiB`.
    pub(crate) fn cost(&self) -> String {
        format!(
            "{:.2} s, {:.2} CPU s, {} MiB",
            self.wall.as_secs_f64(),
            self.usage.cpu.as_secs_f64(),
            grouped(self.usage.peak_rss_bytes >> 20)
        )
    }

    /// `1,600 MB/s, 16,393,442 records/s, 0.727 CPU s a GB, 0.0002 allocations a record`; what can't be said is `-`.
    pub(crate) fn rates(&self) -> String {
        let text = |number: Option<f64>, digits: usize| number.map_or("-".to_owned(), |n| format!("{n:.digits$}"));
        let whole = |number: Option<f64>| number.map_or("-".to_owned(), |number| grouped(number as u64));
        format!(
            "{} MB/s, {} records/s, {} CPU s a GB, {} allocations a record",
            whole(self.value_bytes_per_second().map(|bytes| bytes / 1e6)),
            whole(self.records_per_second()),
            text(self.cpu_seconds_per_gigabyte(), 3),
            text(self.allocations_per_record(), 4)
        )
    }

    fn value_bytes_per_second(&self) -> Option<f64> {
        ratio(self.counts.value_bytes as f64, self.wall.as_secs_f64())
    }

    fn records_per_second(&self) -> Option<f64> {
        ratio(self.counts.records as f64, self.wall.as_secs_f64())
    }

    fn cpu_seconds_per_gigabyte(&self) -> Option<f64> {
        ratio(self.usage.cpu.as_secs_f64(), self.counts.value_bytes as f64 / 1e9)
    }

    fn allocations_per_record(&self) -> Option<f64> {
        ratio(self.usage.allocations as f64, self.counts.records as f64)
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

fn fields(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_what_was_seen() {
        let counts = RangeCounts { records: 4_000_000, value_bytes: 500_000_000, hits: 40_000 };
        let usage = Usage { cpu: Duration::from_millis(750), peak_rss_bytes: 20 << 20, allocations: 1_000 };
        let totals = Totals { counts, wall: Duration::from_millis(500), usage };
        assert_eq!(totals.seen(), "4,000,000 records (500,000,000 value bytes)");
        assert_eq!(totals.cost(), "0.50 s, 0.75 CPU s, 20 MiB");
        assert_eq!(totals.rates(), "1,000 MB/s, 8,000,000 records/s, 1.500 CPU s a GB, 0.0003 allocations a record");
        let fields = totals.cost_fields();
        assert_eq!(
            (fields["valueBytesPerSecond"].as_f64(), fields["recordsPerSecond"].as_f64()),
            (Some(1e9), Some(8e6))
        );
        assert_eq!(fields["allocationsPerRecord"].as_f64(), Some(0.000_25));
        let nothing = Totals { counts: RangeCounts::default(), ..totals };
        assert_eq!(nothing.rates(), "0 MB/s, 0 records/s, - CPU s a GB, - allocations a record");
        assert!(nothing.cost_fields()["allocationsPerRecord"].is_null());
    }
}

//! When a query looks for new data.

use std::{fmt, str::FromStr, time::Duration};

/// When a query makes a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Trigger {
    /// At every multiple of the interval since the epoch, or as soon as the batch before is done if that took longer. Zero: as soon as
    /// there is something new.
    ProcessingTime(Duration),
    /// Everything that is there at the start, in as many batches as the limits ask for, and then no more.
    AvailableNow,
    /// One batch of everything that is there, whatever the limits, and then no more. Where a batch was begun and not finished, that one
    /// alone.
    Once,
    /// Records as they arrive; what was handed on is written to the checkpoint once an interval.
    Continuous(Duration),
}

impl Default for Trigger {
    /// As soon as there is something new.
    fn default() -> Self {
        Self::ProcessingTime(Duration::ZERO)
    }
}

/// A text that is no trigger.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is no trigger: it must be a time such as 0s or 10s, available-now, once, or continuous:1s")]
pub struct TriggerError(String);

impl FromStr for Trigger {
    type Err = TriggerError;

    /// `10s`, `available-now`, `once` or `continuous:1s`. A time is a number of milliseconds, or a number and a unit (`us ms s m min h d`).
    fn from_str(text: &str) -> Result<Self, TriggerError> {
        let time =
            |value: &str| crate::options::duration("trigger", value.trim()).map_err(|_| TriggerError(text.to_owned()));
        match text.trim().to_ascii_lowercase().as_str() {
            "available-now" | "availablenow" => Ok(Self::AvailableNow),
            "once" => Ok(Self::Once),
            word => match word.strip_prefix("continuous:") {
                Some(interval) => match time(interval)? {
                    Duration::ZERO => Err(TriggerError(text.to_owned())),
                    interval => Ok(Self::Continuous(interval)),
                },
                None => time(word).map(Self::ProcessingTime),
            },
        }
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProcessingTime(interval) => write!(f, "{}ms", interval.as_millis()),
            Self::AvailableNow => f.write_str("available-now"),
            Self::Once => f.write_str("once"),
            Self::Continuous(interval) => write!(f, "continuous:{}ms", interval.as_millis()),
        }
    }
}

/// How long after `now_ms` the trigger after one that began at `begun_ms` is due, milliseconds since the epoch both: never longer than the
/// interval, also if the clock was set back in between.
pub(crate) fn wait(interval: Duration, begun_ms: i64, now_ms: i64) -> Duration {
    let due = next_due_ms(interval, begun_ms).saturating_sub(now_ms);
    Duration::from_millis(u64::try_from(due).unwrap_or(0)).min(interval)
}

/// When the trigger after one that began at `begun_ms` is due, in milliseconds since the epoch (SPARK 5).
fn next_due_ms(interval: Duration, begun_ms: i64) -> i64 {
    match i64::try_from(interval.as_millis()) {
        Ok(0) => begun_ms,
        Ok(interval) => (begun_ms / interval).saturating_mul(interval).saturating_add(interval),
        Err(_) => i64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_times() {
        let parse = |text: &str| text.parse::<Trigger>().map_err(|error| error.to_string());
        assert_eq!(parse("0s"), Ok(Trigger::ProcessingTime(Duration::ZERO)));
        assert_eq!(parse("10s"), Ok(Trigger::ProcessingTime(Duration::from_secs(10))));
        assert_eq!(parse("Available-Now"), Ok(Trigger::AvailableNow));
        assert_eq!(parse("once"), Ok(Trigger::Once));
        assert_eq!(parse("continuous:1s"), Ok(Trigger::Continuous(Duration::from_secs(1))));
        for bad in ["", "soon", "continuous", "continuous:", "continuous:0s", "-1s", "1.5s"] {
            assert!(parse(bad).unwrap_err().contains(&format!("'{bad}' is no trigger")), "{bad}");
        }
        for trigger in ["0ms", "available-now", "once", "continuous:250ms"] {
            assert_eq!(trigger.parse::<Trigger>().unwrap().to_string(), trigger);
        }
    }

    #[test]
    fn triggers_are_due_at_multiples_of_the_interval() {
        let second = Duration::from_secs(1);
        assert_eq!(next_due_ms(second, 1_000), 2_000);
        assert_eq!(next_due_ms(second, 1_999), 2_000);
        assert_eq!(next_due_ms(Duration::ZERO, 1_999), 1_999);
        assert_eq!(next_due_ms(Duration::MAX, 5), i64::MAX);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_long_wait() {
        let ms = Duration::from_millis;
        assert_eq!(wait(ms(1000), 1_999, 1_999), ms(1));
        assert_eq!(wait(ms(1000), 1_999, 2_500), ms(0));
        assert_eq!(wait(ms(1000), 86_400_000, 0), ms(1000));
        assert_eq!(wait(ms(0), 86_400_000, 0), ms(0));
    }
}

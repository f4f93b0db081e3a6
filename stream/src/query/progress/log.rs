//! The last few progress entries of a query, and which triggers without anything new are among them.

use super::QueryProgress;
use std::{collections::VecDeque, time::Duration};

/// How many entries are kept. Spark's limit is 100, which it keeps below of: after 105 batches it has 99 entries.
const ENTRIES_MAX: usize = 99;

/// How long a query is quiet before that is worth an entry: Spark's `noDataProgressEventInterval`.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);

/// The recent progress of one run of a query.
#[derive(Debug, Default)]
pub(crate) struct ProgressLog {
    recent: VecDeque<QueryProgress>,
    /// When the newest entry was made.
    last_ms: Option<i64>,
}

impl ProgressLog {
    /// A batch was committed. `now_ms` is since the epoch, as everywhere.
    pub(crate) fn batch(&mut self, now_ms: i64, progress: QueryProgress) {
        self.push(now_ms, progress);
    }

    /// A trigger found nothing new. It becomes an entry, and is `true`: listeners hear of it, if it is the first trigger of the run or if
    /// there was no entry for ten seconds.
    pub(crate) fn idle(&mut self, now_ms: i64, progress: impl FnOnce() -> QueryProgress) -> bool {
        let quiet = |last: i64| u128::from(now_ms.abs_diff(last)) >= IDLE_INTERVAL.as_millis() && now_ms > last;
        let is_due = self.last_ms.is_none_or(quiet);
        if is_due {
            self.push(now_ms, progress());
        }
        is_due
    }

    /// The entries, oldest first.
    pub(crate) fn recent(&self) -> Vec<QueryProgress> {
        self.recent.iter().cloned().collect()
    }

    /// The newest entry.
    pub(crate) fn last(&self) -> Option<QueryProgress> {
        self.recent.back().cloned()
    }

    fn push(&mut self, now_ms: i64, progress: QueryProgress) {
        self.last_ms = Some(now_ms);
        self.recent.push_back(progress);
        if self.recent.len() > ENTRIES_MAX {
            self.recent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::SinkProgress, *};

    fn entry(batch_id: i64) -> QueryProgress {
        QueryProgress {
            id: String::new(),
            run_id: String::new(),
            name: None,
            timestamp_ms: 0,
            batch_id,
            batch_duration_ms: 0,
            duration_ms: [].into(),
            sources: Vec::new(),
            sink: SinkProgress { description: String::new(), num_output_rows: None },
        }
    }

    fn batch_ids(log: &ProgressLog) -> Vec<i64> {
        log.recent().iter().map(|progress| progress.batch_id).collect()
    }

    /// Golden h13: 105 batches.
    #[test]
    fn golden_h13_keeps_99_entries() {
        let mut log = ProgressLog::default();
        assert_eq!((log.recent(), log.last()), (vec![], None));
        (0..105).for_each(|batch_id| log.batch(batch_id, entry(batch_id)));
        assert_eq!(batch_ids(&log), (6..105).collect::<Vec<_>>());
        assert_eq!(log.last(), Some(entry(104)));
    }

    /// Goldens f10 and h01: a run that finds nothing has one entry.
    #[test]
    fn the_first_trigger_of_a_run_is_an_entry_in_any_case() {
        let mut log = ProgressLog::default();
        assert!(log.idle(5, || entry(1)));
        assert!(!log.idle(6, || entry(1)));
        assert_eq!(batch_ids(&log), [1]);
    }

    /// Goldens a01 and d06: no entry for the triggers right after a batch.
    #[test]
    fn a_quiet_query_has_an_entry_every_ten_seconds() {
        let mut log = ProgressLog::default();
        log.batch(1000, entry(0));
        let idle: Vec<i64> = (1001..32_000).filter(|now| log.idle(*now, || entry(1))).collect();
        assert_eq!(idle, [11_000, 21_000, 31_000]);
        log.batch(32_000, entry(1));
        assert!(!log.idle(41_999, || entry(2)));
        assert!(log.idle(42_000, || entry(2)));
        assert_eq!(batch_ids(&log), [0, 1, 1, 1, 1, 2]);
        assert!(!log.idle(0, || entry(2)), "a clock that was set back");
        assert!(!log.idle(i64::MIN, || entry(2)));
    }
}

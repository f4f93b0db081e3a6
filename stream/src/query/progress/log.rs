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
    /// Whether a trigger that found nothing new is to become an entry, of which listeners hear: if it is the first trigger of the run, or if
    /// there was no entry for ten seconds. `now_ms` is since the epoch, as everywhere.
    pub(crate) fn tells_idle(&self, now_ms: i64) -> bool {
        let quiet = |last: i64| u128::from(now_ms.abs_diff(last)) >= IDLE_INTERVAL.as_millis() && now_ms > last;
        self.last_ms.is_none_or(quiet)
    }

    /// The entries, oldest first.
    pub(crate) fn recent(&self) -> Vec<QueryProgress> {
        self.recent.iter().cloned().collect()
    }

    /// The newest entry.
    pub(crate) fn last(&self) -> Option<QueryProgress> {
        self.recent.back().cloned()
    }

    /// A batch was committed, or a trigger found nothing new and that is to be told.
    pub(crate) fn push(&mut self, now_ms: i64, progress: QueryProgress) {
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

    /// A trigger that finds nothing, at this time.
    fn idle(log: &mut ProgressLog, now_ms: i64, batch_id: i64) -> bool {
        let tells = log.tells_idle(now_ms);
        if tells {
            log.push(now_ms, entry(batch_id));
        }
        tells
    }

    fn batch_ids(log: &ProgressLog) -> Vec<i64> {
        log.recent().iter().map(|progress| progress.batch_id).collect()
    }

    /// Golden h13: 105 batches.
    #[test]
    fn golden_h13_keeps_99_entries() {
        let mut log = ProgressLog::default();
        assert_eq!((log.recent(), log.last()), (vec![], None));
        (0..105).for_each(|batch_id| log.push(batch_id, entry(batch_id)));
        assert_eq!(batch_ids(&log), (6..105).collect::<Vec<_>>());
        assert_eq!(log.last(), Some(entry(104)));
    }

    /// Goldens f10 and h01: a run that finds nothing has one entry.
    #[test]
    fn the_first_trigger_of_a_run_is_an_entry_in_any_case() {
        let mut log = ProgressLog::default();
        assert!(idle(&mut log, 5, 1));
        assert!(!idle(&mut log, 6, 1));
        assert_eq!(batch_ids(&log), [1]);
    }

    /// Goldens a01 and d06: no entry for the triggers right after a batch.
    #[test]
    fn a_quiet_query_has_an_entry_every_ten_seconds() {
        let mut log = ProgressLog::default();
        log.push(1000, entry(0));
        let told: Vec<i64> = (1001..32_000).filter(|now| idle(&mut log, *now, 1)).collect();
        assert_eq!(told, [11_000, 21_000, 31_000]);
        log.push(32_000, entry(1));
        assert!(!idle(&mut log, 41_999, 2));
        assert!(idle(&mut log, 42_000, 2));
        assert_eq!(batch_ids(&log), [0, 1, 1, 1, 1, 2]);
        assert!(!idle(&mut log, 0, 2), "a clock that was set back");
        assert!(!idle(&mut log, i64::MIN, 2));
    }
}

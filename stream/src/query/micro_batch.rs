//! A batch as the function of a query sees it: ranges that it may read, as often as it likes.

use crate::{
    BatchReader, Filter, KeptBatch, LostRange, OffsetRange, PlannedBatch, RangeCounts, ReadBatch, ReadProgress,
    ReadSettings, Result, Sink,
    offset::Offsets,
    read::{PlannedRange, ReadOutcome, read_ranges},
};
use ottla_client::{Client, TopicPartition};
use ottla_protocol::record::Record;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// A batch of a query: what is new, as ranges of offsets. Cheap to clone.
///
/// Nothing is read before one of its methods reads it; a second pass reads it from the brokers again, and counts its records again. Whether it
/// was read or not, its end offsets are committed when the query's function returns `Ok`.
#[derive(Clone, Debug)]
pub struct MicroBatch {
    shared: Arc<Shared>,
    /// Only this partition's ranges.
    only: Option<TopicPartition>,
}

#[derive(Debug)]
struct Shared {
    batch_id: i64,
    filter: Filter,
    parts: Vec<Part>,
    tallies: Mutex<Vec<Tally>>,
}

/// What a source contributes.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) client: Client,
    pub(crate) ranges: Vec<PlannedRange>,
    pub(crate) end_offsets: Offsets,
    pub(crate) lost: Vec<LostRange>,
    pub(crate) settings: ReadSettings,
}

/// What reading a source's part gave so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counts: RangeCounts,
    pub(crate) lost: Vec<LostRange>,
    pub(crate) leader_epochs: BTreeMap<TopicPartition, i32>,
}

impl Tally {
    pub(crate) fn add(&mut self, outcome: ReadOutcome) {
        for range in outcome.ranges {
            self.counts += range.counts;
            if let Some(epoch) = range.leader_epoch {
                self.leader_epochs.insert(TopicPartition::new(range.range.topic, range.range.partition), epoch);
            }
        }
        for lost in outcome.lost {
            // A second pass loses the same again.
            if !self.lost.contains(&lost) {
                self.lost.push(lost);
            }
        }
    }
}

impl MicroBatch {
    pub(crate) fn new(batch_id: i64, filter: Filter, parts: Vec<Part>) -> Self {
        let tallies = Mutex::new(vec![Tally::default(); parts.len()]);
        Self { shared: Arc::new(Shared { batch_id, filter, parts, tallies }), only: None }
    }

    /// The batch's id: the same when it is run again, with the same ranges.
    pub fn batch_id(&self) -> i64 {
        self.shared.batch_id
    }

    /// The ranges that have something to read, in the order of sources, topics, partitions and offsets. One partition may have several, if
    /// the options ask for more ranges than there are partitions.
    pub fn offset_ranges(&self) -> Vec<OffsetRange> {
        self.parts().flat_map(|(_, part)| self.ranges(part)).map(|planned| planned.range).collect()
    }

    /// What is committed after this batch: the next offset to read of **every** partition, those without anything new too.
    pub fn end_offsets(&self) -> BTreeMap<TopicPartition, i64> {
        let mut ends = BTreeMap::new();
        for (_, part) in self.parts() {
            ends.extend(part.end_offsets.iter().map(|(partition, offset)| (partition.clone(), *offset)));
        }
        ends.retain(|partition, _| self.is_selected(partition));
        ends
    }

    /// Records that are gone: found when the batch was planned, or since it is read. With `failOnDataLoss` they are an error instead.
    pub fn lost(&self) -> Vec<LostRange> {
        let planned = self.parts().flat_map(|(_, part)| part.lost.clone());
        planned.chain(self.tallies().into_iter().flat_map(|tally| tally.lost)).collect()
    }

    /// The same batch with the ranges of one partition only; what is committed stays the same. `None` if it has no range to read there.
    pub fn partition(&self, partition: &TopicPartition) -> Option<Self> {
        let only = Self { shared: self.shared.clone(), only: Some(partition.clone()) };
        (self.is_selected(partition) && !only.offset_ranges().is_empty()).then_some(only)
    }

    /// The partitions that have something to read, in the order of their ranges.
    pub fn partitions(&self) -> Vec<TopicPartition> {
        let mut partitions: Vec<TopicPartition> = Vec::new();
        for range in self.offset_ranges() {
            let partition = TopicPartition::new(range.topic, range.partition);
            if partitions.last() != Some(&partition) {
                partitions.push(partition);
            }
        }
        partitions
    }

    /// Shows `see` every record that the query's filter keeps, in the caller's own task: in the order of the offsets within a partition,
    /// partitions as they arrive.
    ///
    /// # Errors
    /// Whatever keeps a record from being read; [`DataLoss`](crate::Error::DataLoss) if records are gone and `failOnDataLoss` is true.
    pub async fn for_each(&self, mut see: impl FnMut(&Record<'_>)) -> Result<()> {
        let mut reader = self.read();
        while let Some(mut batch) = reader.next().await? {
            batch.for_each(&mut see)?;
        }
        Ok(())
    }

    /// Keeps all of it in memory: record batches of one's own, `Send + 'static`. They count in `ottla.memory.bytes` until they are dropped.
    ///
    /// # Errors
    /// Those of [`for_each`](Self::for_each), and [`BudgetHeld`](crate::ReadErrorKind::BudgetHeld) when it is more than the budget holds:
    /// read it bit by bit then.
    pub async fn collect(&self) -> Result<Vec<KeptBatch>> {
        let mut kept = Vec::new();
        let mut reader = self.read();
        while let Some(batch) = reader.next().await? {
            kept.push(batch.keep()?);
        }
        Ok(kept)
    }

    /// Reads the batch record batch by record batch, to look at or to keep. A partition that was split into several ranges is read as one:
    /// pieces are for those who read them side by side.
    pub fn read(&self) -> MicroBatchReader {
        MicroBatchReader { batch: self.clone(), part: 0, reader: None }
    }

    /// Hands every record that the filter keeps to `sink`'s writers, ranges side by side on threads of their own. The sink's batch is neither
    /// begun nor finished.
    ///
    /// # Errors
    /// Those of [`for_each`](Self::for_each), and the sink's.
    pub async fn write_to<S: Sink>(&self, sink: &S) -> Result<RangeCounts> {
        let progress = ReadProgress::shared();
        let mut counts = RangeCounts::default();
        for (index, part) in self.parts() {
            let ranges: Vec<PlannedRange> = self.ranges(part).collect();
            let outcome =
                read_ranges(&part.client, &ranges, &self.shared.filter, sink, &part.settings, &progress).await?;
            outcome.ranges.iter().for_each(|range| counts += range.counts);
            self.tally(index, outcome);
        }
        Ok(counts)
    }

    /// What was read of each source.
    pub(crate) fn tallies(&self) -> Vec<Tally> {
        self.shared.tallies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tally(&self, part: usize, outcome: ReadOutcome) {
        let mut tallies = self.shared.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tally) = tallies.get_mut(part) {
            tally.add(outcome);
        }
    }

    fn parts(&self) -> impl Iterator<Item = (usize, &Part)> {
        self.shared.parts.iter().enumerate()
    }

    fn ranges(&self, part: &Part) -> impl Iterator<Item = PlannedRange> {
        let selected = |planned: &&PlannedRange| match &self.only {
            None => true,
            Some(only) => only.topic == planned.range.topic && only.partition == planned.range.partition,
        };
        part.ranges.iter().filter(selected).cloned().collect::<Vec<_>>().into_iter()
    }

    fn is_selected(&self, partition: &TopicPartition) -> bool {
        self.only.as_ref().is_none_or(|only| only == partition)
    }
}

/// The ranges with those that go on where the one before ends made one with it.
fn joined(ranges: impl Iterator<Item = PlannedRange>) -> Vec<PlannedRange> {
    let mut joined: Vec<PlannedRange> = Vec::new();
    for planned in ranges {
        let (range, before) = (&planned.range, joined.last_mut().map(|before| &mut before.range));
        match before {
            Some(before)
                if (&before.topic, before.partition, before.until_offset)
                    == (&range.topic, range.partition, range.from_offset) =>
            {
                before.until_offset = range.until_offset;
            }
            _ => joined.push(planned),
        }
    }
    joined
}

/// Reads a [`MicroBatch`] record batch by record batch, one source after the other.
#[derive(Debug)]
pub struct MicroBatchReader {
    batch: MicroBatch,
    part: usize,
    reader: Option<BatchReader>,
}

impl MicroBatchReader {
    /// The next record batch that may hold something the filter keeps; a partition's batches come in order. `None` when all was read. Cancel
    /// safe.
    ///
    /// # Errors
    /// Whatever keeps a batch from being read; [`BudgetHeld`](crate::ReadErrorKind::BudgetHeld) when so many batches are kept that nothing
    /// more fits: drop some and go on.
    pub async fn next(&mut self) -> Result<Option<ReadBatch<'_>>> {
        loop {
            let reader = match &mut self.reader {
                Some(reader) => reader,
                None => match self.start().await? {
                    Some(reader) => self.reader.insert(reader),
                    None => return Ok(None),
                },
            };
            if reader.advance().await? {
                break;
            }
            self.leave();
        }
        Ok(self.reader.as_mut().and_then(BatchReader::at_hand))
    }

    async fn start(&self) -> Result<Option<BatchReader>> {
        let Some(part) = self.batch.shared.parts.get(self.part) else { return Ok(None) };
        let planned = PlannedBatch {
            batch_id: self.batch.batch_id(),
            ranges: joined(self.batch.ranges(part)),
            end_offsets: Offsets::new(),
            lost: Vec::new(),
        };
        Ok(Some(BatchReader::start(&part.client, planned, &self.batch.shared.filter, &part.settings).await?))
    }

    /// Counts what was read of the source at hand, and goes to the next one.
    fn leave(&mut self) {
        if let Some(reader) = self.reader.take() {
            self.batch.tally(self.part, reader.outcome());
            self.part += 1;
        }
    }
}

impl Drop for MicroBatchReader {
    /// What was read before the reader was given up counts as well.
    fn drop(&mut self) {
        self.leave();
    }
}

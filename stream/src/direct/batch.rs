//! A batch of a direct stream, in the two states that the order of its steps allows: handed out, then processed.

use crate::{
    KeptBatch, LostRange, MicroBatch, MicroBatchReader, OffsetRange, Offsets, RangeCounts, Result, Sink, StoreCommit,
    batch::{moved_back, recreated_topics},
    query::Span,
    read::PlannedRange,
};
use ottla_client::TopicPartition;
use ottla_protocol::record::Record;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use uuid::Uuid;

/// What is new, as a range for every partition. It is handed out again until it is processed.
///
/// Nothing is read before one of its methods reads it, and each of them reads all of it from the brokers.
#[derive(Debug)]
pub struct DirectBatch {
    pub(super) stream: Uuid,
    pub(super) ranges: Vec<OffsetRange>,
    pub(super) micro_batch: MicroBatch,
    pub(super) span: Span,
    pub(super) is_processed: Arc<AtomicBool>,
}

impl DirectBatch {
    /// The batch's id: one more than that of the batch before, the first one after what the group has.
    pub fn batch_id(&self) -> i64 {
        self.micro_batch.batch_id()
    }

    /// A range for every partition, empty ones too, in the order of topics and partitions.
    pub fn offset_ranges(&self) -> &[OffsetRange] {
        &self.ranges
    }

    /// Records that are gone, with `failOnDataLoss=false`: found when the batch was planned, or since it is read.
    pub fn lost(&self) -> Vec<LostRange> {
        self.micro_batch.lost()
    }

    /// The batch with the range of one partition only, to read. `None` if it has nothing to read there.
    pub fn partition(&self, partition: &TopicPartition) -> Option<MicroBatch> {
        self.micro_batch.partition(partition)
    }

    /// As [`MicroBatch::for_each`].
    ///
    /// # Errors
    /// The same.
    pub async fn for_each(&self, see: impl FnMut(&Record<'_>)) -> Result<()> {
        self.micro_batch.for_each(see).await
    }

    /// As [`MicroBatch::read`].
    pub fn read(&self) -> MicroBatchReader {
        self.micro_batch.read()
    }

    /// As [`MicroBatch::collect`].
    ///
    /// # Errors
    /// The same.
    pub async fn collect(&self) -> Result<Vec<KeptBatch>> {
        self.micro_batch.collect().await
    }

    /// As [`MicroBatch::write_to`].
    ///
    /// # Errors
    /// The same.
    pub async fn write_to<S: Sink>(&self, sink: &S) -> Result<RangeCounts> {
        self.micro_batch.write_to(sink).await
    }

    /// Calls `function` with the batch to read. If that succeeds, the batch counts as processed.
    ///
    /// # Errors
    /// Those of `function`. The batch is the next one again then.
    pub async fn process<F, R, E>(self, function: F) -> Result<ProcessedRanges, E>
    where
        F: FnOnce(MicroBatch) -> R,
        R: Future<Output = Result<(), E>>,
    {
        function(self.micro_batch.clone()).await?;
        Ok(self.processed())
    }

    /// Says that the batch is processed, for whoever has read it by its methods: everything that depends on it is written. This is what
    /// lets the stream go on, and what can be committed.
    pub fn processed(self) -> ProcessedRanges {
        self.is_processed.store(true, Ordering::Release);
        let from_offsets = self.span.begin_offsets();
        let Span { end, own, .. } = self.span;
        let moved_back = moved_back(&self.micro_batch.lost());
        let (mut lost, mut leader_epochs) = (Vec::new(), own.leader_epochs);
        for tally in self.micro_batch.tallies() {
            lost.extend(tally.lost);
            leader_epochs.extend(tally.leader_epochs);
        }
        let commit = StoreCommit {
            batch_id: self.micro_batch.batch_id(),
            query_id: self.stream.to_string(),
            offsets: end,
            from_offsets,
            leader_epochs,
            topic_ids: own.topic_ids,
            recreated: recreated_topics(&lost),
            repeated: false,
            moved_back,
        };
        ProcessedRanges { stream: self.stream, ranges: self.ranges, commit }
    }
}

/// The ranges of a batch that was processed: all that a stream commits. Only [`DirectBatch::process`] and [`DirectBatch::processed`] make them.
///
/// ```compile_fail
/// # async fn example(mut stream: ottla_stream::DirectStream) -> Result<(), Box<dyn std::error::Error>> {
/// if let Some(batch) = stream.next().await? {
///     stream.commit_sync(&batch).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ProcessedRanges {
    pub(super) stream: Uuid,
    ranges: Vec<OffsetRange>,
    pub(super) commit: StoreCommit,
}

impl ProcessedRanges {
    /// The batch's id.
    pub fn batch_id(&self) -> i64 {
        self.commit.batch_id
    }

    /// The ranges, as the batch had them.
    pub fn offset_ranges(&self) -> &[OffsetRange] {
        &self.ranges
    }
}

/// What is read of each partition of the batch; an empty range at its end where that is nothing.
pub(super) fn every_range(end: &Offsets, read: &[PlannedRange]) -> Vec<OffsetRange> {
    let range = |(partition, end): (&TopicPartition, &i64)| {
        let is_same = |range: &OffsetRange| range.topic == partition.topic && range.partition == partition.partition;
        let read = read.iter().map(|planned| &planned.range).find(|range| is_same(range));
        read.cloned().unwrap_or_else(|| OffsetRange {
            topic: partition.topic.clone(),
            partition: partition.partition,
            from_offset: *end,
            until_offset: *end,
        })
    };
    end.iter().map(range).collect()
}

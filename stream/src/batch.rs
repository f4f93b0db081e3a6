//! A batch, in the two states that the order of its steps allows: planned, then processed. Only [`PlannedBatch::process`], or a
//! [`BatchReader`] that came to its end, makes a [`ProcessedBatch`], and only that can be committed.

use crate::{
    BatchReader, CommitOutcome, Filter, GroupStore, LossKind, LostRange, OffsetRange, RangeCounts, RangeOutcome,
    ReadProgress, ReadSettings, Result, Sink, StoreCommit,
    offset_store::OffsetStore,
    read::{PlannedRange, ReadOutcome, read_ranges},
};
use ottla_client::{Client, TopicPartition};
use ottla_protocol::Uuid;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Ranges that are to be read, and where they end.
#[derive(Clone, Debug)]
pub struct PlannedBatch {
    pub(crate) batch_id: i64,
    pub(crate) ranges: Vec<PlannedRange>,
    /// The end offset of every partition of the plan, those without anything to read too.
    pub(crate) end_offsets: BTreeMap<TopicPartition, i64>,
    /// What planning found to be gone, with `failOnDataLoss=false`.
    pub(crate) lost: Vec<LostRange>,
}

impl PlannedBatch {
    /// The batch's id.
    pub fn batch_id(&self) -> i64 {
        self.batch_id
    }

    /// The ranges, in the order of topics, partitions and offsets: one a partition, empty ones too, unless `minPartitions` or
    /// `maxRecordsPerPartition` split them.
    pub fn offset_ranges(&self) -> impl Iterator<Item = &OffsetRange> {
        self.ranges.iter().map(|planned| &planned.range)
    }

    /// What is committed after this batch: the next offset to read of **every** partition of the plan, those without anything to read too.
    pub fn end_offsets(&self) -> &BTreeMap<TopicPartition, i64> {
        &self.end_offsets
    }

    /// Records that planning found to be gone; with `failOnDataLoss` they are an error instead.
    pub fn lost(&self) -> &[LostRange] {
        &self.lost
    }

    /// Begins the sink's batch, reads the ranges, writes what `filter` keeps to `sink`, and finishes the sink's batch.
    ///
    /// # Errors
    /// Whatever keeps a record from being read or written. Nothing may be committed then, and nothing can be: there is no
    /// [`ProcessedBatch`].
    pub async fn process<S: Sink>(
        self,
        client: &Client,
        filter: &Filter,
        sink: &S,
        settings: &ReadSettings,
        progress: &Arc<ReadProgress>,
    ) -> Result<ProcessedBatch> {
        sink.begin_batch(self.batch_id).await?;
        let outcome = read_ranges(client, &self.ranges, filter, sink, settings, progress).await?;
        sink.finish_batch(self.batch_id).await?;
        let reached = settings.records_max.map(|_| reached_offsets(&outcome.ranges, &self.end_offsets));
        let mut processed = self.processed(outcome);
        if let Some(reached) = reached {
            processed.end_offsets = reached;
        }
        Ok(processed)
    }

    /// Reads the ranges batch by batch in the caller's own task, in place of [`process`](Self::process): for whoever keeps batches, or wants
    /// to await something for each. Of `settings`, `parallelism` and `records_max` are for `process` only. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// [`DataLoss`](crate::Error::DataLoss): records of a range were deleted since it was planned.
    ///
    /// ```no_run
    /// # async fn example(batch: ottla_stream::PlannedBatch, client: ottla_stream::Client) -> ottla_stream::Result<()> {
    /// # use ottla_stream::{Filter, ReadSettings};
    /// let mut reader = batch.read(&client, &Filter::always(), &ReadSettings::default()).await?;
    /// let mut kept = Vec::new();
    /// while let Some(mut batch) = reader.next().await? {
    ///     if batch.header().records_count > 100 {
    ///         kept.push(batch.keep()?);
    ///     } else {
    ///         batch.for_each(|record| println!("{}", record.offset))?;
    ///     }
    /// }
    /// reader.finish()?.commit(&client, "my-group", "query-1").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read(self, client: &Client, filter: &Filter, settings: &ReadSettings) -> Result<BatchReader> {
        BatchReader::start(client, self, filter, settings).await
    }

    /// The ranges were read with this outcome.
    pub(crate) fn processed(self, outcome: ReadOutcome) -> ProcessedBatch {
        // What was lost before the read began says nothing of what was read.
        let recreated = recreated_topics(&outcome.lost);
        let mut lost = self.lost;
        lost.extend(outcome.lost);
        let topic_ids =
            self.ranges.into_iter().filter_map(|planned| Some((planned.range.topic, planned.topic_id?))).collect();
        let (batch_id, end_offsets) = (self.batch_id, self.end_offsets);
        ProcessedBatch { batch_id, outcomes: outcome.ranges, end_offsets, topic_ids, recreated, lost }
    }
}

/// Where a read that stopped early is: after the last record looked at, and nothing for partitions that it did not reach.
fn reached_offsets(
    outcomes: &[RangeOutcome],
    end_offsets: &BTreeMap<TopicPartition, i64>,
) -> BTreeMap<TopicPartition, i64> {
    let mut reached = BTreeMap::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.reached) {
        let partition = TopicPartition::new(outcome.range.topic.clone(), outcome.range.partition);
        let done = outcome.position >= outcome.range.until_offset;
        // Pieces of one partition come in the order of their offsets: the last one that was reached stays.
        if end_offsets.contains_key(&partition) && (done || outcome.position > outcome.range.from_offset) {
            reached.insert(partition, if done { outcome.range.until_offset } else { outcome.position });
        }
    }
    reached
}

/// A batch whose records were all read, filtered and written out.
#[derive(Clone, Debug)]
pub struct ProcessedBatch {
    batch_id: i64,
    outcomes: Vec<RangeOutcome>,
    end_offsets: BTreeMap<TopicPartition, i64>,
    topic_ids: BTreeMap<String, Uuid>,
    /// Topics that were created again while they were read.
    recreated: BTreeSet<String>,
    lost: Vec<LostRange>,
}

impl ProcessedBatch {
    /// The batch's id.
    pub fn batch_id(&self) -> i64 {
        self.batch_id
    }

    /// What became of each range.
    pub fn ranges(&self) -> &[RangeOutcome] {
        &self.outcomes
    }

    /// What was seen in all ranges together.
    pub fn counts(&self) -> RangeCounts {
        let mut sum = RangeCounts::default();
        self.outcomes.iter().for_each(|outcome| sum += outcome.counts);
        sum
    }

    /// Records that are gone, with `failOnDataLoss=false`.
    pub fn lost(&self) -> &[LostRange] {
        &self.lost
    }

    /// What a store is to hold after this batch: the next offset to read of **every** partition of the plan, whatever a filter kept. After a
    /// read with `records_max`, of those that it reached.
    pub fn offsets_to_commit(&self) -> &BTreeMap<TopicPartition, i64> {
        &self.end_offsets
    }

    /// The ids of the topics read, where the brokers have them.
    pub fn topic_ids(&self) -> &BTreeMap<String, Uuid> {
        &self.topic_ids
    }

    /// Commits [`offsets_to_commit`](Self::offsets_to_commit) to `group`, each with the topic's id, the leader epoch of what was read, and
    /// metadata that names the batch: `ottla/1 batch=<id> query=<query_id> topic_id=<base64url>`.
    ///
    /// Where the group is further within the same topic, it stays there; the outcome says so.
    ///
    /// # Errors
    /// [`Error::Commit`](crate::Error::Commit) with every partition that the group did not take, [`Error::Client`](crate::Error::Client)
    /// when its coordinator can't be asked or takes no commit at all, as for a group with active members.
    pub async fn commit(&self, client: &Client, group: &str, query_id: &str) -> Result<CommitOutcome> {
        GroupStore::new(client, group).store(&self.store_commit(query_id)).await
    }

    /// Where each partition that had anything to read was begun. Pieces come in the order of their offsets.
    fn begin_offsets(&self) -> BTreeMap<TopicPartition, i64> {
        let mut from = BTreeMap::new();
        for RangeOutcome { range, .. } in self.outcomes.iter().filter(|outcome| !outcome.range.is_empty()) {
            let partition = TopicPartition::new(range.topic.clone(), range.partition);
            from.entry(partition).or_insert(range.from_offset);
        }
        from
    }

    /// What a store is to hold after this batch.
    fn store_commit(&self, query_id: &str) -> StoreCommit {
        let epoch = |outcome: &RangeOutcome| {
            Some((TopicPartition::new(outcome.range.topic.clone(), outcome.range.partition), outcome.leader_epoch?))
        };
        StoreCommit {
            batch_id: self.batch_id,
            query_id: query_id.to_owned(),
            offsets: self.end_offsets.clone(),
            from_offsets: self.begin_offsets(),
            // Pieces of one partition come in the order of their offsets: the last one stays.
            leader_epochs: self.outcomes.iter().filter_map(epoch).collect(),
            topic_ids: self.topic_ids.clone(),
            recreated: self.recreated.clone(),
            repeated: false,
            moved_back: moved_back(&self.lost),
        }
    }
}

/// Partitions whose log ends before what was to be read next: what is read there now is further back than what is stored.
pub(crate) fn moved_back(lost: &[LostRange]) -> BTreeSet<TopicPartition> {
    lost.iter().filter(|lost| lost.kind == LossKind::OffsetChanged).map(LostRange::partition).collect()
}

/// Topics that are other ones now: of those, what was read to its end before is gone as well.
pub(crate) fn recreated_topics(lost: &[LostRange]) -> BTreeSet<String> {
    let recreated = lost.iter().filter(|lost| lost.kind == LossKind::Recreated);
    recreated.map(|lost| lost.range.topic.clone()).collect()
}

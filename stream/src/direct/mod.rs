//! A batch an interval, its ranges in the caller's hand, and commits that the caller asks for: what Spark's older API has as
//! `HasOffsetRanges` and `CanCommitOffsets` (SPARK 15).
//!
//! [`starts`] says where partitions begin and how far a batch goes, [`batch`] is what is handed out, [`commits`] what waits for the group.
//! Everything else is a query's: its source looks what is new and plans the ranges, its batches read them.

mod batch;
mod builder;
mod commits;
mod starts;

pub use batch::{DirectBatch, ProcessedRanges};
pub use builder::DirectStreamBuilder;
pub use commits::DirectCommitError;

use crate::{
    CommitOutcome, Filter, LostRange, MicroBatch, Offsets, Result, StreamOptions,
    query::{Source, Span, changed, ids},
};
use commits::{Callback, Commits};
use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;
use uuid::Uuid;

/// A stream of batches, one an interval, whose offsets are committed to a group when its user says so, and only after they were processed.
///
/// It begins at the offsets that `startingOffsets` names as JSON, else where the group is, else where `startingOffsets` says; so do partitions that
/// appear later, for which nothing is named any more. Each batch has a range for **every** partition, those without anything new too.
///
/// A batch counts as processed once [`DirectBatch::process`] or [`DirectBatch::processed`] has made [`ProcessedRanges`] of it, and nothing else can
/// be committed. Until then [`next`](Self::next) hands out the same batch again, with the same id and the same ranges, so that a batch that
/// failed is never passed over by the commit of a later one: whoever wants to give up ends the loop.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use ottla_stream::{DirectStream, StreamOptions};
/// use std::time::Duration;
///
/// let options = StreamOptions::stream_from_pairs([
///     ("kafka.bootstrap.servers", "localhost:9092"),
///     ("subscribe", "logs"),
///     ("startingOffsets", "earliest"),
///     ("kafka.consumer.commit.groupid", "nightly"),
/// ])?;
/// let mut stream =
///     DirectStream::builder(options).batch_interval(Duration::from_secs(5)).max_rate_per_partition(10_000).start().await?;
/// while let Some(batch) = stream.next().await? {
///     for range in batch.offset_ranges() {
///         println!("{range}");
///     }
///     let processed = batch.process(|batch| async move { batch.for_each(|record| println!("{}", record.offset)).await }).await?;
///     stream.commit_async(&processed, |result| {
///         if let Err(error) = result {
///             eprintln!("not committed yet: {error}");
///         }
///     })?;
///     if processed.batch_id() == 99 {
///         stream.stop().await?;
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct DirectStream {
    /// Names the stream in the metadata of its commits, and its ranges among those of others.
    id: Uuid,
    source: Source,
    filter: Filter,
    parallelism: usize,
    interval: Duration,
    /// How many offsets of a partition a batch takes.
    offsets_max: Option<i64>,
    /// Where the options say to begin, until the first batch is planned.
    explicit: Option<Offsets>,
    batch_id: i64,
    /// What was planned and is not known to be processed.
    outstanding: Option<Outstanding>,
    /// What the group holds beside the log, to be told with the next batch.
    lost: Vec<LostRange>,
    due: Option<Instant>,
    commits: Commits,
    is_stopped: bool,
}

/// A batch that is the next one until it is processed.
#[derive(Debug)]
struct Outstanding {
    span: Span,
    lost: Vec<LostRange>,
    is_processed: Arc<AtomicBool>,
}

impl DirectStream {
    /// A stream of these options ([`StreamOptions::stream_from_pairs`]).
    pub fn builder(options: StreamOptions) -> DirectStreamBuilder {
        DirectStreamBuilder::new(options)
    }

    /// The next batch: commits what waits for the group, waits for the rest of the interval, and looks what is new. `None` after
    /// [`stop`](Self::stop). A batch that took longer than the interval is followed at once. Cancel safe.
    ///
    /// # Errors
    /// The cluster can't be asked, and [`DataLoss`](crate::Error::DataLoss), if `failOnDataLoss` is true: an offset that the log does not begin
    /// with any more, for example. The stream stays where it is, and the next call tries again. A commit that fails is told to its callback.
    pub async fn next(&mut self) -> Result<Option<DirectBatch>> {
        if self.is_stopped {
            return Ok(None);
        }
        self.commits.send().await;
        if let Some(due) = self.due {
            tokio::time::sleep_until(due).await;
        }
        self.due = Instant::now().checked_add(self.interval);
        if let Some(done) = self.outstanding.take_if(|batch| batch.is_processed.load(Ordering::Acquire)) {
            self.source.move_to(done.span.end, done.span.own.topic_ids);
            self.batch_id = self.batch_id.saturating_add(1);
        }
        let outstanding = match &self.outstanding {
            Some(again) => again,
            None => {
                let span = self.plan().await?;
                let (lost, is_processed) = (std::mem::take(&mut self.lost), Arc::default());
                self.outstanding.insert(Outstanding { span, lost, is_processed })
            }
        };
        let span = &outstanding.span;
        let mut part = self.source.plan(span, self.parallelism).await?;
        part.lost.splice(0..0, outstanding.lost.iter().cloned());
        let ranges = batch::every_range(&span.end, &part.ranges);
        let micro_batch = MicroBatch::new(self.batch_id, self.filter.clone(), vec![part]);
        Ok(Some(DirectBatch {
            stream: self.id,
            ranges,
            micro_batch,
            span: span.clone(),
            is_processed: outstanding.is_processed.clone(),
        }))
    }

    /// Where the next batch begins and ends.
    async fn plan(&mut self) -> Result<Span> {
        let (topics, partitions) = self.source.partitions().await?;
        let now = ids(&topics);
        // Partitions of a topic that was created again are for the source: they are read from their begin, and what was there is lost.
        let recreated = changed(self.source.topic_ids(), &now);
        let first = self.source.position.is_none();
        let mut position = self.source.position.clone().unwrap_or_default();
        let new: BTreeSet<_> = partitions
            .into_iter()
            .filter(|partition| !position.contains_key(partition) && !recreated.contains(&partition.topic))
            .collect();
        if first || !new.is_empty() {
            let begin = starts::begin(&self.source.reader(), &topics, &new, self.explicit.as_ref()).await?;
            if let (true, Some(batch_id)) = (first, begin.batch_id) {
                self.batch_id = batch_id.saturating_add(1);
            }
            position.extend(begin.offsets);
            self.lost.extend(begin.lost);
            let mut topic_ids = now;
            topic_ids.extend(self.source.topic_ids().clone());
            self.source.move_to(position.clone(), topic_ids);
            self.explicit = None;
        }
        let mut look = self.source.look(0, false).await?;
        let recreated = changed(self.source.topic_ids(), &look.own.topic_ids);
        // What appeared just now has no start yet: it is for the next batch.
        let is_known = |partition: &_, recreated: &BTreeSet<String>| {
            position.contains_key(partition) || recreated.contains(&partition.topic)
        };
        look.end.retain(|partition, _| is_known(partition, &recreated));
        look.own.new_starts.retain(|partition, _| is_known(partition, &recreated));
        look.own.topic_ids.retain(|topic, _| look.end.keys().any(|partition| partition.topic == *topic));
        if let Some(max) = self.offsets_max {
            let mut starts = position.clone();
            starts.extend(look.own.new_starts.clone());
            starts::clamp(&mut look.end, &starts, max);
        }
        // The epoch at the log's end is not that of an earlier record.
        look.own.leader_epochs.retain(|partition, _| look.end.get(partition) == look.latest.offsets.get(partition));
        let start_ids = self.source.topic_ids().clone();
        Ok(Span { start: position, start_ids, end: look.end, own: look.own })
    }

    /// Has the end offsets of these ranges committed with the next call of [`next`](Self::next), or of [`stop`](Self::stop). Of several commits that
    /// wait, the later one counts in each partition. `callback` learns what came of it; where the group did not take it, it is tried again
    /// with the next commit, of which only later callbacks hear.
    ///
    /// # Errors
    /// [`DirectCommitError::OtherStream`]: the ranges are not of this stream. [`DirectCommitError::Stopped`]: nothing will commit them any more.
    pub fn commit_async(
        &mut self,
        ranges: &ProcessedRanges,
        callback: impl FnOnce(Result<&CommitOutcome, &DirectCommitError>) + Send + 'static,
    ) -> Result<(), DirectCommitError> {
        self.check(ranges)?;
        if self.is_stopped {
            return Err(DirectCommitError::Stopped);
        }
        let callback: Callback = Box::new(callback);
        self.commits.queue(ranges, Some(callback));
        Ok(())
    }

    /// Commits the end offsets of these ranges now, together with what waits; also after [`stop`](Self::stop).
    ///
    /// # Errors
    /// [`DirectCommitError::OtherStream`]: the ranges are not of this stream. Else the group did not take them: they wait for the next commit.
    pub async fn commit_sync(&mut self, ranges: &ProcessedRanges) -> Result<CommitOutcome, DirectCommitError> {
        self.check(ranges)?;
        self.commits.queue(ranges, None);
        self.commits.send_now().await
    }

    /// Ends the stream: commits what waits, again and again until the commit timeout. [`next`](Self::next) gives nothing any more.
    ///
    /// A batch that is not processed by now is the first one of whoever goes on from the group.
    ///
    /// # Errors
    /// The group did not take the offsets in time. They still wait, for another call.
    pub async fn stop(&mut self) -> Result<CommitOutcome, DirectCommitError> {
        self.is_stopped = true;
        self.commits.flush().await
    }

    fn check(&self, ranges: &ProcessedRanges) -> Result<(), DirectCommitError> {
        if ranges.stream == self.id {
            return Ok(());
        }
        let ranges = ranges.offset_ranges().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Err(DirectCommitError::OtherStream { ranges })
    }
}

impl fmt::Debug for DirectStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectStream")
            .field("id", &self.id)
            .field("batch_id", &self.batch_id)
            .field("outstanding", &self.outstanding)
            .field("is_stopped", &self.is_stopped)
            .finish_non_exhaustive()
    }
}

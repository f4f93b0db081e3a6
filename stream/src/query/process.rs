//! What a query does with a batch: a function of the user's, or a sink.

use super::{BoxError, MicroBatch};
use crate::{Error, ReadBatch, RecordWriter, Result, Sink};
use ottla_client::TopicPartition;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    pin::Pin,
    sync::Arc,
};

/// Runs in a task of its own, so that a panic ends the batch and not the query.
pub(super) type Processing = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Something to do with each batch.
pub(super) trait Process: Send + Sync + 'static {
    /// Begins with a batch.
    fn process(self: Arc<Self>, batch: MicroBatch) -> Processing;

    /// What takes the records of continuous mode; a function of batches can't.
    fn epochs(self: Arc<Self>) -> Option<Box<dyn Epochs>>;

    /// What progress calls it.
    fn description(&self) -> &str;

    /// Whether it writes out what the filter keeps, one row a record, and can do so as records arrive.
    fn is_sink(&self) -> bool;

    /// [`Sink::needs_exact_replay`].
    fn needs_exact_replay(&self) -> bool;
}

/// A function called for each batch.
pub(super) struct ForeachBatch<F>(pub(super) F);

impl<F, R> Process for ForeachBatch<F>
where
    F: Fn(MicroBatch, i64) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    fn process(self: Arc<Self>, batch: MicroBatch) -> Processing {
        Box::pin(async move {
            let batch_id = batch.batch_id();
            // Its own errors come back as what they are; `?` made them anonymous.
            (self.0)(batch, batch_id).await.map_err(|error| match error.downcast::<Error>() {
                Ok(error) => *error,
                Err(source) => Error::Foreach { batch_id, source },
            })
        })
    }

    fn epochs(self: Arc<Self>) -> Option<Box<dyn Epochs>> {
        None
    }

    fn description(&self) -> &'static str {
        "ForeachBatchSink"
    }

    fn is_sink(&self) -> bool {
        false
    }

    fn needs_exact_replay(&self) -> bool {
        false
    }
}

/// A sink that takes every record the filter keeps.
pub(super) struct IntoSink<S> {
    pub(super) sink: S,
    pub(super) description: String,
}

impl<S: Sink> Process for IntoSink<S> {
    fn process(self: Arc<Self>, batch: MicroBatch) -> Processing {
        Box::pin(async move {
            self.sink.begin_batch(batch.batch_id()).await?;
            batch.write_to(&self.sink).await?;
            self.sink.finish_batch(batch.batch_id()).await?;
            Ok(())
        })
    }

    fn epochs(self: Arc<Self>) -> Option<Box<dyn Epochs>> {
        Some(Box::new(SinkEpochs { into: self, writers: BTreeMap::new(), last: None }))
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn is_sink(&self) -> bool {
        true
    }

    fn needs_exact_replay(&self) -> bool {
        self.sink.needs_exact_replay()
    }
}

/// Takes records as they arrive, epoch by epoch.
pub(super) trait Epochs: Send {
    /// An epoch begins.
    fn begin(&mut self, epoch: i64) -> Step<'_>;

    /// Takes the records of a record batch.
    fn write(&mut self, batch: &mut ReadBatch<'_>) -> Result<()>;

    /// The record batch is over.
    fn flush(&mut self) -> Step<'_>;

    /// The epoch is over: what it holds is durable afterwards.
    fn finish(&mut self, epoch: i64) -> Step<'_>;
}

/// A step of an epoch.
pub(super) type Step<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

struct SinkEpochs<S: Sink> {
    into: Arc<IntoSink<S>>,
    /// By partition; new ones in each epoch.
    writers: BTreeMap<TopicPartition, S::Writer>,
    /// The partition that was written last.
    last: Option<TopicPartition>,
}

impl<S: Sink> Epochs for SinkEpochs<S> {
    fn begin(&mut self, epoch: i64) -> Step<'_> {
        Box::pin(async move { Ok(self.into.sink.begin_batch(epoch).await?) })
    }

    fn write(&mut self, batch: &mut ReadBatch<'_>) -> Result<()> {
        let range = batch.range();
        let partition = TopicPartition::new(range.topic.clone(), range.partition);
        let writer = match self.writers.entry(partition.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(self.into.sink.writer(range, batch.include_headers())?),
        };
        self.last = Some(partition);
        batch.for_each(|record| writer.write(record))
    }

    fn flush(&mut self) -> Step<'_> {
        Box::pin(async move {
            match self.last.take().and_then(|last| self.writers.get_mut(&last)) {
                Some(writer) => Ok(writer.flush().await?),
                None => Ok(()),
            }
        })
    }

    fn finish(&mut self, epoch: i64) -> Step<'_> {
        Box::pin(async move {
            for writer in std::mem::take(&mut self.writers).into_values() {
                writer.finish().await?;
            }
            Ok(self.into.sink.finish_batch(epoch).await?)
        })
    }
}

//! What a query does with a batch: a function of the user's, or a sink.

use super::{BoxError, MicroBatch};
use crate::{Error, Result, Sink};
use std::{pin::Pin, sync::Arc};

/// Runs in a task of its own, so that a panic ends the batch and not the query.
pub(super) type Processing = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Something to do with each batch.
pub(super) trait Process: Send + Sync + 'static {
    /// Begins with a batch.
    fn process(self: Arc<Self>, batch: MicroBatch) -> Processing;

    /// What progress calls it.
    fn description(&self) -> &str;

    /// How many records it wrote out, if it is asked to count: those that the filter kept.
    fn counts_output(&self) -> bool;
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

    fn description(&self) -> &'static str {
        "ForeachBatchSink"
    }

    fn counts_output(&self) -> bool {
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

    fn description(&self) -> &str {
        &self.description
    }

    fn counts_output(&self) -> bool {
        true
    }
}

//! Queries: batches of what is new, one after the other, with what was done written down.

mod listener;
mod micro_batch;
mod progress;
mod trigger;

pub use listener::{QueryIdle, QueryListener, QueryStarted, QueryTerminated};
pub use micro_batch::{MicroBatch, MicroBatchReader};
pub use progress::{QueryProgress, SinkProgress, SourceProgress};
pub use trigger::{Trigger, TriggerError};

/// What a query's function may fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

//! Queries: batches of what is new, one after the other, with what was done written down.

mod micro_batch;
mod trigger;

pub use micro_batch::{MicroBatch, MicroBatchReader};
pub use trigger::{Trigger, TriggerError};

/// What a query's function may fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

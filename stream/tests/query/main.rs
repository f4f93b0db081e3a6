//! Queries against the embedded broker: which batches they make, what they write down, and where they go on.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed test panics; clippy.toml lets off test functions but not their helpers"
)]

#[path = "../common/mod.rs"]
mod common;

mod batches;
mod continuous;
mod failures;
mod loss;
mod restarts;
mod stores;
mod support;

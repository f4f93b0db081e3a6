//! Direct streams against the embedded broker: ranges in the caller's hand, and commits that the caller asks for.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed test panics; clippy.toml lets off test functions but not their helpers"
)]

#[path = "../common/mod.rs"]
mod common;

mod batches;
mod commits;
mod starts;
mod support;

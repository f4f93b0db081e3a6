//! Bounded reads against the embedded broker: plan, process, commit, and what a fault on the way leaves behind.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed test panics; clippy.toml lets off test functions but not their helpers"
)]

#[path = "../common/mod.rs"]
mod common;

mod commits;
mod faults;
mod files;
mod loss;
mod memory;
mod split;
mod support;
mod threads;

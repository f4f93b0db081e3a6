//! The broker over real sockets: with `kafka-protocol`'s own encoders, and with kcat and Kafka's tools.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed test panics; clippy.toml lets off test functions but not their helpers"
)]

mod admin;
mod faults;
mod fetch;
mod groups;
mod interop;
mod leaders;
mod support;
mod transactions;
mod versions;

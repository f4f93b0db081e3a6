//! The broker over real sockets: with `kafka-protocol`'s own encoders. Kafka's tools and kcat meet it in the
//! package `ottla-tests`, whose harness fetches them.

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
mod leaders;
mod support;
mod transactions;
mod versions;

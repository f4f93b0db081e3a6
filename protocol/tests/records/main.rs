//! Record batches, message sets and codecs: the golden vectors, bug reports of other clients, and properties.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "what is wrong with a vector's description ends the test"
)]

mod bug_reports;
#[path = "../common/mod.rs"]
mod common;
mod consumer;
mod expected;
mod handmade;
mod properties;
mod twin;
mod vectors;

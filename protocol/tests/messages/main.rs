//! The golden vectors of frames and messages, read, written, cut and changed.
//!
//! Walks the index, so that vectors of the same kinds can be added without new code. Messages that are not written by hand here run
//! through the `kafka-protocol` crate, which the layers above use for them.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what is wrong with a vector's description ends the test"
)]

#[macro_use]
mod codec;
mod changed;
#[path = "../common/mod.rs"]
mod common;
mod malformed;
mod run;
mod vectors;

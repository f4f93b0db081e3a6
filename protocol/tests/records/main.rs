//! Record batches, message sets and codecs: the golden vectors, bug reports of other clients, and properties.

mod bug_reports;
#[path = "../common/mod.rs"]
mod common;
mod consumer;
mod expected;
mod properties;
mod twin;
mod vectors;

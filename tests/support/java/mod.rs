//! Kafka's own Java clients and tools, in one helper process (`tests/kafka`) that all tests of a binary share.

pub(crate) mod client;
pub(crate) mod groups;
pub(crate) mod helper;
pub(crate) mod records;
pub(crate) mod tool;
pub(crate) mod transaction;

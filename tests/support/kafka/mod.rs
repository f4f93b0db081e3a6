//! Clusters of real brokers, each node a process of its own.

pub(crate) mod cluster;
pub(crate) mod node;
pub(crate) mod probe;

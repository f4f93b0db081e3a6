//! The integration tests: one module a subject, one binary.

mod bad_input;
mod bench;
mod cases_decoding;
mod cases_network;
mod cases_offsets;
mod cases_options;
mod cases_stream;
mod commit;
mod common;
mod crash;
mod dump;
mod embedded;
mod failover;
mod fetch_sessions;
mod golden;
mod harness;
mod limits;
mod live_versions;
mod offsets;
mod older_brokers;
mod query;
mod read_equals_java;
mod tidy;
mod zookeeper;

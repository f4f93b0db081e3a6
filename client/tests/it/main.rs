//! The client over real sockets: against the embedded broker with its faults, and against servers that play a broken one.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a failed test panics; clippy.toml lets off test functions but not their helpers"
)]

mod connections;
mod deadlines;
mod fetch;
mod fetch_answers;
mod fetch_faults;
mod fetch_flow;
mod fetch_rules;
mod fetch_sessions;
mod fetch_sizes;
mod groups;
mod lookups;
mod support;
mod tap;

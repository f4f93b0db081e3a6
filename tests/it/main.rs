//! The integration tests: one module a subject, one binary.

mod embedded;
mod harness;
mod tidy;

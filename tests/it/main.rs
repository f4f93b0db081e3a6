//! The integration tests: one module a subject, one binary.

mod harness;
mod tidy;

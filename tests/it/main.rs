//! The integration tests: one module a subject, one binary.

mod dump;
mod harness;
mod tidy;

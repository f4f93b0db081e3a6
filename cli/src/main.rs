//! The `ottla` binary.
fn main() {}

//! Criterion benches of Ottla.

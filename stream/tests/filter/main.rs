//! The filter against SQL's rules.

// Clippy lets tests off where it sees `cfg(test)`.
#[cfg(test)]
mod model;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod truth;

//! Kafka's error codes.

use std::fmt;

/// An error code as the broker sent it; 0 is none. Codes this crate has no name for are kept as they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ErrorCode(pub i16);

//! Reads Kafka in explicit offset ranges.

mod filter;

pub use filter::{BoundFilter, BytesColumn, Filter, IntColumn, LikeError, WhereError};

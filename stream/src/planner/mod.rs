//! What a batch of a stream reads, as arithmetic on offset maps: no I/O, no clock, no chance. The numbers are Spark's, to the last one, and
//! a slow model of the same rules stands beside them in the tests.
//!
//! ```text
//! latest --MinOffsets::fires--> is there enough? --rate_limit--> end-offset map
//! start and end-offset map --plan_ranges--> ranges, what is lost --split--> pieces, one a task
//! ```

mod limits;
#[cfg(test)]
mod model;
mod ranges;
mod split;

pub(crate) use limits::{MinOffsets, rate_limit};
pub(crate) use ranges::{RangeInput, plan_ranges};
pub(crate) use split::split;

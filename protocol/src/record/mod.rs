//! Record batches and the records in them, as borrowed views.

mod header;
#[expect(clippy::module_inception, reason = "the module of the record itself")]
mod record;

pub use header::{Header, Headers, HeadersIter, OwnedHeaders};
pub use record::{Record, TimestampType};

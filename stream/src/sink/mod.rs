//! Where records go. A sink hands out one writer a range; writers are called by that range's task alone, synchronously for each record and
//! asynchronously for each fetched piece, and the sink is told when the whole batch is there.

mod json;
mod lines;
mod null;

pub use json::JsonRow;
pub use lines::{LineFormat, LineSink};
pub use null::NullSink;

use crate::{OffsetRange, SinkError};
use ottla_protocol::record::Record;

/// An output of batches.
pub trait Sink: Send + Sync + 'static {
    /// What takes the records of one range.
    type Writer: RecordWriter;

    /// A batch begins: what is left of an attempt at it that was given up can be thrown away. Called before the batch's first writer.
    ///
    /// # Errors
    /// The output can't be made ready.
    fn begin_batch(&self, batch_id: i64) -> impl Future<Output = Result<(), SinkError>> + Send {
        let _ = batch_id;
        async { Ok(()) }
    }

    /// A writer for the kept records of `range`. `include_headers` is the source's option `includeHeaders`: whether the column `headers`
    /// is among the columns of its rows.
    ///
    /// # Errors
    /// The output can't be opened.
    fn writer(&self, range: &OffsetRange, include_headers: bool) -> Result<Self::Writer, SinkError>;

    /// All writers of the batch have ended: makes it durable. The same id again must have no second effect.
    ///
    /// # Errors
    /// Whatever was not written; nothing of the batch is committed then.
    fn finish_batch(&self, batch_id: i64) -> impl Future<Output = Result<(), SinkError>> + Send;
}

/// Takes the records of one range, in offset order.
pub trait RecordWriter: Send + 'static {
    /// Takes a record. Called in the hot loop: it should copy what it needs into memory it keeps, and leave waiting to
    /// [`flush`](Self::flush).
    fn write(&mut self, record: &Record<'_>);

    /// Called after each fetched piece of the range. May wait, which slows the reading down.
    ///
    /// # Errors
    /// The output failed; the read ends.
    fn flush(&mut self) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Called once after the last record of the range.
    ///
    /// # Errors
    /// The output failed; the read ends.
    fn finish(self) -> impl Future<Output = Result<(), SinkError>> + Send;
}

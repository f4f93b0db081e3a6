//! Where records go. A sink hands out one writer a range; writers are called by that range's task alone, synchronously for each record and
//! asynchronously for each fetched piece, and the sink is told when the whole batch is there.

mod file;
mod json;
mod lines;
mod null;

pub use file::FileSink;
pub use json::JsonRow;
pub use lines::{LineFormat, LineSink};
pub use null::NullSink;

use crate::{OffsetRange, SinkError};
use ottla_protocol::record::Record;

/// An output of batches.
pub trait Sink: Send + Sync + 'static {
    /// What takes the records of one range.
    type Writer: RecordWriter;

    /// Whether a batch that is run again must have the same records, as one whose output replaces that of the first attempt. Queries that
    /// can't promise that are refused: without a checkpoint, and in continuous mode.
    fn needs_exact_replay(&self) -> bool {
        false
    }

    /// A batch begins: called before any of its writers is asked for. Whatever an earlier attempt left, of this batch or of another that
    /// was not finished, is void.
    ///
    /// # Errors
    /// The output can't take a batch.
    fn begin_batch(&self, batch_id: i64) -> impl Future<Output = Result<(), SinkError>> + Send {
        let _ = batch_id;
        std::future::ready(Ok(()))
    }

    /// A writer for the kept records of `range`. Where a partition's offsets were split into several ranges, theirs are asked for in the
    /// order of the offsets, and may be written side by side.
    /// `include_headers` is the source's option `includeHeaders`: whether the column `headers` is among the columns of its rows.
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

//! A sink that keeps nothing: for counting, and for reading only to commit.

use super::{RecordWriter, Sink};
use crate::{OffsetRange, SinkError};
use ottla_protocol::record::Record;

/// Drops every record; the totals of a read still count them.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSink;

/// The writer of [`NullSink`].
#[derive(Clone, Copy, Debug, Default)]
pub struct NullWriter;

impl Sink for NullSink {
    type Writer = NullWriter;

    fn writer(&self, _range: &OffsetRange, _include_headers: bool) -> Result<NullWriter, SinkError> {
        Ok(NullWriter)
    }

    async fn finish_batch(&self, _batch_id: i64) -> Result<(), SinkError> {
        Ok(())
    }
}

impl RecordWriter for NullWriter {
    #[inline]
    fn write(&mut self, _record: &Record<'_>) {}

    async fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn finish(self) -> Result<(), SinkError> {
        Ok(())
    }
}

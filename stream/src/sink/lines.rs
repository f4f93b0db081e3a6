//! A sink that prints one line a record, on standard output or any other stream.
//!
//! Writers fill buffers of their own; full ones go through a bounded channel to one thread that writes them out, so that a slow reader of
//! the output slows the reading down, and never blocks a runtime's thread.

use super::{JsonRow, RecordWriter, Sink};
use crate::{OffsetRange, SinkError};
use ottla_protocol::record::Record;
use std::{
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// A buffer is handed on when it holds this much.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes on their way to the thread, in KiB; a writer with more waits. A single larger buffer goes alone.
const QUEUED_KIB_MAX: u32 = 2048;
/// Orders on their way; each holds some of the bytes above, so this is never what a writer waits for.
const ORDERS_MAX: usize = QUEUED_KIB_MAX as usize;

/// What a line shows of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineFormat {
    /// All columns, as [`JsonRow`]; with `headers` where the source has `includeHeaders`.
    Json,
    /// The value's bytes; nothing for null.
    Value,
}

enum Order {
    Write {
        lines: Vec<u8>,
        /// Given back when the lines are written.
        _queued: OwnedSemaphorePermit,
    },
    Finish(oneshot::Sender<()>),
}

/// Prints records as lines.
#[derive(Debug)]
pub struct LineSink {
    format: LineFormat,
    orders: mpsc::Sender<Order>,
    queue: Arc<Semaphore>,
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl LineSink {
    /// Prints on `output`, in a thread of its own that ends with the sink.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn new(format: LineFormat, output: impl Write + Send + 'static) -> io::Result<Self> {
        let (orders, receiver) = mpsc::channel(ORDERS_MAX);
        let failure = Arc::new(Mutex::new(None));
        let thread_failure = failure.clone();
        std::thread::Builder::new().name("ottla-output".to_owned()).spawn(move || {
            if let Err(error) = write_out(receiver, output) {
                *thread_failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        })?;
        let queue = Arc::new(Semaphore::new(QUEUED_KIB_MAX as usize));
        Ok(Self { format, orders, queue, failure })
    }
}

/// Writes what comes until the sink is gone. On an error it ends, which closes the channel.
fn write_out(mut orders: mpsc::Receiver<Order>, mut output: impl Write) -> io::Result<()> {
    while let Some(order) = orders.blocking_recv() {
        match order {
            Order::Write { lines, .. } => output.write_all(&lines)?,
            Order::Finish(done) => {
                output.flush()?;
                // Whoever waited may have gone.
                let _ = done.send(());
            }
        }
    }
    output.flush()
}

fn failed(failure: &Mutex<Option<io::Error>>) -> SinkError {
    let error = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    SinkError::new("writing the output", error.unwrap_or_else(|| io::ErrorKind::BrokenPipe.into()))
}

impl Sink for LineSink {
    type Writer = LineWriter;

    fn writer(&self, range: &OffsetRange, include_headers: bool) -> Result<LineWriter, SinkError> {
        let json = match self.format {
            LineFormat::Json => Some(JsonRow::new(&range.topic, range.partition, include_headers)),
            LineFormat::Value => None,
        };
        Ok(LineWriter {
            json,
            buffer: Vec::new(),
            orders: self.orders.clone(),
            queue: self.queue.clone(),
            failure: self.failure.clone(),
        })
    }

    async fn finish_batch(&self, _batch_id: i64) -> Result<(), SinkError> {
        let (done, finished) = oneshot::channel();
        let sent = self.orders.send(Order::Finish(done)).await;
        if sent.is_err() || finished.await.is_err() {
            return Err(failed(&self.failure));
        }
        Ok(())
    }
}

/// The writer of [`LineSink`].
#[derive(Debug)]
pub struct LineWriter {
    json: Option<JsonRow>,
    buffer: Vec<u8>,
    orders: mpsc::Sender<Order>,
    queue: Arc<Semaphore>,
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl LineWriter {
    async fn hand_on(&mut self) -> Result<(), SinkError> {
        let lines = std::mem::take(&mut self.buffer);
        let kib = u32::try_from(lines.len() >> 10).unwrap_or(u32::MAX).clamp(1, QUEUED_KIB_MAX);
        // The semaphore is never closed; a thread that ended has dropped its orders, and with them what they held.
        let queued = self.queue.clone().acquire_many_owned(kib).await.map_err(|_| failed(&self.failure))?;
        let order = Order::Write { lines, _queued: queued };
        self.orders.send(order).await.map_err(|_| failed(&self.failure))
    }
}

impl RecordWriter for LineWriter {
    fn write(&mut self, record: &Record<'_>) {
        match &self.json {
            Some(json) => json.write(&mut self.buffer, record),
            None => {
                self.buffer.extend_from_slice(record.value.unwrap_or_default());
                self.buffer.push(b'\n');
            }
        }
    }

    async fn flush(&mut self) -> Result<(), SinkError> {
        if self.buffer.len() >= BUFFER_BYTES { self.hand_on().await } else { Ok(()) }
    }

    async fn finish(mut self) -> Result<(), SinkError> {
        if self.buffer.is_empty() { Ok(()) } else { self.hand_on().await }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_protocol::record::{Headers, TimestampType};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn range() -> OffsetRange {
        OffsetRange { topic: "t".to_owned(), partition: 0, from_offset: 0, until_offset: 10 }
    }

    fn record(value: Option<&[u8]>) -> Record<'_> {
        Record {
            offset: 0,
            timestamp: 0,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value,
            headers: Headers::default(),
        }
    }

    #[tokio::test]
    async fn lines_are_there_when_the_batch_is_finished() {
        let output = Shared::default();
        let sink = LineSink::new(LineFormat::Value, output.clone()).unwrap();
        let mut writer = sink.writer(&range(), false).unwrap();
        for value in [Some(&b"one"[..]), None, Some(b"two")] {
            writer.write(&record(value));
        }
        writer.flush().await.unwrap();
        writer.finish().await.unwrap();
        sink.finish_batch(0).await.unwrap();
        assert_eq!(*output.0.lock().unwrap(), b"one\n\ntwo\n");
    }

    #[tokio::test]
    async fn a_broken_pipe_is_an_error_at_the_latest_when_the_batch_ends() {
        let sink = LineSink::new(LineFormat::Value, Broken).unwrap();
        let mut writer = sink.writer(&range(), false).unwrap();
        writer.write(&record(Some(b"one")));
        let ended = async {
            writer.finish().await?;
            sink.finish_batch(0).await
        };
        let error = ended.await.unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::BrokenPipe);
    }
}

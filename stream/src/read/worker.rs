//! One thread's part of a read: it fetches its ranges and decodes whatever piece of them comes next.

use super::{
    crew::Crew,
    range::{RangeReader, Step},
    tools::Tools,
};
use crate::{DataLoss, LossKind, ReadError, ReadErrorKind, RecordWriter, Result};
use ottla_client::{Client, CompletedFetch, FetchError, FetchErrorKind, Fetcher};
use ottla_protocol::record::RecordBatches;

/// Others of this thread go on after so many bytes: sockets, timers, the user's Ctrl-C.
const YIELD_BYTES: usize = 4 << 20;

/// A range with its reader and writer, on whatever thread it is.
pub(super) struct Slot<W> {
    /// Its place among the ranges of the read.
    pub(super) index: usize,
    pub(super) reader: RangeReader,
    pub(super) writer: W,
}

/// The ranges that a thread reads now. A place is empty when its range was given to another thread.
pub(super) struct Share<W> {
    fetcher: Fetcher,
    slots: Vec<Option<Slot<W>>>,
}

impl<W: RecordWriter> Share<W> {
    pub(super) fn start(client: &Client, slots: Vec<Slot<W>>) -> Self {
        let fetcher = Fetcher::start(client, slots.iter().map(|slot| slot.reader.target()).collect());
        Self { fetcher, slots: slots.into_iter().map(Some).collect() }
    }

    /// What comes next of any range; `None` when all are done.
    pub(super) async fn next(&mut self) -> Option<Result<CompletedFetch, FetchError>> {
        self.fetcher.next().await
    }

    pub(super) fn into_slots(self) -> impl Iterator<Item = Slot<W>> {
        self.slots.into_iter().flatten()
    }

    /// Takes about half of what is left out of this share, whole ranges only; nothing if that is less than `offsets_min`.
    pub(super) fn split(&mut self, offsets_min: i64) -> Vec<Slot<W>> {
        let mut open: Vec<(i64, usize)> = Vec::with_capacity(self.slots.len());
        for (target, slot) in self.slots.iter().enumerate() {
            let left = slot.as_ref().map_or(0, |slot| slot.reader.left());
            if left > 0 {
                open.push((left, target));
            }
        }
        // The largest first, each to the side that has less.
        open.sort_unstable_by(|a, b| b.cmp(a));
        let (mut kept, mut given) = (0_i64, 0_i64);
        let mut targets = Vec::new();
        for (left, target) in open {
            if kept <= given {
                kept = kept.saturating_add(left);
            } else {
                given = given.saturating_add(left);
                targets.push(target);
            }
        }
        if given < offsets_min {
            return Vec::new();
        }
        targets.iter().filter_map(|target| self.give(*target)).collect()
    }

    fn give(&mut self, target: usize) -> Option<Slot<W>> {
        self.fetcher.finish(target);
        self.slots.get_mut(target)?.take()
    }

    /// Decodes a piece. Says how many offsets it brought its range forward.
    pub(super) async fn piece(&mut self, fetch: &CompletedFetch, crew: &Crew<W>, tools: &mut Tools) -> Result<i64> {
        // One that was given away while this came is read elsewhere.
        let Some(slot) = self.slots.get_mut(fetch.target()).and_then(Option::as_mut) else { return Ok(0) };
        let Slot { reader, writer, .. } = slot;
        let (position, counts) = (reader.position, reader.counts);
        reader.note_loss(fetch);
        check_loss(crew.fail_on_data_loss, reader)?;
        reader.begin(fetch.aborted_transactions(), tools);
        let result = read_batches(reader, fetch, crew, tools, writer).await;
        tools.shrink();
        let offsets = reader.position - position;
        crew.progress.add(offsets, counts, reader.counts);
        if reader.is_done() {
            self.fetcher.finish(fetch.target());
        }
        result?;
        Ok(offsets)
    }

    pub(super) fn fetch_failed(&mut self, error: FetchError, crew: &Crew<W>) -> Result<()> {
        let Some(slot) = self.slots.get_mut(error.target).and_then(Option::as_mut) else { return Ok(()) };
        let reader = &mut slot.reader;
        let position = reader.position;
        fetch_failed(reader, error, &self.fetcher, crew.fail_on_data_loss)?;
        crew.progress.add(reader.position - position, reader.counts, reader.counts);
        Ok(())
    }
}

/// A loss moves the range past what is gone, or to its end; anything else stops the read.
pub(super) fn fetch_failed(
    reader: &mut RangeReader,
    error: FetchError,
    fetcher: &Fetcher,
    fail_on_data_loss: bool,
) -> Result<()> {
    match error.source {
        FetchErrorKind::OutOfRange { log_start_offset, log_end_offset } => {
            reader.out_of_range(log_start_offset, log_end_offset);
            // Before anything else, so that the target is not left waiting.
            if reader.is_done() {
                fetcher.finish(error.target);
            } else {
                fetcher.seek(error.target, reader.position);
            }
            check_loss(fail_on_data_loss, reader)
        }
        FetchErrorKind::TopicRecreated => {
            reader.lose_rest(LossKind::Recreated, -1, -1);
            check_loss(fail_on_data_loss, reader)
        }
        FetchErrorKind::Client(gone) if gone.is_unknown() => {
            reader.lose_rest(LossKind::PartitionDeleted, -1, -1);
            check_loss(fail_on_data_loss, reader)
        }
        source => Err(read_error(reader, source.into()).into()),
    }
}

/// Reads the batches of a piece, as far as the range wants them.
async fn read_batches<W: RecordWriter>(
    reader: &mut RangeReader,
    fetch: &CompletedFetch,
    crew: &Crew<W>,
    tools: &mut Tools,
    writer: &mut W,
) -> Result<()> {
    let mut bytes_since_yield = 0;
    for batch in RecordBatches::new(fetch.records()) {
        if reader.is_done() || crew.is_stopped() {
            break;
        }
        let batch = batch.map_err(|error| read_error(reader, error.into()))?;
        let result = loop {
            match reader.read(&batch, tools, &mut |record| writer.write(record)) {
                Ok(Step::NoRoom) => tools.grow(&batch).await.map_err(|held| read_error(reader, held.into()))?,
                Ok(Step::Done { bytes }) => break Ok(bytes),
                Err(error) => break Err(read_error(reader, error)),
            }
        };
        // After each batch, so that what waits to be written is bounded by a batch; what came before a fault is good, and goes out.
        tokio::select! {
            biased;
            flushed = writer.flush() => flushed?,
            () = crew.stopped() => {}
        }
        bytes_since_yield += result?;
        if bytes_since_yield >= YIELD_BYTES {
            bytes_since_yield = 0;
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

pub(super) fn check_loss(fail_on_data_loss: bool, reader: &RangeReader) -> Result<()> {
    if fail_on_data_loss && !reader.lost.is_empty() {
        return Err(DataLoss::new(reader.lost.clone()).into());
    }
    Ok(())
}

pub(super) fn read_error(reader: &RangeReader, source: ReadErrorKind) -> ReadError {
    ReadError { partition: reader.partition(), offset: reader.position, source }
}

//! The pull side: record batches one after the other in the caller's own task, for whoever wants to hold on to some of them.

use super::{
    ReadOutcome, ReadProgress, ReadSettings,
    range::RangeReader,
    readers,
    tools::Tools,
    wanted,
    worker::{check_loss, fetch_failed, read_error},
};
use crate::{
    BoundFilter, DataLoss, Error, Filter, OffsetRange, PlannedBatch, ProcessedBatch, RangeOutcome, ReadErrorKind,
    Result,
};
use ottla_client::{Client, CompletedFetch, Fetcher, Reservation};
use ottla_protocol::{
    compression::Compression,
    record::{BatchError, BatchHeader, Record, RecordBatch, RecordBatches},
};
use std::ops::Range;

/// Reads ranges batch by batch: [`PlannedBatch::read`](crate::PlannedBatch::read).
#[derive(Debug)]
pub struct BatchReader {
    client: Client,
    batch: PlannedBatch,
    fetcher: Fetcher,
    readers: Vec<RangeReader>,
    tools: Tools,
    fail_on_data_loss: bool,
    include_headers: bool,
    /// The loss that has stopped the read.
    failed: Option<DataLoss>,
    /// How many bytes the last try wanted in vain.
    needed: usize,
    piece: Option<Piece>,
}

/// The piece at hand.
#[derive(Debug)]
struct Piece {
    fetch: CompletedFetch,
    /// Where in it the batch at hand begins.
    at: usize,
    /// Whether that one was handed out.
    handed_out: bool,
}

impl Piece {
    fn batch(&self) -> Option<Result<RecordBatch<'_>, BatchError>> {
        RecordBatches::starting_at(self.fetch.records().get(self.at..)?, self.at).next()
    }
}

impl BatchReader {
    pub(crate) async fn start(
        client: &Client,
        batch: PlannedBatch,
        filter: &Filter,
        settings: &ReadSettings,
    ) -> Result<Self> {
        let wanted = wanted::wanted(client, &batch.ranges, filter).await;
        let readers = readers(client, &batch.ranges, wanted, u64::MAX, &ReadProgress::default());
        for reader in &readers {
            check_loss(settings.fail_on_data_loss, reader)?;
        }
        Ok(Self {
            fetcher: Fetcher::start(client, readers.iter().map(RangeReader::target).collect()),
            tools: Tools::new(client, 1),
            client: client.clone(),
            batch,
            readers,
            fail_on_data_loss: settings.fail_on_data_loss,
            include_headers: settings.include_headers,
            failed: None,
            needed: 0,
            piece: None,
        })
    }

    /// The next record batch of any range that may hold something the filter keeps; a range's batches come in order. `None` when all
    /// ranges are read. The batch before counts as processed from now on, **whether its records were looked at or not**. Cancel safe.
    ///
    /// # Errors
    /// Whatever keeps a batch from being read, again and again; [`ReadErrorKind::BudgetHeld`] when so many batches are kept that nothing more can
    /// be fetched or inflated: drop some, wait for it with [`room`](Self::room) if others have them, and go on.
    pub async fn next(&mut self) -> Result<Option<ReadBatch<'_>>> {
        Ok(if self.advance().await? { self.at_hand() } else { None })
    }

    /// Waits until what the last [`BudgetHeld`](ReadErrorKind::BudgetHeld) was about fits, or nothing is kept any more.
    pub async fn room(&self) {
        self.client.room_for(self.needed).await;
    }

    /// Goes to the next batch. False when there is none.
    pub(crate) async fn advance(&mut self) -> Result<bool> {
        let advanced = self.try_advance().await;
        match &advanced {
            Err(Error::DataLoss(loss)) => self.failed = Some(loss.clone()),
            Err(Error::Read(read)) => {
                if let ReadErrorKind::BudgetHeld(held) = &read.source {
                    self.needed = held.needed;
                }
            }
            _ => {}
        }
        advanced
    }

    async fn try_advance(&mut self) -> Result<bool> {
        self.leave();
        if let Some(loss) = &self.failed {
            return Err(loss.clone().into());
        }
        while !self.find().await? {
            self.piece = None;
            self.tools.shrink();
            if !self.next_piece().await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The batch that was handed out is done.
    fn leave(&mut self) {
        let Self { piece: Some(piece), readers, tools, fetcher, .. } = self else { return };
        if !std::mem::take(&mut piece.handed_out) {
            return;
        }
        let (Some(Ok(batch)), Some(reader)) = (piece.batch(), readers.get_mut(piece.fetch.target())) else { return };
        reader.done_with(batch.header());
        let bytes = batch.bytes().len();
        if reader.is_done() {
            fetcher.finish(piece.fetch.target());
        }
        piece.at += bytes;
        tools.shrink();
    }

    /// Goes to the next batch of the piece that is wanted, and inflates it.
    async fn find(&mut self) -> Result<bool> {
        let Self { client, piece: Some(piece), readers, tools, .. } = self else { return Ok(false) };
        let Some(reader) = readers.get_mut(piece.fetch.target()) else { return Ok(false) };
        while !reader.is_done() {
            let Some(batch) = piece.batch() else { break };
            let batch = batch.map_err(|error| read_error(reader, error.into()))?;
            client.check_kept().map_err(|held| read_error(reader, held.into()))?;
            let found = match reader.wants(&batch, tools) {
                Ok(true) => batch.section(&mut tools.decompressor).map(|_| true).map_err(ReadErrorKind::from),
                other => other,
            };
            match found {
                Ok(true) => {
                    piece.handed_out = true;
                    return Ok(true);
                }
                Ok(false) => {
                    reader.done_with(batch.header());
                    let bytes = batch.bytes().len();
                    piece.at += bytes;
                }
                Err(ReadErrorKind::Batch(error)) if tools.may_grow(&error) => {
                    tools.grow(&batch).await.map_err(|held| read_error(reader, held.into()))?;
                }
                Err(error) => return Err(read_error(reader, error).into()),
            }
        }
        if reader.is_done() {
            self.fetcher.finish(piece.fetch.target());
        }
        Ok(false)
    }

    async fn next_piece(&mut self) -> Result<bool> {
        loop {
            let Some(next) = self.fetcher.next().await else { return Ok(false) };
            let target = next.as_ref().map_or_else(|error| error.target, CompletedFetch::target);
            let Some(reader) = self.readers.get_mut(target) else { continue };
            match next {
                Ok(fetch) => {
                    reader.note_loss(&fetch);
                    check_loss(self.fail_on_data_loss, reader)?;
                    reader.begin(fetch.aborted_transactions(), &mut self.tools);
                    self.piece = Some(Piece { fetch, at: 0, handed_out: false });
                    return Ok(true);
                }
                Err(error) => fetch_failed(reader, error, &self.fetcher, self.fail_on_data_loss)?,
            }
        }
    }

    /// The batch that [`advance`](Self::advance) found.
    pub(crate) fn at_hand(&mut self) -> Option<ReadBatch<'_>> {
        let Self { client, piece: Some(piece), readers, tools, include_headers, .. } = self else { return None };
        let reader = readers.get_mut(piece.fetch.target())?;
        let batch = piece.batch()?.ok()?;
        Some(ReadBatch { client, reader, batch, tools, include_headers: *include_headers })
    }

    /// Whether nothing more comes of some range.
    pub(crate) fn has_ended_range(&self) -> bool {
        self.readers.iter().any(RangeReader::is_done)
    }

    /// What was read since the last call. Positions go on.
    pub(crate) fn take_outcome(&mut self) -> ReadOutcome {
        self.leave();
        let mut outcome = ReadOutcome::new(self.readers.len());
        for reader in &mut self.readers {
            outcome.lost.append(&mut reader.lost);
            outcome.ranges.push(RangeOutcome {
                range: reader.range.clone(),
                position: reader.position,
                leader_epoch: reader.leader_epoch,
                counts: std::mem::take(&mut reader.counts),
                reached: true,
            });
        }
        outcome
    }

    /// What was read so far.
    pub(crate) fn outcome(mut self) -> ReadOutcome {
        self.leave();
        let mut outcome = ReadOutcome::new(self.readers.len());
        for (reader, planned) in self.readers.into_iter().zip(&self.batch.ranges) {
            outcome.add(reader, planned);
        }
        outcome
    }

    /// The processed batch, which can be committed. Call it when all that [`next`](Self::next) gave was processed.
    ///
    /// # Errors
    /// [`Error::Unfinished`] when a range was not read to its end; the loss that has stopped the read.
    pub fn finish(mut self) -> Result<ProcessedBatch> {
        self.leave();
        if let Some(loss) = self.failed {
            return Err(loss.into());
        }
        if let Some(reader) = self.readers.iter().find(|reader| !reader.is_done()) {
            return Err(Error::Unfinished { range: Some(reader.range.clone()) });
        }
        let batch = self.batch.clone();
        Ok(batch.processed(self.outcome()))
    }
}

/// A record batch: views into the fetched bytes, or into the scratch it was inflated into.
#[derive(Debug)]
pub struct ReadBatch<'a> {
    client: &'a Client,
    reader: &'a mut RangeReader,
    batch: RecordBatch<'a>,
    tools: &'a mut Tools,
    include_headers: bool,
}

impl ReadBatch<'_> {
    /// The range it belongs to.
    pub fn range(&self) -> &OffsetRange {
        &self.reader.range
    }

    /// Its header.
    pub fn header(&self) -> &BatchHeader {
        self.batch.header()
    }

    /// `includeHeaders` of its source.
    pub(crate) fn include_headers(&self) -> bool {
        self.include_headers
    }

    /// Shows `see` every record of the range that the filter keeps, in order. Once: a second time counts them again.
    ///
    /// # Errors
    /// The records are damaged. What came before was shown.
    pub fn for_each(&mut self, mut see: impl FnMut(&Record<'_>)) -> Result<()> {
        // A plain one is returned as it lies there; a compressed one was inflated when it was found.
        let section = match self.batch.header().compression() {
            Ok(Compression::None) => self.batch.section(&mut self.tools.decompressor),
            _ => Ok(self.tools.decompressor.inflated()),
        };
        let section = section.map_err(|error| read_error(self.reader, error.into()))?;
        let result = self.reader.read_section(&self.batch, section, &mut see);
        result.map_err(|error| read_error(self.reader, error).into())
    }

    /// Keeps the batch: it takes the scratch it was inflated into, or a copy of its bytes if it was not compressed, so that it holds on to
    /// nothing else. Its bytes count in `ottla.memory.bytes` until it is dropped. It is kept whole, whatever the filter keeps of it. Its records
    /// count as looked at; after [`for_each`](Self::for_each), a second time.
    ///
    /// # Errors
    /// The records are damaged.
    pub fn keep(mut self) -> Result<KeptBatch> {
        let offsets = self.reader.position..self.reader.until;
        self.for_each(|_| ())?;
        let section = match self.batch.header().compression() {
            Ok(Compression::None) => {
                let section = self.batch.section(&mut self.tools.decompressor);
                section.map_err(|error| read_error(self.reader, error.into()))?.to_vec()
            }
            _ => self.tools.decompressor.take_inflated(),
        };
        Ok(KeptBatch {
            range: self.reader.range.clone(),
            header: *self.batch.header(),
            offsets,
            filter: self.reader.filter.clone(),
            _held: self.client.keep_bytes(section.capacity()),
            section,
        })
    }
}

/// A record batch of one's own: `Send + 'static`, and counted in the byte budget until it is dropped.
#[derive(Debug)]
pub struct KeptBatch {
    range: OffsetRange,
    header: BatchHeader,
    /// Those of its range that were still to be read.
    offsets: Range<i64>,
    filter: BoundFilter,
    section: Vec<u8>,
    _held: Reservation,
}

impl KeptBatch {
    /// The range it belongs to.
    pub fn range(&self) -> &OffsetRange {
        &self.range
    }

    /// Its header.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// How many bytes of memory it holds: of a compressed one the whole scratch, which may be up to twice its size.
    pub fn bytes(&self) -> usize {
        self.section.capacity()
    }

    /// The records of the range that the filter keeps, in order.
    ///
    /// # Errors
    /// A record that the filter's search passed over when the batch was kept is damaged. Ends after it.
    pub fn records(&self) -> impl Iterator<Item = Result<Record<'_>, BatchError>> {
        let failed = |source| {
            let last_offset = Some(self.header.last_offset());
            BatchError { position: 0, base_offset: self.header.base_offset, last_offset, source }
        };
        let (records, error) = match self.header.records(&self.section) {
            Ok(records) => (Some(records), None),
            Err(error) => (None, Some(Err(failed(error)))),
        };
        let wanted = |record: &Record<'_>| self.offsets.contains(&record.offset) && self.filter.keep(record);
        let records = records.into_iter().flatten().map(move |record| record.map_err(failed));
        error.into_iter().chain(records.filter(move |record| record.as_ref().map_or(true, wanted)))
    }
}

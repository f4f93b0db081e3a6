//! Batches of a file, which is read a piece at a time: in memory is one batch, as far as it is there, or a piece.
//!
//! A batch whose checksum doesn't hold, or whose records can't be read, is reported and stepped over: the next one is where its length
//! says. Only a header that can't be right ends the file.

use super::{LENGTH_BYTES_MAX, Output, PIECE_BYTES, row};
use crate::failure::Failure;
use ottla_protocol::{
    DecodeError,
    compression::Decompressor,
    record::{ControlRecord, RecordBatch, RecordBatches},
};
use ottla_stream::JsonRow;
use std::{
    fmt::Display,
    io::{self, Read},
    path::Path,
};

/// Where the records of a v2 batch begin.
const RECORDS_V2: usize = 61;

pub(super) fn dump(source: impl Read, path: &Path, headers_only: bool, output: &mut Output) -> Result<(), Failure> {
    let mut printer =
        Printer { file: path.display().to_string(), headers_only, decompressor: Decompressor::new(), output };
    let mut window = Window { source, buffer: Vec::new(), position: 0 };
    loop {
        let mut batches = RecordBatches::starting_at(&window.buffer, window.position);
        let mut broken = None;
        for batch in batches.by_ref() {
            match batch {
                Ok(batch) => printer.batch(&batch)?,
                Err(error) => broken = Some(error),
            }
        }
        let (next, missing) = (RecordBatches::position(&batches), batches.bytes_missing());
        window.step_to(next);
        if missing > LENGTH_BYTES_MAX {
            return printer.too_long(next, missing);
        }
        if let Some(error) = broken {
            // A preallocated segment ends in zeros.
            return match window.count_zeros() {
                Ok(Some(zeros)) => printer.zeros(next, zeros),
                Ok(None) => printer.damage(&error, &error.source),
                Err(error) => printer.unreadable(next, &error),
            };
        }
        match window.read_on(missing) {
            Ok(0) => return printer.end(next, &window.buffer, missing),
            Ok(_) => {}
            Err(error) => return printer.unreadable(next, &error),
        }
    }
}

/// What is in memory of a file.
struct Window<R> {
    source: R,
    buffer: Vec<u8>,
    /// Where in the file the buffer begins.
    position: usize,
}

impl<R: Read> Window<R> {
    fn step_to(&mut self, position: usize) {
        self.buffer.drain(..position.saturating_sub(self.position).min(self.buffer.len()));
        self.position = position;
    }

    /// Reads a piece, or a whole batch if that is larger: its length is a claim, and the buffer grows as bytes come.
    fn read_on(&mut self, missing: usize) -> io::Result<usize> {
        let wanted = missing.max(PIECE_BYTES) as u64;
        self.source.by_ref().take(wanted).read_to_end(&mut self.buffer)
    }

    /// How many bytes are left, if all of them are zero.
    fn count_zeros(&mut self) -> io::Result<Option<u64>> {
        let mut count = 0;
        loop {
            if self.buffer.iter().any(|byte| *byte != 0) {
                return Ok(None);
            }
            count += self.buffer.len() as u64;
            self.buffer.clear();
            if self.read_on(0)? == 0 {
                return Ok(Some(count));
            }
        }
    }
}

/// Prints the batches of one file.
struct Printer<'o> {
    file: String,
    headers_only: bool,
    decompressor: Decompressor,
    output: &'o mut Output,
}

impl Printer<'_> {
    fn batch(&mut self, batch: &RecordBatch<'_>) -> Result<(), Failure> {
        let header = batch.header();
        let checked = batch.check_crc();
        let inner = if header.records_count < 0 && header.magic < 2 { self.inner(batch) } else { None };
        let columns = row::batch_columns(&self.file, batch, checked.is_ok(), inner);
        if self.headers_only {
            self.output.line(|out| row::batch_line(out, columns, header))?;
        } else {
            self.records(batch, &JsonRow::with_columns(&columns))?;
        }
        match checked {
            Ok(()) => Ok(()),
            Err(error) => self.damage(&error, &error.source),
        }
    }

    fn records(&mut self, batch: &RecordBatch<'_>, rows: &JsonRow) -> Result<(), Failure> {
        let failed = match batch.section(&mut self.decompressor) {
            Ok(section) => print_records(batch, section, rows, self.output)?,
            Err(error) => Some(error.source.to_string()),
        };
        match failed {
            Some(what) => self.damage(&place(batch), &what),
            None => Ok(()),
        }
    }

    /// The first offset in a compressed message of magic 0 or 1 and how many messages there are; `None` if they can't be read.
    fn inner(&mut self, batch: &RecordBatch<'_>) -> Option<(i64, usize)> {
        let records = batch.records(&mut self.decompressor).ok()?;
        let (mut first, mut count) = (None, 0);
        for record in records {
            first = first.or(Some(record.ok()?.offset));
            count += 1;
        }
        Some((first?, count))
    }

    fn damage(&mut self, place: &dyn Display, what: &dyn Display) -> Result<(), Failure> {
        self.output.fail("DAMAGED_FILE", format!("{}: {place}: {what}", self.file))
    }

    /// No broker writes such a batch: it is the length that is damaged.
    fn too_long(&mut self, position: usize, missing: usize) -> Result<(), Failure> {
        let file = &self.file;
        let message = format!(
            "{file}: byte {}: the batch's length asks for {missing} bytes more, which no batch has",
            position + 8
        );
        self.output.fail("DAMAGED_FILE", message)
    }

    fn unreadable(&mut self, position: usize, error: &io::Error) -> Result<(), Failure> {
        self.output.fail("FILE_NOT_READ", format!("{}: reading on from byte {position}: {error}", self.file))
    }

    /// The file ends with `rest`, which is no whole batch.
    fn end(&mut self, position: usize, rest: &[u8], missing: usize) -> Result<(), Failure> {
        if rest.is_empty() {
            return Ok(());
        }
        if rest.iter().all(|byte| *byte == 0) {
            return self.zeros(position, rest.len() as u64);
        }
        let there = rest.len();
        self.output.warn(format!(
            "{}: the last batch, at byte {position}, is cut: {there} bytes are there, {missing} more are needed at least",
            self.file
        ))
    }

    fn zeros(&mut self, position: usize, zeros: u64) -> Result<(), Failure> {
        self.output.warn(format!("{}: {zeros} bytes from byte {position} to the end are zero: no batches", self.file))
    }
}

/// Prints the records of `section`, up to the first that can't be read, and says what was wrong.
fn print_records(
    batch: &RecordBatch<'_>,
    section: &[u8],
    rows: &JsonRow,
    output: &mut Output,
) -> Result<Option<String>, Failure> {
    let header = batch.header();
    let records = match header.records(section) {
        Ok(records) => records,
        Err(error) => return Ok(Some(in_section(batch, &error))),
    };
    let mut failed = None;
    for record in records {
        let record = match record {
            Ok(record) => record,
            Err(error) => return Ok(Some(in_section(batch, &error))),
        };
        let control = match header.is_control().then(|| ControlRecord::parse(&record)).transpose() {
            Ok(control) => control,
            Err(error) => {
                failed.get_or_insert(format!("record at offset {}: {error}", record.offset));
                None
            }
        };
        output.line(|out| rows.write_with(out, &record, |out| row::record_columns(out, header, &record, control)))?;
    }
    Ok(failed)
}

fn place(batch: &RecordBatch<'_>) -> String {
    let header = batch.header();
    format!("record batch at byte {}, offsets {} to {}", batch.position(), header.base_offset, header.last_offset())
}

/// An error in the records with its place in the file; where the records are compressed, in what they inflate to.
fn in_section(batch: &RecordBatch<'_>, error: &DecodeError) -> String {
    let header = batch.header();
    let DecodeError { field, position, kind } = error;
    if header.attributes & 7 != 0 {
        return format!("{field} at byte {position} of the inflated records: {kind}");
    }
    let start = batch.position() + if header.magic == 2 { RECORDS_V2 } else { 0 };
    format!("{field} at byte {}: {kind}", start + position)
}

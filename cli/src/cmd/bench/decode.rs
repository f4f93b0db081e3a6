//! `ottla bench decode`: checksums, inflating and visiting records, without a broker and a socket.

use super::report;
use crate::{
    args::{BenchDecodeArgs, Common},
    cmd::parse_filter,
    failure::Failure,
    table::{counted, grouped},
    tell::warn,
    totals::Totals,
    usage::Usage,
};
use ottla_protocol::{
    compression::Decompressor,
    record::{BatchError, RecordBatches},
};
use ottla_stream::{BoundFilter, Filter, RangeCounts};
use serde_json::{Map, Value};
use std::{fs, path::Path, time::Instant};

pub(super) fn run(common: &Common, args: &BenchDecodeArgs) -> Result<(), Failure> {
    let filter = parse_filter(args.filter.as_deref())?;
    let mut logs = Vec::with_capacity(args.files.len());
    for path in &args.files {
        logs.push(Log::read(path, &filter, common.json)?);
    }
    let mut decompressor = Decompressor::new();
    let mut decode = || {
        let mut seen = Seen::default();
        for log in &logs {
            let decoded = seen.decode(log, &mut decompressor);
            decoded.map_err(|error| log.damage(&error))?;
        }
        Ok::<Seen, Failure>(seen)
    };
    decode()?;
    let (start, before) = (Instant::now(), Usage::now());
    let seen = decode()?;
    let totals = Totals::since(start, before, seen.counts);
    let file_bytes: usize = logs.iter().map(|log| log.bytes.len()).sum();
    let more = [("batches", seen.batches), ("fileBytes", file_bytes as u64), ("inflatedBytes", seen.inflated_bytes)];
    let more = Map::from_iter(more.map(|(name, number)| (name.to_owned(), Value::from(number))));
    let place = format!(
        "{} of {}, {} bytes that inflate to {}",
        counted(seen.batches, "batch"),
        counted(logs.len() as u64, "file"),
        grouped(file_bytes as u64),
        grouped(seen.inflated_bytes)
    );
    report(common.json, &totals, &place, more)
}

/// A file's whole batches, in memory.
struct Log {
    name: String,
    bytes: Vec<u8>,
    filter: BoundFilter,
}

impl Log {
    fn read(path: &Path, filter: &Filter, json: bool) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let unreadable = |error| Failure::failed("FILE_NOT_READ", format!("{name}: {error}"));
        let bytes = fs::read(path).map_err(unreadable)?;
        let folder = fs::canonicalize(path).map_err(unreadable)?;
        let (topic, partition) = partition_of(&folder).unwrap_or(("", 0));
        let filter = filter.bind(topic, partition);
        let mut log = Self { name, bytes, filter };
        let end = log.whole_batches()?;
        if end < log.bytes.len() {
            let rest = log.bytes.len() - end;
            warn(json, format_args!("{}: {rest} bytes from byte {end} on are no whole batch, and left out", log.name));
            log.bytes.truncate(end);
        }
        Ok(log)
    }

    /// Where the whole batches end. A last one that is cut off, and zeros, as in the segment that a broker is writing, are no damage.
    fn whole_batches(&self) -> Result<usize, Failure> {
        let mut batches = RecordBatches::new(&self.bytes);
        let broken = batches.by_ref().find_map(Result::err);
        let end = RecordBatches::position(&batches);
        let zeros = self.bytes.get(end..).unwrap_or_default().iter().all(|byte| *byte == 0);
        match broken {
            Some(error) if !zeros => Err(self.damage(&error)),
            _ => Ok(end),
        }
    }

    fn damage(&self, error: &BatchError) -> Failure {
        Failure::failed("DAMAGED_FILE", format!("{}: {}", self.name, ottla_client::report(error)))
    }
}

/// The partition whose folder, `TOPIC-PARTITION`, a file lies in.
fn partition_of(file: &Path) -> Option<(&str, i32)> {
    let (topic, partition) = file.parent()?.file_name()?.to_str()?.rsplit_once('-')?;
    Some((topic, partition.parse().ok()?))
}

/// What decoding has seen so far.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    batches: u64,
    inflated_bytes: u64,
    counts: RangeCounts,
}

impl Seen {
    fn decode(&mut self, log: &Log, decompressor: &mut Decompressor) -> Result<(), BatchError> {
        let mut counts = self.counts;
        for batch in RecordBatches::new(&log.bytes) {
            let batch = batch?;
            batch.check_crc()?;
            let header = batch.header();
            let section = batch.section(decompressor)?;
            self.batches += 1;
            self.inflated_bytes += section.len() as u64;
            if header.is_control() {
                continue;
            }
            for record in header.records(section).map_err(|error| batch.error(error))? {
                let record = record.map_err(|error| batch.error(error))?;
                counts.records += 1;
                counts.value_bytes += record.value.map_or(0, |value| value.len() as u64);
                counts.hits += u64::from(log.filter.keep(&record));
            }
        }
        self.counts = counts;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_names_the_partition() {
        let of = |path: &str| partition_of(Path::new(path)).map(|(topic, partition)| (topic.to_owned(), partition));
        assert_eq!(of("/data/web-logs-12/0.log"), Some(("web-logs".to_owned(), 12)));
        assert_eq!(of("/data/logs/0.log"), None);
        assert_eq!(of("/data/logs-old/0.log"), None);
        assert_eq!(of("0.log"), None);
    }
}

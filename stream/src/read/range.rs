//! The hot loop: one fetched piece of one range, batch by batch and record by record.
//!
//! Nothing here waits, allocates, locks or logs for a record. A batch's header decides first: control batches and aborted transactions are
//! never delivered, and the position moves by the header's next offset, since compaction, markers and aborted records leave gaps.

use super::{
    prefilter::{Hits, Prefilter},
    tools::Tools,
};
use crate::{BoundFilter, LossKind, LostRange, OffsetRange, ReadErrorKind};
use ottla_client::{CompletedFetch, FetchTarget, IsolationLevel, TopicPartition};
use ottla_protocol::{
    Uuid,
    message::AbortedTransaction,
    record::{BatchHeader, Record, RecordBatch, RecordBatches, Records, Visibility},
};

/// What was seen of a range so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RangeCounts {
    /// Records looked at. Batches that are skipped before they are inflated, and offsets that are never fetched, since the filter can't keep
    /// anything there, are not counted.
    pub records: u64,
    /// Bytes of their values.
    pub value_bytes: u64,
    /// Records the filter kept.
    pub hits: u64,
}

impl std::ops::AddAssign for RangeCounts {
    fn add_assign(&mut self, other: Self) {
        self.records += other.records;
        self.value_bytes += other.value_bytes;
        self.hits += other.hits;
    }
}

impl RangeCounts {
    #[inline(always)]
    fn add(&mut self, record: &Record<'_>) {
        self.records += 1;
        self.value_bytes += record.value.map_or(0, |value| value.len() as u64);
    }
}

/// More than one record in so many kept is much.
const KEEPS_MUCH: u64 = 4;

/// What became of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// It is done, with so many bytes, inflated.
    Done {
        /// How many.
        bytes: usize,
    },
    /// Nothing of it was read: it inflates to more than there is [room](Tools::grow) for.
    NoRoom,
}

/// A range that is being read.
#[derive(Debug)]
pub(super) struct RangeReader {
    pub(super) range: OffsetRange,
    pub(super) topic_id: Option<Uuid>,
    /// How far data was there when the range was planned, exclusive.
    pub(super) known_end: i64,
    /// Where the part of the range that the filter may keep something of ends, exclusive. Nothing is read from there on.
    pub(super) until: i64,
    /// The next offset to read; everything before it in the range is done.
    pub(super) position: i64,
    /// The leader epoch of the last batch read, if it had one.
    pub(super) leader_epoch: Option<i32>,
    pub(super) counts: RangeCounts,
    pub(super) filter: BoundFilter,
    pub(super) prefilter: Option<Prefilter>,
    /// Whether the filter kept so much of the last batch that a search before it would be in vain.
    pub(super) keeps_much: bool,
    /// Batches whose latest record is earlier hold nothing that the filter keeps; milliseconds since the epoch.
    pub(super) timestamp_min: Option<i64>,
    /// After so many hits the range ends.
    pub(super) hits_max: u64,
    pub(super) lost: Vec<LostRange>,
    pub(super) isolation: IsolationLevel,
    pub(super) check_crcs: bool,
}

impl RangeReader {
    pub(super) fn partition(&self) -> TopicPartition {
        TopicPartition::new(self.range.topic.clone(), self.range.partition)
    }

    /// What is still to be fetched.
    pub(super) fn target(&self) -> FetchTarget {
        FetchTarget {
            partition: self.partition(),
            topic_id: self.topic_id,
            from_offset: self.position,
            until_offset: self.until,
            known_end: self.known_end,
        }
    }

    /// How many offsets are still to be read.
    pub(super) fn left(&self) -> i64 {
        if self.is_done() { 0 } else { self.until - self.position }
    }

    /// Whether the range is done.
    pub(super) fn is_done(&self) -> bool {
        self.position >= self.until || self.counts.hits >= self.hits_max
    }

    /// The next offset after what was looked at; the end of the range when all that matters of it was.
    pub(super) fn end_position(&self) -> i64 {
        if self.position >= self.until { self.range.until_offset } else { self.position }
    }

    /// Begins a piece, whose batches may belong to these aborted transactions.
    pub(super) fn begin(&self, aborted: &[AbortedTransaction], tools: &mut Tools) {
        let aborted = if self.isolation == IsolationLevel::ReadCommitted { aborted } else { &[] };
        tools.aborted.reset(aborted.iter().map(|aborted| (aborted.producer_id, aborted.first_offset)));
    }

    /// Reads a batch and hands to `write` what the filter keeps.
    pub(super) fn read(
        &mut self,
        batch: &RecordBatch<'_>,
        tools: &mut Tools,
        write: &mut impl FnMut(&Record<'_>),
    ) -> Result<Step, ReadErrorKind> {
        let bytes = match self.wants(batch, tools) {
            Ok(false) => Ok(batch.bytes().len()),
            Ok(true) => match batch.section(&mut tools.decompressor) {
                Ok(section) => self.read_section(batch, section, write).map(|()| section.len()),
                Err(error) => Err(error.into()),
            },
            Err(error) => Err(error),
        };
        match bytes {
            Ok(bytes) => {
                self.done_with(batch.header());
                Ok(Step::Done { bytes })
            }
            Err(ReadErrorKind::Batch(error)) if tools.may_grow(&error) => Ok(Step::NoRoom),
            Err(error) => Err(error),
        }
    }

    /// Whether the batch may hold something that the filter keeps. Its checksum holds then, and its transaction, if it has one, was not
    /// aborted.
    pub(super) fn wants(&mut self, batch: &RecordBatch<'_>, tools: &mut Tools) -> Result<bool, ReadErrorKind> {
        if self.check_crcs {
            batch.check_crc()?;
        }
        // Every batch, before any reason to skip it: a marker ends its producer's aborted records.
        let visibility = tools.aborted.observe(batch, &mut tools.decompressor)?;
        let header = batch.header();
        Ok(visibility == Visibility::Deliver && header.next_offset() > self.position && !self.is_too_early(header))
    }

    /// The batch is done: the position moves by its header, unless the last hit that was wanted lies in it.
    pub(super) fn done_with(&mut self, header: &BatchHeader) {
        if self.counts.hits >= self.hits_max {
            return;
        }
        self.position = self.position.max(header.next_offset().min(self.until));
        if header.partition_leader_epoch >= 0 {
            self.leader_epoch = Some(header.partition_leader_epoch);
        }
    }

    /// Whether the whole batch lies before what the filter wants, so that it need not be inflated. (A batch tells its latest time, not its
    /// earliest.)
    fn is_too_early(&self, header: &BatchHeader) -> bool {
        header.magic == 2 && self.timestamp_min.is_some_and(|min| header.max_timestamp < min)
    }

    /// Walks a batch's record section, inflated, and hands to `write` what the filter keeps.
    pub(super) fn read_section(
        &mut self,
        batch: &RecordBatch<'_>,
        section: &[u8],
        write: &mut impl FnMut(&Record<'_>),
    ) -> Result<(), ReadErrorKind> {
        let header = batch.header();
        let records = header.records(section).map_err(|error| batch.error(error))?;
        // Out of the struct for the time of the loop, which changes the rest of it.
        let (prefilter, before) = (self.prefilter.take(), self.counts);
        let searches = header.magic == 2 && !self.keeps_much && Prefilter::pays_for(section, header.records_count);
        let result = match &prefilter {
            Some(prefilter) if searches => {
                let mut hits = prefilter.hits(section);
                if header.base_offset >= self.position && header.last_offset() < self.until {
                    self.read_hits(batch, records, write, &mut hits)
                } else {
                    self.read_records(batch, records, write, |end| hits.any_before(end))
                }
            }
            _ => self.read_records(batch, records, write, |_| true),
        };
        self.prefilter = prefilter;
        let (seen, kept) = (self.counts.records - before.records, self.counts.hits - before.hits);
        self.keeps_much = kept > seen / KEEPS_MUCH;
        result
    }

    /// The loop over the hits of a batch that lies wholly in the range: what no hit begins in is passed over.
    fn read_hits(
        &mut self,
        batch: &RecordBatch<'_>,
        mut records: Records<'_>,
        write: &mut impl FnMut(&Record<'_>),
        hits: &mut Hits<'_>,
    ) -> Result<(), ReadErrorKind> {
        let mut counts = self.counts;
        loop {
            let skimmed = records.skim_before(hits.next_at());
            counts.records += skimmed.records;
            counts.value_bytes += skimmed.value_bytes;
            // The one that the hit is in, the last of the batch, or one that is out of the ordinary.
            let Some(record) = records.next() else { break };
            let record = record.map_err(|error| batch.error(error))?;
            counts.add(&record);
            if hits.any_before(records.position()) && self.keep(&record, &mut counts, write) {
                break;
            }
        }
        self.counts = counts;
        Ok(())
    }

    /// The loop over records. `may_keep` says of the record that ends at a byte of the section whether the filter need look at it.
    #[inline(always)]
    fn read_records(
        &mut self,
        batch: &RecordBatch<'_>,
        mut records: Records<'_>,
        write: &mut impl FnMut(&Record<'_>),
        mut may_keep: impl FnMut(usize) -> bool,
    ) -> Result<(), ReadErrorKind> {
        let (from, until) = (self.position, self.until);
        let mut counts = self.counts;
        while let Some(record) = records.next() {
            let record = record.map_err(|error| batch.error(error))?;
            let may_keep = may_keep(records.position());
            if record.offset < from || record.offset >= until {
                continue;
            }
            counts.add(&record);
            if may_keep && self.keep(&record, &mut counts, write) {
                break;
            }
        }
        self.counts = counts;
        Ok(())
    }

    /// Writes the record if the filter keeps it. Says whether that was the last one wanted.
    #[inline(always)]
    fn keep(&mut self, record: &Record<'_>, counts: &mut RangeCounts, write: &mut impl FnMut(&Record<'_>)) -> bool {
        if !self.filter.keep(record) {
            return false;
        }
        counts.hits += 1;
        write(record);
        let last = counts.hits >= self.hits_max;
        if last {
            self.position = record.offset + 1;
        }
        last
    }

    /// A log start beyond the position means that what lies between is gone, unless it came all the same: the log may have been cut while
    /// the answer was written. Gaps above the log start are compaction or markers.
    pub(super) fn note_loss(&mut self, fetch: &CompletedFetch) {
        let first = RecordBatches::new(fetch.records()).next();
        let first_offset = first.and_then(Result::ok).map_or(i64::MAX, |batch| batch.header().base_offset);
        let log_start_offset = fetch.log_start_offset().min(first_offset);
        if log_start_offset > self.position {
            self.lose(LossKind::OutOfRange, log_start_offset, fetch.high_watermark());
        }
    }

    /// The log begins at `log_start_offset`: what the range has before it is gone.
    pub(super) fn begins_at(&mut self, log_start_offset: i64, log_end_offset: i64) {
        if self.position < log_start_offset {
            self.lose(LossKind::OutOfRange, log_start_offset, log_end_offset);
        }
    }

    /// The position lies outside the log. Before its start: what lies between is gone, and the range goes on at the start. Beyond its
    /// end, which was there when the range was planned: the rest is gone.
    pub(super) fn out_of_range(&mut self, log_start_offset: i64, log_end_offset: i64) {
        if self.position < log_start_offset {
            self.lose(LossKind::OutOfRange, log_start_offset, log_end_offset);
        } else {
            self.lose_rest(LossKind::OutOfRange, log_start_offset, log_end_offset);
        }
    }

    /// Nothing more of the range can be had. One without an end ends here: nobody knows how far it would have gone.
    pub(super) fn lose_rest(&mut self, kind: LossKind, log_start_offset: i64, log_end_offset: i64) {
        if self.range.is_endless() {
            self.note_lost(self.position, kind, log_start_offset, log_end_offset);
            (self.range.until_offset, self.until) = (self.position, self.position);
        } else {
            self.lost_until(self.range.until_offset, kind, log_start_offset, log_end_offset);
        }
    }

    /// The range up to `log_start_offset` is gone; it goes on there.
    fn lose(&mut self, kind: LossKind, log_start_offset: i64, log_end_offset: i64) {
        self.lost_until(log_start_offset.min(self.range.until_offset), kind, log_start_offset, log_end_offset);
    }

    fn lost_until(&mut self, until_offset: i64, kind: LossKind, log_start_offset: i64, log_end_offset: i64) {
        if until_offset > self.position {
            self.note_lost(until_offset, kind, log_start_offset, log_end_offset);
            self.position = until_offset;
        }
    }

    fn note_lost(&mut self, until_offset: i64, kind: LossKind, log_start_offset: i64, log_end_offset: i64) {
        let range = OffsetRange { from_offset: self.position, until_offset, ..self.range.clone() };
        let wanted_until_offset = self.range.until_offset;
        self.lost.push(LostRange { range, kind, wanted_until_offset, log_start_offset, log_end_offset });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Filter;
    use ottla_protocol::{
        compression::{Compression, Compressor},
        record::{ControlRecord, OwnedHeaders, RecordBatchBuilder, RecordBatchOptions, TimestampType},
    };
    use proptest::prelude::*;

    /// Offset, timestamp, key, value, header value.
    type Row = (i64, i64, Option<String>, Option<String>, Option<String>);

    fn reader(filter: &Filter, from_offset: i64, until_offset: i64, fast: bool) -> RangeReader {
        let filter = filter.bind("t", 0);
        RangeReader {
            range: OffsetRange { topic: "t".to_owned(), partition: 0, from_offset, until_offset },
            topic_id: None,
            known_end: until_offset,
            until: until_offset,
            position: from_offset,
            leader_epoch: None,
            counts: RangeCounts::default(),
            prefilter: Prefilter::new(&filter).filter(|_| fast),
            keeps_much: false,
            timestamp_min: filter.timestamp_lower_bound().filter(|_| fast),
            filter,
            hits_max: u64::MAX,
            lost: Vec::new(),
            isolation: IsolationLevel::ReadUncommitted,
            check_crcs: true,
        }
    }

    fn kept(reader: &mut RangeReader, batches: &[u8]) -> Vec<i64> {
        kept_of(reader, batches, &[])
    }

    fn kept_of(reader: &mut RangeReader, batches: &[u8], aborted: &[AbortedTransaction]) -> Vec<i64> {
        let mut tools = Tools::unbounded();
        let mut kept = Vec::new();
        reader.begin(aborted, &mut tools);
        let mut batches = RecordBatches::new(batches);
        while !reader.is_done()
            && let Some(batch) = batches.next()
        {
            let step = reader.read(&batch.unwrap(), &mut tools, &mut |record| kept.push(record.offset)).unwrap();
            assert!(matches!(step, Step::Done { .. }));
        }
        kept
    }

    fn batch(rows: &[Row], codec: Compression) -> Vec<u8> {
        batch_of(RecordBatchOptions::new(rows[0].0).compression(codec), rows)
    }

    fn batch_of(options: RecordBatchOptions, rows: &[Row]) -> Vec<u8> {
        let mut builder = RecordBatchBuilder::new(options);
        for (offset, timestamp, key, value, header) in rows {
            let mut headers = OwnedHeaders::default();
            if let Some(header) = header {
                headers.push(b"abc", Some(header.as_bytes()));
            }
            let record = Record {
                offset: *offset,
                timestamp: *timestamp,
                timestamp_type: TimestampType::CreateTime,
                key: key.as_ref().map(String::as_bytes),
                value: value.as_ref().map(String::as_bytes),
                headers: headers.as_headers(),
            };
            builder.append(&record).unwrap();
        }
        builder.build(&mut Compressor::new()).unwrap().to_vec()
    }

    fn text() -> impl Strategy<Value = Option<String>> {
        proptest::option::weighted(0.8, "[abc]{0,9}")
    }

    fn condition() -> impl Strategy<Value = String> {
        prop_oneof![
            "[abc]{3,4}".prop_map(|text| format!("value LIKE '%{text}%'")),
            "[abc]{3}".prop_map(|text| format!("value LIKE '{text}%'")),
            "[abc]{3,5}".prop_map(|text| format!("key = '{text}'")),
            ("[abc]{3}", "[abc]{4}").prop_map(|(a, b)| format!("value IN ('{a}', '{b}', 'abcabc')")),
            "[abc]{3}".prop_map(|text| format!("headers['abc'] = '{text}'")),
            "[abc]{3}".prop_map(|text| format!("value NOT LIKE '%{text}%'")),
            (0i64..60).prop_map(|time| format!("timestamp >= {time}")),
            (0i64..60).prop_map(|time| format!("timestamp < {time}")),
            (0i64..60).prop_map(|offset| format!("offset > {offset}")),
            Just("key IS NULL".to_owned()),
        ]
    }

    fn expression() -> impl Strategy<Value = String> {
        condition().prop_recursive(3, 8, 2, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} AND {b})")),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} OR {b})")),
                inner.prop_map(|a| format!("NOT ({a})")),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_fast_way_keeps_what_the_slow_way_keeps(
            rows in proptest::collection::vec((1i64..3, 0i64..60, text(), text(), text()), 1..40),
            sizes in proptest::collection::vec(1usize..9, 1..8),
            codec in prop_oneof![Just(Compression::None), Just(Compression::Lz4), Just(Compression::Gzip)],
            expression in expression(),
            (from, length) in (0i64..30, 0i64..60),
        ) {
            let mut offset = -1;
            let rows: Vec<Row> = rows.into_iter().map(|(step, time, key, value, header)| { offset += step; (offset, time, key, value, header) }).collect();
            let mut run = Vec::new();
            let (mut rest, mut sizes) = (rows.as_slice(), sizes.into_iter().cycle());
            while !rest.is_empty() {
                let (some, more) = rest.split_at(sizes.next().unwrap().min(rest.len()));
                run.extend(batch(some, codec));
                rest = more;
            }
            let filter: Filter = expression.parse().unwrap();
            let (mut fast, mut slow) = (reader(&filter, from, from + length, true), reader(&filter, from, from + length, false));
            prop_assert_eq!(kept(&mut fast, &run), kept(&mut slow, &run), "{}", expression);
            prop_assert_eq!(fast.position, slow.position);
            prop_assert_eq!(fast.counts.hits, slow.counts.hits);
            if filter.bind("t", 0).timestamp_lower_bound().is_none() {
                prop_assert_eq!(fast.counts, slow.counts);
            }
        }
    }

    /// A row at `offset` with a value.
    fn row(offset: i64, timestamp: i64) -> Row {
        (offset, timestamp, None, Some("abcabc".to_owned()), None)
    }

    /// An aborted transaction of two records that can't be inflated, its marker, and a committed one of the same producer.
    fn transactions() -> (Vec<u8>, AbortedTransaction) {
        let options = |offset| RecordBatchOptions::new(offset).producer(7, 0, 0).transactional();
        let mut run = batch_of(options(0).compression(Compression::Gzip), &[row(0, 5), row(1, 5)]);
        let damaged = run.len() - 3;
        run[damaged] ^= 1;
        let marker = |offset, marker| {
            let options = RecordBatchOptions::new(offset).producer(7, 0, -1);
            RecordBatchBuilder::transaction_marker(options, marker, 5).unwrap()
        };
        run.extend(marker(2, ControlRecord::Abort { coordinator_epoch: Some(0) }));
        run.extend(batch_of(options(3), &[row(3, 10)]));
        run.extend(marker(4, ControlRecord::Commit { coordinator_epoch: Some(0) }));
        (run, AbortedTransaction { producer_id: 7, first_offset: 0, ..Default::default() })
    }

    #[test]
    fn aborted_batches_are_not_inflated_and_markers_count_before_any_skip() {
        let (run, aborted) = transactions();
        // The abort marker's batch is older than the filter wants: it ends its transaction all the same.
        for (filter, fast) in [("offset >= 0", false), ("timestamp >= 6", true), ("value LIKE '%abc%'", true)] {
            let mut reader = reader(&filter.parse().unwrap(), 0, 5, fast);
            (reader.isolation, reader.check_crcs) = (IsolationLevel::ReadCommitted, false);
            let kept = kept_of(&mut reader, &run, std::slice::from_ref(&aborted));
            assert_eq!((kept, reader.position, reader.counts.records), (vec![3], 5, 1), "{filter}");
        }
    }

    #[test]
    fn the_checksum_of_a_skipped_batch_holds_before_the_position_moves() {
        let (run, aborted) = transactions();
        for (isolation, filter) in
            [(IsolationLevel::ReadCommitted, "offset >= 0"), (IsolationLevel::ReadUncommitted, "timestamp >= 6")]
        {
            let mut reader = reader(&filter.parse().unwrap(), 0, 5, true);
            reader.isolation = isolation;
            let mut tools = Tools::unbounded();
            reader.begin(std::slice::from_ref(&aborted), &mut tools);
            let batch = RecordBatches::new(&run).next().unwrap().unwrap();
            let error = reader.read(&batch, &mut tools, &mut |_| ()).unwrap_err();
            assert!(ottla_client::report(&error).contains("batch.crc"), "{error}");
            assert_eq!(reader.position, 0);
        }
    }

    #[test]
    fn pieces_of_one_partition_clip_the_batch_at_their_seam() {
        let rows: Vec<Row> = (0..20).map(|offset| row(offset, 0)).collect();
        let run = [batch(&rows[..13], Compression::Lz4), batch(&rows[13..], Compression::None)].concat();
        for (filter, fast) in [("offset >= 0", false), ("value LIKE '%abc%'", true)] {
            for seam in 0..=20 {
                let filter = filter.parse().unwrap();
                let (mut left, mut right) = (reader(&filter, 0, seam, fast), reader(&filter, seam, 20, fast));
                let mut both = kept(&mut left, &run);
                both.extend(kept(&mut right, &run));
                assert_eq!(both, (0..20).collect::<Vec<_>>(), "each record once");
                assert_eq!(left.counts.records + right.counts.records, 20);
                assert_eq!((left.position, right.position), (seam, 20));
            }
        }
    }

    #[test]
    fn batches_before_a_time_are_not_inflated() {
        let rows = [(0, 5, None, Some("abc".to_owned()), None)];
        let mut run = batch(&rows, Compression::Gzip);
        let damaged = run.len() - 3;
        run[damaged] ^= 1;
        let filter: Filter = "timestamp >= 6".parse().unwrap();
        let mut reader = reader(&filter, 0, 1, true);
        reader.check_crcs = false;
        assert!(kept(&mut reader, &run).is_empty());
        assert_eq!((reader.position, reader.counts.records), (1, 0), "what can't be inflated was never looked at");
    }
}

//! Properties: what is built is read, the fast reader equals the slow one, and no bytes do harm.

use crate::common::{Area, entries};
use crate::consumer::{Fetch, consume};
use crate::handmade::fix_crc;
use crate::twin::{self, TwinRecord};
use kafka_protocol::records::RecordBatchDecoder;
use ottla_protocol::compression::{Compression, Compressor, Decompressor};
use ottla_protocol::record::{
    AbortedTransactions, OwnedHeaders, Record, RecordBatch, RecordBatchBuilder, RecordBatchOptions, RecordBatches,
    Records, TimestampType,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Vectors up to this size are changed at every byte.
const CHANGED_VECTOR_BYTES_MAX: usize = 64 << 10;
const INFLATED_BYTES_MAX: usize = 1 << 20;

/// Decoding runs on workers, and views may be handed from one to another.
#[test]
fn everything_moves_between_threads() {
    fn is_send<T: Send>() {}
    fn is_sync<T: Sync>() {}
    is_send::<Decompressor>();
    is_send::<Compressor>();
    is_send::<AbortedTransactions>();
    is_send::<RecordBatches<'_>>();
    is_send::<Records<'_>>();
    is_sync::<RecordBatch<'_>>();
    is_sync::<Record<'_>>();
}

#[derive(Debug, Clone)]
struct Batch {
    options: RecordBatchOptions,
    records: Vec<TwinRecord>,
}

fn batches() -> impl Strategy<Value = Batch> {
    batches_at(prop_oneof![1_699_999_000_000i64..1_700_001_000_000, any::<i64>()].boxed())
}

/// Batches whose records have these times.
fn batches_at(timestamp: BoxedStrategy<i64>) -> impl Strategy<Value = Batch> {
    let bytes = || option::of(vec(any::<u8>(), 0..300));
    let headers = prop_oneof![4 => Just(Vec::new()), 1 => vec((vec(any::<u8>(), 0..9), bytes()), 0..5)];
    // Offsets that are near, and some that are as far as they can be.
    let delta = prop_oneof![8 => 0i64..200, 1 => 0i64..1 << 31];
    let record = (delta, timestamp.clone(), bytes(), bytes(), headers);
    let codec = 0i16..5;
    let producer = option::of((0i64.., 0i16.., 0i32..));
    (
        0i64..1 << 62,
        codec,
        producer,
        any::<bool>(),
        option::of(timestamp.clone()),
        option::of(timestamp),
        vec(record, 0..20),
    )
        .prop_map(|(base_offset, codec, producer, transactional, append_time, delete_horizon, records)| {
            let compression = Compression::try_from(codec).expect("a codec");
            let mut options = RecordBatchOptions::new(base_offset).compression(compression).partition_leader_epoch(4);
            if let Some((id, epoch, sequence)) = producer {
                options = options.producer(id, epoch, sequence);
            }
            if transactional {
                options = options.transactional();
            }
            if let Some(time) = append_time {
                options = options.log_append_time_ms(time);
            }
            if let Some(horizon) = delete_horizon {
                options = options.delete_horizon_ms(horizon);
            }
            let records = records.into_iter().map(|(delta, timestamp, key, value, headers)| TwinRecord {
                offset: base_offset + delta,
                timestamp: append_time.unwrap_or(timestamp),
                key,
                value,
                headers,
            });
            Batch { options, records: records.collect() }
        })
}

fn build(batch: &Batch) -> Vec<u8> {
    let mut builder = RecordBatchBuilder::new(batch.options);
    for record in &batch.records {
        let mut headers = OwnedHeaders::default();
        for (key, value) in &record.headers {
            headers.push(key, value.as_deref());
        }
        let record = Record {
            offset: record.offset,
            timestamp: record.timestamp,
            timestamp_type: TimestampType::CreateTime,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: headers.as_headers(),
        };
        builder.append(&record).expect("within a batch's reach");
    }
    builder.build(&mut Compressor::new()).expect("a batch").to_vec()
}

/// Every record up to the first error, and whether there was one.
fn fast(batch: &RecordBatch<'_>, section: &[u8]) -> (Vec<TwinRecord>, bool) {
    let Ok(records) = batch.header().records(section) else { return (Vec::new(), true) };
    let mut read = Vec::new();
    for record in records {
        match record {
            Ok(record) => read.push(TwinRecord::of(&record)),
            Err(_) => return (read, true),
        }
    }
    (read, false)
}

/// The same by way of the records' ranges.
fn by_ranges(batch: &RecordBatch<'_>, section: &[u8]) -> (Vec<TwinRecord>, bool) {
    let Ok(Some(ranges)) = batch.header().record_ranges(section) else { return (Vec::new(), true) };
    let mut read = Vec::new();
    for range in ranges {
        match range.and_then(|range| batch.header().record_at(section, range)) {
            Ok(record) => read.push(TwinRecord::of(&record)),
            Err(_) => return (read, true),
        }
    }
    (read, false)
}

proptest! {
    #[test]
    fn what_is_built_is_read(batch in batches()) {
        let bytes = build(&batch);
        let mut batches = RecordBatches::new(&bytes);
        let read = batches.next().expect("a batch").expect("whole");
        prop_assert_eq!(batches.trailing_bytes(), 0);
        prop_assert_eq!(read.check_crc(), Ok(()));
        let mut decompressor = Decompressor::new();
        let section = read.section(&mut decompressor).expect("inflates");
        prop_assert_eq!(fast(&read, section), (batch.records.clone(), false));
        prop_assert_eq!(by_ranges(&read, section), (batch.records, false));
    }

    #[test]
    fn what_is_skimmed_is_what_would_have_been_read(batch in batches(), end in any::<prop::sample::Index>(), damage in any::<Option<(prop::sample::Index, u8)>>()) {
        let bytes = build(&batch);
        let read = RecordBatches::new(&bytes).next().expect("a batch").expect("whole");
        let mut decompressor = Decompressor::new();
        let mut section = read.section(&mut decompressor).expect("inflates").to_vec();
        let well_formed = damage.is_none();
        if let Some((at, byte)) = damage.filter(|_| !section.is_empty()) {
            let at = at.index(section.len());
            section[at] = byte;
        }
        let Ok(mut records) = read.header().records(&section) else { return Ok(()) };
        let end = end.index(section.len() + 1);
        let skimmed = records.skim_before(end);
        prop_assert!(records.position() <= end, "no record that ends after it");
        let rest: Vec<_> = records.map_while(Result::ok).map(|record| TwinRecord::of(&record)).collect();
        let passed = usize::try_from(skimmed.records).unwrap();
        // Damaged headers are passed over; whatever else is read is the same.
        let (all, failed) = fast(&read, &section);
        if well_formed || (!failed && passed <= all.len()) {
            let bytes: usize = all[..passed].iter().map(|record| record.value.as_ref().map_or(0, Vec::len)).sum();
            prop_assert_eq!(skimmed.value_bytes, bytes as u64);
            prop_assert_eq!(&rest, &all[passed..]);
        }
        if well_formed {
            let next = read.header().record_ranges(&section).unwrap().into_iter().flatten().nth(passed);
            let last = passed + 1 >= batch.records.len();
            let ordinary = batch.records.get(passed).is_some_and(|record| {
                let time = record.timestamp.wrapping_sub(read.header().base_timestamp).unsigned_abs();
                let offset = record.offset - read.header().base_offset;
                read.header().timestamp_type() == TimestampType::CreateTime && time < 1 << 19 && offset < 1 << 19
            });
            prop_assert!(last || !ordinary || next.unwrap().unwrap().end > end, "as far as it may");
        }
    }

    /// A reader that we didn't write. (Without headers: it merges repeated ones, and wants UTF-8. Without codecs: it has none here. Times
    /// don't wrap: it panics in a debug build where Java wraps.)
    #[test]
    fn what_is_built_is_read_by_the_kafka_protocol_crate(mut batch in batches_at((0i64..1 << 50).boxed())) {
        batch.options = batch.options.compression(Compression::None);
        batch.records.iter_mut().for_each(|record| record.headers.clear());
        let mut bytes = bytes::Bytes::from(build(&batch));
        let header = *RecordBatches::new(&bytes).next().expect("a batch").expect("whole").header();
        let theirs = RecordBatchDecoder::decode(&mut bytes).expect("a batch");
        prop_assert_eq!(theirs.version, 2);
        prop_assert_eq!(theirs.records.len(), batch.records.len());
        for (theirs, ours) in theirs.records.iter().zip(&batch.records) {
            prop_assert_eq!(theirs.offset, ours.offset);
            if header.timestamp_type() == TimestampType::CreateTime {
                prop_assert_eq!(theirs.timestamp, ours.timestamp);
            }
            prop_assert_eq!((theirs.key.as_deref(), theirs.value.as_deref()), (ours.key.as_deref(), ours.value.as_deref()));
            prop_assert_eq!((theirs.producer_id, theirs.producer_epoch), (header.producer_id, header.producer_epoch));
            prop_assert_eq!(theirs.transactional, header.is_transactional());
            prop_assert_eq!(theirs.delete_horizon, header.has_delete_horizon());
            prop_assert_eq!(theirs.partition_leader_epoch, header.partition_leader_epoch);
        }
    }

    /// What a caller keeps of a batch, its header and inflated section, gives the same records again.
    #[test]
    fn a_kept_section_is_read_again(batch in batches()) {
        let bytes = build(&batch);
        let read = RecordBatches::new(&bytes).next().expect("a batch").expect("whole");
        let mut decompressor = Decompressor::new();
        let section = read.section(&mut decompressor).expect("inflates").to_vec();
        let taken = decompressor.take_inflated();
        if read.header().compression() == Ok(Compression::None) {
            prop_assert!(taken.is_empty());
        } else {
            prop_assert_eq!(&taken, &section);
        }
        prop_assert_eq!(decompressor.scratch_bytes(), 0);
        prop_assert_eq!(fast(&read, &section), (batch.records, false));
    }

    #[test]
    fn the_fast_reader_is_the_slow_one(
        batch in batches(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        count_change in prop_oneof![4 => Just(0i32), 1 => -2i32..3],
        cut in prop_oneof![3 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)],
    ) {
        let mut bytes = build(&Batch { options: batch.options.compression(Compression::None), records: batch.records });
        if let Some(cut) = cut {
            bytes.truncate(61 + cut.index(bytes.len() - 60));
            let length = i32::try_from(bytes.len() - 12).expect("small");
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
        }
        let section_bytes = bytes.len() - 61;
        for (at, byte) in changes {
            if section_bytes > 0 {
                bytes[61 + at.index(section_bytes)] = byte;
            }
        }
        let count = i32::from_be_bytes(bytes[57..61].try_into().expect("four")) + count_change;
        bytes[57..61].copy_from_slice(&count.to_be_bytes());
        let read = RecordBatches::new(&bytes).next().expect("a batch").expect("whole");
        let slow = twin::read(read.header(), &bytes[61..]);
        prop_assert_eq!(&fast(&read, &bytes[61..]), &slow);
        // Ranges don't look into records: where a record is damaged inside, they have already passed it.
        prop_assert_eq!(by_ranges(&read, &bytes[61..]), slow);
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(
        codec in 0i16..5,
        magic in prop_oneof![Just(0i8), Just(1), Just(2)],
        payload in vec(any::<u8>(), 0..400),
        seed in any::<[u8; 61]>(),
    ) {
        let mut bytes = seed.to_vec();
        bytes.extend(&payload);
        let length = i32::try_from(bytes.len() - 12).expect("small");
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        bytes[16] = magic.cast_unsigned();
        let attributes = if magic == 2 { 22 } else { 17 };
        bytes[attributes] = bytes[attributes] & !7 | u8::try_from(codec).expect("small");
        let mut decompressor = Decompressor::with_limit(INFLATED_BYTES_MAX);
        for check_crcs in [true, false] {
            consume(&bytes, &Fetch { check_crcs, ..Fetch::from(0) }, &mut decompressor);
        }
        prop_assert!(decompressor.scratch_bytes() <= INFLATED_BYTES_MAX);
    }
}

/// Each cut of each vector: what is whole is read as before, and the rest is a cut batch or an error.
#[test]
fn every_prefix_of_a_vector_is_a_shorter_read() {
    let mut decompressor = Decompressor::new();
    for entry in entries(Area::Records).iter().filter(|entry| entry.kind == "records") {
        let run = entry.read_bin();
        let fetch = Fetch::from(0);
        let whole = consume(&run, &fetch, &mut decompressor);
        for length in 0..run.len() {
            let read = consume(&run[..length], &fetch, &mut decompressor);
            assert!(
                whole.delivered_offsets.starts_with(&read.delivered_offsets)
                    && read.next_fetch_offset <= whole.next_fetch_offset
                    && (read.error.is_none() || read.error == whole.error),
                "{} cut to {length}: {read:?}",
                entry.name
            );
        }
    }
}

/// As a file is read: a piece at a time, asking for what is missing.
#[test]
fn a_run_in_pieces_is_what_it_is_as_a_whole() {
    let (mut runs, mut broken) = (0, 0);
    for entry in entries(Area::Records) {
        let run = entry.read_bin();
        if run.len() > CHANGED_VECTOR_BYTES_MAX {
            continue;
        }
        let mut batches = RecordBatches::new(&run);
        let place = |batch: RecordBatch<'_>| (batch.position(), *batch.header());
        let whole: Vec<_> = batches.by_ref().map(|batch| batch.map(place)).collect();
        for piece in [1, 7, 61, 1000] {
            let (mut pieces, mut start, mut end) = (Vec::new(), 0, 0);
            loop {
                let mut batches = RecordBatches::starting_at(&run[start..end], start);
                pieces.extend(batches.by_ref().map(|batch| batch.map(place)));
                start = RecordBatches::position(&batches);
                let missing = batches.bytes_missing();
                let failed = matches!(pieces.last(), Some(Err(_)));
                assert_eq!(missing == 0, failed, "{entry}: after an error nothing is missing, else something is");
                if failed || end == run.len() {
                    break;
                }
                end = (end + missing.min(piece)).min(run.len());
            }
            assert_eq!(pieces, whole, "{entry} in pieces of {piece}");
            assert_eq!(start, RecordBatches::position(&batches), "{entry} in pieces of {piece}");
        }
        runs += 1;
        broken += usize::from(matches!(whole.last(), Some(Err(_))));
    }
    assert!(runs > 100 && broken > 5, "{runs} runs, {broken} of them broken");
}

/// Each cut of each compressed payload, with length and CRC put right: an error, or the records that are there; never more.
#[test]
fn every_prefix_of_a_payload_is_an_error_or_a_shorter_read() {
    let mut decompressor = Decompressor::with_limit(INFLATED_BYTES_MAX);
    for entry in entries(Area::Records).iter().filter(|entry| entry.kind == "records" && entry.bytes <= 4096) {
        let run = entry.read_bin();
        for batch in RecordBatches::new(&run).map_while(Result::ok).filter(|batch| batch.header().magic == 2) {
            let Ok(section) = batch.section(&mut decompressor) else { continue };
            let whole = fast(&batch, section).0;
            for length in 61..batch.bytes().len() {
                let mut cut = batch.bytes()[..length].to_vec();
                cut[8..12].copy_from_slice(&i32::try_from(length - 12).expect("small").to_be_bytes());
                fix_crc(&mut cut);
                let cut = RecordBatches::new(&cut).next().expect("a batch").expect("whole");
                let Ok(section) = cut.section(&mut decompressor) else { continue };
                let (read, failed) = fast(&cut, section);
                assert!(whole.starts_with(&read), "{} cut to {length}", entry.name);
                // What ends early without an error has lost only what no record needs.
                assert!(failed || read == whole, "{} cut to {length}: {} records", entry.name, read.len());
            }
        }
    }
}

/// A change of any byte: never a panic, a loop, or more memory than allowed; and behind byte 21 of a v2 batch never unnoticed.
#[test]
fn a_change_of_any_byte_is_harmless_and_noticed() {
    // xorshift: the same changes each time.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    let mut decompressor = Decompressor::with_limit(INFLATED_BYTES_MAX);
    let small = |bytes: usize| bytes <= CHANGED_VECTOR_BYTES_MAX;
    for entry in entries(Area::Records).iter().filter(|entry| small(entry.bytes)) {
        let mut run = entry.read_bin();
        let covered: Vec<_> = RecordBatches::new(&run)
            .map_while(Result::ok)
            .filter(|batch| batch.header().magic == 2 && batch.check_crc().is_ok())
            .map(|batch| batch.position() + 21..batch.position() + batch.bytes().len())
            .collect();
        for at in 0..run.len() {
            let before = run[at];
            run[at] ^= random().max(1);
            let checked = consume(&run, &Fetch::from(0), &mut decompressor);
            if covered.iter().any(|range| range.contains(&at)) {
                assert!(checked.error.is_some(), "{}: byte {at} changed unnoticed", entry.name);
            }
            consume(&run, &Fetch { check_crcs: false, ..Fetch::from(0) }, &mut decompressor);
            assert!(decompressor.scratch_bytes() <= INFLATED_BYTES_MAX, "{}", entry.name);
            run[at] = before;
        }
    }
}

//! What reading records allocates: nothing for each batch and record once buffers and contexts are there, and never more than the limit
//! whatever the bytes claim. Counted by a global allocator, hence a test binary of its own; the C zstd library's context (a few hundred
//! KiB, once) is not seen by it.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "what is wrong with a vector's description ends the test"
)]

mod common;

use allocation_counter::measure;
use common::{Area, Entry, entries, index, report};
use ottla_protocol::compression::{Compression, Compressor, Decompressor};
use ottla_protocol::record::{
    AbortedTransactions, BatchError, ControlRecord, Headers, OwnedHeaders, Record, RecordBatchBuilder,
    RecordBatchOptions, RecordBatches, TimestampType, Visibility,
};

const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

/// Batches of one codec: of an aborted transaction and its marker, of plain records, and of records with headers.
fn run(compression: Compression) -> Vec<u8> {
    let mut headers = OwnedHeaders::default();
    headers.push(b"trace", Some(b"0123456789"));
    headers.push(b"trace", None);
    let mut run = Vec::new();
    let mut offset = 0;
    for i in 0..40 {
        let mut options = RecordBatchOptions::new(offset).compression(compression);
        if i == 0 {
            options = options.producer(7, 0, 0).transactional();
        }
        let mut builder = RecordBatchBuilder::new(options);
        for n in 0..100 + 10 * i {
            let value = format!(r#"{{"event":"click","user":{},"page":"/p/{}"}}"#, n * 7919 % 1000, n % 13);
            let record = Record {
                offset,
                timestamp: 1_700_000_000_000 + n,
                timestamp_type: TimestampType::CreateTime,
                key: (n % 3 == 0).then_some(b"key"),
                value: Some(value.as_bytes()),
                headers: if i % 2 == 0 { Headers::default() } else { headers.as_headers() },
            };
            builder.append(&record).expect("small");
            offset += 1;
        }
        run.extend(builder.build(&mut Compressor::new()).expect("a batch"));
        if i == 0 {
            let options = RecordBatchOptions::new(offset).producer(7, 0, -1);
            let abort = ControlRecord::Abort { coordinator_epoch: Some(0) };
            run.extend(RecordBatchBuilder::transaction_marker(options, abort, 0).expect("a marker"));
            offset += 1;
        }
    }
    run
}

/// The loop of a consumer: how many records there were, and bytes in them.
fn read(
    run: &[u8],
    aborted: &mut AbortedTransactions,
    decompressor: &mut Decompressor,
) -> Result<(u64, u64), BatchError> {
    let (mut records, mut bytes) = (0, 0);
    aborted.reset([(7, 0)]);
    for batch in RecordBatches::new(run) {
        let batch = batch?;
        batch.check_crc()?;
        if aborted.observe(&batch, decompressor)? != Visibility::Deliver {
            continue;
        }
        for record in batch.records(decompressor)? {
            let record = record.map_err(|error| batch.error(error))?;
            records += 1;
            bytes += record.value.map_or(0, <[u8]>::len) as u64;
            bytes += record.headers.iter().map(|header| header.key.len() as u64).sum::<u64>();
        }
    }
    Ok((records, bytes))
}

#[test]
fn reading_allocates_nothing_once_it_runs() {
    for compression in CODECS {
        let run = run(compression);
        let mut decompressor = Decompressor::new();
        let mut aborted = AbortedTransactions::default();
        let first = read(&run, &mut aborted, &mut decompressor).expect("good batches");
        assert_eq!(first.0, (100..500).step_by(10).sum::<u64>() - 100, "all but the aborted batch");
        let mut second = None;
        let counted = measure(|| second = read(&run, &mut aborted, &mut decompressor).ok());
        assert_eq!(second, Some(first));
        report(&format!("{compression}: {} allocations for {} records in 41 batches", counted.count_total, first.0));
        assert_eq!(counted.count_total, 0, "{compression}: {counted:?}");
    }
}

/// The most that reading `run` holds at once, beside the run itself, and whether it was read to its end.
fn peak(run: &[u8], limit: usize) -> (u64, bool) {
    let mut read_to_end = false;
    let counted = measure(|| {
        let mut decompressor = Decompressor::with_limit(limit);
        read_to_end = read(run, &mut AbortedTransactions::default(), &mut decompressor).is_ok();
    });
    (counted.bytes_max, read_to_end)
}

/// The scratch while it is copied to its doubled size, and contexts.
fn allowed(limit: usize) -> u64 {
    2 * limit as u64 + (1 << 20)
}

/// Bombs and lies: a gigabyte in a few kilobytes ends in an error, with no more memory than the limit asks for.
#[test]
fn malformed_records_take_no_more_memory_than_the_limit() {
    let limit = 8 << 20;
    let malformed: Vec<Entry> = entries(Area::Records).into_iter().filter(|entry| entry.kind == "malformed").collect();
    assert!(!malformed.is_empty() && malformed.len() < index().len());
    let mut largest = 0;
    for entry in &malformed {
        let (peak, read_to_end) = peak(&entry.read_bin(), limit);
        largest = largest.max(peak);
        assert!(peak <= allowed(limit), "{entry}: {peak} bytes");
        // What Java's gigabyte of heap was not enough for, or what it refused.
        if entry.tags.iter().any(|tag| tag == "bomb") && !entry.read_json()["java"]["consumer"]["error"].is_null() {
            assert!(!read_to_end, "{entry}: more than the limit, and no error");
        }
    }
    report(&format!("{} malformed vectors: {largest} bytes at most, the limit is {limit}", malformed.len()));
}

/// The limit counts what a batch inflates to, exactly.
#[test]
fn the_limit_is_exact_for_every_codec() {
    for compression in CODECS {
        let mut builder = RecordBatchBuilder::new(RecordBatchOptions::new(0).compression(compression));
        let value = vec![b'x'; 300_000];
        let record = Record {
            offset: 0,
            timestamp: 0,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some(&value),
            headers: Headers::default(),
        };
        builder.append(&record).expect("small");
        let section_bytes = builder.section_bytes();
        let run = builder.build(&mut Compressor::new()).expect("a batch");
        let batch = RecordBatches::new(&run).next().expect("a batch").expect("whole");
        let mut enough = Decompressor::with_limit(section_bytes);
        assert_eq!(batch.section(&mut enough).expect("just fits").len(), section_bytes, "{compression}");
        let mut short = Decompressor::with_limit(section_bytes - 1);
        let result = batch.section(&mut short);
        if compression == Compression::None {
            assert!(result.is_ok(), "nothing is inflated");
        } else {
            let error = result.expect_err("one byte too many");
            assert_eq!(error.last_offset, Some(0));
            assert!(error.source.to_string().contains("batch_inflated_bytes_max"), "{compression}: {}", error.source);
        }
    }
}

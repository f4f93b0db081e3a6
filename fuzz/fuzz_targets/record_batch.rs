//! The records of a partition, as a Fetch response or a segment holds them: headers, checksums, aborted transactions, records, headers of
//! records. The first byte chooses whose transactions were aborted. Checksums are computed but don't stop the reading, since a fuzzer
//! would hardly ever get past them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ottla_protocol::compression::{Compressor, Decompressor};
use ottla_protocol::record::{
    AbortedTransactions, BatchHeader, ControlRecord, Record, RecordBatch, RecordBatchBuilder, RecordBatchOptions,
    RecordBatches, TimestampType, Visibility, next_fetch_offset,
};

const BATCH_INFLATED_BYTES_MAX: usize = 256 * 1024;

/// A record with everything that it borrows.
#[derive(Debug, PartialEq)]
struct Owned {
    offset: i64,
    timestamp: i64,
    timestamp_type: TimestampType,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Owned {
    fn of(record: &Record<'_>) -> Self {
        let headers: Vec<_> =
            record.headers.iter().map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec))).collect();
        assert_eq!(headers.len(), record.headers.len(), "as many headers as it says");
        Self {
            offset: record.offset,
            timestamp: record.timestamp,
            timestamp_type: record.timestamp_type,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers,
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, run)) = data.split_first() else { return };
    let batches: Vec<RecordBatch<'_>> = RecordBatches::new(run).map_while(Result::ok).collect();
    let next = next_fetch_offset(run, 0);
    let aborted = batches.iter().enumerate().filter(|(i, _)| choice >> (i % 8) & 1 == 1);
    let mut transactions =
        AbortedTransactions::new(aborted.map(|(_, batch)| (batch.header().producer_id, batch.header().base_offset)));
    let mut decompressor = Decompressor::with_limit(BATCH_INFLATED_BYTES_MAX);
    let mut position = 0;
    for batch in &batches {
        let header = *batch.header();
        assert_eq!(batch.position(), position, "batches stand one after the other");
        assert_eq!(batch.bytes().len(), header.size());
        position += header.size();
        assert!(header.last_offset() == i64::MAX || next >= header.next_offset(), "{next} after {header:?}");
        assert_eq!(batch.check_crc().is_ok(), batch.computed_crc() == header.crc);
        let visibility = transactions.observe(batch, &mut decompressor);
        assert!(visibility.is_err() || (visibility == Ok(Visibility::Control)) == header.is_control());
        records(batch, &header, &mut decompressor);
    }
});

fn records(batch: &RecordBatch<'_>, header: &BatchHeader, decompressor: &mut Decompressor) {
    let Ok(section) = batch.section(decompressor) else { return };
    assert!(section.len() <= BATCH_INFLATED_BYTES_MAX.max(batch.bytes().len()));
    let mut walked = Vec::new();
    let mut whole = true;
    match header.records(section) {
        Err(_) => whole = false,
        Ok(records) => {
            for record in records {
                match record {
                    Ok(record) => {
                        walked.push(Owned::of(&record));
                        if header.is_control() {
                            let _ = ControlRecord::parse(&record);
                        }
                    }
                    Err(_) => whole = false,
                }
            }
        }
    }
    assert!(walked.len() <= section.len() / 7, "{} records in {} bytes", walked.len(), section.len());
    if header.magic == 2 {
        searched(header, section, &walked, whole);
        if whole {
            rewritten(header, &walked);
        }
    }
}

/// The way of a search, by lengths first, finds the same records.
fn searched(header: &BatchHeader, section: &[u8], walked: &[Owned], whole: bool) {
    let mut found = Vec::new();
    let Ok(Some(ranges)) = header.record_ranges(section) else {
        assert!(!whole, "records without ranges");
        return;
    };
    let mut all = true;
    for range in ranges {
        match range.and_then(|range| header.record_at(section, range)) {
            Ok(record) => found.push(Owned::of(&record)),
            Err(_) => {
                all = false;
                break;
            }
        }
    }
    assert_eq!(all, whole, "{header:?}");
    // Which of the two errors comes first differs where bytes follow the last record.
    let both = found.len().min(walked.len());
    assert_eq!(found[..both], walked[..both]);
    assert!(!whole || found.len() == walked.len());
}

/// Our own writer's batch of these records reads the same.
fn rewritten(header: &BatchHeader, walked: &[Owned]) {
    let mut options = RecordBatchOptions::new(header.base_offset).last_offset(header.last_offset());
    if header.timestamp_type() == TimestampType::LogAppendTime {
        options = options.log_append_time_ms(header.max_timestamp);
    }
    let mut builder = RecordBatchBuilder::new(options);
    for record in walked {
        let mut headers = ottla_protocol::record::OwnedHeaders::default();
        for (key, value) in &record.headers {
            headers.push(key, value.as_deref());
        }
        let record = Record {
            offset: record.offset,
            timestamp: record.timestamp,
            timestamp_type: record.timestamp_type,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: headers.as_headers(),
        };
        builder.append(&record).expect("what was in a batch fits one");
    }
    let written = builder.build(&mut Compressor::new()).expect("what was in a batch fits one");
    let batch = RecordBatches::new(&written).next().expect("one batch").expect("a header");
    batch.check_crc().expect("its own checksum");
    assert_eq!((batch.header().base_offset, batch.header().last_offset()), (header.base_offset, header.last_offset()));
    let mut decompressor = Decompressor::new();
    let again: Vec<Owned> = batch
        .records(&mut decompressor)
        .expect("its own records")
        .map(|record| Owned::of(&record.expect("its own record")))
        .collect();
    assert_eq!(again, walked);
}

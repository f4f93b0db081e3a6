//! The loop over records alone: neither CRC nor inflating, one batch after the other of a run of 1 MiB. Without and with keys and headers,
//! which are then looked at, too.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ottla_benches::data::{Run, Shape};
use ottla_protocol::compression::Decompressor;
use ottla_protocol::record::{Record, RecordBatches};
use std::hint::black_box;

const RECORDS: u32 = 10_000;

fn walk(run: &[u8], mut look: impl FnMut(&Record<'_>) -> usize) -> (u64, u64) {
    let (mut records, mut bytes) = (0, 0);
    // Never used: the run is not compressed.
    let mut decompressor = Decompressor::new();
    for batch in RecordBatches::new(run) {
        for record in batch.expect("a batch").records(&mut decompressor).expect("records") {
            records += 1;
            bytes += look(&record.expect("a record")) as u64;
        }
    }
    (records, bytes)
}

fn value(record: &Record<'_>) -> usize {
    record.value.map_or(0, <[u8]>::len)
}

fn key_and_value(record: &Record<'_>) -> usize {
    value(record) + record.key.map_or(0, <[u8]>::len)
}

fn all(record: &Record<'_>) -> usize {
    let header_bytes = |sum, header: ottla_protocol::record::Header<'_>| sum + header.value.map_or(0, <[u8]>::len);
    key_and_value(record) + record.headers.iter().fold(0, header_bytes)
}

fn benches(criterion: &mut Criterion) {
    let plain = Shape::values(100);
    let with_keys = Shape { keys: true, ..plain };
    let with_all = Shape { headers: true, ..with_keys };
    bench(criterion, "value", plain, value, 0);
    bench(criterion, "key_value", with_keys, key_and_value, 16);
    bench(criterion, "key_value_headers_unread", with_all, key_and_value, 16);
    // A source of three letters and a trace of sixteen.
    bench(criterion, "key_value_headers", with_all, all, 16 + 3 + 16);
}

fn bench(criterion: &mut Criterion, name: &str, shape: Shape, look: fn(&Record<'_>) -> usize, beside: u64) {
    let run = Run::build(shape, RECORDS);
    let bytes = run.bytes();
    let expected = (run.counts.records, run.counts.value_bytes + beside * run.counts.records);
    assert_eq!(walk(&bytes, look), expected, "{name}");
    let mut group = criterion.benchmark_group("walk");
    group.throughput(Throughput::ElementsAndBytes { elements: expected.0, bytes: expected.1 });
    group.bench_function(name, |bencher| bencher.iter(|| walk(black_box(&bytes), look)));
}

criterion_group!(walk_benches, benches);
criterion_main!(walk_benches);

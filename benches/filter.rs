//! Filtering, from no hits to nothing but hits, in values of 100 bytes and 1 KB.
//!
//! `keep`: every record of a run in memory is walked and given to `BoundFilter::keep`, without CRC and without the search over whole batches,
//! which is inside the reader. `read`: the same filter through all of the reader, from a broker of this process.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ottla_benches::data::{Run, Shape};
use ottla_benches::read::{Embedded, TopicReader, decode, purchases};
use ottla_benches::scaled;
use ottla_protocol::compression::Decompressor;
use std::hint::black_box;

const HIT_PERCENTS: [u32; 4] = [0, 1, 50, 100];
const SIZES: [(&str, usize, u32); 2] = [("100B", 100, 10_000), ("1KB", 1024, 1_000)];
const PARTITIONS: i32 = 2;
/// So that connecting and planning is a small part of a read.
const READ_RUNS: u32 = 10;

fn keep(criterion: &mut Criterion) {
    for (name, value_bytes, records) in SIZES {
        let mut group = criterion.benchmark_group(format!("filter/keep/{name}"));
        for purchases_percent in HIT_PERCENTS {
            let run = Run::build(Shape { purchases_percent, ..Shape::values(value_bytes) }, records);
            let bytes = run.bytes();
            let filter = purchases().bind("t", 0);
            let mut decompressor = Decompressor::new();
            assert_eq!(decode(&bytes, &mut decompressor, |record| filter.keep(record)), run.counts);
            group.throughput(Throughput::ElementsAndBytes {
                elements: run.counts.records,
                bytes: run.counts.value_bytes,
            });
            group.bench_function(BenchmarkId::from_parameter(format!("{purchases_percent}%")), |bencher| {
                bencher.iter(|| decode(black_box(&bytes), &mut decompressor, |record| filter.keep(record)));
            });
        }
    }
}

fn read(criterion: &mut Criterion) {
    let broker = Embedded::start();
    for (name, value_bytes, records) in SIZES {
        let mut group = criterion.benchmark_group(format!("filter/read/{name}"));
        for purchases_percent in HIT_PERCENTS {
            let run =
                Run::build(Shape { purchases_percent, ..Shape::values(value_bytes) }, scaled(READ_RUNS * records));
            let topic = format!("filter-{name}-{purchases_percent}");
            let counts = broker.fill(&topic, PARTITIONS, &run);
            let reader = TopicReader::with_defaults(&broker.bootstrap_servers(), &topic, purchases());
            assert_eq!(reader.read(), counts);
            group.throughput(Throughput::ElementsAndBytes { elements: counts.records, bytes: counts.value_bytes });
            group.bench_function(BenchmarkId::from_parameter(format!("{purchases_percent}%")), |bencher| {
                bencher.iter(|| reader.read());
            });
        }
    }
}

criterion_group!(filter_benches, keep, read);
criterion_main!(filter_benches);

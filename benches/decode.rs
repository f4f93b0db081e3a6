//! From bytes to records: header, CRC, inflating, walking all records. Every codec, values from 20 bytes to 100 KB.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ottla_benches::data::{CODECS, Run, Shape};
use ottla_benches::read::decode;
use ottla_protocol::compression::Decompressor;
use std::hint::black_box;

/// What a run holds, inflated: as much as a Fetch response has of a partition.
const RUN_BYTES: u32 = 1 << 20;

fn benches(criterion: &mut Criterion) {
    for codec in CODECS {
        let mut group = criterion.benchmark_group(format!("decode/{codec}"));
        for (name, value_bytes) in [("20B", 20), ("100B", 100), ("1KB", 1 << 10), ("100KB", 100 << 10)] {
            let run = Run::build(Shape::values(value_bytes).codec(codec), RUN_BYTES / value_bytes as u32);
            let bytes = run.bytes();
            let mut decompressor = Decompressor::new();
            let seen = decode(&bytes, &mut decompressor, |_| false);
            assert_eq!((seen.records, seen.value_bytes), (run.counts.records, run.counts.value_bytes));
            group.throughput(Throughput::ElementsAndBytes { elements: seen.records, bytes: seen.value_bytes });
            group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                bencher.iter(|| decode(black_box(&bytes), &mut decompressor, |_| false));
            });
        }
    }
}

criterion_group!(decode_benches, benches);
criterion_main!(decode_benches);

//! A whole bounded read with the filter, 1 % hits, and a sink that keeps nothing: from a broker of this process, so that its work (little:
//! it sends slices of what it holds) is in the time.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ottla_benches::data::{CODECS, Run, Shape};
use ottla_benches::read::{Embedded, TopicReader, purchases};
use ottla_benches::scaled;

const PARTITIONS: i32 = 2;
/// Of each partition.
const RECORDS: u32 = 200_000;

fn benches(criterion: &mut Criterion) {
    let broker = Embedded::start();
    let mut group = criterion.benchmark_group("fetch_embedded");
    group.sample_size(20);
    let of_100_bytes = CODECS.map(|codec| (format!("{codec}/100B"), Shape::values(100).codec(codec), RECORDS));
    let of_1_kb = ("none/1KB".to_owned(), Shape::values(1024), RECORDS / 10);
    for (name, shape, records) in of_100_bytes.into_iter().chain([of_1_kb]) {
        let topic = name.replace('/', "-");
        let counts = broker.fill(&topic, PARTITIONS, &Run::build(shape, scaled(records)));
        let reader = TopicReader::with_defaults(&broker.bootstrap_servers(), &topic, purchases());
        assert_eq!(reader.read(), counts, "{name}");
        group.throughput(Throughput::ElementsAndBytes { elements: counts.records, bytes: counts.value_bytes });
        group.bench_function(BenchmarkId::from_parameter(&name), |bencher| bencher.iter(|| reader.read()));
    }
}

criterion_group!(fetch_benches, benches);
criterion_main!(fetch_benches);

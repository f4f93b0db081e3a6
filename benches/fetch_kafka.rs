//! As `fetch_embedded`, from real Apache Kafka, which is started for it and stopped after it. Without Java this fails and says what to
//! install; with `OTTLA_WITHOUT_KAFKA=1` it says that it was left out.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ottla_benches::data::{CODECS, Run, Shape};
use ottla_benches::read::{TopicReader, purchases};
use ottla_benches::{produce, scaled};
use support::{KafkaCluster, java_or_skip};

const PARTITIONS: u32 = 2;
/// Of each partition.
const RECORDS: u32 = 500_000;

fn benches(criterion: &mut Criterion) {
    if java_or_skip("the bench fetch_kafka").is_none() {
        return;
    }
    let kafka = KafkaCluster::builder().start();
    let mut group = criterion.benchmark_group("fetch_kafka");
    group.sample_size(20);
    let of_100_bytes = CODECS.map(|codec| (format!("{codec}/100B"), Shape::values(100).codec(codec), RECORDS));
    let of_1_kb = ("none/1KB".to_owned(), Shape::values(1024), RECORDS / 10);
    for (name, shape, records) in of_100_bytes.into_iter().chain([of_1_kb]) {
        let topic = kafka.create_topic(&name.replace('/', "-"), PARTITIONS, &[]);
        let run = Run::build(shape, scaled(records));
        let counts = produce::fill(kafka.bootstrap_servers(), &topic, PARTITIONS as i32, &run);
        let reader = TopicReader::with_defaults(kafka.bootstrap_servers(), &topic, purchases());
        assert_eq!(reader.read(), counts, "{name}");
        group.throughput(Throughput::ElementsAndBytes { elements: counts.records, bytes: counts.value_bytes });
        group.bench_function(BenchmarkId::from_parameter(&name), |bencher| bencher.iter(|| reader.read()));
    }
}

criterion_group!(fetch_benches, benches);
criterion_main!(fetch_benches);

//! How much is asked for: a request names as many partitions as fill its answer, and of each as much as its batches need.

use crate::support::{MS, PATIENCE, asked, config, fill, read, start, target, topic};
use ottla_client::{Client, ClientConfig, FetchTarget, Fetcher};
use ottla_embedded::messages::ApiKey;
use ottla_embedded::{Action, EmbeddedBroker};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::time::timeout;

/// The sizes that are not set.
fn default_sizes(broker: &EmbeddedBroker) -> ClientConfig {
    let defaults = ClientConfig::from_bootstrap(&broker.bootstrap_servers()).unwrap();
    let config = config(&broker.bootstrap_servers());
    assert_eq!((defaults.fetch_max_bytes, defaults.max_partition_fetch_bytes), (4 << 20, 1 << 20));
    assert_eq!((config.fetch_max_bytes, config.max_partition_fetch_bytes), (4 << 20, 1 << 20));
    config
}

fn topic_of_large(broker: &EmbeddedBroker, partitions: i32, batches: usize, bytes: usize) {
    broker.create_topic("t", partitions, &[("max.message.bytes", "9000000")]).unwrap();
    for partition in 0..partitions {
        fill(broker, "t", partition, batches, 1, bytes);
    }
}

/// Counts how often a partition is named in a request.
fn named(broker: &EmbeddedBroker) -> Arc<AtomicU64> {
    let named = Arc::new(AtomicU64::new(0));
    let counter = named.clone();
    broker.on(ApiKey::Fetch, move |context| {
        counter.fetch_add(u64::try_from(asked(context.request).len()).unwrap(), Ordering::Relaxed);
        Action::Pass
    });
    named
}

/// What is larger than its limit comes only as the first of an answer. So the others of a request would be asked in vain, every time.
#[tokio::test]
async fn batches_of_4_mb_are_asked_for_once() {
    let broker = start(1).await;
    topic_of_large(&broker, 4, 4, 4_000_000);
    let named = named(&broker);
    let client = Client::connect(default_sizes(&broker)).await.unwrap();
    for back in read(&client, (0..4).map(|p| target(&broker, "t", p, 0, 4)).collect()).await {
        back.assert_range(0, 4);
    }
    let (requests, named) = (broker.requests(ApiKey::Fetch), named.load(Ordering::Relaxed));
    assert!(requests <= 16, "{requests} requests for 16 batches that each fill an answer");
    assert!(named <= 16 + 6, "{named} times a partition was asked for in vain before that was known");
}

/// Two and more of them fit into an answer.
#[tokio::test]
async fn batches_a_little_larger_than_the_limit_share_an_answer() {
    let broker = start(1).await;
    topic_of_large(&broker, 6, 6, 1_300_000);
    let client = Client::connect(default_sizes(&broker)).await.unwrap();
    for back in read(&client, (0..6).map(|p| target(&broker, "t", p, 0, 6)).collect()).await {
        back.assert_range(0, 6);
    }
    let requests = broker.requests(ApiKey::Fetch);
    assert!(requests <= 6 + 30_u64.div_ceil(2), "{requests} requests for 36 batches, three of which fit");
}

/// A few records of each of a thousand partitions are a few requests.
#[tokio::test]
async fn many_partitions_with_little_fill_an_answer_together() {
    let broker = start(1).await;
    topic(&broker, "t", 1000, 20);
    let client = Client::connect(default_sizes(&broker)).await.unwrap();
    for back in read(&client, (0..1000).map(|p| target(&broker, "t", p, 0, 20)).collect()).await {
        back.assert_range(0, 20);
    }
    let requests = broker.requests(ApiKey::Fetch);
    assert!(requests <= 12, "{requests} requests for 1.5 MB");
}

/// Partitions of a megabyte each: four an answer, whatever their number.
#[tokio::test]
async fn the_same_data_in_more_partitions_takes_as_many_requests() {
    let mut requests = Vec::new();
    for (partitions, batches) in [(2, 64), (64, 2)] {
        let broker = start(1).await;
        topic_of_large(&broker, partitions, batches, 300_000);
        let until = i64::try_from(batches).unwrap();
        let client = Client::connect(default_sizes(&broker)).await.unwrap();
        for back in read(&client, (0..partitions).map(|p| target(&broker, "t", p, 0, until)).collect()).await {
            back.assert_range(0, until);
        }
        requests.push(broker.requests(ApiKey::Fetch));
    }
    // With two, each request is about one of them.
    assert!(requests[1] <= requests[0] && requests[1] <= 64 / 4 + 16, "{requests:?}");
}

/// A quarter of the memory is what an answer may take, and a partition no more than that, however large its batches are.
#[tokio::test]
async fn small_budgets_shrink_what_is_asked_for() {
    let broker = start(1).await;
    topic_of_large(&broker, 4, 6, 300_000);
    let memory = 400_000;
    broker.on(ApiKey::Fetch, move |context| {
        let ottla_embedded::Request::Fetch(request) = context.request else { return Action::Pass };
        let largest = request.topics.iter().flat_map(|topic| &topic.partitions).map(|p| p.partition_max_bytes).max();
        if request.max_bytes > memory / 4 || largest > Some(memory / 4) { Action::Error(29) } else { Action::Pass }
    });
    let mut config = default_sizes(&broker);
    config.memory_bytes = usize::try_from(memory).unwrap();
    let client = Client::connect(config).await.unwrap();
    // A batch is larger than what is asked for, and held pieces stay within the memory but for one such.
    let fetcher = Fetcher::start(&client, (0..4).map(|p| target(&broker, "t", p, 0, 6)).collect());
    let mut held = Vec::new();
    while let Ok(Some(fetch)) = timeout(300 * MS, fetcher.next()).await {
        held.push(fetch.unwrap());
    }
    let bytes: usize = held.iter().map(|fetch| fetch.records().len()).sum();
    assert!(bytes <= 400_000 + 2 * 300_100, "{bytes} bytes held");
    drop((held, fetcher));
    for back in read(&client, (0..4).map(|p| target(&broker, "t", p, 0, 6)).collect()).await {
        back.assert_range(0, 6);
    }
}

/// The broker does not know where a range ends, and would send on and on.
#[tokio::test]
async fn little_is_asked_for_behind_the_end_of_a_range() {
    let broker = start(1).await;
    broker.create_topic("t", 40, &[]).unwrap();
    for partition in 0..40 {
        fill(&broker, "t", partition, 20, 10, 10_000);
    }
    let client = Client::connect(default_sizes(&broker)).await.unwrap();
    let targets = (0..40).map(|p| FetchTarget { known_end: 200, ..target(&broker, "t", p, 0, 10) });
    let fetcher = Fetcher::start(&client, targets.collect());
    let (mut pieces, mut bytes) = (0, 0);
    while let Some(fetch) = timeout(PATIENCE, fetcher.next()).await.unwrap() {
        (pieces, bytes) = (pieces + 1, bytes + fetch.unwrap().records().len());
    }
    assert_eq!(pieces, 40);
    // A megabyte of each of those that were asked for before it was known how large a record is.
    assert!(bytes <= 8 * (1 << 20) + 32 * 215_000, "{bytes} bytes for 4 MB");
    assert!(broker.requests(ApiKey::Fetch) <= 2 + 3, "{} requests", broker.requests(ApiKey::Fetch));
}

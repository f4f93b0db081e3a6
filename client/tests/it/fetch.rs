//! Reading without faults: every record of every range exactly once and in order, whatever the shape.

use crate::support::{MS, client, config, fill, read, read_one, start, target, topic};
use ottla_client::{Client, FetchTarget};
use ottla_embedded::messages::ApiKey;
use ottla_embedded::{Action, EmbeddedBroker};

#[tokio::test]
async fn one_to_a_thousand_partitions_over_three_nodes() {
    for (partitions, records) in [(1, 1000), (2, 500), (50, 100), (1000, 10)] {
        let broker = start(3).await;
        topic(&broker, "t", partitions, records);
        let client = client(&broker).await;
        let targets = (0..partitions).map(|partition| target(&broker, "t", partition, 0, records)).collect();
        for back in read(&client, targets).await {
            back.assert_range(0, records);
        }
        let requests = broker.requests(ApiKey::Fetch);
        assert!(requests <= u64::try_from(partitions).unwrap() + 20, "{requests} requests for {partitions} partitions");
    }
}

#[tokio::test]
async fn ranges_begin_and_end_inside_batches() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 100);
    let client = client(&broker).await;
    for (from, until) in [(0, 1), (3, 7), (9, 11), (15, 95), (99, 100), (0, 100)] {
        read_one(&client, &broker, "t", from, until).await.assert_range(from, until);
    }
}

#[tokio::test]
async fn a_range_without_offsets_is_over_at_once() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 100);
    let client = client(&broker).await;
    let backwards = FetchTarget { from_offset: 70, until_offset: 20, ..target(&broker, "t", 0, 0, 0) };
    let targets = vec![target(&broker, "t", 0, 50, 50), backwards, target(&broker, "t", 1, 0, 100)];
    let backs = read(&client, targets).await;
    backs[0].assert_range(0, 0);
    backs[1].assert_range(0, 0);
    backs[2].assert_range(0, 100);
    assert!(read(&client, Vec::new()).await.is_empty());
    assert!(read(&client, vec![target(&broker, "t", 0, 7, 7)]).await[0].offsets.is_empty());
}

#[tokio::test]
async fn pieces_of_one_partition_get_exactly_theirs() {
    let broker = start(2).await;
    topic(&broker, "t", 2, 200);
    let client = client(&broker).await;
    let seen_twice = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = seen_twice.clone();
    broker.on(ApiKey::Fetch, move |context| {
        let mut partitions: Vec<i32> = crate::support::asked(context.request).iter().map(|(p, _)| *p).collect();
        let before = partitions.len();
        partitions.sort_unstable();
        partitions.dedup();
        seen.fetch_or(partitions.len() < before, std::sync::atomic::Ordering::Relaxed);
        Action::Pass
    });
    let pieces = [(0, 0, 55), (0, 55, 120), (1, 0, 200), (0, 120, 200), (0, 40, 60)];
    // With and without knowing that there is data: on both kinds of connection.
    for known_end in [200, 0] {
        let targets = pieces
            .map(|(partition, from, until)| FetchTarget { known_end, ..target(&broker, "t", partition, from, until) });
        for (back, (_, from, until)) in read(&client, targets.to_vec()).await.iter().zip(pieces) {
            back.assert_range(from, until);
        }
    }
    assert!(!seen_twice.load(std::sync::atomic::Ordering::Relaxed), "a request may name a partition once");
}

#[tokio::test]
async fn data_that_was_not_known_of_is_found() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 100);
    let client = client(&broker).await;
    let unknown = FetchTarget { known_end: 0, topic_id: None, ..target(&broker, "t", 0, 0, 100) };
    read(&client, vec![unknown]).await[0].assert_range(0, 100);
    let version = broker.last_request(ApiKey::Fetch).unwrap().api_version;
    assert_eq!(version, 12, "without the topic's id, names are the way");
}

#[tokio::test]
async fn data_that_comes_later_ends_the_wait() {
    let broker = start(1).await;
    broker.create_topic("t", 1, &[]).unwrap();
    let client = client(&broker).await;
    let reading = read_one(&client, &broker, "t", 0, 30);
    let writing = async {
        for _ in 0..3 {
            tokio::time::sleep(150 * MS).await;
            fill(&broker, "t", 0, 1, 10, 0);
        }
    };
    let (back, ()) = tokio::join!(reading, writing);
    back.assert_range(0, 30);
}

async fn read_with_sizes(broker: &EmbeddedBroker, fetch: i32, partition: i32, memory: usize) {
    let mut config = config(&broker.bootstrap_servers());
    (config.fetch_max_bytes, config.max_partition_fetch_bytes, config.memory_bytes) = (fetch, partition, memory);
    let client = Client::connect(config).await.unwrap();
    let targets = (0..4).map(|partition| target(broker, "t", partition, 0, 50)).collect();
    for back in read(&client, targets).await {
        back.assert_range(0, 50);
    }
}

#[tokio::test]
async fn s_d05_limits_below_one_batch() {
    let broker = start(2).await;
    topic(&broker, "t", 4, 50);
    for (fetch, partition, memory) in [(1, 1, 64 << 20), (1000, 1, 64 << 20), (1, 1000, 1), (4 << 20, 1 << 20, 1)] {
        read_with_sizes(&broker, fetch, partition, memory).await;
    }
}

#[tokio::test]
async fn s_d18_the_largest_sizes_stay_within_the_memory() {
    let broker = start(2).await;
    topic(&broker, "t", 4, 50);
    let memory = 1 << 20;
    broker.on(ApiKey::Fetch, move |context| {
        let ottla_embedded::Request::Fetch(request) = context.request else { return Action::Pass };
        let largest = request.topics.iter().flat_map(|topic| &topic.partitions).map(|p| p.partition_max_bytes).max();
        if request.max_bytes > memory || largest > Some(memory) { Action::Error(29) } else { Action::Pass }
    });
    read_with_sizes(&broker, i32::MAX, i32::MAX, usize::try_from(memory).unwrap()).await;
}

#[tokio::test]
async fn batches_larger_than_the_limits_don_t_starve_those_behind() {
    let broker = start(1).await;
    broker.create_topic("t", 4, &[]).unwrap();
    for partition in 0..4 {
        fill(&broker, "t", partition, 12, 1, 8_000);
    }
    let mut config = config(&broker.bootstrap_servers());
    (config.fetch_max_bytes, config.max_partition_fetch_bytes) = (4_000, 1_000);
    let client = Client::connect(config).await.unwrap();
    let fetcher =
        ottla_client::Fetcher::start(&client, (0..4).map(|partition| target(&broker, "t", partition, 0, 12)).collect());
    let mut counts = [0; 4];
    for _ in 0..24 {
        counts[fetcher.next().await.unwrap().unwrap().target()] += 1;
    }
    assert!(counts.iter().all(|count| (4..=8).contains(count)), "{counts:?}");
}

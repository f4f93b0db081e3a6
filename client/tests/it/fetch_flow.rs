//! Memory, fairness, idleness: how much is asked for, and when.

use crate::support::{MS, PATIENCE, asked, config, fill, start, target, topic};
use ottla_client::{Client, FetchTarget, Fetcher, IsolationLevel, OffsetAndMetadata, OffsetSpec, TopicPartition};
use ottla_embedded::Action;
use ottla_embedded::messages::ApiKey;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};

#[tokio::test]
async fn s_t02_memory_is_bounded_whatever_the_number_of_partitions() {
    let broker = start(2).await;
    broker.create_topic("t", 200, &[]).unwrap();
    for partition in 0..200 {
        fill(&broker, "t", partition, 3, 10, 1_000);
    }
    let mut config = config(&broker.bootstrap_servers());
    (config.fetch_max_bytes, config.max_partition_fetch_bytes, config.memory_bytes) = (100_000, 20_000, 900_000);
    let client = Client::connect(config).await.unwrap();
    let fetcher = Fetcher::start(&client, (0..200).map(|p| target(&broker, "t", p, 0, 30)).collect());
    // A reader that keeps everything: the engine stops when the budget is spent.
    let mut held = Vec::new();
    while let Ok(Some(fetch)) = timeout(500 * MS, fetcher.next()).await {
        held.push(fetch.unwrap());
    }
    let bytes: usize = held.iter().map(|fetch| fetch.records().len()).sum();
    // Half of the budget is for answers. Reserved before a request is sent: there is not one answer more.
    assert!((300_000..=450_000).contains(&bytes), "{bytes} bytes held");
    let mut records = held.iter().map(|fetch| fetch.records().len() / 1_000).sum::<usize>();
    // It goes on as they are given back, to the end.
    drop(held);
    while let Some(fetch) = timeout(PATIENCE, fetcher.next()).await.unwrap() {
        records += fetch.unwrap().records().len() / 1_000;
    }
    assert!(records >= 200 * 30, "{records}");
}

/// With room for one answer, the brokers take turns; an idle poll does not keep the room for itself.
#[tokio::test]
async fn a_budget_for_one_answer_is_shared_by_brokers_and_polls() {
    let broker = start(3).await;
    topic(&broker, "t", 3, 200);
    broker.create_topic("idle", 3, &[]).unwrap();
    let mut config = config(&broker.bootstrap_servers());
    (config.fetch_max_bytes, config.max_partition_fetch_bytes, config.memory_bytes) = (1_000, 1_000, 1);
    config.fetch_max_wait = 20 * MS;
    let client = Client::connect(config).await.unwrap();
    let idle = (0..3).map(|p| FetchTarget { known_end: 0, ..target(&broker, "idle", p, 0, i64::MAX) });
    let targets = idle.chain((0..3).map(|p| target(&broker, "t", p, 0, 200))).collect();
    let fetcher = Fetcher::start(&client, targets);
    let (mut left, mut order) = ([200; 3], Vec::new());
    while left.iter().any(|left| *left > 0) {
        let fetch = timeout(PATIENCE, fetcher.next()).await.unwrap().unwrap().unwrap();
        let partition = fetch.target() - 3;
        let next = ottla_protocol::record::next_fetch_offset(fetch.records(), fetch.fetch_offset());
        left[partition] = 200 - next;
        order.push(partition);
    }
    for partition in 0..3 {
        assert!(order[..order.len() / 2].contains(&partition), "{partition} waited for the others: {order:?}");
    }
}

#[tokio::test]
async fn s_t01_all_partitions_get_on_together() {
    let broker = start(1).await;
    broker.create_topic("t", 8, &[]).unwrap();
    for partition in 0..8 {
        fill(&broker, "t", partition, 100, 1, 1_000);
    }
    let mut config = config(&broker.bootstrap_servers());
    (config.fetch_max_bytes, config.max_partition_fetch_bytes) = (4_000, 4_000);
    let client = Client::connect(config).await.unwrap();
    let fetcher = Fetcher::start(&client, (0..8).map(|p| target(&broker, "t", p, 0, 100)).collect());
    let mut done = [0; 8];
    while done.iter().sum::<i64>() < 200 {
        let fetch = timeout(PATIENCE, fetcher.next()).await.unwrap().unwrap().unwrap();
        done[fetch.target()] = ottla_protocol::record::next_fetch_offset(fetch.records(), fetch.fetch_offset());
    }
    assert!(done.iter().all(|done| (15..=35).contains(done)), "{done:?} of 100 each");
}

#[tokio::test]
async fn s_t03_empty_partitions_are_asked_for_twice_a_second() {
    for partitions in [1, 40] {
        let broker = start(2).await;
        broker.create_topic("t", partitions, &[]).unwrap();
        let mut config = config(&broker.bootstrap_servers());
        config.fetch_max_wait = 500 * MS;
        let client = Client::connect(config).await.unwrap();
        // Data is thought to be there, and there is none.
        let targets = (0..partitions).map(|p| FetchTarget { known_end: 5, ..target(&broker, "t", p, 0, i64::MAX) });
        let fetcher = Fetcher::start(&client, targets.collect());
        let idle = timeout(Duration::from_secs(2), fetcher.next()).await;
        assert!(idle.is_err(), "there is nothing to fetch");
        let requests = broker.requests(ApiKey::Fetch);
        assert!(requests <= 2 * 6 + 2 * u64::try_from(partitions).unwrap().div_ceil(4), "{requests} requests in 2 s");
        let polls_before = broker.requests(ApiKey::Fetch);
        sleep(Duration::from_secs(1)).await;
        assert!(broker.requests(ApiKey::Fetch) - polls_before <= 2 * 3);
    }
}

#[tokio::test]
async fn s_t03_no_wait_is_no_hot_loop() {
    let broker = start(1).await;
    broker.create_topic("t", 3, &[]).unwrap();
    let mut config = config(&broker.bootstrap_servers());
    config.fetch_max_wait = Duration::ZERO;
    let client = Client::connect(config).await.unwrap();
    let fetcher = Fetcher::start(&client, (0..3).map(|p| target(&broker, "t", p, 0, i64::MAX)).collect());
    assert!(timeout(Duration::from_secs(1), fetcher.next()).await.is_err());
    assert!(broker.requests(ApiKey::Fetch) < 20, "{}", broker.requests(ApiKey::Fetch));
    fill(&broker, "t", 1, 1, 5, 0);
    assert_eq!(timeout(PATIENCE, fetcher.next()).await.unwrap().unwrap().unwrap().target(), 1);
}

#[tokio::test]
async fn s_t04_a_long_poll_holds_back_nothing_else() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 100);
    let mut config = config(&broker.bootstrap_servers());
    config.fetch_max_wait = Duration::from_secs(20);
    config.default_api_timeout = Duration::from_secs(2);
    let client = Client::connect(config).await.unwrap();
    let poll = Fetcher::start(&client, vec![FetchTarget { known_end: 0, ..target(&broker, "t", 0, 100, i64::MAX) }]);
    crate::support::eventually("the long poll", || broker.requests(ApiKey::Fetch) == 1).await;
    let start = Instant::now();
    client.topics(&["t".to_owned()]).await.unwrap();
    let partition = TopicPartition::new("t", 0);
    let wanted = BTreeMap::from([(partition.clone(), OffsetSpec::Latest)]);
    client.list_offsets(&wanted, IsolationLevel::ReadUncommitted).await.unwrap();
    let offset = OffsetAndMetadata { offset: 1, leader_epoch: None, metadata: None };
    client.commit_offsets("g", &BTreeMap::from([(partition, offset)]), &BTreeMap::new()).await.unwrap();
    // Nor other partitions with data.
    crate::support::read_one(&client, &broker, "t", 0, 100).await.assert_range(0, 100);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    fill(&broker, "t", 0, 1, 10, 0);
    let fetch = timeout(Duration::from_secs(1), poll.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(fetch.fetch_offset(), 100);
}

#[tokio::test]
async fn a_dropped_fetcher_asks_for_nothing_more() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 100);
    let mut config = config(&broker.bootstrap_servers());
    (config.fetch_max_bytes, config.max_partition_fetch_bytes) = (500, 500);
    let client = Client::connect(config).await.unwrap();
    let fetcher = Fetcher::start(&client, (0..2).map(|p| target(&broker, "t", p, 0, i64::MAX)).collect());
    let held = fetcher.next().await.unwrap().unwrap();
    drop(fetcher);
    sleep(200 * MS).await;
    let requests = broker.requests(ApiKey::Fetch);
    sleep(300 * MS).await;
    assert_eq!(broker.requests(ApiKey::Fetch), requests);
    assert!(!held.records().is_empty(), "what was fetched stays good");
}

#[tokio::test]
async fn a_finished_target_says_no_more_and_the_others_go_on() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 100);
    let mut config = config(&broker.bootstrap_servers());
    (config.fetch_max_bytes, config.max_partition_fetch_bytes) = (500, 500);
    let client = Client::connect(config).await.unwrap();
    let fetcher = Fetcher::start(&client, (0..2).map(|p| target(&broker, "t", p, 0, 100)).collect());
    let first = fetcher.next().await.unwrap().unwrap();
    let gone = first.target();
    // What is on its way for it fails for good, while its last piece is still held; nobody wants to know.
    broker.on(ApiKey::Fetch, move |context| {
        let mine = asked(context.request).iter().any(|(p, _)| usize::try_from(*p).unwrap() == gone);
        if mine { Action::Error(29) } else { Action::Pass }
    });
    fetcher.finish(gone);
    sleep(100 * MS).await;
    drop(first);
    let mut offset = 0;
    while let Some(fetch) = timeout(PATIENCE, fetcher.next()).await.unwrap() {
        let fetch = fetch.unwrap();
        assert_ne!(fetch.target(), gone);
        offset = ottla_protocol::record::next_fetch_offset(fetch.records(), fetch.fetch_offset());
    }
    assert_eq!(offset, 100);
}

#[tokio::test]
async fn at_most_two_answers_of_a_target_are_held() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 100);
    let mut config = config(&broker.bootstrap_servers());
    (config.fetch_max_bytes, config.max_partition_fetch_bytes) = (500, 500);
    let client = Client::connect(config).await.unwrap();
    let fetcher = Fetcher::start(&client, vec![target(&broker, "t", 0, 0, 100)]);
    let held = fetcher.next().await.unwrap().unwrap();
    sleep(200 * MS).await;
    assert_eq!(broker.requests(ApiKey::Fetch), 2);
    drop(held);
    assert!(fetcher.next().await.unwrap().is_ok());
}

/// A thousand partitions and as many pieces: the engine's own work must not grow with their product.
#[tokio::test]
async fn many_partitions_with_little_memory() {
    let broker = start(3).await;
    topic(&broker, "t", 1500, 20);
    let mut config = config(&broker.bootstrap_servers());
    (config.fetch_max_bytes, config.max_partition_fetch_bytes, config.memory_bytes) = (4_000, 400, 20_000);
    let client = Client::connect(config).await.unwrap();
    let start = Instant::now();
    let targets = (0..1500).map(|p| FetchTarget { known_end: 0, ..target(&broker, "t", p, 0, 20) }).collect();
    for back in crate::support::read(&client, targets).await {
        back.assert_range(0, 20);
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

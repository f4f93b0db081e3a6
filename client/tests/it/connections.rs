//! Connections: back-off, versions, addresses that change, peers that are no brokers, answers that are nobody's.

use crate::support::{
    MS, Proxy, Tally, client, closed_port, config, eventually, read, read_one, server, start, target, text, topic,
};
use ottla_client::{Client, ClientConfig, Error, IsolationLevel, OffsetSpec, RequestError, Resolver, TopicPartition};
use ottla_embedded::messages::ApiKey;
use ottla_embedded::{Action, EmbeddedBroker};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{task::JoinSet, time::sleep};

fn latest(partition: i32) -> BTreeMap<TopicPartition, OffsetSpec> {
    BTreeMap::from([(TopicPartition::new("t", partition), OffsetSpec::Latest)])
}

/// Ten tasks that want the same broker for 4 s: under 40 attempts in 10 s are allowed, with Kafka's default back-off.
#[tokio::test]
async fn s_n08_a_port_that_closes_at_once_is_dialled_seldom() {
    let (address, connections) = server(b"", true).await;
    let mut config = ClientConfig::from_bootstrap(&address.to_string()).unwrap();
    config.default_api_timeout = Duration::from_secs(4);
    let mut tasks = JoinSet::new();
    let started = Instant::now();
    tasks.spawn(Client::connect(config));
    while let Some(result) = tasks.join_next().await {
        let error = result.unwrap().unwrap_err();
        assert!(text(&error).contains("TLS or SASL port"), "{}", text(&error));
    }
    assert!(started.elapsed() < 4400 * MS, "{:?}", started.elapsed());
    let count = connections.load(Ordering::Relaxed);
    assert!((3..16).contains(&count), "{count} connections in 4 s");
}

#[tokio::test]
async fn s_n08_all_tasks_share_the_back_off_of_a_broker_that_went_away() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 10);
    let dialled = Arc::new(AtomicU64::new(0));
    let (counter, address) = (dialled.clone(), broker.address(1).unwrap());
    let mut config = ClientConfig::from_bootstrap(&address.to_string()).unwrap();
    config.default_api_timeout = Duration::from_secs(4);
    config.resolver = Resolver::from_fn(move |_, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(vec![address])
    });
    let client = Client::connect(config).await.unwrap();
    client.list_offsets(&latest(0), IsolationLevel::ReadUncommitted).await.unwrap();
    broker.stop_node(1).await;
    let before = dialled.load(Ordering::Relaxed);
    let mut tasks = JoinSet::new();
    let started = Instant::now();
    for task in 0..10 {
        let client = client.clone();
        let target = target(&broker, "t", 0, 0, 10);
        tasks.spawn(async move {
            if task % 2 == 0 {
                assert!(client.list_offsets(&latest(0), IsolationLevel::ReadUncommitted).await.is_err());
            } else {
                assert!(read(&client, vec![target]).await[0].error.is_some());
            }
            assert!(started.elapsed() < 4400 * MS, "task {task}: {:?}", started.elapsed());
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    // The broker is known by its id and as a bootstrap server: two addresses to dial, each with its back-off.
    let count = dialled.load(Ordering::Relaxed) - before;
    assert!(count < 2 * 16, "{count} attempts in 4 s");
}

#[tokio::test]
async fn s_n09_all_known_brokers_were_replaced() {
    let (old, new) = (start(2).await, start(3).await);
    topic(&old, "t", 1, 10);
    topic(&new, "t", 1, 70);
    let now: Arc<Mutex<SocketAddr>> = Arc::new(Mutex::new(old.address(1).unwrap()));
    let resolved = now.clone();
    let mut config = config("boot.test:9092");
    config.resolver = Resolver::from_fn(move |host, port| match host {
        "boot.test" => Ok(vec![*resolved.lock().unwrap()]),
        _ => Ok(vec![SocketAddr::new(host.parse().unwrap(), port)]),
    });
    let client = Client::connect(config).await.unwrap();
    let end = async || client.list_offsets(&latest(0), IsolationLevel::ReadUncommitted).await.unwrap();
    assert_eq!(end().await.into_values().next().unwrap().offset, Some(10));
    *now.lock().unwrap() = new.address(3).unwrap();
    old.shutdown().await;
    let started = Instant::now();
    assert_eq!(end().await.into_values().next().unwrap().offset, Some(70));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[tokio::test]
async fn s_n01_a_name_gets_another_address() {
    let broker = EmbeddedBroker::builder().advertised(1, "broker.test", 7777).start().await.unwrap();
    topic(&broker, "t", 1, 100);
    let first = Proxy::start(broker.address(1).unwrap()).await;
    let second = Proxy::bind("127.0.0.2:0".parse().unwrap(), broker.address(1).unwrap()).await;
    let now: Arc<Mutex<SocketAddr>> = Arc::new(Mutex::new(first.address));
    let resolved = now.clone();
    let mut config = config("broker.test:7777");
    config.resolver = Resolver::from_fn(move |_, _| Ok(vec![*resolved.lock().unwrap()]));
    let client = Client::connect(config).await.unwrap();
    read_one(&client, &broker, "t", 0, 100).await.assert_range(0, 100);
    *now.lock().unwrap() = second.address;
    first.stop().await;
    let started = Instant::now();
    read_one(&client, &broker, "t", 0, 100).await.assert_range(0, 100);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert!(second.connections.load(Ordering::Relaxed) >= 1);
}

#[tokio::test]
async fn s_n07_idle_connections_that_are_silently_dead() {
    let broker = EmbeddedBroker::builder().advertised(1, "broker.test", 7777).start().await.unwrap();
    topic(&broker, "t", 1, 100);
    let proxy = Proxy::start(broker.address(1).unwrap()).await;
    let address = proxy.address;
    let mut config = config("broker.test:7777");
    config.request_timeout = 500 * MS;
    config.resolver = Resolver::from_fn(move |_, _| Ok(vec![address]));
    let client = Client::connect(config).await.unwrap();
    client.list_offsets(&latest(0), IsolationLevel::ReadUncommitted).await.unwrap();
    read_one(&client, &broker, "t", 0, 100).await.assert_range(0, 100);
    for _ in 0..2 {
        proxy.freeze();
        let started = Instant::now();
        client.topics(&["t".to_owned()]).await.unwrap();
        client.list_offsets(&latest(0), IsolationLevel::ReadUncommitted).await.unwrap();
        read_one(&client, &broker, "t", 0, 100).await.assert_range(0, 100);
        assert!(started.elapsed() < 2 * Duration::from_secs(1), "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn s_n10_peers_that_are_no_brokers() {
    for (hello, hint) in [
        (&b"\x15\x03\x03\x00\x02\x02\x28"[..], "TLS"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
        (b"\xff\xff\xff\xff", "-1"),
        (b"\x7f\xff\xff\xff", "2147483647"),
    ] {
        let (address, connections) = server(hello, false).await;
        let started = Instant::now();
        let error = Client::connect(config(&address.to_string())).await.unwrap_err();
        assert!(
            matches!(&error, Error::Request { source: RequestError::Frame(_), .. }) && text(&error).contains(hint),
            "{error:?}"
        );
        assert!(started.elapsed() < Duration::from_secs(1));
        assert_eq!(connections.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn one_bootstrap_server_that_is_no_broker_does_not_matter() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 100);
    let (web, _) = server(b"HTTP/1.1 400 Bad Request\r\n\r\n", false).await;
    let closed = closed_port().await;
    let client = Client::connect(config(&format!("{web},{closed},{}", broker.bootstrap_servers()))).await.unwrap();
    read_one(&client, &broker, "t", 0, 100).await.assert_range(0, 100);
}

#[tokio::test]
async fn s_n14_versions_are_negotiated_for_each_broker() {
    let oldest = EmbeddedBroker::builder()
        .api_versions(ApiKey::ApiVersions, 0..=0)
        .api_versions(ApiKey::Fetch, 4..=4)
        .api_versions(ApiKey::ListOffsets, 1..=1)
        .api_versions(ApiKey::Metadata, 1..=4);
    let broker = oldest.start().await.unwrap();
    topic(&broker, "t", 2, 100);
    let client = client(&broker).await;
    assert_eq!(broker.last_request(ApiKey::ApiVersions).unwrap().api_version, 0);
    let offset = client.list_offsets(&latest(0), IsolationLevel::ReadUncommitted).await.unwrap();
    assert_eq!(offset.into_values().next().unwrap().offset, Some(100));
    let targets =
        (0..2).map(|p| ottla_client::FetchTarget { topic_id: None, ..target(&broker, "t", p, 0, 100) }).collect();
    for back in read(&client, targets).await {
        back.assert_range(0, 100);
    }
    assert_eq!(broker.last_request(ApiKey::Fetch).unwrap().api_version, 4);
}

#[tokio::test]
async fn s_n14_an_api_that_is_not_offered_is_a_clear_error() {
    let broker = EmbeddedBroker::builder().without_api(ApiKey::Fetch).start().await.unwrap();
    topic(&broker, "t", 1, 100);
    let error = read_one(&client(&broker).await, &broker, "t", 0, 100).await.error.unwrap();
    assert!(
        text(&error).contains("speaks FETCH in no version") || text(&error).contains("no version"),
        "{}",
        text(&error)
    );
}

#[tokio::test]
async fn s_n14_a_broker_that_is_too_new() {
    // Its own words: ApiVersions v0, no error, Metadata (3) in versions 90 to 99 only.
    let broker = start(1).await;
    broker.on(ApiKey::ApiVersions, |context| {
        let mut body = context.correlation_id.to_be_bytes().to_vec();
        if context.api_version > 0 {
            body.extend_from_slice(&[0, 35, 0, 0, 0, 0]);
        } else {
            body.extend_from_slice(&[0, 0, 0, 0, 0, 1, 0, 3, 0, 90, 0, 99]);
        }
        let mut frame = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        frame.extend(body);
        Action::Replace(frame.into())
    });
    let error = Client::connect(config(&broker.bootstrap_servers())).await.unwrap_err();
    assert!(matches!(error, Error::UnsupportedVersion { .. }), "{error:?}");
    assert!(text(&error).contains("versions 90 to 99"), "{}", text(&error));
}

/// An answer with somebody else's number: the connection is given up, and what waited on it is asked again.
#[tokio::test]
async fn a_wrong_correlation_id_costs_the_connection_and_nothing_else() {
    let broker = start(1).await;
    topic(&broker, "t", 4, 100);
    for api_key in [ApiKey::Metadata, ApiKey::ListOffsets, ApiKey::Fetch] {
        let first = broker.requests(api_key);
        broker.on(api_key, move |context| {
            if context.index > first {
                return Action::Pass;
            }
            Action::Edit(Arc::new(|frame| {
                let mut wrong = frame.to_vec();
                wrong[7] ^= 0x55;
                wrong.into()
            }))
        });
    }
    let client = client(&broker).await;
    client.topics(&["t".to_owned()]).await.unwrap();
    client.list_offsets(&latest(0), IsolationLevel::ReadUncommitted).await.unwrap();
    for back in read(&client, (0..4).map(|p| target(&broker, "t", p, 0, 100)).collect()).await {
        back.assert_range(0, 100);
    }
}

#[tokio::test]
async fn requests_are_pipelined_on_one_connection() {
    let broker = start(1).await;
    topic(&broker, "t", 20, 10);
    let client = client(&broker).await;
    client.topics(&["t".to_owned()]).await.unwrap();
    let connections = broker.connections(1);
    broker.on(ApiKey::ListOffsets, |context| if context.index == 0 { Action::Delay(300 * MS) } else { Action::Pass });
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for partition in 0..20 {
        let client = client.clone();
        tasks.spawn(async move {
            let found = client.list_offsets(&latest(partition), IsolationLevel::ReadUncommitted).await.unwrap();
            assert_eq!(found.keys().next().unwrap().partition, partition);
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert!(broker.connections(1) - connections <= 1, "{} more connections", broker.connections(1) - connections);
}

/// A call that is given up leaves its answer on the way; nobody else may take it for theirs.
#[tokio::test]
async fn s_s13_the_answer_of_a_call_that_was_given_up_is_nobody_s() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 100);
    for records in 0..2 {
        crate::support::fill(&broker, "t", 1, records, 10, 0);
    }
    let client = client(&broker).await;
    client.list_offsets(&latest(0), IsolationLevel::ReadUncommitted).await.unwrap();
    broker
        .on(ApiKey::ListOffsets, |context| if context.index % 2 == 1 { Action::Delay(20 * MS) } else { Action::Pass });
    for _ in 0..20 {
        let wanted = latest(0);
        let given_up = tokio::time::timeout(5 * MS, client.list_offsets(&wanted, IsolationLevel::ReadUncommitted));
        assert!(given_up.await.is_err());
        let found = client.list_offsets(&latest(1), IsolationLevel::ReadUncommitted).await.unwrap();
        let (partition, found) = found.into_iter().next().unwrap();
        assert_eq!((partition.partition, found.offset), (1, Some(110)));
    }
    assert!(broker.connections(1) <= 2, "the connection lives on");
}

#[tokio::test]
async fn s_s13_two_readers_of_a_partition_and_one_that_is_cancelled() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 100);
    let client = client(&broker).await;
    for round in 0..50 {
        let cancelled =
            tokio::time::timeout(Duration::from_micros(100 * round), read_one(&client, &broker, "t", 0, 100));
        let (first, second, _) =
            tokio::join!(read_one(&client, &broker, "t", 0, 50), read_one(&client, &broker, "t", 50, 100), cancelled);
        first.assert_range(0, 50);
        second.assert_range(50, 100);
    }
}

/// A peer whose poll connection can't be made holds back neither metadata nor commits.
#[tokio::test]
async fn a_connection_that_is_being_made_holds_back_no_other() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 100);
    let client = client(&broker).await;
    client.list_offsets(&latest(0), IsolationLevel::ReadUncommitted).await.unwrap();
    // Connections from now on get no answer to their first request.
    broker.on(ApiKey::ApiVersions, |_| Action::Mute);
    let fetcher = ottla_client::Fetcher::start(&client, vec![target(&broker, "t", 0, 0, 100)]);
    let before = broker.requests(ApiKey::ApiVersions);
    eventually("the fetch connection", || broker.requests(ApiKey::ApiVersions) > before).await;
    let started = Instant::now();
    client.topics(&["t".to_owned()]).await.unwrap();
    client.list_offsets(&latest(0), IsolationLevel::ReadUncommitted).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    drop(fetcher);
}

#[tokio::test]
async fn a_throttle_is_kept_by_calls_too() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 10);
    let client = client(&broker).await;
    client.topics(&["t".to_owned()]).await.unwrap();
    let arrivals = Tally::default();
    let counter = arrivals.clone();
    broker.on(ApiKey::ListOffsets, move |context| {
        counter.add("list");
        if context.index == 0 { Action::Throttle(300 * MS) } else { Action::Pass }
    });
    client.list_offsets(&latest(0), IsolationLevel::ReadUncommitted).await.unwrap();
    let started = Instant::now();
    client.list_offsets(&latest(0), IsolationLevel::ReadUncommitted).await.unwrap();
    assert!(started.elapsed() >= 280 * MS, "{:?}", started.elapsed());
    assert_eq!(arrivals.get("list"), 2);
    sleep(MS).await;
}

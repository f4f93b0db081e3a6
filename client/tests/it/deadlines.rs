//! S-N12: every call ends within its limit, whatever the cluster does not do.

use crate::support::{BlackHole, closed_port, config, read, server, start, target, topic};
use ottla_client::{Client, ClientConfig, IsolationLevel, OffsetAndMetadata, OffsetSpec, Resolver, TopicPartition};
use ottla_embedded::{Action, EmbeddedBroker, messages::ApiKey};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

const LIMIT: Duration = Duration::from_secs(2);
const LIMIT_AND_A_TENTH: Duration = Duration::from_millis(2200);

fn limited(bootstrap_servers: &str) -> ClientConfig {
    let mut config = config(bootstrap_servers);
    config.default_api_timeout = LIMIT;
    config
}

#[track_caller]
fn assert_in_time(what: &str, started: Instant) {
    assert!(started.elapsed() < LIMIT_AND_A_TENTH, "{what}: {:?}", started.elapsed());
}

/// All calls at once, each of which must fail in time.
async fn every_call_fails_in_time(what: &str, client: &Client, broker: &EmbeddedBroker) {
    let partition = TopicPartition::new("t", 0);
    let wanted = BTreeMap::from([(partition.clone(), OffsetSpec::Latest)]);
    let offset = OffsetAndMetadata { offset: 1, leader_epoch: None, metadata: None };
    let offsets = BTreeMap::from([(partition, offset)]);
    let (names, ids) = (["t".to_owned()], BTreeMap::new());
    let started = Instant::now();
    tokio::join!(
        async {
            assert!(client.topics(&names).await.is_err(), "{what}");
            assert_in_time(&format!("{what}: topics"), started);
        },
        async {
            assert!(client.all_topics().await.is_err(), "{what}");
            assert_in_time(&format!("{what}: all_topics"), started);
        },
        async {
            assert!(client.list_offsets(&wanted, IsolationLevel::ReadUncommitted).await.is_err(), "{what}");
            assert_in_time(&format!("{what}: list_offsets"), started);
        },
        async {
            assert!(client.commit_offsets("g", &offsets, &ids).await.is_err(), "{what}");
            assert_in_time(&format!("{what}: commit_offsets"), started);
        },
        async {
            assert!(client.committed_offsets("g", None).await.is_err(), "{what}");
            assert_in_time(&format!("{what}: committed_offsets"), started);
        },
        async {
            assert!(client.committed_offsets("another", None).await.is_err(), "{what}");
            assert_in_time(&format!("{what}: finding a coordinator"), started);
        },
        async {
            assert!(read(client, vec![target(broker, "t", 0, 0, 10)]).await[0].error.is_some(), "{what}");
            assert_in_time(&format!("{what}: fetch"), started);
        },
    );
}

/// A broker, and a client that has talked to it through a name that can be pointed elsewhere.
async fn met() -> (EmbeddedBroker, Client, Arc<Mutex<SocketAddr>>) {
    let broker = EmbeddedBroker::builder().advertised(1, "broker.test", 7777).start().await.unwrap();
    topic(&broker, "t", 1, 10);
    let now = Arc::new(Mutex::new(broker.address(1).unwrap()));
    let resolved = now.clone();
    let mut config = limited("broker.test:7777");
    config.resolver = Resolver::from_fn(move |_, _| Ok(vec![*resolved.lock().unwrap()]));
    let client = Client::connect(config).await.unwrap();
    client.topics(&["t".to_owned()]).await.unwrap();
    client.committed_offsets("g", None).await.unwrap();
    (broker, client, now)
}

#[tokio::test]
async fn s_n12_connecting_to_nobody() {
    let hole = BlackHole::new();
    let (silent, _) = server(b"", false).await;
    for (what, address) in [("closed", closed_port().await), ("black hole", hole.address), ("silent", silent)] {
        let started = Instant::now();
        assert!(Client::connect(limited(&address.to_string())).await.is_err());
        assert_in_time(what, started);
    }
}

#[tokio::test]
async fn s_n12_the_port_is_closed() {
    let (broker, client, _) = met().await;
    broker.stop_node(1).await;
    every_call_fails_in_time("closed port", &client, &broker).await;
}

#[tokio::test]
async fn s_n12_the_address_is_a_black_hole() {
    let (broker, client, now) = met().await;
    let hole = BlackHole::new();
    *now.lock().unwrap() = hole.address;
    broker.disconnect_all();
    every_call_fails_in_time("black hole", &client, &broker).await;
}

#[tokio::test]
async fn s_n12_the_broker_is_mute() {
    let (broker, client, _) = met().await;
    for api_key in [
        ApiKey::Metadata,
        ApiKey::ListOffsets,
        ApiKey::OffsetCommit,
        ApiKey::OffsetFetch,
        ApiKey::FindCoordinator,
        ApiKey::Fetch,
    ] {
        broker.on(api_key, |_| Action::Mute);
    }
    every_call_fails_in_time("mute", &client, &broker).await;
}

#[tokio::test]
async fn s_n12_new_connections_get_no_answer() {
    let (broker, client, _) = met().await;
    broker.on(ApiKey::ApiVersions, |_| Action::Mute);
    broker.disconnect_all();
    every_call_fails_in_time("mute from the start", &client, &broker).await;
}

#[tokio::test]
async fn s_n12_only_the_coordinator_is_mute() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 10);
    let client = Client::connect(limited(&broker.bootstrap_servers())).await.unwrap();
    broker.on(ApiKey::FindCoordinator, |_| Action::Mute);
    let started = Instant::now();
    assert!(client.committed_offsets("g", None).await.is_err());
    assert_in_time("finding the coordinator", started);
}

//! Offsets in ZooKeeper 3.9: the store by itself, what goes wrong, and queries that have nothing else.

mod faults;
mod query;
mod store;
mod tls;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::time::Duration;

use ottla_stream::{
    Error, OffsetStore, StoreCommit, TopicPartition, ZooKeeperErrorKind, ZooKeeperOptions, ZooKeeperStore,
    ZooKeeperStoreBuilder,
};
use support::{ZooKeeper, java_or_skip};
use zookeeper_client::{Acls, Client, CreateMode};

/// A server that tests share; each has a group of its own, so no test stops it.
fn shared(what: &str) -> Option<&'static ZooKeeper> {
    static SERVER: OnceLock<ZooKeeper> = OnceLock::new();
    java_or_skip(what)?;
    Some(SERVER.get_or_init(ZooKeeper::start))
}

/// A store by its URL's end, and options.
fn store(server: &ZooKeeper, rest: &str, options: &[(&str, &str)]) -> ZooKeeperStore {
    let url = format!("zookeeper://{}{rest}", server.connect_string());
    let builder: ZooKeeperStoreBuilder = url.parse().expect("a URL");
    let (options, others) = ZooKeeperOptions::split(options.iter().copied()).expect("options");
    assert_eq!(others, []);
    builder.options(options).build()
}

fn offsets(of: &[(&str, i32, i64)]) -> BTreeMap<TopicPartition, i64> {
    of.iter().map(|(topic, partition, offset)| (TopicPartition::new(*topic, *partition), *offset)).collect()
}

/// A batch that ended at these offsets.
fn commit(of: &[(&str, i32, i64)]) -> StoreCommit {
    let mut commit = StoreCommit::default();
    commit.offsets = offsets(of);
    commit
}

/// What a store has of everything, or of these.
async fn loaded(
    store: &ZooKeeperStore,
    of: Option<&[(&str, i32)]>,
) -> ottla_stream::Result<BTreeMap<TopicPartition, i64>> {
    let of: Option<BTreeSet<TopicPartition>> =
        of.map(|of| of.iter().map(|(topic, partition)| TopicPartition::new(*topic, *partition)).collect());
    let stored = OffsetStore::load(store, of.as_ref()).await?;
    assert!(stored.not_offsets.is_empty());
    Ok(stored.offsets.into_iter().map(|(partition, stored)| (partition, stored.offset)).collect())
}

/// Stores what a batch ended at, and returns what the store says it holds.
async fn stored(
    store: &ZooKeeperStore,
    of: &[(&str, i32, i64)],
) -> ottla_stream::Result<BTreeMap<TopicPartition, i64>> {
    Ok(OffsetStore::store(store, &commit(of)).await?.committed)
}

#[track_caller]
fn kind(error: Error) -> ZooKeeperErrorKind {
    match error {
        Error::ZooKeeper(error) => error.source,
        other => panic!("not ZooKeeper's: {other:?}"),
    }
}

/// Another program that writes there.
struct Other(Client);

impl Other {
    async fn connect(server: &ZooKeeper) -> Self {
        let connector = Client::connector().with_session_timeout(Duration::from_secs(10));
        Self(connector.connect(&server.connect_string()).await.expect("a session"))
    }

    /// Writes a node, whatever it is now.
    async fn put(&self, path: &str, value: &[u8]) {
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let parent = &path[..path.rfind('/').expect("a path")];
        self.0.mkdir(parent, &options).await.expect("parents");
        match self.0.create(path, value, &options).await {
            Err(zookeeper_client::Error::NodeExists) => drop(self.0.set_data(path, value, None).await.expect("a node")),
            created => drop(created.expect("a node")),
        }
    }

    async fn get(&self, path: &str) -> Option<String> {
        match self.0.get_data(path).await {
            Ok((value, _)) => Some(String::from_utf8(value).expect("text")),
            Err(zookeeper_client::Error::NoNode) => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }
}

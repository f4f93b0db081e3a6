//! ZooKeeper as offset store, in the layout of Kafka's consumers before they had the brokers for that.

mod builder;
mod error;
mod node;
mod session;
#[cfg(feature = "zookeeper-tls")]
mod tls;
mod write;

pub use builder::{ZooKeeperOffset, ZooKeeperStoreBuilder};
pub use error::{ZooKeeperError, ZooKeeperErrorKind};

use super::{CommitOutcome, OffsetStore, StoreCommit, StoreFuture, StoredOffset, StoredOffsets};
use crate::{OffsetOutOfRange, OptionError, Result};
use node::Paths;
use ottla_client::TopicPartition;
use session::{Reply, Request, Session};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::time::Instant;

/// The offsets of a group in ZooKeeper: the next offset to read of each partition, as decimal text in
/// `/consumers/<group>/offsets/<topic>/<partition>`, below another path where the servers' names end in one.
///
/// - **Read**: digits, with white space around them. Anything else is an error that names the node, and never taken for none; a node that is
///   not there is none. What is outside of the log is read from the log's start, with a warning, unless `ottla.offsetOutOfRange` says other.
/// - **Written** by version: a node that somebody else wrote since it was loaded, or written from here, is left as it is, with the error
///   [`OtherWriter`](ZooKeeperErrorKind::OtherWriter), again and again until the offsets are loaded again. What is unchanged is not written.
/// - Missing parents are created. Where there are credentials, created nodes can be written by who has the same, and read by all;
///   `/consumers`, which all groups share, stays open.
/// - **Sessions** that expire and connections that break are made anew, until the deadline of the call (`ottla.zookeeper.timeout.ms`).
/// - **Encrypted** with the cargo feature `zookeeper-tls`, where `ottla.zookeeper.ssl.truststore.location` is given.
///
/// There is no place for a batch's id: a query that has nothing but this store counts its batches from 0 at each start. It connects when it is
/// first asked, from the tokio runtime it is asked in, and keeps its session until it is dropped.
#[derive(Debug)]
pub struct ZooKeeperStore {
    /// With `host:port`, commas and the path, for messages.
    servers: String,
    paths: Paths,
    offset: ZooKeeperOffset,
    session: Session,
    /// What is known of nodes. Never held over an await.
    held: Mutex<BTreeMap<TopicPartition, Held>>,
}

/// What is known of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Held {
    /// `None`: there is none.
    node: Option<Node>,
    /// Writes onto this that nobody knows the fate of: at most one of them was carried out.
    in_doubt: BTreeSet<i64>,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Node {
    version: i32,
    /// An offset, or text that is none, cut short.
    value: Result<i64, String>,
}

impl Node {
    fn text(&self) -> String {
        self.value.as_ref().map_or_else(Clone::clone, ToString::to_string)
    }
}

impl ZooKeeperStore {
    /// The offsets of `group`. `connect_string` is ZooKeeper's: `host:port`, several with commas between, and the path to begin below, if there
    /// is one.
    ///
    /// # Errors
    /// Servers, a path or a group that ZooKeeper can't have.
    pub fn builder(connect_string: &str, group: &str) -> Result<ZooKeeperStoreBuilder, OptionError> {
        ZooKeeperStoreBuilder::new(connect_string, group)
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<TopicPartition, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn load(&self, partitions: Option<&BTreeSet<TopicPartition>>) -> Result<StoredOffsets> {
        let deadline = self.session.deadline();
        let listed;
        let partitions = match partitions {
            Some(partitions) => partitions,
            None => {
                listed = self.list(deadline).await?;
                &listed
            }
        };
        let nodes = self.read(partitions.iter(), deadline).await?;
        let mut stored = StoredOffsets::default();
        for (partition, node) in &nodes {
            match node.as_ref().map(|node| &node.value) {
                Some(Ok(offset)) => {
                    let offset = StoredOffset { offset: *offset, batch_id: None, leader_epoch: None, topic_id: None };
                    stored.offsets.insert(partition.clone(), offset);
                }
                Some(Err(value)) => return Err(self.not_an_offset(partition, value.clone()).into()),
                None => {}
            }
        }
        let held = nodes.into_iter().map(|(partition, node)| (partition, Held { node, in_doubt: BTreeSet::new() }));
        self.held().extend(held);
        Ok(stored)
    }

    fn not_an_offset(&self, partition: &TopicPartition, value: String) -> ZooKeeperError {
        let path = self.paths.partition(partition);
        self.session.error(ZooKeeperErrorKind::NotAnOffset { path, value })
    }

    /// All partitions that have a node.
    async fn list(&self, deadline: Instant) -> Result<BTreeSet<TopicPartition>, ZooKeeperError> {
        let topics = self.children(vec![self.paths.offsets()], deadline).await?.into_iter().flatten();
        let topics: Vec<String> = topics.collect();
        let paths = topics.iter().map(|topic| self.paths.topic(topic)).collect();
        let mut partitions = BTreeSet::new();
        for (topic, names) in topics.iter().zip(self.children(paths, deadline).await?) {
            for name in names {
                let Some(partition) = node::partition_number(&name) else {
                    let path = format!("{}/{name}", self.paths.topic(topic));
                    return Err(self.session.error(ZooKeeperErrorKind::NotAPartition { path }));
                };
                partitions.insert(TopicPartition::new(topic, partition));
            }
        }
        Ok(partitions)
    }

    /// The names of the children of each of these nodes: none, where there is no such node.
    async fn children(&self, paths: Vec<String>, deadline: Instant) -> Result<Vec<Vec<String>>, ZooKeeperError> {
        let requests = paths.iter().map(|path| Request::Children { path: path.clone() }).collect();
        let answers = self.session.all(requests, deadline).await?.into_iter().zip(paths);
        answers
            .map(|(answer, path)| match answer.reply {
                Reply::Children(names) => Ok(names),
                Reply::NoNode => Ok(Vec::new()),
                other => Err(self.unexpected(path, other)),
            })
            .collect()
    }

    /// What the nodes of these partitions are now.
    async fn read(
        &self,
        partitions: impl Iterator<Item = &TopicPartition>,
        deadline: Instant,
    ) -> Result<BTreeMap<TopicPartition, Option<Node>>, ZooKeeperError> {
        let partitions: Vec<&TopicPartition> = partitions.collect();
        let request = |partition: &&TopicPartition| Request::Get { path: self.paths.partition(partition) };
        let answers = self.session.all(partitions.iter().map(request).collect(), deadline).await?;
        let mut nodes = BTreeMap::new();
        for (partition, answer) in partitions.into_iter().zip(answers) {
            let node = match answer.reply {
                Reply::Node { value, version } => Some(Node { version, value: node::offset(&value) }),
                Reply::NoNode => None,
                other => return Err(self.unexpected(self.paths.partition(partition), other)),
            };
            nodes.insert(partition.clone(), node);
        }
        Ok(nodes)
    }

    /// The error of a request that was not answered with what it asked for.
    fn unexpected(&self, path: String, reply: Reply) -> ZooKeeperError {
        let source = match reply {
            Reply::Refused(error) => error.into(),
            other => format!("the answer makes no sense: {other:?}").into(),
        };
        self.session.error(ZooKeeperErrorKind::Refused { path, source })
    }
}

impl OffsetStore for ZooKeeperStore {
    fn name(&self) -> String {
        format!("ZooKeeper group '{}' at {}", self.paths.group, self.servers)
    }

    fn load<'a>(&'a self, partitions: Option<&'a BTreeSet<TopicPartition>>) -> StoreFuture<'a, StoredOffsets> {
        Box::pin(self.load(partitions))
    }

    fn store<'a>(&'a self, commit: &'a StoreCommit) -> StoreFuture<'a, CommitOutcome> {
        Box::pin(self.commit(commit))
    }

    /// What retention took is what such stores stumble over: they go on with what there is.
    fn offset_out_of_range(&self) -> Option<OffsetOutOfRange> {
        Some(OffsetOutOfRange::Earliest)
    }
}

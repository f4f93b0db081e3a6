//! Starts nodes on free ports in a fresh folder, waits until they serve, and removes all of it in the end.

use std::fmt::Write as _;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{node::Node, probe};
use crate::error::{Error, Result};
use crate::java::client::JavaClient;
use crate::java::helper::JavaHelper;
use crate::{Version, keeper, ports};

const START_LIMIT: Duration = Duration::from_secs(180);

/// A running cluster. Its Java clients' operations ([`JavaClient`]) are its own by `Deref`.
pub struct KafkaCluster {
    nodes: Vec<Node>,
    java: JavaClient,
    folder: Folder,
}

/// Says what [`KafkaCluster::builder`] starts.
#[derive(Clone, Debug)]
pub struct KafkaClusterBuilder {
    nodes: usize,
    version: Version,
    properties: Vec<(String, String)>,
}

impl KafkaClusterBuilder {
    /// How many nodes, each broker and controller; 1 by default.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Which Kafka; 4.3 by default.
    #[must_use]
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// A broker property on every node, over the harness's own. In the value, `{id}`, `{port}`, `{controller_port}` and
    /// `{extra_port}` stand for the node's: with `listeners`, `advertised.listeners` and
    /// `listener.security.protocol.map`, a second listener comes to [`Node::extra_port`].
    #[must_use]
    pub fn property(mut self, key: &str, value: &str) -> Self {
        self.properties.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Starts the nodes and returns when each knows all of them.
    ///
    /// # Panics
    /// When that fails, with the end of the nodes' logs.
    #[track_caller]
    #[must_use]
    pub fn start(self) -> KafkaCluster {
        self.try_start().unwrap_or_else(|e| panic!("{e}"))
    }

    /// As [`start`](Self::start).
    ///
    /// # Errors
    /// A sentence with the end of the nodes' logs.
    pub fn try_start(self) -> Result<KafkaCluster> {
        JavaHelper::warm_up();
        let mut tries = 0;
        loop {
            tries += 1;
            match self.start_once() {
                // Someone took a port between our look and the node's bind.
                Err(e) if tries < 4 && e.to_string().contains("Address already in use") => {}
                other => return other,
            }
        }
    }

    fn start_once(&self) -> Result<KafkaCluster> {
        let folder = Folder::new()?;
        let cluster_id = cluster_id();
        let nodes: Vec<(i32, Ports)> = (1..=self.nodes).map(|id| (id as i32, Ports::free())).collect();
        let voters: Vec<String> =
            nodes.iter().map(|(id, ports)| format!("{id}@127.0.0.1:{}", ports.controller)).collect();
        let mut started = Vec::new();
        for (id, ports) in nodes {
            let dir = folder.path.join(format!("node{id}"));
            fs::create_dir_all(&dir).map_err(|e| Error::doing(dir.display(), e))?;
            let properties = self.properties(&dir, id, &ports, &voters.join(","));
            fs::write(dir.join("server.properties"), properties).map_err(|e| Error::doing(dir.display(), e))?;
            let (version, cluster_size, cluster_id) = (self.version, self.nodes, cluster_id.clone());
            let (port, extra_port) = (ports.client, ports.extra);
            let node = Node { id, port, extra_port, version, cluster_id, cluster_size, dir, process: Mutex::new(None) };
            node.spawn()?;
            started.push(node);
        }
        if let Err(e) = started.iter().try_for_each(await_ready) {
            folder.keep();
            return Err(Error::new(format!("{e}\nlogs are kept in {}", folder.path.display())));
        }
        let addresses: Vec<String> = started.iter().map(Node::address).collect();
        Ok(KafkaCluster { nodes: started, java: JavaClient::new(&addresses.join(",")), folder })
    }

    fn properties(&self, dir: &Path, id: i32, ports: &Ports, voters: &str) -> String {
        let replicas = self.nodes.min(3).to_string();
        let data = dir.join("data").display().to_string();
        let id = id.to_string();
        let ours: [(&str, &str); 26] = [
            ("process.roles", "broker,controller"),
            ("node.id", &id),
            ("controller.quorum.voters", voters),
            ("controller.listener.names", "CONTROLLER"),
            ("listeners", "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"),
            ("advertised.listeners", "PLAINTEXT://127.0.0.1:{port}"),
            ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
            ("inter.broker.listener.name", "PLAINTEXT"),
            ("log.dirs", &data),
            ("default.replication.factor", &replicas),
            ("offsets.topic.replication.factor", &replicas),
            ("transaction.state.log.replication.factor", &replicas),
            ("transaction.state.log.min.isr", "1"),
            ("offsets.topic.num.partitions", "4"),
            ("transaction.state.log.num.partitions", "4"),
            ("group.initial.rebalance.delay.ms", "0"),
            ("auto.create.topics.enable", "false"),
            // Fixtures have timestamps of years ago.
            ("log.retention.ms", "-1"),
            // Retention, deletion and compaction within a test's patience.
            ("log.initial.task.delay.ms", "500"),
            ("log.retention.check.interval.ms", "1000"),
            ("log.cleaner.backoff.ms", "200"),
            ("log.cleaner.dedupe.buffer.size", "8388608"),
            ("num.network.threads", "2"),
            ("num.io.threads", "4"),
            ("background.threads", "2"),
            ("num.recovery.threads.per.data.dir", "1"),
        ];
        let theirs = self.properties.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        let mut text = String::new();
        // The last of two equal keys counts.
        for (key, value) in ours.into_iter().chain(theirs) {
            let _ = writeln!(text, "{key}={value}");
        }
        text.replace("{id}", &id)
            .replace("{port}", &ports.client.to_string())
            .replace("{controller_port}", &ports.controller.to_string())
            .replace("{extra_port}", &ports.extra.to_string())
    }
}

/// A node's.
struct Ports {
    client: u16,
    controller: u16,
    extra: u16,
}

impl Ports {
    fn free() -> Self {
        Self { client: ports::free_port(), controller: ports::free_port(), extra: ports::free_port() }
    }
}

impl KafkaCluster {
    /// A cluster of its own, for tests that kill nodes or need other properties.
    #[must_use]
    pub fn builder() -> KafkaClusterBuilder {
        KafkaClusterBuilder { nodes: 1, version: Version::V4_3, properties: Vec::new() }
    }

    /// The one-node cluster that all tests of a binary share, started by the first that asks.
    ///
    /// # Panics
    /// When it can't be started.
    #[track_caller]
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Result<KafkaCluster>> = OnceLock::new();
        match SHARED.get_or_init(|| Self::builder().try_start()) {
            Ok(cluster) => cluster,
            Err(e) => panic!("{e}"),
        }
    }

    /// The addresses of all nodes, comma-separated.
    #[must_use]
    pub fn bootstrap_servers(&self) -> &str {
        self.java.bootstrap_servers()
    }

    /// All nodes, in the order of their ids.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node with this id, from 1 on.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    #[must_use]
    pub fn node(&self, id: i32) -> &Node {
        self.nodes.iter().find(|n| n.id == id).unwrap_or_else(|| panic!("no node {id}"))
    }

    /// The folder with the nodes' properties, logs and data.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Creates a topic under a new name that begins with `prefix`, and returns the name once each running node knows it
    /// with all its leaders. Replicas as `default.replication.factor`: all nodes, at most 3.
    ///
    /// # Panics
    /// When that fails.
    #[track_caller]
    pub fn create_topic(&self, prefix: &str, partitions: u32, config: &[(&str, &str)]) -> String {
        let topic = unique(prefix);
        self.create_topic_named(&topic, partitions, config);
        topic
    }

    /// As [`create_topic`](Self::create_topic), with this very name.
    ///
    /// # Panics
    /// When that fails.
    #[track_caller]
    pub fn create_topic_named(&self, topic: &str, partitions: u32, config: &[(&str, &str)]) {
        self.java.create_topic(topic, partitions, config);
        self.await_topic(topic, Some(partitions as usize));
    }

    /// Deletes a topic and returns once no running node knows it.
    ///
    /// # Panics
    /// When that fails.
    #[track_caller]
    pub fn delete_topic(&self, topic: &str) {
        self.java.delete_topic(topic);
        self.await_topic(topic, None);
    }

    /// Raises a topic's partitions to `total` and returns once each running node knows them.
    ///
    /// # Panics
    /// When that fails.
    #[track_caller]
    pub fn add_partitions(&self, topic: &str, total: u32) {
        self.java.add_partitions(topic, total);
        self.await_topic(topic, Some(total as usize));
    }

    #[track_caller]
    fn await_topic(&self, topic: &str, partitions: Option<usize>) {
        let deadline = Instant::now() + Duration::from_secs(60);
        for node in self.nodes.iter().filter(|n| n.process_id().is_some()) {
            while probe::metadata(node.port, Some(topic)).ok().map(|m| m.led_partitions) != Some(partitions) {
                assert!(
                    Instant::now() < deadline,
                    "node {} does not see {topic} with {partitions:?} partitions",
                    node.id
                );
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

impl Deref for KafkaCluster {
    type Target = JavaClient;

    fn deref(&self) -> &JavaClient {
        &self.java
    }
}

impl Drop for KafkaCluster {
    fn drop(&mut self) {
        self.java.forget();
        self.nodes.clear();
        if thread::panicking() {
            self.folder.keep();
            eprintln!("the brokers' logs are kept in {}", self.folder.path.display());
        }
    }
}

/// Waits until the node serves and knows all nodes of its cluster and a controller.
pub(super) fn await_ready(node: &Node) -> Result<()> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        let found = probe::metadata(node.port, None);
        if found.as_ref().is_ok_and(|m| m.brokers >= node.cluster_size && m.controller >= 0) {
            return Ok(());
        }
        if node.has_ended() {
            return Err(Error::new(format!("node {} ended instead of serving:\n{}", node.id, node.log_tail())));
        }
        if Instant::now() > deadline {
            let seen = found.map(|m| m.brokers);
            let tail = node.log_tail();
            return Err(Error::new(format!(
                "node {} is not ready after {START_LIMIT:?} (brokers seen: {seen:?}):\n{tail}",
                node.id
            )));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// A name that no other topic, group or transaction of this process has.
pub(crate) fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Any 16 bytes in base64url serve; these look like what they are for.
fn cluster_id() -> String {
    format!("ottla-test-{:011}", std::process::id())
}

/// A fresh folder that goes away with its owner or with the process, unless it is kept to be looked at.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    dir: Mutex<Option<TempDir>>,
}

impl Folder {
    pub(crate) fn new() -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("ottla-test-")
            .tempdir()
            .map_err(|e| Error::doing("a temporary folder", e))?;
        let folder = Self { path: dir.path().to_owned(), dir: Mutex::new(Some(dir)) };
        keeper::watch_folder(&folder.path);
        if std::env::var("OTTLA_KEEP").is_ok_and(|v| v == "1") {
            folder.keep();
        }
        Ok(folder)
    }

    pub(crate) fn keep(&self) {
        keeper::forget_folder(&self.path);
        if let Some(dir) = self.dir.lock().ok().and_then(|mut d| d.take()) {
            let _ = dir.keep();
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        keeper::forget_folder(&self.path);
    }
}

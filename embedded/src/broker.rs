//! The broker as the process that runs it sees it: start and stop, and the state without sockets.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::ApiKey;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::api::CommittedOffset;
use crate::batch;
use crate::builder::Builder;
use crate::fault::{Action, RecordedRequest, RequestContext};
use crate::log::PartitionLog;
use crate::server;
use crate::state::{Cluster, Partition, Shared, now_ms};

/// Why the direct interface refuses something; Kafka's error with what it was about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{subject}: {error} (error code {error_code})")]
pub struct BrokerError {
    subject: String,
    error: String,
    error_code: i16,
}

impl BrokerError {
    fn new(subject: impl fmt::Display, error: ResponseError) -> Self {
        Self { subject: subject.to_string(), error: error.to_string(), error_code: error.code() }
    }

    /// Kafka's error code.
    pub fn error_code(&self) -> i16 {
        self.error_code
    }
}

#[derive(Debug)]
struct Listener {
    address: SocketAddr,
    /// `None` while the node is stopped.
    task: Option<JoinHandle<()>>,
}

/// A Kafka cluster in this process's memory, on real sockets. Dropping it stops everything.
pub struct EmbeddedBroker {
    shared: Arc<Shared>,
    listeners: Mutex<BTreeMap<i32, Listener>>,
    disconnect: watch::Sender<u64>,
}

impl fmt::Debug for EmbeddedBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedBroker").field("bootstrap_servers", &self.bootstrap_servers()).finish_non_exhaustive()
    }
}

impl Drop for EmbeddedBroker {
    fn drop(&mut self) {
        self.listeners(|listeners| listeners.values().filter_map(|l| l.task.as_ref()).for_each(JoinHandle::abort));
    }
}

impl EmbeddedBroker {
    /// A broker with other settings than the default ones.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts one node with all APIs and without topics.
    ///
    /// # Errors
    /// When a port can't be had.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn start() -> io::Result<Self> {
        Builder::default().start().await
    }

    pub(crate) fn serve(shared: Shared, listeners: Vec<(i32, SocketAddr, TcpListener)>) -> Self {
        let broker = Self { shared: Arc::new(shared), listeners: Mutex::default(), disconnect: watch::Sender::new(0) };
        for (node, address, listener) in listeners {
            let task = broker.listen(node, listener);
            broker.listeners(|listeners| listeners.insert(node, Listener { address, task: Some(task) }));
        }
        broker
    }

    fn listen(&self, node: i32, listener: TcpListener) -> JoinHandle<()> {
        tokio::spawn(server::listen(Arc::clone(&self.shared), node, listener, self.disconnect.subscribe()))
    }

    fn listeners<T>(&self, act: impl FnOnce(&mut BTreeMap<i32, Listener>) -> T) -> T {
        act(&mut self.listeners.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Closes all ports and connections, and waits until the ports are closed.
    pub async fn shutdown(self) {
        for node in self.nodes() {
            self.stop_node(node).await;
        }
    }

    /// Where clients begin: `host:port` of every node, with commas, as in `bootstrap.servers`. These are the ports listened on, also
    /// where another address is advertised.
    pub fn bootstrap_servers(&self) -> String {
        let addresses =
            self.listeners(|listeners| listeners.values().map(|l| l.address.to_string()).collect::<Vec<_>>());
        addresses.join(",")
    }

    /// The numbers of the nodes.
    pub fn nodes(&self) -> Vec<i32> {
        self.listeners(|listeners| listeners.keys().copied().collect())
    }

    /// Where a node listens, or listened before it was stopped.
    pub fn address(&self, node: i32) -> Option<SocketAddr> {
        self.listeners(|listeners| listeners.get(&node).map(|listener| listener.address))
    }

    /// Closes a node's port and its connections, as if it had crashed. The node keeps what it leads; see [`Self::set_leader`].
    pub async fn stop_node(&self, node: i32) {
        let task = self.listeners(|listeners| listeners.get_mut(&node).and_then(|listener| listener.task.take()));
        if let Some(task) = task {
            task.abort();
            // It ends as cancelled, which is what was asked for.
            let _ = task.await;
        }
    }

    /// Starts a stopped node again on the port it had.
    ///
    /// # Errors
    /// When the node does not exist or its port was taken meanwhile.
    pub async fn start_node(&self, node: i32) -> io::Result<()> {
        let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("there is no node {node}"));
        let address = self.address(node).ok_or_else(unknown)?;
        if self.listeners(|listeners| listeners.get(&node).is_some_and(|listener| listener.task.is_some())) {
            return Ok(());
        }
        let task = self.listen(node, TcpListener::bind(address).await?);
        self.listeners(|listeners| {
            if let Some(listener) = listeners.get_mut(&node) {
                listener.task = Some(task);
            }
        });
        Ok(())
    }

    /// Closes all connections of all nodes; the ports stay open.
    pub fn disconnect_all(&self) {
        self.disconnect.send_modify(|count| *count = count.wrapping_add(1));
    }

    // Topics and records.

    /// Makes a topic with partitions 0 until `partitions`, with configuration as in `kafka-topics --config`. The broker acts on
    /// `message.timestamp.type` and `max.message.bytes`; it keeps the rest. Returns the topic's id.
    ///
    /// # Errors
    /// When the topic exists, its name is illegal or there are no partitions.
    pub fn create_topic(&self, topic: &str, partitions: i32, config: &[(&str, &str)]) -> Result<[u8; 16], BrokerError> {
        let config = config.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let replication_factor = i16::try_from(self.nodes().len()).unwrap_or(1).min(3);
        self.shared
            .update(|cluster| cluster.create_topic(topic, partitions, replication_factor, config))
            .map(|id| id.into_bytes())
            .map_err(|error| BrokerError::new(topic, error))
    }

    /// Deletes a topic with its records and what groups committed for it, as brokers do.
    ///
    /// # Errors
    /// When there is no such topic.
    pub fn delete_topic(&self, topic: &str) -> Result<(), BrokerError> {
        let deleted = self.shared.update(|cluster| cluster.delete_topic(topic));
        deleted.map(drop).map_err(|error| BrokerError::new(topic, error))
    }

    /// The id of a topic.
    pub fn topic_id(&self, topic: &str) -> Option<[u8; 16]> {
        self.shared.with(|cluster| cluster.topics.get(topic).map(|found| found.id.into_bytes()))
    }

    fn update_partition<T>(
        &self,
        topic: &str,
        partition: i32,
        act: impl FnOnce(&mut Partition) -> Result<T, ResponseError>,
    ) -> Result<T, BrokerError> {
        let act = |cluster: &mut Cluster| {
            act(cluster.partition_mut(topic, partition).ok_or(ResponseError::UnknownTopicOrPartition)?)
        };
        self.shared.update(act).map_err(|error| BrokerError::new(format_args!("{topic}-{partition}"), error))
    }

    fn log<T>(&self, topic: &str, partition: i32, read: impl FnOnce(&PartitionLog) -> T) -> Result<T, BrokerError> {
        let found = self.shared.with(|cluster| cluster.partition(topic, partition).map(|found| read(&found.log)));
        let unknown = || BrokerError::new(format_args!("{topic}-{partition}"), ResponseError::UnknownTopicOrPartition);
        found.ok_or_else(unknown)
    }

    /// Appends record batches (format v2) as if produced: the broker writes base offset and leader epoch, and the append time where the
    /// topic says so. Unlike Produce it takes batches with gaps and control batches. Returns the first batch's base offset.
    ///
    /// # Errors
    /// When the partition does not exist or the bytes aren't whole batches with their CRC.
    pub fn append(&self, topic: &str, partition: i32, batches: Bytes) -> Result<i64, BrokerError> {
        let log_append_time_ms = self
            .shared
            .with(|cluster| cluster.topics.get(topic).is_some_and(|topic| topic.is_log_append_time()))
            .then(now_ms);
        self.update_partition(topic, partition, |partition| {
            let base_offset = partition.log.end_offset();
            for (header, bytes) in batch::split(batches)? {
                partition.log.append(&header, &bytes, partition.leader_epoch, log_append_time_ms)?;
            }
            Ok(base_offset)
        })
    }

    /// Appends any bytes, unread and unchanged: an older format, damage, whatever a test needs. They stand for the offsets from the
    /// log's end until `next_offset` (exclusive); without bytes that is a gap, as compaction leaves.
    ///
    /// # Errors
    /// When the partition does not exist.
    pub fn append_raw(&self, topic: &str, partition: i32, bytes: Bytes, next_offset: i64) -> Result<(), BrokerError> {
        self.update_partition(topic, partition, |partition| {
            partition.log.append_raw(bytes, next_offset, partition.leader_epoch);
            Ok(())
        })
    }

    /// Writes the marker that ends a transaction whose batches came by [`Self::append`].
    ///
    /// # Errors
    /// When the partition does not exist.
    pub fn end_transaction(
        &self,
        topic: &str,
        partition: i32,
        producer_id: i64,
        producer_epoch: i16,
        committed: bool,
    ) -> Result<(), BrokerError> {
        self.update_partition(topic, partition, |partition| {
            let epoch = partition.leader_epoch;
            partition.log.end_transaction(producer_id, producer_epoch, committed, now_ms(), epoch)
        })
    }

    /// Deletes the records before an offset (exclusive). Returns the new log start.
    ///
    /// # Errors
    /// When the partition does not exist.
    pub fn delete_records(&self, topic: &str, partition: i32, before_offset: i64) -> Result<i64, BrokerError> {
        self.update_partition(topic, partition, |partition| {
            partition.log.delete_records(before_offset);
            Ok(partition.log.start_offset())
        })
    }

    /// Loses the batches that hold `offset` or later ones, as an unclean election does, and starts a new leader epoch.
    /// Returns the new end.
    ///
    /// # Errors
    /// When the partition does not exist.
    pub fn truncate(&self, topic: &str, partition: i32, offset: i64) -> Result<i64, BrokerError> {
        self.update_partition(topic, partition, |partition| {
            partition.log.truncate(offset);
            partition.leader_epoch = partition.leader_epoch.saturating_add(1);
            Ok(partition.log.end_offset())
        })
    }

    /// The first offset that can be read.
    ///
    /// # Errors
    /// When the partition does not exist.
    pub fn log_start_offset(&self, topic: &str, partition: i32) -> Result<i64, BrokerError> {
        self.log(topic, partition, PartitionLog::start_offset)
    }

    /// The offset that the next record gets, which is the high watermark too.
    ///
    /// # Errors
    /// When the partition does not exist.
    pub fn end_offset(&self, topic: &str, partition: i32) -> Result<i64, BrokerError> {
        self.log(topic, partition, PartitionLog::end_offset)
    }

    /// The end for readers of committed records only.
    ///
    /// # Errors
    /// When the partition does not exist.
    pub fn last_stable_offset(&self, topic: &str, partition: i32) -> Result<i64, BrokerError> {
        self.log(topic, partition, PartitionLog::last_stable_offset)
    }

    // Leaders.

    /// The node that leads a partition, and its epoch.
    ///
    /// # Errors
    /// When the partition does not exist.
    pub fn leader(&self, topic: &str, partition: i32) -> Result<(i32, i32), BrokerError> {
        self.update_partition(topic, partition, |partition| Ok((partition.leader, partition.leader_epoch)))
    }

    /// Makes a node the leader, with the next epoch; the others answer NOT_LEADER_OR_FOLLOWER from now on. With -1 nobody leads, and
    /// Metadata answers LEADER_NOT_AVAILABLE.
    ///
    /// # Errors
    /// When the partition does not exist.
    pub fn set_leader(&self, topic: &str, partition: i32, node: i32) -> Result<(), BrokerError> {
        self.update_partition(topic, partition, |partition| {
            partition.leader = node;
            partition.leader_epoch = partition.leader_epoch.saturating_add(1);
            if node >= 0 && !partition.replicas.contains(&node) {
                partition.replicas.push(node);
            }
            Ok(())
        })
    }

    /// Starts the next leader epoch with the same leader.
    ///
    /// # Errors
    /// When the partition does not exist.
    pub fn bump_leader_epoch(&self, topic: &str, partition: i32) -> Result<(), BrokerError> {
        self.update_partition(topic, partition, |partition| {
            partition.leader_epoch = partition.leader_epoch.saturating_add(1);
            Ok(())
        })
    }

    // Groups.

    /// What a group committed for a partition.
    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<CommittedOffset> {
        let key = (topic.to_owned(), partition);
        self.shared.with(|cluster| cluster.groups.get(group)?.offsets.get(&key).cloned())
    }

    /// Commits for a group, whatever its members think.
    pub fn commit(&self, group: &str, topic: &str, partition: i32, committed: CommittedOffset) {
        self.shared.update(|cluster| {
            let group = cluster.groups.entry(group.to_owned()).or_default();
            group.offsets.insert((topic.to_owned(), partition), committed);
        });
    }

    /// The node that coordinates a group or a transactional id.
    pub fn coordinator(&self, key: &str) -> i32 {
        self.shared.with(|cluster| cluster.coordinator(key))
    }

    /// Moves the coordinator of a group or a transactional id; the others answer NOT_COORDINATOR from now on.
    pub fn set_coordinator(&self, key: &str, node: i32) {
        self.shared.update(|cluster| cluster.coordinators.insert(key.to_owned(), node));
    }

    // Faults and what arrived.

    /// Asks `hook` about every request of an API before it is handled. Of several hooks the newest is asked first; the first that does
    /// not pass decides. A hook runs on a connection's task: it must not block.
    pub fn on(&self, api_key: ApiKey, hook: impl Fn(&RequestContext<'_>) -> Action + Send + Sync + 'static) {
        self.shared.faults.add(api_key, Arc::new(hook));
    }

    /// Removes the hooks of an API.
    pub fn clear_hooks(&self, api_key: ApiKey) {
        self.shared.faults.clear(api_key);
    }

    /// How many requests of an API arrived, on all nodes.
    pub fn requests(&self, api_key: ApiKey) -> u64 {
        self.shared.faults.requests(api_key)
    }

    /// The newest request of an API.
    pub fn last_request(&self, api_key: ApiKey) -> Option<RecordedRequest> {
        self.shared.faults.last_request(api_key)
    }

    /// How many connections a node accepted.
    pub fn connections(&self, node: i32) -> u64 {
        self.shared.faults.connections(node)
    }
}

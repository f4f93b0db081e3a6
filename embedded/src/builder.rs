//! How a broker is set up before it starts.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;

use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::VersionRange;
use tokio::net::TcpListener;

use crate::broker::EmbeddedBroker;
use crate::request::APIS;
use crate::state::{Cluster, FIRST_NODE_ID, Node, Shared};

/// The settings of an [`EmbeddedBroker`].
#[derive(Debug, Clone)]
pub struct Builder {
    nodes: i32,
    versions: BTreeMap<i16, VersionRange>,
    advertised: BTreeMap<i32, (String, u16)>,
    auto_create_topics: bool,
    default_partitions: i32,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            nodes: 1,
            versions: APIS.iter().map(|&(api_key, range)| (api_key as i16, range)).collect(),
            advertised: BTreeMap::new(),
            auto_create_topics: false,
            default_partitions: 1,
        }
    }
}

impl Builder {
    /// How many brokers the cluster has, each with its own port; 1 if not set, at least 1. They are numbered from 1, and partition `p`
    /// of a topic is led by the broker `1 + p % nodes`.
    pub fn nodes(mut self, nodes: u16) -> Self {
        self.nodes = i32::from(nodes.max(1));
        self
    }

    /// Offers only these versions of an API, as an older (or newer) broker does. Versions that the codecs lack are left out; when
    /// none is left, or the broker hasn't the API, the API isn't offered.
    pub fn api_versions(mut self, api_key: ApiKey, versions: RangeInclusive<i16>) -> Self {
        if let Some(range) = self.versions.get_mut(&(api_key as i16)) {
            *range = range.intersect(&VersionRange { min: *versions.start(), max: *versions.end() });
            if range.is_empty() {
                self.versions.remove(&(api_key as i16));
            }
        }
        self
    }

    /// Does not offer an API; a request of it closes the connection.
    pub fn without_api(mut self, api_key: ApiKey) -> Self {
        self.versions.remove(&(api_key as i16));
        self
    }

    /// Tells clients another address of a node than the one it listens on.
    pub fn advertised(mut self, node: i32, host: impl Into<String>, port: u16) -> Self {
        self.advertised.insert(node, (host.into(), port));
        self
    }

    /// Makes topics that a Metadata request names, if the request allows it; off if not set.
    pub fn auto_create_topics(mut self, enabled: bool) -> Self {
        self.auto_create_topics = enabled;
        self
    }

    /// How many partitions a topic gets when nobody says; 1 if not set, at least 1.
    pub fn default_partitions(mut self, partitions: u16) -> Self {
        self.default_partitions = i32::from(partitions.max(1));
        self
    }

    /// Listens on free ports of 127.0.0.1 and serves in tasks of the current tokio runtime.
    ///
    /// # Errors
    /// When a port can't be had.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn start(self) -> io::Result<EmbeddedBroker> {
        let mut listeners = Vec::new();
        let mut nodes = Vec::new();
        for id in FIRST_NODE_ID..FIRST_NODE_ID + self.nodes {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            let address = listener.local_addr()?;
            let (host, port) =
                self.advertised.get(&id).cloned().unwrap_or_else(|| (address.ip().to_string(), address.port()));
            nodes.push(Node { id, host, port: i32::from(port) });
            listeners.push((id, address, listener));
        }
        let shared = Shared::new(Cluster::new(nodes), self.versions, self.auto_create_topics, self.default_partitions);
        Ok(EmbeddedBroker::serve(shared, listeners))
    }
}

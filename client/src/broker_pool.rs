//! The connections of a client: a few a broker, made when first needed, with one back-off a broker that all tasks share.

use crate::{
    BrokerAddress, BrokerName, ClientConfig, Error, NodeId,
    conn::{Connection, FramePool, ReceiveBuffer},
    retry::{Backoff, pause},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::time::sleep_until;

/// What a connection is for. A broker answers a connection's requests one after the other, so that a long poll would hold back all that
/// comes behind it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Purpose {
    /// Metadata, offsets, commits.
    Control,
    /// Fetches of partitions with data known to be there.
    Fetch,
    /// Fetches that may wait for data.
    Poll,
}

#[derive(Debug)]
struct Broker {
    /// Never held over an await: a live connection is found while another one is being made.
    connections: Mutex<[Option<Arc<Connection>>; 3]>,
    /// Held by the one task that dials.
    dialling: tokio::sync::Mutex<Dialling>,
}

#[derive(Debug)]
struct Dialling {
    backoff: Backoff,
    not_before: Option<Instant>,
}

impl Broker {
    fn connections(&self) -> MutexGuard<'_, [Option<Arc<Connection>>; 3]> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self, purpose: Purpose) -> Option<Arc<Connection>> {
        let mut connections = self.connections();
        slot(&mut connections, purpose).as_ref().filter(|connection| !connection.is_closed()).cloned()
    }
}

fn slot(connections: &mut [Option<Arc<Connection>>; 3], purpose: Purpose) -> &mut Option<Arc<Connection>> {
    let [control, fetch, poll] = connections;
    match purpose {
        Purpose::Control => control,
        Purpose::Fetch => fetch,
        Purpose::Poll => poll,
    }
}

type Key = (Option<NodeId>, BrokerAddress);

/// All brokers that were ever dialled.
#[derive(Debug)]
pub(crate) struct BrokerPool {
    config: Arc<ClientConfig>,
    frames: Arc<FramePool>,
    brokers: Mutex<HashMap<Key, Arc<Broker>>>,
}

impl BrokerPool {
    pub(crate) fn new(config: Arc<ClientConfig>, frames: Arc<FramePool>) -> Self {
        Self { config, frames, brokers: Mutex::default() }
    }

    fn broker(&self, name: &BrokerName) -> Arc<Broker> {
        let mut brokers = self.brokers.lock().unwrap_or_else(PoisonError::into_inner);
        let broker = brokers.entry((name.node_id, name.address.clone())).or_insert_with(|| {
            let backoff = Backoff::new(self.config.reconnect_backoff, self.config.reconnect_backoff_max);
            let dialling = tokio::sync::Mutex::new(Dialling { backoff, not_before: None });
            Arc::new(Broker { connections: Mutex::new([None, None, None]), dialling })
        });
        broker.clone()
    }

    /// A live connection to `name`. After a failure, the next attempt waits for the broker's back-off, whoever makes it.
    ///
    /// The caller bounds the time; a call that is dropped leaves the pool as it was.
    pub(crate) async fn get(&self, name: &BrokerName, purpose: Purpose) -> Result<Arc<Connection>, Error> {
        let broker = self.broker(name);
        if let Some(connection) = broker.live(purpose) {
            return Ok(connection);
        }
        let mut dialling = broker.dialling.lock().await;
        // Whoever dialled before may have made it.
        if let Some(connection) = broker.live(purpose) {
            return Ok(connection);
        }
        if let Some(not_before) = dialling.not_before {
            sleep_until(not_before.into()).await;
        }
        // Noted before the attempt, so that an attempt which the caller gives up counts as well.
        let pause = pause(&mut dialling.backoff);
        dialling.not_before = Some(Instant::now() + pause);
        let receive_buffer = if purpose == Purpose::Fetch { ReceiveBuffer::Large } else { ReceiveBuffer::System };
        let frames = self.frames.clone();
        let connection = Arc::new(Connection::open(&self.config, name.clone(), frames, receive_buffer).await?);
        dialling.backoff.reset();
        dialling.not_before = None;
        *slot(&mut broker.connections(), purpose) = Some(connection.clone());
        Ok(connection)
    }

    /// Whether a connection of this kind is up, without making one.
    pub(crate) fn is_connected(&self, name: &BrokerName, purpose: Purpose) -> bool {
        self.broker(name).live(purpose).is_some()
    }
}

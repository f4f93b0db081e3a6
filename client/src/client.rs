//! The client itself: what all calls share, and the loop that tries them until they succeed or their time is over.

use crate::{
    ClientConfig, ConnectError, Error, Result, TopicPartition,
    broker_pool::{BrokerPool, Purpose},
    cluster::Cluster,
    config::BOOTSTRAP_TIMEOUT,
    conn::{Connection, FramePool},
    fetch::{Budget, BudgetHeld, Reservation, Room},
    metadata::TopicSelection,
    retry::Backoff,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A client of one cluster. Cheap to clone; all clones share connections and metadata.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) pool: BrokerPool,
    pub(crate) budget: Arc<Budget>,
    // Never held together with `coordinators`, nor over an await.
    cluster: Arc<Mutex<Cluster>>,
    pub(crate) coordinators: Arc<Mutex<HashMap<String, crate::BrokerName>>>,
}

/// Pool buffers hold a fetch response of the usual size: the records asked for and what stands around them. Memory that an answer does not
/// reach is never touched.
fn frame_pool(config: &ClientConfig) -> FramePool {
    let response_bytes = usize::try_from(config.fetch_max_bytes).unwrap_or(4 << 20).min(8 << 20);
    FramePool::new(response_bytes + (64 << 10), 8)
}

impl Client {
    /// Makes contact with the cluster.
    ///
    /// # Errors
    /// [`Error::NoBroker`] when no bootstrap server answers within 15 s (or `default.api.timeout.ms`, if that is less).
    pub async fn connect(config: ClientConfig) -> Result<Self> {
        Self::connect_beside(None, config).await
    }

    /// As [`connect`](Self::connect), with the byte budget of another client, if there is one: for programs that read several clusters, or one
    /// with different settings, and have one amount of memory. `memory_bytes` is the other's then.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_beside(other: Option<&Self>, config: ClientConfig) -> Result<Self> {
        let timeout = config.default_api_timeout.min(BOOTSTRAP_TIMEOUT);
        let config = Arc::new(config);
        let pool = BrokerPool::new(config.clone(), Arc::new(frame_pool(&config)));
        let own = || Arc::new(Budget::new(config.memory_bytes));
        let budget = other.map_or_else(own, |other| other.shared.budget.clone());
        let shared = Shared { config, pool, budget, cluster: Arc::default(), coordinators: Arc::default() };
        let client = Self { shared: Arc::new(shared) };
        match client.refresh_metadata(&TopicSelection::None, Deadline::after(timeout)).await {
            Ok(_) => Ok(client),
            Err(Error::DeadlineExceeded { after, source, .. }) => {
                let servers =
                    client.config().bootstrap_servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
                Err(Error::NoBroker { servers, after, source })
            }
            Err(error) => Err(error),
        }
    }

    /// This client for another thread with a runtime of its own: the same metadata and the same byte budget, but connections and buffers
    /// that no other thread touches. A clone would do, but its connections belong to the runtime that made them: its bytes would be read on
    /// that one's threads, and it would end with it.
    #[must_use]
    pub fn for_thread(&self) -> Self {
        let config = self.shared.config.clone();
        let shared = Shared {
            pool: BrokerPool::new(config.clone(), Arc::new(frame_pool(&config))),
            config,
            budget: self.shared.budget.clone(),
            cluster: self.shared.cluster.clone(),
            coordinators: self.shared.coordinators.clone(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Room for the inflated bytes of one of `decoders` decoders, in the budget that answers are counted in too.
    pub fn room(&self, decoders: usize) -> Room {
        Room::new(&self.shared.budget, decoders)
    }

    /// Counts `bytes` that somebody keeps in the budget, until the reservation is dropped.
    pub fn keep_bytes(&self, bytes: usize) -> Reservation {
        self.shared.budget.keep(bytes)
    }

    /// Whether what is kept has filled the budget, so that nothing more should be read before some of it is dropped.
    ///
    /// # Errors
    /// It has.
    pub fn check_kept(&self) -> std::result::Result<(), BudgetHeld> {
        self.shared.budget.overfull_with_kept().map_or(Ok(()), Err)
    }

    /// Waits until `bytes` more would fit into the budget, or nothing is kept: after [`BudgetHeld`], with what that needs.
    pub async fn room_for(&self, bytes: usize) {
        self.shared.budget.room_for(bytes).await;
    }

    /// By how many bytes `ottla.memory.bytes` was exceeded at the worst time in this client's life: one answer or batch may be larger than what
    /// is left of the budget, or than all of it, and every reader may have one answer however little is left.
    pub fn memory_excess_bytes(&self) -> usize {
        self.shared.budget.excess()
    }

    /// The settings this client was made with.
    pub fn config(&self) -> &ClientConfig {
        &self.shared.config
    }

    pub(crate) fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.shared.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The control connection to a broker, within the deadline.
    pub(crate) async fn control(&self, broker: &crate::BrokerName, deadline: Deadline) -> Result<Arc<Connection>> {
        self.connection(broker, Purpose::Control, deadline.left()).await
    }

    /// A connection to a broker, within `limit`.
    pub(crate) async fn connection(
        &self,
        broker: &crate::BrokerName,
        purpose: Purpose,
        limit: Duration,
    ) -> Result<Arc<Connection>> {
        match tokio::time::timeout(limit, self.shared.pool.get(broker, purpose)).await {
            Ok(result) => result,
            Err(_) => {
                let source = ConnectError::Timeout { after: limit, attempts: Vec::new() };
                Err(Error::Connect { broker: broker.clone().into(), source })
            }
        }
    }

    /// The default limit of a call.
    pub(crate) fn api_deadline(&self) -> Deadline {
        Deadline::after(self.config().default_api_timeout)
    }

    pub(crate) fn retry_backoff(&self) -> Backoff {
        Backoff::new(self.config().retry_backoff, self.config().retry_backoff_max)
    }
}

/// When a call is to give up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Instant,
    limit: Duration,
}

impl Deadline {
    pub(crate) fn after(limit: Duration) -> Self {
        Self { at: Instant::now() + limit, limit }
    }

    /// What is left; zero when it has passed.
    pub(crate) fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Waits for `pause`, or fails with `last` if the deadline comes first.
    pub(crate) async fn pause(&self, pause: Duration, what: impl FnOnce() -> String, last: Error) -> Result<()> {
        if self.left() <= pause {
            tokio::time::sleep(self.left()).await;
            return Err(self.exceeded(what(), last));
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// The error of a call that tried until now; `last` is its last failure.
    pub(crate) fn exceeded(&self, what: String, last: Error) -> Error {
        match last {
            // Already says for how long.
            Error::DeadlineExceeded { .. } | Error::NoBroker { .. } => last,
            _ => Error::DeadlineExceeded { what, after: self.limit, source: Box::new(last) },
        }
    }

    /// A deadline that comes no later than this one, and at most `limit` from now.
    pub(crate) fn within(&self, limit: Duration) -> Self {
        let limit = limit.min(self.left());
        Self::after(limit)
    }
}

/// The partitions of a list as errors name them; long lists are cut.
pub(crate) fn name_partitions<'a>(partitions: impl IntoIterator<Item = &'a TopicPartition>) -> String {
    let mut names: Vec<String> = partitions.into_iter().map(ToString::to_string).collect();
    let more = names.len().saturating_sub(5);
    names.truncate(5);
    let list = names.join(", ");
    if more > 0 { format!("{list} and {more} more") } else { list }
}

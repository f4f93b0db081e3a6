//! What a client is told: addresses, time limits, sizes. Parsed once, into types; nothing looks at strings later.

use crate::{AddressError, BrokerAddress, IsolationLevel, Resolver};
use std::time::Duration;

/// The settings of a [`Client`](crate::Client), with Kafka's names and defaults where Kafka has them.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct ClientConfig {
    /// `bootstrap.servers`: any broker of the cluster will do; more than one for when it is away.
    pub bootstrap_servers: Vec<BrokerAddress>,
    /// `client.id`, for the broker's logs and quotas. Default `ottla`.
    pub client_id: String,
    /// `request.timeout.ms`: how long one request may take on the wire. Default 30 s.
    pub request_timeout: Duration,
    /// `default.api.timeout.ms`: how long a call may take with all its retries. Default 60 s.
    pub default_api_timeout: Duration,
    /// `socket.connection.setup.timeout.ms`: how long all addresses of one broker may take to connect. Default 10 s.
    pub socket_connection_setup_timeout: Duration,
    /// `reconnect.backoff.ms`: the first pause before a broker is dialled again. Default 50 ms.
    pub reconnect_backoff: Duration,
    /// `reconnect.backoff.max.ms`: the longest such pause. Default 1 s.
    pub reconnect_backoff_max: Duration,
    /// `retry.backoff.ms`: the first pause before a request is sent again. Default 100 ms.
    pub retry_backoff: Duration,
    /// `retry.backoff.max.ms`: the longest such pause. Default 1 s.
    pub retry_backoff_max: Duration,
    /// How host names become addresses. Default: the system's resolver.
    pub resolver: Resolver,
    /// `receive.buffer.bytes`: the socket's receive buffer; `None` (Kafka's -1) leaves it to the system. Default `None`.
    pub receive_buffer_bytes: Option<usize>,
    /// The largest frame accepted from a broker. Independent of the fetch sizes, which are soft: the first batch of a response comes whole
    /// whatever its size. Default 256 MiB.
    pub frame_bytes_max: usize,
    /// `isolation.level`. Default `read_uncommitted`.
    pub isolation_level: IsolationLevel,
    /// `check.crcs`. Default `true`.
    pub check_crcs: bool,
    /// `fetch.max.wait.ms`: how long a broker waits for data to come. Default 500 ms.
    pub fetch_max_wait: Duration,
    /// `fetch.min.bytes`. Default 1.
    pub fetch_min_bytes: i32,
    /// `fetch.max.bytes`: the most one response carries, unless its first batch is larger. Default 4 MiB: larger responses leave the
    /// processor's cache before they are decoded.
    pub fetch_max_bytes: i32,
    /// `max.partition.fetch.bytes`, likewise of one partition. Default 1 MiB.
    pub max_partition_fetch_bytes: i32,
    /// `ottla.memory.bytes`: fetched bytes held at one time. Default 64 MiB.
    pub memory_bytes: usize,
    /// How long a partition whose position is below its end may give nothing before that is an error. Default 120 s, as Spark's
    /// `kafkaConsumer.pollTimeoutMs`.
    pub poll_timeout: Duration,
}

/// How long the very first contact may take: past it, a wrong address is likelier than a slow broker.
pub(crate) const BOOTSTRAP_TIMEOUT: Duration = Duration::from_secs(15);

impl ClientConfig {
    /// The defaults, for brokers at these addresses.
    pub fn new(bootstrap_servers: Vec<BrokerAddress>) -> Self {
        Self {
            bootstrap_servers,
            client_id: "ottla".to_owned(),
            request_timeout: Duration::from_secs(30),
            default_api_timeout: Duration::from_secs(60),
            socket_connection_setup_timeout: Duration::from_secs(10),
            reconnect_backoff: Duration::from_millis(50),
            reconnect_backoff_max: Duration::from_secs(1),
            retry_backoff: Duration::from_millis(100),
            retry_backoff_max: Duration::from_secs(1),
            resolver: Resolver::default(),
            receive_buffer_bytes: None,
            frame_bytes_max: 256 << 20,
            isolation_level: IsolationLevel::ReadUncommitted,
            check_crcs: true,
            fetch_max_wait: Duration::from_millis(500),
            fetch_min_bytes: 1,
            fetch_max_bytes: 4 << 20,
            max_partition_fetch_bytes: 1 << 20,
            memory_bytes: 64 << 20,
            poll_timeout: Duration::from_secs(120),
        }
    }

    /// The defaults, for the brokers of a `bootstrap.servers` list.
    ///
    /// # Errors
    /// An element that is no address, or an empty list.
    pub fn from_bootstrap(list: &str) -> Result<Self, AddressError> {
        BrokerAddress::parse_list(list).map(Self::new)
    }
}

//! Errors of this layer add what it knows: broker, API and version; what it was asked to do, and for how long it tried. `Display` is this
//! layer's part, `source()` the rest; [`report`] joins the chain for people.

use crate::{BrokerAddress, NodeId, TopicPartition};
use ottla_protocol::{ApiKey, DecodeError, EncodeError, ErrorCode, FrameError, VersionRange};
use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};

/// Result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A broker as errors name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerName {
    /// Its id; `None` for a bootstrap address, before metadata said who is there.
    pub node_id: Option<NodeId>,
    /// Where it was dialled.
    pub address: BrokerAddress,
    /// The broker whose metadata advertised this address.
    pub advertised_by: Option<BrokerAddress>,
}

impl fmt::Display for BrokerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node_id {
            Some(node_id) => write!(f, "broker {node_id} at {}", self.address)?,
            None => write!(f, "broker at {}", self.address)?,
        }
        match &self.advertised_by {
            Some(by) if *by != self.address => write!(f, " (the address that {by} advertises for it)"),
            _ => Ok(()),
        }
    }
}

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// None of the bootstrap servers answered.
    #[error("no broker of {servers} could be reached within {} s", .after.as_secs_f32())]
    NoBroker {
        /// The bootstrap list.
        servers: String,
        /// How long it was tried.
        after: Duration,
        /// The last failure.
        source: Box<Error>,
    },
    /// No connection to a broker.
    #[error("{broker} can't be reached")]
    Connect {
        /// Which broker.
        broker: Box<BrokerName>,
        /// Why.
        source: ConnectError,
    },
    /// A broker that leads a partition but stands in no metadata.
    #[error("broker {node_id} leads the partition, but the metadata has no address for it")]
    UnknownBroker {
        /// Its id.
        node_id: NodeId,
    },
    /// A request got no usable answer.
    #[error("{api} v{version} to {broker}")]
    Request {
        /// The API asked.
        api: ApiKey,
        /// The version it was asked in.
        version: i16,
        /// The broker asked.
        broker: Box<BrokerName>,
        /// Why.
        source: RequestError,
    },
    /// The broker and this client have no version of an API in common.
    #[error("{broker} speaks {api} in {theirs}, this client in versions {} to {}", .ours.min, .ours.max)]
    UnsupportedVersion {
        /// The API.
        api: ApiKey,
        /// The broker.
        broker: Box<BrokerName>,
        /// The broker's versions, as text.
        theirs: String,
        /// This client's versions.
        ours: VersionRange,
    },
    /// The broker answered with an error code.
    #[error("{api} for {subject} was answered by {broker} with {code}{}", advice(*.code))]
    Broker {
        /// The API asked.
        api: ApiKey,
        /// The topic, partition or group that the answer is about.
        subject: String,
        /// The broker asked.
        broker: Box<BrokerName>,
        /// Its answer.
        code: ErrorCode,
    },
    /// An answer without error, and without a word about something that was asked.
    #[error("the answer of {broker} to {api} leaves out {subject}")]
    Unanswered {
        /// The API asked.
        api: ApiKey,
        /// The partition that is missing.
        subject: String,
        /// The broker asked.
        broker: Box<BrokerName>,
    },
    /// A fetch was answered with OFFSET_OUT_OF_RANGE although the log, asked for its bounds, holds the offset.
    #[error(
        "the leader of {partition} has no offset {offset}, although it says that the log holds [{log_start_offset}, {log_end_offset})"
    )]
    OutOfRange {
        /// The partition.
        partition: TopicPartition,
        /// What was to be fetched.
        offset: i64,
        /// The log's first offset.
        log_start_offset: i64,
        /// The log's end, exclusive.
        log_end_offset: i64,
    },
    /// A partition without a leader: none of its replicas is up, or an election is going on.
    #[error("{partition} has no leader")]
    Leaderless {
        /// The partition.
        partition: TopicPartition,
    },
    /// A topic that no broker knows.
    #[error("topic '{topic}' does not exist")]
    UnknownTopic {
        /// The name asked for.
        topic: String,
    },
    /// A partition that the topic does not have.
    #[error("partition {partition} does not exist")]
    UnknownPartition {
        /// The partition asked for.
        partition: TopicPartition,
    },
    /// A topic was deleted and created again since its offsets were looked up (KIP-516).
    #[error("topic '{topic}' was deleted and created again while it was read")]
    TopicRecreated {
        /// The topic.
        topic: String,
    },
    /// An offset that can't be committed.
    #[error("{partition}: {offset} is not an offset that can be committed, it must be 0 or larger")]
    InvalidOffset {
        /// The partition.
        partition: TopicPartition,
        /// What was to be committed.
        offset: i64,
    },
    /// Retries went on until the deadline.
    #[error("{what} failed for {} s", .after.as_secs_f32())]
    DeadlineExceeded {
        /// What was tried.
        what: String,
        /// How long.
        after: Duration,
        /// The last failure.
        source: Box<Error>,
    },
}

impl Error {
    /// Whether the same call may succeed later without anyone changing anything.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Connect { .. }
            | Self::UnknownBroker { .. }
            | Self::Unanswered { .. }
            | Self::Leaderless { .. }
            | Self::OutOfRange { .. } => true,
            Self::Request { source, .. } => source.is_retriable(),
            // Not by its type in Kafka; here it is said of a broker that has just come up, and knows of no broker yet.
            Self::Broker { code, .. } => code.is_retriable() || *code == ErrorCode::BROKER_NOT_AVAILABLE,
            _ => false,
        }
    }

    /// The error of a client without a single address.
    pub(crate) fn no_broker(config: &crate::ClientConfig) -> Self {
        let element = config.bootstrap_servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let address = BrokerAddress { host: element, port: 0 };
        let broker = BrokerName { node_id: None, address, advertised_by: None };
        Self::Connect { broker: broker.into(), source: ConnectError::Dial { attempts: Vec::new() } }
    }

    /// Whether it is about a connection that was given too little time to be made.
    pub(crate) fn had_no_time(&self) -> bool {
        const TOO_LITTLE: Duration = Duration::from_secs(1);
        match self {
            Self::Connect { source: ConnectError::Timeout { after, attempts }, .. } => {
                *after < TOO_LITTLE && attempts.is_empty()
            }
            Self::Request { source: RequestError::Timeout { after }, .. } => *after < TOO_LITTLE,
            _ => false,
        }
    }

    /// Whether it says, at last, that a topic or partition is not there.
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::UnknownTopic { .. } | Self::UnknownPartition { .. } => true,
            Self::DeadlineExceeded { source, .. } => source.is_unknown(),
            _ => false,
        }
    }

    /// The error code at the end of the chain, if a broker answered with one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Broker { code, .. } => Some(*code),
            Self::DeadlineExceeded { source, .. } | Self::NoBroker { source, .. } => source.code(),
            _ => None,
        }
    }
}

/// What to do about a code, where that is known.
fn advice(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION => {
            ": the group has active members, which own its offsets"
        }
        ErrorCode::INVALID_TOPIC_EXCEPTION => ": the name is not one that a topic can have",
        ErrorCode::TOPIC_AUTHORIZATION_FAILED
        | ErrorCode::GROUP_AUTHORIZATION_FAILED
        | ErrorCode::CLUSTER_AUTHORIZATION_FAILED => ": the ACLs do not allow it",
        ErrorCode::CORRUPT_MESSAGE => ": the broker's own copy of the records is damaged",
        _ => "",
    }
}

/// Why a connection could not be made.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The host name has no address.
    #[error("the name '{host}' can't be resolved: {source}")]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver said.
        source: Arc<io::Error>,
    },
    /// Every address refused.
    #[error("{}", join_attempts(.attempts))]
    Dial {
        /// Each address tried, and what happened.
        attempts: Vec<(SocketAddr, Arc<io::Error>)>,
    },
    /// The time for connecting passed.
    #[error("no connection within {} s{}", .after.as_secs_f32(), if .attempts.is_empty() { String::new() } else { format!("; {}", join_attempts(.attempts)) })]
    Timeout {
        /// The limit.
        after: Duration,
        /// The addresses that refused before.
        attempts: Vec<(SocketAddr, Arc<io::Error>)>,
    },
}

fn join_attempts(attempts: &[(SocketAddr, Arc<io::Error>)]) -> String {
    attempts.iter().map(|(address, error)| format!("{address}: {error}")).collect::<Vec<_>>().join("; ")
}

/// Why a request got no usable answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// No answer in time. The connection is given up: a late answer must not be taken for another request's.
    #[error("no answer within {} s", .after.as_secs_f32())]
    Timeout {
        /// The limit.
        after: Duration,
    },
    /// The broker closed the connection.
    #[error("the connection was closed{}", if *.on_first_request { " right after the first request: is this a TLS or SASL port, or a broker that does not know the version?" } else { "" })]
    Closed {
        /// Whether nothing had ever been answered on it.
        on_first_request: bool,
    },
    /// The socket failed.
    #[error("the connection failed: {source}")]
    Io {
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// What came is no Kafka frame.
    #[error(transparent)]
    Frame(FrameError),
    /// An answer to a request that was not the next one (Kafka answers in order).
    #[error("the answer has correlation id {found}, {expected} was due")]
    Correlation {
        /// The id that was due.
        expected: i32,
        /// The id that came.
        found: i32,
    },
    /// The answer is not what its schema says.
    #[error("the answer can't be read: {0}")]
    Decode(#[from] DecodeError),
    /// The request can't be written in that version.
    #[error("the request can't be written: {0}")]
    Encode(#[from] EncodeError),
}

impl RequestError {
    /// Whether a new connection may do better.
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::Closed { .. } | Self::Io { .. } | Self::Correlation { .. })
    }
}

impl From<io::Error> for RequestError {
    fn from(source: io::Error) -> Self {
        Self::Io { source: Arc::new(source) }
    }
}

/// An error and its causes as one sentence.
pub fn report(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.ends_with(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}

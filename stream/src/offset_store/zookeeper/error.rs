//! What goes wrong with offsets in ZooKeeper. No text holds credentials.

use crate::BoxError;
use std::time::Duration;

/// Offsets in ZooKeeper could not be had or stored.
#[derive(Debug, thiserror::Error)]
#[error("ZooKeeper at {servers}")]
pub struct ZooKeeperError {
    /// The servers, as they were named.
    pub servers: String,
    /// What went wrong.
    pub source: ZooKeeperErrorKind,
}

/// What went wrong with offsets in ZooKeeper.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZooKeeperErrorKind {
    /// A node holds something else than an offset. It is never taken for none, nor for 0.
    #[error("{path} holds {value:?}, which is no offset: only the digits of a number up to {max} are", max = i64::MAX)]
    NotAnOffset {
        /// The node.
        path: String,
        /// What it holds, cut short.
        value: String,
    },
    /// A node below a topic's is not named by the number of a partition.
    #[error("{path} is not named by the number of a partition")]
    NotAPartition {
        /// The node.
        path: String,
    },
    /// Somebody else wrote a node since it was read, or since it was written from here. It was left as it is, and will be until the offsets
    /// are loaded again.
    #[error("another writer changed {path} from {} to {}", or_nothing(.from), or_nothing(.to))]
    OtherWriter {
        /// The node.
        path: String,
        /// What was known of it, cut short. `None`: there was no such node.
        from: Option<String>,
        /// What it holds now, cut short. `None`: it is gone.
        to: Option<String>,
    },
    /// The servers refused a request.
    #[error("{path} was refused")]
    Refused {
        /// The node.
        path: String,
        /// Why.
        source: BoxError,
    },
    /// No answer came until the deadline, whatever was tried.
    #[error("no answer within {} s", .within.as_secs_f32())]
    NoAnswer {
        /// How long it was tried.
        within: Duration,
        /// What the last try said, if it said anything.
        source: Option<BoxError>,
    },
}

impl ZooKeeperErrorKind {
    /// A name for programs.
    pub(crate) fn condition(&self) -> &'static str {
        match self {
            Self::NotAnOffset { .. } | Self::NotAPartition { .. } => "NOT_AN_OFFSET",
            Self::OtherWriter { .. } => "CONCURRENT_OFFSET_WRITER",
            Self::Refused { .. } => "ZOOKEEPER_REFUSED",
            Self::NoAnswer { .. } => "ZOOKEEPER_UNREACHABLE",
        }
    }
}

fn or_nothing(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or("nothing")
}

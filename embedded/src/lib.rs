//! A Kafka broker in this process's memory, on real sockets: for demos, examples and tests, with hooks for faults.
//!
//! It stores batches as they were produced and serves them as they were stored, keeps offsets of groups, runs classic groups and
//! transactions, and can play several nodes or an older broker. Its codecs are those of the crate `kafka-protocol`, independent of
//! Ottla's own wire layer, so that each checks the other.
//!
//! It's no server for peers that aren't trusted: requests of up to 100 MiB are taken, and its decoders reserve memory from claimed
//! counts, so it listens on loopback only. It has no TLS, SASL, ACLs or quotas, no retention or compaction ([`EmbeddedBroker::append_raw`]
//! makes gaps), no consumer-protocol or share groups (KIP-848, KIP-932), and does not check sequence numbers of idempotent producers.
//!
//! ```
//! use ottla_embedded::messages::ApiKey;
//! use ottla_embedded::{Action, EmbeddedBroker};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let broker = EmbeddedBroker::builder().nodes(3).start().await?;
//! broker.create_topic("logs", 4, &[])?;
//! // Point any client at it:
//! println!("bootstrap.servers={}", broker.bootstrap_servers());
//!
//! // The first fetch is answered NOT_LEADER_OR_FOLLOWER, all others as they should be.
//! broker.on(ApiKey::Fetch, |request| if request.index == 0 { Action::Error(6) } else { Action::Pass });
//! broker.set_leader("logs", 0, 2)?;
//! assert_eq!(broker.leader("logs", 0)?, (2, 1));
//! broker.shutdown().await;
//! # Ok(()) })
//! # }
//! ```

mod api;
mod batch;
mod broker;
mod builder;
mod fault;
mod group;
mod log;
mod records;
mod request;
mod server;
mod session;
mod state;
mod transaction;

/// The codecs' messages, for what hooks see: [`Request`] holds them, and [`messages::ApiKey`] names the APIs.
pub use kafka_protocol::messages;

pub use crate::api::CommittedOffset;
pub use crate::broker::{BrokerError, EmbeddedBroker};
pub use crate::builder::Builder;
pub use crate::fault::{Action, PartitionError, RecordedRequest, RequestContext};
pub use crate::request::Request;

//! A Kafka client for reading explicit offset ranges: connections, metadata, leaders, coordinators, offset look-ups, commits and a fetch
//! engine that hands on raw record batches.
//!
//! A [`Client`] makes its connections when they are first needed, retries with back-off until `default.api.timeout.ms` has passed, and looks
//! up [topics](Client::topics), [offsets](Client::list_offsets) and what groups [have committed](Client::committed_offsets). A [`Fetcher`]
//! reads many ranges of partitions with few requests; [`CompletedFetch`] is one partition's part of an answer, not decoded yet. What a record
//! is belongs to `ottla_protocol`, and what a range, a filter or a batch is to `ottla_stream`. Needs a tokio runtime with I/O and time.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use ottla_client::{Client, ClientConfig};
//!
//! let client = Client::connect(ClientConfig::from_bootstrap("localhost:9092")?).await?;
//! for (name, topic) in client.topics(&["logs".to_owned()]).await? {
//!     println!("{name} has {} partitions", topic.partitions.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//! `libdeflate` and `zstd` (default): passed on to `ottla_protocol`.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

mod address;
mod broker_pool;
mod client;
mod cluster;
mod config;
mod conn;
mod error;
mod fetch;
mod group;
mod metadata;
mod offsets;
mod retry;
mod settings;
mod throttle;
mod types;

pub use address::{AddressError, BrokerAddress, DEFAULT_PORT};
pub use client::Client;
pub use cluster::{Partition, Topic};
pub use config::ClientConfig;
pub use conn::Resolver;
pub use error::{BrokerName, ConnectError, Error, RequestError, Result, report};
pub use fetch::{BudgetHeld, CompletedFetch, FetchError, FetchErrorKind, FetchTarget, Fetcher, Reservation, Room};
pub use settings::{SettingEffect, SettingError};
pub use types::{
    CommitResults, CommittedOffsets, IsolationLevel, NodeId, OffsetAndMetadata, OffsetAndTimestamp, OffsetSpec,
    TopicPartition,
};

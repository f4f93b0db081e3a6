//! The other side of every integration test: real Apache Kafka brokers, a ZooKeeper server, Kafka's own Java clients and
//! command-line classes, and the `ottla` binary as a process. It uses none of the crates that are tested.
//!
//! ```no_run
//! use support::{Codec, Isolation, Produce, kafka_or_skip};
//!
//! let Some(kafka) = kafka_or_skip("reading gzip batches") else { return };
//! let topic = kafka.create_topic("gzip", 3, &[]);
//! kafka.produce(&Produce::generated(&topic, 1_000).codec(Codec::Gzip).partitions(3));
//! assert_eq!(kafka.consume(&topic, Isolation::ReadCommitted).len(), 1_000);
//! ```
//!
//! Everything panics with a sentence when it fails, as an assertion does; functions named `try_…` return it instead.
//! What a test starts is stopped and removed when it is dropped, when the test panics and when the test process is
//! killed. `OTTLA_KEEP=1` keeps the folders with their logs. `OTTLA_WITHOUT_KAFKA=1` leaves out, by name, what needs Java.

mod error;
mod java;
mod kafka;
mod keeper;
mod ottla;
mod ports;
mod process;
mod recipes;
mod setup;
mod skip;
mod zookeeper;

pub use error::{Error, Result};
pub use java::client::{Isolation, JavaClient, ListedOffset, OffsetQuery};
pub use java::groups::{GroupMember, GroupOffset, GroupRow, parse_group_table};
pub use java::helper::JavaHelper;
pub use java::records::{Codec, ConsumedRecord, Produce, Produced, ProducerRecord, TimestampType};
pub use java::tool::ToolOutput;
pub use java::transaction::Transaction;
pub use kafka::cluster::{KafkaCluster, KafkaClusterBuilder};
pub use kafka::node::Node;
pub use ottla::{Ottla, RunningOttla};
pub use ports::free_port;
pub use process::{Finished, Signal, kcat};
pub use recipes::{Fixture, Recipe};
pub use setup::{Version, cache_dir, jars};
pub use skip::{java_or_skip, kafka_or_skip};
pub use zookeeper::ZooKeeper;

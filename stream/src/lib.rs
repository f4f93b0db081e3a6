//! Reads Kafka in explicit offset ranges, filters on the fetched bytes, and commits only what was processed.
//!
//! A bounded read is four values, each made from the one before, so that the wrong order does not compile:
//!
//! ```text
//! StreamOptions --plan--> PlannedBatch --process--> ProcessedBatch --commit--> CommitOutcome
//! Spark's options         ranges, all               every record read,         what the group
//! parsed and checked      as numbers                filtered, written          holds now
//! ```
//!
//! - [`StreamOptions::from_pairs`] takes Spark's option names; [`StreamOptions::plan`] asks the cluster and resolves them to numbers.
//! - [`PlannedBatch::process`] reads all ranges side by side and hands what a [`Filter`] keeps to a [`Sink`]: [`LineSink`] prints lines,
//!   [`FileSink`] writes a file a batch, [`NullSink`] only counts, and one's own is two small traits.
//!   [`PlannedBatch::read`] gives record batches one after the other instead, to look at or to keep.
//! - [`ProcessedBatch::commit`] commits the end of every partition of the plan, whatever the filter kept.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use ottla_stream::{Client, Filter, NullSink, ReadProgress, ReadSettings, StreamOptions};
//!
//! let options = StreamOptions::from_pairs([("kafka.bootstrap.servers", "localhost:9092"), ("subscribe", "logs")])?;
//! let client = Client::connect(options.client.clone()).await?;
//! let batch = options.plan(&client).await?;
//! let errors = Filter::value().contains("ERROR");
//! let processed = batch.process(&client, &errors, &NullSink, &ReadSettings::default(), &ReadProgress::shared()).await?;
//! println!("{} of {} records are errors", processed.counts().hits, processed.counts().records);
//! processed.commit(&client, "my-group", "query-1").await?;
//! # Ok(())
//! # }
//! ```
//!
//! A query is the same again and again, with what is new each time, in a task of its own:
//!
//! - [`StreamOptions::stream_from_pairs`] takes Spark's options of a stream, [`StreamingQuery::builder`] those of each source.
//! - The query plans a batch, writes down where it ends in a checkpoint of Spark's layout, hands it to a function as a [`MicroBatch`] or writes it
//!   to a [`Sink`], writes down that it is done, and commits to groups or other places ([`OffsetStore`]). Whenever the process dies, the next
//!   start does the batch again that was at work, with the same id and the same ranges.
//! - [`Trigger`] says when, [`RetryPolicy`] how often a batch that failed is tried, and a [`QueryListener`] hears of it all.
//!
//! [`DirectStream`] is for those who want the ranges of each batch in their own hand, and to commit when they say so.
//!
//! Where offsets are kept outside of a checkpoint ([`GroupStore`], [`OffsetsFile`], [`CheckpointOffsets`] to look at), they can be held against
//! the logs ([`InspectedOffsets`]), set ([`OffsetMoves`]), and kept up with a query of somebody else's ([`CheckpointFollower`]).
//!
//! Records are views into the fetched bytes ([`ottla_protocol::record::Record`]). The wire format is the crate `ottla_protocol`'s, the
//! connections and the fetch engine are `ottla_client`'s. Needs a tokio runtime with I/O and time.
//!
//! # Features
//! `libdeflate` and `zstd` (default): C libraries decode gzip and zstd. Without them pure Rust does, slower, and nothing needs a C compiler.
//!
//! `zookeeper` (default): offsets in ZooKeeper, `ZooKeeperStore`. Needs no C compiler. `zookeeper-tls`: encrypted, with AWS-LC, which is C.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

mod batch;
mod bounded;
mod checkpoint;
mod direct;
mod durable;
mod error;
mod filter;
mod offset;
mod offset_store;
mod options;
mod planner;
mod query;
mod read;
mod sink;
mod strategy;

pub use batch::{PlannedBatch, ProcessedBatch};
pub use checkpoint::{CheckpointError, CheckpointErrorKind, IdList};
pub use direct::{DirectBatch, DirectCommitError, DirectStream, DirectStreamBuilder, ProcessedRanges};
pub use error::{DataLoss, Error, LossKind, LostRange, ReadError, ReadErrorKind, Result, SinkError};
pub use filter::{BoundFilter, BytesColumn, Filter, IntColumn, LikeError, WhereError};
use offset::Offsets;
pub use offset::{OffsetRange, OffsetRangeLimit, PartitionTimestamps, SourceOffset};
pub use offset_store::{
    CheckpointFollower, CheckpointOffsets, CommitOutcome, Followed, FollowedBatch, GroupStore, InspectedOffsets,
    MoveChange, MoveError, OffsetMove, OffsetMoves, OffsetState, OffsetStore, OffsetTarget, OffsetsFile,
    OffsetsFileError, OffsetsFileErrorKind, PartitionOffsets, StoreCommit, StoreFuture, StoreUrl, StoredOffset,
    StoredOffsets,
};
#[cfg(feature = "zookeeper")]
pub use offset_store::{ZooKeeperError, ZooKeeperErrorKind, ZooKeeperOffset, ZooKeeperStore, ZooKeeperStoreBuilder};
pub use options::{
    MaintenanceOptions, OffsetOutOfRange, OptionError, StartingOffsetsByTimestampStrategy, StreamOptions,
    StreamOptionsBuilder, TomlOptions, ZooKeeperAuth, ZooKeeperOptions, client_config,
};
pub use ottla_client::{BudgetHeld, Client, FetchErrorKind, TopicPartition};
pub use ottla_protocol::record::{BatchError, BatchHeader, Header, Headers, Record, TimestampType};
pub use query::{
    BoxError, MicroBatch, MicroBatchReader, QueryBuilder, QueryError, QueryIdle, QueryListener, QueryProgress,
    QueryStarted, QueryTerminated, RetryPolicy, RunnableQuery, SinkProgress, SourceProgress, StreamingQuery, Trigger,
    TriggerError,
};
pub use read::{BatchReader, KeptBatch, RangeCounts, RangeOutcome, ReadBatch, ReadProgress, ReadSettings};
pub use sink::{FileSink, JsonRow, LineFormat, LineSink, NullSink, RecordWriter, Sink};
pub use strategy::ConsumerStrategy;

/// The examples of the project's README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

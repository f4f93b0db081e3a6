//! Reads Kafka in explicit offset ranges, filters on the fetched bytes, and commits only what was processed.
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

mod batch;
mod commit;
mod error;
mod filter;
mod offset;
mod options;
mod plan;
mod read;
mod sink;
mod strategy;

pub use batch::{PlannedBatch, ProcessedBatch};
pub use commit::CommitOutcome;
pub use error::{DataLoss, Error, LossKind, LostRange, ReadError, ReadErrorKind, Result, SinkError};
pub use filter::{BoundFilter, BytesColumn, Filter, IntColumn, LikeError, WhereError};
pub use offset::{OffsetRange, OffsetRangeLimit, PartitionTimestamps, SourceOffset};
pub use options::{OptionError, StartingOffsetsByTimestampStrategy, StreamOptions, client_config};
pub use ottla_client::{Client, TopicPartition};
pub use read::{RangeCounts, RangeOutcome, ReadProgress, ReadSettings};
pub use sink::{JsonRow, LineFormat, LineSink, NullSink, RecordWriter, Sink};
pub use strategy::ConsumerStrategy;

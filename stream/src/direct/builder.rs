//! What a direct stream is told before it starts.

use super::{DirectStream, commits::Commits, starts};
use crate::{Filter, GroupStore, OffsetRangeLimit, OptionError, ReadSettings, Result, StreamOptions, query::Source};
use ottla_client::Client;
use std::time::Duration;
use uuid::Uuid;

/// The shortest interval: brokers are not asked in a tight loop.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// A [`DirectStream`] in the making.
#[derive(Clone, Debug)]
#[must_use]
pub struct DirectStreamBuilder {
    options: StreamOptions,
    filter: Filter,
    parallelism: usize,
    interval: Duration,
    rate: Option<u64>,
    commit_timeout: Duration,
}

impl DirectStreamBuilder {
    pub(super) fn new(options: StreamOptions) -> Self {
        Self {
            options,
            filter: Filter::always(),
            parallelism: ReadSettings::default().parallelism,
            interval: Duration::from_secs(1),
            rate: None,
            commit_timeout: Duration::from_secs(10),
        }
    }

    /// How long after a batch was planned the next one is, if the first is processed by then. Default 1 s; 100 ms at least.
    pub fn batch_interval(mut self, interval: Duration) -> Self {
        self.interval = interval.max(INTERVAL_MIN);
        self
    }

    /// A batch takes so many offsets of a partition for each second of the interval, and one at least. Default: all there are.
    pub fn max_rate_per_partition(mut self, records_per_second: u64) -> Self {
        self.rate = Some(records_per_second);
        self
    }

    /// The group to commit to and to begin from, in place of the option `kafka.consumer.commit.groupid`.
    pub fn commit_group(mut self, group: impl Into<String>) -> Self {
        self.options.commit_group = Some(group.into());
        self
    }

    /// How long a commit may take, and how long [`DirectStream::stop`] tries. Default 10 s.
    pub fn commit_timeout(mut self, timeout: Duration) -> Self {
        self.commit_timeout = timeout;
        self
    }

    /// Which records batches show. It changes nothing about what is committed. Default: all.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// How many threads [`DirectBatch::write_to`](super::DirectBatch::write_to) reads with at most. Default: one a core.
    pub fn parallelism(mut self, threads: usize) -> Self {
        self.parallelism = threads;
        self
    }

    /// Makes contact with the cluster. Nothing is planned yet.
    ///
    /// # Errors
    /// Options that a direct stream has no use for, no group, a rate of 0; no broker can be reached.
    pub async fn start(self) -> Result<DirectStream> {
        let options = &self.options;
        let group = match options.commit_group.as_deref().unwrap_or_default() {
            "" => {
                return Err(OptionError::new(
                    "a direct stream begins where its group is: name one in option 'kafka.consumer.commit.groupid'",
                )
                .into());
            }
            group => group.to_owned(),
        };
        check(options)?;
        if self.rate == Some(0) {
            return Err(OptionError::new("max_rate_per_partition is 0, with which nothing is ever read").into());
        }
        let explicit = match &options.starting {
            OffsetRangeLimit::Specific(offsets) => Some(offsets.iter().collect()),
            _ => None,
        };
        let client = Client::connect(options.client.clone()).await?;
        Ok(DirectStream {
            id: Uuid::new_v4(),
            commits: Commits::new(GroupStore::new(&client, group), self.commit_timeout),
            source: Source::new(self.options, client),
            filter: self.filter,
            parallelism: self.parallelism,
            interval: self.interval,
            offsets_max: self.rate.map(|rate| starts::offsets_max(rate, self.interval)),
            explicit,
            batch_id: 0,
            outstanding: None,
            lost: Vec::new(),
            due: None,
            is_stopped: false,
        })
    }
}

/// Options that mean something else than a direct stream does.
fn check(options: &StreamOptions) -> Result<(), OptionError> {
    let batches = "is for queries: a direct stream has its batch interval and max_rate_per_partition";
    let whole = "splits ranges: a direct stream has one a partition, in the order of its offset ranges";
    let query = "is for queries: a direct stream remembers nothing but what it commits to its group";
    let refused = [
        ("maxOffsetsPerTrigger", options.max_offsets_per_trigger.is_some(), batches),
        ("minOffsetsPerTrigger", options.min_offsets_per_trigger.is_some(), batches),
        ("minPartitions", options.min_partitions.is_some(), whole),
        ("maxRecordsPerPartition", options.max_records_per_partition.is_some(), whole),
        ("checkpointLocation", options.checkpoint_location.is_some(), query),
        ("queryName", options.query_name.is_some(), query),
    ];
    if let Some((name, _, reason)) = refused.iter().find(|(_, is_given, _)| *is_given) {
        return Err(OptionError::new(format!("option '{name}' {reason}")));
    }
    if options.ending != OffsetRangeLimit::Latest {
        return Err(OptionError::new("ending offset not valid in streaming queries: a direct stream goes on"));
    }
    match options.starting {
        OffsetRangeLimit::SpecificTimestamp(_) => Err(OptionError::new(
            "option 'startingOffsetsByTimestamp' names partitions, and a direct stream asks it only about those that its group has nothing of: \
             use startingTimestamp",
        )),
        _ => Ok(()),
    }
}

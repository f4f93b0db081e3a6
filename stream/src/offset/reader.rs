//! What planning asks the cluster: partitions, where their logs begin and end, and what start and end options come to in numbers.

use super::{Begin, looks_like_seconds, source_offset::EARLIEST, source_offset::LATEST};
use crate::{
    ConsumerStrategy, Error, OffsetRangeLimit, Offsets, Result, StartingOffsetsByTimestampStrategy, StreamOptions,
    options::partition_set,
};
use ottla_client::{Client, OffsetAndTimestamp, OffsetSpec, Topic, TopicPartition};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// A call that takes so much longer than its own limit was not at work all the time.
const OVERSLEPT: Duration = Duration::from_secs(1);

/// Which end of the ranges is being resolved, and for what.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Start,
    Until,
    StreamStart,
}

/// The ends of logs, as they were asked for once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latest {
    pub(crate) offsets: Offsets,
    /// The leader epochs there, where the broker said.
    pub(crate) epochs: BTreeMap<TopicPartition, i32>,
}

/// Asks for one source. Every call is tried `fetchOffset.numRetries` times, whatever the error (SPARK 4), but for no longer than one call may
/// take with its own retries.
#[derive(Clone, Debug)]
pub(crate) struct OffsetReader<'a> {
    pub(crate) client: &'a Client,
    pub(crate) options: &'a StreamOptions,
}

impl OffsetReader<'_> {
    pub(super) async fn tried<T, E, F>(&self, call: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, E>>,
        Error: From<E>,
    {
        let limit = self.client.config().default_api_timeout;
        let (mut begun, mut tries) = (Instant::now(), 1);
        loop {
            let trying = Instant::now();
            let result = call().await;
            if trying.elapsed() > limit.saturating_add(OVERSLEPT) {
                // The process was stopped meanwhile (SIGSTOP, a machine put to sleep): that time says nothing of the brokers.
                begun = Instant::now();
            }
            match result {
                Err(_) if tries < self.options.fetch_offset_num_retries && begun.elapsed() < limit => {
                    tries += 1;
                    tokio::time::sleep(self.options.fetch_offset_retry_interval).await;
                }
                result => return Ok(result?),
            }
        }
    }

    /// The topics there are now, Kafka's own left out.
    pub(crate) async fn topics(&self) -> Result<BTreeMap<String, Topic>> {
        let mut topics = match &self.options.strategy {
            ConsumerStrategy::Subscribe(names) => self.tried(|| self.client.topics_now(names)).await?,
            ConsumerStrategy::Assign(assigned) => {
                let names: Vec<String> = assigned.keys().cloned().collect();
                return self.tried(|| self.client.topics_now(&names)).await;
            }
            ConsumerStrategy::SubscribePattern(pattern) => {
                let mut topics = self.tried(|| self.client.all_topics()).await?;
                topics.retain(|name, _| pattern.is_match(name));
                topics
            }
        };
        topics.retain(|_, topic| !topic.is_internal);
        Ok(topics)
    }

    /// Those partitions of `topics` that are to be read.
    pub(crate) fn partitions(&self, topics: &BTreeMap<String, Topic>) -> Result<BTreeSet<TopicPartition>> {
        let all = topics
            .iter()
            .flat_map(|(name, topic)| {
                topic.partitions.keys().map(move |index| TopicPartition::new(name.clone(), *index))
            })
            .collect::<BTreeSet<_>>();
        let ConsumerStrategy::Assign(assigned) = &self.options.strategy else { return Ok(all) };
        let assigned: BTreeSet<TopicPartition> = assigned
            .iter()
            .flat_map(|(topic, indexes)| indexes.iter().map(move |index| TopicPartition::new(topic.clone(), *index)))
            .collect();
        match assigned.iter().find(|partition| !all.contains(partition)) {
            Some(missing) => Err(ottla_client::Error::UnknownPartition { partition: missing.clone() }.into()),
            None => Ok(assigned),
        }
    }

    /// The log starts.
    pub(crate) async fn earliest(&self, partitions: &BTreeSet<TopicPartition>) -> Result<Offsets> {
        if partitions.is_empty() {
            return Ok(Offsets::new());
        }
        Ok(known(&self.list(partitions, OffsetSpec::Earliest).await?))
    }

    /// The log ends: high watermarks, or last stable offsets under `kafka.isolation.level=read_committed`. An answer below what is `processed`
    /// already comes from a leader that is behind: it is asked again, as often as calls are tried, and then taken as it is (SPARK 6).
    pub(crate) async fn latest(
        &self,
        partitions: &BTreeSet<TopicPartition>,
        processed: Option<&Offsets>,
    ) -> Result<Latest> {
        let mut tries = 1;
        loop {
            let found = self.list(partitions, OffsetSpec::Latest).await?;
            let offsets = known(&found);
            let stale = |(partition, end): (&TopicPartition, &i64)| {
                processed.and_then(|processed| processed.get(partition)).is_some_and(|processed| end < processed)
            };
            if tries < self.options.fetch_offset_num_retries && offsets.iter().any(stale) {
                tries += 1;
                tokio::time::sleep(self.options.fetch_offset_retry_interval).await;
                continue;
            }
            let epoch = |(partition, end): (TopicPartition, OffsetAndTimestamp)| Some((partition, end.leader_epoch?));
            return Ok(Latest { offsets, epochs: found.into_iter().filter_map(epoch).collect() });
        }
    }

    async fn list(
        &self,
        partitions: &BTreeSet<TopicPartition>,
        spec: OffsetSpec,
    ) -> Result<BTreeMap<TopicPartition, OffsetAndTimestamp>> {
        let wanted = partitions.iter().map(|partition| (partition.clone(), spec)).collect::<BTreeMap<_, _>>();
        self.tried(|| self.client.list_offsets(&wanted, self.client.config().isolation_level)).await
    }

    /// Turns a limit into a number for each of `partitions`: of a group without a commit that is the log's start.
    pub(crate) async fn resolve(
        &self,
        limit: &OffsetRangeLimit,
        end: End,
        topics: &BTreeMap<String, Topic>,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<Begin> {
        let offsets = match limit {
            OffsetRangeLimit::Earliest => self.earliest(partitions).await,
            OffsetRangeLimit::Latest => Ok(self.latest(partitions, None).await?.offsets),
            OffsetRangeLimit::Specific(offsets) => {
                self.check_set(&offsets.iter().map(|(partition, _)| partition).collect(), partitions, end, "")?;
                self.late_bound(offsets.iter().collect()).await
            }
            OffsetRangeLimit::GlobalTimestamp(timestamp) => {
                let timestamps = partitions.iter().map(|partition| (partition.clone(), *timestamp)).collect();
                self.at_timestamps(&timestamps, end).await
            }
            OffsetRangeLimit::SpecificTimestamp(timestamps) => {
                let specified = timestamps.keys().cloned().collect();
                self.check_set(&specified, partitions, end, "timestamp based ")?;
                self.at_timestamps(timestamps, end).await
            }
            OffsetRangeLimit::Group => {
                let mut begin = self.committed(topics, partitions).await?;
                let known = |partition: &&TopicPartition| !begin.offsets.contains_key(*partition);
                let missing: BTreeSet<TopicPartition> = partitions.iter().filter(known).cloned().collect();
                begin.offsets.extend(self.earliest(&missing).await?);
                return Ok(begin);
            }
        };
        Ok(Begin { offsets: offsets?, ..Begin::default() })
    }

    /// Replaces -1 and -2 by the log's end and start.
    pub(crate) async fn late_bound(&self, mut offsets: Offsets) -> Result<Offsets> {
        let with = |value| -> BTreeSet<TopicPartition> {
            let those = offsets.iter().filter(|(_, offset)| **offset == value);
            those.map(|(partition, _)| partition.clone()).collect()
        };
        let (at_start, at_end) = (with(EARLIEST), with(LATEST));
        if !at_start.is_empty() {
            offsets.extend(self.earliest(&at_start).await?);
        }
        if !at_end.is_empty() {
            offsets.extend(self.latest(&at_end, None).await?.offsets);
        }
        Ok(offsets)
    }

    /// A map in the options must name exactly the partitions there are (SPARK 4).
    fn check_set(
        &self,
        specified: &BTreeSet<TopicPartition>,
        assigned: &BTreeSet<TopicPartition>,
        end: End,
        kind: &str,
    ) -> Result<()> {
        if specified == assigned {
            return Ok(());
        }
        let sets = format!("Specified: {} Assigned: {}", partition_set(specified), partition_set(assigned));
        let message = if end == End::StreamStart && kind.is_empty() {
            format!(
                "assertion failed: If startingOffsets contains specific offsets, you must specify all TopicPartitions.\nUse -1 for latest, -2 for \
                 earliest, if you don't care.\n{sets}"
            )
        } else {
            let end = if end == End::Until { "end" } else { "start" };
            let hint = match kind {
                "" => "Use -1 for latest, -2 for earliest.",
                _ => "or you didn't specify all the partitions.",
            };
            format!(
                "Partitions specified for Kafka {kind}{end} offsets don't match what are assigned. Maybe topic partitions are created \nor \
                 deleted while the query is running. {hint}\n{sets}"
            )
        };
        Err(Error::Plan { condition: "MISMATCHED_TOPIC_PARTITIONS", message })
    }

    async fn at_timestamps(&self, timestamps: &Offsets, end: End) -> Result<Offsets> {
        let wanted =
            timestamps.iter().map(|(partition, time)| (partition.clone(), OffsetSpec::Timestamp(*time))).collect();
        let isolation = self.client.config().isolation_level;
        let found = self.tried(|| self.client.list_offsets(&wanted, isolation)).await?;
        let mut offsets = known(&found);
        // No offset means that no record is so late, not the end of the log.
        let unmatched: BTreeSet<TopicPartition> =
            timestamps.keys().filter(|partition| !offsets.contains_key(partition)).cloned().collect();
        let error = StartingOffsetsByTimestampStrategy::Error;
        if let Some(partition) = unmatched.first()
            && end != End::Until
            && self.options.starting_by_timestamp_strategy == error
        {
            let timestamp = timestamps.get(partition).copied().unwrap_or_default();
            let hint = match looks_like_seconds(timestamp) {
                true => " Is it in seconds? It must be in milliseconds.",
                false => "",
            };
            return Err(Error::Plan {
                condition: "NO_OFFSET_MATCHED",
                message: format!(
                    "No offset matched from request of topic-partition {partition} and timestamp {timestamp}.{hint}"
                ),
            });
        }
        if !unmatched.is_empty() {
            offsets.extend(self.latest(&unmatched, None).await?.offsets);
        }
        Ok(offsets)
    }
}

fn known(found: &BTreeMap<TopicPartition, OffsetAndTimestamp>) -> Offsets {
    found.iter().filter_map(|(partition, found)| Some((partition.clone(), found.offset?))).collect()
}

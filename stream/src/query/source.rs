//! One source of a query: where it is, what is new, and the ranges of a batch.

use super::micro_batch::Part;
use crate::{
    Error, LossKind, LostRange, OffsetRange, OffsetStore, Offsets, ReadSettings, Result, StoreCommit, StreamOptions,
    checkpoint::OwnSource,
    offset::{Begin, End, Latest, OffsetReader},
    options::partition_set,
    planner::{MinOffsets, RangeInput, plan_ranges, rate_limit, split},
    read::PlannedRange,
};
use ottla_client::{Client, Topic, TopicPartition};
use ottla_protocol::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// A source, between two batches.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) options: StreamOptions,
    pub(crate) client: Client,
    /// Where the next batch begins: the end of the batch before, or the initial offsets; `None` before either is known.
    pub(crate) position: Option<Offsets>,
    /// Whether a batch was run: before the first one, any partition is news.
    pub(super) began: bool,
    /// The topics' ids when `position` was written, as far as they are known.
    topic_ids: BTreeMap<String, Uuid>,
    min_offsets: Option<MinOffsets>,
    /// The ends beyond which nothing is read any more, and the topics' ids then (available-now).
    frozen: Option<(Latest, BTreeMap<String, Uuid>)>,
}

/// What a look at the cluster came to.
#[derive(Debug)]
pub(crate) struct Look {
    /// Where the next batch would end.
    pub(crate) end: Offsets,
    /// Whether that is anything new. Partitions without records are, and so is a topic that was created again, wherever its log ends.
    pub(crate) is_news: bool,
    /// Everything there is, as far as the query reads.
    pub(crate) latest: Latest,
    /// What our own file keeps beside the batch.
    pub(crate) own: OwnSource,
}

/// Where a batch of this source begins and ends.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// The end of the batch before, and what our own file had beside it.
    pub(crate) start: Offsets,
    pub(crate) start_ids: BTreeMap<String, Uuid>,
    pub(crate) end: Offsets,
    pub(crate) own: OwnSource,
}

impl Span {
    /// Where it begins in each partition that has anything to read.
    pub(crate) fn begin_offsets(&self) -> Offsets {
        let from = |(partition, end): (&TopicPartition, &i64)| {
            let from = self.own.new_starts.get(partition).or_else(|| self.start.get(partition))?;
            (from < end).then(|| (partition.clone(), *from))
        };
        self.end.iter().filter_map(from).collect()
    }
}

impl Source {
    pub(crate) fn new(options: StreamOptions, client: Client) -> Self {
        let min_offsets = options.min_offsets_per_trigger.map(|min| MinOffsets::new(min, options.max_trigger_delay));
        Self { options, client, position: None, began: false, topic_ids: BTreeMap::new(), min_offsets, frozen: None }
    }

    pub(crate) fn reader(&self) -> OffsetReader<'_> {
        OffsetReader { client: &self.client, options: &self.options }
    }

    /// Goes to the end of a batch.
    pub(crate) fn move_to(&mut self, end: Offsets, topic_ids: BTreeMap<String, Uuid>) {
        self.position = Some(end);
        self.topic_ids = topic_ids;
        self.began = true;
    }

    /// The ids of the topics when the batch before was planned.
    pub(crate) fn topic_ids(&self) -> &BTreeMap<String, Uuid> {
        &self.topic_ids
    }

    /// The partitions there are now.
    pub(crate) async fn partitions(&self) -> Result<(BTreeMap<String, Topic>, BTreeSet<TopicPartition>)> {
        let topics = self.reader().topics().await?;
        let partitions = self.reader().partitions(&topics)?;
        Ok((topics, partitions))
    }

    /// Topics of a commit that are gone since, or other ones of the same name. A store would wait for them.
    pub(super) async fn no_longer_there(&self, commit: &StoreCommit) -> Result<BTreeSet<String>> {
        let topics = self.reader().topics().await?;
        let mut gone = changed(&commit.topic_ids, &ids(&topics));
        let names = commit.offsets.keys().map(|partition| &partition.topic);
        gone.extend(names.filter(|name| !topics.contains_key(*name)).cloned());
        Ok(gone)
    }

    /// Resolves the start options to numbers.
    pub(super) async fn begin(&mut self) -> Result<Begin> {
        let (topics, partitions) = self.partitions().await?;
        let begin = self.reader().resolve(&self.options.starting, End::StreamStart, &topics, &partitions).await?;
        self.topic_ids = ids(&topics);
        self.position = Some(begin.offsets.clone());
        Ok(begin)
    }

    /// Begins where a store says, at the log's start in partitions that it has nothing of. If it has nothing at all, it does not say.
    pub(super) async fn begin_at(&mut self, store: &dyn OffsetStore) -> Result<Begin> {
        let (topics, partitions) = self.partitions().await?;
        let mut begin = self.reader().stored(store, &topics, &partitions).await?;
        if !begin.offsets.is_empty() {
            let missing = partitions.into_iter().filter(|partition| !begin.offsets.contains_key(partition)).collect();
            begin.offsets.extend(self.reader().earliest(&missing).await?);
            self.move_to(begin.offsets.clone(), ids(&topics));
            // What was put right is stored with the first batch, also if that has nothing to read.
            self.began = begin.lost.is_empty();
        }
        Ok(begin)
    }

    /// From now on nothing is read beyond what is there (available-now).
    pub(super) async fn freeze(&mut self) -> Result<()> {
        let (topics, partitions) = self.partitions().await?;
        let latest = self.reader().latest(&partitions, self.position.as_ref()).await?;
        self.frozen = Some((latest, ids(&topics)));
        Ok(())
    }

    /// Looks what is there, and how much of it the next batch takes. `position` is known by now.
    ///
    /// # Errors
    /// The cluster can't be asked; a topic was created again and `failOnDataLoss` is true; what an available-now query has set out to read
    /// is gone.
    pub(crate) async fn look(&mut self, now_ms: i64, limited: bool) -> Result<Look> {
        let (topics, partitions) = self.partitions().await?;
        let now = ids(&topics);
        let position = self.position.clone().unwrap_or_default();
        let recreated = changed(&self.topic_ids, &now);
        let processed = position.iter().filter(|(partition, _)| !recreated.contains(&partition.topic));
        let processed: Offsets = processed.map(|(partition, offset)| (partition.clone(), *offset)).collect();
        let current = self.reader().latest(&partitions, Some(&processed)).await?;
        let latest = match &self.frozen {
            Some((frozen, frozen_ids)) => {
                check_frozen(&frozen.offsets, &current.offsets, &changed(frozen_ids, &now))?;
                frozen.clone()
            }
            None => current,
        };
        let gone = position.iter().filter(|(partition, _)| recreated.contains(&partition.topic));
        let gone: Vec<LostRange> = gone.map(|(partition, start)| was_recreated(partition, *start, &latest)).collect();
        if self.options.fail_on_data_loss && !gone.is_empty() {
            return Err(self.reader().data_loss(gone).into());
        }
        let new: BTreeSet<TopicPartition> =
            latest.offsets.keys().filter(|partition| !processed.contains_key(*partition)).cloned().collect();
        let new_starts = if new.is_empty() { Offsets::new() } else { self.reader().earliest(&new).await? };
        let mut starts = processed;
        starts.retain(|partition, _| latest.offsets.contains_key(partition));
        starts.extend(new_starts.iter().map(|(partition, offset)| (partition.clone(), *offset)));
        let end = self.end(now_ms, limited, &starts, &latest.offsets);
        let is_news = match &end {
            None => false,
            Some(end) if self.began => *end != position || !recreated.is_empty(),
            Some(end) => !end.is_empty(),
        };
        let (end, topic_ids, new_starts) = match end {
            Some(end) => {
                let id = |partition: &TopicPartition| Some((partition.topic.clone(), *now.get(&partition.topic)?));
                let topic_ids = end.keys().filter_map(id).collect();
                (end, topic_ids, new_starts)
            }
            // A batch of other sources leaves everything here as it was: a topic that is another one by now is still to be noticed.
            None => (position, self.topic_ids.clone(), Offsets::new()),
        };
        let own = OwnSource { topic_ids, leader_epochs: latest.epochs.clone(), new_starts };
        Ok(Look { end, is_news, latest, own })
    }

    /// How far the next batch goes (SPARK 6). `None` if it is to wait for more.
    fn end(&mut self, now_ms: i64, limited: bool, starts: &Offsets, latest: &Offsets) -> Option<Offsets> {
        if !limited {
            return Some(latest.clone());
        }
        // Partitions that are not known yet count from offset 0 here, and from their log start below, as in Spark.
        if let (Some(min), Some(position)) = (&mut self.min_offsets, &self.position)
            && !min.fires(now_ms, position, latest)
        {
            return None;
        }
        Some(match self.options.max_offsets_per_trigger {
            Some(limit) => rate_limit(limit, starts, latest),
            None => latest.clone(),
        })
    }

    /// The ranges of a batch. What is there is looked up again, since a batch that is run again was planned some time ago.
    ///
    /// # Errors
    /// [`Error::DataLoss`] with everything that is gone, if `failOnDataLoss` is true.
    pub(crate) async fn plan(&self, span: &Span, parallelism: usize) -> Result<Part> {
        let (topics, partitions) = self.partitions().await?;
        let there: BTreeSet<TopicPartition> =
            span.end.keys().filter(|partition| partitions.contains(*partition)).cloned().collect();
        let earliest = self.reader().earliest(&there).await?;
        let now = ids(&topics);
        // Of a topic that was created again since, what its log holds now says nothing of the ranges: they are lost when they are read.
        let recreated_since = changed(&span.own.topic_ids, &now);
        let latest = self.reader().latest(&there, None).await?;
        let log = there
            .iter()
            .filter(|partition| !recreated_since.contains(&partition.topic))
            .filter_map(|p| Some((p.clone(), (*earliest.get(p)?, *latest.offsets.get(p)?))))
            .collect();
        let mut new_starts = earliest.clone();
        new_starts.retain(|partition, _| !span.start.contains_key(partition));
        new_starts.extend(span.own.new_starts.iter().map(|(partition, offset)| (partition.clone(), *offset)));
        let planned = plan_ranges(&RangeInput {
            start: &span.start,
            until: &span.end,
            new_starts: &new_starts,
            recreated: &changed(&span.start_ids, &span.own.topic_ids),
            log: &log,
            fail_on_data_loss: self.options.fail_on_data_loss,
        });
        let mut planned = planned.map_err(|loss| self.reader().data_loss(loss.lost))?;
        let gone: Vec<LostRange> = planned
            .ranges
            .iter()
            .filter(|range| !range.is_empty())
            .filter_map(|range| {
                let partition = TopicPartition::new(range.topic.clone(), range.partition);
                (!there.contains(&partition)).then(|| deleted(range.clone()))
            })
            .collect();
        if !gone.is_empty() && self.options.fail_on_data_loss {
            return Err(self.reader().data_loss(gone).into());
        }
        planned.ranges.retain(|range| gone.iter().all(|gone| gone.range != *range));
        planned.lost.extend(gone);
        let pieces = split(planned.ranges, self.options.min_partitions, self.options.max_records_per_partition);
        let ranges = pieces.into_iter().map(|range| {
            let partition = TopicPartition::new(range.topic.clone(), range.partition);
            PlannedRange {
                topic_id: span.own.topic_ids.get(&range.topic).or_else(|| now.get(&range.topic)).copied(),
                known_end: latest.offsets.get(&partition).copied().unwrap_or(range.until_offset),
                end_epoch: latest.epochs.get(&partition).copied(),
                range,
            }
        });
        let ranges = ranges.collect();
        Ok(Part { ranges, end_offsets: span.end.clone(), lost: planned.lost, ..self.nothing(parallelism) })
    }

    /// Its part in a batch before it has a partition.
    pub(super) fn nothing(&self, parallelism: usize) -> Part {
        let settings = ReadSettings {
            fail_on_data_loss: self.options.fail_on_data_loss,
            include_headers: self.options.include_headers,
            parallelism,
            records_max: None,
        };
        let client = self.client.clone();
        Part { client, ranges: Vec::new(), end_offsets: Offsets::new(), lost: Vec::new(), settings }
    }
}

/// The ids of topics, where the brokers have them.
pub(crate) fn ids(topics: &BTreeMap<String, Topic>) -> BTreeMap<String, Uuid> {
    topics.iter().filter_map(|(name, topic)| Some((name.clone(), topic.topic_id?))).collect()
}

/// The topics that have another id now. One whose id is not known on both sides has not changed.
pub(crate) fn changed(before: &BTreeMap<String, Uuid>, now: &BTreeMap<String, Uuid>) -> BTreeSet<String> {
    let changed = before.iter().filter(|(topic, id)| now.get(*topic).is_some_and(|now| now != *id));
    changed.map(|(topic, _)| topic.clone()).collect()
}

fn was_recreated(partition: &TopicPartition, start: i64, latest: &Latest) -> LostRange {
    LostRange {
        range: OffsetRange {
            topic: partition.topic.clone(),
            partition: partition.partition,
            from_offset: start,
            until_offset: start,
        },
        kind: LossKind::Recreated,
        wanted_until_offset: start,
        log_start_offset: -1,
        log_end_offset: latest.offsets.get(partition).copied().unwrap_or(-1),
    }
}

fn deleted(range: OffsetRange) -> LostRange {
    let wanted_until_offset = range.until_offset;
    LostRange { range, kind: LossKind::PartitionDeleted, wanted_until_offset, log_start_offset: -1, log_end_offset: -1 }
}

/// What an available-now query has set out to read must stay there; a topic that goes would keep it waiting for ever (SPARK 5).
fn check_frozen(frozen: &Offsets, current: &Offsets, recreated: &BTreeSet<String>) -> Result<()> {
    let is_gone =
        |partition: &&TopicPartition| !current.contains_key(*partition) || recreated.contains(&partition.topic);
    let lost: BTreeSet<&TopicPartition> = frozen.keys().filter(is_gone).collect();
    if !lost.is_empty() {
        return Err(Error::Plan {
            condition: "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
            message: format!(
                "Some of partitions in Kafka topic(s) have been lost during running query with Trigger.AvailableNow: {} are gone, which were \
                 there when it began",
                partition_set(lost)
            ),
        });
    }
    let smaller = frozen.iter().find(|(partition, end)| current.get(*partition).is_some_and(|now| now < *end));
    match smaller {
        Some((partition, end)) => Err(Error::Plan {
            condition: "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW",
            message: format!(
                "Some of partitions in Kafka topic(s) report available offset which is less than end offset during running query with \
                 Trigger.AvailableNow: {partition} ends at {} now, and ended at {end} when the query began",
                current.get(partition).copied().unwrap_or_default()
            ),
        }),
        None => Ok(()),
    }
}

//! Offsets that a store holds, held against the log as it is now: a read begins only where there is something to begin with.

use super::OffsetReader;
use crate::{DataLoss, GroupStore, LossKind, LostRange, OffsetOutOfRange, OffsetRange, OffsetStore, Offsets, Result};
use ottla_client::{Topic, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};

/// What a store says of where to begin.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Begin {
    /// Of the partitions that it says something of.
    pub(crate) offsets: Offsets,
    /// What it was to be read next, and is not in the log; unless that is an error.
    pub(crate) lost: Vec<LostRange>,
    /// The newest batch that wrote one of them.
    pub(crate) batch_id: Option<i64>,
    /// What it says that is no offset: as good as nothing.
    pub(crate) not_offsets: Offsets,
}

impl OffsetReader<'_> {
    /// Where the commit group lets each of `partitions` begin that it has committed anything for.
    ///
    /// # Errors
    /// [`DataLoss`](crate::Error::DataLoss) for what is not in the log, under `ottla.offsetOutOfRange=fail`.
    pub(crate) async fn committed(
        &self,
        topics: &BTreeMap<String, Topic>,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<Begin> {
        match &self.options.commit_group {
            Some(group) => self.stored(&GroupStore::new(self.client, group), topics, partitions).await,
            None => Ok(Begin::default()),
        }
    }

    /// Where a store lets each of `partitions` begin that it has anything of.
    ///
    /// # Errors
    /// It can't be asked; [`DataLoss`](crate::Error::DataLoss) for what is not in the log, under `ottla.offsetOutOfRange=fail`.
    pub(crate) async fn stored(
        &self,
        store: &dyn OffsetStore,
        topics: &BTreeMap<String, Topic>,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<Begin> {
        let policy = self.options.out_of_range(store.offset_out_of_range());
        let stored = self.tried(|| store.load(Some(partitions))).await?;
        let id = |partition: &TopicPartition| topics.get(&partition.topic).and_then(|topic| topic.topic_id);
        let batch_id = stored.batch_id();
        // What was committed of a topic of the same name says nothing of this one.
        let (valid, old): (Vec<_>, Vec<_>) =
            stored.offsets.into_iter().partition(|(partition, stored)| stored.is_of(id(partition)));
        let offsets = valid.into_iter().map(|(partition, stored)| (partition, stored.offset)).collect();
        let old: Offsets = old.into_iter().map(|(partition, stored)| (partition, stored.offset)).collect();
        let log = self.log(&old.keys().cloned().collect()).await?;
        let gone = old.iter().map(|(partition, offset)| {
            let log = log.get(partition).copied().unwrap_or((-1, -1));
            lost_range(partition, LossKind::Recreated, (*offset, *offset), log)
        });
        let mut lost: Vec<LostRange> = gone.collect();
        if policy == OffsetOutOfRange::Fail && !lost.is_empty() {
            return Err(self.data_loss(lost).into());
        }
        let (mut offsets, out_of_range) = self.validated(offsets, policy).await?;
        lost.extend(out_of_range);
        for (partition, (start, end)) in log {
            offsets.insert(partition, if policy == OffsetOutOfRange::Latest { end } else { start });
        }
        Ok(Begin { offsets, lost, batch_id, not_offsets: stored.not_offsets })
    }

    /// Holds stored offsets against the log, as `ottla.offsetOutOfRange` says.
    async fn validated(&self, mut offsets: Offsets, policy: OffsetOutOfRange) -> Result<(Offsets, Vec<LostRange>)> {
        let log = self.log(&offsets.keys().cloned().collect()).await?;
        let mut out_of_range = Vec::new();
        for (partition, offset) in &mut offsets {
            let Some((log_start, log_end)) = log.get(partition).copied() else { continue };
            let (kind, range) = match *offset {
                stored if stored < log_start => (LossKind::OutOfRange, (stored, log_start)),
                stored if stored > log_end => (LossKind::OffsetChanged, (log_end, stored)),
                _ => continue,
            };
            out_of_range.push(lost_range(partition, kind, range, (log_start, log_end)));
            *offset = match policy {
                OffsetOutOfRange::Latest => log_end,
                OffsetOutOfRange::Fail | OffsetOutOfRange::Earliest => log_start,
            };
        }
        if policy == OffsetOutOfRange::Fail && !out_of_range.is_empty() {
            return Err(self.data_loss(out_of_range).into());
        }
        Ok((offsets, out_of_range))
    }

    /// The loss of these ranges, as an error.
    pub(crate) fn data_loss(&self, lost: Vec<LostRange>) -> DataLoss {
        let mut loss = DataLoss::new(lost);
        loss.has_group_id = self.options.custom_group_id;
        loss
    }

    /// Where the logs begin and end now.
    async fn log(&self, partitions: &BTreeSet<TopicPartition>) -> Result<BTreeMap<TopicPartition, (i64, i64)>> {
        if partitions.is_empty() {
            return Ok(BTreeMap::new());
        }
        let earliest = self.earliest(partitions).await?;
        let latest = self.latest(partitions, None).await?.offsets;
        let both = |(partition, start): (TopicPartition, i64)| {
            latest.get(&partition).map(|end| (partition.clone(), (start, *end)))
        };
        Ok(earliest.into_iter().filter_map(both).collect())
    }
}

fn lost_range(
    partition: &TopicPartition,
    kind: LossKind,
    (from_offset, until_offset): (i64, i64),
    (log_start_offset, log_end_offset): (i64, i64),
) -> LostRange {
    LostRange {
        range: OffsetRange {
            topic: partition.topic.clone(),
            partition: partition.partition,
            from_offset,
            until_offset,
        },
        kind,
        wanted_until_offset: if kind == LossKind::Recreated { until_offset } else { log_end_offset.max(until_offset) },
        log_start_offset,
        log_end_offset,
    }
}

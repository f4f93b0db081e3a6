//! Where a query goes on: from the checkpoint, or from its stores.

use super::{Batch, BatchSource, Run, on_disk};
use crate::{
    OffsetOutOfRange, Offsets, Result, StoreCommit,
    checkpoint::{Checkpoint, OffsetsEntry, OwnSource, Recovered},
    offset::Begin,
    query::{Trigger, observer::Observer, source::Span},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl Run {
    /// Finds out where the query goes on.
    pub(super) async fn recover(&mut self) -> Result<()> {
        match self.checkpoint.clone() {
            Some(checkpoint) => self.recover_from(&checkpoint).await?,
            None => self.recover_from_stores().await?,
        }
        if self.trigger == Trigger::AvailableNow {
            for index in 0..self.sources.len() {
                self.begin_source(index).await?;
            }
            for source in &mut self.sources {
                source.freeze().await?;
            }
        }
        Ok(())
    }

    /// Where continuous mode goes on: after the last epoch that was committed.
    pub(super) async fn recover_epoch(&mut self) -> Result<()> {
        match self.checkpoint.clone() {
            Some(checkpoint) => {
                let sources = self.sources.len();
                let recovered = on_disk(&checkpoint, move |checkpoint| checkpoint.recover_continuous(sources)).await?;
                self.batch_id = recovered.next_epoch;
                if let Some((epoch, entry)) = recovered.committed {
                    self.committed_before(epoch, &entry, Vec::new()).await?;
                }
                self.warn_all(checkpoint.warnings());
            }
            None => self.recover_from_stores().await?,
        }
        self.begin_source(0).await
    }

    async fn recover_from(&mut self, checkpoint: &Arc<Checkpoint>) -> Result<()> {
        let sources = self.sources.len();
        match on_disk(checkpoint, move |checkpoint| checkpoint.recover(sources)).await? {
            Recovered::New => {}
            Recovered::Committed { batch_id, entry, before } => {
                self.batch_id = batch_id.saturating_add(1);
                let mut starts = Vec::new();
                for index in 0..sources {
                    starts.push(match &before {
                        Some(before) => before.sources.get(index).cloned().flatten(),
                        None => on_disk(checkpoint, move |checkpoint| checkpoint.initial_offsets(index)).await?,
                    });
                }
                self.committed_before(batch_id, &entry, starts).await?;
            }
            Recovered::Pending { batch_id, entry, before } => {
                self.batch_id = batch_id;
                if let Some(before) = &before {
                    self.go_to(before);
                }
                self.pending = Some(self.planned_before(batch_id, entry).await?);
            }
        }
        self.warn_all(checkpoint.warnings());
        Ok(())
    }

    /// Goes on after a batch that an earlier run has done, and that began at `starts` as far as that is known.
    async fn committed_before(
        &mut self,
        batch_id: i64,
        entry: &OffsetsEntry,
        starts: Vec<Option<Offsets>>,
    ) -> Result<()> {
        let mut commits = self.commits_of(batch_id, entry, starts);
        for (source, commit) in self.sources.iter().zip(&mut commits) {
            if let Some(commit) = commit.as_mut().filter(|_| !self.stores.is_empty()) {
                // The first batch tells of those.
                let gone = source.no_longer_there(commit).await?;
                commit.offsets.retain(|partition, _| !gone.contains(&partition.topic));
            }
        }
        self.go_to(entry);
        // The last run may not have come to it, and nobody has where the checkpoint came from elsewhere.
        let committed = self.stores.commit(&commits).await;
        self.after_commit(committed)
    }

    fn go_to(&mut self, entry: &OffsetsEntry) {
        let own = own_sources(entry);
        for ((source, end), own) in self.sources.iter_mut().zip(&entry.sources).zip(own) {
            if let Some(end) = end {
                source.move_to(end.clone(), own.topic_ids);
            }
        }
    }

    /// The batch as it was planned by an earlier run.
    async fn planned_before(&mut self, batch_id: i64, entry: OffsetsEntry) -> Result<Batch> {
        let own = own_sources(&entry);
        let mut sources = Vec::new();
        for (index, (end, own)) in entry.sources.into_iter().zip(own).enumerate() {
            let shown_start =
                self.sources.get(index).filter(|source| source.began).and_then(|source| source.position.clone());
            let span = match end {
                Some(end) => {
                    self.begin_source(index).await?;
                    let source = self.sources.get(index);
                    let start = source.and_then(|source| source.position.clone()).unwrap_or_default();
                    let start_ids = source.map(|source| source.topic_ids().clone()).unwrap_or_default();
                    Some(Span { start, start_ids, end, own })
                }
                None => None,
            };
            sources.push(BatchSource { span, shown_start, latest: None });
        }
        Ok(Batch { id: batch_id, sources })
    }

    /// Without a checkpoint: goes on from what each source's store has.
    async fn recover_from_stores(&mut self) -> Result<()> {
        let mut all_lost = Vec::new();
        for (index, source) in self.sources.iter_mut().enumerate() {
            let Some(store) = self.stores.of_source(index) else { continue };
            let begin = source.begin_at(&**store).await?;
            if let Some(batch_id) = begin.batch_id {
                self.batch_id = self.batch_id.max(batch_id.saturating_add(1));
            }
            let policy = source.options.out_of_range(store.offset_out_of_range());
            warn_of(&self.observer, &store.name(), policy, &begin);
            all_lost.push((index, begin.lost));
        }
        all_lost.iter().for_each(|(source, lost)| self.stores.move_back(*source, lost));
        Ok(())
    }

    /// Resolves where a source begins, once, and stores it before the first batch.
    pub(super) async fn begin_source(&mut self, index: usize) -> Result<()> {
        let Some(source) = self.sources.get(index) else { return Ok(()) };
        if source.position.is_some() {
            return Ok(());
        }
        let stored = match &self.checkpoint {
            Some(checkpoint) => on_disk(checkpoint, move |checkpoint| checkpoint.initial_offsets(index)).await?,
            None => None,
        };
        let Some(source) = self.sources.get_mut(index) else { return Ok(()) };
        if stored.is_some() {
            source.position = stored;
            return Ok(());
        }
        let begin = source.begin().await?;
        warn_of(&self.observer, "the group", source.options.out_of_range(None), &begin);
        self.stores.move_back(index, &begin.lost);
        let offsets = begin.offsets;
        if let Some(checkpoint) = &self.checkpoint {
            on_disk(checkpoint, move |checkpoint| checkpoint.write_initial_offsets(index, &offsets)).await?;
        }
        Ok(())
    }

    /// What the stores are to hold after a batch that an earlier run has done.
    fn commits_of(
        &self,
        batch_id: i64,
        entry: &OffsetsEntry,
        mut starts: Vec<Option<Offsets>>,
    ) -> Vec<Option<StoreCommit>> {
        starts.resize(entry.sources.len(), None);
        let commit = |((offsets, own), start): ((&Option<Offsets>, OwnSource), Option<Offsets>)| {
            let end = offsets.clone()?;
            let from_offsets = match start {
                Some(start) => {
                    Span { start, start_ids: BTreeMap::new(), end: end.clone(), own: own.clone() }.begin_offsets()
                }
                None => Offsets::new(),
            };
            Some(StoreCommit {
                batch_id,
                query_id: self.id.to_string(),
                offsets: end,
                from_offsets,
                leader_epochs: own.leader_epochs,
                topic_ids: own.topic_ids,
                recreated: BTreeSet::new(),
                repeated: true,
                moved_back: BTreeSet::new(),
            })
        };
        entry.sources.iter().zip(own_sources(entry)).zip(starts).map(commit).collect()
    }
}

fn own_sources(entry: &OffsetsEntry) -> Vec<OwnSource> {
    let mut own = entry.own.as_ref().map(|own| own.sources.clone()).unwrap_or_default();
    own.resize_with(entry.sources.len(), OwnSource::default);
    own
}

/// What a store has that is no offset, or not in the log, is told, unless it was an error.
fn warn_of(observer: &Observer, store: &str, policy: OffsetOutOfRange, begin: &Begin) {
    for (partition, bad) in &begin.not_offsets {
        observer.warn(&format!("{store} holds {bad} for {partition}, which is no offset: it counts as none"));
    }
    let side = if policy == OffsetOutOfRange::Latest { "end" } else { "start" };
    for lost in &begin.lost {
        observer.warn(&format!("what {store} holds is outside of the log, which is read from its {side}: {lost}"));
    }
}

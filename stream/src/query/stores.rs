//! Committing what was processed to the stores beside the checkpoint, or to the only one there is.

use crate::{
    Client, CommitOutcome, Error, GroupStore, LostRange, OffsetStore, Offsets, Result, StoreCommit, StoreUrl,
    StreamOptions, batch::moved_back, offset::was_stopped,
};
use ottla_client::TopicPartition;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// The pause between two attempts while a query stops.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// A store, and the source whose offsets it keeps.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) source: usize,
    pub(super) store: Arc<dyn OffsetStore>,
    /// What tells it from others: its name, and of a group the cluster, as far as addresses tell clusters apart.
    place: String,
    /// How long after a commit the same is committed again.
    recommit_interval: Duration,
    /// How long a commit may take.
    limit: Duration,
    /// What it was given last, and when.
    last: Option<(StoreCommit, Instant)>,
    /// What it could not be given yet.
    waiting: Option<StoreCommit>,
    /// Partitions that may go back with the next commit that it takes.
    moved_back: BTreeSet<TopicPartition>,
}

/// All stores of a query.
#[derive(Debug, Default)]
pub(super) struct Stores {
    slots: Vec<Slot>,
    /// By their URLs, those that sources share.
    opened: Vec<(StoreUrl, Arc<dyn OffsetStore>)>,
    /// Whether there is no checkpoint: then a failing commit stops the query.
    only: bool,
    failed: u64,
}

impl Stores {
    /// Stores, each of one source. `only`: there is no checkpoint.
    pub(super) fn new(only: bool) -> Self {
        Self { slots: Vec::new(), opened: Vec::new(), only, failed: 0 }
    }

    pub(super) fn add(&mut self, source: usize, store: Arc<dyn OffsetStore>, options: &StreamOptions) {
        let place = store.name();
        self.push(source, store, place, options);
    }

    /// The group that a source commits to, in its cluster.
    pub(super) fn add_group(&mut self, source: usize, group: &str, client: &Client, options: &StreamOptions) {
        let store: Arc<dyn OffsetStore> = Arc::new(GroupStore::new(client, group));
        let place = format!("{} of {:?}", store.name(), options.client.bootstrap_servers);
        self.push(source, store, place, options);
    }

    fn push(&mut self, source: usize, store: Arc<dyn OffsetStore>, place: String, options: &StreamOptions) {
        self.slots.push(Slot {
            source,
            store,
            place,
            recommit_interval: options.recommit_interval,
            limit: options.client.default_api_timeout,
            last: None,
            waiting: None,
            moved_back: BTreeSet::new(),
        });
    }

    /// A store by its URL. A file or a place in ZooKeeper is opened once for all sources, so that it does not take another source's commit for
    /// another writer's; a group is in the cluster of its source.
    pub(super) fn opened(
        &mut self,
        url: &StoreUrl,
        client: &Client,
        options: &StreamOptions,
    ) -> Result<Arc<dyn OffsetStore>> {
        if let Some((_, store)) = self.opened.iter().find(|(known, _)| known == url) {
            return Ok(store.clone());
        }
        let store = url.open(client, &options.zookeeper)?;
        if !matches!(url, StoreUrl::Group(_)) {
            self.opened.push((url.clone(), store.clone()));
        }
        Ok(store)
    }

    /// Commits again what was committed long ago, where that is due: a query without anything new must not lose its place.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub(super) async fn refresh(&mut self) -> Result<Vec<String>> {
        let mut commits = Vec::new();
        for slot in &self.slots {
            let due = |(_, at): &&(StoreCommit, Instant)| at.elapsed() >= slot.recommit_interval;
            if let Some((commit, _)) = slot.last.as_ref().filter(due) {
                commits.resize(commits.len().max(slot.source + 1), None);
                if let Some(place) = commits.get_mut(slot.source) {
                    *place = Some(StoreCommit { repeated: true, ..commit.clone() });
                }
            }
        }
        if commits.is_empty() { Ok(Vec::new()) } else { self.commit(&commits).await }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The store that a source begins from when there is no checkpoint.
    pub(super) fn of_source(&self, source: usize) -> Option<&Arc<dyn OffsetStore>> {
        self.slots.iter().find(|slot| slot.source == source).map(|slot| &slot.store)
    }

    /// Sources that share a store must not share partitions: one would overwrite the other's offsets. `ends` has an entry for each source.
    ///
    /// # Errors
    /// They do.
    pub(super) fn check_apart(&self, ends: &[Option<&Offsets>]) -> Result<()> {
        let mut seen: BTreeMap<(&str, &TopicPartition), usize> = BTreeMap::new();
        // With one source there is nothing to share.
        for slot in self.slots.iter().filter(|_| ends.len() > 1) {
            let Some(Some(ends)) = ends.get(slot.source) else { continue };
            for partition in ends.keys() {
                let other = seen.insert((&slot.place, partition), slot.source).filter(|other| *other != slot.source);
                if let Some(other) = other {
                    return Err(Error::Plan {
                        condition: "SOURCES_SHARE_PARTITIONS",
                        message: format!(
                            "sources {other} and {} both read {partition} and both commit to {}: give one of them another commit group",
                            slot.source,
                            slot.store.name()
                        ),
                    });
                }
            }
        }
        Ok(())
    }

    /// How many commits failed so far.
    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    /// What is stored of a source beyond the end of a log may be replaced.
    pub(super) fn move_back(&mut self, source: usize, lost: &[LostRange]) {
        let of_source = self.slots.iter_mut().filter(|slot| slot.source == source);
        of_source.for_each(|slot| slot.moved_back.extend(moved_back(lost)));
    }

    /// Commits a batch: `commits` has an entry for each source. Returns what to warn of. What fails is tried again with the next batch.
    ///
    /// # Errors
    /// The commit failed and there is no checkpoint.
    pub(super) async fn commit(&mut self, commits: &[Option<StoreCommit>]) -> Result<Vec<String>> {
        // Before the first is tried: what a stop cuts off is still waiting then, and not forgotten.
        for slot in &mut self.slots {
            let Some(Some(commit)) = commits.get(slot.source) else { continue };
            let mut commit = commit.clone();
            if let Some(older) = slot.waiting.take() {
                commit.absorb(older);
            }
            slot.waiting = Some(commit);
        }
        let mut warnings = Vec::new();
        for slot in &mut self.slots {
            if !matches!(commits.get(slot.source), Some(Some(_))) {
                continue;
            }
            if let Err(error) = slot.commit(&mut warnings).await {
                self.failed += 1;
                if self.only {
                    // The query ends with this, and the batch is read again: nothing is left to be tried at the stop.
                    self.slots.iter_mut().for_each(|slot| slot.waiting = None);
                    return Err(error);
                }
                warnings.push(format!(
                    "the offsets of a batch could not be committed to {}, which will be tried again with the next one: {}",
                    slot.store.name(),
                    ottla_client::report(&error)
                ));
            }
        }
        Ok(warnings)
    }

    /// Commits what is still waiting, again and again until the deadline.
    ///
    /// # Errors
    /// The last failure of the first store that did not take its offsets.
    pub(super) async fn flush(&mut self, deadline: Instant) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        let mut failure = None;
        for slot in &mut self.slots {
            // What the last attempt that was not cut off came to: the deadline itself tells nobody why.
            let mut said = None;
            while let Some(commit) = &slot.waiting {
                let names: Vec<String> = commit.offsets.keys().map(ToString::to_string).collect();
                let attempt = tokio::time::timeout_at(deadline, slot.commit(&mut warnings)).await;
                match attempt {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => said = Some(error),
                    Err(_) => {}
                }
                if Instant::now() + RETRY_PAUSE >= deadline {
                    let (store, source) = (slot.store.name(), said.take().map(Box::new));
                    failure = failure.or(Some(Error::Uncommitted { store, partitions: names.join(", "), source }));
                    break;
                }
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
        failure.map_or(Ok(warnings), Err)
    }
}

impl Slot {
    /// Commits what is waiting. It waits on after a failure, and when this is cut off.
    async fn commit(&mut self, warnings: &mut Vec<String>) -> Result<()> {
        let Some(mut commit) = self.waiting.clone() else { return Ok(()) };
        commit.moved_back.extend(self.moved_back.iter().cloned());
        let begun = Instant::now();
        let mut result = self.store.store(&commit).await;
        if result.is_err() && was_stopped(begun.elapsed(), self.limit) {
            result = self.store.store(&commit).await;
        }
        let outcome = result?;
        self.waiting = None;
        self.moved_back.retain(|partition| !commit.offsets.contains_key(partition));
        // Once is enough: committed again, it must not take back what somebody else did meanwhile.
        commit.moved_back.clear();
        self.last = Some((commit, Instant::now()));
        warnings.extend(told(&self.store.name(), &outcome));
        Ok(())
    }
}

/// What a commit did that its user may not expect.
fn told(store: &str, outcome: &CommitOutcome) -> Vec<String> {
    let overwritten = outcome
        .not_offsets
        .iter()
        .map(|(partition, bad)| format!("{store} held {bad} for {partition}, which is no offset: it counts as none"));
    let gone = outcome.gone.iter().map(|partition| {
        format!("{partition} was deleted, or created again, since it was read: nothing is committed for it to {store}")
    });
    let kept = outcome
        .kept
        .iter()
        .map(|(partition, offset)| format!("{store} is further already in {partition} and stays at {offset}"));
    overwritten.chain(gone).chain(kept).collect()
}

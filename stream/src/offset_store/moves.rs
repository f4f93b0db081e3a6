//! Setting the offsets of a store: what would change, whether it may, and doing it.

use super::{CommitOutcome, OffsetState, OffsetStore, StoreCommit, StoredOffset, StoredOffsets, inspect::Logs};
use crate::{
    Error, Offsets, Result, SourceOffset, StartingOffsetsByTimestampStrategy,
    offset::{
        looks_like_seconds,
        source_offset::{EARLIEST, LATEST},
    },
};
use ottla_client::{Client, OffsetSpec, TopicPartition};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};
use uuid::Uuid;

/// Where offsets are to be set to.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OffsetTarget {
    /// The log starts.
    Earliest,
    /// The log ends, for the client's isolation level.
    Latest,
    /// The first record of each partition that is as late as this.
    Timestamp {
        /// Milliseconds since the epoch.
        timestamp_ms: i64,
        /// What it means where no record is as late.
        strategy: StartingOffsetsByTimestampStrategy,
    },
    /// These; -1 is latest and -2 earliest.
    Offsets(SourceOffset),
    /// What another store holds.
    Stored {
        /// Its offsets.
        offsets: StoredOffsets,
        /// The id of the query that they are of; `None` if it is not known.
        query_id: Option<String>,
    },
}

/// What is to be changed in a store. Nothing is, before [`apply`](Self::apply).
///
/// ```no_run
/// # async fn example(client: &ottla_stream::Client) -> Result<(), ottla_stream::Error> {
/// use ottla_stream::{OffsetMoves, OffsetTarget, StoreUrl, ZooKeeperOptions};
///
/// let group = "group:nightly".parse::<StoreUrl>()?.open(client, &ZooKeeperOptions::default())?;
/// let moves = OffsetMoves::plan(&*group, client, &OffsetTarget::Earliest, &["logs".to_owned()].into()).await?;
/// for moved in &moves.moves {
///     println!("{}: {:?} to {}, {}", moved.partition, moved.from, moved.to, moved.change);
/// }
/// moves.apply(&*group, true).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OffsetMoves {
    /// A partition each, in order.
    pub moves: Vec<OffsetMove>,
    /// What is left out: offsets of partitions that are gone, or of a topic of the same name that was deleted.
    pub left_out: BTreeMap<TopicPartition, OffsetState>,
    /// What is said that is no offset: as good as nothing.
    pub not_offsets: BTreeMap<TopicPartition, i64>,
    commit: StoreCommit,
}

/// What is to be changed of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OffsetMove {
    /// The partition.
    pub partition: TopicPartition,
    /// What the store holds; `None`: nothing.
    pub from: Option<i64>,
    /// What it is to hold.
    pub to: i64,
    /// The log start.
    pub earliest: i64,
    /// The high watermark: after it there is no record.
    pub end: i64,
    /// How the two stand to each other.
    pub change: MoveChange,
}

/// How the offset that a store holds stands to the one that it is to hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum MoveChange {
    /// It holds none.
    New,
    /// What it holds is of a topic of the same name that was deleted.
    Anew,
    /// It is the same.
    Unchanged,
    /// It goes forward by so many offsets.
    Forward(i64),
    /// It goes back by so many offsets.
    Back(i64),
}

impl fmt::Display for MoveChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("new"),
            Self::Anew => f.write_str("topic recreated"),
            Self::Unchanged => f.write_str("unchanged"),
            Self::Forward(offsets) => write!(f, "+{offsets}"),
            Self::Back(offsets) => write!(f, "-{offsets}"),
        }
    }
}

/// Offsets that are not stored unless that is forced. Nothing was stored.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", refusals(.refused))]
#[non_exhaustive]
pub struct MoveError {
    /// Those that would go back, or lie beyond the log's end.
    pub refused: Vec<OffsetMove>,
}

impl MoveError {
    /// A name for programs.
    pub fn condition(&self) -> &'static str {
        if self.refused.iter().any(OffsetMove::is_beyond_end) { "OFFSET_BEYOND_END" } else { "OFFSET_MOVES_BACK" }
    }
}

/// The first few of them.
fn refusals(refused: &[OffsetMove]) -> String {
    const SHOWN: usize = 10;
    let mut refusals: Vec<String> = refused.iter().take(SHOWN).map(refusal).collect();
    let more = refused.len().saturating_sub(SHOWN);
    if more > 0 {
        refusals.push(format!("and {more} more"));
    }
    refusals.join(", ")
}

fn refusal(refused: &OffsetMove) -> String {
    let OffsetMove { partition, to, end, .. } = refused;
    if refused.is_beyond_end() {
        return format!("{partition}: offset {to} lies beyond the end of the log, {end}");
    }
    format!("{partition} would go back from {} to {to}", refused.from.unwrap_or_default())
}

impl OffsetMove {
    fn is_beyond_end(&self) -> bool {
        self.to > self.end
    }

    /// Whether it must be forced: it goes back, or beyond the log's end.
    pub fn needs_force(&self) -> bool {
        self.is_beyond_end() || matches!(self.change, MoveChange::Back(_))
    }

    /// How many records before the log start would be asked for.
    pub fn below_log_start(&self) -> i64 {
        self.earliest.saturating_sub(self.to).max(0)
    }
}

impl OffsetMoves {
    /// Finds out what setting `store` to `target` changes, of `topics`, or of all that are meant if there are none: those of a map or of
    /// another store, else those that the store has anything of.
    ///
    /// # Errors
    /// The store or the cluster can't be asked, a topic or partition that is named does not exist, or no record is as late as the timestamp.
    pub async fn plan(
        store: &dyn OffsetStore,
        client: &Client,
        target: &OffsetTarget,
        topics: &BTreeSet<String>,
    ) -> Result<Self> {
        let is_wanted = |partition: &TopicPartition| topics.is_empty() || topics.contains(&partition.topic);
        let held = store.load(None).await?;
        let named: BTreeSet<String> = match target {
            OffsetTarget::Offsets(offsets) => {
                offsets.iter().map(|(partition, _)| partition).filter(is_wanted).map(|named| named.topic).collect()
            }
            OffsetTarget::Stored { offsets, .. } => {
                offsets.offsets.keys().filter(|named| is_wanted(named)).map(|named| named.topic.clone()).collect()
            }
            _ if topics.is_empty() => held.topics().collect(),
            _ => topics.clone(),
        };
        let logs = Logs::look_up(client, named.iter().cloned()).await?;
        let mut commit = StoreCommit {
            // A query whose only store this is counts on from there.
            batch_id: held.batch_id().unwrap_or(-1),
            query_id: Uuid::new_v4().to_string(),
            topic_ids: logs.topic_ids.clone(),
            ..StoreCommit::default()
        };
        let (mut left_out, mut not_offsets) = (BTreeMap::new(), BTreeMap::new());
        if matches!(target, OffsetTarget::Earliest | OffsetTarget::Latest | OffsetTarget::Timestamp { .. }) {
            logs.require(topics)?;
            let gone = held.offsets.keys().filter(|held| is_wanted(held) && !logs.partitions.contains(held));
            left_out.extend(gone.map(|partition| (partition.clone(), OffsetState::Gone)));
        }
        commit.offsets = match target {
            OffsetTarget::Earliest => logs.earliest.clone(),
            OffsetTarget::Latest => logs.latest.clone(),
            OffsetTarget::Timestamp { timestamp_ms, strategy } => {
                at_timestamp(client, &logs, *timestamp_ms, *strategy).await?
            }
            OffsetTarget::Offsets(offsets) => {
                let wanted = offsets.iter().filter(|(partition, _)| is_wanted(partition));
                wanted.map(|(partition, offset)| logs.resolve(partition, offset)).collect::<Result<_>>()?
            }
            OffsetTarget::Stored { offsets, query_id } => {
                commit.batch_id = offsets.batch_id().unwrap_or(commit.batch_id);
                commit.query_id = query_id.clone().unwrap_or(commit.query_id);
                let those = offsets.not_offsets.iter().filter(|(partition, _)| is_wanted(partition));
                not_offsets.extend(those.map(|(partition, bad)| (partition.clone(), *bad)));
                let mut taken = Offsets::new();
                for (partition, stored) in offsets.offsets.iter().filter(|(partition, _)| is_wanted(partition)) {
                    match logs.state(partition, stored) {
                        state @ (OffsetState::TopicRecreated | OffsetState::Gone) => {
                            left_out.insert(partition.clone(), state);
                        }
                        _ => {
                            taken.insert(partition.clone(), stored.offset);
                            let epoch = stored.leader_epoch.map(|epoch| (partition.clone(), epoch));
                            commit.leader_epochs.extend(epoch);
                        }
                    }
                }
                taken
            }
        };
        let moves = commit.offsets.iter().map(|(partition, to)| logs.compare(partition, *to, &held)).collect();
        Ok(Self { moves, left_out, not_offsets, commit })
    }

    /// Whether all of it may be done without being forced.
    ///
    /// # Errors
    /// What may not.
    pub fn check(&self) -> Result<(), MoveError> {
        let refused: Vec<OffsetMove> = self.moves.iter().filter(|moved| moved.needs_force()).cloned().collect();
        if refused.is_empty() { Ok(()) } else { Err(MoveError { refused }) }
    }

    /// Takes out what would have to be forced.
    #[must_use]
    pub fn split_refused(&mut self) -> Vec<OffsetMove> {
        let (refused, moves) = std::mem::take(&mut self.moves).into_iter().partition(OffsetMove::needs_force);
        self.moves = moves;
        let refused: Vec<OffsetMove> = refused;
        for moved in &refused {
            self.commit.offsets.remove(&moved.partition);
        }
        refused
    }

    /// The ids of the topics that are there.
    pub(super) fn topic_ids(&self) -> &BTreeMap<String, ottla_protocol::Uuid> {
        &self.commit.topic_ids
    }

    /// Stores the offsets. What must be forced is not stored unless `force` is set.
    ///
    /// # Errors
    /// [`check`](Self::check)'s without `force`, and then nothing was stored. The store can't be asked, or refused some partitions; the
    /// others may be stored then.
    pub async fn apply(&self, store: &dyn OffsetStore, force: bool) -> Result<CommitOutcome> {
        if !force {
            self.check()?;
        }
        let mut commit = self.commit.clone();
        let back = self.moves.iter().filter(|moved| matches!(moved.change, MoveChange::Back(_)));
        commit.moved_back = back.map(|moved| moved.partition.clone()).collect();
        // What is set is where to go on from, whichever end of a batch the store keeps.
        commit.from_offsets = commit.offsets.clone();
        // Nothing new was processed: the store looks afresh what it holds.
        commit.repeated = true;
        store.store(&commit).await
    }
}

impl Logs {
    /// Whoever names a topic means one that is there.
    fn require(&self, topics: &BTreeSet<String>) -> Result<()> {
        match topics.iter().find(|topic| !self.topics.contains(*topic)) {
            Some(topic) => Err(ottla_client::Error::UnknownTopic { topic: topic.clone() }.into()),
            None => Ok(()),
        }
    }

    /// An offset as options write it, as a number.
    fn resolve(&self, partition: TopicPartition, offset: i64) -> Result<(TopicPartition, i64)> {
        let (earliest, latest) = (self.earliest.get(&partition), self.latest.get(&partition));
        let (Some(earliest), Some(latest)) = (earliest, latest) else {
            return Err(ottla_client::Error::UnknownPartition { partition }.into());
        };
        let offset = match offset {
            EARLIEST => *earliest,
            LATEST => *latest,
            offset => offset,
        };
        Ok((partition, offset))
    }

    fn compare(&self, partition: &TopicPartition, to: i64, held: &StoredOffsets) -> OffsetMove {
        let topic_id = self.topic_ids.get(&partition.topic).copied();
        let held: Option<&StoredOffset> = held.offsets.get(partition);
        let change = match held {
            None => MoveChange::New,
            Some(held) if !held.is_of(topic_id) => MoveChange::Anew,
            Some(held) if held.offset > to => MoveChange::Back(held.offset.saturating_sub(to)),
            Some(held) if held.offset == to => MoveChange::Unchanged,
            Some(held) => MoveChange::Forward(to.saturating_sub(held.offset)),
        };
        let bound = |bounds: &Offsets| bounds.get(partition).copied().unwrap_or_default();
        OffsetMove {
            partition: partition.clone(),
            from: held.map(|held| held.offset),
            to,
            earliest: bound(&self.earliest),
            end: bound(&self.high_watermarks),
            change,
        }
    }
}

/// The first offsets as late as a time, as `startingTimestamp` has it.
async fn at_timestamp(
    client: &Client,
    logs: &Logs,
    timestamp_ms: i64,
    strategy: StartingOffsetsByTimestampStrategy,
) -> Result<Offsets> {
    let wanted =
        logs.partitions.iter().map(|partition| (partition.clone(), OffsetSpec::Timestamp(timestamp_ms))).collect();
    let found = client.list_offsets(&wanted, client.config().isolation_level).await?;
    let mut offsets = Offsets::new();
    let mut unmatched = Vec::new();
    for (partition, found) in found {
        match (found.offset, strategy, logs.latest.get(&partition)) {
            (Some(offset), ..) | (None, StartingOffsetsByTimestampStrategy::Latest, Some(&offset)) => {
                offsets.insert(partition, offset);
            }
            (None, ..) => unmatched.push(partition.to_string()),
        }
    }
    if unmatched.is_empty() {
        return Ok(offsets);
    }
    let hint = if looks_like_seconds(timestamp_ms) { ". Is it in seconds? It must be in milliseconds" } else { "" };
    Err(Error::Plan {
        condition: "NO_OFFSET_MATCHED",
        message: format!(
            "no record is as late as timestamp {timestamp_ms} in {}{hint}; startingOffsetsByTimestampStrategy=latest takes the end there",
            unmatched.join(", ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreFuture;

    #[test]
    fn a_move_is_told_by_its_sign_and_refused_with_both_numbers() {
        let partition = TopicPartition::new("t", 0);
        let logs = Logs {
            topics: ["t".to_owned()].into(),
            topic_ids: [("t".to_owned(), ottla_protocol::Uuid([1; 16]))].into(),
            partitions: [partition.clone()].into(),
            earliest: [(partition.clone(), 10)].into(),
            latest: [(partition.clone(), 90)].into(),
            high_watermarks: [(partition.clone(), 100)].into(),
        };
        let held = |offset, id: u8| {
            let topic_id = Some(ottla_protocol::Uuid([id; 16]));
            let stored = StoredOffset { offset, batch_id: None, topic_id, leader_epoch: None };
            StoredOffsets { offsets: [(partition.clone(), stored)].into(), ..StoredOffsets::default() }
        };
        let none = StoredOffsets::default();
        let compared = |to, held: &StoredOffsets| {
            let moved = logs.compare(&partition, to, held);
            (moved.change.to_string(), moved.needs_force(), moved.below_log_start())
        };
        let expected = |change: &str, force, below| (change.to_owned(), force, below);
        assert_eq!(compared(20, &none), expected("new", false, 0));
        assert_eq!(compared(20, &held(20, 1)), expected("unchanged", false, 0));
        assert_eq!(compared(100, &held(20, 1)), expected("+80", false, 0));
        assert_eq!(compared(101, &held(20, 1)), expected("+81", true, 0));
        assert_eq!(compared(4, &held(20, 1)), expected("-16", true, 6));
        assert_eq!(compared(20, &held(90, 2)), expected("topic recreated", false, 0));

        let refused = |moves: &[i64]| MoveError {
            refused: moves.iter().map(|to| logs.compare(&partition, *to, &held(20, 1))).collect(),
        };
        let error = refused(&[4, 101]);
        assert_eq!(
            error.to_string(),
            "t-0 would go back from 20 to 4, t-0: offset 101 lies beyond the end of the log, 100"
        );
        assert_eq!((error.condition(), refused(&[4]).condition()), ("OFFSET_BEYOND_END", "OFFSET_MOVES_BACK"));
        assert!(refused(&[1; 12]).to_string().ends_with(", and 2 more"));
    }

    /// Keeps where batches begin, as a place in ZooKeeper does with `offset=from`.
    #[derive(Debug, Default)]
    struct KeepsFrom(std::sync::Mutex<Offsets>);

    impl OffsetStore for KeepsFrom {
        fn name(&self) -> String {
            "the test's".to_owned()
        }

        fn load<'a>(&'a self, _: Option<&'a BTreeSet<TopicPartition>>) -> StoreFuture<'a, StoredOffsets> {
            Box::pin(async { Ok(StoredOffsets::default()) })
        }

        fn store<'a>(&'a self, commit: &'a StoreCommit) -> StoreFuture<'a, CommitOutcome> {
            self.0.lock().unwrap().clone_from(&commit.from_offsets);
            Box::pin(async { Ok(CommitOutcome::default()) })
        }
    }

    #[tokio::test]
    async fn what_is_set_is_where_to_go_on_from_for_a_store_that_keeps_where_batches_begin() {
        let offsets: Offsets = [(TopicPartition::new("t", 0), 7)].into();
        let commit = StoreCommit { offsets: offsets.clone(), ..StoreCommit::default() };
        let moves = OffsetMoves { moves: vec![], left_out: BTreeMap::new(), not_offsets: BTreeMap::new(), commit };
        let store = KeepsFrom::default();
        moves.apply(&store, false).await.unwrap();
        assert_eq!(*store.0.lock().unwrap(), offsets);
    }
}

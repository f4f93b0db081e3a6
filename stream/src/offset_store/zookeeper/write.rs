//! Writing offsets by version, so that two writers notice each other.

use super::{
    Held, Node, ZooKeeperError, ZooKeeperErrorKind, ZooKeeperOffset, ZooKeeperStore,
    session::{Answer, Reply, Request},
};
use crate::{CommitOutcome, Result, StoreCommit};
use ottla_client::TopicPartition;
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

/// How often writes are begun anew in one call: after parents were created, and after a write of ours turned out to have been carried out.
const ROUNDS: usize = 4;

impl ZooKeeperStore {
    pub(super) async fn commit(&self, commit: &StoreCommit) -> Result<CommitOutcome> {
        let deadline = self.session.deadline();
        let mut outcome = CommitOutcome::default();
        let mut wanted = BTreeMap::new();
        for (partition, until_offset) in &commit.offsets {
            let offset = match self.offset {
                ZooKeeperOffset::Until => Some(until_offset),
                ZooKeeperOffset::From => commit.from_offsets.get(partition),
            };
            if commit.recreated.contains(&partition.topic) {
                outcome.gone.insert(partition.clone());
            } else if let Some(offset) = offset.copied() {
                if offset < 0 {
                    return Err(ottla_client::Error::InvalidOffset { partition: partition.clone(), offset }.into());
                }
                wanted.insert(partition.clone(), offset);
            }
        }
        let unseen: BTreeSet<TopicPartition> = {
            let held = self.held();
            wanted.keys().filter(|partition| !held.contains_key(*partition)).cloned().collect()
        };
        let nodes = self.read(unseen.iter(), deadline).await?;
        let seen = nodes.into_iter().map(|(partition, node)| (partition, Held { node, in_doubt: BTreeSet::new() }));
        self.held().extend(seen);

        let may_go_back =
            |partition: &TopicPartition| self.offset == ZooKeeperOffset::From || commit.moved_back.contains(partition);
        let mut failure = None;
        let mut writes = BTreeMap::new();
        for (partition, offset) in wanted {
            let held = self.held().get(&partition).cloned().unwrap_or_default();
            match held.node.map(|node| node.value) {
                Some(Ok(held_offset)) if held_offset == offset && held.in_doubt.is_empty() => {
                    outcome.committed.insert(partition, offset);
                }
                Some(Ok(held_offset)) if held_offset > offset && !may_go_back(&partition) => {
                    outcome.kept.insert(partition, held_offset);
                }
                // What is no offset is overwritten only by who says so: it may be somebody's, in another place than we think.
                Some(Err(value)) if !commit.moved_back.contains(&partition) => {
                    failure.get_or_insert_with(|| self.not_an_offset(&partition, value));
                }
                _ => {
                    writes.insert(partition, offset);
                }
            }
        }
        let failed = self.write(writes, deadline, &mut outcome).await?;
        failed.or(failure).map_or(Ok(outcome), |error| Err(error.into()))
    }

    /// Writes offsets over what is held. Returns the first that could not be written; the others are.
    async fn write(
        &self,
        mut writes: BTreeMap<TopicPartition, i64>,
        deadline: Instant,
        outcome: &mut CommitOutcome,
    ) -> Result<Option<ZooKeeperError>, ZooKeeperError> {
        let mut failure = None;
        for _ in 0..ROUNDS {
            if writes.is_empty() {
                return Ok(failure);
            }
            let mut again = BTreeMap::new();
            let mut contested = BTreeMap::new();
            let mut without_parent = BTreeSet::new();
            for ((partition, offset), answer) in self.send(&writes, deadline).await? {
                let is_create = self.held().get(&partition).is_none_or(|held| held.node.is_none());
                match answer.reply {
                    Reply::Version(version) => {
                        self.hold(&partition, version, offset);
                        outcome.committed.insert(partition, offset);
                    }
                    Reply::NoNode if is_create => {
                        without_parent.insert(partition.topic.clone());
                        self.no_doubt(&partition, offset);
                        again.insert(partition, offset);
                    }
                    Reply::NoNode | Reply::Changed => {
                        if !answer.repeated {
                            self.no_doubt(&partition, offset);
                        }
                        contested.insert(partition, offset);
                    }
                    other => {
                        self.no_doubt(&partition, offset);
                        failure.get_or_insert_with(|| self.unexpected(self.paths.partition(&partition), other));
                    }
                }
            }
            for topic in without_parent {
                if let Some(error) = self.create_parents(&topic, deadline).await? {
                    again.retain(|partition, _| partition.topic != topic);
                    failure.get_or_insert(error);
                }
            }
            for (partition, node) in self.read(contested.keys(), deadline).await? {
                let Some(offset) = contested.get(&partition).copied() else { continue };
                match self.ours(&partition, node) {
                    Ok(held_offset) if held_offset == offset => {
                        outcome.committed.insert(partition, offset);
                    }
                    Ok(_) => {
                        again.insert(partition, offset);
                    }
                    Err(error) => {
                        failure.get_or_insert(error);
                    }
                }
            }
            writes = again;
        }
        Ok(failure.or_else(|| {
            let (partition, _) = writes.pop_first()?;
            let source = "it was there and gone in turn".into();
            Some(self.session.error(ZooKeeperErrorKind::Refused { path: self.paths.partition(&partition), source }))
        }))
    }

    /// Sends a write for each partition, and remembers that it may be carried out whatever becomes of the answer.
    async fn send(
        &self,
        writes: &BTreeMap<TopicPartition, i64>,
        deadline: Instant,
    ) -> Result<Vec<((TopicPartition, i64), Answer)>, ZooKeeperError> {
        let requests = {
            let mut held = self.held();
            let request = |(partition, offset): (&TopicPartition, &i64)| {
                let held = held.entry(partition.clone()).or_default();
                held.in_doubt.insert(*offset);
                let (path, value) = (self.paths.partition(partition), offset.to_string());
                match &held.node {
                    Some(node) => Request::Set { path, value, version: node.version },
                    None => Request::Create { path, value, shared: false },
                }
            };
            writes.iter().map(request).collect()
        };
        let answers = self.session.all(requests, deadline).await?;
        Ok(writes.iter().map(|(partition, offset)| (partition.clone(), *offset)).zip(answers).collect())
    }

    /// A write was carried out.
    fn hold(&self, partition: &TopicPartition, version: i32, offset: i64) {
        let node = Some(Node { version, value: Ok(offset) });
        self.held().insert(partition.clone(), Held { node, in_doubt: BTreeSet::new() });
    }

    /// A write was not carried out, for certain.
    fn no_doubt(&self, partition: &TopicPartition, offset: i64) {
        if let Some(held) = self.held().get_mut(partition) {
            held.in_doubt.remove(&offset);
        }
    }

    /// Whether a node that is not what was held is so by a write of ours whose answer never came: then it is held now.
    ///
    /// # Errors
    /// Somebody else wrote it. What was held is still, so that no later write passes over that.
    fn ours(&self, partition: &TopicPartition, node: Option<Node>) -> Result<i64, ZooKeeperError> {
        let mut all = self.held();
        let held = all.entry(partition.clone()).or_default();
        let next_version = held.node.as_ref().map_or(0, |node| node.version.wrapping_add(1));
        match &node {
            Some(Node { version, value: Ok(offset) }) if *version == next_version && held.in_doubt.contains(offset) => {
                let offset = *offset;
                *held = Held { node, in_doubt: BTreeSet::new() };
                Ok(offset)
            }
            _ => Err(self.session.error(ZooKeeperErrorKind::OtherWriter {
                path: self.paths.partition(partition),
                from: held.node.as_ref().map(Node::text),
                to: node.as_ref().map(Node::text),
            })),
        }
    }

    /// Creates the nodes above the partitions of a topic, from the lowest that is missing: who may not create at the top need not. Returns what
    /// was refused.
    async fn create_parents(&self, topic: &str, deadline: Instant) -> Result<Option<ZooKeeperError>, ZooKeeperError> {
        let path = self.paths.topic(topic);
        let slashes = path.char_indices().filter(|(at, c)| *c == '/' && *at > 0).map(|(at, _)| at);
        let ancestors: Vec<&str> = slashes.chain([path.len()]).filter_map(|end| path.get(..end)).collect();
        let mut missing = vec![ancestors.len().saturating_sub(1)];
        while let Some(level) = missing.last().copied() {
            let Some(parent) = ancestors.get(level).map(|parent| (*parent).to_owned()) else { return Ok(None) };
            let shared = parent == self.paths.consumers();
            let request = Request::Create { path: parent.clone(), value: String::new(), shared };
            let answers = self.session.all(vec![request], deadline).await?;
            match answers.into_iter().next().map(|answer| answer.reply) {
                Some(Reply::NoNode) if level > 0 => missing.push(level - 1),
                Some(Reply::Version(_) | Reply::Changed) => drop(missing.pop()),
                Some(other) => return Ok(Some(self.unexpected(parent, other))),
                None => return Ok(None),
            }
        }
        Ok(None)
    }
}

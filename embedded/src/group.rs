//! One group: its committed offsets and its members under the classic protocol. Time is an argument; waiting is the matter of
//! `api/groups.rs`.
//!
//! ```text
//! Empty -> PreparingRebalance -> CompletingRebalance -> Stable
//!              ^   all joined        leader's SyncGroup    |
//!              +-------------------- a member comes or goes+
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use tokio::time::Instant;

use crate::api::CommittedOffset;

/// A topic's name and a partition's number.
pub(crate) type TopicPartition = (String, i32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum GroupState {
    #[default]
    Empty,
    PreparingRebalance,
    CompletingRebalance,
    Stable,
}

impl GroupState {
    /// The name that ListGroups and DescribeGroups use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// A member of a group.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) session_timeout: Duration,
    pub(crate) rebalance_timeout: Duration,
    /// Assignors by name, the most wanted first, with their metadata.
    pub(crate) protocols: Vec<(String, Bytes)>,
    pub(crate) assignment: Bytes,
    pub(crate) last_seen: Instant,
    /// Its JoinGroup waits for the others.
    pub(crate) is_joining: bool,
    /// The generation that its JoinGroup ended with, until that is answered.
    pub(crate) joined_generation: Option<i32>,
}

impl Member {
    pub(crate) fn metadata(&self, protocol: &str) -> Bytes {
        let found = self.protocols.iter().find(|(name, _)| name == protocol);
        found.map(|(_, metadata)| metadata.clone()).unwrap_or_default()
    }
}

/// A group.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) state: GroupState,
    pub(crate) generation: i32,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    /// In the order in which they joined; the first leads.
    pub(crate) members: Vec<Member>,
    /// Ids given out that have not joined yet (KIP-394).
    pub(crate) pending_members: BTreeSet<String>,
    pub(crate) offsets: BTreeMap<TopicPartition, CommittedOffset>,
    /// Offsets of open transactions, by producer id.
    pub(crate) pending_offsets: BTreeMap<i64, BTreeMap<TopicPartition, CommittedOffset>>,
    rebalance_deadline: Option<Instant>,
}

impl Group {
    pub(crate) fn member_mut(&mut self, id: &str) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.id == id)
    }

    pub(crate) fn leader(&self) -> &str {
        self.members.first().map_or("", |member| member.id.as_str())
    }

    /// Lets go of members that were silent too long and ends a rebalance that took too long.
    pub(crate) fn expire(&mut self, now: Instant) {
        let before = self.members.len();
        self.members.retain(|member| member.is_joining || now < member.last_seen + member.session_timeout);
        if self.members.len() < before {
            self.rebalance(now);
        }
        if self.rebalance_deadline.is_some_and(|deadline| now >= deadline) {
            self.members.retain(|member| member.is_joining);
            self.complete_join(now);
        }
    }

    /// When [`Group::expire`] has something to do next.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        let silent = self.members.iter().filter(|member| !member.is_joining);
        silent.map(|member| member.last_seen + member.session_timeout).chain(self.rebalance_deadline).min()
    }

    /// Takes a member in, or takes its new subscription, and starts a rebalance.
    pub(crate) fn join(&mut self, mut member: Member, now: Instant) {
        member.is_joining = true;
        self.pending_members.remove(&member.id);
        let same_instance = |known: &Member| member.instance_id.is_some() && known.instance_id == member.instance_id;
        match self.members.iter_mut().find(|known| known.id == member.id || same_instance(known)) {
            Some(known) => *known = member,
            None => self.members.push(member),
        }
        self.rebalance(now);
    }

    /// Takes a member out; `false` when there is none.
    pub(crate) fn leave(&mut self, id: &str, now: Instant) -> bool {
        let before = self.members.len();
        self.members.retain(|member| member.id != id);
        let was_pending = self.pending_members.remove(id);
        if self.members.len() < before {
            self.rebalance(now);
        }
        was_pending || self.members.len() < before
    }

    fn rebalance(&mut self, now: Instant) {
        if self.members.is_empty() {
            self.state = GroupState::Empty;
            self.generation = self.generation.saturating_add(1);
            self.rebalance_deadline = None;
            self.protocol = None;
            return;
        }
        if self.state != GroupState::PreparingRebalance {
            self.state = GroupState::PreparingRebalance;
            let longest = self.members.iter().map(|member| member.rebalance_timeout).max().unwrap_or_default();
            self.rebalance_deadline = Some(now + longest);
        }
        if self.members.iter().all(|member| member.is_joining) {
            self.complete_join(now);
        }
    }

    fn complete_join(&mut self, now: Instant) {
        self.rebalance_deadline = None;
        if self.members.is_empty() {
            self.rebalance(now);
            return;
        }
        self.state = GroupState::CompletingRebalance;
        self.generation = self.generation.saturating_add(1);
        self.protocol = self.common_protocol();
        for member in &mut self.members {
            member.is_joining = false;
            member.last_seen = now;
            member.joined_generation = Some(self.generation);
            member.assignment = Bytes::new();
        }
    }

    /// The leader's most wanted assignor that everyone has.
    fn common_protocol(&self) -> Option<String> {
        let wanted = self.members.first()?.protocols.iter().map(|(name, _)| name);
        let everyone_has =
            |name: &&String| self.members.iter().all(|member| member.protocols.iter().any(|(n, _)| n == *name));
        wanted.into_iter().find(everyone_has).cloned()
    }

    /// Takes the leader's assignments.
    pub(crate) fn assign(&mut self, mut assignments: BTreeMap<String, Bytes>) {
        for member in &mut self.members {
            member.assignment = assignments.remove(&member.id).unwrap_or_default();
        }
        self.state = GroupState::Stable;
    }

    /// Whether a member may act in a generation; notes that it is alive.
    pub(crate) fn check_member(&mut self, id: &str, generation: i32, now: Instant) -> Result<(), ResponseError> {
        let current = self.generation;
        let member = self.member_mut(id).ok_or(ResponseError::UnknownMemberId)?;
        if generation != current {
            return Err(ResponseError::IllegalGeneration);
        }
        member.last_seen = now;
        Ok(())
    }

    /// Whether a commit is allowed: from a member of this generation, or from outside (generation below 0) while nobody is in.
    pub(crate) fn check_commit(&mut self, id: &str, generation: i32, now: Instant) -> Result<(), ResponseError> {
        self.expire(now);
        if generation < 0 && self.members.is_empty() {
            return Ok(());
        }
        if self.members.is_empty() {
            return Err(ResponseError::IllegalGeneration);
        }
        self.check_member(id, generation, now)?;
        if self.state == GroupState::CompletingRebalance {
            return Err(ResponseError::RebalanceInProgress);
        }
        Ok(())
    }
}

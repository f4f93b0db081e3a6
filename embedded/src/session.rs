//! Fetch sessions (KIP-227): what a client asked for in earlier requests of a session, and what it was told.
//!
//! | session_id | session_epoch | meaning |
//! |---|---|---|
//! | 0 or X | 0 | a full request; close X; make a session |
//! | 0 or X | -1 | a full request; close X; no session |
//! | X | n >= 1 | what changed since request n - 1 |

use std::collections::BTreeMap;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::FetchRequest;
use kafka_protocol::messages::fetch_request::FetchPartition;
use kafka_protocol::messages::fetch_response::PartitionData;
use uuid::Uuid;

/// The epoch that asks for a new session.
const INITIAL_EPOCH: i32 = 0;
/// The epoch that asks for no session.
const FINAL_EPOCH: i32 = -1;
/// As many sessions as a broker keeps by default (`max.incremental.fetch.session.cache.slots`); the oldest goes first.
const SESSIONS_MAX: usize = 1_000;

/// One partition that a client wants.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// The name that the client gave or that its id had when it gave it; `None` for an id that nobody has.
    pub(crate) topic: Option<String>,
    /// The id that the client gave, zero for names.
    pub(crate) topic_id: Uuid,
    pub(crate) partition: FetchPartition,
}

impl Wanted {
    fn is(&self, topic: Option<&str>, topic_id: Uuid, partition: i32, by_id: bool) -> bool {
        let same_topic = if by_id { self.topic_id == topic_id } else { self.topic.as_deref() == topic };
        same_topic && self.partition.partition == partition
    }
}

/// What the last answer said about a partition; an answer that says the same again is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    high_watermark: i64,
    log_start_offset: i64,
}

#[derive(Debug)]
struct FetchSession {
    /// The epoch that the next request must have.
    next_epoch: i32,
    by_id: bool,
    partitions: Vec<(Wanted, Option<Told>)>,
}

/// What a request means for its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionKind {
    /// No session.
    Sessionless,
    /// Make one.
    New,
    /// This one goes on.
    Incremental(i32),
}

/// The sessions of one node.
#[derive(Debug, Default)]
pub(crate) struct FetchSessions {
    sessions: BTreeMap<i32, FetchSession>,
    last_id: i32,
}

impl FetchSessions {
    /// Takes a request in and returns the partitions to read, in order.
    ///
    /// `resolve` gives the partitions of the request with their topics' names; `by_id` says whether the request has ids.
    pub(crate) fn open(
        &mut self,
        request: &FetchRequest,
        wanted: Vec<Wanted>,
        by_id: bool,
    ) -> Result<(SessionKind, Vec<Wanted>), ResponseError> {
        match request.session_epoch {
            INITIAL_EPOCH | FINAL_EPOCH => {
                self.sessions.remove(&request.session_id);
                let is_new = request.session_epoch == INITIAL_EPOCH && !wanted.is_empty();
                Ok((if is_new { SessionKind::New } else { SessionKind::Sessionless }, wanted))
            }
            epoch => {
                let session =
                    self.sessions.get_mut(&request.session_id).ok_or(ResponseError::FetchSessionIdNotFound)?;
                if epoch != session.next_epoch {
                    return Err(ResponseError::InvalidFetchSessionEpoch);
                }
                if by_id != session.by_id {
                    return Err(ResponseError::FetchSessionTopicIdError);
                }
                session.next_epoch = next_epoch(epoch);
                session.merge(request, wanted);
                let partitions = session.partitions.iter().map(|(wanted, _)| wanted.clone()).collect();
                Ok((SessionKind::Incremental(request.session_id), partitions))
            }
        }
    }

    /// Takes the answer out: the id to send, and the partitions that it has to hold.
    pub(crate) fn close(
        &mut self,
        kind: SessionKind,
        by_id: bool,
        answered: Vec<(Wanted, PartitionData)>,
    ) -> (i32, Vec<(Wanted, PartitionData)>) {
        match kind {
            SessionKind::Sessionless => (0, answered),
            SessionKind::New => {
                while self.sessions.len() >= SESSIONS_MAX {
                    self.sessions.pop_first();
                }
                self.last_id = if self.last_id == i32::MAX { 1 } else { self.last_id + 1 };
                let partitions = answered.iter().map(|(wanted, data)| (wanted.clone(), told(data))).collect();
                let session = FetchSession { next_epoch: next_epoch(INITIAL_EPOCH), by_id, partitions };
                self.sessions.insert(self.last_id, session);
                (self.last_id, answered)
            }
            SessionKind::Incremental(id) => match self.sessions.get_mut(&id) {
                Some(session) => (id, session.changed(answered)),
                None => (id, answered),
            },
        }
    }
}

/// 2^31-1 is followed by 1, since 0 and -1 have a meaning of their own.
fn next_epoch(epoch: i32) -> i32 {
    if epoch == i32::MAX { 1 } else { epoch + 1 }
}

/// `None` after an error, so that the partition is told again.
fn told(data: &PartitionData) -> Option<Told> {
    let told = Told { high_watermark: data.high_watermark, log_start_offset: data.log_start_offset };
    (data.error_code == 0).then_some(told)
}

impl FetchSession {
    fn merge(&mut self, request: &FetchRequest, wanted: Vec<Wanted>) {
        let by_id = self.by_id;
        for new in wanted {
            let topic = new.topic.as_deref();
            let known = self
                .partitions
                .iter_mut()
                .find(|(known, _)| known.is(topic, new.topic_id, new.partition.partition, by_id));
            match known {
                // The name stays what the id was when it came in: a topic deleted since then is an unknown topic, not an unknown id.
                Some((known, _)) => known.partition = new.partition,
                None => self.partitions.push((new, None)),
            }
        }
        for topic in &request.forgotten_topics_data {
            for &partition in &topic.partitions {
                self.partitions.retain(|(known, _)| !known.is(Some(&topic.topic), topic.topic_id, partition, by_id));
            }
        }
    }

    /// Keeps what is new, and moves partitions that had records to the end so that none starves.
    fn changed(&mut self, answered: Vec<(Wanted, PartitionData)>) -> Vec<(Wanted, PartitionData)> {
        let mut changed = Vec::new();
        for (wanted, data) in answered {
            let position = self.partitions.iter().position(|(known, _)| {
                known.is(wanted.topic.as_deref(), wanted.topic_id, wanted.partition.partition, self.by_id)
            });
            let Some(position) = position else { continue };
            let has_records = data.records.as_ref().is_some_and(|records| !records.is_empty());
            let now = told(&data);
            let mut is_new = has_records || now.is_none() || data.diverging_epoch.end_offset != -1;
            if let Some((_, before)) = self.partitions.get_mut(position) {
                is_new |= *before != now;
                *before = now;
            }
            if has_records {
                let moved = self.partitions.remove(position);
                self.partitions.push(moved);
            }
            if is_new {
                changed.push((wanted, data));
            }
        }
        changed
    }
}

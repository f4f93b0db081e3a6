//! A fetch session (KIP-227): what the long poll of one broker asks for, told once. Pure.
//!
//! The first request is a full one and names everything; the broker remembers it under an id. Each later one names only what is new, what
//! changed and what is to be forgotten, and its answer only what there is news of, so that a poll of a thousand idle partitions is some
//! dozen bytes each way.
//!
//! | session_id, session_epoch | the request |
//! |---|---|
//! | 0 or old, 0 | full: names all that is wanted; ends the old session and asks for a new one |
//! | id, n >= 1 | incremental: what is different since request n - 1 |
//! | id, -1 | ends the session |
//! | 0, -1 | without a session |
//!
//! Only long polls use one. The requests on the connection for data each name the few partitions that fill one answer, other ones every
//! time, and two of them are out at once, which no session allows: there, each stands alone.
//!
//! A partition is a *member* while it waits here for news. Whatever an answer says of a member takes it out; it comes back with its next
//! position when it is to be polled again, and is named only if that position is another one. What is out when the next request is made is
//! forgotten by the broker too. So an answer can't be about anything but a member's own position, and one that names strangers names nobody.

use super::request::{Asked, answered_topic_key, topics_of};
use ottla_protocol::{
    ErrorCode, Uuid,
    message::{FetchTopic, FetchableTopicResponse, ForgottenTopic, PartitionData},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// After so many refusals in a row there are no more tries on this connection: requests go without a session.
const REFUSALS_MAX: u32 = 3;
/// The epoch of a request without a session, or that ends one.
const FINAL_EPOCH: i32 = -1;

/// A topic as requests call it: its name, or the bytes of its id.
type TopicKey = Arc<[u8]>;

#[derive(Debug)]
struct Topic {
    name: Arc<str>,
    topic_id: Uuid,
    partitions: BTreeMap<i32, Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    member: Option<Asked>,
    /// What the broker has of it; `None` if it was not named yet.
    told: Option<Told>,
}

/// What a request says of a partition beside its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Told {
    fetch_offset: i64,
    leader_epoch: i32,
    bytes_max: i32,
}

impl Told {
    fn of(asked: &Asked) -> Self {
        Self { fetch_offset: asked.fetch_offset, leader_epoch: asked.leader_epoch, bytes_max: asked.bytes_max }
    }
}

/// The part of a request that the session decides.
#[derive(Debug, PartialEq)]
pub(super) struct SessionRequest {
    pub(super) session_id: i32,
    pub(super) session_epoch: i32,
    pub(super) topics: Vec<FetchTopic>,
    pub(super) forgotten: Vec<ForgottenTopic>,
}

/// The session of one connection, with at most one request out.
#[derive(Debug, Default)]
pub(super) struct FetchSession {
    /// 0 if the broker has none.
    id: i32,
    /// Of the next request, or of the one that is out; 0 is a full one.
    epoch: i32,
    /// Whether topics are called by their ids (Fetch 13 and later), which can't change within a session.
    by_id: bool,
    topics: BTreeMap<TopicKey, Topic>,
    /// What the next request may have to name or to forget.
    changed: BTreeSet<(TopicKey, i32)>,
    members: usize,
    /// Members whose ranges have an end, and so a limit to their patience.
    bounded: BTreeSet<usize>,
    refusals: u32,
}

/// Whether an error is about the session and not about what was asked for.
pub(super) fn is_session_error(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND
            | ErrorCode::INVALID_FETCH_SESSION_EPOCH
            | ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR
            | ErrorCode::INCONSISTENT_TOPIC_ID
    )
}

impl FetchSession {
    /// How many partitions are polled.
    pub(super) fn members(&self) -> usize {
        self.members
    }

    /// The targets of all members, in no order that means something.
    pub(super) fn targets(&self) -> impl Iterator<Item = usize> {
        let entries = self.topics.values().flat_map(|topic| topic.partitions.values());
        entries.filter_map(|entry| entry.member.as_ref()).map(|asked| asked.index)
    }

    /// The targets of members whose ranges have an end.
    pub(super) fn bounded(&self) -> impl Iterator<Item = usize> {
        self.bounded.iter().copied()
    }

    /// Whether `asked` can be called by their ids, as far as the members go.
    pub(super) fn may_use_ids(&self, asked: &[Asked]) -> bool {
        (self.by_id || self.members == 0) && asked.iter().all(|asked| asked.topic_id.is_some())
    }

    /// Calls topics by their ids or by their names from now on. If that is a change, all members are out, and a new session begins.
    pub(super) fn call_topics(&mut self, by_id: bool) -> Vec<Asked> {
        if self.by_id == by_id {
            return Vec::new();
        }
        let members = self.take_all();
        self.by_id = by_id;
        members
    }

    /// Takes a partition in. Returns the other range of the same partition that was in: a request names a partition once.
    pub(super) fn join(&mut self, asked: Asked) -> Option<Asked> {
        let key: TopicKey = asked.topic_key(self.by_id).into();
        self.members += 1;
        if asked.is_bounded {
            self.bounded.insert(asked.index);
        }
        let topic = self.topics.entry(key.clone()).or_insert_with(|| Topic {
            name: asked.topic.clone(),
            topic_id: asked.topic_id.unwrap_or_default(),
            partitions: BTreeMap::new(),
        });
        let entry = topic.partitions.entry(asked.partition).or_default();
        self.changed.insert((key, asked.partition));
        let displaced = entry.member.replace(asked);
        displaced.inspect(|displaced| Self::is_out(&mut self.members, &mut self.bounded, displaced))
    }

    fn is_out(members: &mut usize, bounded: &mut BTreeSet<usize>, asked: &Asked) {
        *members = members.saturating_sub(1);
        bounded.remove(&asked.index);
    }

    /// Takes the partition of a target out, if it is in.
    pub(super) fn leave(&mut self, asked: &Asked) {
        let key = asked.topic_key(self.by_id);
        if let Some((key, topic)) = self.topics.get_key_value(key)
            && let Some(member) = topic.partitions.get(&asked.partition).and_then(|entry| entry.member.as_ref())
            && member.index == asked.index
        {
            let key = key.clone();
            self.take(&key, asked.partition);
        }
    }

    fn take(&mut self, key: &[u8], partition: i32) -> Option<Asked> {
        let (key, _) = self.topics.get_key_value(key)?;
        let key = key.clone();
        let member = self.topics.get_mut(&key)?.partitions.get_mut(&partition)?.member.take()?;
        Self::is_out(&mut self.members, &mut self.bounded, &member);
        self.changed.insert((key, partition));
        Some(member)
    }

    /// Takes all out. The next request is a full one and ends what there was.
    pub(super) fn take_all(&mut self) -> Vec<Asked> {
        self.lost();
        self.members = 0;
        self.bounded.clear();
        self.changed.clear();
        let topics = std::mem::take(&mut self.topics);
        let entries = topics.into_values().flat_map(|topic| topic.partitions.into_values());
        entries.filter_map(|entry| entry.member).collect()
    }

    fn is_sessionless(&self) -> bool {
        self.refusals >= REFUSALS_MAX
    }

    fn is_full(&self) -> bool {
        self.epoch == 0 || self.is_sessionless()
    }

    /// The next request: everything, or what is different.
    pub(super) fn request(&mut self) -> SessionRequest {
        let changed = std::mem::take(&mut self.changed);
        let (session_id, session_epoch) = if self.is_sessionless() { (0, FINAL_EPOCH) } else { (self.id, self.epoch) };
        if self.is_full() {
            self.topics.retain(|_, topic| {
                topic.partitions.retain(|_, entry| entry.member.is_some());
                !topic.partitions.is_empty()
            });
            let entries = self.topics.values_mut().flat_map(|topic| topic.partitions.values_mut());
            let named = entries.filter_map(|entry| {
                entry.told = entry.member.as_ref().map(Told::of);
                entry.member.as_ref()
            });
            let topics = topics_of(named, self.by_id);
            return SessionRequest { session_id, session_epoch, topics, forgotten: Vec::new() };
        }
        let mut named: Vec<(&TopicKey, i32)> = Vec::new();
        let mut forgotten: Vec<ForgottenTopic> = Vec::new();
        for (key, partition) in &changed {
            let Some(topic) = self.topics.get_mut(key) else { continue };
            let Some(entry) = topic.partitions.get_mut(partition) else { continue };
            let now = entry.member.as_ref().map(Told::of);
            if now.is_some() {
                if entry.told != now {
                    entry.told = now;
                    named.push((key, *partition));
                }
                continue;
            }
            if entry.told.is_some() {
                let (name, id) = if self.by_id { ("", topic.topic_id) } else { (&*topic.name, Uuid::default()) };
                match forgotten.last_mut().filter(|last| last.topic == name && last.topic_id == id) {
                    Some(last) => last.partitions.push(*partition),
                    None => forgotten.push(ForgottenTopic {
                        topic: name.to_owned(),
                        topic_id: id,
                        partitions: vec![*partition],
                        ..Default::default()
                    }),
                }
            }
            topic.partitions.remove(partition);
            if topic.partitions.is_empty() {
                self.topics.remove(key);
            }
        }
        let named = named.into_iter().filter_map(|(key, partition)| {
            let entry = self.topics.get(key)?.partitions.get(&partition)?;
            entry.member.as_ref()
        });
        SessionRequest { session_id, session_epoch, topics: topics_of(named, self.by_id), forgotten }
    }

    /// Takes the answer of the request that is out: the members that it names, with what it says of them. What an incremental answer leaves
    /// out stays in: there is no news of it. A full one must name all.
    pub(super) fn answered(
        &mut self,
        session_id: i32,
        responses: Vec<FetchableTopicResponse>,
    ) -> Vec<(Asked, Option<PartitionData>)> {
        let mut answered = Vec::new();
        for mut topic in responses {
            let partitions = std::mem::take(&mut topic.partitions);
            let key = answered_topic_key(&topic, self.by_id);
            for data in partitions {
                // Once only: what comes a second time finds no member.
                if let Some(asked) = self.take(key, data.partition_index) {
                    answered.push((asked, Some(data)));
                }
            }
        }
        let is_full = self.is_full();
        if is_full && self.members > 0 {
            let left = self.topics.iter().flat_map(|(key, topic)| {
                topic.partitions.iter().filter(|(_, entry)| entry.member.is_some()).map(|(p, _)| (key.clone(), *p))
            });
            for (key, partition) in left.collect::<Vec<_>>() {
                answered.extend(self.take(&key, partition).map(|asked| (asked, None)));
            }
        }
        if self.is_sessionless() {
            return answered;
        }
        self.refusals = 0;
        (self.id, self.epoch) = match (is_full, session_id) {
            // The broker has no room for a session, or knows none: full requests go on.
            (true, ..=0) => (0, 0),
            (true, id) => (id, 1),
            (false, id) if id == self.id => (id, next_epoch(self.epoch)),
            // It has ended it.
            (false, _) => (0, 0),
        };
        answered
    }

    /// The broker does not know the session, or not like this. The next request is a full one for the same members. Returns how often in a
    /// row that was so, or `None` if there was no session to refuse.
    pub(super) fn refused(&mut self) -> Option<u32> {
        if self.is_sessionless() {
            return None;
        }
        (self.id, self.epoch) = (0, 0);
        self.refusals += 1;
        Some(self.refusals)
    }

    /// Nobody knows how far the broker got, or another connection takes over: the next request is a full one, and ends what there was.
    pub(super) fn lost(&mut self) {
        self.epoch = 0;
        self.refusals = 0;
    }

    /// The id and epoch of a request that ends the session; `None` if there is none.
    pub(super) fn end(&self) -> Option<(i32, i32)> {
        (self.id != 0).then_some((self.id, FINAL_EPOCH))
    }
}

/// 0 and -1 mean something else, so 1 follows the last.
fn next_epoch(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(index: usize, partition: i32, fetch_offset: i64) -> Asked {
        Asked {
            index,
            topic: "t".into(),
            topic_id: Some(Uuid([7; 16])),
            partition,
            fetch_offset,
            leader_epoch: 3,
            bytes_max: 1000,
            is_bounded: index.is_multiple_of(2),
        }
    }

    /// A session of the partitions 0 to 3, all at offset 10, by names; the broker knows it as 5.
    fn begun() -> FetchSession {
        let mut session = FetchSession::default();
        for partition in 0..4 {
            assert!(session.join(asked(usize::try_from(partition).unwrap(), partition, 10)).is_none());
        }
        assert_eq!(summary(&session.request()), (0, 0, vec![(0, 10), (1, 10), (2, 10), (3, 10)], vec![]));
        let all = answer(&[0, 1, 2, 3]);
        for (asked, data) in session.answered(5, all) {
            assert_eq!(Some(asked.partition), data.map(|data| data.partition_index));
            session.join(asked);
        }
        assert_eq!(session.members(), 4);
        session
    }

    fn answer(partitions: &[i32]) -> Vec<FetchableTopicResponse> {
        let data = |partition: &i32| PartitionData { partition_index: *partition, ..Default::default() };
        let partitions = partitions.iter().map(data).collect();
        vec![FetchableTopicResponse { topic: "t".to_owned(), partitions, ..Default::default() }]
    }

    type Summary = (i32, i32, Vec<(i32, i64)>, Vec<i32>);

    fn summary(request: &SessionRequest) -> Summary {
        let named = request.topics.iter().flat_map(|topic| &topic.partitions);
        let forgotten = request.forgotten.iter().flat_map(|topic| topic.partitions.iter().copied());
        (
            request.session_id,
            request.session_epoch,
            named.map(|partition| (partition.partition, partition.fetch_offset)).collect(),
            forgotten.collect(),
        )
    }

    fn next(session: &mut FetchSession) -> Summary {
        summary(&session.request())
    }

    #[test]
    fn later_requests_name_only_what_is_different() {
        let mut session = begun();
        assert_eq!(next(&mut session), (5, 1, vec![], vec![]), "all came back where they were");
        assert!(session.answered(5, Vec::new()).is_empty());
        assert_eq!(session.members(), 4, "no news of them");

        // 1 moves on, 2 goes, 4 is new.
        let (_, mut one) = (next(&mut session), session.answered(5, answer(&[1, 2])));
        assert_eq!(session.members(), 2);
        session.join(Asked { fetch_offset: 20, ..one.remove(0).0 });
        session.join(asked(4, 4, 0));
        assert_eq!(next(&mut session), (5, 3, vec![(1, 20), (4, 0)], vec![2]));
        session.answered(5, Vec::new());
        assert_eq!(next(&mut session), (5, 4, vec![], vec![]), "it is forgotten once");

        // It comes back at the offset where it was: the broker does not know it any more.
        session.answered(5, Vec::new());
        session.join(asked(2, 2, 10));
        assert_eq!(next(&mut session), (5, 5, vec![(2, 10)], vec![]));
    }

    #[test]
    fn who_comes_and_goes_between_two_requests_was_never_there() {
        let mut session = begun();
        session.join(asked(9, 9, 0));
        session.leave(&asked(9, 9, 0));
        session.leave(&asked(3, 3, 10));
        session.join(asked(3, 3, 10));
        assert_eq!(next(&mut session), (5, 1, vec![], vec![]));
    }

    #[test]
    fn a_new_leader_epoch_is_told_though_the_offset_is_the_same() {
        let mut session = begun();
        session.leave(&asked(3, 3, 10));
        session.join(Asked { leader_epoch: 4, ..asked(3, 3, 10) });
        assert_eq!(next(&mut session), (5, 1, vec![(3, 10)], vec![]));
    }

    #[test]
    fn epochs_go_round_without_those_that_mean_something_else() {
        let mut session = begun();
        session.epoch = i32::MAX;
        assert_eq!(next(&mut session).1, i32::MAX);
        session.answered(5, Vec::new());
        assert_eq!(next(&mut session), (5, 1, vec![], vec![]));
    }

    #[test]
    fn s_n15_a_session_that_is_refused_begins_anew_with_all_where_they_are() {
        let all = vec![(0, 10), (1, 10), (2, 10), (3, 10)];
        let mut session = begun();
        next(&mut session);
        assert_eq!(session.refused(), Some(1));
        assert_eq!(next(&mut session), (0, 0, all.clone(), vec![]));
        assert_eq!(session.refused(), Some(2));
        assert_eq!(next(&mut session), (0, 0, all.clone(), vec![]));
        assert_eq!(session.refused(), Some(3));
        // No more tries; and what a request without a session says is no matter of the session's.
        assert_eq!(next(&mut session), (0, -1, all.clone(), vec![]));
        assert_eq!(session.refused(), None);
        assert_eq!(session.answered(8, answer(&[0, 1, 2, 3])).len(), 4);
        session.join(asked(0, 0, 10));
        assert_eq!(next(&mut session), (0, -1, vec![(0, 10)], vec![]));
        // On another connection there are.
        session.lost();
        assert_eq!(next(&mut session), (0, 0, vec![(0, 10)], vec![]));
    }

    #[test]
    fn refusals_with_answers_between_them_are_no_reason_to_stop() {
        let mut session = begun();
        for id in 6..20 {
            next(&mut session);
            assert_eq!(session.refused(), Some(1));
            assert_eq!(next(&mut session).1, 0);
            for (asked, _) in session.answered(id, answer(&[0, 1, 2, 3])) {
                session.join(asked);
            }
        }
    }

    #[test]
    fn a_lost_session_is_ended_by_the_next_full_request() {
        let mut session = begun();
        next(&mut session);
        session.lost();
        assert_eq!(next(&mut session), (5, 0, vec![(0, 10), (1, 10), (2, 10), (3, 10)], vec![]));
        assert_eq!(session.end(), Some((5, -1)));
    }

    #[test]
    fn without_an_id_full_requests_go_on() {
        // From the first answer on, or when an incremental one has none, or another one.
        for answered in [0, -3, 6] {
            let mut session = begun();
            next(&mut session);
            assert!(session.answered(answered, Vec::new()).is_empty(), "an incremental answer leaves out");
            assert_eq!(next(&mut session).1, 0);
            assert_eq!(session.end(), None);
            assert_eq!(session.answered(0, answer(&[0, 1, 2, 3])).len(), 4);
            session.join(asked(1, 1, 10));
            assert_eq!(next(&mut session), (0, 0, vec![(1, 10)], vec![]));
        }
    }

    #[test]
    fn a_full_answer_has_to_name_all() {
        let mut session = begun();
        session.lost();
        next(&mut session);
        let answered = session.answered(6, answer(&[2]));
        let found: Vec<(i32, bool)> = answered.iter().map(|(asked, data)| (asked.partition, data.is_some())).collect();
        assert_eq!(found, [(2, true), (0, false), (1, false), (3, false)]);
        assert_eq!(session.members(), 0);
    }

    #[test]
    fn strangers_and_repetitions_are_nobody_s() {
        let mut session = begun();
        next(&mut session);
        session.leave(&asked(3, 3, 10));
        let mut strangers = answer(&[0, 0, 3, 77, -1]);
        let other = FetchableTopicResponse { topic: "u".to_owned(), ..answer(&[1]).remove(0) };
        let by_id = FetchableTopicResponse { topic: String::new(), topic_id: Uuid([7; 16]), ..other.clone() };
        strangers.extend([other, by_id]);
        let answered = session.answered(5, strangers);
        assert_eq!(answered.iter().map(|(asked, _)| asked.partition).collect::<Vec<_>>(), [0]);
        assert_eq!(next(&mut session), (5, 2, vec![], vec![0, 3]));
    }

    #[test]
    fn two_ranges_of_a_partition_give_way_to_each_other() {
        let mut session = begun();
        let displaced = session.join(asked(8, 3, 50)).unwrap();
        assert_eq!((displaced.index, session.members()), (3, 4));
        // Nobody leaves who is not in.
        session.leave(&displaced);
        assert_eq!(next(&mut session), (5, 1, vec![(3, 50)], vec![]));
        session.answered(5, Vec::new());
        assert_eq!(session.join(displaced).unwrap().index, 8);
        assert_eq!(next(&mut session), (5, 2, vec![(3, 10)], vec![]));
    }

    #[test]
    fn only_ranges_with_an_end_lose_patience() {
        let mut session = begun();
        assert_eq!(session.bounded().collect::<Vec<_>>(), [0, 2]);
        next(&mut session);
        session.answered(5, answer(&[2]));
        assert_eq!(session.bounded().collect::<Vec<_>>(), [0]);
        assert_eq!(session.take_all().len(), 3);
        assert_eq!((session.bounded().count(), session.members()), (0, 0));
    }

    #[test]
    fn ids_and_names_are_two_sessions() {
        let mut session = begun();
        next(&mut session);
        session.answered(5, Vec::new());
        assert!(!session.may_use_ids(&[asked(9, 9, 0)]), "the members are called by names");
        assert!(session.call_topics(false).is_empty());
        let members = session.call_topics(true);
        assert_eq!(members.len(), 4);
        for member in members {
            session.join(member);
        }
        assert!(session.may_use_ids(&[asked(9, 9, 0)]));
        assert!(!session.may_use_ids(&[Asked { topic_id: None, ..asked(9, 9, 0) }]));
        let request = session.request();
        assert_eq!((request.session_id, request.session_epoch), (5, 0));
        assert_eq!((request.topics[0].topic_id, request.topics[0].topic.as_str()), (Uuid([7; 16]), ""));
        assert!(session.answered(6, answer(&[0])).iter().all(|(_, data)| data.is_none()), "that was a name");
        session.join(asked(0, 0, 10));
        let request = session.request();
        assert_eq!((request.forgotten[0].topic_id, request.forgotten[0].topic.as_str()), (Uuid([7; 16]), ""));
        assert_eq!(request.forgotten[0].partitions, [1, 2, 3]);
    }
}

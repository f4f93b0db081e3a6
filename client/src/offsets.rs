//! Looking up offsets at the partitions' leaders.

use crate::{
    BrokerName, Client, Error, IsolationLevel, OffsetAndTimestamp, OffsetSpec, Result, TopicPartition,
    client::{Deadline, name_partitions},
    metadata::TopicSelection,
    retry::pause,
};
use ottla_protocol::{
    ApiKey, ErrorCode,
    message::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic},
};
use std::collections::{BTreeMap, BTreeSet};
use tokio::task::JoinSet;

type Wanted = BTreeMap<TopicPartition, OffsetSpec>;
type Found = BTreeMap<TopicPartition, OffsetAndTimestamp>;

impl Client {
    /// Looks up one offset of each partition. `Latest` is the end for `isolation`: the high watermark or the last stable offset.
    ///
    /// # Errors
    /// [`Error::UnknownTopic`] or [`Error::UnknownPartition`] for what does not exist, [`Error::Broker`] for an answer that no retry can
    /// better, [`Error::DeadlineExceeded`] otherwise.
    pub async fn list_offsets(&self, wanted: &Wanted, isolation: IsolationLevel) -> Result<Found> {
        self.list_offsets_until(wanted, isolation, self.api_deadline()).await
    }

    pub(crate) async fn list_offsets_until(
        &self,
        wanted: &Wanted,
        isolation: IsolationLevel,
        deadline: Deadline,
    ) -> Result<Found> {
        let mut backoff = self.retry_backoff();
        let mut missing = wanted.clone();
        let mut found = Found::new();
        loop {
            let round = self.list_offsets_once(&missing, isolation, deadline).await?;
            for (partition, result) in round.found {
                missing.remove(&partition);
                found.insert(partition, result);
            }
            if missing.is_empty() {
                return Ok(found);
            }
            let last = match (round.last, missing.keys().next()) {
                (Some(last), _) => last,
                (None, Some(partition)) => round.asked.get(partition).map_or_else(
                    || Error::UnknownPartition { partition: partition.clone() },
                    |broker| unanswered(partition, broker),
                ),
                (None, None) => return Ok(found),
            };
            let what = || format!("looking up offsets of {}", name_partitions(missing.keys()));
            deadline.pause(pause(&mut backoff), what, last).await?;
            let topics: BTreeSet<String> = missing.keys().map(|partition| partition.topic.clone()).collect();
            self.refresh_metadata(&TopicSelection::Named(topics.into_iter().collect()), deadline).await?;
        }
    }

    /// One look-up of each partition that has a known leader; the rest is for the next round.
    async fn list_offsets_once(&self, wanted: &Wanted, isolation: IsolationLevel, deadline: Deadline) -> Result<Round> {
        let mut round = Round::default();
        let by_leader = self.by_leader(wanted, &mut round, deadline).await?;
        let mut asking = JoinSet::new();
        for (broker, partitions) in by_leader {
            for partition in partitions.keys() {
                round.asked.insert(partition.clone(), broker.clone());
            }
            let client = self.clone();
            asking.spawn(async move {
                let asked = async {
                    let connection = client.control(&broker, deadline).await?;
                    connection.call(&request(&partitions, isolation), deadline).await
                };
                (asked.await, broker, partitions)
            });
        }
        while let Some(joined) = asking.join_next().await {
            let Ok((answer, broker, partitions)) = joined else { continue };
            match answer {
                Ok(response) => round.take(&response, &broker, &partitions)?,
                Err(error) if error.is_retriable() => round.last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Ok(round)
    }

    /// The partitions by their leaders. Topics and partitions not seen yet are asked for; what has no leader now is left out.
    async fn by_leader(
        &self,
        wanted: &Wanted,
        round: &mut Round,
        deadline: Deadline,
    ) -> Result<Vec<(BrokerName, Wanted)>> {
        let unknown: BTreeSet<String> = {
            let cluster = self.cluster();
            let is_known = |partition: &TopicPartition| {
                cluster.topic(&partition.topic).is_some_and(|topic| topic.partitions.contains_key(&partition.partition))
            };
            wanted.keys().filter(|partition| !is_known(partition)).map(|partition| partition.topic.clone()).collect()
        };
        if !unknown.is_empty() {
            self.topics_until(&unknown.into_iter().collect::<Vec<_>>(), deadline, crate::metadata::UNKNOWN_TOPIC_LIMIT)
                .await?;
        }
        let mut by_leader: BTreeMap<crate::NodeId, (BrokerName, Wanted)> = BTreeMap::new();
        let cluster = self.cluster();
        for (partition, spec) in wanted {
            let known = cluster.topic(&partition.topic).and_then(|topic| topic.partitions.get(&partition.partition));
            if known.is_none() {
                return Err(Error::UnknownPartition { partition: partition.clone() });
            }
            match cluster.leader(&partition.topic, partition.partition) {
                Some((broker, _)) => {
                    let node_id = broker.node_id.unwrap_or(crate::NodeId(-1));
                    let group = by_leader.entry(node_id).or_insert_with(|| (broker.clone(), Wanted::new()));
                    group.1.insert(partition.clone(), *spec);
                }
                None => round.last = Some(Error::Leaderless { partition: partition.clone() }),
            }
        }
        Ok(by_leader.into_values().collect())
    }
}

fn unanswered(partition: &TopicPartition, broker: &BrokerName) -> Error {
    Error::Unanswered { api: ApiKey::LIST_OFFSETS, subject: partition.to_string(), broker: broker.clone().into() }
}

/// What one round of requests gave.
#[derive(Default)]
struct Round {
    found: Found,
    asked: BTreeMap<TopicPartition, BrokerName>,
    last: Option<Error>,
}

impl Round {
    fn take(&mut self, response: &ListOffsetsResponse, broker: &BrokerName, asked: &Wanted) -> Result<()> {
        for topic in &response.topics {
            for answer in &topic.partitions {
                let partition = TopicPartition::new(topic.name.clone(), answer.partition_index);
                let Some(spec) = asked.get(&partition) else { continue };
                let offset = (answer.offset >= 0).then_some(answer.offset);
                // Every log has a beginning and an end; a time may lie after its last record.
                let is_missing = offset.is_none() && matches!(spec, OffsetSpec::Earliest | OffsetSpec::Latest);
                let code = if answer.error_code.is_none() && is_missing {
                    ErrorCode::OFFSET_NOT_AVAILABLE
                } else {
                    answer.error_code
                };
                if code.is_none() {
                    let result = OffsetAndTimestamp {
                        offset,
                        timestamp: (answer.timestamp >= 0).then_some(answer.timestamp),
                        leader_epoch: (answer.leader_epoch >= 0).then_some(answer.leader_epoch),
                    };
                    self.found.insert(partition, result);
                    continue;
                }
                let error = Error::Broker {
                    api: ApiKey::LIST_OFFSETS,
                    subject: partition.to_string(),
                    broker: broker.clone().into(),
                    code,
                };
                if !error.is_retriable() {
                    return Err(error);
                }
                self.last = Some(error);
            }
        }
        Ok(())
    }
}

fn request(partitions: &Wanted, isolation: IsolationLevel) -> ListOffsetsRequest {
    let mut topics: Vec<ListOffsetsTopic> = Vec::new();
    for (partition, spec) in partitions {
        let asked =
            ListOffsetsPartition { partition_index: partition.partition, timestamp: spec.wire(), ..Default::default() };
        match topics.last_mut().filter(|topic| topic.name == partition.topic) {
            Some(topic) => topic.partitions.push(asked),
            None => topics.push(ListOffsetsTopic {
                name: partition.topic.clone(),
                partitions: vec![asked],
                ..Default::default()
            }),
        }
    }
    ListOffsetsRequest { replica_id: -1, isolation_level: isolation.wire(), topics, ..Default::default() }
}

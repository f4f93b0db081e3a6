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
        let deadline = self.api_deadline();
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
            let Some(last) = round.last else { continue };
            let what = || format!("looking up offsets of {}", name_partitions(missing.keys()));
            deadline.pause(pause(&mut backoff), what, last).await?;
            let topics: BTreeSet<String> = missing.keys().map(|partition| partition.topic.clone()).collect();
            self.refresh_metadata(&TopicSelection::Named(topics.into_iter().collect()), deadline).await?;
        }
    }

    /// One look-up of each partition that has a known leader; the rest is for the next round.
    async fn list_offsets_once(&self, wanted: &Wanted, isolation: IsolationLevel, deadline: Deadline) -> Result<Round> {
        let mut round = Round::default();
        let by_leader = self.by_leader(wanted, deadline).await?;
        let mut asking = JoinSet::new();
        for (broker, partitions) in by_leader {
            let client = self.clone();
            asking.spawn(async move {
                let request = request(&partitions, isolation);
                let asked = async {
                    let connection = client.control(&broker).await?;
                    connection.call(&request, client.config().request_timeout).await
                };
                let gone = || Error::Connect {
                    broker: broker.clone(),
                    source: crate::ConnectError::Timeout { after: deadline.left(), attempts: Vec::new() },
                };
                (deadline.bound(asked, gone).await, broker)
            });
        }
        while let Some(joined) = asking.join_next().await {
            let Ok((answer, broker)) = joined else { continue };
            match answer {
                Ok(response) => round.take(&response, &broker)?,
                Err(error) if error.is_retriable() => round.last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Ok(round)
    }

    /// The partitions by their leaders. Topics not seen yet are asked for; what has no leader now is left out.
    async fn by_leader(&self, wanted: &Wanted, deadline: Deadline) -> Result<Vec<(BrokerName, Wanted)>> {
        let unknown: BTreeSet<String> = {
            let cluster = self.cluster();
            wanted
                .keys()
                .filter(|partition| cluster.topic(&partition.topic).is_none())
                .map(|partition| partition.topic.clone())
                .collect()
        };
        if !unknown.is_empty() {
            self.topics(&unknown.into_iter().collect::<Vec<_>>()).await?;
        }
        let mut by_leader: BTreeMap<crate::NodeId, (BrokerName, Wanted)> = BTreeMap::new();
        let mut leaderless = None;
        {
            let cluster = self.cluster();
            for (partition, spec) in wanted {
                let known =
                    cluster.topic(&partition.topic).and_then(|topic| topic.partitions.get(&partition.partition));
                if known.is_none() {
                    return Err(Error::UnknownPartition { partition: partition.clone() });
                }
                match cluster.leader(&partition.topic, partition.partition) {
                    Some((broker, _)) => {
                        let node_id = broker.node_id.unwrap_or(crate::NodeId(-1));
                        let group = by_leader.entry(node_id).or_insert_with(|| (broker.clone(), Wanted::new()));
                        group.1.insert(partition.clone(), *spec);
                    }
                    None => leaderless = Some(partition.clone()),
                }
            }
        }
        if by_leader.is_empty()
            && let Some(partition) = leaderless
        {
            // Nothing to ask yet: one look at the metadata, then the caller's back-off.
            let (broker, _) =
                self.refresh_metadata(&TopicSelection::Named(vec![partition.topic.clone()]), deadline).await?;
            if deadline.left().is_zero() {
                let code = ErrorCode::LEADER_NOT_AVAILABLE;
                return Err(Error::Broker { api: ApiKey::METADATA, subject: partition.to_string(), broker, code });
            }
            tokio::time::sleep(self.config().retry_backoff).await;
        }
        Ok(by_leader.into_values().collect())
    }
}

/// What one round of requests gave.
#[derive(Default)]
struct Round {
    found: Found,
    last: Option<Error>,
}

impl Round {
    fn take(&mut self, response: &ListOffsetsResponse, broker: &BrokerName) -> Result<()> {
        for topic in &response.topics {
            for answer in &topic.partitions {
                let partition = TopicPartition::new(topic.name.clone(), answer.partition_index);
                if answer.error_code.is_none() {
                    let result = OffsetAndTimestamp {
                        offset: (answer.offset >= 0).then_some(answer.offset),
                        timestamp: (answer.timestamp >= 0).then_some(answer.timestamp),
                        leader_epoch: (answer.leader_epoch >= 0).then_some(answer.leader_epoch),
                    };
                    self.found.insert(partition, result);
                    continue;
                }
                let error = Error::Broker {
                    api: ApiKey::LIST_OFFSETS,
                    subject: partition.to_string(),
                    broker: broker.clone(),
                    code: answer.error_code,
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

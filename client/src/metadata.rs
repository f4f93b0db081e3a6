//! Asking for metadata: of the topics that are needed, from any broker that answers.

use crate::{
    BrokerName, Client, Error, Result, Topic, broker_pool::Purpose, client::Deadline, cluster::TopicAnswer,
    retry::pause,
};
use ottla_protocol::{
    ErrorCode,
    message::{MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// While others wait to be asked, a broker that keeps silent gets this long.
const NEXT_BROKER_AFTER: Duration = Duration::from_secs(3);

/// For how long a topic that no broker knows is asked for again.
pub(crate) const UNKNOWN_TOPIC_LIMIT: Duration = Duration::from_secs(2);

/// The first version in which a request can say that asking for a topic shall not create it.
const NO_CREATION_SINCE: i16 = 4;

/// Which topics a metadata request is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum TopicSelection {
    /// Brokers only.
    None,
    /// Every topic of the cluster.
    All,
    /// These.
    Named(Vec<String>),
}

impl TopicSelection {
    /// The request in `version`. Asking must not create: a typo in a topic's name is an error, not a topic. Where the request can't say so,
    /// it names no topic and gets all.
    fn request(&self, version: i16) -> MetadataRequest {
        let topics = match self {
            Self::None => Some(Vec::new()),
            // In version 0 it is the empty list that asks for all.
            Self::All | Self::Named(_) if version == 0 => Some(Vec::new()),
            Self::Named(_) if version < NO_CREATION_SINCE => None,
            Self::All => None,
            Self::Named(names) => Some(
                names
                    .iter()
                    .map(|name| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() })
                    .collect(),
            ),
        };
        MetadataRequest { topics, allow_auto_topic_creation: version < NO_CREATION_SINCE, ..Default::default() }
    }

    /// Makes an answer that shows all topics what an answer to the selection would have been.
    fn narrow(&self, response: &mut MetadataResponse) {
        let Self::Named(names) = self else { return };
        response.topics.retain(|topic| topic.name.as_ref().is_some_and(|name| names.contains(name)));
        let found: BTreeSet<Option<String>> = response.topics.iter().map(|topic| topic.name.clone()).collect();
        let missing = names.iter().cloned().map(Some).filter(|name| !found.contains(name));
        response.topics.extend(missing.map(|name| MetadataResponseTopic {
            error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            name,
            ..Default::default()
        }));
    }

    fn what(&self) -> String {
        match self {
            Self::None => "looking up the brokers".to_owned(),
            Self::All => "looking up all topics".to_owned(),
            Self::Named(names) => format!("looking up topic {}", names.join(", ")),
        }
    }
}

impl Client {
    /// The named topics, as the cluster knows them now.
    ///
    /// # Errors
    /// [`Error::UnknownTopic`] for a topic that does not exist, [`Error::Broker`] for one that is not allowed or has an impossible name,
    /// [`Error::DeadlineExceeded`] when the cluster does not answer.
    pub async fn topics(&self, names: &[String]) -> Result<BTreeMap<String, Topic>> {
        self.topics_until(names, self.api_deadline(), UNKNOWN_TOPIC_LIMIT).await
    }

    /// As [`topics`](Self::topics), for callers that ask again themselves: the first broker that does not know a topic is believed.
    ///
    /// # Errors
    /// As [`topics`](Self::topics).
    pub async fn topics_now(&self, names: &[String]) -> Result<BTreeMap<String, Topic>> {
        self.topics_until(names, self.api_deadline(), Duration::ZERO).await
    }

    /// Brokers learn of a new topic one after the other: unknown is believed when it stays so for `unknown_limit`.
    pub(crate) async fn topics_until(
        &self,
        names: &[String],
        deadline: Deadline,
        unknown_limit: Duration,
    ) -> Result<BTreeMap<String, Topic>> {
        let selection = TopicSelection::Named(names.to_vec());
        let mut backoff = self.retry_backoff();
        let unknown_until = deadline.within(unknown_limit.min(deadline.left() / 2));
        loop {
            let (broker, mut answers) = self.refresh_metadata(&selection, deadline).await?;
            // What the answer leaves out is not there either.
            let answered: BTreeSet<&str> = answers.iter().map(|answer| answer.name.as_str()).collect();
            let left_out: Vec<&String> = names.iter().filter(|name| !answered.contains(name.as_str())).collect();
            let left_out: Vec<TopicAnswer> = left_out.into_iter().map(|name| TopicAnswer::unknown(name)).collect();
            answers.extend(left_out);
            let Some(bad) = answers.iter().find(|answer| !answer.code.is_none() || answer.leaderless) else {
                let cluster = self.cluster();
                return Ok(names
                    .iter()
                    .filter_map(|name| Some((name.clone(), cluster.topic(name)?.clone())))
                    .collect());
            };
            let code = if bad.code.is_none() { ErrorCode::LEADER_NOT_AVAILABLE } else { bad.code };
            let unknown = matches!(code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID);
            if unknown && unknown_until.left().is_zero() {
                return Err(Error::UnknownTopic { topic: bad.name.clone() });
            }
            let error = self.topic_error(&broker, bad, code);
            if !code.is_retriable() {
                return Err(error);
            }
            let limit = if unknown { unknown_until } else { deadline };
            let pause = pause(&mut backoff).min(limit.left());
            deadline.pause(pause, || selection.what(), error).await?;
        }
    }

    /// Every topic of the cluster, Kafka's own included.
    ///
    /// # Errors
    /// [`Error::DeadlineExceeded`] when the cluster does not answer.
    pub async fn all_topics(&self) -> Result<BTreeMap<String, Topic>> {
        let (_, answers) = self.refresh_metadata(&TopicSelection::All, self.api_deadline()).await?;
        let cluster = self.cluster();
        Ok(answers
            .into_iter()
            .filter_map(|answer| cluster.topic(&answer.name).cloned().map(|topic| (answer.name, topic)))
            .collect())
    }

    fn topic_error(&self, broker: &BrokerName, answer: &TopicAnswer, code: ErrorCode) -> Error {
        let subject = format!("topic '{}'", answer.name);
        Error::Broker { api: ottla_protocol::ApiKey::METADATA, subject, broker: broker.clone().into(), code }
    }

    /// Asks the brokers in turn until one answers. An answer that no retry can better counts when no other broker gives a better one.
    pub(crate) async fn refresh_metadata(
        &self,
        topics: &TopicSelection,
        deadline: Deadline,
    ) -> Result<(BrokerName, Vec<TopicAnswer>)> {
        let mut backoff = self.retry_backoff();
        let mut before = None;
        loop {
            let candidates = self.metadata_candidates();
            let (mut last, mut hopeless) = (None, None);
            for (i, broker) in candidates.iter().enumerate() {
                let more = i + 1 < candidates.len();
                let limit = if more { deadline.within(NEXT_BROKER_AFTER) } else { deadline };
                match self.ask_metadata(broker, topics, limit).await {
                    Ok(answers) => return Ok((broker.clone(), answers)),
                    Err(error) if error.is_retriable() => last = Some(error),
                    Err(error) => hopeless = Some(error),
                }
                if deadline.left().is_zero() {
                    break;
                }
            }
            let Some(last) = last else {
                // The candidates hold at least the bootstrap servers.
                return Err(hopeless.unwrap_or_else(|| Error::no_broker(self.config())));
            };
            let mut error = hopeless.unwrap_or(last);
            if error.had_no_time() {
                // It says less than the one before.
                error = before.take().unwrap_or(error);
            }
            let pause = pause(&mut backoff);
            if pause < deadline.left() {
                before = Some(error);
                tokio::time::sleep(pause).await;
            } else {
                deadline.pause(pause, || topics.what(), error).await?;
            }
        }
    }

    async fn ask_metadata(
        &self,
        broker: &BrokerName,
        topics: &TopicSelection,
        deadline: Deadline,
    ) -> Result<Vec<TopicAnswer>> {
        let connection = self.control(broker, deadline).await?;
        let version = connection.version::<MetadataRequest>(i16::MAX)?;
        let mut response = connection.call_version(&topics.request(version), version, deadline).await?;
        if version < NO_CREATION_SINCE {
            topics.narrow(&mut response);
        }
        // A broker that has just started knows no brokers yet, not even itself.
        let code = if response.brokers.is_empty() { ErrorCode::BROKER_NOT_AVAILABLE } else { ErrorCode::NONE };
        let code = if response.error_code.is_none() { code } else { response.error_code };
        // REBOOTSTRAP_REQUIRED (KIP-1102) comes from a broker of another cluster: the next candidate is asked.
        let code = if code == ErrorCode::REBOOTSTRAP_REQUIRED { ErrorCode::BROKER_NOT_AVAILABLE } else { code };
        if !code.is_none() {
            let (subject, broker) = ("the cluster".to_owned(), broker.clone().into());
            return Err(Error::Broker { api: ottla_protocol::ApiKey::METADATA, subject, broker, code });
        }
        Ok(self.cluster().update(&response, &broker.address))
    }

    /// Brokers with a live connection, then the others that metadata named, then the bootstrap servers: when all known brokers were
    /// replaced, those are the way back.
    fn metadata_candidates(&self) -> Vec<BrokerName> {
        let mut candidates: Vec<BrokerName> = self.cluster().brokers().cloned().collect();
        let bootstrap = self.config().bootstrap_servers.iter();
        candidates.extend(bootstrap.map(|address| BrokerName {
            node_id: None,
            address: address.clone(),
            advertised_by: None,
        }));
        candidates.sort_by_key(|broker| !self.shared.pool.is_connected(broker, Purpose::Control));
        candidates
    }
}

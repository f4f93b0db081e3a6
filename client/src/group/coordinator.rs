//! Which broker keeps a group's offsets, and calling it until it answers.

use crate::{
    BrokerAddress, BrokerName, Client, Error, NodeId, Result, client::Deadline, conn::Connection, retry::pause,
};
use ottla_protocol::{
    ApiKey, ErrorCode, Message,
    message::{FindCoordinatorRequest, FindCoordinatorResponse},
};
use std::sync::{Arc, PoisonError};

/// From this version on a request names several keys, and each has an answer of its own (KIP-699).
const SEVERAL_KEYS_SINCE: i16 = 4;

impl Client {
    /// Calls the group's coordinator. `call` says [`Answer::Retry`] for what another try, here or at another coordinator, may better.
    pub(super) async fn with_coordinator<T, F, A>(
        &self,
        group: &str,
        deadline: Deadline,
        what: &str,
        call: F,
    ) -> Result<T>
    where
        F: Fn(Arc<Connection>) -> A,
        A: Future<Output = Result<Answer<T>>>,
    {
        let mut backoff = self.retry_backoff();
        let what = || format!("{what} of group '{group}'");
        loop {
            let last = match self.try_coordinator(group, deadline, &call).await {
                Ok(Answer::Done(result)) => return Ok(result),
                Ok(Answer::Retry(error)) => error,
                Err(error) if error.is_retriable() => {
                    self.forget_coordinator(group);
                    error
                }
                Err(error) => return Err(error),
            };
            if last.code().is_some_and(ErrorCode::refreshes_coordinator) {
                self.forget_coordinator(group);
            }
            deadline.pause(pause(&mut backoff), what, last).await?;
        }
    }

    async fn try_coordinator<T, F, A>(&self, group: &str, deadline: Deadline, call: &F) -> Result<Answer<T>>
    where
        F: Fn(Arc<Connection>) -> A,
        A: Future<Output = Result<Answer<T>>>,
    {
        let broker = match self.cached_coordinator(group) {
            Some(broker) => broker,
            None => self.find_coordinator(group, deadline).await?,
        };
        call(self.control(&broker, deadline).await?).await
    }

    fn cached_coordinator(&self, group: &str) -> Option<BrokerName> {
        self.shared.coordinators.lock().unwrap_or_else(PoisonError::into_inner).get(group).cloned()
    }

    fn forget_coordinator(&self, group: &str) {
        self.shared.coordinators.lock().unwrap_or_else(PoisonError::into_inner).remove(group);
    }

    /// Asks any broker, and again while the answer is that the coordinator is not there yet: on a fresh cluster the first such request
    /// makes the topic that keeps the offsets.
    async fn find_coordinator(&self, group: &str, deadline: Deadline) -> Result<BrokerName> {
        let mut backoff = self.retry_backoff();
        loop {
            let (asked, _) = self.refresh_metadata(&crate::metadata::TopicSelection::None, deadline).await?;
            let error = match self.ask_coordinator(group, &asked, deadline).await {
                Ok(found) => {
                    let mut coordinators = self.shared.coordinators.lock().unwrap_or_else(PoisonError::into_inner);
                    coordinators.insert(group.to_owned(), found.clone());
                    return Ok(found);
                }
                Err(error) if error.is_retriable() => error,
                Err(error) => return Err(error),
            };
            let what = || format!("finding the coordinator of group '{group}'");
            deadline.pause(pause(&mut backoff), what, error).await?;
        }
    }

    async fn ask_coordinator(&self, group: &str, broker: &BrokerName, deadline: Deadline) -> Result<BrokerName> {
        let connection = self.control(broker, deadline).await?;
        let version = connection.version::<FindCoordinatorRequest>(i16::MAX)?;
        let request = if version < SEVERAL_KEYS_SINCE {
            FindCoordinatorRequest { key: group.to_owned(), ..Default::default() }
        } else {
            FindCoordinatorRequest { coordinator_keys: vec![group.to_owned()], ..Default::default() }
        };
        let response = connection.call_version(&request, version, deadline).await?;
        let (code, node_id, host, port) = answer(&response, group, version);
        let refused = |code| {
            let (api, subject) = (FindCoordinatorRequest::API_KEY, format!("group '{group}'"));
            Error::Broker { api, subject, broker: broker.clone().into(), code }
        };
        if !code.is_none() {
            return Err(refused(code));
        }
        let port = u16::try_from(port).map_err(|_| refused(ErrorCode::COORDINATOR_NOT_AVAILABLE))?;
        let address = BrokerAddress { host, port };
        Ok(BrokerName { node_id: Some(NodeId(node_id)), address, advertised_by: Some(broker.address.clone()) })
    }
}

fn answer(response: &FindCoordinatorResponse, group: &str, version: i16) -> (ErrorCode, i32, String, i32) {
    if version < SEVERAL_KEYS_SINCE {
        return (response.error_code, response.node_id, response.host.clone(), response.port);
    }
    match response.coordinators.iter().find(|coordinator| coordinator.key == group) {
        Some(found) => (found.error_code, found.node_id, found.host.clone(), found.port),
        None => (ErrorCode::COORDINATOR_NOT_AVAILABLE, -1, String::new(), -1),
    }
}

/// What a coordinator's answer means for the loop around it.
pub(super) enum Answer<T> {
    Done(T),
    Retry(Error),
}

/// The error of a coordinator's answer about a whole group.
pub(super) fn group_error(api: ApiKey, group: &str, connection: &Connection, code: ErrorCode) -> Error {
    Error::Broker { api, subject: format!("group '{group}'"), broker: connection.broker().clone().into(), code }
}

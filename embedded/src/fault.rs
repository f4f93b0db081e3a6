//! Faults on demand: hooks that see each request before it is handled and say what goes wrong, and counters of what arrived.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::ApiKey;

use crate::request::Request;

/// What a hook sees.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RequestContext<'a> {
    /// The node that got the request.
    pub node: i32,
    /// The API.
    pub api_key: ApiKey,
    /// The version, one of those offered.
    pub api_version: i16,
    /// The client's number for the request.
    pub correlation_id: i32,
    /// The client's name for itself.
    pub client_id: Option<&'a str>,
    /// How many requests of this API came before, on all nodes: 0 for the first.
    pub index: u64,
    /// The decoded request.
    pub request: &'a Request,
}

/// What a hook makes of a request.
#[derive(Clone)]
#[non_exhaustive]
pub enum Action {
    /// Nothing: the next hook is asked, or the request is answered.
    Pass,
    /// Answer with this error code and do nothing else: in every partition or element where the API has a code for each, and in the
    /// response's own code where it has only that.
    Error(i16),
    /// Answer with this code as the response's own and without partitions (Fetch from version 7 on, OffsetFetch, Metadata from version
    /// 13 on); as [`Action::Error`] where the API has no such code.
    TopLevelError(i16),
    /// Answer with a code for these partitions and handle the others.
    PartitionErrors(Vec<PartitionError>),
    /// Handle the request, then answer so much later. Later requests of the connection wait.
    Delay(Duration),
    /// Close the connection without handling the request.
    Close,
    /// Handle the request, then close the connection without an answer: the client can't know what happened.
    CloseAfterHandling,
    /// Handle the request, send this many bytes of the answer's frame (its length field included), then close the connection.
    Truncate(usize),
    /// Handle the request and answer at once with this throttle time; then read nothing from the connection for that time (KIP-219).
    Throttle(Duration),
    /// Never answer; the connection stays open and what it sends later is read and dropped.
    Mute,
    /// Send these bytes instead of an answer, without handling the request: a whole frame, or whatever a test needs.
    Replace(Bytes),
    /// Handle the request and send what the function makes of the answer's frame (its length field included).
    Edit(Arc<dyn Fn(Bytes) -> Bytes + Send + Sync>),
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("Pass"),
            Self::Error(code) => f.debug_tuple("Error").field(code).finish(),
            Self::TopLevelError(code) => f.debug_tuple("TopLevelError").field(code).finish(),
            Self::PartitionErrors(errors) => f.debug_tuple("PartitionErrors").field(errors).finish(),
            Self::Delay(delay) => f.debug_tuple("Delay").field(delay).finish(),
            Self::Close => f.write_str("Close"),
            Self::CloseAfterHandling => f.write_str("CloseAfterHandling"),
            Self::Truncate(bytes) => f.debug_tuple("Truncate").field(bytes).finish(),
            Self::Throttle(time) => f.debug_tuple("Throttle").field(time).finish(),
            Self::Mute => f.write_str("Mute"),
            Self::Replace(bytes) => f.debug_tuple("Replace").field(bytes).finish(),
            Self::Edit(_) => f.write_str("Edit(_)"),
        }
    }
}

/// An error code for one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionError {
    /// The topic's name.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
    /// Kafka's error code.
    pub error_code: i16,
}

impl PartitionError {
    /// An error code for one partition.
    pub fn new(topic: impl Into<String>, partition: i32, error_code: i16) -> Self {
        Self { topic: topic.into(), partition, error_code }
    }
}

/// A request as it arrived, for assertions.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// The node that got it.
    pub node: i32,
    /// Its version.
    pub api_version: i16,
    /// The client's number for it.
    pub correlation_id: i32,
    /// The client's name for itself.
    pub client_id: Option<String>,
    /// What it says.
    pub request: Request,
}

type Hook = Arc<dyn Fn(&RequestContext<'_>) -> Action + Send + Sync>;

#[derive(Default)]
struct ApiRecord {
    hooks: Vec<Hook>,
    count: u64,
    last: Option<RecordedRequest>,
}

/// Hooks and counters.
#[derive(Default)]
pub(crate) struct Faults {
    apis: Mutex<BTreeMap<i16, ApiRecord>>,
    connections: Mutex<BTreeMap<i32, u64>>,
}

impl Faults {
    fn api<T>(&self, api_key: ApiKey, act: impl FnOnce(&mut ApiRecord) -> T) -> T {
        act(self.apis.lock().unwrap_or_else(PoisonError::into_inner).entry(api_key as i16).or_default())
    }

    pub(crate) fn add(&self, api_key: ApiKey, hook: Hook) {
        self.api(api_key, |record| record.hooks.push(hook));
    }

    pub(crate) fn clear(&self, api_key: ApiKey) {
        self.api(api_key, |record| record.hooks.clear());
    }

    pub(crate) fn requests(&self, api_key: ApiKey) -> u64 {
        self.api(api_key, |record| record.count)
    }

    pub(crate) fn last_request(&self, api_key: ApiKey) -> Option<RecordedRequest> {
        self.api(api_key, |record| record.last.clone())
    }

    pub(crate) fn connected(&self, node: i32) {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let count = connections.entry(node).or_default();
        *count = count.saturating_add(1);
    }

    pub(crate) fn connections(&self, node: i32) -> u64 {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).get(&node).copied().unwrap_or(0)
    }

    /// Counts a request and asks the hooks, the newest first; the first that does not pass decides.
    pub(crate) fn decide(&self, recorded: RecordedRequest) -> Action {
        let api_key = recorded.request.api_key();
        // The hooks run without the lock, so that they may ask for counters.
        let (hooks, index) = self.api(api_key, |record| {
            let index = record.count;
            record.count = record.count.saturating_add(1);
            record.last = Some(recorded.clone());
            (record.hooks.clone(), index)
        });
        let context = RequestContext {
            node: recorded.node,
            api_key,
            api_version: recorded.api_version,
            correlation_id: recorded.correlation_id,
            client_id: recorded.client_id.as_deref(),
            index,
            request: &recorded.request,
        };
        let decisions = hooks.iter().rev().map(|hook| hook(&context));
        decisions.into_iter().find(|action| !matches!(action, Action::Pass)).unwrap_or(Action::Pass)
    }
}

/// The errors that a handler puts into its response instead of acting.
#[derive(Debug, Default)]
pub(crate) struct Forced {
    /// For every partition or element.
    pub(crate) all: Option<i16>,
    /// For the whole response.
    pub(crate) top_level: Option<i16>,
    pub(crate) partitions: Vec<PartitionError>,
}

impl Forced {
    pub(crate) fn new(action: &Action, api_key: ApiKey, version: i16) -> Self {
        // Where a response has both its own code and one for each partition. OffsetFetch 1 is told what group failed, and spreads it.
        let has_both = match api_key {
            ApiKey::Fetch => version >= 7,
            ApiKey::OffsetFetch => true,
            ApiKey::Metadata => version >= 13,
            _ => false,
        };
        match action {
            Action::TopLevelError(code) if has_both => Self { top_level: Some(*code), ..Self::default() },
            Action::Error(code) | Action::TopLevelError(code) => Self { all: Some(*code), ..Self::default() },
            Action::PartitionErrors(partitions) => Self { partitions: partitions.clone(), ..Self::default() },
            _ => Self::default(),
        }
    }

    /// The code for a response without partitions.
    pub(crate) fn whole(&self) -> Option<i16> {
        self.top_level.or(self.all)
    }

    pub(crate) fn partition(&self, topic: &str, partition: i32) -> Option<i16> {
        let found = self.partitions.iter().find(|error| error.topic == topic && error.partition == partition);
        self.all.or(found.map(|error| error.error_code))
    }
}

//! Requests to ZooKeeper that outlive connections and sessions, but never their deadline.

#[cfg(feature = "zookeeper-tls")]
use super::tls;
use super::{ZooKeeperError, ZooKeeperErrorKind};
use crate::{BoxError, ZooKeeperOptions};
use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Error, Permission};

/// Requests on their way at once.
const IN_FLIGHT: usize = 128;

/// The pauses between two tries: from the first to the last, doubling.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// One request.
#[derive(Clone, Debug)]
pub(super) enum Request {
    /// What a node holds.
    Get { path: String },
    /// The names of a node's children.
    Children { path: String },
    /// A value for a node of this version.
    Set { path: String, value: String, version: i32 },
    /// A new node. `shared`: others may write it and below it, also where there are credentials.
    Create { path: String, value: String, shared: bool },
}

/// The answer to a request.
#[derive(Debug)]
pub(super) enum Reply {
    /// To a get.
    Node { value: Vec<u8>, version: i32 },
    /// To a request for children.
    Children(Vec<String>),
    /// To a set or a create: the node's version now.
    Version(i32),
    /// There is no such node, or, of a create, no parent.
    NoNode,
    /// The node is of another version; of a create, it is there already.
    Changed,
    /// The servers won't.
    Refused(Error),
}

/// An answer, and whether the request was sent more than once: then an earlier one of the same may have been carried out.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) reply: Reply,
    pub(super) repeated: bool,
}

/// A session, as far as there is one: made at the first request, and made anew whenever it is lost.
pub(super) struct Session {
    /// With `host:port` and commas.
    servers: String,
    options: ZooKeeperOptions,
    /// Never held over an await.
    client: Mutex<Option<Client>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("servers", &self.servers)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn new(servers: String, options: ZooKeeperOptions) -> Self {
        Self { servers, options, client: Mutex::default() }
    }

    /// When requests of a call that begins now must be done.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.options.timeout
    }

    pub(super) fn error(&self, source: ZooKeeperErrorKind) -> ZooKeeperError {
        ZooKeeperError { servers: self.servers.clone(), source }
    }

    /// The answers to `requests`, in their order. They are on their way side by side, and sent again over a new session when one is lost.
    ///
    /// # Errors
    /// Nobody answers until the deadline, or the servers want other credentials. Some of the requests may have been carried out then.
    pub(super) async fn all(&self, requests: Vec<Request>, deadline: Instant) -> Result<Vec<Answer>, ZooKeeperError> {
        let mut work = Work::new(requests);
        let (mut pause, longest) = PAUSES;
        let mut said = None;
        while !work.is_done() {
            let outcome = timeout_at(deadline, self.round(&mut work)).await;
            match outcome {
                Ok(Ok(())) => continue,
                Ok(Err(Failure::Final(source))) => {
                    let path = "the session".to_owned();
                    return Err(self.error(ZooKeeperErrorKind::Refused { path, source }));
                }
                Ok(Err(Failure::Lost(error))) => said = Some(error),
                Err(_) => {}
            }
            // A session that gave no answer is not waited for: nothing of ours depends on it.
            *self.current() = None;
            if Instant::now() + pause >= deadline {
                return Err(self.error(ZooKeeperErrorKind::NoAnswer { within: self.options.timeout, source: said }));
            }
            sleep(pause).await;
            pause = longest.min(pause * 2);
        }
        Ok(work.into_answers())
    }

    /// Sends what has no answer yet, once.
    ///
    /// # Errors
    /// There is no session, or it is gone, or serves badly.
    async fn round(&self, work: &mut Work) -> Result<(), Failure> {
        let client = self.client().await?;
        let mut waiting = work.unanswered().into_iter();
        let mut tasks = JoinSet::new();
        loop {
            while tasks.len() < IN_FLIGHT {
                let Some((index, request)) = waiting.next() else { break };
                work.sent(index);
                // A task each: an answer that the client can't read panics there, and is a lost session here.
                let (client, acl) = (client.clone(), self.options.auth.is_some());
                tasks.spawn(async move { (index, send(&client, &request, acl).await) });
            }
            let Some(joined) = tasks.join_next().await else { return Ok(()) };
            let (index, result) = joined.map_err(|_| Failure::unreadable())?;
            let reply = match result {
                Err(error) if is_final(&error) => Reply::Refused(error),
                result => result.map_err(Failure::of)?,
            };
            work.answered(index, reply);
        }
    }

    async fn client(&self) -> Result<Client, Failure> {
        if let Some(client) = self.current().clone() {
            return Ok(client);
        }
        let mut connector = Client::connector().with_session_timeout(self.options.session_timeout).with_fail_eagerly();
        if let Some(auth) = &self.options.auth {
            connector = connector.with_auth("digest", auth.credentials().as_bytes());
        }
        #[cfg(feature = "zookeeper-tls")]
        let tls = tls::options(&self.servers, &self.options).map_err(Failure::Final)?;
        let servers = self.servers.clone();
        // In a task, as requests are.
        let mut connecting = JoinSet::new();
        connecting.spawn(async move {
            #[cfg(feature = "zookeeper-tls")]
            if let Some(tls) = tls {
                return connector.with_tls(tls).secure_connect(&servers).await;
            }
            connector.connect(&servers).await
        });
        let client = match connecting.join_next().await {
            Some(Ok(connected)) => connected.map_err(Failure::of)?,
            Some(Err(_)) | None => return Err(Failure::unreadable()),
        };
        *self.current() = Some(client.clone());
        Ok(client)
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<Client>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a round ended early.
enum Failure {
    /// Another session may do better.
    Lost(BoxError),
    /// None will.
    Final(BoxError),
}

impl Failure {
    fn of(error: Error) -> Self {
        match error {
            Error::AuthFailed => Self::Final(error.into()),
            // Why is not to be had of the client.
            Error::NoHosts => Self::Lost("no server could be reached, or took the session".into()),
            error => Self::Lost(error.into()),
        }
    }

    fn unreadable() -> Self {
        Self::Lost("an answer could not be read".into())
    }
}

/// Whether no other session will do better with a request.
fn is_final(error: &Error) -> bool {
    matches!(
        error,
        Error::BadArguments(_)
            | Error::NoAuth
            | Error::NoChildrenForEphemerals
            | Error::InvalidAcl
            | Error::QuotaExceeded
            | Error::MarshallingError
            | Error::Unimplemented
            | Error::UnexpectedErrorCode(_)
    )
}

async fn send(client: &Client, request: &Request, has_auth: bool) -> Result<Reply, Error> {
    let reply = match request {
        Request::Get { path } => {
            client.get_data(path).await.map(|(value, stat)| Reply::Node { value, version: stat.version })
        }
        Request::Children { path } => client.list_children(path).await.map(Reply::Children),
        Request::Set { path, value, version } => {
            client.set_data(path, value.as_bytes(), Some(*version)).await.map(|stat| Reply::Version(stat.version))
        }
        Request::Create { path, value, shared } => {
            // As Kafka's own nodes: who has the credentials may do all, others may read.
            let guarded = [Acl::new(Permission::ALL, AuthId::authed()), Acl::new(Permission::READ, AuthId::anyone())];
            let acls = if has_auth && !shared { Acls::new(&guarded) } else { Acls::anyone_all() };
            let options = CreateMode::Persistent.with_acls(acls);
            client.create(path, value.as_bytes(), &options).await.map(|_| Reply::Version(0))
        }
    };
    match reply {
        Err(Error::NoNode) => Ok(Reply::NoNode),
        Err(Error::BadVersion | Error::NodeExists) => Ok(Reply::Changed),
        reply => reply,
    }
}

/// Requests, and how far each is.
struct Work {
    requests: Vec<Progress>,
}

struct Progress {
    request: Request,
    sent: u32,
    reply: Option<Reply>,
}

impl Work {
    fn new(requests: Vec<Request>) -> Self {
        let requests = requests.into_iter().map(|request| Progress { request, sent: 0, reply: None });
        Self { requests: requests.collect() }
    }

    fn is_done(&self) -> bool {
        self.requests.iter().all(|progress| progress.reply.is_some())
    }

    fn unanswered(&self) -> Vec<(usize, Request)> {
        let unanswered = self.requests.iter().enumerate().filter(|(_, progress)| progress.reply.is_none());
        unanswered.map(|(index, progress)| (index, progress.request.clone())).collect()
    }

    fn sent(&mut self, index: usize) {
        if let Some(progress) = self.requests.get_mut(index) {
            progress.sent = progress.sent.saturating_add(1);
        }
    }

    fn answered(&mut self, index: usize, reply: Reply) {
        if let Some(progress) = self.requests.get_mut(index) {
            progress.reply = Some(reply);
        }
    }

    fn into_answers(self) -> Vec<Answer> {
        let answer = |Progress { sent, reply, .. }: Progress| reply.map(|reply| Answer { reply, repeated: sent > 1 });
        self.requests.into_iter().filter_map(answer).collect()
    }
}

//! The only file that awaits a socket: one task a connection, which owns it and its [`State`], and the handle that others hold.

use super::{
    Frame, FramePool,
    frame_reader::FrameReader,
    state::State,
    transport::{ReceiveBuffer, dial},
};
use crate::{BrokerName, ClientConfig, ConnectError, Error, RequestError, client::Deadline, throttle::Throttled};
use bytes::{Buf, BytesMut};
use ottla_protocol::{
    ApiKey, ErrorCode, Message, Request, VersionRange, decode_response, encode_request,
    message::{ApiVersionsRequest, ApiVersionsResponse},
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    sync::{mpsc, oneshot},
    task::yield_now,
    time::{sleep_until, timeout},
};

/// Requests that may wait for the task to write them; a caller with one more waits, which is the back-pressure.
const COMMANDS_MAX: usize = 64;

/// A deadline that is noticed so much too late was overslept.
const OVERSLEPT: Duration = Duration::from_millis(500);

type AnswerTo = oneshot::Sender<Result<Frame, RequestError>>;
/// Where the answer to a request will come out.
pub(crate) type PendingAnswer = oneshot::Receiver<Result<Frame, RequestError>>;

#[derive(Debug)]
struct Command {
    frame: BytesMut,
    timeout: Duration,
    answer_to: AnswerTo,
}

/// A handle of a live connection. When all are dropped, the connection is closed.
#[derive(Debug)]
pub(crate) struct Connection {
    broker: BrokerName,
    client_id: String,
    request_timeout: Duration,
    versions: BTreeMap<ApiKey, VersionRange>,
    commands: mpsc::Sender<Command>,
    /// A way of its own, past the requests that wait to be written.
    throttles: mpsc::UnboundedSender<Duration>,
}

impl Connection {
    /// Dials `broker` and learns its versions.
    pub(crate) async fn open(
        config: &ClientConfig,
        broker: BrokerName,
        pool: Arc<FramePool>,
        receive_buffer: ReceiveBuffer,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let stream = dial(config, &broker.address, receive_buffer)
            .await
            .map_err(|source| Error::Connect { broker: broker.clone().into(), source })?;
        let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
        let (throttles, throttle_receiver) = mpsc::unbounded_channel();
        let reader = FrameReader::new(pool, config.frame_bytes_max);
        tokio::spawn(run(stream, reader, receiver, throttle_receiver));
        let mut connection = Self {
            broker,
            client_id: config.client_id.clone(),
            request_timeout: config.request_timeout,
            versions: BTreeMap::new(),
            commands,
            throttles,
        };
        // A peer that accepts and says nothing is as good as one that can't be reached: the limit is that of the set-up, not of a request.
        let limit = config.socket_connection_setup_timeout.saturating_sub(start.elapsed());
        match timeout(limit, connection.negotiate(limit)).await {
            Ok(result) => result?,
            Err(_) => {
                let source =
                    ConnectError::Timeout { after: config.socket_connection_setup_timeout, attempts: Vec::new() };
                return Err(Error::Connect { broker: connection.broker.into(), source });
            }
        }
        Ok(connection)
    }

    /// ApiVersions (KIP-35, KIP-511): asks in the newest version; a broker that does not know it answers in version 0 with
    /// UNSUPPORTED_VERSION and, since 2.4, with the range it has.
    async fn negotiate(&mut self, limit: Duration) -> Result<(), Error> {
        let request = ApiVersionsRequest {
            client_software_name: "ottla".to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Default::default()
        };
        let mut version = ApiVersionsRequest::VERSIONS.max;
        let response = loop {
            let frame = self.exchange(&request, version, limit).await?;
            let (_, response) = ApiVersionsResponse::decode_any(version, frame.bytes())
                .map_err(|source| self.failed::<ApiVersionsRequest>(version, source.into()))?;
            if response.error_code != ErrorCode::UNSUPPORTED_VERSION || version == 0 {
                break response;
            }
            let theirs = response.versions_of(ApiKey::API_VERSIONS);
            version = theirs.map_or(0, |theirs| theirs.max.clamp(0, version - 1));
        };
        if !response.error_code.is_none() {
            return Err(Error::Broker {
                api: ApiKey::API_VERSIONS,
                subject: "the connection".to_owned(),
                broker: self.broker.clone().into(),
                code: response.error_code,
            });
        }
        self.versions = versions_of(&response);
        Ok(())
    }

    /// The broker at the other end.
    pub(crate) fn broker(&self) -> &BrokerName {
        &self.broker
    }

    /// Whether the connection is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.commands.is_closed()
    }

    /// The newest version of `R` that both sides have, at most `cap`.
    pub(crate) fn version<R: Request>(&self, cap: i16) -> Result<i16, Error> {
        let ours = VersionRange::new(R::VERSIONS.min, R::VERSIONS.max.min(cap));
        let theirs = self.versions.get(&R::API_KEY).copied();
        theirs.and_then(|theirs| theirs.newest_common(ours)).ok_or_else(|| Error::UnsupportedVersion {
            api: R::API_KEY,
            broker: self.broker.clone().into(),
            theirs: theirs.map_or("no version".to_owned(), |range| format!("versions {} to {}", range.min, range.max)),
            ours,
        })
    }

    /// Sends `request` in the newest common version and waits for its answer, for `request.timeout.ms` or until the deadline.
    pub(crate) async fn call<R>(&self, request: &R, deadline: Deadline) -> Result<R::Response, Error>
    where
        R: Request,
        R::Response: Throttled,
    {
        self.call_version(request, self.version::<R>(i16::MAX)?, deadline).await
    }

    /// Sends `request` in `version` and waits for its answer, for `request.timeout.ms` or until the deadline. A deadline that passes
    /// leaves the connection as it is: the answer may come yet, and is dropped then.
    pub(crate) async fn call_version<R>(
        &self,
        request: &R,
        version: i16,
        deadline: Deadline,
    ) -> Result<R::Response, Error>
    where
        R: Request,
        R::Response: Throttled,
    {
        let left = deadline.left();
        let Ok(frame) = timeout(left, self.exchange(request, version, self.request_timeout)).await else {
            return Err(self.failed::<R>(version, RequestError::Timeout { after: left }));
        };
        let frame = frame?;
        let response = self.decode::<R>(version, &frame)?;
        self.throttle(response.throttle_time_ms());
        Ok(response)
    }

    /// Sends nothing for as long as the broker asked (KIP-219).
    pub(crate) fn throttle(&self, throttle_time_ms: i32) {
        if let Ok(ms @ 1..) = u64::try_from(throttle_time_ms) {
            // A closed connection needs no throttle.
            let _ = self.throttles.send(Duration::from_millis(ms));
        }
    }

    /// Sends `request` and waits for the frame that answers it.
    pub(crate) async fn exchange<R: Request>(
        &self,
        request: &R,
        version: i16,
        limit: Duration,
    ) -> Result<Frame, Error> {
        let (command, answer) = self.command(request, version, limit)?;
        if self.commands.send(command).await.is_err() {
            return Err(self.failed::<R>(version, RequestError::Closed { on_first_request: false }));
        }
        self.answer::<R>(version, answer).await
    }

    /// Hands `request` to the connection's task at once; [`Self::answer`] waits for what comes back.
    pub(crate) fn begin<R: Request>(&self, request: &R, version: i16, limit: Duration) -> Result<PendingAnswer, Error> {
        let (command, answer) = self.command(request, version, limit)?;
        match self.commands.try_send(command) {
            Ok(()) => Ok(answer),
            Err(_) => Err(self.failed::<R>(version, RequestError::Closed { on_first_request: false })),
        }
    }

    /// Waits for the answer to a request that was begun.
    pub(crate) async fn answer<R: Request>(&self, version: i16, answer: PendingAnswer) -> Result<Frame, Error> {
        let result = answer.await.unwrap_or(Err(RequestError::Closed { on_first_request: false }));
        result.map_err(|source| self.failed::<R>(version, source))
    }

    fn command<R: Request>(
        &self,
        request: &R,
        version: i16,
        timeout: Duration,
    ) -> Result<(Command, PendingAnswer), Error> {
        let mut frame = BytesMut::with_capacity(256);
        encode_request(version, 0, Some(&self.client_id), request, &mut frame)
            .map_err(|source| self.failed::<R>(version, source.into()))?;
        let (answer_to, answer) = oneshot::channel();
        Ok((Command { frame, timeout, answer_to }, answer))
    }

    /// Reads an answer to `R`.
    pub(crate) fn decode<R: Request>(&self, version: i16, frame: &Frame) -> Result<R::Response, Error> {
        decode_response::<R>(version, frame.bytes())
            .map(|(_, response)| response)
            .map_err(|source| self.failed::<R>(version, source.into()))
    }

    fn failed<R: Request>(&self, version: i16, source: RequestError) -> Error {
        Error::Request { api: R::API_KEY, version, broker: self.broker.clone().into(), source }
    }
}

fn versions_of(response: &ApiVersionsResponse) -> BTreeMap<ApiKey, VersionRange> {
    response
        .api_keys
        .iter()
        .map(|api| (ApiKey(api.api_key), VersionRange::new(api.min_version, api.max_version)))
        .collect()
}

/// Moves bytes until the socket fails, the other side closes, or nobody holds the handle and nothing is out.
async fn run(
    mut stream: TcpStream,
    mut reader: FrameReader,
    mut commands: mpsc::Receiver<Command>,
    mut throttles: mpsc::UnboundedReceiver<Duration>,
) {
    let mut state = State::<AnswerTo>::new();
    let error = pump(&mut stream, &mut reader, &mut commands, &mut throttles, &mut state).await;
    commands.close();
    for answer_to in state.into_unanswered() {
        // Whoever asked may have gone.
        let _ = answer_to.send(Err(error.clone()));
    }
    while let Some(command) = commands.recv().await {
        let _ = command.answer_to.send(Err(error.clone()));
    }
}

async fn pump(
    stream: &mut TcpStream,
    reader: &mut FrameReader,
    commands: &mut mpsc::Receiver<Command>,
    throttles: &mut mpsc::UnboundedReceiver<Duration>,
    state: &mut State<AnswerTo>,
) -> RequestError {
    let (mut read, mut write) = stream.split();
    let mut out = BytesMut::new();
    loop {
        // Before anything is written: whoever saw the throttle may have sent a request after it.
        while let Ok(duration) = throttles.try_recv() {
            state.throttle(Instant::now(), duration);
        }
        let muted_until = state.muted_until(Instant::now());
        let wake_at = state.poll_timeout();
        // In this order: a request that waits leaves before the next answer is read, and an answer that is there is in time.
        tokio::select! {
            biased;
            written = write.write_buf(&mut out), if out.has_remaining() && muted_until.is_none() => {
                if let Err(error) = written {
                    return error.into();
                }
                if !out.has_remaining() {
                    // Whoever decodes comes before the next answer is read: what was read last is still in the cache.
                    yield_now().await;
                }
            }
            // One frame is written before the next is taken, so that what waits is bounded by the channel.
            command = commands.recv(), if !out.has_remaining() => match command {
                Some(Command { mut frame, timeout, answer_to }) => {
                    let id = state.send(Instant::now(), timeout, answer_to);
                    // Behind the length, the API key and the version: the correlation id.
                    if let Some(place) = frame.get_mut(8..12) {
                        place.copy_from_slice(&id.to_be_bytes());
                    }
                    out = frame;
                }
                None => return RequestError::Closed { on_first_request: false },
            },
            Some(duration) = throttles.recv() => state.throttle(Instant::now(), duration),
            () = async { sleep_until(muted_until.unwrap_or_else(Instant::now).into()).await }, if muted_until.is_some() => {}
            frame = reader.next(&mut read) => match frame {
                Ok(Some(frame)) => {
                    match state.receive(frame.bytes()) {
                        // A caller that went away has no use for its answer.
                        Ok(answer_to) => drop(answer_to.send(Ok(frame))),
                        Err(error) => return error,
                    }
                    // Whoever asked may have more to ask, and that goes before the next answer.
                    yield_now().await;
                }
                Ok(None) => return RequestError::Closed { on_first_request: state.never_answered() },
                Err(RequestError::Io { .. }) if state.never_answered() => return RequestError::Closed { on_first_request: true },
                Err(error) => return error,
            },
            () = async { sleep_until(wake_at.unwrap_or_else(Instant::now).into()).await }, if wake_at.is_some() => {
                let now = Instant::now();
                let late = wake_at.map_or(Duration::ZERO, |wake_at| now.saturating_duration_since(wake_at));
                if late >= OVERSLEPT {
                    state.overslept(late);
                } else if let Err(error) = state.handle_timeout(now) {
                    return error;
                }
            }
        }
    }
}

//! Sockets: listeners, connections, frames. A connection's requests are answered one after the other, so that a long poll holds the
//! later ones back, as with real brokers; clients may send many at once.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::ApiKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::api::{self, Context};
use crate::fault::{Action, Forced, RecordedRequest};
use crate::request::{self, DecodeError, Incoming};
use crate::state::Shared;

/// Kafka's default for `socket.request.max.bytes`.
const REQUEST_BYTES_MAX: usize = 100 << 20;
const LENGTH_BYTES: usize = 4;
/// At least so much room for one read, so that a large frame does not take many.
const READ_BYTES: usize = 16 << 10;

/// Accepts connections of one node until the task is aborted, which ends its connections too.
pub(crate) async fn listen(shared: Arc<Shared>, node: i32, listener: TcpListener, disconnect: watch::Receiver<u64>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A failed accept (a peer that is gone again, no file handles) concerns no other connection.
                let Ok((stream, peer)) = accepted else { continue };
                shared.faults.connected(node);
                let shared = Arc::clone(&shared);
                let mut disconnect = disconnect.clone();
                disconnect.mark_unchanged();
                connections.spawn(async move {
                    tokio::select! {
                        // Whatever ends a connection, the client notices; there's nobody else to tell.
                        _ = serve(&shared, node, stream, peer.ip().to_string()) => {}
                        _ = disconnect.changed() => {}
                    }
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Whether the connection goes on.
#[derive(PartialEq, Eq)]
enum Next {
    GoOn,
    Close,
}

async fn serve(shared: &Shared, node: i32, mut stream: TcpStream, client_host: String) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = BytesMut::new();
    while let Some(frame) = read_frame(&mut stream, &mut buffer).await? {
        let next = match request::decode(frame, |api_key| shared.offered(api_key)) {
            Ok(incoming) => answer(shared, node, &mut stream, &client_host, incoming).await?,
            Err(DecodeError::UnsupportedVersion { api_key: ApiKey::ApiVersions, correlation_id, .. }) => {
                let response = api::unsupported_version(shared).into();
                let frame =
                    request::encode(ApiKey::ApiVersions, 0, correlation_id, &response).map_err(io::Error::other)?;
                stream.write_all(&frame).await?;
                Next::GoOn
            }
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        };
        if next == Next::Close {
            break;
        }
    }
    Ok(())
}

/// The next frame without its length; `None` at the end. Memory grows with the bytes that came, not with the length claimed.
async fn read_frame(stream: &mut TcpStream, buffer: &mut BytesMut) -> io::Result<Option<Bytes>> {
    loop {
        if let Some(prefix) = buffer.first_chunk::<LENGTH_BYTES>() {
            let length = i32::from_be_bytes(*prefix);
            let length = usize::try_from(length).ok().filter(|&length| length <= REQUEST_BYTES_MAX);
            let length = length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "frame length"))?;
            if buffer.len() >= LENGTH_BYTES + length {
                let frame = buffer.split_to(LENGTH_BYTES + length).freeze();
                return Ok(Some(frame.slice(LENGTH_BYTES..)));
            }
        }
        buffer.reserve(READ_BYTES);
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

async fn answer(
    shared: &Shared,
    node: i32,
    stream: &mut TcpStream,
    client_host: &str,
    incoming: Incoming,
) -> io::Result<Next> {
    let Incoming { api_key, version, correlation_id, client_id, request } = incoming;
    let action = shared.faults.decide(RecordedRequest {
        node,
        api_version: version,
        correlation_id,
        client_id: client_id.clone(),
        request: request.clone(),
    });
    match &action {
        Action::Close => return Ok(Next::Close),
        Action::Replace(bytes) => {
            stream.write_all(bytes).await?;
            return Ok(Next::GoOn);
        }
        Action::Mute => {
            let mut dropped = BytesMut::new();
            while stream.read_buf(&mut dropped).await? > 0 {
                dropped.clear();
            }
            return Ok(Next::Close);
        }
        _ => {}
    }

    let context = Context {
        node,
        version,
        client_id: client_id.unwrap_or_default(),
        client_host: format!("/{client_host}"),
        forced: Forced::new(&action, api_key, version),
    };
    let Some(mut response) = api::handle(shared, &context, request).await else { return Ok(Next::GoOn) };
    if let Action::Throttle(time) = &action {
        response.set_throttle_time_ms(i32::try_from(time.as_millis()).unwrap_or(i32::MAX));
    }
    let frame = request::encode(api_key, version, correlation_id, &response).map_err(io::Error::other)?;
    match action {
        Action::CloseAfterHandling => return Ok(Next::Close),
        Action::Truncate(bytes) => {
            stream.write_all(frame.get(..bytes).unwrap_or(&frame)).await?;
            return Ok(Next::Close);
        }
        Action::Delay(delay) => {
            tokio::time::sleep(delay).await;
            stream.write_all(&frame).await?;
        }
        Action::Edit(edit) => stream.write_all(&edit(frame)).await?,
        Action::Throttle(time) => {
            stream.write_all(&frame).await?;
            tokio::time::sleep(time).await;
        }
        _ => stream.write_all(&frame).await?,
    }
    Ok(Next::GoOn)
}

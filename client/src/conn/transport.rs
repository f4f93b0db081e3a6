//! Dialling: names are resolved anew for every attempt, and all addresses of a name are tried, the next one soon after the last.

use crate::{BrokerAddress, ClientConfig, ConnectError};
use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpStream, lookup_host},
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};

/// How long one address may keep silent before the next one is tried beside it (RFC 8305 recommends 250 ms).
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);
/// An idle connection is probed after this long, well below the four minutes after which load balancers forget it.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(60);

/// How much of an answer the system may take from a broker before anybody reads it, unless `receive.buffer.bytes` says. A broker that finds
/// the buffer full leaves the rest of the transfer to whoever makes room, which is the reading thread.
const LARGE_RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// The receive buffer of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReceiveBuffer {
    /// As the system thinks best.
    System,
    /// For long answers one after the other.
    Large,
}

type ResolveFn = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// How host names become addresses.
#[derive(Clone, Default)]
pub struct Resolver {
    custom: Option<Arc<ResolveFn>>,
}

impl PartialEq for Resolver {
    /// Two that ask the system, or clones of one.
    fn eq(&self, other: &Self) -> bool {
        match (&self.custom, &other.custom) {
            (None, None) => true,
            (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs),
            _ => false,
        }
    }
}

impl Resolver {
    /// Asks `resolve(host, port)` instead of the system; it is called for every attempt to connect.
    pub fn from_fn(resolve: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static) -> Self {
        Self { custom: Some(Arc::new(resolve)) }
    }

    async fn resolve(&self, address: &BrokerAddress) -> io::Result<Vec<SocketAddr>> {
        match &self.custom {
            Some(resolve) => resolve(&address.host, address.port),
            None => Ok(lookup_host((address.host.as_str(), address.port)).await?.collect()),
        }
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.custom.is_some() { "Resolver(custom)" } else { "Resolver(system)" })
    }
}

/// Connects to the first address of `address` that accepts.
pub(crate) async fn dial(
    config: &ClientConfig,
    address: &BrokerAddress,
    receive_buffer: ReceiveBuffer,
) -> Result<TcpStream, ConnectError> {
    let deadline = Instant::now() + config.socket_connection_setup_timeout;
    let unresolved = |source| ConnectError::Resolve { host: address.host.clone(), source: Arc::new(source) };
    let timed_out = |attempts| ConnectError::Timeout { after: config.socket_connection_setup_timeout, attempts };
    let addresses = match timeout_at(deadline, config.resolver.resolve(address)).await {
        Ok(resolved) => resolved.map_err(unresolved)?,
        Err(_) => return Err(timed_out(Vec::new())),
    };
    if addresses.is_empty() {
        return Err(unresolved(io::Error::new(io::ErrorKind::NotFound, "it has no address")));
    }
    let mut waiting = addresses.into_iter();
    let mut dialling = JoinSet::new();
    let mut failed = Vec::new();
    loop {
        if let Some(address) = waiting.next() {
            dialling.spawn(async move { (address, TcpStream::connect(address).await) });
        }
        let done = tokio::select! {
            done = dialling.join_next() => done,
            () = sleep(NEXT_ADDRESS_AFTER), if waiting.len() > 0 => continue,
            () = tokio::time::sleep_until(deadline) => return Err(timed_out(failed)),
        };
        match done {
            Some(Ok((_, Ok(stream)))) => return Ok(tuned(stream, config, receive_buffer)),
            Some(Ok((address, Err(error)))) => failed.push((address, Arc::new(error))),
            Some(Err(_)) => {}
            None if waiting.len() == 0 => return Err(ConnectError::Dial { attempts: failed }),
            None => {}
        }
    }
}

/// Socket options are wishes: a system that refuses one still has a working socket.
fn tuned(stream: TcpStream, config: &ClientConfig, receive_buffer: ReceiveBuffer) -> TcpStream {
    let _ = stream.set_nodelay(true);
    let socket = socket2::SockRef::from(&stream);
    let _ = socket.set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(KEEP_ALIVE_AFTER));
    let large = || (receive_buffer == ReceiveBuffer::Large).then(large_receive_buffer).flatten();
    if let Some(bytes) = config.receive_buffer_bytes.or_else(large) {
        let _ = socket.set_recv_buffer_size(bytes);
    }
    stream
}

/// The large size, if the system grants it. One that grants less would be worse than none: a size that was set is not adapted any more. So
/// it is tried on a socket of its own.
fn large_receive_buffer() -> Option<usize> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).ok()?;
    socket.set_recv_buffer_size(LARGE_RECEIVE_BUFFER_BYTES).ok()?;
    (socket.recv_buffer_size().ok()? >= LARGE_RECEIVE_BUFFER_BYTES).then_some(LARGE_RECEIVE_BUFFER_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::net::TcpListener;

    fn config(addresses: Vec<SocketAddr>) -> ClientConfig {
        let mut config = ClientConfig::from_bootstrap("broker.test").unwrap();
        config.resolver = Resolver::from_fn(move |_, _| Ok(addresses.clone()));
        config
    }

    /// A listener whose queue is full: on Linux it drops further connection requests without a word, as a black hole does.
    fn black_hole() -> (socket2::Socket, Vec<std::net::TcpStream>, SocketAddr) {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        socket.listen(0).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        let mut queued = Vec::new();
        while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
            queued.push(stream);
        }
        (socket, queued, address)
    }

    #[tokio::test]
    async fn s_n02_a_refused_or_silent_address_is_no_error() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let good = listener.local_addr().unwrap();
        let refused: SocketAddr = format!("[::1]:{}", good.port()).parse().unwrap();
        let (_socket, _queued, silent) = black_hole();
        for first in [refused, silent] {
            let config = config(vec![first, good]);
            let start = Instant::now();
            let stream = dial(&config, &config.bootstrap_servers[0], ReceiveBuffer::System).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), good);
            assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        }
    }

    #[tokio::test]
    async fn s_n12_connecting_ends_in_time() {
        let (_socket, _queued, silent) = black_hole();
        let mut config = config(vec![silent]);
        config.socket_connection_setup_timeout = Duration::from_millis(300);
        let start = Instant::now();
        let error = dial(&config, &config.bootstrap_servers[0], ReceiveBuffer::System).await.unwrap_err();
        assert!(matches!(error, ConnectError::Timeout { .. }), "{error}");
        assert!(start.elapsed() < Duration::from_millis(600), "{:?}", start.elapsed());
    }

    #[tokio::test]
    async fn every_refused_address_is_named() {
        let port = {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            listener.local_addr().unwrap().port()
        };
        let addresses: Vec<SocketAddr> =
            ["127.0.0.1", "127.0.0.2"].map(|ip| format!("{ip}:{port}").parse().unwrap()).to_vec();
        let config = config(addresses);
        let error = dial(&config, &config.bootstrap_servers[0], ReceiveBuffer::System).await.unwrap_err().to_string();
        assert!(
            error.contains(&format!("127.0.0.1:{port}")) && error.contains(&format!("127.0.0.2:{port}")),
            "{error}"
        );
    }
}

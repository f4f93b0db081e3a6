//! A proxy that reads along: it notes the fetch requests of each connection, and can hold back their answers, which the embedded broker
//! can't: it takes a connection's next request only when the one before is answered.

use crate::support::eventually;
use bytes::Bytes;
use ottla_embedded::EmbeddedBroker;
use ottla_protocol::{ApiKey, decode_request, message::FetchRequest};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// A fetch request, and on which connection it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) connection: usize,
    pub(crate) request: FetchRequest,
}

impl Seen {
    /// Whether the broker may wait for data.
    pub(crate) fn is_poll(&self) -> bool {
        self.request.max_wait_ms > 0
    }

    /// The partitions it names, and from where they are wanted.
    pub(crate) fn named(&self) -> Vec<(i32, i64)> {
        let partitions = self.request.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.map(|partition| (partition.partition, partition.fetch_offset)).collect()
    }
}

/// The proxy, in front of a broker that tells clients to come by it.
pub(crate) struct Tap {
    pub(crate) broker: EmbeddedBroker,
    pub(crate) address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Whether answers pass on connections with fetches.
    open: watch::Sender<bool>,
}

impl Tap {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let broker = EmbeddedBroker::builder().advertised(1, "127.0.0.1", address.port()).start().await.unwrap();
        let to = broker.address(1).unwrap();
        let (seen, open) = (Arc::new(Mutex::new(Vec::new())), watch::Sender::new(true));
        let (log, gate) = (seen.clone(), open.clone());
        tokio::spawn(async move {
            let mut connection = 0;
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(to).await else { return };
                let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                let has_fetches = watch::Sender::new(false);
                let (answers, gate) = (has_fetches.subscribe(), gate.subscribe());
                tokio::spawn(requests(connection, near_in, far_out, log.clone(), has_fetches));
                tokio::spawn(pass_answers(far_in, near_out, answers, gate));
                connection += 1;
            }
        });
        Self { broker, address: address.to_string(), seen, open }
    }

    pub(crate) fn hold_answers(&self, hold: bool) {
        self.open.send_replace(!hold);
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap()
    }

    pub(crate) async fn until_seen(&self, count: usize) -> Vec<Seen> {
        eventually("requests", || self.seen().len() >= count).await;
        self.seen().clone()
    }
}

/// The next frame with its length; `None` at the end.
async fn frame(from: &mut OwnedReadHalf) -> Option<Bytes> {
    let length = from.read_u32().await.ok()?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.resize(4 + usize::try_from(length).unwrap(), 0);
    from.read_exact(&mut frame[4..]).await.ok()?;
    Some(frame.into())
}

async fn requests(
    connection: usize,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    log: Arc<Mutex<Vec<Seen>>>,
    has_fetches: watch::Sender<bool>,
) {
    while let Some(frame) = frame(&mut from).await {
        if frame[4..6] == ApiKey::FETCH.0.to_be_bytes() {
            let (_, request) = decode_request::<FetchRequest>(&frame.slice(4..)).unwrap();
            has_fetches.send_replace(true);
            log.lock().unwrap().push(Seen { connection, request });
        }
        if to.write_all(&frame).await.is_err() {
            return;
        }
    }
}

async fn pass_answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    has_fetches: watch::Receiver<bool>,
    mut open: watch::Receiver<bool>,
) {
    while let Some(frame) = frame(&mut from).await {
        if *has_fetches.borrow() && open.wait_for(|open| *open).await.is_err() {
            return;
        }
        if to.write_all(&frame).await.is_err() {
            return;
        }
    }
}

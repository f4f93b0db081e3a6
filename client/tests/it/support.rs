//! Topics whose records say where they belong, a reader that checks them, and servers for what the embedded broker can't do.

use bytes::{Bytes, BytesMut};
use ottla_client::{Client, ClientConfig, FetchError, FetchErrorKind, FetchTarget, Fetcher, TopicPartition};
use ottla_embedded::{Action, EmbeddedBroker, Request};
use ottla_protocol::{
    Uuid,
    compression::{Compressor, Decompressor},
    decode_response, encode_response,
    message::{FetchRequest, FetchResponse},
    record::{Headers, Record, RecordBatchBuilder, RecordBatchOptions, RecordBatches, TimestampType},
};
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{sleep, timeout},
};

/// No test waits longer than this for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const MS: Duration = Duration::from_millis(1);

/// Short waits, so that faults show soon.
pub(crate) fn config(bootstrap_servers: &str) -> ClientConfig {
    let mut config = ClientConfig::from_bootstrap(bootstrap_servers).unwrap();
    config.fetch_max_wait = 100 * MS;
    config.retry_backoff = 20 * MS;
    config.retry_backoff_max = 200 * MS;
    config.reconnect_backoff_max = 200 * MS;
    config
}

pub(crate) async fn client(broker: &EmbeddedBroker) -> Client {
    Client::connect(config(&broker.bootstrap_servers())).await.unwrap()
}

pub(crate) async fn start(nodes: u16) -> EmbeddedBroker {
    EmbeddedBroker::builder().nodes(nodes).start().await.unwrap()
}

fn value(topic: &str, partition: i32, offset: i64, bytes: usize) -> Vec<u8> {
    let mut value = format!("{topic}-{partition}-{offset} ").into_bytes();
    value.resize(value.len().max(bytes), b'.');
    value
}

/// A batch as a producer sends it; the broker gives it its offsets.
pub(crate) fn batch(options: RecordBatchOptions, values: &[Vec<u8>]) -> Bytes {
    let mut builder = RecordBatchBuilder::new(options);
    for (offset, value) in (0..).zip(values) {
        let record = Record {
            offset,
            timestamp: 1_000 + offset,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some(value),
            headers: Headers::default(),
        };
        builder.append(&record).unwrap();
    }
    builder.build(&mut Compressor::new()).unwrap().freeze()
}

/// The next batch of `records` records of a partition.
pub(crate) fn next_batch(broker: &EmbeddedBroker, topic: &str, partition: i32, records: i64, bytes: usize) -> Bytes {
    let first = broker.end_offset(topic, partition).unwrap();
    let values: Vec<Vec<u8>> = (first..first + records).map(|offset| value(topic, partition, offset, bytes)).collect();
    batch(RecordBatchOptions::new(0), &values)
}

/// Appends `batches` batches of `records` records with values of at least `bytes`.
pub(crate) fn fill(broker: &EmbeddedBroker, topic: &str, partition: i32, batches: usize, records: i64, bytes: usize) {
    for _ in 0..batches {
        let batch = next_batch(broker, topic, partition, records, bytes);
        broker.append(topic, partition, batch).unwrap();
    }
}

/// A topic with `records` records in each partition, ten a batch.
pub(crate) fn topic(broker: &EmbeddedBroker, topic: &str, partitions: i32, records: i64) {
    broker.create_topic(topic, partitions, &[]).unwrap();
    for partition in 0..partitions {
        fill(broker, topic, partition, usize::try_from(records / 10).unwrap(), 10, 0);
    }
}

/// A range that planning found to be there.
pub(crate) fn target(broker: &EmbeddedBroker, topic: &str, partition: i32, from: i64, until: i64) -> FetchTarget {
    FetchTarget {
        partition: TopicPartition::new(topic, partition),
        topic_id: broker.topic_id(topic).map(Uuid),
        from_offset: from,
        until_offset: until,
        known_end: until,
    }
}

/// What was read of one target.
#[derive(Debug, Default)]
pub(crate) struct ReadBack {
    pub(crate) offsets: Vec<i64>,
    pub(crate) error: Option<FetchError>,
}

impl ReadBack {
    #[track_caller]
    pub(crate) fn assert_range(&self, from: i64, until: i64) {
        assert!(self.error.is_none(), "{:?}", self.error);
        assert!(self.offsets.iter().copied().eq(from..until), "[{from}, {until}) is wanted: {:?}", self.offsets);
    }
}

/// Reads all targets to their end. Checks order, and that each record is where it says; an offset out of range ends its target.
pub(crate) async fn read(client: &Client, targets: Vec<FetchTarget>) -> Vec<ReadBack> {
    let mut read: Vec<ReadBack> = targets.iter().map(|_| ReadBack::default()).collect();
    let fetcher = Fetcher::start(client, targets.clone());
    let mut decompressor = Decompressor::new();
    while let Some(fetched) = timeout(PATIENCE, fetcher.next()).await.expect("the fetcher hangs") {
        match fetched {
            Ok(fetch) => {
                let target = &targets[fetch.target()];
                let back = &mut read[fetch.target()];
                assert!(back.error.is_none(), "something after the end: {:?}", back.error);
                for batch in RecordBatches::new(fetch.records()) {
                    // Damage: what stands before it counts, and the next answer begins with it.
                    let Ok(batch) = batch else { break };
                    if batch.header().is_control() {
                        continue;
                    }
                    batch.check_crc().unwrap();
                    for record in batch.records(&mut decompressor).unwrap() {
                        let record = record.unwrap();
                        let last = back.offsets.last().copied().unwrap_or(target.from_offset - 1);
                        if record.offset >= target.until_offset || record.offset <= last {
                            continue;
                        }
                        let name = format!("{}-{} ", target.partition, record.offset);
                        assert!(record.value.unwrap().starts_with(name.as_bytes()), "not {name}");
                        back.offsets.push(record.offset);
                    }
                }
            }
            Err(error) => {
                if matches!(error.source, FetchErrorKind::OutOfRange { .. }) {
                    fetcher.finish(error.target);
                }
                let target = error.target;
                assert!(read[target].error.replace(error).is_none(), "two errors of one target");
            }
        }
    }
    read
}

/// Reads partition 0 of a topic.
pub(crate) async fn read_one(client: &Client, broker: &EmbeddedBroker, topic: &str, from: i64, until: i64) -> ReadBack {
    read(client, vec![target(broker, topic, 0, from, until)]).await.remove(0)
}

/// All errors of a chain as one text.
pub(crate) fn text(error: &dyn std::error::Error) -> String {
    ottla_client::report(error)
}

/// Changes an answer on its way out.
pub(crate) fn edit<R: ottla_protocol::Request + 'static>(
    version: i16,
    edit: impl Fn(&mut R::Response) + Send + Sync + 'static,
) -> Action {
    Action::Edit(Arc::new(move |frame: Bytes| {
        let (correlation_id, mut response) = decode_response::<R>(version, &frame.slice(4..)).unwrap();
        edit(&mut response);
        let mut out = BytesMut::new();
        encode_response::<R>(version, correlation_id, &response, &mut out).unwrap();
        out.freeze()
    }))
}

/// Changes a fetch answer on its way out.
pub(crate) fn edit_fetch(version: i16, change: impl Fn(&mut FetchResponse) + Send + Sync + 'static) -> Action {
    edit::<FetchRequest>(version, change)
}

/// The partitions that a fetch request asks for, and from where.
pub(crate) fn asked(request: &Request) -> Vec<(i32, i64)> {
    let Request::Fetch(request) = request else { return Vec::new() };
    let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|partition| (partition.partition, partition.fetch_offset)).collect()
}

/// Waits until `condition` holds.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        sleep(5 * MS).await;
    }
}

/// A port that nobody listens on.
pub(crate) async fn closed_port() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap()
}

/// Accepts, sends `hello`, and closes or keeps silent. Counts the connections.
pub(crate) async fn server(hello: &'static [u8], closes: bool) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let counter = count.clone();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::Relaxed);
            // Whoever connected may have gone.
            let _ = stream.write_all(hello).await;
            if !closes {
                open.push(stream);
            }
        }
    });
    (address, count)
}

/// A listener whose queue is full: on Linux it drops further connection requests without a word, as a black hole does.
pub(crate) struct BlackHole {
    _listener: socket2::Socket,
    _queued: Vec<std::net::TcpStream>,
    pub(crate) address: SocketAddr,
}

impl BlackHole {
    pub(crate) fn new() -> Self {
        let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let mut queued = Vec::new();
        while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, 100 * MS) {
            queued.push(stream);
        }
        Self { _listener: listener, _queued: queued, address }
    }
}

/// Forwards connections, until it is frozen: then those it has hang, and new ones are forwarded again.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicU64>,
    frozen: watch::Sender<u64>,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(to: SocketAddr) -> Self {
        Self::bind((Ipv4Addr::LOCALHOST, 0).into(), to).await
    }

    pub(crate) async fn bind(at: SocketAddr, to: SocketAddr) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let frozen = watch::Sender::new(0);
        let connections = Arc::new(AtomicU64::new(0));
        let (subscribe, counter) = (frozen.clone(), connections.clone());
        let task = tokio::spawn(async move {
            let mut running = tokio::task::JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::Relaxed);
                let mut frozen = subscribe.subscribe();
                running.spawn(async move {
                    let Ok(mut far) = TcpStream::connect(to).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = frozen.changed() => std::future::pending().await,
                    }
                });
            }
        });
        Self { address, connections, frozen, task }
    }

    /// Forwards nothing more on the connections there are, and does not close them.
    pub(crate) fn freeze(&self) {
        self.frozen.send_modify(|count| *count += 1);
    }

    /// Closes the port and all connections.
    pub(crate) async fn stop(self) {
        self.task.abort();
        // It ends as cancelled, which is what was asked for.
        let _ = self.task.await;
    }
}

/// Counts requests by what a hook sees.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<std::sync::Mutex<BTreeMap<String, u64>>>);

impl Tally {
    pub(crate) fn add(&self, name: impl ToString) {
        *self.0.lock().unwrap().entry(name.to_string()).or_default() += 1;
    }

    pub(crate) fn get(&self, name: impl ToString) -> u64 {
        self.0.lock().unwrap().get(&name.to_string()).copied().unwrap_or(0)
    }
}

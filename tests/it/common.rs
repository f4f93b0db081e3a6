//! What several modules need: `ottla read` and its rows, errors as one sentence, the embedded broker, and a scripted server.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ottla_client::{Client, ClientConfig};
use ottla_embedded::EmbeddedBroker;
use ottla_protocol::compression::{Compression, Compressor};
use ottla_protocol::record::{Headers, Record, RecordBatchBuilder, RecordBatchOptions, TimestampType as BatchTime};
use ottla_stream::{
    Filter, LineFormat, LineSink, PlannedBatch, ProcessedBatch, ReadProgress, ReadSettings, StreamOptions,
};
use serde_json::Value;
use support::{ConsumedRecord, Finished, Isolation, Ottla, TimestampType};

/// `ottla read -b BOOTSTRAP ARGS…`.
pub(crate) fn read(bootstrap: &str, args: &[&str]) -> Ottla {
    Ottla::new(["read", "-b", bootstrap].iter().chain(args))
}

/// The option that reads at an isolation level.
pub(crate) fn isolation_option(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadUncommitted => "kafka.isolation.level=read_uncommitted",
        Isolation::ReadCommitted => "kafka.isolation.level=read_committed",
    }
}

/// The rows of `--format json --include-headers`, as Java's consumer would have given them; partition by partition, in the
/// order in which they were printed.
#[track_caller]
pub(crate) fn rows(finished: &Finished) -> Vec<ConsumedRecord> {
    let lines = finished.stdout.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    let mut rows: Vec<ConsumedRecord> = lines.map(row).collect();
    rows.sort_by_key(|r| r.partition);
    rows
}

#[track_caller]
fn row(line: &[u8]) -> ConsumedRecord {
    let row: Value = serde_json::from_slice(line)
        .unwrap_or_else(|e| panic!("not a row of JSON ({e}): {}", String::from_utf8_lossy(line)));
    let int = |name: &str| row[name].as_i64().unwrap_or_else(|| panic!("{name} in {row}"));
    let headers = row["headers"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
    ConsumedRecord {
        partition: int("partition") as i32,
        offset: int("offset"),
        timestamp_ms: int("timestamp"),
        timestamp_type: match int("timestampType") {
            0 => TimestampType::CreateTime,
            1 => TimestampType::LogAppendTime,
            _ => TimestampType::None,
        },
        key: column(&row, "key"),
        value: column(&row, "value"),
        headers: headers
            .map(|header| (header["key"].as_str().expect("a header's key").to_owned(), column(header, "value")))
            .collect(),
    }
}

/// A column's bytes: null, text, or base64 where a second column says so.
fn column(row: &Value, name: &str) -> Option<Vec<u8>> {
    let text = match &row[name] {
        Value::Null => return None,
        Value::String(text) => text,
        other => panic!("{name} is {other}"),
    };
    Some(match row.get(format!("{name}Encoding")).and_then(Value::as_str) {
        Some("base64") => STANDARD.decode(text).expect("base64"),
        Some(other) => panic!("{name}Encoding is {other}"),
        None => text.clone().into_bytes(),
    })
}

/// The offsets of rows, of one partition or all in turn.
pub(crate) fn offsets(rows: &[ConsumedRecord]) -> Vec<i64> {
    rows.iter().map(|r| r.offset).collect()
}

/// The totals of a `--json` run: the last line of stderr.
#[track_caller]
pub(crate) fn totals(finished: &Finished) -> Value {
    let line = finished.stderr.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|e| panic!("no totals ({e}): {}", finished.stderr))
}

/// The error of a failed run: exactly one line on stderr, a sentence of `ottla`.
#[track_caller]
pub(crate) fn sentence(finished: &Finished) -> String {
    let mut lines = finished.stderr.lines();
    let (first, rest) = (lines.next().unwrap_or_default(), lines.count());
    assert!(rest == 0 && first.starts_with("ottla: "), "not one sentence: {}", finished.stderr);
    first["ottla: ".len()..].to_owned()
}

/// The condition and the sentence of a failed `--json` run.
#[track_caller]
pub(crate) fn condition(finished: &Finished) -> (String, String) {
    let error = totals(finished);
    let text = |name: &str| error[name].as_str().unwrap_or_else(|| panic!("{name} in {error}")).to_owned();
    (text("condition"), text("error"))
}

/// Offsets by partition of one topic, as the options write them: `{"topic":{"0":5}}`.
pub(crate) fn offsets_json(topic: &str, offsets: &[(i32, i64)]) -> String {
    let partitions: BTreeMap<String, i64> = offsets.iter().map(|(p, o)| (p.to_string(), *o)).collect();
    serde_json::json!({ topic: partitions }).to_string()
}

/// Runs a future of the library to its end.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}

/// A client with the default settings.
pub(crate) async fn client(bootstrap: &str) -> Client {
    Client::connect(ClientConfig::from_bootstrap(bootstrap).expect("addresses")).await.expect("a broker")
}

/// Options of a read, as users write them, and a client made with them.
pub(crate) async fn options(bootstrap: &str, pairs: &[(&str, &str)]) -> (StreamOptions, Client) {
    let all = [("kafka.bootstrap.servers", bootstrap)];
    let options = StreamOptions::from_pairs(all.iter().chain(pairs).copied()).expect("options");
    let client = Client::connect(options.client.clone()).await.expect("a broker");
    (options, client)
}

/// Reads a planned batch into memory: the values, a line each, beside what can be committed.
pub(crate) async fn process(
    batch: PlannedBatch,
    client: &Client,
    fail_on_data_loss: bool,
) -> ottla_stream::Result<(Vec<String>, ProcessedBatch)> {
    let lines = Shared::default();
    let sink = LineSink::new(LineFormat::Value, lines.clone()).expect("a thread");
    let mut settings = ReadSettings::default();
    settings.fail_on_data_loss = fail_on_data_loss;
    let processed = batch.process(client, &Filter::always(), &sink, &settings, &ReadProgress::shared()).await?;
    let bytes = lines.0.lock().expect("no panic").clone();
    Ok((String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect(), processed))
}

#[derive(Clone, Default)]
struct Shared(Arc<std::sync::Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A batch v2 as a producer sends it, with these values and null keys.
pub(crate) fn batch<V: AsRef<[u8]>>(compression: Compression, values: impl IntoIterator<Item = V>) -> Bytes {
    let options = RecordBatchOptions::new(0).compression(compression);
    let values = values.into_iter().enumerate();
    build(options, values.map(|(i, value)| (i as i64, value)))
}

/// A batch v2 with values at these offsets.
pub(crate) fn build<V: AsRef<[u8]>>(options: RecordBatchOptions, values: impl IntoIterator<Item = (i64, V)>) -> Bytes {
    let mut builder = RecordBatchBuilder::new(options);
    for (offset, value) in values {
        let record = Record {
            offset,
            timestamp: 1_700_000_000_000 + offset,
            timestamp_type: BatchTime::CreateTime,
            key: None,
            value: Some(value.as_ref()),
            headers: Headers::default(),
        };
        builder.append(&record).expect("it fits");
    }
    builder.build(&mut Compressor::new()).expect("a batch").freeze()
}

/// The embedded broker on a runtime of its own, so that a test can wait for processes.
pub(crate) struct Embedded {
    broker: Option<EmbeddedBroker>,
    _runtime: tokio::runtime::Runtime,
}

impl Embedded {
    pub(crate) fn start(builder: ottla_embedded::Builder) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let broker = runtime.block_on(builder.start()).expect("a port");
        Self { broker: Some(broker), _runtime: runtime }
    }
}

impl Deref for Embedded {
    type Target = EmbeddedBroker;

    fn deref(&self) -> &EmbeddedBroker {
        self.broker.as_ref().expect("it goes only with its owner")
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // Before the runtime that it runs on.
        self.broker = None;
    }
}

/// A server that does the same to each connection; its end is the end of the connection.
pub(crate) struct Scripted {
    address: SocketAddr,
    connections: Arc<AtomicU32>,
    over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Scripted {
    pub(crate) fn start(script: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        let (connections, over) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, stop, script) = (Arc::clone(&connections), Arc::clone(&over), Arc::new(script));
        let accepting = thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                count.fetch_add(1, Ordering::Relaxed);
                let script = Arc::clone(&script);
                thread::spawn(move || script(&mut stream));
            }
        });
        Self { address, connections, over, accepting: Some(accepting) }
    }

    /// Reads the first request, answers with these bytes, and closes.
    pub(crate) fn answering(answer: &'static [u8]) -> Self {
        Self::start(move |stream| {
            let mut request = [0; 4096];
            if stream.read(&mut request).is_ok() && stream.write_all(answer).is_ok() {
                let _ = stream.shutdown(Shutdown::Write);
                // The peer's own end, so that no reset takes the answer away.
                let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
                while matches!(stream.read(&mut request), Ok(1..)) {}
            }
        })
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn wait_until(what: &str, limit: Duration, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !is_so() {
        assert!(Instant::now() < deadline, "after {limit:?} still not: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

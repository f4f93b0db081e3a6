//! Several threads for one read: one of them well before a second one, and the same records in the same order whoever reads them.

use crate::support::{fill, options, topic};
use ottla_embedded::EmbeddedBroker;
use ottla_stream::{
    Client, Filter, OffsetRange, ProcessedBatch, ReadProgress, ReadSettings, Record, RecordWriter, Result, Sink,
    SinkError,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    thread::{self, ThreadId},
    time::Duration,
};

type See = dyn Fn(i32, i64) -> Result<(), SinkError> + Send + Sync;

/// Remembers the offsets of each partition and which threads wrote; takes its time for each record.
#[derive(Clone)]
struct Threads {
    rows: Arc<Mutex<BTreeMap<i32, Vec<i64>>>>,
    threads: Arc<Mutex<BTreeSet<String>>>,
    pause: Duration,
    see: Arc<See>,
}

impl Threads {
    fn new(pause: Duration) -> Self {
        Self { rows: Arc::default(), threads: Arc::default(), pause, see: Arc::new(|_, _| Ok(())) }
    }

    fn threads(&self) -> usize {
        self.threads.lock().unwrap().len()
    }
}

struct Writer(i32, Threads, Result<(), SinkError>);

impl Sink for Threads {
    type Writer = Writer;

    fn writer(&self, range: &OffsetRange, _include_headers: bool) -> Result<Writer, SinkError> {
        Ok(Writer(range.partition, self.clone(), Ok(())))
    }

    async fn finish_batch(&self, _batch_id: i64) -> Result<(), SinkError> {
        Ok(())
    }
}

fn name(id: ThreadId) -> String {
    format!("{id:?}")
}

impl RecordWriter for Writer {
    fn write(&mut self, record: &Record<'_>) {
        self.1.rows.lock().unwrap().entry(self.0).or_default().push(record.offset);
        self.1.threads.lock().unwrap().insert(name(thread::current().id()));
        if self.2.is_ok() {
            self.2 = (self.1.see)(self.0, record.offset);
        }
        // Work, not waiting: the thread is busy.
        let start = std::time::Instant::now();
        while start.elapsed() < self.1.pause {
            std::hint::spin_loop();
        }
    }

    async fn flush(&mut self) -> Result<(), SinkError> {
        std::mem::replace(&mut self.2, Ok(()))
    }

    async fn finish(self) -> Result<(), SinkError> {
        Ok(())
    }
}

async fn read(broker: &EmbeddedBroker, sink: &Threads, parallelism: usize) -> Result<ProcessedBatch> {
    read_with(broker, &[], sink, parallelism).await
}

async fn read_with<S: Sink>(
    broker: &EmbeddedBroker,
    pairs: &[(&str, &str)],
    sink: &S,
    parallelism: usize,
) -> Result<ProcessedBatch> {
    let options = options(broker, pairs);
    let client = Client::connect(options.client.clone()).await?;
    let batch = options.plan(&client).await?;
    let mut settings = ReadSettings::default();
    settings.parallelism = parallelism;
    let everything = Filter::always();
    let progress = ReadProgress::shared();
    let processing = batch.process(&client, &everything, sink, &settings, &progress);
    tokio::time::timeout(Duration::from_secs(60), processing).await.expect("the read hangs")
}

/// A broker with threads of its own, so that the reader's runtime is busy with reading alone.
fn with_broker(test: impl AsyncFnOnce(&EmbeddedBroker)) {
    let server = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let broker = server.block_on(EmbeddedBroker::start()).unwrap();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test(&broker));
    drop(broker);
}

/// The fewest threads of three reads: on a crowded machine a thread may look busy because it was not let run.
async fn fewest_threads(broker: &EmbeddedBroker, parallelism: usize, rows: &BTreeMap<i32, Vec<i64>>) -> usize {
    let mut fewest = usize::MAX;
    for _ in 0..3 {
        let sink = Threads::new(Duration::ZERO);
        read(broker, &sink, parallelism).await.unwrap();
        assert_eq!(*sink.rows.lock().unwrap(), *rows);
        fewest = fewest.min(sink.threads());
    }
    fewest
}

const PAUSE: Duration = Duration::from_micros(200);

fn all(partitions: i32, records: i64) -> BTreeMap<i32, Vec<i64>> {
    (0..partitions).map(|partition| (partition, (0..records).collect())).collect()
}

#[test]
fn a_busy_thread_gets_help_and_the_order_stays() {
    with_broker(async |broker| {
        topic(broker, 6, 200);
        let sink = Threads::new(PAUSE);
        let batch = read(broker, &sink, 2).await.unwrap();
        assert_eq!(batch.counts().records, 1200);
        assert_eq!(*sink.rows.lock().unwrap(), all(6, 200), "each partition's records in order, each once");
        assert_eq!(sink.threads(), 2, "240 ms of work");
    });
}

#[test]
fn no_more_threads_than_asked_for() {
    with_broker(async |broker| {
        topic(broker, 6, 200);
        let sink = Threads::new(PAUSE);
        read(broker, &sink, 1).await.unwrap();
        assert_eq!(*sink.rows.lock().unwrap(), all(6, 200));
        assert_eq!(*sink.threads.lock().unwrap(), BTreeSet::from([name(thread::current().id())]));
    });
}

#[test]
fn a_thread_with_little_to_do_gets_no_help() {
    with_broker(async |broker| {
        topic(broker, 6, 10);
        assert_eq!(fewest_threads(broker, 8, &all(6, 10)).await, 1, "it is over before it is worth a thread");
    });
}

#[test]
fn a_thread_that_waits_for_the_broker_gets_no_help() {
    with_broker(async |broker| {
        topic(broker, 4, 400);
        broker.on(ottla_embedded::messages::ApiKey::Fetch, |_| ottla_embedded::Action::Delay(Duration::from_millis(4)));
        assert_eq!(fewest_threads(broker, 4, &all(4, 400)).await, 1, "another one would wait as well");
    });
}

#[test]
fn whoever_is_done_takes_half_of_what_another_has() {
    with_broker(async |broker| {
        // One partition is much longer than the others: without a second hand-over its thread would have all the rest too.
        topic(broker, 8, 40);
        fill(broker, "t", 0, 400);
        let by_thread: Arc<Mutex<BTreeMap<String, BTreeSet<i32>>>> = Arc::default();
        let mut sink = Threads::new(PAUSE);
        let seen = by_thread.clone();
        sink.see = Arc::new(move |partition, _| {
            seen.lock().unwrap().entry(name(thread::current().id())).or_default().insert(partition);
            Ok(())
        });
        read(broker, &sink, 3).await.unwrap();
        assert_eq!(sink.rows.lock().unwrap()[&0], (0..440).collect::<Vec<_>>());
        assert_eq!(sink.threads(), 3, "{by_thread:?}");
    });
}

#[test]
fn a_failure_on_any_thread_ends_the_read() {
    with_broker(async |broker| {
        topic(broker, 6, 200);
        let caller = name(thread::current().id());
        let mut sink = Threads::new(PAUSE);
        sink.see = Arc::new(move |_, _| {
            if name(thread::current().id()) == caller {
                return Ok(());
            }
            Err(SinkError::new("writing elsewhere", std::io::ErrorKind::StorageFull.into()))
        });
        let error = read(broker, &sink, 2).await.unwrap_err();
        assert!(error.to_string().contains("writing elsewhere"), "{error}");
        let before = sink.rows.lock().unwrap().values().map(Vec::len).sum::<usize>();
        assert!(before < 1200, "all threads have stopped early");
    });
}

#[test]
fn nobody_writes_after_the_read_has_failed() {
    with_broker(async |broker| {
        topic(broker, 8, 400);
        let caller = name(thread::current().id());
        let mut sink = Threads::new(PAUSE);
        let threads = sink.threads.clone();
        sink.see = Arc::new(move |_, _| {
            if name(thread::current().id()) != caller || threads.lock().unwrap().len() < 2 {
                return Ok(());
            }
            Err(SinkError::new("writing here", std::io::ErrorKind::StorageFull.into()))
        });
        read(broker, &sink, 4).await.unwrap_err();
        let count = || sink.rows.lock().unwrap().values().map(Vec::len).sum::<usize>();
        let before = count();
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(count(), before);
    });
}

#[test]
fn an_answer_that_lay_there_while_the_thread_was_busy_is_in_time() {
    with_broker(async |broker| {
        topic(broker, 2, 400);
        let mut sink = Threads::new(Duration::ZERO);
        sink.see = Arc::new(|partition, offset| {
            if (partition, offset) == (0, 150) {
                thread::sleep(Duration::from_millis(3500));
            }
            Ok(())
        });
        let pairs = [("kafka.request.timeout.ms", "1000"), ("kafka.default.api.timeout.ms", "2000")];
        read_with(broker, &pairs, &sink, 1).await.unwrap();
        assert_eq!(*sink.rows.lock().unwrap(), all(2, 400));
    });
}

/// Writers whose output never comes to an end, but on the caller's thread.
#[derive(Clone)]
struct Stuck(String, Arc<Mutex<usize>>);

impl Sink for Stuck {
    type Writer = Self;

    fn writer(&self, _range: &OffsetRange, _include_headers: bool) -> Result<Self, SinkError> {
        Ok(self.clone())
    }

    async fn finish_batch(&self, _batch_id: i64) -> Result<(), SinkError> {
        Ok(())
    }
}

impl RecordWriter for Stuck {
    fn write(&mut self, _record: &Record<'_>) {
        let start = std::time::Instant::now();
        while start.elapsed() < PAUSE {
            std::hint::spin_loop();
        }
    }

    async fn flush(&mut self) -> Result<(), SinkError> {
        if name(thread::current().id()) != self.0 {
            *self.1.lock().unwrap() += 1;
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn finish(self) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn a_read_that_is_dropped_leaves_no_thread() {
    with_broker(async |broker| {
        topic(broker, 8, 200);
        let writers = Stuck(name(thread::current().id()), Arc::default());
        let reading = read_with(broker, &[], &writers, 4);
        assert!(tokio::time::timeout(Duration::from_secs(2), reading).await.is_err(), "it can't come to its end");
        assert!(*writers.1.lock().unwrap() > 0, "no other thread had anything to write");
        // Each thread has a clone, and each range.
        let start = std::time::Instant::now();
        while Arc::strong_count(&writers.1) > 1 {
            assert!(start.elapsed() < Duration::from_secs(5), "{} left", Arc::strong_count(&writers.1));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn a_panic_on_any_thread_is_the_callers() {
    with_broker(async |broker| {
        topic(broker, 6, 200);
        let caller = name(thread::current().id());
        let mut sink = Threads::new(PAUSE);
        sink.see = Arc::new(move |_, _| {
            assert!(name(thread::current().id()) == caller, "a panic elsewhere");
            Ok(())
        });
        let reading = std::panic::AssertUnwindSafe(read(broker, &sink, 2));
        let panic = catch(reading).await.expect_err("the panic comes through");
        assert!(panic.downcast_ref::<&str>().is_some_and(|text| text.contains("a panic elsewhere")));
    });
}

/// Polls a future and catches its panic.
async fn catch<T>(
    future: std::panic::AssertUnwindSafe<impl Future<Output = T>>,
) -> Result<T, Box<dyn std::any::Any + Send>> {
    let mut future = Box::pin(future.0);
    std::future::poll_fn(move |context| {
        let poll = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| future.as_mut().poll(context)));
        match poll {
            Ok(poll) => poll.map(Ok),
            Err(panic) => std::task::Poll::Ready(Err(panic)),
        }
    })
    .await
}

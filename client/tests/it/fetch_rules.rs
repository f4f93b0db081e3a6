//! The rules of the hot path, as far as they are the fetch engine's: each of these fails without its rule.

use crate::support::{MS, PATIENCE, config, eventually, fill, read, start, target, topic};
use crate::tap::Tap;
use ottla_client::{Client, ClientConfig, FetchTarget, Fetcher};
use ottla_embedded::messages::ApiKey;
use ottla_embedded::{Action, EmbeddedBroker};
use ottla_protocol::record::next_fetch_offset;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};

/// One batch of 1 KB an answer and partition.
fn one_by_one(bootstrap_servers: &str) -> ClientConfig {
    let mut config = config(bootstrap_servers);
    (config.fetch_max_bytes, config.max_partition_fetch_bytes) = (4_400, 1_100);
    config
}

/// A topic of batches that each fill what is asked of a partition.
fn batches(broker: &EmbeddedBroker, partitions: i32, batches: usize) {
    broker.create_topic("t", partitions, &[]).unwrap();
    for partition in 0..partitions {
        fill(broker, "t", partition, batches, 1, 1_000);
    }
}

fn all(broker: &EmbeddedBroker, partitions: i32, until: i64) -> Vec<FetchTarget> {
    (0..partitions).map(|partition| target(broker, "t", partition, 0, until)).collect()
}

/// Notes what is asked for, in the order of the requests: partition and offset, with the time.
fn asked_for(broker: &EmbeddedBroker) -> Arc<Mutex<Vec<(i32, i64, Instant)>>> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let hook_log = log.clone();
    broker.on(ApiKey::Fetch, move |context| {
        let now = Instant::now();
        let asked = crate::support::asked(context.request).into_iter();
        hook_log.lock().unwrap().extend(asked.map(|(partition, offset)| (partition, offset, now)));
        Action::Pass
    });
    log
}

/// Rule 1. The reader of this test keeps its only thread busy with each answer: a request that would leave after its answer was handed out
/// would wait for it.
#[test]
fn the_next_request_leaves_before_an_answer_is_handed_out() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let brokers = runtime();
    let broker = brokers.block_on(start(1));
    batches(&broker, 1, 5);
    let log = asked_for(&broker);
    let (done, until_done) = tokio::sync::oneshot::channel::<()>();
    let broker_thread = std::thread::spawn(move || brokers.block_on(until_done));
    let (bootstrap, targets) = (broker.bootstrap_servers(), all(&broker, 1, 5));
    let reader = async move {
        let client = Client::connect(one_by_one(&bootstrap)).await.unwrap();
        let fetcher = Fetcher::start(&client, targets);
        for _ in 0..4 {
            let fetch = timeout(PATIENCE, fetcher.next()).await.unwrap().unwrap().unwrap();
            let came = Instant::now();
            std::thread::sleep(300 * MS);
            let next = next_fetch_offset(fetch.records(), fetch.fetch_offset());
            let left = log.lock().unwrap().iter().find(|(_, offset, _)| *offset == next).copied();
            let (_, _, left) = left.expect("the next request has left");
            assert!(left < came + 150 * MS, "{:?} after the answer was handed out", left.duration_since(came));
        }
    };
    // As a task, which takes its turn behind whoever was woken before.
    runtime().block_on(async { tokio::spawn(reader).await.unwrap() });
    drop(done);
    broker_thread.join().unwrap().unwrap_err();
}

/// Rule 1: two requests are out on the connection for data, no more, about different partitions.
#[tokio::test]
async fn two_requests_are_out_and_have_nothing_in_common() {
    let tap = Tap::start().await;
    batches(&tap.broker, 12, 3);
    let client = Client::connect(one_by_one(&tap.address)).await.unwrap();
    tap.hold_answers(true);
    let fetcher = Fetcher::start(&client, all(&tap.broker, 12, 3));
    tap.until_seen(2).await;
    sleep(200 * MS).await;
    let out = tap.seen().clone();
    assert_eq!(out.len(), 2, "one is answered while the other's answer is decoded; more would only wait");
    assert_eq!(out[0].connection, out[1].connection);
    let partitions: BTreeSet<i32> = out.iter().flat_map(|seen| seen.named()).map(|(partition, _)| partition).collect();
    assert_eq!(partitions.len(), out[0].named().len() + out[1].named().len(), "{out:?}");
    assert!(out.iter().all(|seen| seen.request.session_epoch == -1 && !seen.is_poll()));
    tap.hold_answers(false);
    let mut pieces = 0;
    while let Some(fetch) = timeout(PATIENCE, fetcher.next()).await.unwrap() {
        pieces += fetch.map(|fetch| usize::from(!fetch.records().is_empty())).unwrap();
    }
    assert_eq!(pieces, 12 * 3);
}

/// Rule 1: whoever is in a request is in no other. Were it otherwise, an offset would be asked for twice.
#[tokio::test]
async fn nothing_is_asked_for_twice() {
    for nodes in [1, 2] {
        let broker = start(nodes).await;
        batches(&broker, 8, 20);
        let log = asked_for(&broker);
        let client = Client::connect(one_by_one(&broker.bootstrap_servers())).await.unwrap();
        for back in read(&client, all(&broker, 8, 20)).await {
            back.assert_range(0, 20);
        }
        let mut asked: Vec<(i32, i64)> = log.lock().unwrap().iter().map(|(p, offset, _)| (*p, *offset)).collect();
        asked.sort_unstable();
        let expected: Vec<(i32, i64)> = (0..8).flat_map(|p| (0..20).map(move |offset| (p, offset))).collect();
        assert_eq!(asked, expected);
    }
}

/// Rule 1: a long poll goes alone, on a connection where nothing else is held up by it.
#[tokio::test]
async fn polls_have_a_connection_to_themselves() {
    let tap = Tap::start().await;
    batches(&tap.broker, 4, 10);
    let client = Client::connect(one_by_one(&tap.address)).await.unwrap();
    // Two have data, and are polled when they have none left; of the others that is so from the beginning.
    let mut targets = all(&tap.broker, 4, i64::MAX);
    for (target, from) in targets.iter_mut().zip([0, 0, 10, 10]) {
        (target.from_offset, target.known_end) = (from, 10);
    }
    let fetcher = Fetcher::start(&client, targets);
    for _ in 0..20 {
        timeout(PATIENCE, fetcher.next()).await.unwrap().unwrap().unwrap();
    }
    eventually("polls", || tap.seen().iter().filter(|seen| seen.is_poll()).count() > 3).await;
    let seen = tap.seen().clone();
    let connections = |poll| {
        let of_kind = seen.iter().filter(move |seen| seen.is_poll() == poll);
        of_kind.map(|seen| seen.connection).collect::<BTreeSet<_>>()
    };
    assert_eq!((connections(true).len(), connections(false).len()), (1, 1), "{seen:?}");
    assert!(connections(true).is_disjoint(&connections(false)));
    // One at a time: with the answer held back, no other follows.
    tap.hold_answers(true);
    sleep(150 * MS).await;
    let polls = |tap: &Tap| tap.seen().iter().filter(|seen| seen.is_poll()).count();
    let before = polls(&tap);
    sleep(300 * MS).await;
    assert_eq!(polls(&tap), before);
}

/// Rule 2: what is on its way for a target that its reader gave up, as after damage that only the CRC shows, is not handed out.
#[tokio::test]
async fn what_comes_after_the_end_is_dropped() {
    let tap = Tap::start().await;
    batches(&tap.broker, 2, 10);
    let client = Client::connect(one_by_one(&tap.address)).await.unwrap();
    tap.hold_answers(true);
    let fetcher = Fetcher::start(&client, all(&tap.broker, 2, 10));
    tap.until_seen(2).await;
    fetcher.finish(0);
    sleep(50 * MS).await;
    tap.hold_answers(false);
    let mut pieces = 0;
    while let Some(fetch) = timeout(PATIENCE, fetcher.next()).await.unwrap() {
        assert_eq!(fetch.unwrap().target(), 1);
        pieces += 1;
    }
    assert_eq!(pieces, 10);
    let asked = tap.seen().iter().flat_map(|seen| seen.named()).filter(|(partition, _)| *partition == 0).count();
    assert_eq!(asked, 1, "nor is any more asked for");
}

/// Rule 2: also when it waits already, behind a piece that a decoder has.
#[tokio::test]
async fn what_waits_behind_a_bad_piece_is_dropped() {
    let broker = start(1).await;
    batches(&broker, 2, 10);
    let log = asked_for(&broker);
    let client = Client::connect(one_by_one(&broker.bootstrap_servers())).await.unwrap();
    let fetcher = Fetcher::start(&client, all(&broker, 2, 10));
    let mut held = BTreeMap::new();
    while held.len() < 2 {
        let fetch = timeout(PATIENCE, fetcher.next()).await.unwrap().unwrap().unwrap();
        held.insert(fetch.target(), fetch);
    }
    eventually("the second answers", || log.lock().unwrap().len() == 4).await;
    sleep(50 * MS).await;
    fetcher.finish(0);
    held.clear();
    while let Some(fetch) = timeout(PATIENCE, fetcher.next()).await.unwrap() {
        assert_eq!(fetch.unwrap().target(), 1);
    }
}

/// Rule 2: no request at or beyond the end of a range, also when it lies inside a batch or between the pieces of a partition.
#[tokio::test]
async fn nothing_is_asked_for_at_or_beyond_the_end() {
    let broker = start(1).await;
    topic(&broker, "t", 3, 300);
    let log = asked_for(&broker);
    let mut config = config(&broker.bootstrap_servers());
    (config.fetch_max_bytes, config.max_partition_fetch_bytes) = (1_200, 400);
    let client = Client::connect(config).await.unwrap();
    let ends = [95, 100, 1];
    for known_end in [300, 0] {
        let targets = (0..3).zip(ends).map(|(p, until)| FetchTarget { known_end, ..target(&broker, "t", p, 0, until) });
        for (back, until) in read(&client, targets.collect()).await.iter().zip(ends) {
            back.assert_range(0, until);
        }
    }
    for (partition, offset, _) in log.lock().unwrap().iter() {
        assert!(*offset < ends[usize::try_from(*partition).unwrap()], "{partition} at {offset}");
    }
}

/// Rule 10: pieces of one partition are in different requests, in sessions too, and none waits for ever because of another.
#[tokio::test]
async fn pieces_of_a_partition_never_share_a_request() {
    let tap = Tap::start().await;
    batches(&tap.broker, 1, 30);
    let client = Client::connect(one_by_one(&tap.address)).await.unwrap();
    // Without end, at the end; the rest is not known to have data.
    let pieces = [(30, i64::MAX), (0, 12), (12, 24), (5, 20)];
    let targets = pieces.map(|(from, until)| FetchTarget {
        from_offset: from,
        until_offset: until,
        known_end: 0,
        ..target(&tap.broker, "t", 0, 0, 0)
    });
    let fetcher = Fetcher::start(&client, targets.to_vec());
    let mut left: BTreeMap<usize, i64> = (1..4).map(|index| (index, pieces[index].1)).collect();
    while !left.is_empty() {
        let fetch = timeout(PATIENCE, fetcher.next()).await.unwrap().unwrap().unwrap();
        let next = next_fetch_offset(fetch.records(), fetch.fetch_offset());
        if left.get(&fetch.target()).is_some_and(|until| next >= *until) {
            left.remove(&fetch.target());
        }
    }
    for seen in tap.seen().iter() {
        assert!(seen.named().len() <= 1, "{seen:?}");
    }
    fill(&tap.broker, "t", 0, 1, 1, 0);
    let fetch = timeout(PATIENCE, fetcher.next()).await.unwrap().unwrap().unwrap();
    assert_eq!((fetch.target(), fetch.fetch_offset()), (0, 30));
}

/// A partition whose reader is slow, or never comes back, holds up nobody; what was fetched of it is kept and not fetched again.
#[tokio::test]
async fn s_t05_a_slow_partition_keeps_what_it_has_and_the_others_go_on() {
    let broker = start(1).await;
    batches(&broker, 3, 60);
    let log = asked_for(&broker);
    let mut config = one_by_one(&broker.bootstrap_servers());
    // Room for four answers: the slow one's pin two of them.
    config.memory_bytes = 4 * 4_400;
    let client = Client::connect(config).await.unwrap();
    let fetcher = Fetcher::start(&client, all(&broker, 3, 60));
    let mut counts = [0_i64; 3];
    let mut slow = None;
    let start = Instant::now();
    while counts[1] + counts[2] < 120 {
        let fetch = timeout(PATIENCE, fetcher.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(fetch.fetch_offset(), counts[fetch.target()], "in order, each once");
        counts[fetch.target()] += 1;
        if fetch.target() == 0 {
            assert!(slow.replace(fetch).is_none(), "one piece at a time");
        }
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(counts, [1, 60, 60]);
    let connections = broker.connections(1);
    let of_the_slow =
        |offset: i64| log.lock().unwrap().iter().filter(|asked| asked.0 == 0 && asked.1 == offset).count();
    assert_eq!([of_the_slow(0), of_the_slow(1), of_the_slow(2)], [1, 1, 0]);
    // It goes on where it was, now with a pause after every piece.
    drop(slow);
    while let Some(fetch) = timeout(PATIENCE, fetcher.next()).await.unwrap() {
        let fetch = fetch.unwrap();
        assert_eq!((fetch.target(), fetch.fetch_offset()), (0, counts[0]));
        counts[0] += 1;
        sleep(2 * MS).await;
    }
    assert_eq!(counts[0], 60);
    assert!((0..60).all(|offset| of_the_slow(offset) == 1), "nothing was fetched again");
    assert_eq!(broker.connections(1), connections, "connections stay open");
}

/// One with ten times as much as the others takes its turn like them.
#[tokio::test]
async fn a_busy_partition_does_not_starve_the_others() {
    let broker = start(1).await;
    broker.create_topic("t", 6, &[]).unwrap();
    fill(&broker, "t", 0, 100, 1, 1_000);
    for partition in 1..6 {
        fill(&broker, "t", partition, 10, 1, 1_000);
    }
    let client = Client::connect(one_by_one(&broker.bootstrap_servers())).await.unwrap();
    let mut targets = all(&broker, 6, 10);
    (targets[0].until_offset, targets[0].known_end) = (100, 100);
    let fetcher = Fetcher::start(&client, targets);
    let mut counts = [0; 6];
    while counts[1..].iter().any(|count| *count < 10) {
        let fetch = timeout(PATIENCE, fetcher.next()).await.unwrap().unwrap().unwrap();
        counts[fetch.target()] += 1;
    }
    assert!(counts[0] <= 20, "{counts:?}");
}

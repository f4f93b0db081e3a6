//! What goes wrong between a request and its answer, or with the log itself, while it is read.

use crate::support::{MS, asked, client, config, fill, read, read_one, start, target, text, topic};
use ottla_client::{Client, ClientConfig, Error, FetchErrorKind, Fetcher, IsolationLevel};
use ottla_embedded::messages::ApiKey;
use ottla_embedded::{Action, EmbeddedBroker};
use ottla_protocol::ErrorCode;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Small answers, so that a read takes several requests.
fn small(broker: &EmbeddedBroker) -> ClientConfig {
    let mut config = config(&broker.bootstrap_servers());
    (config.fetch_max_bytes, config.max_partition_fetch_bytes) = (1_000, 1_000);
    config
}

/// Does `act` once, when a fetch request asks for this offset of partition 0 or a later one.
fn at_offset(broker: &Arc<EmbeddedBroker>, offset: i64, act: impl Fn(&EmbeddedBroker) + Send + Sync + 'static) {
    let (done, weak) = (AtomicBool::new(false), Arc::downgrade(broker));
    broker.on(ApiKey::Fetch, move |context| {
        if asked(context.request).iter().any(|(partition, at)| *partition == 0 && *at >= offset)
            && !done.swap(true, Ordering::Relaxed)
            && let Some(broker) = weak.upgrade()
        {
            act(&broker);
        }
        Action::Pass
    });
}

#[tokio::test]
async fn a_leader_that_moves_is_followed_with_and_without_a_hint() {
    // Until 11 no leader is named, from 12 on its number, from 16 on its address too.
    for (fetch_max, metadata_expected) in [(11, true), (12, false), (15, false), (16, false)] {
        let broker = EmbeddedBroker::builder().nodes(3).api_versions(ApiKey::Fetch, 4..=fetch_max);
        let broker = Arc::new(broker.start().await.unwrap());
        topic(&broker, "t", 3, 200);
        let client = Client::connect(small(&broker)).await.unwrap();
        client.topics(&["t".to_owned()]).await.unwrap();
        at_offset(&broker, 60, |broker| broker.set_leader("t", 0, 3).unwrap());
        let before = broker.requests(ApiKey::Metadata);
        for back in read(&client, (0..3).map(|p| target(&broker, "t", p, 0, 200)).collect()).await {
            back.assert_range(0, 200);
        }
        let asked = broker.requests(ApiKey::Metadata) - before;
        assert_eq!(asked > 0, metadata_expected, "Fetch {fetch_max}: {asked} metadata requests");
        assert!(asked < 10, "{asked}");
    }
}

#[tokio::test]
async fn errors_that_pass_are_waited_out() {
    // NOT_LEADER, FENCED and UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE, UNKNOWN_TOPIC_ID, KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR,
    // UNKNOWN_TOPIC_OR_PARTITION, INCONSISTENT_TOPIC_ID, FETCH_SESSION_ID_NOT_FOUND.
    for code in [6, 74, 75, 78, 100, 56, -1, 3, 103] {
        for top_level in [false, true] {
            let broker = start(2).await;
            topic(&broker, "t", 4, 100);
            broker.on(ApiKey::Fetch, move |context| match (context.index % 3, top_level) {
                (0, false) => Action::Error(code),
                (0, true) => Action::TopLevelError(code),
                _ => Action::Pass,
            });
            let client = client(&broker).await;
            for back in read(&client, (0..4).map(|p| target(&broker, "t", p, 0, 100)).collect()).await {
                back.assert_range(0, 100);
            }
        }
    }
}

#[tokio::test]
async fn errors_that_stay_end_in_time_and_without_a_storm() {
    for code in [6, 74, 75, 78, 56, -1, 100] {
        let broker = start(1).await;
        topic(&broker, "t", 2, 100);
        broker.on(ApiKey::Fetch, move |_| Action::Error(code));
        let mut config = config(&broker.bootstrap_servers());
        config.default_api_timeout = Duration::from_secs(1);
        let client = Client::connect(config).await.unwrap();
        let start = Instant::now();
        for back in read(&client, (0..2).map(|p| target(&broker, "t", p, 0, 100)).collect()).await {
            let error = back.error.unwrap();
            let FetchErrorKind::Client(error) = &error.source else { panic!("{error:?}") };
            assert_eq!(error.code(), Some(ErrorCode(code)), "{error:?}");
        }
        assert!(start.elapsed() < 1100 * MS, "{code}: {:?}", start.elapsed());
        let (fetches, metadata) = (broker.requests(ApiKey::Fetch), broker.requests(ApiKey::Metadata));
        assert!(fetches < 40 && metadata < 40, "{code}: {fetches} fetches, {metadata} metadata requests");
    }
}

#[tokio::test]
async fn errors_that_no_retry_betters_end_at_once() {
    for code in [29, 2, 35] {
        let broker = start(1).await;
        topic(&broker, "t", 1, 100);
        broker.on(ApiKey::Fetch, move |_| Action::Error(code));
        let back = read_one(&client(&broker).await, &broker, "t", 0, 100).await;
        let error = back.error.unwrap();
        assert!(
            matches!(&error.source, FetchErrorKind::Client(Error::Broker { code: found, .. }) if found.0 == code),
            "{error:?}"
        );
        assert_eq!(broker.requests(ApiKey::Fetch), 1);
    }
}

/// Two brokers that each name the other as the new leader, in ever newer epochs.
#[tokio::test]
async fn a_quarrel_about_the_leader_is_no_hot_loop() {
    let broker = Arc::new(start(2).await);
    topic(&broker, "t", 1, 100);
    let weak = Arc::downgrade(&broker);
    broker.on(ApiKey::Fetch, move |context| {
        if let Some(broker) = weak.upgrade() {
            broker.set_leader("t", 0, 3 - context.node).unwrap();
        }
        Action::Pass
    });
    let mut config = config(&broker.bootstrap_servers());
    config.default_api_timeout = Duration::from_secs(1);
    let client = Client::connect(config).await.unwrap();
    let back = read_one(&client, &broker, "t", 0, 100).await;
    assert!(matches!(back.error.unwrap().source, FetchErrorKind::Client(Error::DeadlineExceeded { .. })));
    assert!(broker.requests(ApiKey::Fetch) < 40, "{}", broker.requests(ApiKey::Fetch));
}

#[tokio::test]
async fn connections_that_end_early_are_made_again() {
    for action in [Action::Close, Action::CloseAfterHandling, Action::Truncate(2), Action::Truncate(300)] {
        let broker = start(2).await;
        topic(&broker, "t", 4, 100);
        broker.on(
            ApiKey::Fetch,
            move |context| if context.index.is_multiple_of(3) { action.clone() } else { Action::Pass },
        );
        let client = Client::connect(small(&broker)).await.unwrap();
        for back in read(&client, (0..4).map(|p| target(&broker, "t", p, 0, 100)).collect()).await {
            back.assert_range(0, 100);
        }
    }
}

#[tokio::test]
async fn a_broker_that_says_nothing_costs_one_request_timeout() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 100);
    broker.on(ApiKey::Fetch, |context| if context.index == 1 { Action::Mute } else { Action::Pass });
    let mut config = small(&broker);
    config.request_timeout = 300 * MS;
    let client = Client::connect(config).await.unwrap();
    let start = Instant::now();
    for back in read(&client, (0..2).map(|p| target(&broker, "t", p, 0, 100)).collect()).await {
        back.assert_range(0, 100);
    }
    assert!(start.elapsed() >= 300 * MS && start.elapsed() < 1500 * MS, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_broker_that_is_away_for_a_while() {
    let broker = Arc::new(start(2).await);
    topic(&broker, "t", 2, 300);
    let client = Client::connect(small(&broker)).await.unwrap();
    let reached = Arc::new(tokio::sync::Notify::new());
    let notify = reached.clone();
    at_offset(&broker, 60, move |_| notify.notify_one());
    let targets = (0..2).map(|p| target(&broker, "t", p, 0, 300)).collect();
    let outage = async {
        reached.notified().await;
        broker.stop_node(1).await;
        tokio::time::sleep(500 * MS).await;
        broker.start_node(1).await.unwrap();
    };
    let (backs, ()) = tokio::join!(read(&client, targets), outage);
    for back in backs {
        back.assert_range(0, 300);
    }
}

#[tokio::test]
async fn nothing_is_sent_while_the_broker_throttles() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 300);
    let until = Arc::new(std::sync::Mutex::new(None::<Instant>));
    let early = Arc::new(AtomicU64::new(0));
    let (hook_until, hook_early) = (until.clone(), early.clone());
    broker.on(ApiKey::Fetch, move |context| {
        let mut until = hook_until.lock().unwrap();
        if until.is_some_and(|until| Instant::now() + 20 * MS < until) {
            hook_early.fetch_add(1, Ordering::Relaxed);
        }
        if context.index % 2 == 1 {
            return Action::Pass;
        }
        *until = Some(Instant::now() + 200 * MS);
        Action::Throttle(200 * MS)
    });
    let client = Client::connect(small(&broker)).await.unwrap();
    let start = Instant::now();
    read_one(&client, &broker, "t", 0, 300).await.assert_range(0, 300);
    let pauses = u32::try_from(broker.requests(ApiKey::Fetch) / 2).unwrap();
    assert!(pauses > 2 && start.elapsed() > 200 * MS * (pauses - 1), "{pauses} pauses in {:?}", start.elapsed());
    assert_eq!(early.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_topic_deleted_while_it_is_read() {
    let broker = Arc::new(start(2).await);
    topic(&broker, "t", 2, 600);
    topic(&broker, "other", 1, 200);
    let mut config = small(&broker);
    config.default_api_timeout = Duration::from_secs(2);
    let client = Client::connect(config).await.unwrap();
    let targets =
        vec![target(&broker, "t", 0, 0, 600), target(&broker, "t", 1, 0, 600), target(&broker, "other", 0, 0, 200)];
    at_offset(&broker, 60, |broker| broker.delete_topic("t").unwrap());
    let start = Instant::now();
    let backs = read(&client, targets).await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    backs[2].assert_range(0, 200);
    for back in &backs[..2] {
        let error = text(back.error.as_ref().unwrap());
        assert!(error.contains("topic 't' does not exist") || error.contains("UNKNOWN_TOPIC_ID"), "{error}");
    }
}

#[tokio::test]
async fn a_topic_that_was_made_again_is_another_one() {
    let broker = Arc::new(start(1).await);
    topic(&broker, "t", 1, 200);
    let client = Client::connect(small(&broker)).await.unwrap();
    let targets = vec![target(&broker, "t", 0, 0, 200)];
    at_offset(&broker, 60, |broker| {
        broker.delete_topic("t").unwrap();
        topic(broker, "t", 1, 500);
    });
    let back = read(&client, targets).await.remove(0);
    assert!(matches!(back.error.unwrap().source, FetchErrorKind::TopicRecreated));
    assert!(back.offsets.iter().copied().eq(0..i64::try_from(back.offsets.len()).unwrap()));
    assert!(back.offsets.len() < 200);
}

#[tokio::test]
async fn s_o05_out_of_range_says_what_the_log_holds() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 100);
    broker.delete_records("t", 0, 60).unwrap();
    for isolation in [IsolationLevel::ReadUncommitted, IsolationLevel::ReadCommitted] {
        let mut config = config(&broker.bootstrap_servers());
        config.isolation_level = isolation;
        let client = Client::connect(config).await.unwrap();
        for from in [10, 1000] {
            let error = read_one(&client, &broker, "t", from, 2000).await.error.unwrap();
            assert_eq!(error.position, from);
            assert!(
                matches!(error.source, FetchErrorKind::OutOfRange { log_start_offset: 60, log_end_offset: 100 }),
                "{error:?}"
            );
        }
    }
    // Below: on from the log's start.
    let client = client(&broker).await;
    let fetcher = Fetcher::start(&client, vec![target(&broker, "t", 0, 10, 100)]);
    let error = fetcher.next().await.unwrap().unwrap_err();
    fetcher.seek(error.target, 60);
    assert_eq!(fetcher.next().await.unwrap().unwrap().fetch_offset(), 60);
}

#[tokio::test]
async fn the_log_start_moves_past_the_position() {
    let broker = Arc::new(start(1).await);
    topic(&broker, "t", 1, 300);
    at_offset(&broker, 60, |broker| {
        broker.delete_records("t", 0, 200).unwrap();
    });
    let client = Client::connect(small(&broker)).await.unwrap();
    let error = read_one(&client, &broker, "t", 0, 300).await.error.unwrap();
    assert!(error.position >= 60 && error.position < 200);
    assert!(matches!(error.source, FetchErrorKind::OutOfRange { log_start_offset: 200, log_end_offset: 300 }));
}

#[tokio::test]
async fn out_of_range_inside_the_log_is_no_hot_loop() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 100);
    broker.on(ApiKey::Fetch, |_| Action::Error(1));
    let mut config = config(&broker.bootstrap_servers());
    config.default_api_timeout = Duration::from_secs(1);
    let client = Client::connect(config).await.unwrap();
    let error = read_one(&client, &broker, "t", 50, 100).await.error.unwrap();
    assert!(text(&error).contains("the log holds [0, 100)"), "{}", text(&error));
    assert!(broker.requests(ApiKey::Fetch) < 40, "{}", broker.requests(ApiKey::Fetch));
    assert!(broker.requests(ApiKey::ListOffsets) < 80);
}

#[tokio::test]
async fn an_open_transaction_is_a_timeout_and_never_loss() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 50);
    let options = ottla_protocol::record::RecordBatchOptions::new(0).producer(7, 0, 0).transactional();
    broker.append("t", 0, crate::support::batch(options, &vec![b"open".to_vec(); 10])).unwrap();
    fill(&broker, "t", 0, 4, 10, 0);
    let mut config = config(&broker.bootstrap_servers());
    config.isolation_level = IsolationLevel::ReadCommitted;
    config.poll_timeout = Duration::from_secs(1);
    let client = Client::connect(config).await.unwrap();
    let start = Instant::now();
    let back = read_one(&client, &broker, "t", 0, 100).await;
    assert!(back.offsets.iter().copied().eq(0..50));
    let error = back.error.unwrap();
    assert_eq!(error.position, 50);
    assert!(
        matches!(
            error.source,
            FetchErrorKind::NoData { until_offset: 100, last_stable_offset: 50, high_watermark: 100, .. }
        ),
        "{error:?}"
    );
    assert!(start.elapsed() >= Duration::from_secs(1) && start.elapsed() < 1500 * MS, "{:?}", start.elapsed());
    assert!(broker.requests(ApiKey::Fetch) < 25, "{}", broker.requests(ApiKey::Fetch));
}

//! Long polls in fetch sessions (KIP-227): what is told, what is left out, and what happens when the broker forgets.

use crate::support::{MS, PATIENCE, config, edit_fetch, eventually, fill, start, target, topic};
use ottla_client::{Client, FetchErrorKind, FetchTarget, Fetcher};
use ottla_embedded::messages::ApiKey;
use ottla_embedded::{Action, EmbeddedBroker, Request, RequestContext};
use ottla_protocol::record::next_fetch_offset;
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};

/// What a fetch request says of its session, and the partitions that it names and forgets.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    version: i16,
    session: (i32, i32),
    named: Vec<(i32, i64)>,
    forgotten: Vec<i32>,
}

fn told(context: &RequestContext<'_>) -> Told {
    let Request::Fetch(request) = context.request else { unreachable!("the hook is for fetches") };
    let forgotten = request.forgotten_topics_data.iter().flat_map(|topic| topic.partitions.iter().copied());
    Told {
        version: context.api_version,
        session: (request.session_id, request.session_epoch),
        named: crate::support::asked(context.request),
        forgotten: forgotten.collect(),
    }
}

type Log = Arc<Mutex<Vec<Told>>>;

/// Notes every long poll, and does what `act` says for the n-th.
fn polls(broker: &EmbeddedBroker, act: impl Fn(usize, &Told, i16) -> Action + Send + Sync + 'static) -> Log {
    let log = Log::default();
    let hook_log = log.clone();
    broker.on(ApiKey::Fetch, move |context| {
        let told = told(context);
        if matches!(context.request, Request::Fetch(request) if request.max_wait_ms == 0) {
            return Action::Pass;
        }
        let mut log = hook_log.lock().unwrap();
        let action = act(log.len(), &told, context.api_version);
        log.push(told);
        action
    });
    log
}

/// Ranges without end, at the end of their logs.
fn at_the_end(broker: &EmbeddedBroker, name: &str, partitions: i32) -> Vec<FetchTarget> {
    let end = |partition| broker.end_offset(name, partition).unwrap();
    let at = |partition| target(broker, name, partition, end(partition), i64::MAX);
    (0..partitions).map(|partition| FetchTarget { known_end: 0, ..at(partition) }).collect()
}

async fn next(fetcher: &Fetcher) -> (usize, i64, i64) {
    let fetch = timeout(PATIENCE, fetcher.next()).await.expect("nothing comes").unwrap().unwrap();
    (fetch.target(), fetch.fetch_offset(), next_fetch_offset(fetch.records(), fetch.fetch_offset()))
}

fn has(log: &Log, wanted: impl Fn(&Told) -> bool) -> bool {
    log.lock().unwrap().iter().any(wanted)
}

async fn until_polls(log: &Log, count: usize) -> Vec<Told> {
    eventually("polls", || log.lock().unwrap().len() >= count).await;
    log.lock().unwrap().clone()
}

#[tokio::test]
async fn s_n15_errors_of_the_session_begin_a_new_one_and_lose_nothing() {
    // FETCH_SESSION_ID_NOT_FOUND and INVALID_FETCH_SESSION_EPOCH; FETCH_SESSION_TOPIC_ID_ERROR and INCONSISTENT_TOPIC_ID.
    for codes in [[70, 71], [106, 103]] {
        let broker = start(1).await;
        topic(&broker, "t", 3, 20);
        let log = polls(&broker, move |count, _, _| match count {
            2 => Action::TopLevelError(codes[0]),
            3 => Action::TopLevelError(codes[1]),
            _ => Action::Pass,
        });
        let client = Client::connect(config(&broker.bootstrap_servers())).await.unwrap();
        let fetcher = Fetcher::start(&client, at_the_end(&broker, "t", 3));
        let polls = until_polls(&log, 7).await;
        let all = vec![(0, 20), (1, 20), (2, 20)];
        let nothing = Vec::<(i32, i64)>::new();
        assert_eq!((polls[0].session, &polls[0].named), ((0, 0), &all));
        let id = polls[1].session.0;
        assert!(id > 0, "{polls:?}");
        assert_eq!((polls[1].session, &polls[1].named), ((id, 1), &nothing));
        assert_eq!((polls[2].session, &polls[2].named), ((id, 2), &nothing));
        for refused in &polls[3..5] {
            assert_eq!((refused.session, &refused.named), ((0, 0), &all));
        }
        let id = polls[5].session.0;
        assert_eq!((polls[5].session, &polls[5].named), ((id, 1), &nothing));
        assert_eq!((polls[6].session, &polls[6].named), ((id, 2), &nothing));
        assert!(polls.iter().all(|poll| poll.forgotten.is_empty()));

        // The answer is about one partition, and leaves out the others, who wait where they were.
        fill(&broker, "t", 1, 1, 10, 0);
        assert_eq!(next(&fetcher).await, (1, 20, 30));
        let count = log.lock().unwrap().len();
        let polls = until_polls(&log, count + 2).await;
        let since: Vec<_> = polls[count..].iter().chain(&polls[7..count]).flat_map(|poll| &poll.named).collect();
        assert!(since.iter().all(|named| **named == (1, 30)), "{since:?}");
        for partition in 0..3 {
            fill(&broker, "t", partition, 1, 10, 0);
        }
        let mut came = [next(&fetcher).await, next(&fetcher).await, next(&fetcher).await];
        came.sort_unstable();
        assert_eq!(came, [(0, 20, 30), (1, 30, 40), (2, 20, 30)]);
    }
}

#[tokio::test]
async fn a_broker_that_refuses_every_session_is_polled_without_one() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 20);
    let log = polls(&broker, |_, told, _| if told.session.1 == -1 { Action::Pass } else { Action::TopLevelError(70) });
    let client = Client::connect(config(&broker.bootstrap_servers())).await.unwrap();
    let start = Instant::now();
    let fetcher = Fetcher::start(&client, at_the_end(&broker, "t", 2));
    until_polls(&log, 4).await;
    // The first refusal is followed at once, the others not.
    assert!(start.elapsed() > 40 * MS, "{:?}", start.elapsed());
    let polls = until_polls(&log, 5).await;
    let sessions: Vec<_> = polls.iter().map(|poll| poll.session).collect();
    assert_eq!(sessions[..5], [(0, 0), (0, 0), (0, 0), (0, -1), (0, -1)]);
    fill(&broker, "t", 1, 1, 10, 0);
    assert_eq!(next(&fetcher).await, (1, 20, 30));
}

#[tokio::test]
async fn errors_of_sessions_that_never_end_are_told_in_time_and_are_no_storm() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 20);
    broker.on(ApiKey::Fetch, |_| Action::TopLevelError(71));
    let mut config = config(&broker.bootstrap_servers());
    config.default_api_timeout = Duration::from_secs(1);
    let client = Client::connect(config).await.unwrap();
    let fetcher = Fetcher::start(&client, at_the_end(&broker, "t", 1));
    let error = timeout(PATIENCE, fetcher.next()).await.unwrap().unwrap().unwrap_err();
    let FetchErrorKind::Client(error) = error.source else { panic!("{error:?}") };
    assert_eq!(error.code().map(|code| code.0), Some(71), "even without a session: {error:?}");
    assert!(broker.requests(ApiKey::Fetch) < 40, "{}", broker.requests(ApiKey::Fetch));
}

#[tokio::test]
async fn a_broker_without_room_for_a_session_is_told_everything_each_time() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 20);
    let log = polls(&broker, |_, _, version| edit_fetch(version, |response| response.session_id = 0));
    let client = Client::connect(config(&broker.bootstrap_servers())).await.unwrap();
    let fetcher = Fetcher::start(&client, at_the_end(&broker, "t", 2));
    for poll in until_polls(&log, 4).await {
        assert_eq!((poll.session, poll.named), ((0, 0), vec![(0, 20), (1, 20)]));
    }
    fill(&broker, "t", 0, 1, 10, 0);
    assert_eq!(next(&fetcher).await, (0, 20, 30));
}

#[tokio::test]
async fn brokers_without_sessions_are_polled() {
    let broker = EmbeddedBroker::builder().api_versions(ApiKey::Fetch, 4..=6).start().await.unwrap();
    topic(&broker, "t", 2, 20);
    let log = polls(&broker, |_, _, _| Action::Pass);
    let client = Client::connect(config(&broker.bootstrap_servers())).await.unwrap();
    let fetcher = Fetcher::start(&client, at_the_end(&broker, "t", 2));
    for poll in until_polls(&log, 3).await {
        assert_eq!(poll.named, [(0, 20), (1, 20)]);
    }
    fill(&broker, "t", 0, 1, 10, 0);
    assert_eq!(next(&fetcher).await, (0, 20, 30));
}

#[tokio::test]
async fn strangers_in_an_incremental_answer_are_ignored() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 20);
    topic(&broker, "other", 2, 20);
    let records = crate::support::next_batch(&broker, "t", 0, 10, 0);
    let other = broker.topic_id("other").unwrap();
    let log = polls(&broker, move |count, _, version| {
        let records = records.clone();
        edit_fetch(version, move |response| {
            if count == 0 {
                return;
            }
            // Of a partition that is not there, of a topic that was not asked for, of nobody's; and one that is polled, twice.
            let data = ottla_protocol::message::PartitionData {
                high_watermark: 900,
                records: Some(records.clone()),
                ..Default::default()
            };
            for (topic_id, partition_index) in [(None, 77), (Some(other), 0), (Some([9; 16]), 1), (None, -1)] {
                let data = ottla_protocol::message::PartitionData { partition_index, ..data.clone() };
                let topic_id = topic_id.map(ottla_protocol::Uuid).unwrap_or_default();
                response.responses.push(ottla_protocol::message::FetchableTopicResponse {
                    topic_id,
                    partitions: vec![data.clone(), data],
                    ..Default::default()
                });
            }
        })
    });
    let client = Client::connect(config(&broker.bootstrap_servers())).await.unwrap();
    let fetcher = Fetcher::start(&client, at_the_end(&broker, "t", 2));
    until_polls(&log, 3).await;
    fill(&broker, "t", 1, 1, 10, 0);
    assert_eq!(next(&fetcher).await, (1, 20, 30));
    assert!(timeout(250 * MS, fetcher.next()).await.is_err(), "that was all");
}

#[tokio::test]
async fn a_thousand_idle_partitions_cost_next_to_nothing() {
    let broker = start(1).await;
    broker.create_topic("t", 1000, &[]).unwrap();
    let answered = Arc::new(Mutex::new(Vec::<usize>::new()));
    let hook_answered = answered.clone();
    let log = polls(&broker, move |_, _, _| {
        let answered = hook_answered.clone();
        Action::Edit(Arc::new(move |frame| {
            answered.lock().unwrap().push(frame.len());
            frame
        }))
    });
    let mut config = config(&broker.bootstrap_servers());
    config.fetch_max_wait = 500 * MS;
    let client = Client::connect(config).await.unwrap();
    let fetcher = Fetcher::start(&client, at_the_end(&broker, "t", 1000));
    assert!(timeout(Duration::from_secs(3), fetcher.next()).await.is_err());
    let polls = log.lock().unwrap().clone();
    assert!((5..=8).contains(&polls.len()), "{} polls in 3 s", polls.len());
    assert_eq!(polls[0].named.len(), 1000);
    for poll in &polls[1..] {
        assert!(poll.named.is_empty() && poll.forgotten.is_empty(), "{poll:?}");
    }
    let answered = answered.lock().unwrap().clone();
    assert!(answered[1..].iter().all(|bytes| *bytes < 40), "{answered:?} bytes an answer");
    fill(&broker, "t", 777, 1, 10, 0);
    assert_eq!(next(&fetcher).await, (777, 0, 10));
}

#[tokio::test]
async fn who_has_data_elsewhere_or_is_over_is_forgotten() {
    let broker = start(1).await;
    topic(&broker, "t", 3, 20);
    let log = polls(&broker, |_, _, _| Action::Pass);
    let mut config = config(&broker.bootstrap_servers());
    (config.fetch_max_bytes, config.max_partition_fetch_bytes) = (400, 400);
    let client = Client::connect(config).await.unwrap();
    let fetcher = Fetcher::start(&client, at_the_end(&broker, "t", 3));
    until_polls(&log, 2).await;
    // More than one answer takes: the rest is read where data is, while the poll goes on without it.
    fill(&broker, "t", 1, 10, 1, 300);
    let held = timeout(PATIENCE, fetcher.next()).await.unwrap().unwrap().unwrap();
    fetcher.finish(2);
    eventually("1 is forgotten", || has(&log, |poll| poll.forgotten.contains(&1))).await;
    eventually("2 is forgotten", || has(&log, |poll| poll.forgotten.contains(&2))).await;
    drop(held);
    let mut at = 21;
    while at < 30 {
        let (target, from, until) = next(&fetcher).await;
        assert_eq!((target, from), (1, at));
        at = until;
    }
    eventually("1 is polled again", || has(&log, |poll| poll.session.1 > 0 && poll.named == [(1, 30)])).await;
    fill(&broker, "t", 2, 1, 10, 0);
    fill(&broker, "t", 0, 1, 1, 0);
    assert_eq!(next(&fetcher).await, (0, 20, 21), "2 is over");
}

#[tokio::test]
async fn another_connection_is_another_session() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 20);
    let log = polls(&broker, |_, _, _| Action::Pass);
    let client = Client::connect(config(&broker.bootstrap_servers())).await.unwrap();
    let fetcher = Fetcher::start(&client, at_the_end(&broker, "t", 2));
    let before = until_polls(&log, 3).await;
    let id = before[2].session.0;
    broker.disconnect_all();
    let count = log.lock().unwrap().len();
    // Each comes back after a pause of its own.
    let both = |log: &Log| {
        let log = log.lock().unwrap();
        let named: Vec<(i32, i64)> = log.iter().skip(count).flat_map(|poll| poll.named.clone()).collect();
        named.contains(&(0, 20)) && named.contains(&(1, 20))
    };
    eventually("both are polled again", || both(&log)).await;
    assert_eq!(log.lock().unwrap()[count].session, (id, 0), "which ends the old one");
    fill(&broker, "t", 1, 1, 10, 0);
    assert_eq!(next(&fetcher).await, (1, 20, 30));
}

/// Between two polls no request tells that the connection is gone.
#[tokio::test]
async fn a_connection_that_ends_between_two_polls_ends_the_session_too() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 20);
    let log = polls(&broker, |_, _, _| Action::Pass);
    let mut config = config(&broker.bootstrap_servers());
    // Answers come early, so that there are pauses between polls.
    config.fetch_max_wait = MS;
    (config.retry_backoff, config.retry_backoff_max) = (300 * MS, 300 * MS);
    let client = Client::connect(config).await.unwrap();
    let fetcher = Fetcher::start(&client, at_the_end(&broker, "t", 2));
    let id = until_polls(&log, 2).await[1].session.0;
    sleep(50 * MS).await;
    broker.disconnect_all();
    let full = until_polls(&log, 3).await[2].clone();
    assert_eq!((full.session, full.named), ((id, 0), vec![(0, 20), (1, 20)]));
    fill(&broker, "t", 1, 1, 10, 0);
    assert_eq!(next(&fetcher).await, (1, 20, 30));
}

#[tokio::test]
async fn the_session_ends_with_the_fetcher() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 20);
    let log = polls(&broker, |_, _, _| Action::Pass);
    let ended = Arc::new(Mutex::new(None));
    let hook_ended = ended.clone();
    broker.on(ApiKey::Fetch, move |context| {
        let told = told(context);
        if told.named.is_empty() && told.session.1 == -1 {
            *hook_ended.lock().unwrap() = Some(told.session);
        }
        Action::Pass
    });
    let client = Client::connect(config(&broker.bootstrap_servers())).await.unwrap();
    let fetcher = Fetcher::start(&client, at_the_end(&broker, "t", 2));
    let id = until_polls(&log, 2).await[1].session.0;
    drop(fetcher);
    eventually("the end", || *ended.lock().unwrap() == Some((id, -1))).await;
    let polls = log.lock().unwrap().len();
    sleep(250 * MS).await;
    assert_eq!(log.lock().unwrap().len(), polls);
}

#[tokio::test]
async fn a_topic_without_an_id_begins_a_session_by_names() {
    let broker = start(1).await;
    topic(&broker, "with", 1, 20);
    topic(&broker, "without", 1, 20);
    let log = polls(&broker, |_, _, _| Action::Pass);
    let client = Client::connect(config(&broker.bootstrap_servers())).await.unwrap();
    let mut targets = at_the_end(&broker, "with", 1);
    // It has something to read before it is polled.
    targets.push(FetchTarget { topic_id: None, ..target(&broker, "without", 0, 0, i64::MAX) });
    targets[1].known_end = 20;
    let fetcher = Fetcher::start(&client, targets);
    until_polls(&log, 1).await;
    assert_eq!(next(&fetcher).await, (1, 0, 20));
    eventually("both are polled", || log.lock().unwrap().iter().any(|poll| poll.named.len() == 2)).await;
    let polls = log.lock().unwrap().clone();
    let both = polls.iter().position(|poll| poll.named.len() == 2).unwrap();
    assert_eq!(polls[both].version, 12);
    assert_eq!(polls[both].session.1, 0);
    assert!(both == 0 || polls[0].version > 12 && polls[both].session.0 > 0, "the old one ends: {polls:?}");
    for later in &until_polls(&log, both + 4).await[both + 1..] {
        assert!(later.version == 12 && later.session.1 > 0 && later.named.is_empty(), "{later:?}");
    }
    fill(&broker, "with", 0, 1, 10, 0);
    assert_eq!(next(&fetcher).await, (0, 20, 30));
    fill(&broker, "without", 0, 1, 10, 0);
    assert_eq!(next(&fetcher).await, (1, 20, 30));
}

/// Whoever is over before it was polled leaves nothing to ask.
#[tokio::test]
async fn nothing_is_polled_when_nobody_is_left() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 20);
    let log = polls(&broker, |_, _, _| Action::Pass);
    let client = Client::connect(config(&broker.bootstrap_servers())).await.unwrap();
    let mut targets = at_the_end(&broker, "t", 2);
    targets[0] = target(&broker, "t", 0, 0, 20);
    // It is over while the connection for polls is being made.
    broker.on(ApiKey::ApiVersions, |_| Action::Delay(200 * MS));
    let fetcher = Fetcher::start(&client, targets);
    sleep(100 * MS).await;
    fetcher.finish(1);
    let _held = timeout(PATIENCE, fetcher.next()).await.unwrap().unwrap().unwrap();
    sleep(500 * MS).await;
    assert_eq!(*log.lock().unwrap(), []);
}

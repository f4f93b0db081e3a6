//! Hooks: what goes wrong when asked to, and that nothing else does.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{ApiKey, FetchRequest, FindCoordinatorRequest, MetadataRequest};
use ottla_embedded::{Action, EmbeddedBroker, PartitionError, Request};

use crate::support::{Client, Position, batch, fetch, partitions, produce};

const LOGS: Position = Position { topic: "logs", partition: 0, offset: 0 };

async fn broker() -> EmbeddedBroker {
    let broker = EmbeddedBroker::start().await.unwrap();
    broker.create_topic("logs", 2, &[]).unwrap();
    broker.append("logs", 0, batch(10)).unwrap();
    broker.append("logs", 1, batch(10)).unwrap();
    broker
}

/// An action that is taken once.
fn once(broker: &EmbeddedBroker, api_key: ApiKey, action: Action) {
    let from = broker.requests(api_key);
    broker.clear_hooks(api_key);
    broker.on(api_key, move |request| if request.index == from { action.clone() } else { Action::Pass });
}

#[tokio::test]
async fn errors_go_where_they_are_asked_for() {
    let broker = broker().await;
    let mut client = Client::connect(&broker, 1).await;
    let both = [LOGS, Position { partition: 1, ..LOGS }];
    let mut codes = async |action: Action| {
        once(&broker, ApiKey::Fetch, action);
        let response = client.ask(12, fetch(&broker, 12, &both)).await;
        (response.error_code, partitions(&response).iter().map(|data| data.error_code).collect::<Vec<_>>())
    };
    assert_eq!(codes(Action::Pass).await, (0, vec![0, 0]));
    assert_eq!(codes(Action::Error(9)).await, (0, vec![9, 9]));
    assert_eq!(codes(Action::Error(-1)).await, (0, vec![-1, -1]));
    assert_eq!(codes(Action::Error(999)).await, (0, vec![999, 999]));
    assert_eq!(codes(Action::TopLevelError(70)).await, (70, vec![]));
    assert_eq!(codes(Action::PartitionErrors(vec![PartitionError::new("logs", 1, 56)])).await, (0, vec![0, 56]));

    once(&broker, ApiKey::Fetch, Action::TopLevelError(70));
    let response = client.ask(6, fetch(&broker, 6, &both)).await;
    assert!(partitions(&response).iter().all(|data| data.error_code == 70), "version 6 has no code of its own");

    once(&broker, ApiKey::FindCoordinator, Action::Error(15));
    let response = client.ask(3, FindCoordinatorRequest::default().with_key("g".into())).await;
    assert_eq!(response.error_code, ResponseError::CoordinatorNotAvailable.code());
    // A refused produce stores nothing.
    once(&broker, ApiKey::Produce, Action::Error(7));
    client.ask(9, produce(&broker, 9, "logs", 0, batch(1))).await;
    assert_eq!(broker.end_offset("logs", 0), Ok(10));
}

#[tokio::test]
async fn hooks_see_requests_and_the_newest_decides() {
    let broker = broker().await;
    let isolation = Arc::new(AtomicI32::new(-1));
    let seen = Arc::clone(&isolation);
    broker.on(ApiKey::Fetch, |_| Action::Error(5));
    broker.on(ApiKey::Fetch, move |context| {
        let Request::Fetch(request) = context.request else { return Action::Error(1) };
        assert_eq!((context.node, context.api_version, context.client_id), (1, 12, Some("test")));
        seen.store(i32::from(request.isolation_level), Ordering::SeqCst);
        if context.index == 0 { Action::Error(6) } else { Action::Pass }
    });
    let mut client = Client::connect(&broker, 1).await;
    for expected in [6, 5] {
        let response = client.ask(12, fetch(&broker, 12, &[LOGS]).with_isolation_level(1)).await;
        assert_eq!(partitions(&response)[0].error_code, expected);
    }
    assert_eq!(isolation.load(Ordering::SeqCst), 1);
    broker.clear_hooks(ApiKey::Fetch);
    let response = client.ask(12, fetch(&broker, 12, &[LOGS])).await;
    assert_eq!(partitions(&response)[0].error_code, 0);
    assert_eq!((broker.requests(ApiKey::Fetch), broker.requests(ApiKey::Produce)), (3, 0));
}

#[tokio::test]
async fn connections_break_before_in_and_after_an_answer() {
    let broker = broker().await;
    // Not handled.
    once(&broker, ApiKey::Produce, Action::Close);
    let mut client = Client::connect(&broker, 1).await;
    client.send(9, &produce(&broker, 9, "logs", 0, batch(1))).await;
    assert_eq!(client.receive_frame().await, None);
    assert_eq!(broker.end_offset("logs", 0), Ok(10));
    // Handled, but the client can't know.
    once(&broker, ApiKey::Produce, Action::CloseAfterHandling);
    let mut client = Client::connect(&broker, 1).await;
    client.send(9, &produce(&broker, 9, "logs", 0, batch(1))).await;
    assert_eq!(client.receive_frame().await, None);
    assert_eq!(broker.end_offset("logs", 0), Ok(11));
    // Cut inside the frame.
    use tokio::io::AsyncReadExt;
    for cut in [0, 3, 4, 50] {
        once(&broker, ApiKey::Fetch, Action::Truncate(cut));
        let mut client = Client::connect(&broker, 1).await;
        client.send(12, &fetch(&broker, 12, &[LOGS])).await;
        let mut received = Vec::new();
        client.stream.read_to_end(&mut received).await.unwrap();
        assert_eq!(received.len(), cut);
    }
    // Never answered, but open; other connections go on.
    once(&broker, ApiKey::Fetch, Action::Mute);
    let mut client = Client::connect(&broker, 1).await;
    client.send(12, &fetch(&broker, 12, &[LOGS])).await;
    client.send(9, &MetadataRequest::default()).await;
    Client::connect(&broker, 1).await.ask(9, MetadataRequest::default()).await;
    let answer = tokio::time::timeout(Duration::from_millis(200), client.receive_frame()).await;
    assert!(answer.is_err(), "neither an answer nor the end");
}

#[tokio::test]
async fn answers_come_late_throttled_or_changed() {
    let broker = broker().await;
    let mut client = Client::connect(&broker, 1).await;
    let wait = Duration::from_millis(150);
    once(&broker, ApiKey::Fetch, Action::Delay(wait));
    let begin = Instant::now();
    client.ask(12, fetch(&broker, 12, &[LOGS])).await;
    assert!(begin.elapsed() >= wait);

    // The answer is there at once; the connection is read again after the throttle time.
    once(&broker, ApiKey::Fetch, Action::Throttle(wait));
    let begin = Instant::now();
    let response = client.ask(12, fetch(&broker, 12, &[LOGS])).await;
    assert_eq!(response.throttle_time_ms, 150);
    assert_eq!(partitions(&response)[0].error_code, 0);
    client.ask(9, MetadataRequest::default()).await;
    assert!(begin.elapsed() >= wait);

    once(&broker, ApiKey::Fetch, Action::Replace(Bytes::from_static(b"\x00\x00\x00\x03abc")));
    client.send(12, &fetch(&broker, 12, &[LOGS])).await;
    assert_eq!(client.receive_frame().await.as_deref(), Some(&b"abc"[..]));

    // Another correlation id.
    let edit = |frame: Bytes| {
        let mut frame = frame.to_vec();
        frame[4..8].copy_from_slice(&77_i32.to_be_bytes());
        frame.into()
    };
    once(&broker, ApiKey::Fetch, Action::Edit(Arc::new(edit)));
    client.send(12, &fetch(&broker, 12, &[LOGS])).await;
    client.receive::<FetchRequest>(12, 77).await;
}

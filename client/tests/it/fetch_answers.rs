//! Answers that are legal but odd, and answers that are wrong.

use crate::support::{MS, client, config, edit_fetch, fill, next_batch, read, read_one, start, target, text, topic};
use bytes::Bytes;
use ottla_client::{Client, FetchErrorKind};
use ottla_embedded::Action;
use ottla_embedded::messages::ApiKey;
use ottla_protocol::message::FetchResponse;
use std::time::{Duration, Instant};

fn shuffle(response: &mut FetchResponse) {
    let mut responses = Vec::new();
    for topic in response.responses.drain(..) {
        for partition in topic.partitions.iter().rev() {
            let mut one = topic.clone();
            one.partitions = vec![partition.clone()];
            responses.insert(0, one);
        }
    }
    response.responses = responses;
}

#[tokio::test]
async fn another_order_and_a_repeated_topic() {
    let broker = start(1).await;
    topic(&broker, "a", 3, 100);
    topic(&broker, "b", 3, 100);
    broker.on(ApiKey::Fetch, |context| edit_fetch(context.api_version, shuffle));
    let client = client(&broker).await;
    let targets = ["a", "b"].iter().flat_map(|topic| (0..3).map(|p| target(&broker, topic, p, 0, 100)));
    for back in read(&client, targets.collect()).await {
        back.assert_range(0, 100);
    }
}

#[tokio::test]
async fn a_partition_left_out_is_asked_for_again_after_a_pause() {
    let broker = start(1).await;
    topic(&broker, "t", 4, 100);
    broker.on(ApiKey::Fetch, |context| {
        if context.index >= 6 {
            return Action::Pass;
        }
        edit_fetch(context.api_version, |response| {
            for topic in &mut response.responses {
                topic.partitions.retain(|partition| partition.partition_index % 2 == 0);
            }
        })
    });
    let client = client(&broker).await;
    for back in read(&client, (0..4).map(|p| target(&broker, "t", p, 0, 100)).collect()).await {
        back.assert_range(0, 100);
    }
}

#[tokio::test]
async fn a_partition_left_out_for_ever_is_an_error_in_time() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 100);
    broker.on(ApiKey::Fetch, |context| edit_fetch(context.api_version, |response| response.responses.clear()));
    let mut config = config(&broker.bootstrap_servers());
    config.default_api_timeout = Duration::from_secs(1);
    let client = Client::connect(config).await.unwrap();
    let start = Instant::now();
    let back = read_one(&client, &broker, "t", 0, 100).await;
    assert!(text(&back.error.unwrap()).contains("leaves out t-0"));
    assert!(start.elapsed() < Duration::from_millis(1200), "{:?}", start.elapsed());
    assert!(broker.requests(ApiKey::Fetch) < 30, "{} requests", broker.requests(ApiKey::Fetch));
}

#[tokio::test]
async fn partitions_that_nobody_asked_for_are_ignored() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 100);
    broker.on(ApiKey::Fetch, |context| {
        edit_fetch(context.api_version, |response| {
            let mut stranger = response.responses[0].clone();
            stranger.partitions[0].partition_index = 77;
            response.responses.push(stranger.clone());
            stranger.topic_id = ottla_protocol::Uuid([9; 16]);
            response.responses.push(stranger);
        })
    });
    read_one(&client(&broker).await, &broker, "t", 0, 100).await.assert_range(0, 100);
}

/// The broker says that there is data and sends none: a fault, but no reason to ask ten thousand times a second.
#[tokio::test]
async fn s_t03_data_that_is_claimed_but_not_sent() {
    let broker = start(1).await;
    topic(&broker, "t", 3, 100);
    broker.on(ApiKey::Fetch, |context| {
        edit_fetch(context.api_version, |response| {
            for partition in response.responses.iter_mut().flat_map(|topic| &mut topic.partitions) {
                partition.records = Some(Bytes::new());
            }
        })
    });
    let mut config = config(&broker.bootstrap_servers());
    config.poll_timeout = Duration::from_secs(2);
    config.fetch_max_wait = 500 * MS;
    let client = Client::connect(config).await.unwrap();
    let backs = read(&client, (0..3).map(|p| target(&broker, "t", p, 0, 100)).collect()).await;
    for back in backs {
        let error = back.error.unwrap();
        assert_eq!(error.position, 0);
        assert!(
            matches!(
                error.source,
                FetchErrorKind::NoData { until_offset: 100, last_stable_offset: 100, high_watermark: 100, after }
                    if after >= Duration::from_secs(2) && after < Duration::from_secs(4)
            ),
            "{error:?}"
        );
    }
    let requests = broker.requests(ApiKey::Fetch);
    assert!(requests < 40, "{requests} requests in about 2 s");
}

#[tokio::test]
async fn a_header_that_does_not_advance_is_an_error_and_no_loop() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 100);
    // The first batch again and again, whatever was asked for.
    let first = {
        let fresh = start(1).await;
        fresh.create_topic("t", 1, &[]).unwrap();
        next_batch(&fresh, "t", 0, 10, 0)
    };
    broker.on(ApiKey::Fetch, move |context| {
        if context.index > 9 {
            return Action::Error(29);
        }
        let first = first.clone();
        edit_fetch(context.api_version, move |response| {
            response.responses[0].partitions[0].records = Some(first.clone());
        })
    });
    let back = read_one(&client(&broker).await, &broker, "t", 0, 100).await;
    assert!(back.offsets.iter().copied().eq(0..10));
    let error = back.error.unwrap();
    assert!(matches!(error.source, FetchErrorKind::NoProgress { bytes: 70.. }), "{error:?}");
    assert_eq!(error.position, 10);
    assert!(broker.requests(ApiKey::Fetch) <= 3);
}

#[tokio::test]
async fn s_d08_damage_in_the_middle_ends_only_what_lies_behind_it() {
    let broker = start(1).await;
    topic(&broker, "t", 2, 30);
    // A length that can't be, in an otherwise good batch.
    let mut bad = next_batch(&broker, "t", 0, 10, 0).to_vec();
    bad[..8].copy_from_slice(&30_i64.to_be_bytes());
    bad[8..12].copy_from_slice(&3_i32.to_be_bytes());
    broker.append_raw("t", 0, bad.into(), 40).unwrap();
    fill(&broker, "t", 0, 2, 10, 0);
    let client = client(&broker).await;
    let backs = read(&client, vec![target(&broker, "t", 0, 0, 60), target(&broker, "t", 1, 0, 30)]).await;
    backs[1].assert_range(0, 30);
    assert!(backs[0].offsets.iter().copied().eq(0..30));
    let error = backs[0].error.as_ref().unwrap();
    assert_eq!(error.position, 30);
    let FetchErrorKind::Batch(batch) = &error.source else { panic!("{error:?}") };
    assert_eq!(batch.base_offset, 30);
    assert!(broker.requests(ApiKey::Fetch) <= 6, "{} requests", broker.requests(ApiKey::Fetch));
}

#[tokio::test]
async fn an_answer_that_can_t_be_read_is_an_error_that_says_so() {
    let broker = start(1).await;
    topic(&broker, "t", 1, 30);
    broker.on(ApiKey::Fetch, |context| {
        let mut frame = vec![0, 0, 0, 9];
        frame.extend_from_slice(&context.correlation_id.to_be_bytes());
        frame.extend_from_slice(&[0, 1, 2, 3, 4]);
        Action::Replace(frame.into())
    });
    let back = read_one(&client(&broker).await, &broker, "t", 0, 30).await;
    let error = text(&back.error.unwrap());
    assert!(error.contains("t-0 at offset 0") && error.contains("can't be read"), "{error}");
    assert_eq!(broker.requests(ApiKey::Fetch), 1);
}

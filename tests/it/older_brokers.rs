//! Brokers older than the newest: Kafka 3.9, and the embedded broker with nothing but the oldest versions.

use std::sync::OnceLock;

use ottla_embedded::EmbeddedBroker;
use ottla_embedded::messages::ApiKey;
use ottla_protocol::compression::Compression;
use support::{Codec, Isolation, KafkaCluster, Ottla, Produce, Recipe, Version, java_or_skip};

use crate::common::{Embedded, batch, isolation_option, offsets, read, rows, sentence};

pub(crate) const VERSION: Version = Version::V3_9;

/// The one older cluster that this binary starts.
pub(crate) fn kafka_3_9() -> &'static KafkaCluster {
    static SHARED: OnceLock<KafkaCluster> = OnceLock::new();
    SHARED.get_or_init(|| KafkaCluster::builder().version(VERSION).start())
}

#[test]
fn kafka_3_9_is_read_filtered_and_committed_to() {
    let Some(()) = java_or_skip("read, filter, commit and lag on Kafka 3.9") else { return };
    let kafka = kafka_3_9();
    let topic = kafka.create_topic("old-read", 3, &[]);
    for codec in Codec::ALL {
        kafka.produce(
            &Produce::generated(&topic, 3_000).codec(codec).partitions(3).keys("k").values("v", 20).headers(1),
        );
    }
    let transactions = Recipe::Txm.make(kafka);
    for isolation in [Isolation::ReadUncommitted, Isolation::ReadCommitted] {
        for topic in [&topic, &transactions.topic] {
            let args = ["--subscribe", topic, "--include-headers", "-X", isolation_option(isolation)];
            let printed = rows(&read(kafka.bootstrap_servers(), &args).run().expect_code(0));
            assert!(printed == kafka.consume(topic, isolation), "{topic} {isolation:?}");
        }
    }

    let args = ["--subscribe", &topic, "--where", "value LIKE 'v7_ %' AND partition <> 2", "--commit-group", "old"];
    let kept = rows(&read(kafka.bootstrap_servers(), &args).run().expect_code(0));
    // 70 to 79 without those of partition 2 (71, 74, 77), once a codec.
    assert_eq!(kept.len(), 7 * Codec::ALL.len());
    let theirs = kafka.group_table("old");
    assert!(
        theirs.len() == 3 && theirs.iter().all(|r| (r.current_offset, r.lag) == (Some(5_000), Some(0))),
        "{theirs:?}"
    );
    let id = kafka.topic_id(&topic);
    assert!(kafka.group_offsets("old").iter().all(|o| o.metadata.ends_with(&format!("topic_id={id}"))));
    let lag = Ottla::new(["lag", "-b", kafka.bootstrap_servers(), "--group", "old"]).run().expect_code(0);
    assert_eq!(support::parse_group_table(&lag.text()), theirs);
}

/// What was offered before 2017: no fetch sessions, no leader epochs, no flexible versions, one coordinator a request.
fn oldest() -> Embedded {
    let builder = EmbeddedBroker::builder()
        .nodes(2)
        .api_versions(ApiKey::ApiVersions, 0..=0)
        .api_versions(ApiKey::Metadata, 1..=4)
        .api_versions(ApiKey::Fetch, 4..=4)
        .api_versions(ApiKey::ListOffsets, 1..=1)
        .api_versions(ApiKey::OffsetCommit, 2..=2)
        .api_versions(ApiKey::OffsetFetch, 1..=2)
        .api_versions(ApiKey::FindCoordinator, 0..=0);
    Embedded::start(builder)
}

#[test]
fn the_oldest_versions_are_enough() {
    let broker = oldest();
    broker.create_topic("t", 3, &[]).unwrap();
    for (partition, codec) in [(0, Compression::None), (1, Compression::Gzip)] {
        for _ in 0..3 {
            broker.append("t", partition, batch(codec, ["a", "b", "c", "d"])).unwrap();
        }
    }
    let bootstrap = broker.bootstrap_servers();
    let args = ["--subscribe", "t", "--where", "value <> 'b'", "--commit-group", "g"];
    let printed = rows(&read(&bootstrap, &args).run().expect_code(0));
    assert_eq!(offsets(&printed), [0, 2, 3, 4, 6, 7, 8, 10, 11, 0, 2, 3, 4, 6, 7, 8, 10, 11]);
    let committed = |partition| broker.committed("g", "t", partition).map(|c| c.offset);
    assert_eq!([committed(0), committed(1), committed(2)], [Some(12), Some(12), Some(0)]);
    // Topic ids came later.
    assert!(broker.committed("g", "t", 0).is_some_and(|c| !c.metadata.contains("topic_id=")));

    let lag = Ottla::new(["lag", "-b", &bootstrap, "--group", "g"]).run().expect_code(0);
    let rows = support::parse_group_table(&lag.text());
    assert!(rows.len() == 3 && rows.iter().all(|r| r.lag == Some(0)), "{}", lag.text());

    let version = |api: ApiKey| broker.last_request(api).map(|r| r.api_version);
    for (api, expected) in [
        (ApiKey::Fetch, 4),
        (ApiKey::ListOffsets, 1),
        (ApiKey::OffsetCommit, 2),
        (ApiKey::OffsetFetch, 2),
        (ApiKey::FindCoordinator, 0),
        (ApiKey::ApiVersions, 0),
    ] {
        assert_eq!(version(api), Some(expected), "{api:?}");
    }
    assert!(sentence(&read(&bootstrap, &["--subscribe", "typo"]).run().expect_code(1)).contains("'typo'"));
}

/// Before version 2 an OffsetFetch names its partitions; `read` does, and so its commit can look before it leaps.
#[test]
fn a_commit_needs_no_more_than_offset_fetch_1() {
    let broker = Embedded::start(EmbeddedBroker::builder().api_versions(ApiKey::OffsetFetch, 1..=1));
    broker.create_topic("t", 1, &[]).unwrap();
    broker.append("t", 0, batch(Compression::Zstd, ["a", "b"])).unwrap();
    let args = ["--subscribe", "t", "--commit-group", "g", "--format", "none"];
    for _ in 0..2 {
        let _ = read(&broker.bootstrap_servers(), &args).run().expect_code(0);
        assert_eq!(broker.committed("g", "t", 0).map(|c| c.offset), Some(2));
    }
}

/// A broker whose Metadata can't be asked not to create topics is asked for no topic by name.
#[test]
fn metadata_that_would_create_topics() {
    let builder = EmbeddedBroker::builder().api_versions(ApiKey::Metadata, 1..=3).auto_create_topics(true);
    let broker = Embedded::start(builder);
    broker.create_topic("t", 1, &[]).unwrap();
    broker.append("t", 0, batch(Compression::None, ["a", "b"])).unwrap();
    let printed = rows(&read(&broker.bootstrap_servers(), &["--subscribe", "t"]).run().expect_code(0));
    assert_eq!(offsets(&printed), [0, 1]);
    let finished = read(&broker.bootstrap_servers(), &["--subscribe", "typo"]).run().expect_code(1);
    assert_eq!(sentence(&finished), "topic 'typo' does not exist");
    assert_eq!(broker.topic_id("typo"), None);
}

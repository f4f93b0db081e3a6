//! Every version that a real broker offers of every hand-written API is called once on a plain socket: the answer is read
//! to its last byte, and written again byte for byte.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ottla_protocol::message::*;
use ottla_protocol::record::{RecordBatches, next_fetch_offset};
use ottla_protocol::{
    ApiKey, ErrorCode, FRAME_LENGTH_BYTES, Message, Request, Uuid, decode_response, encode_request, encode_response,
};
use support::{Codec, KafkaCluster, Produce, Recipe, Version, java_or_skip, kafka_or_skip};

/// A connection, its negotiated versions, and what was called on it.
struct Live {
    stream: TcpStream,
    versions: ApiVersionsResponse,
    correlation_id: i32,
    called: Vec<(ApiKey, i16)>,
}

impl Live {
    fn connect(port: u16) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the broker listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut live = Self { stream, versions: ApiVersionsResponse::default(), correlation_id: 0, called: Vec::new() };
        live.versions = live.call(0, &ApiVersionsRequest::default());
        live
    }

    fn exchange<R: Request>(&mut self, version: i16, request: &R) -> Bytes {
        self.correlation_id += 1;
        let mut out = BytesMut::new();
        encode_request(version, self.correlation_id, Some("live"), request, &mut out).expect("a request");
        self.stream.write_all(&out).expect("the broker reads");
        let mut length = [0; FRAME_LENGTH_BYTES];
        self.stream.read_exact(&mut length).unwrap_or_else(|e| panic!("{} v{version}: {e}", R::API_KEY));
        let mut frame = vec![0; i32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame).expect("a whole frame");
        frame.into()
    }

    #[track_caller]
    fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        let frame = self.exchange(version, request);
        let (id, response) =
            decode_response::<R>(version, &frame).unwrap_or_else(|e| panic!("{} v{version}: {e}", R::API_KEY));
        assert_eq!(id, self.correlation_id);
        let mut again = BytesMut::new();
        encode_response::<R>(version, id, &response, &mut again).expect("what was read can be written");
        assert!(
            again[FRAME_LENGTH_BYTES..] == frame[..],
            "{} v{version}: other bytes than came, or some were left",
            R::API_KEY
        );
        self.called.push((R::API_KEY, version));
        response
    }

    /// The versions that the broker and the messages have in common.
    fn common<R: Request>(&self) -> std::ops::RangeInclusive<i16> {
        let theirs = self.versions.versions_of(R::API_KEY).expect("the broker has the API");
        let newest = R::VERSIONS.newest_common(theirs).expect("a common version");
        R::VERSIONS.min.max(theirs.min)..=newest
    }
}

fn list_offsets(topic: &str, version: i16, timestamp: i64) -> ListOffsetsRequest {
    let partition = ListOffsetsPartition { timestamp, ..Default::default() };
    let topic = ListOffsetsTopic { name: topic.to_owned(), partitions: vec![partition], ..Default::default() };
    let timeout_ms = if version >= 10 { 1_000 } else { 0 };
    ListOffsetsRequest { replica_id: -1, isolation_level: 0, topics: vec![topic], timeout_ms, ..Default::default() }
}

fn fetch(topic: &str, topic_id: Uuid, fetch_offset: i64, bytes: i32) -> FetchRequest {
    let partition = FetchPartition { fetch_offset, partition_max_bytes: bytes, ..Default::default() };
    let topic = FetchTopic { topic: topic.to_owned(), topic_id, partitions: vec![partition], ..Default::default() };
    FetchRequest {
        max_wait_ms: 100,
        min_bytes: 1,
        max_bytes: bytes,
        isolation_level: 1,
        topics: vec![topic],
        ..Default::default()
    }
}

fn call_every_version(kafka: &KafkaCluster) -> Live {
    let topic = kafka.create_topic("live", 1, &[]);
    kafka.produce(&Produce::generated(&topic, 100).codec(Codec::Zstd).timestamps(1_700_000_000_000, 1));
    let topic_id: Uuid = kafka.topic_id(&topic).parse().expect("an id");
    // A commit by Java's admin makes the coordinator, and something to fetch.
    kafka.commit_group_offsets("live-java", &[support::GroupOffset::new(&topic, 0, 7)]);
    let mut live = Live::connect(kafka.node(1).port);

    for version in live.common::<ApiVersionsRequest>() {
        let software = |since: i16, text: &str| if version >= since { text.to_owned() } else { String::new() };
        let request = ApiVersionsRequest {
            client_software_name: software(3, "ottla"),
            client_software_version: software(3, "1"),
            ..Default::default()
        };
        let answer = live.call(version, &request);
        assert!(answer.error_code.is_none() && answer.versions_of(ApiKey::FETCH).is_some());
    }
    for version in live.common::<MetadataRequest>() {
        let asked = MetadataRequestTopic { name: Some(topic.clone()), ..Default::default() };
        let request =
            MetadataRequest { topics: Some(vec![asked]), allow_auto_topic_creation: version < 4, ..Default::default() };
        let answer = live.call(version, &request);
        assert_eq!((answer.brokers.len(), answer.topics[0].name.as_deref()), (1, Some(topic.as_str())));
        assert_eq!((answer.topics[0].error_code, answer.topics[0].partitions[0].leader_id), (ErrorCode::NONE, 1));
        assert!(version < 10 || answer.topics[0].topic_id == topic_id);
    }
    for version in live.common::<ListOffsetsRequest>() {
        for (timestamp, offset) in [
            (-1, 100),
            (-2, 0),
            (-3, 99),
            (-4, 0),
            (-5, -1),
            (-6, -1),
            (1_700_000_000_050, 50),
            (1_800_000_000_000, -1),
        ] {
            let answer = live.call(version, &list_offsets(&topic, version, timestamp));
            let found = &answer.topics[0].partitions[0];
            if version < ListOffsetsPartition::first_version(timestamp) {
                assert_eq!(found.error_code, ErrorCode::UNSUPPORTED_VERSION, "v{version} {timestamp}");
            } else {
                assert_eq!((found.error_code, found.offset), (ErrorCode::NONE, offset), "v{version} {timestamp}");
            }
        }
    }
    for version in live.common::<FetchRequest>() {
        for (offset, code) in
            [(0, ErrorCode::NONE), (57, ErrorCode::NONE), (100, ErrorCode::NONE), (101, ErrorCode::OFFSET_OUT_OF_RANGE)]
        {
            let answer = live.call(version, &fetch(&topic, topic_id, offset, 1 << 20));
            let partition = &answer.responses[0].partitions[0];
            assert_eq!(partition.error_code, code, "v{version} at {offset}");
            let records = partition.records.clone().unwrap_or_default();
            if offset < 100 {
                assert_eq!((next_fetch_offset(&records, offset), partition.high_watermark), (100, 100));
            } else {
                assert!(records.is_empty());
            }
        }
    }
    for version in live.common::<FindCoordinatorRequest>() {
        let mut request = FindCoordinatorRequest::default();
        match version {
            0..=3 => request.key = "live-java".to_owned(),
            _ => request.coordinator_keys = vec!["live-java".to_owned(), "another".to_owned()],
        }
        let answer = live.call(version, &request);
        let node = if version < 4 { answer.node_id } else { answer.coordinators[1].node_id };
        assert_eq!((node, answer.error_code), (1, ErrorCode::NONE));
    }
    for version in live.common::<OffsetCommitRequest>() {
        let partition = OffsetCommitRequestPartition {
            committed_offset: i64::from(version),
            committed_metadata: Some(format!("v{version}")),
            ..Default::default()
        };
        let asked = OffsetCommitRequestTopic {
            name: topic.clone(),
            topic_id,
            partitions: vec![partition],
            ..Default::default()
        };
        let request =
            OffsetCommitRequest { group_id: "live-ours".to_owned(), topics: vec![asked], ..Default::default() };
        let answer = live.call(version, &request);
        assert_eq!(answer.topics[0].partitions[0].error_code, ErrorCode::NONE, "v{version}");
        assert_eq!(kafka.group_offsets("live-ours")[0].metadata, format!("v{version}"));
    }
    for version in live.common::<OffsetFetchRequest>() {
        let mut request = OffsetFetchRequest::default();
        if version < 8 {
            request.group_id = "live-java".to_owned();
            let asked =
                OffsetFetchRequestTopic { name: topic.clone(), partition_indexes: vec![0], ..Default::default() };
            request.topics = Some(vec![asked]);
        } else {
            let asked = OffsetFetchRequestTopics {
                name: topic.clone(),
                topic_id,
                partition_indexes: vec![0],
                ..Default::default()
            };
            let group =
                |id: &str, topics| OffsetFetchRequestGroup { group_id: id.to_owned(), topics, ..Default::default() };
            request.groups = vec![group("live-java", Some(vec![asked])), group("live-ours", None)];
        }
        let answer = live.call(version, &request);
        let offset = match version {
            0..=7 => answer.topics[0].partitions[0].committed_offset,
            _ => {
                assert_eq!(answer.groups.len(), 2);
                let asked = answer.groups.iter().find(|g| g.group_id == "live-java").expect("the group asked for");
                asked.topics[0].partitions[0].committed_offset
            }
        };
        assert_eq!(offset, 7, "v{version}");
    }
    for version in live.common::<OffsetForLeaderEpochRequest>() {
        let partition = OffsetForLeaderPartition { leader_epoch: 0, ..Default::default() };
        let asked = OffsetForLeaderTopic { topic: topic.clone(), partitions: vec![partition], ..Default::default() };
        let replica_id = if version >= 3 { -1 } else { -2 };
        let answer =
            live.call(version, &OffsetForLeaderEpochRequest { replica_id, topics: vec![asked], ..Default::default() });
        let found = &answer.topics[0].partitions[0];
        assert_eq!((found.error_code, found.leader_epoch, found.end_offset), (ErrorCode::NONE, 0, 100));
    }
    live
}

fn newest(live: &Live) -> Vec<(&'static str, i16)> {
    let mut newest: Vec<(&str, i16)> = Vec::new();
    for (api, version) in &live.called {
        let name = api.name().expect("a hand-written API");
        match newest.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = (*known).max(*version),
            None => newest.push((name, *version)),
        }
    }
    newest
}

#[test]
fn every_version_of_kafka_4_3() {
    let Some(kafka) = kafka_or_skip("every version of every API on the wire") else { return };
    let live = call_every_version(kafka);
    let expected = [
        ("ApiVersions", 4),
        ("Metadata", 13),
        ("ListOffsets", 11),
        ("Fetch", 18),
        ("FindCoordinator", 6),
        ("OffsetCommit", 10),
        ("OffsetFetch", 10),
        ("OffsetForLeaderEpoch", 4),
    ];
    assert_eq!(newest(&live), expected);
    for (name, newest) in expected {
        let offered = live.versions.versions_of(ApiKey::from_name(name).expect("its number")).expect("its versions");
        assert_eq!(offered.max, newest, "{name}: nothing that the broker offers is left out");
    }
}

#[test]
fn every_version_of_kafka_3_9() {
    let Some(()) = java_or_skip("every version of Kafka 3.9 on the wire") else { return };
    let kafka = super::older_brokers::kafka_3_9();
    let live = call_every_version(kafka);
    assert!(newest(&live).contains(&("Fetch", 17)), "{:?}", newest(&live));
    assert_eq!(Version::V3_9, super::older_brokers::VERSION);
}

#[test]
fn s_d06_a_real_broker_cuts_the_last_batch() {
    let Some(kafka) = kafka_or_skip("S-D06: a batch that the byte limit cuts") else { return };
    let made = Recipe::Open.make(kafka);
    let mut live = Live::connect(kafka.node(1).port);
    let mut request = fetch(&made.topic, Uuid::default(), 0, 150);
    request.isolation_level = 0;
    let answer = live.call(4, &request);
    let records = answer.responses[0].partitions[0].records.clone().expect("records");
    assert_eq!(records.len(), 150);
    let mut batches = RecordBatches::new(&records);
    let whole = batches.by_ref().map(|b| b.expect("a whole batch").check_crc().expect("undamaged")).count();
    assert_eq!((whole, batches.trailing_bytes() > 0, next_fetch_offset(&records, 0)), (2, true, 2));
}

#[test]
fn s_n14_versions_that_the_broker_does_not_have() {
    let Some(kafka) = kafka_or_skip("S-N14: the answer to a version that is too new") else { return };
    let mut live = Live::connect(kafka.node(1).port);
    // What a client of the future sends: the version is not one that can be encoded here.
    let mut out = BytesMut::new();
    encode_request(4, 9, Some("live"), &ApiVersionsRequest::default(), &mut out).expect("a request");
    out[FRAME_LENGTH_BYTES + 2..FRAME_LENGTH_BYTES + 4].copy_from_slice(&99_i16.to_be_bytes());
    live.stream.write_all(&out).expect("the broker reads");
    let mut length = [0; FRAME_LENGTH_BYTES];
    live.stream.read_exact(&mut length).expect("an answer");
    let mut frame = vec![0; i32::from_be_bytes(length) as usize];
    live.stream.read_exact(&mut frame).expect("a whole frame");
    let (id, answer) = ApiVersionsResponse::decode_any(99, &frame.into()).expect("version 0");
    assert_eq!((id, answer.error_code), (9, ErrorCode::UNSUPPORTED_VERSION));
    assert_eq!(answer.versions_of(ApiKey::API_VERSIONS).map(|v| v.max), Some(ApiVersionsRequest::VERSIONS.max));
}

//! Produce, Fetch and ListOffsets: bytes in, the same bytes out, and where they are.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::fetch_request::ForgottenTopic;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{FetchRequest, ListOffsetsRequest, MetadataRequest, ProduceRequest};
use ottla_embedded::EmbeddedBroker;

use crate::support::{Client, PLAIN, Position, Writer, batch, batch_of, fetch, partitions, produce, topic_name};

const LOGS: Position = Position { topic: "logs", partition: 0, offset: 0 };

fn at(offset: i64) -> Position {
    Position { offset, ..LOGS }
}

async fn broker_with(batches: usize) -> EmbeddedBroker {
    let broker = EmbeddedBroker::start().await.unwrap();
    broker.create_topic("logs", 2, &[]).unwrap();
    for _ in 0..batches {
        broker.append("logs", 0, batch(10)).unwrap();
    }
    broker
}

/// The batch with what the broker assigns: base offset and leader epoch.
fn stored(batch: &Bytes, base_offset: i64, leader_epoch: i32) -> Vec<u8> {
    let mut bytes = batch.to_vec();
    bytes[..8].copy_from_slice(&base_offset.to_be_bytes());
    bytes[12..16].copy_from_slice(&leader_epoch.to_be_bytes());
    bytes
}

#[tokio::test]
async fn batches_come_back_byte_for_byte_in_every_version() {
    let broker = broker_with(0).await;
    let mut client = Client::connect(&broker, 1).await;
    let idempotent = Writer { producer_id: 77, ..PLAIN };
    let mut expected = Vec::new();
    for version in 3..=13 {
        let base_offset = broker.end_offset("logs", 0).unwrap();
        let batches = [batch(3), batch_of(idempotent, 2, 100)];
        let response = client.ask(version, produce(&broker, version, "logs", 0, batches.concat().into())).await;
        let result = &response.responses[0].partition_responses[0];
        assert_eq!((result.error_code, result.base_offset, result.log_append_time_ms), (0, base_offset, -1));
        expected.extend(stored(&batches[0], base_offset, 0));
        expected.extend(stored(&batches[1], base_offset + 3, 0));
    }
    for version in 4..=18 {
        let response = client.ask(version, fetch(&broker, version, &[LOGS])).await;
        let data = partitions(&response)[0];
        assert_eq!((data.error_code, data.high_watermark, data.last_stable_offset), (0, 55, 55));
        assert_eq!(data.records.as_deref(), Some(&expected[..]), "Fetch {version}");
    }
}

#[tokio::test]
async fn produce_refuses_what_a_broker_refuses() {
    let broker = broker_with(0).await;
    broker.create_topic("small", 1, &[("max.message.bytes", "100")]).unwrap();
    let mut client = Client::connect(&broker, 1).await;
    let good = batch(3);
    let mut damaged = good.to_vec();
    damaged[70] ^= 1;
    let mut old = good.to_vec();
    old[16] = 1;
    let cases: [(&'static str, i32, Bytes, ResponseError); 7] = [
        ("logs", 0, damaged.into(), ResponseError::CorruptMessage),
        ("logs", 0, good.slice(..good.len() - 1), ResponseError::CorruptMessage),
        ("logs", 0, old.into(), ResponseError::InvalidRecord),
        ("logs", 0, Bytes::new(), ResponseError::InvalidRecord),
        ("logs", 7, good.clone(), ResponseError::UnknownTopicOrPartition),
        ("other", 0, good.clone(), ResponseError::UnknownTopicOrPartition),
        ("small", 0, good.clone(), ResponseError::MessageTooLarge),
    ];
    for (topic, partition, records, error) in cases {
        let response = client.ask(9, produce(&broker, 9, topic, partition, records)).await;
        let result = &response.responses[0].partition_responses[0];
        assert_eq!((result.error_code, result.base_offset), (error.code(), -1), "{error:?}");
    }
    let unknown_id = client.ask(13, produce(&broker, 13, "other", 0, good.clone())).await;
    let code = unknown_id.responses[0].partition_responses[0].error_code;
    assert_eq!(code, ResponseError::UnknownTopicId.code());
    assert_eq!(broker.end_offset("logs", 0), Ok(0));

    // With acks=0 there is no answer: the next one is for the next request.
    let silent: ProduceRequest = produce(&broker, 9, "logs", 0, good).with_acks(0);
    client.send(9, &silent).await;
    client.ask(9, MetadataRequest::default()).await;
    assert_eq!(broker.end_offset("logs", 0), Ok(3));
}

#[tokio::test]
async fn append_time_is_written_with_a_new_crc() {
    let broker = EmbeddedBroker::start().await.unwrap();
    broker.create_topic("logs", 1, &[("message.timestamp.type", "LogAppendTime")]).unwrap();
    let mut client = Client::connect(&broker, 1).await;
    let response = client.ask(9, produce(&broker, 9, "logs", 0, batch(3))).await;
    let time = response.responses[0].partition_responses[0].log_append_time_ms;
    let response = client.ask(12, fetch(&broker, 12, &[LOGS])).await;
    let mut records = partitions(&response)[0].records.clone().unwrap();
    assert_eq!(records[22] & 8, 8, "the timestamp type");
    assert_eq!(records[35..43], time.to_be_bytes());
    // Its decoder checks the CRC.
    let sets = kafka_protocol::records::RecordBatchDecoder::decode_all(&mut records).unwrap();
    assert_eq!(sets[0].records.len(), 3);
}

#[tokio::test]
async fn a_fetch_begins_with_the_batch_that_holds_the_offset() {
    let broker = broker_with(3).await;
    let mut client = Client::connect(&broker, 1).await;
    let size = batch(10).len();
    for (offset, batches) in [(0, 3), (9, 3), (10, 2), (19, 2), (29, 1), (30, 0)] {
        let response = client.ask(12, fetch(&broker, 12, &[at(offset)])).await;
        let data = partitions(&response)[0];
        assert_eq!((data.error_code, data.records.as_ref().unwrap().len()), (0, batches * size), "offset {offset}");
    }
    broker.delete_records("logs", 0, 15).unwrap();
    let response = client.ask(12, fetch(&broker, 12, &[at(15)])).await;
    assert_eq!(partitions(&response)[0].log_start_offset, 15);
    assert_eq!(partitions(&response)[0].records.as_ref().unwrap()[..8], 10_i64.to_be_bytes());
    for offset in [14, 31, -1] {
        let response = client.ask(12, fetch(&broker, 12, &[at(offset)])).await;
        let data = partitions(&response)[0];
        assert_eq!(data.error_code, ResponseError::OffsetOutOfRange.code());
        assert_eq!((data.high_watermark, data.last_stable_offset, data.log_start_offset), (-1, -1, -1));
    }
}

#[tokio::test]
async fn limits_cut_the_last_batch_but_never_the_first_answered() {
    let broker = broker_with(3).await;
    for _ in 0..3 {
        broker.append("logs", 1, batch(10)).unwrap();
    }
    let mut client = Client::connect(&broker, 1).await;
    let size = batch(10).len();
    let both = [LOGS, Position { partition: 1, ..LOGS }];
    let mut lengths = async |max_bytes: usize, partition_max_bytes: usize| {
        let mut request = fetch(&broker, 12, &both).with_max_bytes(i32::try_from(max_bytes).unwrap());
        for topic in &mut request.topics {
            topic.partitions[0].partition_max_bytes = i32::try_from(partition_max_bytes).unwrap();
        }
        let response = client.ask(12, request).await;
        partitions(&response).iter().map(|data| data.records.as_ref().unwrap().len()).collect::<Vec<_>>()
    };
    assert_eq!(lengths(1 << 20, 1 << 20).await, [3 * size, 3 * size]);
    assert_eq!(lengths(1, 1 << 20).await, [size, 0], "the first batch is whole, the second partition's is not sent");
    assert_eq!(lengths(1 << 20, 1).await, [size, 0]);
    assert_eq!(lengths(1 << 20, 2 * size + 7).await, [2 * size + 7, 2 * size + 7], "cut inside a header");
    assert_eq!(lengths(4 * size - 1, 1 << 20).await, [3 * size, 0], "only a cut batch would fit");
    assert_eq!(lengths(4 * size, 1 << 20).await, [3 * size, size]);
}

#[tokio::test]
async fn raw_bytes_and_gaps_are_served_as_they_are() {
    let broker = broker_with(1).await;
    broker.append_raw("logs", 0, Bytes::from_static(b"damaged"), 15).unwrap();
    broker.append_raw("logs", 0, Bytes::new(), 20).unwrap();
    broker.append("logs", 0, batch(1)).unwrap();
    let mut client = Client::connect(&broker, 1).await;
    let response = client.ask(12, fetch(&broker, 12, &[at(12)])).await;
    let data = partitions(&response)[0];
    let expected = [b"damaged".to_vec(), stored(&batch(1), 20, 0)].concat();
    assert_eq!((data.high_watermark, data.records.as_deref()), (21, Some(&expected[..])));
    let response = client.ask(12, fetch(&broker, 12, &[at(16)])).await;
    assert_eq!(partitions(&response)[0].records.as_deref(), Some(&stored(&batch(1), 20, 0)[..]));
    assert!(broker.append("logs", 0, Bytes::from_static(b"damaged")).is_err());
}

#[tokio::test]
async fn a_long_poll_holds_the_connection_until_there_are_bytes() {
    let broker = broker_with(0).await;
    let mut client = Client::connect(&broker, 1).await;
    let size = batch(10).len();
    let request: FetchRequest =
        fetch(&broker, 12, &[LOGS]).with_max_wait_ms(60_000).with_min_bytes(i32::try_from(size + 1).unwrap());
    let first = client.send(12, &request).await;
    let second = client.send(9, &MetadataRequest::default()).await;
    broker.append("logs", 0, batch(10)).unwrap();
    let waited = tokio::time::timeout(Duration::from_millis(200), client.stream.readable()).await;
    assert!(waited.is_err(), "too few bytes for an answer, and the second request waits behind the first");
    broker.append("logs", 0, batch(10)).unwrap();
    let response = client.receive::<FetchRequest>(12, first).await;
    assert_eq!(partitions(&response)[0].records.as_ref().unwrap().len(), 2 * size);
    client.receive::<MetadataRequest>(9, second).await;

    let begin = Instant::now();
    let response = client.ask(12, fetch(&broker, 12, &[at(20)]).with_max_wait_ms(150)).await;
    assert!(begin.elapsed() >= Duration::from_millis(150));
    assert_eq!(partitions(&response)[0].records.as_ref().unwrap().len(), 0);
    // An error is told at once.
    let begin = Instant::now();
    let error = client.ask(12, fetch(&broker, 12, &[at(20), at(99)]).with_max_wait_ms(60_000)).await;
    assert_eq!(partitions(&error)[1].error_code, ResponseError::OffsetOutOfRange.code());
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn a_session_tells_only_what_changed() {
    for version in [7, 12, 13, 18] {
        let broker = broker_with(1).await;
        let mut client = Client::connect(&broker, 1).await;
        let both = [at(10), Position { partition: 1, ..LOGS }];
        let full = client.ask(version, fetch(&broker, version, &both).with_session_epoch(0)).await;
        assert_eq!(partitions(&full).len(), 2);
        let id = full.session_id;
        assert!(id > 0);
        let next = |epoch: i32, positions: &[Position]| {
            fetch(&broker, version, positions).with_session_id(id).with_session_epoch(epoch)
        };
        assert_eq!(client.ask(version, next(1, &[])).await.responses, []);
        broker.append("logs", 1, batch(10)).unwrap();
        let changed = client.ask(version, next(2, &[])).await;
        assert_eq!(partitions(&changed).iter().map(|data| data.partition_index).collect::<Vec<_>>(), [1]);
        assert_eq!(partitions(&changed)[0].records.as_ref().unwrap().len(), batch(10).len());
        // The position moves, so nothing is new; an error is told again and again.
        let moved = Position { partition: 1, offset: 10, ..LOGS };
        assert_eq!(client.ask(version, next(3, &[moved])).await.responses, []);
        let beyond = Position { partition: 1, offset: 99, ..LOGS };
        for (epoch, positions) in [(4, &[beyond][..]), (5, &[])] {
            let response = client.ask(version, next(epoch, positions)).await;
            assert_eq!(partitions(&response)[0].error_code, ResponseError::OffsetOutOfRange.code());
        }
        let mut forget = next(6, &[]);
        let asked = next(6, &[LOGS]).topics.remove(0);
        let forgotten = ForgottenTopic::default().with_partitions(vec![1]);
        forget.forgotten_topics_data = vec![forgotten.with_topic(asked.topic).with_topic_id(asked.topic_id)];
        assert_eq!(client.ask(version, forget).await.responses, []);

        let error = client.ask(version, next(6, &[])).await;
        assert_eq!(error.error_code, ResponseError::InvalidFetchSessionEpoch.code());
        let other = fetch(&broker, version, &[]).with_session_id(id + 1).with_session_epoch(1);
        assert_eq!(client.ask(version, other).await.error_code, ResponseError::FetchSessionIdNotFound.code());
        let last = client.ask(version, next(-1, &[LOGS])).await;
        assert_eq!((last.session_id, partitions(&last).len()), (0, 1));
        let closed = client.ask(version, next(7, &[])).await;
        assert_eq!(closed.error_code, ResponseError::FetchSessionIdNotFound.code());
    }
}

#[tokio::test]
async fn a_session_does_not_mix_names_and_ids_and_notices_deleted_topics() {
    let broker = broker_with(1).await;
    let mut client = Client::connect(&broker, 1).await;
    let full = client.ask(18, fetch(&broker, 18, &[LOGS]).with_session_epoch(0)).await;
    let next = |epoch| FetchRequest::default().with_session_id(full.session_id).with_session_epoch(epoch);
    assert_eq!(client.ask(12, next(1)).await.error_code, ResponseError::FetchSessionTopicIdError.code());
    broker.delete_topic("logs").unwrap();
    let response = client.ask(18, next(1)).await;
    assert_eq!(partitions(&response)[0].error_code, ResponseError::UnknownTopicOrPartition.code());
    broker.create_topic("logs", 1, &[]).unwrap();
    let response = client.ask(18, next(2)).await;
    assert_eq!(partitions(&response)[0].error_code, ResponseError::InconsistentTopicId.code());
    let unknown = client.ask(18, fetch(&broker, 18, &[Position { topic: "other", ..LOGS }])).await;
    assert_eq!(partitions(&unknown)[0].error_code, ResponseError::UnknownTopicId.code());
}

fn list(version: i16, timestamp: i64) -> (i16, ListOffsetsRequest) {
    let partition = ListOffsetsPartition::default().with_timestamp(timestamp);
    let topic = ListOffsetsTopic::default().with_name(topic_name("logs")).with_partitions(vec![partition]);
    (version, ListOffsetsRequest::default().with_topics(vec![topic]))
}

#[tokio::test]
async fn offsets_are_found_by_position_and_time() {
    let broker = broker_with(0).await;
    // Records at 1000, 1010, … 1090 and 500, 510, … 590.
    broker.append("logs", 0, batch(10)).unwrap();
    broker.append("logs", 0, batch_of(Writer { first_timestamp: 500, ..PLAIN }, 10, 1)).unwrap();
    broker.delete_records("logs", 0, 3).unwrap();
    let mut client = Client::connect(&broker, 1).await;
    let cases = [
        // version, timestamp, error, timestamp, offset
        (1, -1, 0, -1, 20),
        (10, -1, 0, -1, 20),
        (1, -2, 0, -1, 3),
        (7, -3, 0, 1_090, 9),
        (8, -4, 0, -1, 3),
        (9, -5, 0, -1, -1),
        (6, -3, 35, -1, -1),
        (7, -4, 35, -1, -1),
        (8, -5, 35, -1, -1),
        (10, -6, 35, -1, -1),
        (5, 0, 0, 1_030, 3),
        (5, 1_045, 0, 1_050, 5),
        (5, 1_090, 0, 1_090, 9),
        (5, 1_091, 0, -1, -1),
    ];
    for (version, timestamp, error, found, offset) in cases {
        let (version, request) = list(version, timestamp);
        let response = client.ask(version, request).await;
        let data = &response.topics[0].partitions[0];
        assert_eq!((data.error_code, data.timestamp, data.offset), (error, found, offset), "{timestamp} in {version}");
    }
    let (version, mut request) = list(5, -1);
    let again = request.topics[0].clone();
    request.topics.push(again);
    let response = client.ask(version, request).await;
    assert!(response.topics.iter().all(|topic| topic.partitions[0].error_code == 42), "asked twice");
}

//! A client of few lines on `kafka-protocol`'s own encoders, and batches to produce.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    ApiKey, FetchRequest, FetchResponse, ProduceRequest, RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, Request, StrBytes};
use kafka_protocol::records::{Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType};
use ottla_embedded::EmbeddedBroker;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;

/// Far longer than any answer takes, so that a missing one fails the test.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to one node.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    correlation_id: i32,
}

impl Client {
    pub(crate) async fn connect(broker: &EmbeddedBroker, node: i32) -> Self {
        let stream = TcpStream::connect(broker.address(node).unwrap()).await.unwrap();
        Self { stream, correlation_id: 0 }
    }

    /// Sends without waiting; returns the correlation id.
    pub(crate) async fn send<R: Request>(&mut self, version: i16, request: &R) -> i32 {
        self.correlation_id += 1;
        let mut frame = BytesMut::from(&[0; 4][..]);
        RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation_id)
            .with_client_id(Some(StrBytes::from_static_str("test")))
            .encode(&mut frame, R::header_version(version))
            .unwrap();
        request.encode(&mut frame, version).unwrap();
        let length = i32::try_from(frame.len() - 4).unwrap();
        frame[..4].copy_from_slice(&length.to_be_bytes());
        self.stream.write_all(&frame).await.unwrap();
        self.correlation_id
    }

    /// The next frame without its length; `None` when the connection was closed.
    pub(crate) async fn receive_frame(&mut self) -> Option<Bytes> {
        let read = async {
            let length = self.stream.read_i32().await.ok()?;
            let mut frame = vec![0; usize::try_from(length).unwrap()];
            self.stream.read_exact(&mut frame).await.ok()?;
            Some(frame.into())
        };
        tokio::time::timeout(ANSWER_TIMEOUT, read).await.expect("an answer or the end in time")
    }

    pub(crate) async fn receive<R: Request>(&mut self, version: i16, correlation_id: i32) -> R::Response {
        let mut frame = self.receive_frame().await.expect("an answer");
        let api_key = ApiKey::try_from(R::KEY).unwrap();
        let header = ResponseHeader::decode(&mut frame, api_key.response_header_version(version)).unwrap();
        assert_eq!(header.correlation_id, correlation_id);
        let response = R::Response::decode(&mut frame, version).unwrap();
        assert_eq!(frame.remaining(), 0, "bytes after the response");
        response
    }

    pub(crate) async fn ask<R: Request>(&mut self, version: i16, request: R) -> R::Response {
        let correlation_id = self.send(version, &request).await;
        self.receive::<R>(version, correlation_id).await
    }
}

/// Who writes a batch, and when.
#[derive(Clone, Copy)]
pub(crate) struct Writer {
    pub(crate) producer_id: i64,
    pub(crate) transactional: bool,
    pub(crate) first_timestamp: i64,
}

pub(crate) const PLAIN: Writer = Writer { producer_id: -1, transactional: false, first_timestamp: 1_000 };

/// An uncompressed batch v2 of `count` records with values of `value_bytes` bytes, 10 ms apart.
pub(crate) fn batch_of(writer: Writer, count: usize, value_bytes: usize) -> Bytes {
    let records: Vec<Record> = (0..count)
        .map(|index| {
            let index = i64::try_from(index).unwrap();
            Record {
                transactional: writer.transactional,
                control: false,
                delete_horizon: false,
                partition_leader_epoch: -1,
                producer_id: writer.producer_id,
                producer_epoch: if writer.producer_id < 0 { -1 } else { 0 },
                timestamp_type: TimestampType::Creation,
                offset: index,
                // The encoder cuts where sequences don't go on; so the first is -1, which is the batch's, and the others follow.
                sequence: i32::try_from(index).unwrap() - i32::from(writer.producer_id < 0),
                timestamp: writer.first_timestamp + 10 * index,
                key: None,
                value: Some(Bytes::from(vec![b'v'; value_bytes])),
                headers: Default::default(),
            }
        })
        .collect();
    let mut bytes = BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut bytes, &records, &options).unwrap();
    bytes.freeze()
}

pub(crate) fn batch(count: usize) -> Bytes {
    batch_of(PLAIN, count, 10)
}

pub(crate) fn topic_name(name: &'static str) -> TopicName {
    TopicName(StrBytes::from_static_str(name))
}

/// One partition to fetch.
#[derive(Clone, Copy)]
pub(crate) struct Position {
    pub(crate) topic: &'static str,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

/// A fetch of these positions by name and by id, without a session, that does not wait.
pub(crate) fn fetch(broker: &EmbeddedBroker, version: i16, positions: &[Position]) -> FetchRequest {
    let topics = positions.iter().map(|position| {
        let partition = FetchPartition::default()
            .with_partition(position.partition)
            .with_fetch_offset(position.offset)
            .with_partition_max_bytes(1 << 20);
        let topic = FetchTopic::default().with_partitions(vec![partition]);
        if version < 13 {
            topic.with_topic(topic_name(position.topic))
        } else {
            topic.with_topic_id(Uuid::from_bytes(broker.topic_id(position.topic).unwrap_or([9; 16])))
        }
    });
    FetchRequest::default()
        .with_max_wait_ms(0)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_topics(topics.collect())
}

/// All partitions of a response, in order.
pub(crate) fn partitions(response: &FetchResponse) -> Vec<&PartitionData> {
    response.responses.iter().flat_map(|topic| &topic.partitions).collect()
}

/// A produce request for one partition, acks=all.
pub(crate) fn produce(
    broker: &EmbeddedBroker,
    version: i16,
    topic: &'static str,
    partition: i32,
    records: Bytes,
) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(records));
    let topic_data = TopicProduceData::default().with_partition_data(vec![data]);
    let topic_data = if version < 13 {
        topic_data.with_name(topic_name(topic))
    } else {
        topic_data.with_topic_id(Uuid::from_bytes(broker.topic_id(topic).unwrap_or([9; 16])))
    };
    ProduceRequest::default().with_acks(-1).with_timeout_ms(1_000).with_topic_data(vec![topic_data])
}

//! Sends batches of our own builder to a real broker, so that it holds the same bytes as the other benches read.

use crate::data::{Counts, Run};
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiKey, ProduceRequest, ProduceResponse, RequestHeader, ResponseHeader, TopicName,
    produce_request::{PartitionProduceData, TopicProduceData},
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Of Produce: what all brokers since 2.8 take.
const VERSION: i16 = 9;

/// Sends a run to each of a topic's `partitions`, which must be led by the broker at `address`, and says what is in all of them.
///
/// # Panics
/// When the broker does not take a batch.
pub fn fill(address: &str, topic: &str, partitions: i32, run: &Run) -> Counts {
    let mut socket = TcpStream::connect(address).expect("a broker");
    socket.set_nodelay(true).expect("a socket");
    let mut counts = Counts::default();
    for partition in 0..partitions {
        // A request takes one batch of a partition.
        for batch in &run.batches {
            send(&mut socket, topic, partition, batch);
        }
        counts.records += run.counts.records;
        counts.value_bytes += run.counts.value_bytes;
        counts.hits += run.counts.hits;
    }
    counts
}

fn send(socket: &mut TcpStream, topic: &str, partition: i32, batch: &[u8]) {
    // The broker gives the offsets and wants them to count from 0 in what it gets; the CRC does not cover the base offset.
    let mut batch = BytesMut::from(batch);
    batch[..8].fill(0);
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(batch.freeze()));
    let name = TopicName(StrBytes::from_string(topic.to_owned()));
    let topic_data = TopicProduceData::default().with_name(name).with_partition_data(vec![data]);
    let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![topic_data]);
    let header =
        RequestHeader::default().with_request_api_key(ApiKey::Produce as i16).with_request_api_version(VERSION);
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    header.encode(&mut frame, ProduceRequest::header_version(VERSION)).expect("a header");
    request.encode(&mut frame, VERSION).expect("a request");
    let length = i32::try_from(frame.len() - 4).expect("a small request");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    socket.write_all(&frame).expect("the broker reads");

    let mut length = [0; 4];
    socket.read_exact(&mut length).expect("an answer");
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(length)).expect("a length")];
    socket.read_exact(&mut answer).expect("an answer");
    let mut answer = Bytes::from(answer);
    ResponseHeader::decode(&mut answer, ProduceResponse::header_version(VERSION)).expect("a header");
    let response = ProduceResponse::decode(&mut answer, VERSION).expect("an answer");
    let error = response.responses[0].partition_responses[0].error_code;
    assert_eq!(error, 0, "the broker did not take a batch of {topic}-{partition}");
}

//! A blocking connection, and just enough of Fetch 11 to walk its answers.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    ApiKey, BrokerId, FetchRequest, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest, MetadataResponse,
    RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::TcpStream;

/// The last without flexible fields.
const FETCH_VERSION: i16 = 11;

#[derive(Clone, Copy)]
pub struct PartitionOffsets {
    pub index: i32,
    pub position: i64,
    pub end: i64,
}

pub struct Connection(TcpStream);

impl Connection {
    pub fn open(address: &str) -> Self {
        let socket = TcpStream::connect(address).expect("a broker");
        socket.set_nodelay(true).expect("a socket");
        SockRef::from(&socket).set_recv_buffer_size(4 << 20).expect("a socket");
        Self(socket)
    }

    fn send(&mut self, key: ApiKey, version: i16, request: &impl Encodable) {
        let header = RequestHeader::default()
            .with_request_api_key(key as i16)
            .with_request_api_version(version)
            .with_client_id(Some("yardstick".into()));
        let mut frame = BytesMut::with_capacity(256);
        frame.put_i32(0);
        header.encode(&mut frame, key.request_header_version(version)).expect("a header");
        request.encode(&mut frame, version).expect("a request");
        let length = frame.len() as i32 - 4;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        self.0.write_all(&frame).expect("a broker that reads");
    }

    /// One response, after its length. The buffer is used again and grows to the largest.
    pub fn receive<'b>(&mut self, buffer: &'b mut Vec<u8>) -> &'b [u8] {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).expect("an answer");
        let length = u32::from_be_bytes(length) as usize;
        if buffer.len() < length {
            buffer.resize(length.next_power_of_two(), 0);
        }
        self.0.read_exact(&mut buffer[..length]).expect("an answer");
        &buffer[..length]
    }

    fn call<R: Decodable>(&mut self, key: ApiKey, version: i16, request: &impl Encodable) -> R {
        self.send(key, version, request);
        let mut answer = Bytes::copy_from_slice(self.receive(&mut Vec::new()));
        ResponseHeader::decode(&mut answer, key.response_header_version(version)).expect("a header");
        R::decode(&mut answer, version).expect("an answer")
    }

    /// From the earliest to the latest offset of every partition.
    pub fn offsets(&mut self, topic: &str) -> Vec<PartitionOffsets> {
        let name = topic_name(topic);
        let wanted = MetadataRequestTopic::default().with_name(Some(name));
        let request = MetadataRequest::default().with_topics(Some(vec![wanted]));
        let metadata: MetadataResponse = self.call(ApiKey::Metadata, 4, &request);
        let mut indexes: Vec<i32> = metadata.topics[0].partitions.iter().map(|found| found.partition_index).collect();
        indexes.sort_unstable();
        let mut offset = |index, timestamp| {
            let partition = ListOffsetsPartition::default().with_partition_index(index).with_timestamp(timestamp);
            let wanted = ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
            let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![wanted]);
            let found: ListOffsetsResponse = self.call(ApiKey::ListOffsets, 1, &request);
            found.topics[0].partitions[0].offset
        };
        let of = |index| PartitionOffsets { index, position: offset(index, -2), end: offset(index, -1) };
        indexes.into_iter().map(of).collect()
    }

    /// Asks for all of `partitions` in one request, without a session.
    pub fn send_fetch(&mut self, topic: &str, partitions: &[PartitionOffsets], partition_bytes: i32) {
        let of = |partition: &PartitionOffsets| {
            FetchPartition::default()
                .with_partition(partition.index)
                .with_fetch_offset(partition.position)
                .with_partition_max_bytes(partition_bytes)
        };
        let partitions = partitions.iter().map(of).collect();
        let request = FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(500)
            .with_min_bytes(1)
            .with_max_bytes(50 << 20)
            .with_session_epoch(-1)
            .with_topics(vec![FetchTopic::default().with_topic(topic_name(topic)).with_partitions(partitions)]);
        self.send(ApiKey::Fetch, FETCH_VERSION, &request);
    }
}

fn topic_name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

fn i16_at(bytes: &[u8], at: usize) -> i16 {
    i16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Partition and record batches of every partition of a response.
pub fn each_partition<'a>(response: &'a [u8], mut take: impl FnMut(i32, &'a [u8])) {
    // Correlation id, throttle time, error code, session id.
    assert_eq!(i16_at(response, 8), 0, "the response's error");
    let topics = i32_at(response, 14);
    let mut at = 18;
    for _ in 0..topics {
        at += 2 + i16_at(response, at) as usize;
        let partitions = i32_at(response, at);
        at += 4;
        for _ in 0..partitions {
            let index = i32_at(response, at);
            assert_eq!(i16_at(response, at + 4), 0, "the error of partition {index}");
            // High watermark, last stable offset, log start offset; aborted transactions; preferred replica.
            at += 6 + 24;
            at += 4 + 16 * i32_at(response, at).max(0) as usize + 4;
            let length = i32_at(response, at).max(0) as usize;
            at += 4;
            take(index, &response[at..at + length]);
            at += length;
        }
    }
}

/// The whole batches in `bytes`; one that is cut at the end is left out.
pub fn batches(mut bytes: &[u8]) -> impl Iterator<Item = Batch<'_>> {
    std::iter::from_fn(move || {
        if bytes.len() < 61 {
            return None;
        }
        let (batch, rest) = bytes.split_at_checked(12 + i32_at(bytes, 8) as usize)?;
        assert_eq!(batch[16], 2, "the format");
        bytes = rest;
        Some(Batch(batch))
    })
}

#[derive(Clone, Copy)]
pub struct Batch<'a>(&'a [u8]);

impl<'a> Batch<'a> {
    pub fn next_offset(self) -> i64 {
        i64_at(self.0, 0) + i64::from(i32_at(self.0, 23)) + 1
    }

    pub fn codec(self) -> u8 {
        self.0[22] & 7
    }

    pub fn base_timestamp(self) -> i64 {
        i64_at(self.0, 27)
    }

    pub fn records(self) -> usize {
        i32_at(self.0, 57) as usize
    }

    pub fn payload(self) -> &'a [u8] {
        &self.0[61..]
    }

    pub fn crc(self) -> u32 {
        i32_at(self.0, 17) as u32
    }

    pub fn crc_data(self) -> &'a [u8] {
        &self.0[21..]
    }
}

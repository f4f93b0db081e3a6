//! What holds for every message in every version: what is written is read, in JSON too, and the `kafka-protocol` crate reads and writes
//! the same bytes wherever it has the version.

use super::table::{Field, top};
use super::*;
use crate::{Message, Request, TaggedField};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as their;
use kafka_protocol::protocol::{Decodable, Encodable, Message as TheirMessage};
use proptest::prelude::*;

/// Makes values of random bytes; zeros, and so the smallest values, when they are used up.
pub(crate) struct Source {
    bytes: std::vec::IntoIter<u8>,
}

impl Source {
    pub(crate) fn byte(&mut self) -> u8 {
        self.bytes.next().unwrap_or(0)
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    pub(crate) fn i8(&mut self) -> i8 {
        self.byte().cast_signed()
    }

    pub(crate) fn i16(&mut self) -> i16 {
        i16::from_be_bytes([self.byte(), self.byte()])
    }

    pub(crate) fn i32(&mut self) -> i32 {
        match self.byte() % 8 {
            0 => 0,
            1 => -1,
            2 => i32::MAX,
            3 => i32::MIN,
            _ => i32::from_be_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    pub(crate) fn i64(&mut self) -> i64 {
        match self.byte() % 8 {
            0 => 0,
            1 => -1,
            2 => i64::MAX,
            3 => i64::MIN,
            _ => i64::from_be_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    pub(crate) fn string(&mut self) -> String {
        let length = match self.byte() {
            // Lengths whose varint takes a second byte.
            255 => 100 + usize::from(self.byte()),
            other => usize::from(other % 12),
        };
        const LETTERS: [char; 8] = ['a', '-', '.', '9', '\0', 'é', '日', '🚀'];
        (0..length).map(|_| LETTERS[usize::from(self.byte() % 8)]).collect()
    }

    pub(crate) fn bytes(&mut self) -> Bytes {
        let length = usize::from(self.byte());
        (0..length).map(|_| self.byte()).collect()
    }

    /// Fields with tags that no schema has. Tags are 31 bits wide for `kafka-protocol`.
    pub(crate) fn tagged_fields(&mut self) -> Vec<TaggedField> {
        let count = (self.byte() % 8).saturating_sub(5);
        let mut tag = 99;
        (0..count)
            .map(|_| {
                tag += 1 + u32::from(self.byte()) * 1000;
                let data = (0..self.byte() % 10).map(|_| self.byte()).collect();
                TaggedField { tag, data }
            })
            .collect()
    }
}

fn any_message<M: Message + Field>(entropy: Vec<u8>, version: i16) -> M {
    M::arbitrary(&mut Source { bytes: entropy.into_iter() }, top("message", version, M::FLEXIBLE_SINCE))
}

fn encoded<M: Message>(message: &M, version: i16) -> Bytes {
    let mut out = BytesMut::new();
    message.encode(version, &mut out).unwrap();
    out.freeze()
}

/// What is written is read; not one byte less will do, and what stands after it doesn't matter.
fn round_trip<M: Message + Field + PartialEq + std::fmt::Debug>(entropy: Vec<u8>, version: i16) {
    let message: M = any_message(entropy, version);
    let bytes = encoded(&message, version);
    assert_eq!(M::decode(version, &bytes).as_ref(), Ok(&message), "version {version}");
    for length in 0..bytes.len() {
        let error = M::decode(version, &bytes.slice(..length)).expect_err("a cut message");
        assert!(error.position <= length, "version {version} cut to {length}: {error}");
    }
    let mut longer = BytesMut::from(&bytes[..]);
    longer.extend_from_slice(b"rest");
    assert_eq!(M::decode(version, &longer.freeze()).as_ref(), Ok(&message), "version {version} with bytes after it");
}

/// The other library reads what is written here, and writes the same.
fn as_theirs<M: Message + Field, T: TheirMessage + Encodable + Decodable>(entropy: Vec<u8>, version: i16) {
    if version > T::VERSIONS.max {
        return;
    }
    let message: M = any_message(entropy, version);
    let bytes = encoded(&message, version);
    let mut rest = bytes.clone();
    let theirs = T::decode(&mut rest, version).unwrap();
    assert!(rest.is_empty(), "version {version}: {} bytes that are not read", rest.len());
    let mut again = BytesMut::new();
    theirs.encode(&mut again, version).unwrap();
    assert_eq!(again, bytes, "version {version}");
}

fn framed<R: Request + Field + PartialEq + std::fmt::Debug>(entropy: Vec<u8>, version: i16)
where
    R::Response: Field + PartialEq + std::fmt::Debug,
{
    let request: R = any_message(entropy.clone(), version);
    let mut out = BytesMut::from(&b"before"[..]);
    crate::encode_request(version, -7, Some("me"), &request, &mut out).unwrap();
    let frame = out.split_off(b"before".len() + crate::FRAME_LENGTH_BYTES).freeze();
    assert_eq!(out[b"before".len()..], i32::try_from(frame.len()).unwrap().to_be_bytes());
    let (header, read) = crate::decode_request::<R>(&frame).unwrap();
    assert_eq!((header.api_key, header.api_version, header.correlation_id), (R::API_KEY, version, -7));
    assert_eq!((header.client_id.as_deref(), read), (Some("me"), request));

    let response: R::Response = any_message(entropy, version);
    let mut out = BytesMut::new();
    crate::encode_response::<R>(version, 5, &response, &mut out).unwrap();
    let frame = out.split_off(crate::FRAME_LENGTH_BYTES).freeze();
    assert_eq!(crate::decode_response::<R>(version, &frame), Ok((5, response)));
}

/// Many values a version, so that each version has its share.
const VALUES_PER_VERSION: u32 = 40;

macro_rules! properties {
    ($($module:ident: $request:ident, $response:ident;)+) => {$(
        mod $module {
            use super::*;

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(VALUES_PER_VERSION))]

                #[test]
                fn what_is_written_is_read(entropy in proptest::collection::vec(any::<u8>(), 0..800)) {
                    for version in $request::VERSIONS.min..=$request::VERSIONS.max {
                        round_trip::<$request>(entropy.clone(), version);
                        round_trip::<$response>(entropy.clone(), version);
                        framed::<$request>(entropy.clone(), version);
                    }
                }

                #[test]
                fn kafka_protocol_agrees(entropy in proptest::collection::vec(any::<u8>(), 0..800)) {
                    for version in $request::VERSIONS.min..=$request::VERSIONS.max {
                        as_theirs::<$request, their::$request>(entropy.clone(), version);
                        as_theirs::<$response, their::$response>(entropy.clone(), version);
                    }
                }
            }
        }
    )+};
}

properties! {
    fetch: FetchRequest, FetchResponse;
    list_offsets: ListOffsetsRequest, ListOffsetsResponse;
    metadata: MetadataRequest, MetadataResponse;
    offset_commit: OffsetCommitRequest, OffsetCommitResponse;
    offset_fetch: OffsetFetchRequest, OffsetFetchResponse;
    find_coordinator: FindCoordinatorRequest, FindCoordinatorResponse;
    api_versions: ApiVersionsRequest, ApiVersionsResponse;
    offset_for_leader_epoch: OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse;
}

//! What the tables of the messages make: defaults, versions, nulls, errors and their places.

use super::*;
use crate::{DecodeError, DecodeErrorKind, EncodeError, Message, Uuid};
use bytes::{Bytes, BytesMut};

fn encode(message: &impl Message, version: i16) -> Result<Bytes, EncodeError> {
    let mut out = BytesMut::new();
    message.encode(version, &mut out).map(|()| out.freeze())
}

#[test]
fn defaults_are_the_schemas() {
    let request = FetchRequest::default();
    assert_eq!((request.replica_id, request.max_bytes, request.session_epoch), (-1, i32::MAX, -1));
    let partition = FetchPartition::default();
    assert_eq!((partition.current_leader_epoch, partition.high_watermark), (-1, i64::MAX));
    assert_eq!(OffsetCommitRequestPartition::default().committed_metadata.as_deref(), Some(""));
    assert!(MetadataRequest::default().allow_auto_topic_creation);
    assert_eq!(OffsetForLeaderEpochRequest::default().replica_id, -2);
}

#[test]
fn what_a_version_has_no_place_for_is_an_error_or_dropped_as_the_schema_says() {
    let forgets = FetchRequest {
        forgotten_topics_data: vec![ForgottenTopic { topic: "t".into(), ..Default::default() }],
        ..Default::default()
    };
    let field = "FetchRequest.forgotten_topics_data";
    assert_eq!(encode(&forgets, 6), Err(EncodeError::NotInVersion { field, version: 6 }));
    assert!(encode(&forgets, 7).is_ok());

    let from_replica =
        FetchRequest { replica_state: ReplicaState { replica_id: 3, ..Default::default() }, ..Default::default() };
    let field = "FetchRequest.replica_state";
    assert_eq!(encode(&from_replica, 14), Err(EncodeError::NotInVersion { field, version: 14 }), "also a tagged one");
    assert!(encode(&from_replica, 15).is_ok());

    let racked = FetchRequest { rack_id: "r".into(), ..Default::default() };
    assert_eq!(encode(&racked, 10), encode(&FetchRequest::default(), 10), "an ignorable one is dropped");
    let topic = |name: &str, topic_id| FetchRequest {
        topics: vec![FetchTopic { topic: name.into(), topic_id, ..Default::default() }],
        ..Default::default()
    };
    let both = topic("t", Uuid([7; 16]));
    assert_eq!(encode(&both, 12), encode(&topic("t", Uuid::ZERO), 12), "so that names and ids can both be given");
    assert_eq!(encode(&both, 13), encode(&topic("", Uuid([7; 16])), 13));
}

#[test]
fn nulls_stand_only_where_the_version_has_them() {
    let all = MetadataRequest { topics: None, ..Default::default() };
    assert_eq!(encode(&all, 0), Err(EncodeError::Null { field: "MetadataRequest.topics", version: 0 }));
    assert_eq!(encode(&all, 1).as_deref(), Ok(&[255; 4][..]));
    let by_id = MetadataRequest {
        topics: Some(vec![MetadataRequestTopic { topic_id: Uuid([1; 16]), name: None, ..Default::default() }]),
        ..Default::default()
    };
    assert_eq!(encode(&by_id, 9), Err(EncodeError::Null { field: "MetadataRequest.topics.name", version: 9 }));
    assert!(encode(&by_id, 12).is_ok());

    let null = |field, position| DecodeError::new(field, position, DecodeErrorKind::Null);
    let decode = |version, bytes| MetadataRequest::decode(version, &Bytes::from_static(bytes));
    assert_eq!(decode(0, &[255; 4]), Err(null("MetadataRequest.topics", 0)));
    assert_eq!(decode(0, b"\0\0\0\x01\xff\xff"), Err(null("MetadataRequest.topics.name", 4)));
    let no_responses = Bytes::from_static(b"\0\0\0\0\xff\xff\xff\xff");
    assert_eq!(FetchResponse::decode(4, &no_responses), Err(null("FetchResponse.responses", 4)));
}

#[test]
fn errors_name_the_field_with_its_path_and_its_place() {
    let response = FetchResponse {
        responses: vec![FetchableTopicResponse {
            topic: "t".into(),
            partitions: vec![PartitionData { records: Some(Bytes::from_static(b"abc")), ..Default::default() }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let bytes = encode(&response, 4).unwrap();
    let error = FetchResponse::decode(4, &bytes.slice(..bytes.len() - 1)).unwrap_err();
    let text =
        format!("FetchResponse.responses.partitions.records at byte {}: length 3 is outside 0..=2", bytes.len() - 7);
    assert_eq!(error.to_string(), text);
}

#[test]
fn versions_outside_are_refused() {
    for version in [i16::MIN, -1, 3, 19, i16::MAX] {
        assert_eq!(encode(&FetchRequest::default(), version), Err(EncodeError::Version { version, min: 4, max: 18 }));
        let kind = DecodeErrorKind::Version { version, min: 4, max: 18 };
        assert_eq!(FetchResponse::decode(version, &Bytes::new()), Err(DecodeError::new("FetchResponse", 0, kind)));
    }
}

#[test]
fn a_tag_that_the_version_does_not_have_is_refused_as_in_java() {
    let partition = FetchPartition { high_watermark: 5, ..Default::default() };
    let topics = vec![FetchTopic { partitions: vec![partition], ..Default::default() }];
    let request = FetchRequest { topics, ..Default::default() };
    let bytes = encode(&request, 18).unwrap();
    assert_eq!(FetchRequest::decode(18, &bytes), Ok(request.clone()));
    let error = FetchRequest::decode(17, &bytes).unwrap_err();
    assert_eq!(error.field, "FetchRequest.topics.partitions.high_watermark");
    let without = FetchRequest::decode(17, &encode(&request, 17).unwrap()).unwrap();
    assert_eq!(without.topics[0].partitions[0].high_watermark, i64::MAX, "ignorable, so not written");
}

#[test]
fn a_tagged_struct_with_only_unknown_tags_is_not_at_its_default() {
    let mut response = FetchResponse {
        responses: vec![FetchableTopicResponse { partitions: vec![PartitionData::default()], ..Default::default() }],
        ..Default::default()
    };
    let partition = &mut response.responses[0].partitions[0];
    partition.current_leader.unknown_tagged_fields =
        vec![crate::TaggedField { tag: 40, data: Bytes::from_static(b"new") }];
    assert_eq!(FetchResponse::decode(18, &encode(&response, 18).unwrap()), Ok(response.clone()));
    // Java refuses these too: the field has no place in version 11, and tagged fields have none at all.
    let error = EncodeError::NotInVersion { field: "FetchResponse.responses.partitions.current_leader", version: 11 };
    assert_eq!(encode(&response, 11), Err(error));
    let tagged = crate::TaggedField { tag: 40, data: Bytes::new() };
    let response = FetchResponse { unknown_tagged_fields: vec![tagged], ..Default::default() };
    let error = EncodeError::NotInVersion { field: "FetchResponse.unknown_tagged_fields", version: 11 };
    assert_eq!(encode(&response, 11), Err(error));
}

//! What stands between a frame's length and the body: request header v1 and v2, response header v0 and v1; and whole frames of them.
//!
//! ```text
//! request    api_key i16 | api_version i16 | correlation_id i32 | client_id string with i16 length | tagged fields (v2) | body
//! response   correlation_id i32 | tagged fields (v1) | body
//! ```
//!
//! The newer of the two is used from the API's first flexible version on (KIP-482). `client_id` keeps its old length there, and the
//! response to ApiVersions keeps header v0 for ever: who asks does not know yet what the broker speaks (KIP-511).

use crate::frame::FRAME_LENGTH_BYTES;
use crate::reader::{Reader, TaggedField};
use crate::writer::{LENGTH_MAX, Writer};
use crate::{ApiKey, DecodeError, DecodeErrorKind, EncodeError, Message, Request};
use bytes::{Bytes, BytesMut};

/// What is before a request's body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestHeader {
    /// The API.
    pub api_key: ApiKey,
    /// The version of the API.
    pub api_version: i16,
    /// The number that comes back with the answer.
    pub correlation_id: i32,
    /// A name for the broker's logs and quotas.
    pub client_id: Option<String>,
    /// Tagged fields of the header; Kafka 4.3 knows none.
    pub unknown_tagged_fields: Vec<TaggedField>,
}

impl RequestHeader {
    /// Reads a header; `flexible` says whether it is v2.
    ///
    /// # Errors
    /// Bytes that are no such header.
    pub fn decode(reader: &mut Reader<'_>, flexible: bool) -> Result<Self, DecodeError> {
        Ok(Self {
            api_key: ApiKey(reader.i16("RequestHeader.api_key")?),
            api_version: reader.i16("RequestHeader.api_version")?,
            correlation_id: reader.i32("RequestHeader.correlation_id")?,
            client_id: reader.nullable_string(false, "RequestHeader.client_id")?,
            unknown_tagged_fields: tagged_fields(reader, flexible, "RequestHeader.unknown_tagged_fields")?,
        })
    }

    /// Appends the header; `flexible` says whether as v2.
    ///
    /// # Errors
    /// A client id of more than 32,767 bytes; tagged fields out of order.
    pub fn encode(&self, flexible: bool, out: &mut BytesMut) -> Result<(), EncodeError> {
        let mut writer = Writer::new(out);
        writer.i16(self.api_key.0);
        writer.i16(self.api_version);
        writer.i32(self.correlation_id);
        writer.nullable_string(self.client_id.as_deref(), false, "RequestHeader.client_id")?;
        if flexible {
            writer.tagged_fields(0, &self.unknown_tagged_fields, "RequestHeader.unknown_tagged_fields").finish()?;
        }
        Ok(())
    }
}

/// What is before a response's body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponseHeader {
    /// The number of the request that this answers.
    pub correlation_id: i32,
    /// Tagged fields of the header; Kafka 4.3 knows none.
    pub unknown_tagged_fields: Vec<TaggedField>,
}

impl ResponseHeader {
    /// Whether the header of this response, in this version, is v1.
    pub fn is_flexible<M: Message>(version: i16) -> bool {
        M::API_KEY != ApiKey::API_VERSIONS && version >= M::FLEXIBLE_SINCE
    }

    /// Reads a header; `flexible` says whether it is v1.
    ///
    /// # Errors
    /// Bytes that are no such header.
    pub fn decode(reader: &mut Reader<'_>, flexible: bool) -> Result<Self, DecodeError> {
        Ok(Self {
            correlation_id: reader.i32("ResponseHeader.correlation_id")?,
            unknown_tagged_fields: tagged_fields(reader, flexible, "ResponseHeader.unknown_tagged_fields")?,
        })
    }

    /// Appends the header; `flexible` says whether as v1.
    ///
    /// # Errors
    /// Tagged fields out of order.
    pub fn encode(&self, flexible: bool, out: &mut BytesMut) -> Result<(), EncodeError> {
        let mut writer = Writer::new(out);
        writer.i32(self.correlation_id);
        if flexible {
            writer.tagged_fields(0, &self.unknown_tagged_fields, "ResponseHeader.unknown_tagged_fields").finish()?;
        }
        Ok(())
    }
}

fn tagged_fields(
    reader: &mut Reader<'_>,
    flexible: bool,
    field: &'static str,
) -> Result<Vec<TaggedField>, DecodeError> {
    if flexible { reader.tagged_fields(field, |_, _| Ok(false)) } else { Ok(Vec::new()) }
}

/// Appends a frame to `out`: length, header, request. On an error `out` is as it was.
///
/// # Errors
/// As [`Message::encode`]; also a client id of more than 32,767 bytes and a frame of more than 2^31-1.
pub fn encode_request<R: Request>(
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
    request: &R,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    framed(out, |out| {
        let mut writer = Writer::new(out);
        writer.i16(R::API_KEY.0);
        writer.i16(version);
        writer.i32(correlation_id);
        writer.nullable_string(client_id, false, "RequestHeader.client_id")?;
        if version >= R::FLEXIBLE_SINCE {
            writer.tagged_fields(0, &[], "RequestHeader.unknown_tagged_fields").finish()?;
        }
        request.encode(version, out)
    })
}

/// Reads the answer to an `R` of `version` from a frame without its length: the correlation id and the response. The answer to
/// ApiVersions is better read with [`ApiVersionsResponse::decode_any`](crate::message::ApiVersionsResponse::decode_any).
///
/// # Errors
/// As [`Message::decode`]; positions count from the start of the frame.
pub fn decode_response<R: Request>(version: i16, frame: &Bytes) -> Result<(i32, R::Response), DecodeError> {
    let mut reader = Reader::new(frame);
    let header = ResponseHeader::decode(&mut reader, ResponseHeader::is_flexible::<R::Response>(version))?;
    let response = decode_body(version, frame, reader.position())?;
    Ok((header.correlation_id, response))
}

/// Reads the header and the request from a frame without its length: the inverse of [`encode_request`], for whoever plays a broker.
///
/// # Errors
/// A header of another API; otherwise as [`Message::decode`]. Positions count from the start of the frame.
pub fn decode_request<R: Request>(frame: &Bytes) -> Result<(RequestHeader, R), DecodeError> {
    let version = Reader::new(&frame.slice(frame.len().min(2)..)).i16("RequestHeader.api_version").unwrap_or_default();
    let mut reader = Reader::new(frame);
    let header = RequestHeader::decode(&mut reader, version >= R::FLEXIBLE_SINCE)?;
    if header.api_key != R::API_KEY {
        return Err(other_api(header.api_key));
    }
    let request = decode_body(header.api_version, frame, reader.position())?;
    Ok((header, request))
}

/// Appends a frame to `out`: length, header, response to an `R`. On an error `out` is as it was.
///
/// # Errors
/// As [`Message::encode`]; also a frame of more than 2^31-1 bytes.
pub fn encode_response<R: Request>(
    version: i16,
    correlation_id: i32,
    response: &R::Response,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    framed(out, |out| {
        let header = ResponseHeader { correlation_id, unknown_tagged_fields: Vec::new() };
        header.encode(ResponseHeader::is_flexible::<R::Response>(version), out)?;
        response.encode(version, out)
    })
}

/// A request of an API that is not the expected one.
pub(crate) fn other_api(found: ApiKey) -> DecodeError {
    let kind = DecodeErrorKind::Value { value: found.0.into(), expected: "another API is expected" };
    DecodeError::new("RequestHeader.api_key", 0, kind)
}

fn decode_body<M: Message>(version: i16, frame: &Bytes, start: usize) -> Result<M, DecodeError> {
    M::decode(version, &frame.slice(start..)).map_err(|mut error| {
        error.position += start;
        error
    })
}

/// Puts the length of what `write` appends before it.
fn framed(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> Result<(), EncodeError>) -> Result<(), EncodeError> {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_LENGTH_BYTES]);
    let body_start = out.len();
    let length = write(out).and_then(|()| {
        let length = out.len() - body_start;
        i32::try_from(length).map_err(|_| EncodeError::TooLong { field: "frame", length, max: LENGTH_MAX })
    });
    match length {
        Ok(length) => {
            if let Some(prefix) = out.get_mut(start..body_start) {
                prefix.copy_from_slice(&length.to_be_bytes());
            }
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{ApiVersionsRequest, ApiVersionsResponse, FetchRequest, FetchResponse, MetadataRequest};

    fn body(out: BytesMut) -> Bytes {
        out.freeze().slice(FRAME_LENGTH_BYTES..)
    }

    #[test]
    fn the_api_versions_response_keeps_the_old_header() {
        let mut out = BytesMut::new();
        encode_response::<ApiVersionsRequest>(4, 9, &ApiVersionsResponse::default(), &mut out).unwrap();
        assert_eq!(out[..10], *b"\0\0\0\x0c\0\0\0\x09\0\0", "the error code follows the id");
        encode_response::<FetchRequest>(12, 9, &FetchResponse::default(), &mut out).unwrap();
        assert_eq!(out[16..29], *b"\0\0\0\x11\0\0\0\x09\0\0\0\0\0", "elsewhere there are tagged fields between");
    }

    #[test]
    fn the_client_id_keeps_its_old_length_in_the_new_header() {
        let mut out = BytesMut::new();
        encode_request(4, 9, Some("ab"), &ApiVersionsRequest::default(), &mut out).unwrap();
        assert_eq!(body(out)[..13], *b"\0\x12\0\x04\0\0\0\x09\0\x02ab\0");
        let mut out = BytesMut::new();
        encode_request(2, 9, None, &ApiVersionsRequest::default(), &mut out).unwrap();
        assert_eq!(body(out)[..], *b"\0\x12\0\x02\0\0\0\x09\xff\xff", "the older one has no tagged fields");
    }

    #[test]
    fn an_error_leaves_the_buffer_as_it_was() {
        let mut out = BytesMut::from(&b"before"[..]);
        let unsendable = MetadataRequest { topics: None, ..Default::default() };
        assert!(encode_request(0, 1, None, &unsendable, &mut out).is_err());
        assert!(encode_request(1, 1, Some(&"x".repeat(40_000)), &unsendable, &mut out).is_err());
        assert!(encode_response::<FetchRequest>(3, 1, &FetchResponse::default(), &mut out).is_err());
        assert_eq!(out, "before");
    }

    #[test]
    fn positions_count_from_the_start_of_the_frame() {
        let frame = Bytes::from_static(b"\0\0\0\x07\0\0\0\0\x7f");
        let error = decode_response::<FetchRequest>(4, &frame).unwrap_err();
        assert_eq!((error.field, error.position), ("FetchResponse.responses", 8));
        let error = decode_response::<FetchRequest>(4, &frame.slice(..3)).unwrap_err();
        assert_eq!((error.field, error.position), ("ResponseHeader.correlation_id", 0));
    }

    #[test]
    fn a_request_of_another_api_is_refused() {
        let mut out = BytesMut::new();
        encode_request(12, 1, None, &MetadataRequest::default(), &mut out).unwrap();
        let error = decode_request::<FetchRequest>(&body(out)).unwrap_err();
        assert_eq!((error.field, error.position), ("RequestHeader.api_key", 0));
        assert!(decode_request::<FetchRequest>(&Bytes::from_static(b"\0\x01\0")).is_err());
    }
}

//! Kafka's wire protocol as plain functions: bytes to messages and back. No sockets, no clock, no async.

mod api;
pub mod compression;
mod error;
mod error_code;
mod frame;
mod header;
#[cfg(feature = "json")]
pub mod json;
pub mod message;
mod reader;
pub mod record;
mod uuid;
pub mod varint;
mod writer;

pub use api::{ApiKey, Message, Request, VersionRange};
pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use error_code::ErrorCode;
pub use frame::{FRAME_LENGTH_BYTES, FrameDecoder, FrameError, Hint};
pub use header::{RequestHeader, ResponseHeader, decode_request, decode_response, encode_request, encode_response};
pub use reader::{ARRAY_MEMORY_BYTES_MAX, Reader, STRING_BYTES_MAX, TaggedField};
pub use uuid::{ParseUuidError, Uuid};
pub use writer::{TagWriter, Writer};

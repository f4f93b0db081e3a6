//! Kafka's wire protocol as plain functions: bytes to messages and back. No sockets, no clock, no async.
//!
//! ```text
//! socket bytes --FrameDecoder--> frame --decode_response::<R>--> message --RecordBatches--> batches --records()--> Record<'_>
//! ```
//!
//! - [`FrameDecoder`] cuts a byte stream into frames; [`decode_response`] and [`encode_request`] turn a frame into a message and back,
//!   header included. [`message`] has one module an API, in every version that Kafka 4.3 accepts of it.
//! - [`record`] reads record batches as borrowed views, and writes them; [`compression`] has the codecs.
//! - Every length and count is a claim: it is held against the bytes that are there and against a named limit before memory is taken, and
//!   what is wrong is a [`DecodeError`] with the field's path and the byte.
//!
//! # Features
//! - `libdeflate` (default): the C library libdeflate decodes gzip. Without it zlib-rs does, slower, in Rust.
//! - `zstd` (default): the C library decodes zstd. Without it pure Rust does, slower. Without both nothing needs a C compiler.
//! - `json`: messages as JSON with the schema's field names.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

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

//! Kafka's wire protocol as plain functions: bytes to messages and back. No sockets, no clock, no async.

mod api;
pub mod compression;
mod error;
mod error_code;
pub mod message;
pub mod record;
pub mod varint;

pub use api::{ApiKey, Message, Request, VersionRange};
pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use error_code::ErrorCode;

//! What the targets have in common: a message is read, and whatever was read is written and read again.

use bytes::{Bytes, BytesMut};
use ottla_protocol::{DecodeErrorKind, EncodeError, Message};
use std::fmt::Debug;

/// How many bytes of memory a byte of input may cost: an element that takes one on the wire is a struct in an array that grows by doubling.
const MEMORY_A_BYTE: u64 = 1_024;
/// What an error's text, an empty message and the like may cost besides.
const MEMORY_BESIDES: u64 = 16 * 1_024;

/// Runs `work`, and checks what memory it took against the `input_bytes` that it was given.
pub fn within_memory<T>(input_bytes: usize, work: impl FnOnce() -> T) -> T {
    let mut result = None;
    let used = allocation_counter::measure(|| result = Some(work())).bytes_max;
    let allowed = input_bytes as u64 * MEMORY_A_BYTE + MEMORY_BESIDES;
    assert!(used <= allowed, "{used} bytes of memory for {input_bytes} bytes of input");
    result.expect("it ran")
}

/// Reads the body of an `M`; the first byte of `data` chooses the version. What can be read can be written, and is the same when it is
/// read again.
pub fn message<M: Message + PartialEq + Debug>(data: &[u8]) {
    let Some((version, body)) = data.split_first() else { return };
    let versions = M::VERSIONS.max - M::VERSIONS.min + 1;
    let version = M::VERSIONS.min + i16::from(*version) % versions;
    let body = Bytes::copy_from_slice(body);
    let first = match within_memory(body.len(), || M::decode(version, &body)) {
        Ok(first) => first,
        Err(error) => {
            assert!(error.position <= body.len(), "{error} in {} bytes", body.len());
            assert!(!matches!(error.kind, DecodeErrorKind::Version { .. }), "{error}");
            return;
        }
    };
    let mut written = BytesMut::new();
    match first.encode(version, &mut written) {
        Ok(()) => {}
        // Bytes that are no UTF-8 have become longer; tags in any order are read, as Java does, and not written.
        Err(EncodeError::TooLong { .. } | EncodeError::TagOrder { .. }) => return,
        Err(error) => panic!("version {version}: {error}: {first:?}"),
    }
    let written = written.freeze();
    let second = M::decode(version, &written).unwrap_or_else(|error| panic!("version {version}: {error}: {first:?}"));
    assert_eq!(first, second, "version {version}, read, written and read again");
    let mut again = BytesMut::new();
    second.encode(version, &mut again).unwrap_or_else(|error| panic!("version {version}: {error}: {second:?}"));
    assert_eq!(written, again, "version {version}, written twice");
}

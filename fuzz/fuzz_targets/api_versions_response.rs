//! The body of a ApiVersions response: the first byte chooses the version.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ottla_protocol::message::ApiVersionsResponse;

fuzz_target!(|data: &[u8]| ottla_fuzz::message::<ApiVersionsResponse>(data));

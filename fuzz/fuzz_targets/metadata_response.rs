//! The body of a Metadata response: the first byte chooses the version.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ottla_protocol::message::MetadataResponse;

fuzz_target!(|data: &[u8]| ottla_fuzz::message::<MetadataResponse>(data));

//! The body of a ListOffsets response: the first byte chooses the version.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ottla_protocol::message::ListOffsetsResponse;

fuzz_target!(|data: &[u8]| ottla_fuzz::message::<ListOffsetsResponse>(data));

//! The body of a Fetch response: the first byte chooses the version.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ottla_protocol::message::FetchResponse;

fuzz_target!(|data: &[u8]| ottla_fuzz::message::<FetchResponse>(data));

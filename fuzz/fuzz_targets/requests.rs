//! The body of a request: the first byte chooses the API, the second one the version.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ottla_fuzz::message;
use ottla_protocol::message::{
    ApiVersionsRequest, FetchRequest, FindCoordinatorRequest, ListOffsetsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetFetchRequest, OffsetForLeaderEpochRequest,
};

fuzz_target!(|data: &[u8]| {
    let Some((api, data)) = data.split_first() else { return };
    match api % 8 {
        0 => message::<FetchRequest>(data),
        1 => message::<ListOffsetsRequest>(data),
        2 => message::<OffsetCommitRequest>(data),
        3 => message::<OffsetFetchRequest>(data),
        4 => message::<MetadataRequest>(data),
        5 => message::<ApiVersionsRequest>(data),
        6 => message::<FindCoordinatorRequest>(data),
        _ => message::<OffsetForLeaderEpochRequest>(data),
    }
});

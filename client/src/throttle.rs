//! Which responses say that the broker has muted the connection (KIP-219).

use ottla_protocol::message::{
    FetchResponse, FindCoordinatorResponse, ListOffsetsResponse, MetadataResponse, OffsetCommitResponse,
    OffsetFetchResponse, OffsetForLeaderEpochResponse,
};

/// A response with a `throttle_time_ms`.
pub(crate) trait Throttled {
    /// For how many milliseconds nothing may be sent; 0 if it may.
    fn throttle_time_ms(&self) -> i32;
}

macro_rules! throttled {
    ($($response:ty),* $(,)?) => {$(
        impl Throttled for $response {
            fn throttle_time_ms(&self) -> i32 {
                self.throttle_time_ms
            }
        }
    )*};
}

throttled!(
    FetchResponse,
    FindCoordinatorResponse,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
    OffsetForLeaderEpochResponse,
);

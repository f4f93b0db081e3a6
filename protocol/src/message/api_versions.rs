//! ApiVersions: what a broker speaks; the first exchange on every connection (KIP-35, KIP-511). Versions 0 to 4.
//!
//! A broker that does not know the request's version answers in version 0, with UNSUPPORTED_VERSION and the range of this API alone; old
//! ones with no range at all. [`ApiVersionsResponse::decode_any`] reads all of these.

use super::table::{message, message_struct};
use crate::header::ResponseHeader;
use crate::reader::Reader;
use crate::{ApiKey, DecodeError, ErrorCode, Message, Request, VersionRange};
use bytes::Bytes;

message! {
    ApiVersionsRequest: API_VERSIONS, 0..=4, flexible 3..;
    ApiVersionsResponse: API_VERSIONS, 0..=4, flexible 3..;
}

impl Request for ApiVersionsRequest {
    type Response = ApiVersionsResponse;
}

impl ApiVersionsResponse {
    /// Reads the answer to a request of `version` from a frame without its length: the correlation id and the response. With
    /// UNSUPPORTED_VERSION the answer is in version 0, whatever was asked: ask again with the newest common version of
    /// [`versions_of`](Self::versions_of)`(ApiKey::API_VERSIONS)`, or with 0 if it says nothing.
    ///
    /// # Errors
    /// As [`Message::decode`]; positions count from the start of the frame.
    pub fn decode_any(version: i16, frame: &Bytes) -> Result<(i32, Self), DecodeError> {
        let mut reader = Reader::new(frame);
        let header = ResponseHeader::decode(&mut reader, false)?;
        let start = reader.position();
        let body = frame.slice(start..);
        let at_frame = |error: DecodeError| DecodeError { position: error.position + start, ..error };
        let version = Self::version_of(version, &body).map_err(at_frame)?;
        Ok((header.correlation_id, Self::decode(version, &body).map_err(at_frame)?))
    }

    /// The version that the answer to a request of `asked` is in, by its error code, the first field in every version.
    pub(crate) fn version_of(asked: i16, body: &Bytes) -> Result<i16, DecodeError> {
        let error_code = ErrorCode(Reader::new(body).i16("ApiVersionsResponse.error_code")?);
        Ok(if error_code == ErrorCode::UNSUPPORTED_VERSION { 0 } else { asked })
    }

    /// The broker's versions of an API, if it has it.
    pub fn versions_of(&self, api_key: ApiKey) -> Option<VersionRange> {
        let api = self.api_keys.iter().find(|api| api.api_key == api_key.0)?;
        Some(VersionRange::new(api.min_version, api.max_version))
    }
}

message_struct! {
    /// Asks a broker what it speaks.
    ApiVersionsRequest at "ApiVersionsRequest" {
        /// The client's name, of letters, digits, dots and dashes.
        client_software_name: String, 3.., ignorable;
        /// The client's version, of the same characters.
        client_software_version: String, 3.., ignorable;
    }
}

message_struct! {
    /// What a broker speaks.
    ApiVersionsResponse at "ApiVersionsResponse" {
        /// What went wrong.
        error_code: ErrorCode, 0.., required;
        /// The APIs.
        api_keys: Vec<ApiVersion>, 0.., required;
        /// For how many milliseconds the client shall send nothing more (KIP-219).
        throttle_time_ms: i32, 1.., ignorable;
        /// The features that the broker has (KIP-584).
        supported_features: Vec<SupportedFeatureKey>, 3.., ignorable, tag 0;
        /// The epoch of `finalized_features`, -1 if not known.
        finalized_features_epoch: i64 = -1, 3.., ignorable, tag 1;
        /// The features that the cluster has agreed on.
        finalized_features: Vec<FinalizedFeatureKey>, 3.., ignorable, tag 2;
        /// Whether a controller is ready for a migration from ZooKeeper.
        zk_migration_ready: bool, 3.., ignorable, tag 3;
    }

    /// An API's versions.
    ApiVersion at "ApiVersionsResponse.api_keys" {
        /// The API's number.
        api_key: i16, 0.., required;
        /// The oldest version, inclusive.
        min_version: i16, 0.., required;
        /// The newest version, inclusive.
        max_version: i16, 0.., required;
    }

    /// A feature of the broker.
    SupportedFeatureKey at "ApiVersionsResponse.supported_features" {
        /// The name.
        name: String, 3.., required;
        /// The oldest version, inclusive.
        min_version: i16, 3.., required;
        /// The newest version, inclusive.
        max_version: i16, 3.., required;
    }

    /// A feature of the cluster.
    FinalizedFeatureKey at "ApiVersionsResponse.finalized_features" {
        /// The name.
        name: String, 3.., required;
        /// The newest level, inclusive.
        max_version_level: i16, 3.., required;
        /// The oldest level, inclusive.
        min_version_level: i16, 3.., required;
    }
}

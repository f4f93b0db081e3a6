//! FindCoordinator: which broker coordinates a group or a transaction. Versions 0 to 6.
//!
//! What came when: 1 transactions (KIP-98); 3 compact encoding; 4 several keys (KIP-699), in place of the one; 5 and 6 a new error and a
//! new kind of key (KIP-890, KIP-932).

use super::table::{message, message_struct};
use crate::{ErrorCode, Request};

message! {
    FindCoordinatorRequest: FIND_COORDINATOR, 0..=6, flexible 3..;
    FindCoordinatorResponse: FIND_COORDINATOR, 0..=6, flexible 3..;
}

impl Request for FindCoordinatorRequest {
    type Response = FindCoordinatorResponse;
}

message_struct! {
    /// Asks for coordinators.
    FindCoordinatorRequest at "FindCoordinatorRequest" {
        /// The group or transactional id, up to version 3.
        key: String, 0..=3, required;
        /// 0 for groups, 1 for transactional ids, 2 for share groups.
        key_type: i8, 1.., required;
        /// The group or transactional ids, from version 4 on.
        coordinator_keys: Vec<String>, 4.., required;
    }
}

message_struct! {
    /// The coordinators.
    FindCoordinatorResponse at "FindCoordinatorResponse" {
        /// For how many milliseconds the client shall send nothing more (KIP-219).
        throttle_time_ms: i32, 1.., ignorable;
        /// What went wrong, up to version 3.
        error_code: ErrorCode, 0..=3, required;
        /// The error in words, versions 1 to 3.
        error_message: Option<String> = Some(String::new()), 1..=3, ignorable, nullable 1..=3;
        /// The coordinator's node id, up to version 3.
        node_id: i32, 0..=3, required;
        /// The coordinator's host, up to version 3.
        host: String, 0..=3, required;
        /// The coordinator's port, up to version 3.
        port: i32, 0..=3, required;
        /// A coordinator for each key, from version 4 on.
        coordinators: Vec<Coordinator>, 4.., required;
    }

    /// The coordinator of a key.
    Coordinator at "FindCoordinatorResponse.coordinators" {
        /// The group or transactional id.
        key: String, 4.., required;
        /// The node id, -1 with an error.
        node_id: i32, 4.., required;
        /// The host's name or address, empty with an error.
        host: String, 4.., required;
        /// The port, -1 with an error.
        port: i32, 4.., required;
        /// What went wrong.
        error_code: ErrorCode, 4.., required;
        /// The error in words; empty without one.
        error_message: Option<String> = Some(String::new()), 4.., ignorable, nullable 4..;
    }
}

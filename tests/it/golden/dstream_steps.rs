//! The step of the direct-stream API, which gives offset ranges to the user and commits what the user says.

use super::answer::Answer;
use super::scenario::{DstreamStep, Result};

pub(super) async fn dstream(step: &DstreamStep, _bootstrap: &str) -> Result<Answer> {
    let DstreamStep { topics, group, auto_offset_reset, batches, commit, filter, linger, spark_conf } = step;
    Err(format!(
        "the direct stream is not there yet: {batches} batches of {topics:?} for group {group} from {auto_offset_reset}, commit {commit}, \
         filter {filter:?}, {linger:?} before the stop, with {spark_conf:?}"
    ))
}

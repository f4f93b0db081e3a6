//! Control records (KIP-98): what a control batch holds instead of data. They are never delivered.
//!
//! ```text
//! key:   version i16 | type i16 | (later versions: more)
//! value: version i16 | coordinator_epoch i32 | (later versions: more)        for ABORT and COMMIT
//! ```
//! Of a newer version the known beginning is read.

use super::Record;
use super::batch_header::Fields;
use crate::{DecodeError, DecodeErrorKind};

/// A control record, by the type in its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ControlRecord {
    /// Type 0: the producer's transaction was aborted.
    Abort {
        /// The epoch of the transaction coordinator that wrote the marker; `None` if the value has none.
        coordinator_epoch: Option<i32>,
    },
    /// Type 1: the producer's transaction was committed.
    Commit {
        /// As for an abort.
        coordinator_epoch: Option<i32>,
    },
    /// Type 2: a new leader of a KRaft quorum.
    LeaderChange,
    /// Type 3: the beginning of a KRaft snapshot.
    SnapshotHeader,
    /// Type 4: the end of a KRaft snapshot.
    SnapshotFooter,
    /// Type 5: the version of a KRaft quorum (KIP-853).
    KRaftVersion,
    /// Type 6: the voters of a KRaft quorum (KIP-853).
    KRaftVoters,
    /// Another type, which a reader steps over.
    Unknown(i16),
}

impl ControlRecord {
    /// The type and, of transaction markers, the coordinator's epoch, from a record of a control batch. Positions in the error count from
    /// the start of the key or value.
    ///
    /// # Errors
    /// The key is null, shorter than four bytes, or of a negative version.
    pub fn parse(record: &Record<'_>) -> Result<Self, DecodeError> {
        let control_type = Self::type_of(record)?;
        let coordinator_epoch = record.value.and_then(|value| {
            let mut fields = Fields(value);
            fields.i16()?;
            fields.i32()
        });
        Ok(match control_type {
            0 => Self::Abort { coordinator_epoch },
            1 => Self::Commit { coordinator_epoch },
            2 => Self::LeaderChange,
            3 => Self::SnapshotHeader,
            4 => Self::SnapshotFooter,
            5 => Self::KRaftVersion,
            6 => Self::KRaftVoters,
            other => Self::Unknown(other),
        })
    }

    /// Kafka's name of the type: `ABORT`, `COMMIT`, `LEADER_CHANGE`, …; `UNKNOWN` for others.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Abort { .. } => "ABORT",
            Self::Commit { .. } => "COMMIT",
            Self::LeaderChange => "LEADER_CHANGE",
            Self::SnapshotHeader => "SNAPSHOT_HEADER",
            Self::SnapshotFooter => "SNAPSHOT_FOOTER",
            Self::KRaftVersion => "KRAFT_VERSION",
            Self::KRaftVoters => "KRAFT_VOTERS",
            Self::Unknown(_) => "UNKNOWN",
        }
    }

    fn type_of(record: &Record<'_>) -> Result<i16, DecodeError> {
        let key = record.key.ok_or_else(|| DecodeError::new("control_record.key", 0, DecodeErrorKind::Null))?;
        let mut fields = Fields(key);
        let (Some(version), Some(control_type)) = (fields.i16(), fields.i16()) else {
            let kind = DecodeErrorKind::Truncated { needed: 4, available: key.len() };
            return Err(DecodeError::new("control_record.key", 0, kind));
        };
        if version < 0 {
            let kind = DecodeErrorKind::Value { value: version.into(), expected: "a version is 0 or more" };
            return Err(DecodeError::new("control_record.key.version", 0, kind));
        }
        Ok(control_type)
    }
}

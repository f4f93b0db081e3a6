//! The lock of a checkpoint: held by the operating system, so that a killed process lets go of it.

use super::{CheckpointError, CheckpointErrorKind};
use fs4::{FileExt, TryLockError};
use std::{
    fs::{File, OpenOptions},
    path::Path,
};

/// Holds the lock until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock on the file `path`, which is made when it is not there and stays there.
    pub(super) fn take(path: &Path) -> Result<Self, CheckpointError> {
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = open.map_err(CheckpointError::io(path, "opening the lock"))?;
        match FileExt::try_lock(&file) {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(CheckpointError::new(path, CheckpointErrorKind::Locked)),
            Err(TryLockError::Error(error)) => Err(CheckpointError::io(path, "taking the lock")(error)),
        }
    }
}

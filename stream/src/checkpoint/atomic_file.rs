//! Files that are there whole or not at all, also after a power cut: a temporary file in the same directory, synced, then made visible
//! under its name in one step, then the directory synced.

use super::{CheckpointError, CheckpointErrorKind, crc_file};
use crate::durable;
use std::{
    ffi::OsStr,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};
use uuid::Uuid;

/// Creates `path` with `bytes`. `Ok(false)`: it is there already, and stays as it is.
pub(super) fn create(path: &Path, bytes: &[u8]) -> Result<bool, CheckpointError> {
    if path.try_exists().map_err(CheckpointError::io(path, "looking for the file"))? {
        return Ok(false);
    }
    let temporary = write_temporary(path, bytes)?;
    // Hadoop's checksum of an earlier file of this name would condemn the new one.
    crc_file::remove(path)?;
    // A link, other than a rename, never replaces a file that appeared in the meantime.
    let linked = fs::hard_link(&temporary, path);
    let removed = fs::remove_file(&temporary);
    match linked {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(CheckpointError::io(path, "making the file visible (by a hard link)")(error)),
    }
    removed.map_err(CheckpointError::io(&temporary, "removing the temporary file"))?;
    sync_parent(path)?;
    Ok(true)
}

/// Writes `path` with `bytes`, in place of what it held.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    let temporary = write_temporary(path, bytes)?;
    fs::rename(&temporary, path).map_err(|error| {
        // What stays behind is removed at the next start.
        let _ = fs::remove_file(&temporary);
        CheckpointError::io(path, "renaming the file")(error)
    })?;
    sync_parent(path)
}

/// The bytes of a file; `None` when nothing has that name. What is no file is not read: a pipe would keep its reader waiting for ever.
pub(super) fn read(path: &Path, doing: &'static str) -> Result<Option<Vec<u8>>, CheckpointError> {
    let bytes = match fs::metadata(path) {
        Ok(there) if there.is_file() => fs::read(path),
        Ok(_) => Err(io::Error::other("it is no file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => return Ok(None),
        Err(error) => Err(error),
    };
    bytes.map(Some).map_err(CheckpointError::io(path, doing))
}

/// Makes a directory, and its place in the one above it, durable.
pub(super) fn create_directory(path: &Path) -> Result<(), CheckpointError> {
    durable::create_directory(path).map_err(CheckpointError::io(path, "making the directory"))
}

/// Removes temporary files that a killed process left in `directory`. One that is not there has none.
pub(super) fn remove_temporaries(directory: &Path) -> Result<(), CheckpointError> {
    for name in names(directory)? {
        if name.to_str().is_some_and(is_temporary) {
            let path = directory.join(name);
            fs::remove_file(&path).map_err(CheckpointError::io(path, "removing a temporary file"))?;
        }
    }
    Ok(())
}

/// The names in a directory; none when it is not there.
pub(super) fn names(directory: &Path) -> Result<Vec<std::ffi::OsString>, CheckpointError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(CheckpointError::io(directory, "listing the directory"))?,
    };
    entries
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<io::Result<_>>()
        .map_err(CheckpointError::io(directory, "listing the directory"))
}

/// Whether it is `.NAME.<uuid>.tmp`, which is what Spark calls its own, too.
fn is_temporary(name: &str) -> bool {
    name.strip_prefix('.')
        .and_then(|name| name.strip_suffix(".tmp"))
        .and_then(|name| name.rsplit_once('.'))
        .is_some_and(|(name, uuid)| !name.is_empty() && Uuid::try_parse(uuid).is_ok())
}

fn write_temporary(path: &Path, bytes: &[u8]) -> Result<PathBuf, CheckpointError> {
    let name = path.file_name().and_then(OsStr::to_str).ok_or_else(|| {
        let reason = "it has no file name in UTF-8".to_owned();
        CheckpointError::new(path, CheckpointErrorKind::Location { reason })
    })?;
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", Uuid::new_v4()));
    let written = OpenOptions::new().write(true).create_new(true).open(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(|error| {
        // What stays behind is removed at the next start.
        let _ = fs::remove_file(&temporary);
        CheckpointError::io(path, "writing the file")(error)
    })?;
    Ok(temporary)
}

fn sync_parent(path: &Path) -> Result<(), CheckpointError> {
    durable::sync_parent(path).map_err(CheckpointError::io(path, "syncing the directory"))
}

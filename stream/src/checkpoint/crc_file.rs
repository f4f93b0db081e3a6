//! Hadoop's checksum files: `.N.crc` beside `N`. We write none, check those that Spark wrote, and remove one before we write its file.
//!
//! ```text
//! "crc\0"  bytes per sum: u32 BE  [CRC-32 of each piece of that length, the last one shorter: u32 BE]...
//! ```

use super::{CheckpointError, CheckpointErrorKind, atomic_file};
use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

const MAGIC: &[u8; 4] = b"crc\0";

/// `.N.crc` for `N`.
fn path_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".crc");
    path.with_file_name(name)
}

/// Removes the checksum file of `path`, if there is one.
pub(super) fn remove(path: &Path) -> Result<(), CheckpointError> {
    let crc_path = path_of(path);
    match fs::remove_file(&crc_path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(CheckpointError::io(crc_path, "removing the checksum file")(error))
        }
        _ => Ok(()),
    }
}

/// Checks the bytes of `path` against its checksum file, if there is one.
pub(super) fn verify(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    let crc_path = path_of(path);
    let Some(crc) = atomic_file::read(&crc_path, "reading the checksum file")? else { return Ok(()) };
    let failed = |chunk: usize, from: usize, until: usize| {
        let crc_file = crc_path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        CheckpointError::new(path, CheckpointErrorKind::Checksum { chunk, from, until, crc_file })
    };
    let sums = crc.strip_prefix(MAGIC).and_then(|rest| rest.split_first_chunk::<4>());
    let size = sums.and_then(|(size, _)| usize::try_from(u32::from_be_bytes(*size)).ok()).filter(|size| *size > 0);
    // A header that is none (a power cut leaves empty files) condemns the file: whether it is whole can't be told.
    let (Some((_, sums)), Some(size)) = (sums, size) else { return Err(failed(0, 0, bytes.len())) };
    let mut sums = sums.chunks(4);
    for (index, chunk) in bytes.chunks(size).enumerate() {
        let expected = sums.next().and_then(|sum| <[u8; 4]>::try_from(sum).ok()).map(u32::from_be_bytes);
        if expected != Some(crc32fast::hash(chunk)) {
            let from = index.saturating_mul(size);
            return Err(failed(index, from, from.saturating_add(chunk.len())));
        }
    }
    // More sums than pieces: the file lost its end.
    if sums.next().is_some() {
        return Err(failed(bytes.len().div_ceil(size), bytes.len(), bytes.len()));
    }
    Ok(())
}

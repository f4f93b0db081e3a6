//! A directory of numbered files, one a batch: Spark's metadata log. A file whose name is a batch id is a batch; whatever else lies there
//! (temporary files, checksums, editors' backups, directories) is nobody's business.

use super::{CheckpointError, CheckpointErrorKind, atomic_file, crc_file};
use std::{
    fs,
    path::{Path, PathBuf},
};

#[derive(Debug)]
pub(super) struct MetadataLog {
    directory: PathBuf,
}

impl MetadataLog {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn path(&self, batch_id: i64) -> PathBuf {
        self.directory.join(batch_id.to_string())
    }

    /// The ids of all files, ascending: also of those that can't be read, such as links to nothing.
    pub(super) fn ids(&self) -> Result<Vec<i64>, CheckpointError> {
        let mut ids = Vec::new();
        for name in atomic_file::names(&self.directory)? {
            // `007` would be read as `7`, which is another file.
            let id = name.to_str().and_then(|name| name.parse().ok().filter(|id: &i64| id.to_string() == name));
            ids.extend(id.filter(|id| *id >= 0 && !self.path(*id).is_dir()));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// The bytes of a file, their checksum checked where there is one; `None` when there is no such file.
    pub(super) fn read(&self, batch_id: i64) -> Result<Option<Vec<u8>>, CheckpointError> {
        let path = self.path(batch_id);
        let bytes = atomic_file::read(&path, "reading the file")?;
        if let Some(bytes) = &bytes {
            crc_file::verify(&path, bytes)?;
        }
        Ok(bytes)
    }

    /// Writes a new file. One that is there already is another query's.
    pub(super) fn add(&self, batch_id: i64, bytes: &[u8]) -> Result<(), CheckpointError> {
        atomic_file::create_directory(&self.directory)?;
        let path = self.path(batch_id);
        if atomic_file::create(&path, bytes)? {
            return Ok(());
        }
        Err(CheckpointError::new(path, CheckpointErrorKind::ConcurrentUpdate { batch_id }))
    }

    /// Deletes the files of batches below `batch_id`.
    pub(super) fn purge(&self, batch_id: i64) -> Result<(), CheckpointError> {
        for path in self.ids()?.into_iter().take_while(|id| *id < batch_id).map(|id| self.path(id)) {
            crc_file::remove(&path)?;
            fs::remove_file(&path).map_err(CheckpointError::io(path, "deleting an old file"))?;
        }
        Ok(())
    }
}

/// Parses the first line, `v1`, of a file, and gives its number and what follows the line.
pub(super) fn version<'a>(path: &Path, text: &'a str, max: u32) -> Result<(u32, Option<&'a str>), CheckpointError> {
    let error = |kind| CheckpointError::new(path, kind);
    if text.trim().is_empty() {
        return Err(error(CheckpointErrorKind::Incomplete { reason: "it is empty".to_owned() }));
    }
    let (line, rest) = text.split_once('\n').map_or((text, None), |(line, rest)| (line, Some(rest)));
    let number =
        line.trim().strip_prefix('v').and_then(|number| number.parse::<u32>().ok()).filter(|number| *number > 0);
    let Some(number) = number else {
        return Err(error(CheckpointErrorKind::MalformedVersion { text: line.chars().take(100).collect() }));
    };
    if number > max {
        return Err(error(CheckpointErrorKind::Version { max, found: number }));
    }
    Ok((number, rest))
}

/// The bytes as text.
pub(super) fn text<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str, CheckpointError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes.iter().take(error.valid_up_to()).filter(|byte| **byte == b'\n').count() + 1;
        CheckpointError::new(path, CheckpointErrorKind::Malformed { line, reason: error.to_string() })
    })
}

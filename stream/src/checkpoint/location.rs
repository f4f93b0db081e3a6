//! Where a checkpoint lies: a path, or Hadoop's `file:` form of one.

use super::{CheckpointError, CheckpointErrorKind};
use std::path::PathBuf;

/// The directory that `location` names, absolute. `file:/x` and `file:///x` are `/x`; as in Hadoop's paths, `%20` is three characters.
pub(super) fn directory(location: &str) -> Result<PathBuf, CheckpointError> {
    let refused = |reason: String| CheckpointError::new(location, CheckpointErrorKind::Location { reason });
    let path = match scheme(location) {
        Some((scheme, path)) if scheme.eq_ignore_ascii_case("file") => {
            let path = path.strip_prefix("//").unwrap_or(path);
            if !path.starts_with('/') {
                return Err(refused("a file: URL must be file:/path or file:///path, without a host".to_owned()));
            }
            path
        }
        Some((scheme, _)) => {
            return Err(refused(format!(
                "'{scheme}:' is not a local file system. It must be a directory of this machine, or one mounted there: /path, path or \
                 file:/path (and ./{scheme}:… for a name with a colon)"
            )));
        }
        None if location.is_empty() => return Err(refused("it is empty".to_owned())),
        None => location,
    };
    std::path::absolute(path).map_err(|error| refused(error.to_string()))
}

/// The scheme of a URL and what follows its colon.
fn scheme(location: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = location.split_once(':')?;
    let mut letters = scheme.chars();
    let is_scheme = letters.next().is_some_and(|letter| letter.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter));
    is_scheme.then_some((scheme, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn paths_and_file_urls() {
        for location in ["/a/b", "file:/a/b", "file:///a/b", "FILE:///a/b"] {
            assert_eq!(directory(location).unwrap(), Path::new("/a/b"), "{location}");
        }
        let here = std::env::current_dir().unwrap();
        assert_eq!(directory("a/b").unwrap(), here.join("a/b"));
        assert_eq!(directory("./a:b").unwrap(), here.join("a:b"));
        assert_eq!(directory("a/b:c").unwrap(), here.join("a/b:c"));
        assert_eq!(directory("file:/a%20b").unwrap(), Path::new("/a%20b"));
    }

    #[test]
    fn other_places_are_refused_with_the_reason() {
        for (location, part) in [
            ("hdfs://host/ck", "'hdfs:' is not a local file system"),
            ("s3a://bucket/ck", "'s3a:' is not a local file system"),
            ("ck:1", "./ck:"),
            ("file:ck", "file:/path"),
            ("file://host/ck", "without a host"),
            ("file:", "file:/path"),
            ("", "empty"),
        ] {
            let error = directory(location).unwrap_err();
            assert_eq!(error.condition(), "CHECKPOINT_LOCATION");
            assert!(error.source.to_string().contains(part), "{location}: {}", error.source);
        }
    }
}

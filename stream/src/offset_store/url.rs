//! Stores as they are named on the command line.

#[cfg(feature = "zookeeper")]
use super::ZooKeeperStoreBuilder;
use super::{CheckpointOffsets, GroupStore, OffsetStore, OffsetsFile};
use crate::{OptionError, Result, ZooKeeperOptions};
use ottla_client::Client;
use std::{fmt, path::PathBuf, str::FromStr, sync::Arc};

const FORMS: &str =
    "it must be group:NAME, zookeeper://HOST:PORT,…/CHROOT?group=NAME, checkpoint:DIR[?source=N] or offsets-file:PATH";

/// A place where offsets are kept: `group:G`, `zookeeper://h1:2181,h2:2181/chroot?group=G`, `checkpoint:DIR[?source=N]` or
/// `offsets-file:PATH`. Parsed from and written as such a URL, which never holds a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StoreUrl {
    /// A consumer group.
    Group(String),
    /// ZooKeeper, in the layout of old consumers: `/consumers/<group>/offsets/<topic>/<partition>`.
    #[cfg(feature = "zookeeper")]
    ZooKeeper(ZooKeeperStoreBuilder),
    /// A query's checkpoint, which is only read.
    Checkpoint {
        /// Where it lies: a path or a `file:` URL.
        location: String,
        /// Which of the query's sources is meant, from 0; `None`: the only one.
        source: Option<usize>,
    },
    /// A file of this machine.
    OffsetsFile(PathBuf),
}

impl StoreUrl {
    /// Opens it. Nothing is asked or read before the store is. `zookeeper` says how that one is reached.
    ///
    /// # Errors
    /// The place can't be used.
    pub fn open(&self, client: &Client, zookeeper: &ZooKeeperOptions) -> Result<Arc<dyn OffsetStore>> {
        #[cfg(not(feature = "zookeeper"))]
        let _ = zookeeper;
        Ok(match self {
            Self::Group(group) => Arc::new(GroupStore::new(client, group)),
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(builder) => Arc::new(builder.clone().options(zookeeper.clone()).build()),
            Self::Checkpoint { location, source } => Arc::new(CheckpointOffsets::new(location, *source)?),
            Self::OffsetsFile(path) => Arc::new(OffsetsFile::new(path)?),
        })
    }

    /// Whether offsets can be stored there: in a checkpoint they can't.
    pub fn is_writable(&self) -> bool {
        !matches!(self, Self::Checkpoint { .. })
    }
}

impl FromStr for StoreUrl {
    type Err = OptionError;

    fn from_str(url: &str) -> Result<Self, OptionError> {
        let wrong = |reason: &str| OptionError::new(format!("'{url}' is no store: {reason}"));
        match url.split_once(':') {
            Some(("group", "")) => Err(wrong("group:NAME names a group")),
            Some(("group", name)) => Ok(Self::Group(name.to_owned())),
            #[cfg(feature = "zookeeper")]
            Some(("zookeeper", _)) => url.parse().map(Self::ZooKeeper),
            #[cfg(not(feature = "zookeeper"))]
            Some(("zookeeper", _)) => Err(wrong("this program was built without ZooKeeper (feature `zookeeper`)")),
            Some(("checkpoint", rest)) => checkpoint(rest).map_err(|reason| wrong(&reason)),
            Some(("offsets-file", "")) => Err(wrong("offsets-file:PATH names a file")),
            Some(("offsets-file", path)) => Ok(Self::OffsetsFile(path.into())),
            _ => Err(wrong(FORMS)),
        }
    }
}

fn checkpoint(rest: &str) -> Result<StoreUrl, String> {
    let (location, query) = match rest.rsplit_once('?') {
        // A directory may have a question mark in its name.
        Some((location, query)) if query.starts_with("source=") => (location, Some(query)),
        _ => (rest, None),
    };
    if location.is_empty() {
        return Err("checkpoint:DIR names a directory".to_owned());
    }
    let number = |query: &str| {
        let text = query.strip_prefix("source=").unwrap_or_default();
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number).ok_or_else(|| format!("'{text}' is no source: they are counted from 0"))
    };
    Ok(StoreUrl::Checkpoint { location: location.to_owned(), source: query.map(number).transpose()? })
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(group) => write!(f, "group:{group}"),
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(builder) => builder.fmt(f),
            Self::Checkpoint { location, source: None } => write!(f, "checkpoint:{location}"),
            Self::Checkpoint { location, source: Some(source) } => write!(f, "checkpoint:{location}?source={source}"),
            Self::OffsetsFile(path) => write!(f, "offsets-file:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<StoreUrl, String> {
        url.parse().map_err(|error: OptionError| error.to_string())
    }

    #[test]
    fn each_store_has_its_url_both_ways() {
        for url in [
            "group:nightly",
            "group:a:b?c=d",
            "zookeeper://h1:2181,h2:2182/kafka/prod?group=g",
            "zookeeper://[::1]:2181?group=g&offset=from",
            "checkpoint:/var/lib/jobs/x",
            "checkpoint:file:///var/lib/x?source=3",
            "offsets-file:out/offsets.json",
        ] {
            assert_eq!(parse(url).unwrap().to_string(), url);
        }
        let checkpoint = StoreUrl::Checkpoint { location: "a?b".to_owned(), source: Some(0) };
        assert_eq!(parse("checkpoint:a?b?source=0"), Ok(checkpoint));
        assert!(!parse("checkpoint:a").unwrap().is_writable() && parse("offsets-file:a").unwrap().is_writable());
    }

    #[test]
    fn what_is_no_store_is_told_what_one_is() {
        for (url, part) in [
            ("", "it must be group:NAME"),
            ("nightly", "it must be group:NAME"),
            ("Group:x", "it must be group:NAME"),
            ("group:", "names a group"),
            ("checkpoint:", "names a directory"),
            ("checkpoint:?source=0", "names a directory"),
            ("checkpoint:a?source=", "no source"),
            ("checkpoint:a?source=+1", "no source"),
            ("checkpoint:a?source=-1", "no source"),
            ("offsets-file:", "names a file"),
            ("zookeeper://h:2181", "names no group"),
            ("zookeeper://u:p@h:2181?group=g", "no credentials"),
        ] {
            let error = parse(url).unwrap_err();
            assert!(error.contains(part), "{url}: {error}");
        }
    }
}

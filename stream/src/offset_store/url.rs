//! Stores as they are named on the command line.

use super::{CheckpointOffsets, GroupStore, OffsetStore, OffsetsFile};
use crate::{OptionError, Result};
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
    ZooKeeper {
        /// The servers, each `host:port`.
        servers: Vec<String>,
        /// The path that all others lie below: empty, or beginning with `/`.
        chroot: String,
        /// The group.
        group: String,
    },
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
    /// Opens it. Nothing is asked or read before the store is.
    ///
    /// # Errors
    /// The place can't be used.
    pub fn open(&self, client: &Client) -> Result<Arc<dyn OffsetStore>> {
        Ok(match self {
            Self::Group(group) => Arc::new(GroupStore::new(client, group)),
            // The place of ZooKeeperStore.
            Self::ZooKeeper { .. } => {
                return Err(OptionError::new(format!("'{self}': ZooKeeper is not there yet as a store")).into());
            }
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
            Some(("zookeeper", rest)) => zookeeper(rest).map_err(|reason| wrong(&reason)),
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

/// ZooKeeper's default port.
const ZOOKEEPER_PORT: u16 = 2181;

fn zookeeper(rest: &str) -> Result<StoreUrl, String> {
    let form = "it must be zookeeper://HOST:PORT,…/CHROOT?group=NAME";
    let rest = rest.strip_prefix("//").ok_or(form)?;
    // The group is taken as it is written, whatever it holds.
    let (place, group) = rest.split_once("?group=").ok_or_else(|| format!("it names no group: {form}"))?;
    if group.is_empty() || group.contains('/') || matches!(group, "." | "..") {
        return Err(format!("'{group}' can't be a group in ZooKeeper, where it is a part of a path"));
    }
    let (servers, chroot) = place.split_once('/').map_or((place, String::new()), |(servers, chroot)| {
        let chroot = chroot.trim_end_matches('/');
        (servers, if chroot.is_empty() { String::new() } else { format!("/{chroot}") })
    });
    if servers.contains('@') {
        return Err("it must not hold a password: that is an option of its own".to_owned());
    }
    if chroot.contains('?') || chroot.split('/').skip(1).any(|name| matches!(name, "" | "." | "..")) {
        return Err(format!("'{chroot}' can't be a path in ZooKeeper"));
    }
    let servers = servers.split(',').map(server).collect::<Result<Vec<_>, _>>()?;
    Ok(StoreUrl::ZooKeeper { servers, chroot, group: group.to_owned() })
}

/// `host:port`, with ZooKeeper's own port where none is written.
fn server(text: &str) -> Result<String, String> {
    let text = text.trim();
    let (host, port) = match text.rsplit_once(':') {
        // The colons of an IPv6 address stand in brackets.
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_v6 = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || host.contains(char::is_whitespace) || (host.contains(':') && !is_v6) {
        return Err(format!("'{text}' is no HOST:PORT"));
    }
    let port = match port {
        None => ZOOKEEPER_PORT,
        Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("'{text}' is no HOST:PORT"))?,
    };
    Ok(format!("{host}:{port}"))
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(group) => write!(f, "group:{group}"),
            Self::ZooKeeper { servers, chroot, group } => {
                write!(f, "zookeeper://{}{chroot}?group={group}", servers.join(","))
            }
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
            "zookeeper://[::1]:2181?group=team a",
            "checkpoint:/var/lib/jobs/x",
            "checkpoint:file:///var/lib/x?source=3",
            "offsets-file:out/offsets.json",
        ] {
            assert_eq!(parse(url).unwrap().to_string(), url);
        }
        let zookeeper = StoreUrl::ZooKeeper {
            servers: vec!["h1:2181".to_owned(), "h2:99".to_owned()],
            chroot: "/kafka".to_owned(),
            group: "g?group=x".to_owned(),
        };
        assert_eq!(parse("zookeeper://h1, h2:99/kafka/?group=g?group=x"), Ok(zookeeper));
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
            ("zookeeper:h:2181?group=g", "zookeeper://HOST"),
            ("zookeeper://h:2181", "names no group"),
            ("zookeeper://h:2181?group=", "can't be a group"),
            ("zookeeper://h:2181?group=team-a/x", "can't be a group"),
            ("zookeeper://?group=g", "no HOST:PORT"),
            ("zookeeper://h:0?group=g", "no HOST:PORT"),
            ("zookeeper://h:2181,?group=g", "no HOST:PORT"),
            ("zookeeper://::1:2181?group=g", "no HOST:PORT"),
            ("zookeeper://h:2181/a//b?group=g", "can't be a path"),
            ("zookeeper://u:p@h:2181?group=g", "must not hold a password"),
        ] {
            let error = parse(url).unwrap_err();
            assert!(error.contains(part), "{url}: {error}");
        }
    }
}

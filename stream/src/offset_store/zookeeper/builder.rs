//! What a store in ZooKeeper is made of, and its URL.

use super::{ZooKeeperStore, node::Paths, session::Session};
use crate::{OptionError, ZooKeeperOptions};
use std::{fmt, str::FromStr, sync::Mutex};

/// What URLs of such stores begin with.
const SCHEME: &str = "zookeeper://";

/// Which end of a batch a store in ZooKeeper keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ZooKeeperOffset {
    /// The next offset to read: a batch that was processed is not read again.
    #[default]
    Until,
    /// Where the batch began: whoever goes on from there reads the last batch again, for sinks that can lose it after they took it. A partition
    /// that a batch read nothing of keeps its offset, and offsets may go back.
    From,
}

/// Collects what a [`ZooKeeperStore`] is made of. Made of a URL by [`FromStr`], or by [`ZooKeeperStore::builder`]; shown as a URL, without
/// credentials.
///
/// ```
/// use ottla_stream::{ZooKeeperOffset, ZooKeeperStore, ZooKeeperStoreBuilder};
///
/// let url = "zookeeper://h1:2181,h2:2181/kafka?group=nightly&offset=from";
/// let builder: ZooKeeperStoreBuilder = url.parse()?;
/// assert_eq!(builder, ZooKeeperStore::builder("h1:2181,h2:2181/kafka", "nightly")?.offset(ZooKeeperOffset::From));
/// assert_eq!(builder.to_string(), url);
/// # Ok::<(), ottla_stream::OptionError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct ZooKeeperStoreBuilder {
    /// With `host:port` and commas.
    servers: String,
    paths: Paths,
    offset: ZooKeeperOffset,
    options: ZooKeeperOptions,
}

impl ZooKeeperStoreBuilder {
    pub(super) fn new(connect_string: &str, group: &str) -> Result<Self, OptionError> {
        let (servers, chroot) = connect_string.split_at(connect_string.find('/').unwrap_or(connect_string.len()));
        for server in servers.split(',') {
            if !is_server(server) {
                let message =
                    format!("'{server}' is no ZooKeeper server: each is HOST or HOST:PORT, with commas between");
                return Err(OptionError::new(message));
            }
        }
        let paths = Paths::new(chroot, group)?;
        Ok(Self {
            servers: servers.to_owned(),
            paths,
            offset: ZooKeeperOffset::default(),
            options: ZooKeeperOptions::default(),
        })
    }

    /// Which end of a batch is kept. Default: the next offset to read.
    pub fn offset(mut self, offset: ZooKeeperOffset) -> Self {
        self.offset = offset;
        self
    }

    /// How ZooKeeper is reached.
    pub fn options(mut self, options: ZooKeeperOptions) -> Self {
        self.options = options;
        self
    }

    /// The store. It connects when it is first asked.
    pub fn build(self) -> ZooKeeperStore {
        let Self { servers, paths, offset, options } = self;
        ZooKeeperStore {
            servers: format!("{servers}{}", paths.chroot),
            paths,
            offset,
            session: Session::new(servers, options),
            held: Mutex::default(),
        }
    }
}

/// A host with or without a port. IPv6 addresses stand in brackets.
fn is_server(server: &str) -> bool {
    let (host, port) = match server.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port),
        None => server.split_at(server.find(':').unwrap_or(server.len())),
    };
    let is_v6 = server.starts_with('[');
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c) || (is_v6 && ":%".contains(c));
    let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse().is_ok_and(|port: u16| port > 0);
    !host.is_empty() && host.chars().all(is_host) && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

impl FromStr for ZooKeeperStoreBuilder {
    type Err = OptionError;

    /// Reads `zookeeper://HOST:PORT[,HOST:PORT…][/CHROOT]?group=GROUP[&offset=until|from]`. In the path and the group, `%` and two hexadecimal
    /// digits stand for a byte.
    fn from_str(url: &str) -> Result<Self, OptionError> {
        let wrong = |what: String| {
            OptionError::new(format!(
                "'{url}' can't be used: {what}. An offset store in ZooKeeper is \
                 zookeeper://HOST:PORT,HOST:PORT/CHROOT?group=GROUP, with &offset=from where batches are to be read again"
            ))
        };
        let rest = url.strip_prefix(SCHEME).ok_or_else(|| wrong(format!("it does not begin with {SCHEME}")))?;
        if rest.split(['/', '?']).next().is_some_and(|servers| servers.contains('@')) {
            // It may hold a password: it is not shown.
            return Err(OptionError::new(
                "the URL of an offset store in ZooKeeper has no credentials: they are the option ottla.zookeeper.auth",
            ));
        }
        let (connect_string, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut group, mut offset) = (None, None);
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let twice = match part.split_once('=') {
                Some(("group", value)) => group.replace(decoded(value).map_err(wrong)?).is_some(),
                Some(("offset", "until")) => offset.replace(ZooKeeperOffset::Until).is_some(),
                Some(("offset", "from")) => offset.replace(ZooKeeperOffset::From).is_some(),
                Some(("offset", _)) => return Err(wrong("offset is until or from".to_owned())),
                _ => return Err(wrong(format!("there is no '{part}'"))),
            };
            if twice {
                return Err(wrong(format!("'{part}' is the second of its kind")));
            }
        }
        let group = group.ok_or_else(|| wrong("it names no group".to_owned()))?;
        let (servers, chroot) = connect_string.split_at(connect_string.find('/').unwrap_or(connect_string.len()));
        let connect_string = format!("{servers}{}", decoded(chroot).map_err(wrong)?);
        let builder = Self::new(&connect_string, &group).map_err(|error| wrong(error.to_string()))?;
        Ok(builder.offset(offset.unwrap_or_default()))
    }
}

impl fmt::Display for ZooKeeperStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}{}?group={}", self.servers, encoded(&self.paths.chroot), encoded(&self.paths.group))?;
        if self.offset == ZooKeeperOffset::From { f.write_str("&offset=from") } else { Ok(()) }
    }
}

/// `%41` is `A`.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or_else(|| format!("after % in '{text}' two hexadecimal digits are missing"))?);
        bytes.extend_from_slice(part.get(2..).unwrap_or_default().as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| format!("'{text}' is not UTF-8"))
}

fn encoded(text: &str) -> String {
    let mut all = String::new();
    for c in text.chars() {
        if matches!(c, '%' | '&' | '?' | '#' | ' ') {
            all.push_str(&format!("%{:02X}", u32::from(c)));
        } else {
            all.push(c);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Result<ZooKeeperStoreBuilder, String> {
        url.parse().map_err(|error: OptionError| error.to_string())
    }

    #[test]
    fn urls() {
        let built = |connect: &str, group: &str| ZooKeeperStore::builder(connect, group).unwrap();
        for (url, builder) in [
            ("zookeeper://h?group=g", built("h", "g")),
            ("zookeeper://h1:2181,h2:2182/a/b?group=g", built("h1:2181,h2:2182/a/b", "g")),
            ("zookeeper://[::1]:2181?group=team%20a%26b%25", built("[::1]:2181", "team a&b%")),
            (
                "zookeeper://10.0.0.1:1/%20?group=g=h&offset=from",
                built("10.0.0.1:1/ ", "g=h").offset(ZooKeeperOffset::From),
            ),
        ] {
            assert_eq!(parsed(url).unwrap(), builder);
            assert_eq!(builder.to_string(), url);
        }
        assert_eq!(parsed("zookeeper://h/?group=g&offset=until").unwrap().to_string(), "zookeeper://h?group=g");
    }

    #[test]
    fn urls_that_are_none() {
        for (url, part) in [
            ("http://h?group=g", "does not begin with zookeeper://"),
            ("zookeeper://h", "it names no group"),
            ("zookeeper://h?group=", "it is empty"),
            ("zookeeper://h?group=a/x", "/ separates nodes"),
            ("zookeeper://h?group=a%2Fx", "/ separates nodes"),
            ("zookeeper://h?group=a%2", "two hexadecimal digits are missing"),
            ("zookeeper://h?group=a%+5", "two hexadecimal digits are missing"),
            ("zookeeper://h?group=%FF", "is not UTF-8"),
            ("zookeeper://h?group=a&group=b", "'group=b' is the second of its kind"),
            ("zookeeper://h?group=a&offset=end", "offset is until or from"),
            ("zookeeper://h?group=a&user=b", "there is no 'user=b'"),
            ("zookeeper://?group=g", "'' is no ZooKeeper server"),
            ("zookeeper://h1,,h2?group=g", "'' is no ZooKeeper server"),
            ("zookeeper://h:x?group=g", "'h:x' is no ZooKeeper server"),
            ("zookeeper://h:0?group=g", "'h:0' is no ZooKeeper server"),
            ("zookeeper://h:1:2?group=g", "'h:1:2' is no ZooKeeper server"),
            ("zookeeper://h 1?group=g", "'h 1' is no ZooKeeper server"),
            ("zookeeper://h:70000?group=g", "'h:70000' is no ZooKeeper server"),
            ("zookeeper://h//a?group=g", "it is empty"),
        ] {
            let error = parsed(url).unwrap_err();
            assert!(error.contains(part), "{url}: {error}");
        }
        let error = parsed("zookeeper://ann:s3cret@h?group=g").unwrap_err();
        assert!(error.contains("ottla.zookeeper.auth") && !error.contains("s3cret"), "{error}");
    }

    #[test]
    fn nothing_shows_the_password() {
        let (options, _) = ZooKeeperOptions::split([("ottla.zookeeper.auth", "digest:ann:s3cret")]).unwrap();
        let builder = parsed("zookeeper://h?group=g").unwrap().options(options);
        assert!(!format!("{builder} {builder:?}").contains("s3cret"));
        assert!(!format!("{:?}", builder.build()).contains("s3cret"));
    }
}

//! `ottla.zookeeper.*`: how ZooKeeper is reached, for the stores that are there.

use super::{OptionError, names::Pairs, values::positive};
use std::{fmt, path::PathBuf, time::Duration};

/// The names, as they are written in documents.
const AUTH: &str = "ottla.zookeeper.auth";
const SESSION_TIMEOUT: &str = "ottla.zookeeper.session.timeout.ms";
const KEYSTORE: &str = "ottla.zookeeper.ssl.keystore.location";
const TRUSTSTORE: &str = "ottla.zookeeper.ssl.truststore.location";
const TIMEOUT: &str = "ottla.zookeeper.timeout.ms";

/// What these options begin with.
const PREFIX: &str = "ottla.zookeeper.";

/// All of them.
pub(super) const NAMES: [&str; 5] = [AUTH, SESSION_TIMEOUT, KEYSTORE, TRUSTSTORE, TIMEOUT];

/// How ZooKeeper is reached: the options `ottla.zookeeper.*`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ZooKeeperOptions {
    /// `ottla.zookeeper.auth`: `digest:user:password`. Default: none. With it, nodes that are created can be written by who has the same
    /// credentials, and read by all; `/consumers` itself, which all groups share, stays open.
    pub auth: Option<ZooKeeperAuth>,
    /// `ottla.zookeeper.session.timeout.ms`: how long the servers keep a session whose client they don't hear of. A connection counts as lost
    /// after two fifths of it without an answer. Default 18 s.
    pub session_timeout: Duration,
    /// `ottla.zookeeper.ssl.truststore.location`: a PEM file with the certificates that those of the servers must go back to. With it, and only
    /// with it, connections are encrypted, and the servers' names are checked. Default: none.
    pub ssl_truststore_location: Option<PathBuf>,
    /// `ottla.zookeeper.ssl.keystore.location`: a PEM file with the key and the certificates to show to the servers. Default: none.
    pub ssl_keystore_location: Option<PathBuf>,
    /// `ottla.zookeeper.timeout.ms`: how long a load or a store may take, connecting and all retries included. Default 30 s.
    pub timeout: Duration,
}

impl Default for ZooKeeperOptions {
    fn default() -> Self {
        Self {
            auth: None,
            session_timeout: Duration::from_secs(18),
            ssl_truststore_location: None,
            ssl_keystore_location: None,
            timeout: Duration::from_secs(30),
        }
    }
}

impl ZooKeeperOptions {
    /// Takes the options `ottla.zookeeper.*` out of `pairs`, and returns the others beside them, in their order. Names compare without case; of
    /// an option given twice the last counts.
    ///
    /// ```
    /// use ottla_stream::ZooKeeperOptions;
    ///
    /// let pairs = [("ottla.zookeeper.auth", "digest:ann:secret"), ("kafka.bootstrap.servers", "localhost:9092")];
    /// let (options, others) = ZooKeeperOptions::split(pairs)?;
    /// assert!(options.auth.is_some() && !format!("{options:?}").contains("secret"));
    /// assert_eq!(others, [("kafka.bootstrap.servers", "localhost:9092")]);
    /// # Ok::<(), ottla_stream::OptionError>(())
    /// ```
    ///
    /// # Errors
    /// A value that can't be used, and an unknown name that begins so.
    pub fn split<K: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(Self, Vec<(K, V)>), OptionError> {
        let mut options = Self::default();
        let mut others = Vec::new();
        for (key, value) in pairs {
            let is_ours = |key: &str| key.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX));
            if is_ours(key.as_ref().trim()) {
                options.set(key.as_ref().trim(), value.as_ref().trim())?;
            } else {
                others.push((key, value));
            }
        }
        options.check()?;
        Ok((options, others))
    }

    /// Those of all options.
    pub(super) fn of(pairs: &Pairs) -> Result<Self, OptionError> {
        let mut options = Self::default();
        for name in NAMES {
            pairs.get(name).map_or(Ok(()), |value| options.set(name, value))?;
        }
        options.check()?;
        Ok(options)
    }

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        match NAMES.into_iter().find(|known| known.eq_ignore_ascii_case(name)) {
            Some(AUTH) => self.auth = Some(value.parse()?),
            Some(SESSION_TIMEOUT) => self.session_timeout = millis(SESSION_TIMEOUT, value)?,
            Some(KEYSTORE) => self.ssl_keystore_location = Some(value.into()),
            Some(TRUSTSTORE) => self.ssl_truststore_location = Some(value.into()),
            Some(TIMEOUT) => self.timeout = millis(TIMEOUT, value)?,
            _ => {
                let message = format!("there is no option '{name}'; those of ZooKeeper are {}", NAMES.join(", "));
                return Err(OptionError::with_condition("UNKNOWN_OPTION", message));
            }
        }
        Ok(())
    }

    /// What is to be encrypted is never sent as plain text.
    pub(super) fn check(&self) -> Result<(), OptionError> {
        let (truststore, keystore) = (self.ssl_truststore_location.is_some(), self.ssl_keystore_location.is_some());
        if keystore && !truststore {
            return Err(OptionError::new(format!("option '{KEYSTORE}' needs '{TRUSTSTORE}': no servers are trusted")));
        }
        if truststore && !cfg!(feature = "zookeeper-tls") {
            return Err(OptionError::new(format!(
                "option '{TRUSTSTORE}' can't be used: this program was built without TLS for ZooKeeper (the feature zookeeper-tls)"
            )));
        }
        Ok(())
    }
}

/// ZooKeeper sends times as 32 bits.
fn millis(name: &str, value: &str) -> Result<Duration, OptionError> {
    let millis = positive(name, value)?;
    if millis > i64::from(i32::MAX) {
        return Err(OptionError::new(format!("{name} can be {} at most, got {millis}", i32::MAX)));
    }
    Ok(Duration::from_millis(millis.unsigned_abs()))
}

/// Credentials for ZooKeeper's scheme `digest`. Nothing shows the password.
#[derive(Clone, PartialEq, Eq)]
pub struct ZooKeeperAuth {
    /// `user:password`.
    credentials: String,
}

impl ZooKeeperAuth {
    /// `user:password`.
    #[cfg(feature = "zookeeper")]
    pub(crate) fn credentials(&self) -> &str {
        &self.credentials
    }
}

impl fmt::Debug for ZooKeeperAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.credentials.split(':').next().unwrap_or_default();
        write!(f, "digest:{user}:…")
    }
}

impl std::str::FromStr for ZooKeeperAuth {
    type Err = OptionError;

    /// Reads `digest:user:password`; the password may have colons.
    fn from_str(text: &str) -> Result<Self, OptionError> {
        let credentials = text.strip_prefix("digest:");
        match credentials.and_then(|credentials| credentials.split_once(':')) {
            Some((user, password)) if !user.is_empty() && !password.is_empty() => {
                Ok(Self { credentials: format!("{user}:{password}") })
            }
            // The value may hold a password: it is not shown.
            _ => Err(OptionError::new(format!("option '{AUTH}' must be digest:user:password"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StreamOptions;

    fn options(pairs: &[(&str, &str)]) -> Result<ZooKeeperOptions, String> {
        ZooKeeperOptions::split(pairs.iter().copied()).map(|(options, _)| options).map_err(|error| error.to_string())
    }

    #[test]
    fn options_by_name() {
        assert_eq!(options(&[]), Ok(ZooKeeperOptions::default()));
        let given = options(&[
            ("OTTLA.ZooKeeper.Session.Timeout.ms", "6000"),
            ("ottla.zookeeper.timeout.ms", "9"),
            ("ottla.zookeeper.timeout.ms", " 1500 "),
        ])
        .unwrap();
        assert_eq!((given.session_timeout, given.timeout), (Duration::from_secs(6), Duration::from_millis(1500)));
        for (name, value, part) in [
            ("ottla.zookeeper.timeout.ms", "0", "must be positive"),
            ("ottla.zookeeper.timeout.ms", "2147483648", "2147483647 at most"),
            ("ottla.zookeeper.session.timeout.ms", "6s", "must be a whole number"),
            ("ottla.zookeeper.timeout", "6", "there is no option 'ottla.zookeeper.timeout'"),
        ] {
            let error = options(&[(name, value)]).unwrap_err();
            assert!(error.contains(part), "{name}={value}: {error}");
        }
    }

    #[test]
    fn tls_is_asked_for_by_its_trust() {
        let error = options(&[(KEYSTORE, "k.pem")]).unwrap_err();
        assert!(error.contains("needs 'ottla.zookeeper.ssl.truststore.location'"), "{error}");
        let given = options(&[(KEYSTORE, "k.pem"), (TRUSTSTORE, "t.pem")]);
        if cfg!(feature = "zookeeper-tls") {
            assert_eq!(given.unwrap().ssl_truststore_location, Some("t.pem".into()));
        } else {
            assert!(given.unwrap_err().contains("built without TLS for ZooKeeper"));
        }
    }

    #[test]
    fn a_stream_takes_them_too() {
        let pairs = [
            ("kafka.bootstrap.servers", "h:1"),
            ("subscribe", "t"),
            ("Ottla.zookeeper.auth", "digest:ann:s3cret"),
            ("ottla.zookeeper.timeout.ms", "1500"),
        ];
        let stream = StreamOptions::stream_from_pairs(pairs).unwrap();
        assert_eq!(stream.zookeeper, ZooKeeperOptions::split(pairs).unwrap().0);
        assert!(!format!("{stream:?}").contains("s3cret"));
        let none = StreamOptions::from_pairs([("ottla.zookeeper.timeoutms", "5"), ("subscribe", "t")]).unwrap_err();
        assert!(none.to_string().contains("did you mean 'ottla.zookeeper.timeout.ms'?"), "{none}");
    }

    #[test]
    fn a_password_is_never_shown() {
        let auth: ZooKeeperAuth = "digest:ann:a:s3cret".parse().unwrap();
        assert_eq!(auth.credentials, "ann:a:s3cret");
        assert_eq!(format!("{auth:?}"), "digest:ann:…");
        for text in ["ann:s3cret", "digest:s3cret", "digest::s3cret", "sasl:ann:s3cret", "digest:s3cret:", ""] {
            let error = text.parse::<ZooKeeperAuth>().unwrap_err();
            assert_eq!(error.to_string(), "option 'ottla.zookeeper.auth' must be digest:user:password");
        }
    }
}

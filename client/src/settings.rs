//! Kafka's client settings by their names (`fetch.min.bytes`), as users of Java's clients and of Spark's `kafka.*` options write them.
//! Parsed once, into [`ClientConfig`].

use crate::{BrokerAddress, ClientConfig, IsolationLevel};
use std::{str::FromStr, time::Duration};

/// What became of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettingEffect {
    /// It is in the configuration now.
    Applied,
    /// Kafka's clients have it, but it changes nothing here.
    NoEffect,
}

/// Why a setting was not taken. None of these repeats a value that may be a secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// Kafka 4.3's consumer and admin clients have no such setting.
    #[error("'{key}' is not a setting of Kafka's consumer or admin client{}", .nearest.map(|nearest| format!("; did you mean '{nearest}'?")).unwrap_or_default())]
    Unknown {
        /// As it was written.
        key: String,
        /// The most similar setting, if one is similar.
        nearest: Option<&'static str>,
    },
    /// The value is not one the setting can have.
    #[error("'{key}' can't be '{value}': it must be {expected}")]
    Value {
        /// The setting.
        key: &'static str,
        /// The value.
        value: String,
        /// What it can be.
        expected: String,
    },
    /// It would change how safe the connection is, in a way that is not supported yet.
    #[error("'{key}' is not supported yet: it asks for {missing}, and nothing is sent less safely than meant")]
    Unsupported {
        /// The setting.
        key: String,
        /// What is missing.
        missing: &'static str,
    },
}

/// Settings that have an effect here.
const APPLIED: &[&str] = &[
    "bootstrap.servers",
    "check.crcs",
    "client.id",
    "default.api.timeout.ms",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "isolation.level",
    "max.partition.fetch.bytes",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
];

/// Settings that decide whom the client trusts, or how it proves who it is.
const SAFETY: &[&str] = &[
    "sasl.client.callback.handler.class",
    "sasl.jaas.config",
    "sasl.kerberos.service.name",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.mechanism",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
];

/// Settings of Kafka 4.3's consumer and admin clients that change nothing here: what they steer (membership, polling, metrics, the JVM's
/// security providers) does not exist, or is done in one way only.
const NO_EFFECT: &[&str] = &[
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "bootstrap.controllers",
    "client.dns.lookup",
    "client.rack",
    "config.providers",
    "connections.max.idle.ms",
    "enable.metrics.push",
    "exclude.internal.topics",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "internal.throw.on.fetch.stable.offset.unsupported",
    "max.poll.interval.ms",
    "max.poll.records",
    "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partition.assignment.strategy",
    "retries",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "security.providers",
    "send.buffer.bytes",
    "session.timeout.ms",
    "share.acknowledgement.mode",
    "share.acquire.mode",
    "socket.connection.setup.timeout.max.ms",
    "ssl.keymanager.algorithm",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
];

impl ClientConfig {
    /// Every setting of Kafka's consumer and admin clients that [`set`](Self::set) knows by its own name, whatever becomes of it.
    pub fn settings() -> impl Iterator<Item = &'static str> {
        APPLIED.iter().chain(SAFETY).chain(NO_EFFECT).copied()
    }

    /// Sets `key`, a setting of Kafka's clients without the prefix `kafka.`, to `value`. White space around the value is ignored.
    ///
    /// # Errors
    /// A key that Kafka's clients don't have, a value that the setting can't have, or a setting that is refused because it asks for
    /// safety that is not there yet.
    pub fn set(&mut self, key: &str, value: &str) -> Result<SettingEffect, SettingError> {
        let value = value.trim();
        match key {
            "bootstrap.servers" => {
                self.bootstrap_servers = BrokerAddress::parse_list(value)
                    .map_err(|error| invalid("bootstrap.servers", value, &format!("host:port,…; {error}")))?;
            }
            "check.crcs" => self.check_crcs = boolean("check.crcs", value)?,
            "client.id" => self.client_id = value.to_owned(),
            "default.api.timeout.ms" => self.default_api_timeout = positive_ms("default.api.timeout.ms", value)?,
            "fetch.max.bytes" => self.fetch_max_bytes = positive("fetch.max.bytes", value)?,
            "fetch.max.wait.ms" => self.fetch_max_wait = ms("fetch.max.wait.ms", value)?,
            "fetch.min.bytes" => self.fetch_min_bytes = positive("fetch.min.bytes", value)?,
            "isolation.level" => self.isolation_level = isolation_level(value)?,
            "max.partition.fetch.bytes" => {
                self.max_partition_fetch_bytes = positive("max.partition.fetch.bytes", value)?
            }
            "receive.buffer.bytes" => {
                let bytes: i32 = number("receive.buffer.bytes", value, -1, "-1 or a number of bytes")?;
                self.receive_buffer_bytes = usize::try_from(bytes).ok();
            }
            "reconnect.backoff.max.ms" => self.reconnect_backoff_max = ms("reconnect.backoff.max.ms", value)?,
            "reconnect.backoff.ms" => self.reconnect_backoff = ms("reconnect.backoff.ms", value)?,
            "request.timeout.ms" => self.request_timeout = positive_ms("request.timeout.ms", value)?,
            "retry.backoff.max.ms" => self.retry_backoff_max = ms("retry.backoff.max.ms", value)?,
            "retry.backoff.ms" => self.retry_backoff = ms("retry.backoff.ms", value)?,
            "security.protocol" => security_protocol(value)?,
            "socket.connection.setup.timeout.ms" => {
                self.socket_connection_setup_timeout = positive_ms("socket.connection.setup.timeout.ms", value)?;
            }
            _ if NO_EFFECT.contains(&key) => return Ok(SettingEffect::NoEffect),
            _ if SAFETY.contains(&key) || key.starts_with("sasl.oauthbearer.") => {
                let missing = if key.starts_with("ssl.") { "TLS" } else { "SASL" };
                return Err(SettingError::Unsupported { key: key.to_owned(), missing });
            }
            _ => return Err(SettingError::Unknown { key: key.to_owned(), nearest: nearest(key) }),
        }
        Ok(SettingEffect::Applied)
    }
}

fn nearest(key: &str) -> Option<&'static str> {
    let (similarity, nearest) = ClientConfig::settings()
        .map(|known| (strsim::jaro_winkler(key, known), known))
        .max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (similarity > 0.85).then_some(nearest)
}

fn invalid(key: &'static str, value: &str, expected: &str) -> SettingError {
    SettingError::Value { key, value: value.to_owned(), expected: expected.to_owned() }
}

fn number<T: FromStr + PartialOrd>(key: &'static str, value: &str, min: T, expected: &str) -> Result<T, SettingError> {
    value.parse().ok().filter(|number| *number >= min).ok_or_else(|| invalid(key, value, expected))
}

fn positive(key: &'static str, value: &str) -> Result<i32, SettingError> {
    number(key, value, 1, "a whole number from 1 to 2147483647")
}

fn ms(key: &'static str, value: &str) -> Result<Duration, SettingError> {
    number(key, value, 0, "a number of milliseconds").map(|ms: u32| Duration::from_millis(ms.into()))
}

fn positive_ms(key: &'static str, value: &str) -> Result<Duration, SettingError> {
    number(key, value, 1, "a number of milliseconds above 0").map(|ms: u32| Duration::from_millis(ms.into()))
}

fn boolean(key: &'static str, value: &str) -> Result<bool, SettingError> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(invalid(key, value, "true or false")),
    }
}

fn isolation_level(value: &str) -> Result<IsolationLevel, SettingError> {
    match value.to_ascii_lowercase().as_str() {
        "read_committed" => Ok(IsolationLevel::ReadCommitted),
        "read_uncommitted" => Ok(IsolationLevel::ReadUncommitted),
        _ => Err(invalid("isolation.level", value, "read_uncommitted or read_committed")),
    }
}

fn security_protocol(value: &str) -> Result<(), SettingError> {
    match value.to_ascii_uppercase().as_str() {
        "PLAINTEXT" => Ok(()),
        other @ ("SSL" | "SASL_PLAINTEXT" | "SASL_SSL") => {
            let missing = match other {
                "SSL" => "TLS",
                "SASL_PLAINTEXT" => "SASL",
                _ => "TLS and SASL",
            };
            Err(SettingError::Unsupported { key: format!("security.protocol={other}"), missing })
        }
        _ => Err(invalid("security.protocol", value, "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(key: &str, value: &str) -> Result<(ClientConfig, SettingEffect), String> {
        let mut config = ClientConfig::from_bootstrap("h").unwrap();
        config.set(key, value).map(|effect| (config, effect)).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_reach_the_configuration() {
        assert_eq!(set("fetch.min.bytes", " 7 ").unwrap().0.fetch_min_bytes, 7);
        assert_eq!(set("request.timeout.ms", "1500").unwrap().0.request_timeout, Duration::from_millis(1500));
        assert_eq!(set("isolation.level", "Read_Committed").unwrap().0.isolation_level, IsolationLevel::ReadCommitted);
        assert_eq!(set("receive.buffer.bytes", "-1").unwrap().0.receive_buffer_bytes, None);
        assert_eq!(set("max.poll.records", "5").unwrap().1, SettingEffect::NoEffect);
    }

    #[test]
    fn every_applied_setting_is_known_and_every_list_is_disjoint() {
        for key in APPLIED {
            let error = set(key, "\u{1}").err();
            assert!(error.is_none_or(|error| error.contains("can't be")), "{key}");
            assert!(!NO_EFFECT.contains(key) && !SAFETY.contains(key), "{key}");
        }
        assert!(SAFETY.iter().all(|key| !NO_EFFECT.contains(key)));
    }

    #[test]
    fn mistakes_are_named() {
        assert!(set("fetch.min.byte", "1").unwrap_err().contains("did you mean 'fetch.min.bytes'?"));
        assert!(set("nonsense", "1").unwrap_err().ends_with("admin client"));
        assert!(set("fetch.max.bytes", "-1").unwrap_err().contains("'fetch.max.bytes' can't be '-1'"));
        assert!(set("fetch.max.bytes", "2147483648").unwrap_err().contains("2147483647"));
        assert!(set("check.crcs", "yes").unwrap_err().contains("true or false"));
    }

    #[test]
    fn what_would_be_less_safe_is_refused_without_its_value() {
        for key in ["sasl.jaas.config", "ssl.key.password", "sasl.oauthbearer.scope"] {
            let error = set(key, "s3cret").unwrap_err();
            assert!(error.contains(key) && error.contains("not supported yet") && !error.contains("s3cret"), "{error}");
        }
        assert!(set("security.protocol", "ssl").unwrap_err().contains("security.protocol=SSL"));
        assert!(set("security.protocol", "PLAINTEXT").is_ok());
    }
}

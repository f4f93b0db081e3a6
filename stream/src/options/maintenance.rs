//! The options of tools that look at stores and set them: the client's, and the few that say how offsets are found and kept.

use super::{
    OptionError, RECOMMIT_INTERVAL_DEFAULT, StartingOffsetsByTimestampStrategy, ZooKeeperOptions,
    bounds::by_timestamp_strategy, client::client, duration, names::Pairs, zookeeper,
};
use ottla_client::ClientConfig;
use std::time::Duration;

/// The options of a tool that works on an [`OffsetStore`](crate::OffsetStore) and reads no source.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MaintenanceOptions {
    /// `kafka.*`.
    pub client: ClientConfig,
    /// `startingOffsetsByTimestampStrategy`: what a timestamp that no record reaches means. Default `error`.
    pub by_timestamp_strategy: StartingOffsetsByTimestampStrategy,
    /// `ottla.recommitInterval`: how long after its last commit the same offsets are committed again. Default 10 min.
    pub recommit_interval: Duration,
    /// `ottla.zookeeper.*`: how a store in ZooKeeper is reached, if there is one.
    pub zookeeper: ZooKeeperOptions,
    /// What was accepted, but may not be what was meant.
    pub warnings: Vec<String>,
}

impl MaintenanceOptions {
    /// Whether an option beside `kafka.*` is one of these.
    pub fn knows(name: &str) -> bool {
        let ours = ["startingOffsetsByTimestampStrategy", "ottla.recommitInterval"];
        ours.into_iter().chain(zookeeper::NAMES).any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Reads the options. Names compare without case; of an option given twice the last counts.
    ///
    /// # Errors
    /// An option that says what to read, and every mistake in a value.
    pub fn from_pairs<K: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, OptionError> {
        let pairs = Pairs::new(pairs)?;
        if let Some(name) = pairs.names().find(|name| !Self::knows(name)) {
            return Err(OptionError::new(format!("option '{name}' says what to read, and nothing is read here")));
        }
        let mut warnings = Vec::new();
        let (client, _) = client(&pairs, &mut warnings)?;
        let recommit = pairs.get("ottla.recommitInterval").map(|value| duration("ottla.recommitInterval", value));
        Ok(Self {
            client,
            by_timestamp_strategy: by_timestamp_strategy(&pairs)?,
            recommit_interval: recommit.transpose()?.unwrap_or(RECOMMIT_INTERVAL_DEFAULT),
            zookeeper: ZooKeeperOptions::of(&pairs)?,
            warnings,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_to_do_with_stores_is_taken() {
        let parse = |pairs: &[(&str, &str)]| {
            let all = [("kafka.bootstrap.servers", "h:1")];
            MaintenanceOptions::from_pairs(all.iter().chain(pairs).copied()).map_err(|error| error.to_string())
        };
        let options = parse(&[]).unwrap();
        assert_eq!(options.by_timestamp_strategy, StartingOffsetsByTimestampStrategy::Error);
        assert_eq!(options.recommit_interval, Duration::from_secs(600));
        let options =
            parse(&[("startingoffsetsbytimestampstrategy", "latest"), ("ottla.recommitInterval", "5s")]).unwrap();
        assert_eq!(options.by_timestamp_strategy, StartingOffsetsByTimestampStrategy::Latest);
        assert_eq!(options.recommit_interval, Duration::from_secs(5));
        assert!(parse(&[("subscribe", "t")]).unwrap_err().contains("nothing is read here"));
        assert!(parse(&[("ottla.recommitInterval", "soon")]).unwrap_err().contains("'soon'"));
    }
}

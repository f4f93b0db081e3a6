//! The `kafka.*` settings: those that the engine sets itself are refused, the others are the client's.

use super::{OptionError, names::Pairs};
use ottla_client::{ClientConfig, SettingEffect};

/// The client setting under which the listener that people pair with Spark takes its group.
pub(super) const COMMIT_GROUP: &str = "consumer.commit.groupid";

/// The client's settings, and the group to commit to.
pub(super) fn client(pairs: &Pairs, warnings: &mut Vec<String>) -> Result<(ClientConfig, Option<String>), OptionError> {
    let deserializer = |key: &str, what: &str| {
        OptionError::new(format!(
            "Kafka option '{key}' is not supported as {what} are deserialized as byte arrays with ByteArrayDeserializer. Use DataFrame \
             operations to explicitly deserialize the {what}."
        ))
    };
    let mut client = ClientConfig::new(Vec::new());
    let mut commit_group = None;
    for (key, value) in &pairs.kafka {
        match key.as_str() {
            "auto.offset.reset" => {
                return Err(OptionError::new(
                    "\nKafka option 'auto.offset.reset' is not supported.\nInstead set the source option 'startingOffsets' to specify where \
                     to start: which offsets are read is managed here, so that no record is missed",
                ));
            }
            "key.deserializer" => return Err(deserializer(key, "keys")),
            "value.deserializer" => return Err(deserializer(key, "values")),
            "enable.auto.commit" => {
                return Err(OptionError::new(
                    "Kafka option 'enable.auto.commit' is not supported: offsets are committed only after the records were processed, never \
                     by the clock; name the group with --commit-group",
                ));
            }
            "interceptor.classes" => return Err(OptionError::new("Kafka option 'interceptor.classes' is not supported")),
            "group.id" => warnings.push(
                "Kafka option 'group.id' joins no group here: partitions are assigned, and offsets are committed only to the group of \
                 --commit-group"
                    .to_owned(),
            ),
            COMMIT_GROUP => commit_group = Some(value.trim().to_owned()),
            _ => match client.set(key, value) {
                Ok(SettingEffect::Applied) => {}
                Ok(SettingEffect::NoEffect) => warnings.push(format!("Kafka option '{key}' has no effect here")),
                Err(error) => return Err(OptionError::new(format!("Kafka option {error}"))),
            },
        }
    }
    if commit_group.as_deref() == Some("") {
        return Err(OptionError::new(
            "option 'kafka.consumer.commit.groupid' (--commit-group) is empty: a group has a name",
        ));
    }
    if client.bootstrap_servers.is_empty() {
        return Err(OptionError::new(
            "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer: name the brokers with -b HOST:PORT",
        ));
    }
    Ok((client, commit_group))
}

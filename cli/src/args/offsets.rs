//! The arguments of `ottla offsets`.

use clap::{Args, Subcommand};
use ottla_stream::{SourceOffset, StoreUrl};
use std::{collections::BTreeSet, str::FromStr};

#[derive(Debug, Args)]
#[command(after_help = "\
A STORE is one of
  group:NAME                                             a consumer group
  zookeeper://HOST:PORT,…/CHROOT?group=NAME              ZooKeeper, as old consumers keep offsets there
  checkpoint:DIR[?source=N]                              a query's checkpoint, Spark's or Ottla's; only read, also while the query runs
  offsets-file:PATH                                      a file of this machine")]
pub(crate) struct OffsetsArgs {
    #[command(subcommand)]
    pub(crate) command: OffsetsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OffsetsCommand {
    /// Show what a store holds, where the logs begin and end, and how far the store is behind
    #[command(after_help = "\
Examples:
  ottla offsets show group:nightly -b localhost:9092
  ottla offsets show checkpoint:/var/lib/jobs/errors?source=1 -b localhost:9092 --topic logs --json

All partitions are shown that the store holds, and the others of the same topics. The STATE is ok, missing (nothing is stored), below log \
start (what was to be read next is deleted), beyond end (after the high watermark), topic recreated (the offset is of a topic of the same \
name that was deleted) or gone (the partition is not there any more). LATEST is the high watermark; under \
kafka.isolation.level=read_committed it is the last stable offset, and the header says so. A store that holds nothing is an error \
(exit code 1).")]
    Show(ShowArgs),
    /// Check what a store holds; exit code 3 when a read could not go on from there without a loss
    #[command(after_help = "\
Example:
  ottla offsets validate group:nightly -b localhost:9092 || echo 'offsets need a look'

Only what is not ok is printed, and a summary on standard error. Exit codes: 0 all is ok, or nothing is stored for some partitions \
(which a query reads from their start); 3 an offset is below the log start, beyond the end, of a recreated topic, or of a partition that \
is gone; 1 the store or the cluster can't be asked, or the store holds nothing; 2 wrong use.")]
    Validate(ShowArgs),
    /// Set the offsets that a store holds
    #[command(after_help = "\
Examples:
  ottla offsets set group:nightly --to earliest --topic logs --force
  ottla offsets set group:nightly --to timestamp:1700000000000 --dry-run
  ottla offsets set offsets-file:job.json --to '{\"logs\":{\"0\":1200,\"1\":-2}}'

All is checked before anything is written: an offset beyond the end of the log, or before the one that the store holds, needs --force \
(exit code 2). Without --topic, earliest, latest and timestamp set all partitions of the topics that the store has anything of. Where no \
record is as late as the timestamp that is an error, or the end with -X startingOffsetsByTimestampStrategy=latest. A group must have no \
active members.")]
    Set(SetArgs),
    /// Copy what a store holds into another one
    #[command(after_help = "\
Examples:
  A Spark job's offsets into a group:
    ottla offsets copy checkpoint:/data/ck/job group:job -b localhost:9092 --dry-run
  A group's offsets into a file, and back:
    ottla offsets copy group:job offsets-file:job.json -b localhost:9092
    ottla offsets copy offsets-file:job.json group:job -b localhost:9092 --force

As with set, all is checked before anything is written. Offsets of partitions that are gone, or of a topic that was deleted and created \
again, are left out, and told.")]
    Copy(CopyArgs),
    /// Watch a query's checkpoint, and store the offsets of each batch that is done in another store
    #[command(after_help = "\
Examples:
  A running Spark job, to be seen in lag monitoring:
    ottla offsets follow checkpoint:/data/ck/job group:job -b localhost:9092
  One source of a union:
    ottla offsets follow 'checkpoint:/data/ck/job?source=1' group:payments -b localhost:9092

A batch is done when its file in `commits` can be read. Without ?source=N all sources go to the same store; they must not share \
partitions. When several batches are done between two looks (twice a second) the newest stands for them. A line on standard error tells \
of each. Nothing moves backwards without --force. What can't be stored is tried again, with pauses of up to 30 s. The same offsets are \
stored again after ottla.recommitInterval (10 min), so that they don't expire.

Exit codes: SIGTERM 0 and Ctrl-C 130, after a last look; 1 when the newest offsets could not be stored within 10 s by then; 2 wrong use.")]
    Follow(CopyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The store
    #[arg(value_name = "STORE")]
    pub(crate) store: StoreUrl,
    /// Only this topic; may be repeated
    #[arg(long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
}

/// What `set`, `copy` and `follow` have in common.
#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// Only this topic; may be repeated
    #[arg(long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
    /// Print what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also move offsets backwards, or beyond the end of the log
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The store
    #[arg(value_name = "STORE")]
    pub(crate) store: StoreUrl,
    /// earliest, latest, timestamp:MS (the first record as late as this), {"topic":{"0":23,"1":-2}} (-1 latest, -2 earliest),
    /// or another STORE
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true)]
    pub(crate) to: SetTarget,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// The store to take the offsets from
    #[arg(value_name = "FROM")]
    pub(crate) from: StoreUrl,
    /// The store to put them into
    #[arg(value_name = "TO")]
    pub(crate) to: StoreUrl,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

impl ShowArgs {
    pub(crate) fn topics(&self) -> BTreeSet<String> {
        self.topics.iter().cloned().collect()
    }
}

impl ChangeArgs {
    pub(crate) fn topics(&self) -> BTreeSet<String> {
        self.topics.iter().cloned().collect()
    }
}

/// Where offsets are to be set to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SetTarget {
    Earliest,
    Latest,
    TimestampMs(i64),
    Offsets(SourceOffset),
    Store(StoreUrl),
}

impl FromStr for SetTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.starts_with('{') {
            return text.parse().map(Self::Offsets).map_err(|error: ottla_stream::OptionError| error.to_string());
        }
        match text.split_once(':') {
            None if text.eq_ignore_ascii_case("earliest") => Ok(Self::Earliest),
            None if text.eq_ignore_ascii_case("latest") => Ok(Self::Latest),
            None => {
                Err("it must be earliest, latest, timestamp:MS, JSON such as {\"topic\":{\"0\":23}}, or a STORE"
                    .to_owned())
            }
            Some(("timestamp", ms)) => match ms.parse() {
                Ok(ms @ 0..) => Ok(Self::TimestampMs(ms)),
                _ => Err(format!("'{ms}' is no time in milliseconds since the epoch")),
            },
            Some(_) => text.parse().map(Self::Store).map_err(|error: ottla_stream::OptionError| error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_word_a_time_json_or_a_store() {
        let parse = |text: &str| text.parse::<SetTarget>();
        assert_eq!(parse("earliest"), Ok(SetTarget::Earliest));
        assert_eq!(parse("LATEST"), Ok(SetTarget::Latest));
        assert_eq!(parse("timestamp:1700000000000"), Ok(SetTarget::TimestampMs(1_700_000_000_000)));
        assert_eq!(parse("group:g"), Ok(SetTarget::Store(StoreUrl::Group("g".to_owned()))));
        assert!(matches!(parse(r#" {"t":{"0":-2}}"#), Ok(SetTarget::Offsets(_))));
        for bad in [
            "",
            "now",
            "-1",
            "timestamp:",
            "timestamp:-5",
            "timestamp:1.5",
            r#"{"t":{"0":-3}}"#,
            r#"{"t":{"0":-1001}}"#,
            "x:y",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}

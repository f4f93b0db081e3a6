//! The arguments of `ottla run`.

use super::SourceArgs;
use clap::Args;
use ottla_stream::{StoreUrl, Trigger};
use std::{path::PathBuf, str::FromStr};

#[derive(Debug, Args)]
#[command(
    next_help_heading = "Query",
    after_help = "\
Examples:
  Print what is new, and remember how far we are in a directory:
    ottla run -b localhost:9092 --subscribe logs --checkpoint /var/lib/jobs/logs
  Copy the errors of all topics of a kind into files, everything that is there now and no more:
    ottla run -b localhost:9092 --subscribe-pattern '^logs-' --starting-offsets earliest --where \"value LIKE '%ERROR%'\" \\
      --trigger available-now --checkpoint /var/lib/jobs/errors --sink file:/data/errors --commit-group errors
  A union of two sources, each with a group of its own:
    ottla run --config union.toml --checkpoint /var/lib/jobs/union
      kafka.bootstrap.servers = \"localhost:9092\"
      [[source]]
      subscribe = \"orders\"
      commit_group = \"orders-job\"
      [[source]]
      subscribe = \"payments\"
      commit_group = \"payments-job\"

The order of a batch is: plan, write CHECKPOINT/offsets/N, read and write out, write CHECKPOINT/commits/N, commit to the group. \
After a failure or a kill the next run does the same batch again, with the same id and ranges; without a checkpoint it is planned anew, \
from the group on. The checkpoint has Spark's layout: \
Ottla goes on from one that Spark wrote, and Spark from one that Ottla wrote. The start options count for the first start only.

With --json the totals on standard error have the fields records, valueBytes and hits (records looked at, bytes of their values, and \
those kept), batches, lostOffsets, failedCommits, and those of `ottla read` from wallSeconds on.

Exit codes: 0 done, or stopped by SIGTERM with its batch finished or given up; 1 unknown topic, unreachable broker, damaged or locked \
checkpoint, failed output, a commit still failing at the stop; 2 wrong use; 3 data loss; 130 interrupted."
)]
pub(crate) struct RunArgs {
    /// Keep only the records for which this SQL condition is true; what is committed stays the same
    #[arg(long = "where", value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) filter: Option<String>,
    /// When to make a batch: at every multiple of a time such as 10s (0s: when there is something new), available-now, once,
    /// or continuous:1s
    #[arg(long, value_name = "TRIGGER", default_value = "0s", allow_hyphen_values = true)]
    pub(crate) trigger: Trigger,
    /// The directory to keep the query's state in; without one it goes on from its group
    #[arg(long, value_name = "DIR")]
    pub(crate) checkpoint: Option<String>,
    /// Commit the end offsets of each batch to this group, of all sources that don't name their own
    #[arg(long, value_name = "GROUP")]
    pub(crate) commit_group: Option<String>,
    /// Where to keep the offsets beside a checkpoint, or in its place: group:NAME (the same as --commit-group NAME),
    /// zookeeper://HOST:PORT,…/CHROOT?group=NAME, or offsets-file:PATH
    #[arg(long, value_name = "STORE")]
    pub(crate) offset_store: Option<StoreUrl>,
    /// Where to write what is kept: console: (JSON lines on standard output), file:DIR (JSON lines, one file a batch; needs a
    /// checkpoint), or null:
    #[arg(long, value_name = "URL", default_value = "console:")]
    pub(crate) sink: SinkUrl,
    /// Append a line of Spark's StreamingQueryProgress JSON to this file for each batch
    #[arg(long, value_name = "FILE")]
    pub(crate) progress_json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// Spark's limits of a batch, as flags. Each also works as `-X name=value`.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Limits of a batch")]
pub(crate) struct LimitArgs {
    /// A batch spans about so many offsets, shared among the partitions by how much each has [default: no limit]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    max_offsets_per_trigger: Option<String>,
    /// Wait until there are so many offsets [default: one is enough]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    min_offsets_per_trigger: Option<String>,
    /// But for no longer than this [default: 15m]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    max_trigger_delay: Option<String>,
}

impl LimitArgs {
    fn pairs(&self) -> impl Iterator<Item = (String, String)> {
        [
            ("maxOffsetsPerTrigger", &self.max_offsets_per_trigger),
            ("minOffsetsPerTrigger", &self.min_offsets_per_trigger),
            ("maxTriggerDelay", &self.max_trigger_delay),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)))
    }
}

impl RunArgs {
    /// The options that its flags stand for.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        let mut pairs = self.source.pairs();
        pairs.extend(self.limits.pairs());
        pairs.extend(self.checkpoint.clone().map(|location| ("checkpointLocation".to_owned(), location)));
        pairs
    }
}

/// Where records go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SinkUrl {
    /// Standard output.
    Console,
    /// Nowhere.
    Null,
    /// Files in a directory.
    File(PathBuf),
}

impl FromStr for SinkUrl {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let forms = "it must be console:, file:DIR or null:";
        match url.split_once(':') {
            Some(("console", "")) => Ok(Self::Console),
            Some(("null", "")) => Ok(Self::Null),
            Some(("file", directory)) => {
                let directory = directory.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(directory);
                if directory.is_empty() {
                    Err(format!("names no directory; {forms}"))
                } else {
                    Ok(Self::File(directory.into()))
                }
            }
            Some(("kafka", _)) => Err(format!("writing to topics is not there yet; {forms}")),
            _ => Err(forms.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinks_are_told_by_their_scheme() {
        let parse = |url: &str| url.parse::<SinkUrl>();
        assert_eq!(parse("console:"), Ok(SinkUrl::Console));
        assert_eq!(parse("null:"), Ok(SinkUrl::Null));
        assert_eq!(parse("file:out/x"), Ok(SinkUrl::File("out/x".into())));
        assert_eq!(parse("file:/out"), Ok(SinkUrl::File("/out".into())));
        assert_eq!(parse("file:///out"), Ok(SinkUrl::File("/out".into())));
        for bad in ["", "console", "console:x", "file:", "ftp:x", "kafka:t"] {
            assert!(parse(bad).unwrap_err().contains("it must be console:, file:DIR or null:"), "{bad}");
        }
    }
}

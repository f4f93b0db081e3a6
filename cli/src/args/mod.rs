//! The command line as clap sees it, and the options that it and the configuration file name.

mod bench;
mod offsets;
mod run;

pub(crate) use bench::{BenchArgs, BenchCommand, BenchDecodeArgs, BenchFetchArgs};
pub(crate) use offsets::{ChangeArgs, CopyArgs, OffsetsArgs, OffsetsCommand, SetArgs, SetTarget, ShowArgs};
pub(crate) use run::{RunArgs, SinkUrl};

use crate::failure::Failure;
use clap::{Args, Parser, Subcommand, ValueEnum};
use ottla_stream::TomlOptions;
use std::{
    io::Read,
    path::{Path, PathBuf},
};

/// Kafka in explicit offset ranges: read, filter on the fetched bytes, commit only what was processed.
#[derive(Debug, Parser)]
#[command(name = "ottla", version, arg_required_else_help = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Brokers to make contact with; any one of the cluster will do
    #[arg(short, long, global = true, value_name = "HOST:PORT,…")]
    pub(crate) bootstrap_servers: Option<String>,
    /// A client setting as kafka.NAME=VALUE; in read, run and bench fetch also any option of Spark's Kafka source; may be repeated
    #[arg(short = 'X', long = "option", global = true, value_name = "KEY=VALUE")]
    pub(crate) options: Vec<String>,
    /// A TOML file with the same options; of an option given twice, -X wins over a flag, and a flag over the file
    #[arg(long, global = true, value_name = "FILE.toml")]
    pub(crate) config: Option<PathBuf>,
    /// Output for programs: JSON on standard output; the totals of read and run, and errors, as JSON on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// How many threads read at most; another one starts when those before it do little but decode [default: one for each core]
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) parallelism: Option<u16>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The whole story on a broker in this process: make records, read, filter, commit, show the lag
    Demo(DemoArgs),
    /// Read to the end offsets, print what a filter keeps, commit, and exit
    Read(Box<ReadArgs>),
    /// Read what is new, batch after batch, write what a filter keeps, and remember how far it is
    Run(Box<RunArgs>),
    /// Show what a group has committed and how far it is behind
    Lag(LagArgs),
    /// Look at what a store of offsets holds, check it, set it, copy it, or follow a query with it
    Offsets(Box<OffsetsArgs>),
    /// Show topics with their partitions, leaders and offsets
    Topics(TopicsArgs),
    /// Show what is in a broker's log segments, in raw record batches, or in recorded requests and responses
    Dump(DumpArgs),
    /// Measure what reading or decoding costs here
    Bench(BenchArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ottla demo
  ottla demo --records 1000000

The demo brings its own broker and topic: -b, -X and --config have no effect on it.")]
pub(crate) struct DemoArgs {
    /// How many records the demo's topic gets
    #[arg(long, value_name = "N", default_value_t = 400_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(crate) records: u32,
}

#[derive(Debug, Args)]
#[command(
    next_help_heading = "Filter, output and commit",
    after_help = "\
Examples:
  Everything in a topic, as JSON lines:
    ottla read -b localhost:9092 --subscribe logs
  Only the errors, and remember how far we are:
    ottla read -b localhost:9092 --subscribe logs --where \"value LIKE '%ERROR%'\" --commit-group nightly
  Explicit ranges of two partitions:
    ottla read -b localhost:9092 --assign '{\"logs\":[0,2]}' \\
      --starting-offsets '{\"logs\":{\"0\":1200,\"2\":-2}}' --ending-offsets '{\"logs\":{\"0\":1850,\"2\":-1}}'
  Count the records of a time span, printing none:
    ottla read -b localhost:9092 --subscribe logs --format none \\
      --starting-timestamp 1700000000000 --ending-timestamp 1700003600000
  Committed records only:
    ottla read -b localhost:9092 --subscribe payments -X kafka.isolation.level=read_committed

--where takes the columns key, value, topic, partition, offset, timestamp, timestampType and headers['name'], with \
= <> < <= > >= LIKE [ESCAPE] IN BETWEEN IS [NOT] NULL AND OR NOT and parentheses; text in single quotes, bytes as X'6869', \
times as milliseconds or TIMESTAMP '2023-11-14 22:13:20' (UTC).

With --json the totals on standard error have the fields records, valueBytes, hits (records looked at, bytes of their values, and \
those kept; what the filter passes over before it is fetched or inflated is not looked at), ranges, lostOffsets, committed, \
wallSeconds, cpuSeconds, peakRssBytes, valueBytesPerSecond and recordsPerSecond (of wall time), cpuSecondsPerGigabyte (a billion \
value bytes) and allocationsPerRecord, of the whole run. --format none prints these rates also without --json.

Exit codes: 0 done; 1 unknown topic, unreachable broker, unreadable record, failed output or commit; 2 wrong use; \
3 data loss; 130 interrupted. Nothing is committed before everything was written out."
)]
pub(crate) struct ReadArgs {
    /// Keep only the records for which this SQL condition is true; what is committed stays the same
    #[arg(long = "where", value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) filter: Option<String>,
    /// What to print of each record that is kept; the order is kept within a partition
    #[arg(long, value_enum, default_value_t = Format::Json)]
    pub(crate) format: Format,
    /// Stop after so many kept records; partitions are then read one after the other, and what was not reached is not
    /// committed
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_records: Option<u64>,
    /// Commit the end offsets of all partitions to this group, after everything was written out
    #[arg(long, value_name = "GROUP")]
    pub(crate) commit_group: Option<String>,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
}

/// What is printed of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    /// All columns as a line of JSON
    Json,
    /// The value's bytes and a line feed
    Value,
    /// Nothing; records are counted all the same
    None,
}

/// Spark's options of a source, as flags. Each also works as `-X name=value`.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Source")]
pub(crate) struct SourceArgs {
    /// Topics to read, all partitions of them
    #[arg(long, value_name = "A,B", allow_hyphen_values = true)]
    subscribe: Option<String>,
    /// Topics in whose name this regular expression is found
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    subscribe_pattern: Option<String>,
    /// Partitions to read, as JSON
    #[arg(long, help = "Partitions to read, as {\"topic\":[0,2]}", value_name = "JSON", allow_hyphen_values = true)]
    assign: Option<String>,
    /// Where to start: earliest, latest (run only), group, or {"topic":{"0":23,"1":-2}} (-2 earliest) with every partition
    /// [default: earliest; run: latest]
    #[arg(long, value_name = "OFFSETS", allow_hyphen_values = true)]
    starting_offsets: Option<String>,
    /// Start at the first record of each partition that is as late as its timestamp: {"topic":{"0":MS}}
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    starting_offsets_by_timestamp: Option<String>,
    /// Start at the first record that is as late as this (ms since the epoch)
    #[arg(long, value_name = "MS", allow_hyphen_values = true)]
    starting_timestamp: Option<String>,
    /// What a start timestamp after the last record means: error or latest [default: error]
    #[arg(long, value_name = "STRATEGY", allow_hyphen_values = true)]
    starting_offsets_by_timestamp_strategy: Option<String>,
    /// Where to end, exclusive (not in run): latest, or {"topic":{"0":50,"1":-1}} (-1 latest) with every partition
    /// [default: latest]
    #[arg(long, value_name = "OFFSETS", allow_hyphen_values = true)]
    ending_offsets: Option<String>,
    /// End (not in run) before the first record of each partition that is as late as its timestamp: {"topic":{"0":MS}}
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    ending_offsets_by_timestamp: Option<String>,
    /// End (not in run) before the first record that is as late as this (ms since the epoch)
    #[arg(long, value_name = "MS", allow_hyphen_values = true)]
    ending_timestamp: Option<String>,
    /// Whether records that are gone stop the read (exit code 3) or are only reported [default: true]
    #[arg(long, value_name = "BOOL", allow_hyphen_values = true)]
    fail_on_data_loss: Option<String>,
    /// Add the column headers to the JSON lines [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    include_headers: Option<String>,
    /// Split the ranges until there are about so many, to read them side by side [default: one for each partition]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    min_partitions: Option<String>,
    /// Split ranges that span more offsets than this
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    max_records_per_partition: Option<String>,
}

impl SourceArgs {
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        [
            ("subscribe", &self.subscribe),
            ("subscribePattern", &self.subscribe_pattern),
            ("assign", &self.assign),
            ("startingOffsets", &self.starting_offsets),
            ("startingOffsetsByTimestamp", &self.starting_offsets_by_timestamp),
            ("startingTimestamp", &self.starting_timestamp),
            ("startingOffsetsByTimestampStrategy", &self.starting_offsets_by_timestamp_strategy),
            ("endingOffsets", &self.ending_offsets),
            ("endingOffsetsByTimestamp", &self.ending_offsets_by_timestamp),
            ("endingTimestamp", &self.ending_timestamp),
            ("failOnDataLoss", &self.fail_on_data_loss),
            ("includeHeaders", &self.include_headers),
            ("minPartitions", &self.min_partitions),
            ("maxRecordsPerPartition", &self.max_records_per_partition),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)))
        .collect()
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ottla lag -b localhost:9092 --group nightly
  ottla lag -b localhost:9092 --group nightly -X kafka.isolation.level=read_committed

LOG-END-OFFSET is the high watermark, as in Kafka's own tool; under read_committed it is the last stable offset, and the \
header says so. A partition whose topic is gone has no end: '-'. A group without committed offsets is an error (exit code 1).")]
pub(crate) struct LagArgs {
    /// The group
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: String,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ottla topics -b localhost:9092\n  ottla topics -b localhost:9092 logs audit --json"
)]
pub(crate) struct TopicsArgs {
    /// Topics to show [default: all but Kafka's own]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  The records of a segment, each with what its batch says:
    ottla dump /var/lib/kafka/logs-0/00000000000000000000.log
  Its batches:
    ottla dump --headers-only /var/lib/kafka/logs-0/*.log
  The batches of one producer:
    ottla dump --headers-only 00000000000000000000.log | jq -c 'select(.producerId == 9)'
  Recorded responses, each with the length before it:
    ottla dump --api Fetch --version 13 --response fetch.bin
  Recorded requests, which say their version themselves:
    ottla dump --api ListOffsets --request requests.bin

A line of JSON a record (a batch without records has none), a batch with --headers-only, or a frame with --api.
Numbers are Kafka's: -1 is none. A last batch that is cut off, as in the segment that a broker is writing, and zeros
after the last batch are no damage.
Exit codes: 0 done; 1 a file is damaged or can't be read, or failed output; 2 wrong use.")]
pub(crate) struct DumpArgs {
    /// Segments (*.log) or raw record batches; with --api, frames
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// A line a batch, of its header alone
    #[arg(long)]
    pub(crate) headers_only: bool,
    /// The files hold whole frames of this API: Fetch, ListOffsets, OffsetCommit, OffsetFetch, Metadata, …
    #[arg(long, value_name = "API")]
    pub(crate) api: Option<String>,
    /// The frames' version; a response doesn't say it
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) version: Option<i16>,
    /// The frames are requests
    #[arg(long)]
    pub(crate) request: bool,
    /// The frames are responses
    #[arg(long)]
    pub(crate) response: bool,
}

/// What clap says of a mistake, on one line and without the usage, which `--help` shows.
pub(crate) fn sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut sentence = String::new();
    for line in lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information")) {
        sentence.push_str(match sentence.chars().last() {
            None => "",
            Some(':') => " ",
            _ if line.starts_with('[') => " ",
            _ => "; ",
        });
        sentence.push_str(line);
    }
    without_credentials(&sentence) + "; see --help"
}

/// Takes out of URLs what stands before the `@` of their host. No URL of ours has credentials, but a mistake is told with what was written.
fn without_credentials(text: &str) -> String {
    let mut parts = text.split("//");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let host = part.split(|c: char| c.is_whitespace() || "/?'".contains(c)).next().unwrap_or_default();
        let secret = host.rfind('@').unwrap_or_default();
        shown.push_str(if secret > 0 { "//…" } else { "//" });
        shown.push_str(part.get(secret..).unwrap_or_default());
    }
    shown
}

impl Common {
    /// The options of a command that reads no source. A job's file serves it as well: what that says of reading is not its.
    /// Beside the client's settings it may know some options, `also`.
    pub(crate) fn client_pairs(&self, also: impl Fn(&str) -> bool) -> Result<Vec<(String, String)>, Failure> {
        let mut pairs = self.file()?.common;
        pairs.retain(|(key, _)| is_client_setting(key) || also(key));
        self.add_own(&mut pairs, &[])?;
        Ok(pairs)
    }

    /// All options of each source by name: the file's, then the flags', then those of `-X`; where one is given twice the last counts.
    pub(crate) fn sources(&self, flags: &[(String, String)]) -> Result<Vec<Vec<(String, String)>>, Failure> {
        let mut sources: Vec<_> = self.file()?.sources().collect();
        for pairs in &mut sources {
            self.add_own(pairs, flags)?;
        }
        Ok(sources)
    }

    fn file(&self) -> Result<TomlOptions, Failure> {
        self.config.as_deref().map_or_else(|| Ok(TomlOptions::default()), read_config)
    }

    fn add_own(&self, pairs: &mut Vec<(String, String)>, flags: &[(String, String)]) -> Result<(), Failure> {
        if let Some(servers) = &self.bootstrap_servers {
            pairs.push(("kafka.bootstrap.servers".to_owned(), servers.clone()));
        }
        pairs.extend_from_slice(flags);
        for option in &self.options {
            let Some((key, value)) = option.split_once('=') else {
                // What follows the name may be a password.
                let is_name = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
                let name: String = option.chars().take_while(is_name).collect();
                let rest = if name.len() == option.len() { "" } else { "…" };
                return Err(Failure::usage(format!("-X '{name}{rest}' is not KEY=VALUE")));
            };
            pairs.push((key.to_owned(), value.to_owned()));
        }
        Ok(())
    }
}

fn is_client_setting(key: &str) -> bool {
    key.get(..6).is_some_and(|prefix| prefix.eq_ignore_ascii_case("kafka."))
}

/// No list of options is longer; a device may be.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// The options of a TOML file.
fn read_config(path: &Path) -> Result<TomlOptions, Failure> {
    let wrong = |reason: String| Failure::usage(format!("--config {}: {reason}", path.display()));
    let mut text = String::new();
    let opened = std::fs::File::open(path).and_then(|file| file.take(CONFIG_BYTES_MAX + 1).read_to_string(&mut text));
    opened.map_err(|error| wrong(error.to_string()))?;
    if text.len() as u64 > CONFIG_BYTES_MAX {
        return Err(wrong(format!("it has more than {CONFIG_BYTES_MAX} bytes")));
    }
    let file = TomlOptions::parse(&text).map_err(|error| wrong(error.to_string()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn mistakes_are_one_sentence() {
        let said = |args: &[&str]| {
            let args = ["ottla"].iter().chain(args);
            sentence(&Cli::try_parse_from(args).expect_err("a mistake"))
        };
        assert_eq!(
            said(&["read", "--subscribee", "t"]),
            "unexpected argument '--subscribee' found; tip: a similar argument exists: '--subscribe'; see --help"
        );
        assert_eq!(
            said(&["read", "--format", "xml"]),
            "invalid value 'xml' for '--format <FORMAT>' [possible values: json, value, none]; see --help"
        );
        let spelt_wrong = said(&["offsets", "show", "zookeper://ann:s3cret@h,ben:s3cret@i/a@b?group=g"]);
        assert!(spelt_wrong.starts_with("invalid value 'zookeper://…@i/a@b?group=g' for"), "{spelt_wrong}");
        for store in ["zookeeper://ann:s3cret@h?group=g", "zookeeper://s3cret@h", "redis://:s3cret@h"] {
            for line in [&["offsets", "show", store][..], &["run", "--offset-store", store], &["run", "--sink", store]]
            {
                assert!(!said(line).contains("s3cret"), "{}", said(line));
            }
        }
        assert_eq!(said(&["lag"]), "the following required arguments were not provided: --group <GROUP>; see --help");
    }

    #[test]
    fn options_come_from_file_flags_and_x_in_this_order() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "subscribe = \"a\"\nfailOnDataLoss = false\n[kafka]\nfetch.min.bytes = 5\n")
            .unwrap();
        let cli = Cli::parse_from([
            "ottla",
            "read",
            "-b",
            "h:1",
            "--subscribe",
            "b",
            "-X",
            "subscribe=c",
            "--include-headers",
            "--config",
            file.path().to_str().unwrap(),
        ]);
        let Command::Read(read) = &cli.command else { panic!() };
        let pairs = cli.common.sources(&read.source.pairs()).unwrap().remove(0);
        let values = |name: &str| {
            pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(values("subscribe"), ["a", "b", "c"]);
        assert_eq!(values("failOnDataLoss"), ["false"]);
        assert_eq!(values("kafka.fetch.min.bytes"), ["5"]);
        assert_eq!(values("includeHeaders"), ["true"]);
        assert_eq!(values("kafka.bootstrap.servers"), ["h:1"]);
    }

    #[test]
    fn mistakes_in_the_file_name_the_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "subscribe = \"a\"\nx = = 1\n").unwrap();
        assert!(read_config(file.path()).unwrap_err().to_string().contains("line 2"));
        std::fs::write(file.path(), "subscribe = [1]\n").unwrap();
        assert!(read_config(file.path()).unwrap_err().to_string().contains("'subscribe' must be a string"));
    }
}

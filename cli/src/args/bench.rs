//! `ottla bench` and its two commands.

use super::SourceArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Read a source as `ottla read --format none` does, and say what that cost
    Fetch(Box<BenchFetchArgs>),
    /// Decode log segments or raw record batches in memory, on one thread, and say what that cost
    Decode(BenchDecodeArgs),
}

/// What both print, for their help.
const PRINTED: &str = "\
Printed, and with --json the fields of one object: records, valueBytes, hits, wallSeconds, cpuSeconds, peakRssBytes (of the \
whole process), valueBytesPerSecond and recordsPerSecond (of wall time; MB are millions of bytes), cpuSecondsPerGigabyte \
(a billion value bytes), allocationsPerRecord (by Rust code, on all threads).";

#[derive(Debug, Args)]
#[command(next_help_heading = "Filter", after_help = format!("\
Examples:
  ottla bench fetch -b localhost:9092 --subscribe logs
  ottla bench fetch -b localhost:9092 --subscribe logs --where \"value LIKE '%ERROR%'\" --parallelism 1 --json

Measured is the reading alone: connections have been made and ranges planned. Nothing is committed.

{PRINTED}"))]
pub(crate) struct BenchFetchArgs {
    /// Count as hits only the records for which this SQL condition is true
    #[arg(long = "where", value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) filter: Option<String>,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  ottla bench decode /var/lib/kafka/logs-0/*.log
  ottla bench decode --where \"value LIKE '%ERROR%'\" --json /var/lib/kafka/logs-0/00000000000000000000.log

Of each batch the checksum is verified, it is inflated, and all of its records are visited; --where asks each of them. A first \
pass that finds damage, and makes buffers as large as they must be, is not measured. For --where, topic and partition are those of \
the folder that the file lies in, if it is named as a broker does (logs-0), else an empty topic and partition 0.

{PRINTED} Also batches, fileBytes, and inflatedBytes (of the sections with records).
Exit codes: 0 done; 1 a file is damaged or can't be read, or failed output; 2 wrong use."))]
pub(crate) struct BenchDecodeArgs {
    /// Segments (*.log) or raw record batches; all of them are held in memory
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Count as hits only the records for which this SQL condition is true
    #[arg(long = "where", value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) filter: Option<String>,
}

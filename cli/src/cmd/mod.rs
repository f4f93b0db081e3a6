//! A file a command.

pub(crate) mod bench;
pub(crate) mod demo;
pub(crate) mod dump;
pub(crate) mod lag;
pub(crate) mod offsets;
pub(crate) mod read;
pub(crate) mod run;
pub(crate) mod topics;

use crate::{
    args::{Common, SourceArgs},
    failure::Failure,
    tell::warn,
};
use ottla_client::{Client, ClientConfig, TopicPartition};
use ottla_stream::{Filter, PlannedBatch, ReadSettings, StreamOptions};
use std::{collections::BTreeMap, io::Write};

/// How many threads read at most.
pub(crate) fn parallelism(common: &Common) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    common.parallelism.map_or_else(cores, usize::from)
}

/// The client settings of a command that reads no source.
pub(crate) fn client_config(common: &Common) -> Result<ClientConfig, Failure> {
    let (config, warnings) = ottla_stream::client_config(common.client_pairs(|_| false)?)?;
    warnings.iter().for_each(|warning| warn(common.json, warning));
    Ok(config)
}

/// The filter of `--where`; without one everything is kept.
pub(crate) fn parse_filter(text: Option<&str>) -> Result<Filter, Failure> {
    match text {
        Some(text) => text.parse().map_err(|error| Failure::usage(format!("--where: {error}"))),
        None => Ok(Filter::always()),
    }
}

/// The group to commit to. Two names for it are a mistake that would commit to the wrong one.
pub(crate) fn commit_group<'a>(flag: Option<&'a str>, option: Option<&'a str>) -> Result<Option<&'a str>, Failure> {
    match (flag, option) {
        (Some(""), _) => Err(Failure::usage("--commit-group is empty: a group has a name")),
        (Some(flag), Some(option)) if flag != option => Err(Failure::usage(format!(
            "--commit-group is '{flag}' and option 'kafka.consumer.commit.groupid' is '{option}': which of them?"
        ))),
        _ => Ok(flag.or(option)),
    }
}

/// Ends early when the user interrupts.
pub(crate) async fn until_interrupted<T>(
    work: impl Future<Output = Result<T, Failure>>,
    interrupted: impl FnOnce() -> String,
) -> Result<T, Failure> {
    tokio::select! {
        result = work => result,
        _ = tokio::signal::ctrl_c() => Err(Failure::interrupted(interrupted())),
    }
}

/// Prints a command's result.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::failed("SINK_FAILED", format!("writing the output: {error}")))
}

/// Tells of numbers in a store that are no offsets.
pub(crate) fn warn_of(store: &str, not_offsets: &BTreeMap<TopicPartition, i64>, json: bool) {
    for (partition, number) in not_offsets {
        warn(json, format_args!("{store} holds {number} for {partition}, which is no offset and counts as none"));
    }
}

/// Tells of a batch that took more memory than there was to be.
pub(crate) fn warn_of_memory(client: &Client, json: bool) {
    let excess = client.memory_excess_bytes();
    if excess > 0 {
        let limit = client.config().memory_bytes;
        warn(
            json,
            format_args!(
                "a single answer or batch is larger than what was left of ottla.memory.bytes={limit}: {excess} bytes more were held"
            ),
        );
    }
}

/// The options of a source, its warnings told.
pub(crate) fn source_options(
    common: &Common,
    source: &SourceArgs,
    commit_group: Option<&str>,
) -> Result<StreamOptions, Failure> {
    let mut flags = source.pairs();
    flags.extend(commit_group.map(|group| ("kafka.consumer.commit.groupid".to_owned(), group.to_owned())));
    let mut sources = common.sources(&flags)?;
    let (Some(pairs), true) = (sources.pop(), sources.is_empty()) else {
        return Err(Failure::usage(
            "--config names several [[source]]s, and this command reads one: `ottla run` reads a union",
        ));
    };
    let options = StreamOptions::from_pairs(pairs)?;
    options.warnings.iter().for_each(|warning| warn(common.json, warning));
    Ok(options)
}

/// Makes contact with the source's cluster and plans what is to be read, and how.
pub(crate) async fn plan(
    common: &Common,
    options: &StreamOptions,
) -> Result<(Client, PlannedBatch, ReadSettings), Failure> {
    let client = connect(options.client.clone()).await?;
    let batch = options.plan(&client).await?;
    if batch.end_offsets().is_empty() {
        warn(common.json, format_args!("nothing to read: {} matches no topic", options.strategy));
    }
    let mut settings = ReadSettings::default();
    settings.fail_on_data_loss = options.fail_on_data_loss;
    settings.include_headers = options.include_headers;
    settings.parallelism = parallelism(common);
    Ok((client, batch, settings))
}

/// Makes contact with the cluster.
pub(crate) async fn connect(config: ClientConfig) -> Result<Client, Failure> {
    Ok(Client::connect(config).await?)
}

//! A scenario file, read strictly: a step, field or kind that is not known here is an error, never left out in silence.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::fields::Fields;

/// What went wrong, as a sentence.
pub(super) type Result<T> = std::result::Result<T, String>;
/// Options as a scenario gives them, in order.
pub(super) type Options = Vec<(String, String)>;

/// How the answers of a scenario are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compare {
    /// Batch by batch.
    Exact,
    /// The batches of queries depend on timing: what they add up to.
    Final,
    /// For reading only: the layout of the checkpoint's files.
    Info,
}

#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) compare: Compare,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) op: Op,
    /// What Spark answered; `Null` for nothing.
    pub(super) result: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    CreateTopic { topic: String, partitions: u32, configs: Options },
    Produce(ProduceStep),
    DeleteRecords { topic: String, partition: i32, before: i64 },
    DeleteTopic { topic: String },
    AddPartitions { topic: String, to: u32 },
    Sleep(Duration),
    ListOffsets { topic: String },
    GroupOffsets { group: String },
    ListGroups { prefix: String },
    WriteFile { path: String, content: Vec<u8> },
    DeleteFile { path: String },
    Batch(Read),
    Start(Box<Start>),
    ProcessAllAvailable { query: String },
    AwaitTermination(End),
    Stop(End),
    Dstream(DstreamStep),
}

/// What is done with a transaction of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Txn {
    Commit,
    Abort,
    Open,
}

#[derive(Clone, Debug)]
pub(super) struct ProduceStep {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) count: i64,
    pub(super) first_timestamp_ms: i64,
    pub(super) timestamp_step_ms: i64,
    pub(super) from: i64,
    pub(super) value_prefix: String,
    pub(super) key_prefix: Option<String>,
    pub(super) headers: Vec<(String, Option<String>)>,
    pub(super) null_value: bool,
    pub(super) compression: Option<String>,
    pub(super) txn: Option<Txn>,
}

/// What a bounded read and a query have in common.
#[derive(Clone, Debug, Default)]
pub(super) struct Read {
    pub(super) options: Options,
    pub(super) no_bootstrap: bool,
    /// One row a task in the answer, in place of one a partition.
    pub(super) tasks: bool,
    pub(super) dump_rows: bool,
    pub(super) filter: Option<String>,
}

impl Read {
    /// An option by its name, as Spark compares names.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

#[derive(Clone, Debug)]
pub(super) enum Trigger {
    ProcessingTime(Duration),
    AvailableNow,
    Once,
    Continuous(Duration),
}

#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) query: String,
    pub(super) read: Read,
    pub(super) trigger: Trigger,
    /// The checkpoint's folder in the scenario's own one.
    pub(super) checkpoint: String,
    pub(super) fail_at_batch: Option<i64>,
    pub(super) slow: Option<Duration>,
    /// The topic of a Kafka sink; `foreachBatch` without one.
    pub(super) sink_topic: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) query: String,
    pub(super) full_progress: bool,
    pub(super) checkpoint_dump: bool,
    pub(super) timeout: Duration,
}

#[derive(Clone, Debug)]
pub(super) struct DstreamStep {
    pub(super) topics: Vec<String>,
    pub(super) group: String,
    pub(super) auto_offset_reset: String,
    pub(super) batches: i64,
    pub(super) commit: bool,
    pub(super) filter: Option<String>,
    pub(super) linger: Duration,
    pub(super) spark_conf: Options,
}

/// A file that can be run, or why it is not.
#[derive(Clone, Debug)]
pub(super) enum Loaded {
    Runnable(Scenario),
    /// Its queries keep state, which Ottla does not yet.
    NotRun {
        name: String,
        reason: String,
    },
}

/// The kinds of query that keep state.
const STATE_KINDS: [&str; 2] = ["windowedCount", "groupsWithState"];
/// How long a query may take, unless its step says.
const END_LIMIT_MS: i64 = 120_000;

/// All scenarios of a folder by name, each with its file's own mistake where it has one.
pub(super) fn load_folder(folder: &Path) -> Vec<(String, Result<Loaded>)> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let files: BTreeSet<_> = entries.map(|entry| entry.expect("a directory entry").path()).collect();
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|e| e == "json"));
    files
        .map(|path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let loaded = fs::read_to_string(&path).map_err(|e| e.to_string()).and_then(|text| load(&text));
            (name, loaded)
        })
        .collect()
}

/// A scenario from its file's text.
pub(super) fn load(text: &str) -> Result<Loaded> {
    let mut fields = Fields::of(serde_json::from_str(text).map_err(|e| e.to_string())?, "the scenario")?;
    let name = fields.text("name")?;
    let steps = fields.take("steps").ok_or("no steps")?;
    let steps = steps.as_array().ok_or("steps is no list")?;
    if let Some(kind) = steps.iter().filter_map(|step| step["kind"].as_str()).find(|kind| STATE_KINDS.contains(kind)) {
        return Ok(Loaded::NotRun { name, reason: format!("queries of kind {kind} keep state, which comes later") });
    }
    let compare = match fields.text("compare")?.as_str() {
        "exact" => Compare::Exact,
        "final" => Compare::Final,
        "info" => Compare::Info,
        other => return Err(format!("compare is {other}")),
    };
    for for_readers in ["description", "sparkVersion"] {
        fields.take(for_readers);
    }
    fields.finish()?;
    let steps = steps.iter().enumerate().map(|(i, step)| self::step(step, i)).collect::<Result<Vec<_>>>()?;
    Ok(Loaded::Runnable(Scenario { name, compare, steps }))
}

fn step(value: &Value, index: usize) -> Result<Step> {
    let mut fields = Fields::of(value.clone(), &format!("step {index}"))?;
    let op = fields.text("op")?;
    fields.of = format!("step {index} ({op})");
    let result = fields.take("result").unwrap_or_default();
    let op = match op.as_str() {
        "createTopic" => Op::CreateTopic {
            topic: fields.text("topic")?,
            partitions: fields.int("partitions")? as u32,
            configs: fields.pairs("configs")?,
        },
        "produce" => Op::Produce(produce(&mut fields)?),
        "deleteRecords" => Op::DeleteRecords {
            topic: fields.text("topic")?,
            partition: fields.int("partition")? as i32,
            before: fields.int("before")?,
        },
        "deleteTopic" => Op::DeleteTopic { topic: fields.text("topic")? },
        "addPartitions" => Op::AddPartitions { topic: fields.text("topic")?, to: fields.int("to")? as u32 },
        "sleep" => Op::Sleep(ms(fields.int("ms")?)),
        "listOffsets" => Op::ListOffsets { topic: fields.text("topic")? },
        "groupOffsets" => Op::GroupOffsets { group: fields.text("group")? },
        "listGroups" => Op::ListGroups { prefix: fields.text("prefix")? },
        "writeFile" => {
            let mut content = unhex(&fields.optional_text("hexPrefix")?.unwrap_or_default())?;
            content.extend(fields.text("content")?.into_bytes());
            Op::WriteFile { path: fields.text("path")?, content }
        }
        "deleteFile" => Op::DeleteFile { path: fields.text("path")? },
        "batch" => Op::Batch(read(&mut fields)?),
        "start" => Op::Start(Box::new(start(&mut fields)?)),
        "processAllAvailable" => Op::ProcessAllAvailable { query: fields.text("query")? },
        "awaitTermination" => Op::AwaitTermination(end(&mut fields)?),
        "stop" => Op::Stop(end(&mut fields)?),
        "dstream" => Op::Dstream(dstream(&mut fields)?),
        other => return Err(format!("step {index}: there is no step {other}")),
    };
    fields.finish()?;
    Ok(Step { op, result })
}

fn produce(fields: &mut Fields) -> Result<ProduceStep> {
    let headers = match fields.take("headers").unwrap_or_default() {
        Value::Null => Vec::new(),
        Value::Object(headers) => headers
            .into_iter()
            .map(|(key, value)| match value {
                Value::Null => Ok((key, None)),
                Value::String(value) => Ok((key, Some(value))),
                other => Err(format!("header {key} is {other}")),
            })
            .collect::<Result<_>>()?,
        other => return Err(format!("headers is {other}")),
    };
    let txn = match fields.optional_text("txn")?.as_deref() {
        None => None,
        Some("commit") => Some(Txn::Commit),
        Some("abort") => Some(Txn::Abort),
        Some("open") => Some(Txn::Open),
        Some(other) => return Err(format!("txn is {other}")),
    };
    Ok(ProduceStep {
        topic: fields.text("topic")?,
        partition: fields.int_or("partition", 0)? as i32,
        count: fields.int("count")?,
        first_timestamp_ms: fields.int_or("ts0", 1_700_000_000_000)?,
        timestamp_step_ms: fields.int_or("tsStep", 1_000)?,
        from: fields.int_or("from", 0)?,
        value_prefix: fields.optional_text("valuePrefix")?.unwrap_or_else(|| "v".to_owned()),
        key_prefix: fields.optional_text("keyPrefix")?,
        headers,
        null_value: fields.flag("nullValue")?,
        compression: fields.optional_text("compression")?,
        txn,
    })
}

fn read(fields: &mut Fields) -> Result<Read> {
    // Spark's schema text says no more than which columns the dumped rows have.
    fields.flag("schema")?;
    Ok(Read {
        options: fields.pairs("options")?,
        no_bootstrap: fields.flag("noBootstrap")?,
        tasks: fields.flag("tasks")?,
        dump_rows: fields.flag("dumpRows")?,
        filter: fields.optional_text("filter")?,
    })
}

fn start(fields: &mut Fields) -> Result<Start> {
    if let Some(kind) = fields.optional_text("kind")? {
        return Err(format!("there is no kind {kind}"));
    }
    let query = fields.text("query")?;
    let sink = fields.optional_text("sink")?;
    let sink_topic = fields.optional_text("sinkTopic")?;
    if sink.as_deref().is_some_and(|sink| sink != "kafka") || sink.is_some() != sink_topic.is_some() {
        return Err(format!("there is no sink {sink:?} with the topic {sink_topic:?}"));
    }
    Ok(Start {
        read: read(fields)?,
        trigger: trigger(fields.take("trigger").unwrap_or_default())?,
        checkpoint: fields.optional_text("checkpoint")?.unwrap_or_else(|| query.clone()),
        fail_at_batch: fields.optional_int("failAtBatch")?,
        slow: fields.optional_int("slowMs")?.map(ms),
        sink_topic,
        query,
    })
}

fn trigger(value: Value) -> Result<Trigger> {
    if value.is_null() {
        return Ok(Trigger::ProcessingTime(Duration::ZERO));
    }
    let mut fields = Fields::of(value, "trigger")?;
    let trigger = match fields.text("type")?.as_str() {
        "ProcessingTime" => Trigger::ProcessingTime(interval(&fields.text("interval")?)?),
        "Continuous" => Trigger::Continuous(interval(&fields.text("interval")?)?),
        "AvailableNow" => Trigger::AvailableNow,
        "Once" => Trigger::Once,
        other => return Err(format!("there is no trigger {other}")),
    };
    fields.finish()?;
    Ok(trigger)
}

fn interval(text: &str) -> Result<Duration> {
    let wrong = || format!("there is no interval '{text}'");
    let (number, unit) = text.trim().split_once(' ').ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    match unit.trim().trim_end_matches('s') {
        "millisecond" => Ok(Duration::from_millis(number)),
        "second" => Ok(Duration::from_secs(number)),
        "minute" => Ok(Duration::from_secs(60 * number)),
        _ => Err(wrong()),
    }
}

fn end(fields: &mut Fields) -> Result<End> {
    Ok(End {
        query: fields.text("query")?,
        full_progress: fields.flag("fullProgress")?,
        checkpoint_dump: !fields.flag("noCheckpointDump")?,
        timeout: ms(fields.int_or("timeoutMs", END_LIMIT_MS)?),
    })
}

fn dstream(fields: &mut Fields) -> Result<DstreamStep> {
    let topics = fields.take("topics").unwrap_or_default();
    let topics = topics.as_array().ok_or("topics is no list")?.iter();
    Ok(DstreamStep {
        topics: topics.map(|topic| topic.as_str().unwrap_or_default().to_owned()).collect(),
        group: fields.text("group")?,
        auto_offset_reset: fields.text("autoOffsetReset")?,
        batches: fields.int("batches")?,
        commit: fields.flag("commit")?,
        filter: fields.optional_text("filter")?,
        linger: ms(fields.int_or("lingerMs", 0)?),
        spark_conf: fields.pairs("sparkConf")?,
    })
}

fn ms(number: i64) -> Duration {
    Duration::from_millis(number.unsigned_abs())
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default());
    digits.map(|pair| u8::from_str_radix(pair, 16).map_err(|_| format!("hexPrefix is {text}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(step: &str) -> String {
        let text = format!(r#"{{"name":"x","compare":"exact","steps":[{step}]}}"#);
        load(&text).expect_err("it must be refused")
    }

    #[test]
    fn golden_steps_fields_and_kinds_that_are_not_known_are_refused() {
        assert_eq!(mistake(r#"{"op":"moveTopic","topic":"t"}"#), "step 0: there is no step moveTopic");
        assert_eq!(
            mistake(r#"{"op":"deleteTopic","topic":"t","soon":true}"#),
            "step 0 (deleteTopic): there is no field soon"
        );
        let start = r#"{"op":"start","query":"q","options":{},"kind":"join"}"#;
        assert_eq!(mistake(start), "there is no kind join");
        assert_eq!(mistake(r#"{"op":"sleep"}"#), "step 0 (sleep): no ms");
        let unknown = load(r#"{"name":"x","compare":"roughly","steps":[]}"#).expect_err("it must be refused");
        assert_eq!(unknown, "compare is roughly");
    }

    #[test]
    fn golden_queries_with_state_are_named_and_not_run() {
        let text =
            r#"{"name":"w","compare":"exact","steps":[{"op":"start","kind":"windowedCount","delay":"1 minute"}]}"#;
        assert!(matches!(load(text), Ok(Loaded::NotRun { name, .. }) if name == "w"));
    }
}

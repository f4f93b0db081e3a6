//! `ottla offsets`: what stores hold, held against the logs, and set.

mod copy;
mod follow;
mod set;
mod show;
mod validate;

use super::{connect, warn_of};
use crate::{
    args::{Common, OffsetsArgs, OffsetsCommand},
    failure::Failure,
    table::table,
    tell::warn,
};
use ottla_client::{Client, IsolationLevel};
use ottla_stream::{InspectedOffsets, MaintenanceOptions, OffsetStore, PartitionOffsets, StoreUrl, ZooKeeperOptions};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

pub(crate) async fn run(common: &Common, args: &OffsetsArgs) -> Result<(), Failure> {
    match &args.command {
        OffsetsCommand::Show(args) => show::run(common, args).await,
        OffsetsCommand::Validate(args) => validate::run(common, args).await,
        OffsetsCommand::Set(args) => set::run(common, args).await,
        OffsetsCommand::Copy(args) => copy::run(common, args).await,
        OffsetsCommand::Follow(args) => follow::run(common, args).await,
    }
}

fn options(common: &Common) -> Result<MaintenanceOptions, Failure> {
    let options = MaintenanceOptions::from_pairs(common.client_pairs(MaintenanceOptions::knows)?)?;
    options.warnings.iter().for_each(|warning| warn(common.json, warning));
    Ok(options)
}

/// The cluster, and how stores beside it are reached.
struct Stores {
    client: Client,
    zookeeper: ZooKeeperOptions,
}

impl Stores {
    async fn connect(options: &MaintenanceOptions) -> Result<Self, Failure> {
        Ok(Self { client: connect(options.client.clone()).await?, zookeeper: options.zookeeper.clone() })
    }

    fn open(&self, url: &StoreUrl) -> Result<Arc<dyn OffsetStore>, Failure> {
        Ok(url.open(&self.client, &self.zookeeper)?)
    }
}

/// That offsets can be stored there is known before anybody is asked.
fn check_writable(url: &StoreUrl) -> Result<(), Failure> {
    if url.is_writable() {
        return Ok(());
    }
    Err(Failure::usage(format!("'{url}' can't be written: only its query writes a checkpoint")))
}

fn holds_nothing(store: &dyn OffsetStore) -> Failure {
    Failure::failed("STORE_WITHOUT_OFFSETS", format!("{} holds no offset", store.name()))
}

/// Makes contact, and holds what a store has against the logs.
async fn inspect(
    common: &Common,
    url: &StoreUrl,
    topics: &BTreeSet<String>,
) -> Result<(InspectedOffsets, IsolationLevel), Failure> {
    let options = options(common)?;
    let isolation = options.client.isolation_level;
    let stores = Stores::connect(&options).await?;
    let store = stores.open(url)?;
    let inspected = InspectedOffsets::of(&*store, &stores.client, topics).await?;
    warn_of(&store.name(), &inspected.not_offsets, common.json);
    if inspected.is_empty() {
        return Err(holds_nothing(&*store));
    }
    Ok((inspected, isolation))
}

/// The rows as a table, or as lines of JSON.
fn rows<'a>(rows: impl IntoIterator<Item = &'a PartitionOffsets>, isolation: IsolationLevel, as_json: bool) -> String {
    if as_json {
        return rows.into_iter().map(|row| format!("{}\n", row_json(row))).collect();
    }
    let latest = match isolation {
        IsolationLevel::ReadUncommitted => "LATEST",
        IsolationLevel::ReadCommitted => "LATEST(LSO)",
    };
    let number = |number: Option<i64>| number.map_or("-".to_owned(), |number| number.to_string());
    let cells = |row: &PartitionOffsets| {
        vec![
            row.partition.topic.clone(),
            row.partition.partition.to_string(),
            number(row.stored.map(|stored| stored.offset)),
            number(row.earliest),
            number(row.latest),
            number(row.lag()),
            row.state.to_string(),
        ]
    };
    let cells: Vec<Vec<String>> = rows.into_iter().map(cells).collect();
    table(&["TOPIC", "PARTITION", "STORED", "EARLIEST", latest, "LAG", "STATE"], &cells)
}

fn row_json(row: &PartitionOffsets) -> Value {
    json!({
        "topic": row.partition.topic,
        "partition": row.partition.partition,
        "stored": row.stored.map(|stored| stored.offset),
        "earliest": row.earliest,
        "latest": row.latest,
        "lag": row.lag(),
        "state": row.state.to_string(),
        "batchId": row.stored.and_then(|stored| stored.batch_id),
        "topicId": row.stored.and_then(|stored| stored.topic_id).map(|id| id.to_string()),
    })
}

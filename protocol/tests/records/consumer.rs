//! What a consumer does with a partition's bytes, in the order in which it has to be done. The vectors say what Kafka's consumer did.

use ottla_protocol::compression::Decompressor;
use ottla_protocol::record::{AbortedTransactions, BatchError, RecordBatches, Visibility, next_fetch_offset};
use serde_json::Value;

/// What a consumer is asked to read.
#[derive(Debug, Clone)]
pub(crate) struct Fetch {
    pub(crate) fetch_offset: i64,
    pub(crate) read_committed: bool,
    pub(crate) check_crcs: bool,
    pub(crate) aborted_transactions: Vec<(i64, i64)>,
}

impl Fetch {
    pub(crate) fn of(json: &Value) -> Self {
        Self {
            fetch_offset: json["fetch_offset"].as_i64().expect("fetch_offset"),
            read_committed: json["isolation_level"] == "read_committed",
            check_crcs: json["check_crcs"].as_bool().expect("check_crcs"),
            aborted_transactions: json["aborted_transactions"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|entry| {
                    (
                        entry["producer_id"].as_i64().expect("producer_id"),
                        entry["first_offset"].as_i64().expect("first"),
                    )
                })
                .collect(),
        }
    }

    pub(crate) fn from(fetch_offset: i64) -> Self {
        Self { fetch_offset, read_committed: false, check_crcs: true, aborted_transactions: Vec::new() }
    }
}

/// What it got.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Consumed {
    pub(crate) delivered_offsets: Vec<i64>,
    pub(crate) next_fetch_offset: i64,
    pub(crate) error: Option<BatchError>,
    /// Bytes, but no whole batch.
    pub(crate) no_progress: bool,
    pub(crate) trailing_bytes: usize,
}

pub(crate) fn consume(run: &[u8], fetch: &Fetch, decompressor: &mut Decompressor) -> Consumed {
    let mut consumed = Consumed {
        delivered_offsets: Vec::new(),
        next_fetch_offset: fetch.fetch_offset,
        error: None,
        no_progress: false,
        trailing_bytes: 0,
    };
    let mut batches = RecordBatches::new(run);
    consumed.error = consume_batches(&mut batches, fetch, decompressor, &mut consumed).err();
    consumed.trailing_bytes = batches.trailing_bytes();
    consumed.no_progress = !run.is_empty() && batches.position() == 0 && consumed.error.is_none();
    if consumed.error.is_none() {
        let hint = next_fetch_offset(run, fetch.fetch_offset);
        assert!(hint <= consumed.next_fetch_offset, "the header walk is never ahead of what was read");
    }
    consumed
}

fn consume_batches(
    batches: &mut RecordBatches<'_>,
    fetch: &Fetch,
    decompressor: &mut Decompressor,
    consumed: &mut Consumed,
) -> Result<(), BatchError> {
    let list = if fetch.read_committed { fetch.aborted_transactions.clone() } else { Vec::new() };
    let mut aborted = AbortedTransactions::new(list);
    for batch in batches {
        let batch = batch?;
        if fetch.check_crcs {
            batch.check_crc()?;
        }
        if aborted.observe(&batch, decompressor)? == Visibility::Deliver {
            let mut records = batch.records(decompressor)?;
            if !fetch.check_crcs {
                records = records.without_crc_check();
            }
            for record in records {
                let record = record.map_err(|error| batch.error(error))?;
                if record.offset >= consumed.next_fetch_offset {
                    consumed.delivered_offsets.push(record.offset);
                    consumed.next_fetch_offset = record.offset.saturating_add(1);
                }
            }
        }
        consumed.next_fetch_offset = consumed.next_fetch_offset.max(batch.header().next_offset());
    }
    Ok(())
}

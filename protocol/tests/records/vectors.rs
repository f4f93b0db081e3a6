//! Every records vector of the index, field by field, and every malformed one with the outcome that its `expect` asks for.

use crate::common::{Area, Entry, entries, index, report};
use crate::consumer::{Consumed, Fetch, consume};
use crate::expected::{batch_differences, records_crc32c, records_json};
use bytes::Bytes;
use ottla_protocol::compression::{BATCH_INFLATED_BYTES_MAX_DEFAULT, Decompressor};
use ottla_protocol::message::FetchResponse;
use ottla_protocol::record::{AbortedTransactions, RecordBatches, Visibility};
use ottla_protocol::{DecodeErrorKind, Message, ResponseHeader};
use serde_json::Value;
use std::collections::BTreeMap;

/// Failures, each with its vector's name, and how often each kind of case ran.
#[derive(Default)]
struct Tally {
    failures: Vec<String>,
    counts: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn fail(&mut self, name: &str, what: impl std::fmt::Display) {
        self.failures.push(format!("{name}: {what}"));
    }

    fn finish(self, title: &str) {
        report(&format!("{title}: {:?}", self.counts));
        assert!(self.failures.is_empty(), "{} failures\n{}", self.failures.len(), self.failures.join("\n"));
    }
}

fn read(entry: &Entry) -> (Vec<u8>, Value) {
    let (run, json) = (entry.read_bin(), entry.read_json());
    if let Some(crc) = json["bin_crc32c"].as_u64() {
        assert_eq!(u64::from(crc32c::crc32c(&run)), crc, "{}: the file is damaged", entry.name);
    }
    (run, json)
}

#[test]
fn vectors_of_records_are_read_as_kafka_reads_them() {
    let mut tally = Tally::default();
    let mut decompressor = Decompressor::new();
    for entry in entries(Area::Records).iter().filter(|entry| entry.kind == "records") {
        let (run, json) = read(entry);
        tally.count("vectors");
        check_decode(&run, &json, entry, &mut decompressor, &mut tally);
        for case in json["consume"].as_array().into_iter().flatten() {
            tally.count("consume cases");
            check_consume(&run, case, entry, &mut decompressor, &mut tally);
        }
        for case in json["truncations"].as_array().into_iter().flatten() {
            tally.count("truncations");
            let run = &run[..usize_of(&case["len"])];
            let mut batches = RecordBatches::new(run);
            let whole = batches.by_ref().filter(Result::is_ok).count();
            if (whole, batches.position()) != (usize_of(&case["complete_batches"]), usize_of(&case["complete_bytes"])) {
                tally.fail(&entry.name, format!("cut to {}: {whole} batches, {} bytes", run.len(), batches.position()));
            }
            check_consume(run, &case["consume"], entry, &mut decompressor, &mut tally);
        }
    }
    let expected = index().iter().filter(|entry| entry.kind == "records").count();
    assert_eq!(tally.counts.get("vectors"), Some(&expected), "every records vector of the index ran");
    tally.finish("records vectors");
}

/// Batches, their records, where it ends and why.
fn check_decode(run: &[u8], json: &Value, entry: &Entry, decompressor: &mut Decompressor, tally: &mut Tally) {
    let decode = &json["decode"];
    let expected = decode["batches"].as_array().expect("batches");
    let rejected = decode["error"]["batch"].as_u64();
    let mut crc = 0;
    let mut batches = RecordBatches::new(run);
    for (i, batch) in batches.by_ref().enumerate() {
        let Some(expected) = expected.get(i) else {
            tally.fail(&entry.name, format!("batch {i} is one too many"));
            return;
        };
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => return tally.fail(&entry.name, format!("batch {i}: {error}: {}", error.source)),
        };
        tally.count("batches");
        for difference in batch_differences(&batch, expected) {
            tally.fail(&entry.name, format!("batch {i}: {difference}"));
        }
        let (records, error) = records_json(&batch, decompressor);
        if json["records_crc32c"].is_number() {
            let records = batch.records(decompressor).expect("just read");
            crc = records.fold(crc, |crc, record| records_crc32c(crc, &record.expect("just read")));
        }
        check_records(i, &records, error, expected, rejected == Some(i as u64), entry, tally);
    }
    if decode["error"].is_null() && batches.position() != usize_of(&decode["complete_bytes"]) {
        tally.fail(&entry.name, format!("whole batches: {} bytes", batches.position()));
    }
    if decode["error"].is_null() && batches.trailing_bytes() != usize_of(&decode["trailing_bytes"]) {
        tally.fail(&entry.name, format!("trailing bytes: {}", batches.trailing_bytes()));
    }
    if let Some(expected) = json["records_crc32c"].as_u64()
        && u64::from(crc) != expected
    {
        tally.fail(&entry.name, format!("CRC over the records is {crc}, not {expected}"));
    }
}

fn check_records(
    i: usize,
    records: &[Value],
    error: Option<String>,
    expected: &Value,
    rejected: bool,
    entry: &Entry,
    tally: &mut Tally,
) {
    for _ in records {
        tally.count("records");
    }
    let Some(expected) = expected["records"].as_array() else {
        if let Some(error) = error {
            tally.fail(&entry.name, format!("batch {i}: {error}"));
        }
        return;
    };
    for (n, (actual, expected)) in records.iter().zip(expected).enumerate() {
        if actual != expected {
            tally.fail(&entry.name, format!("batch {i} record {n}: expected {expected}, read {actual}"));
        }
    }
    match (rejected, error) {
        // Java refuses what this reader may take; where it refuses too, it does so before any record that Java didn't give out.
        (true, None) if entry.tags.iter().any(|tag| tag == "java_rejects") && records.len() >= expected.len() => {}
        (true, Some(_)) if records.len() <= expected.len() => {}
        (false, None) if records.len() == expected.len() => {}
        (_, error) => {
            let (read, wanted) = (records.len(), expected.len());
            tally.fail(
                &entry.name,
                format!("batch {i}: {read} of {wanted} records, rejected by Java: {rejected}, {error:?}"),
            );
        }
    }
}

fn check_consume(run: &[u8], case: &Value, entry: &Entry, decompressor: &mut Decompressor, tally: &mut Tally) {
    let fetch = Fetch::of(case);
    let consumed = consume(run, &fetch, decompressor);
    let mut differences = Vec::new();
    let java = Delivered::of(case);
    if case["error"].is_null() {
        if let Some(error) = &consumed.error {
            differences.push(format!("{error}: {}", error.source));
        }
        if !java.is(&consumed.delivered_offsets) {
            differences.push(format!("delivered {:?}", consumed.delivered_offsets));
        }
        if consumed.next_fetch_offset != never_back(case, &java) {
            differences.push(format!("next fetch offset {}", consumed.next_fetch_offset));
        }
        if consumed.no_progress != case["no_progress"].as_bool().unwrap_or(false) {
            differences.push(format!("no progress: {}", consumed.no_progress));
        }
    } else if consumed.error.is_none() {
        if !entry.tags.iter().any(|tag| tag == "java_rejects") {
            differences.push("accepted".into());
        }
    } else if !java.begins_with(&consumed.delivered_offsets) {
        differences.push(format!("delivered {:?}", consumed.delivered_offsets));
    }
    for difference in differences {
        tally.fail(&entry.name, format!("{fetch:?}, {} bytes: {difference}; Java: {case}", run.len()));
    }
}

/// What Java delivered: all offsets, or how many, the first and the last.
enum Delivered {
    Offsets(Vec<i64>),
    Many { count: usize, first: i64, last: i64 },
}

impl Delivered {
    fn of(case: &Value) -> Self {
        if let Some(count) = case["delivered_count"].as_u64() {
            let ends = &case["delivered_first_last"];
            let [first, last] = [0, 1].map(|i| ends[i].as_i64().expect("an offset"));
            return Self::Many { count: usize::try_from(count).expect("a count"), first, last };
        }
        // Java sets its position to the end of an aborted batch also where that is a step back, before the fetch offset, and then
        // delivers what nobody asked for. (No broker sends batches from so far back; a vector's run begins where it begins.)
        let fetch_offset = case["fetch_offset"].as_i64().unwrap_or(i64::MIN);
        let offsets = case["delivered_offsets"].as_array().into_iter().flatten();
        let offsets = offsets.map(|offset| offset.as_i64().expect("an offset"));
        Self::Offsets(offsets.filter(|offset| *offset >= fetch_offset).collect())
    }

    fn is(&self, actual: &[i64]) -> bool {
        match self {
            Self::Offsets(offsets) => offsets == actual,
            Self::Many { count, first, last } => {
                (actual.len(), actual.first(), actual.last()) == (*count, Some(first), Some(last))
            }
        }
    }

    fn begins_with(&self, actual: &[i64]) -> bool {
        match self {
            Self::Offsets(offsets) => offsets.starts_with(actual),
            Self::Many { count, first, .. } => {
                actual.len() <= *count && actual.first().is_none_or(|offset| offset == first)
            }
        }
    }

    fn last(&self) -> Option<i64> {
        match self {
            Self::Offsets(offsets) => offsets.last().copied(),
            Self::Many { last, .. } => Some(*last),
        }
    }
}

/// Java's next fetch offset, except where Java steps back or stands still (a wrapper of magic 1 at offset 0, a last offset delta below
/// the last record's): the position is never before the fetch offset or a delivered record.
fn never_back(case: &Value, java: &Delivered) -> i64 {
    let fetch_offset = case["fetch_offset"].as_i64().expect("fetch_offset");
    let next = case["next_fetch_offset"].as_i64().expect("next_fetch_offset");
    next.max(fetch_offset).max(java.last().map_or(i64::MIN, |last| last.saturating_add(1)))
}

#[test]
fn vectors_of_malformed_records_end_as_they_must() {
    let mut tally = Tally::default();
    let mut decompressor = Decompressor::new();
    for entry in entries(Area::Records).iter().filter(|entry| entry.kind == "malformed") {
        let (run, json) = read(entry);
        tally.count("vectors");
        if let Some(items) = json["items"].as_array() {
            for item in items {
                tally.count("packed items");
                let start = usize_of(&item["offset"]);
                let run = &run[start..start + usize_of(&item["len"])];
                check_packed(run, item, entry, &mut decompressor, &mut tally);
            }
            continue;
        }
        for (key, case) in json["java"].as_object().expect("java") {
            if key.starts_with("consumer") {
                tally.count("consumer runs");
                let consumed = consume(&run, &Fetch::of(case), &mut decompressor);
                assert!(decompressor.scratch_bytes() <= BATCH_INFLATED_BYTES_MAX_DEFAULT, "{}", entry.name);
                let case = Case {
                    consumed,
                    case,
                    low_level: &json["java"]["low_level"],
                    with_crc: key != "consumer_without_crc_check",
                };
                case.check(json["expect"].as_str().expect("expect"), &format!("{} {key}", entry.name), &mut tally);
            }
        }
    }
    let expected = entries(Area::Records).iter().filter(|entry| entry.kind == "malformed").count();
    assert_eq!(tally.counts.get("vectors"), Some(&expected), "every malformed records vector of the index ran");
    tally.finish("malformed records vectors");
}

/// One run of Kafka's consumer over a malformed vector, and ours.
struct Case<'a> {
    consumed: Consumed,
    case: &'a Value,
    low_level: &'a Value,
    with_crc: bool,
}

impl Case<'_> {
    fn check(&self, expect: &str, name: &str, tally: &mut Tally) {
        let java = Delivered::of(self.case);
        let error = self.consumed.error.is_some();
        let java_error = !self.case["error"].is_null();
        // Java's consumer loses good batches before an unknown codec; its reader below doesn't. Those may be delivered.
        let may_deliver = |offsets: &[i64]| java.begins_with(offsets) || self.low_level_offsets().starts_with(offsets);
        let delivered = &self.consumed.delivered_offsets;
        let same = error == java_error
            && if error {
                may_deliver(delivered)
            } else {
                java.is(delivered) && self.consumed.next_fetch_offset == never_back(self.case, &java)
            };
        let good = match expect {
            "reject" if self.with_crc => error && may_deliver(delivered),
            "accept" => same,
            "partial" => same && self.consumed.trailing_bytes == usize_of(&self.low_level["trailing_bytes"]),
            "limit" => error || java_error || java.is(delivered),
            // Without the CRC, and for oddities: the same as Java, or one of the documented differences.
            _ => match self.difference(same, &java) {
                Some(rule) => {
                    tally.count(rule);
                    true
                }
                None => false,
            },
        };
        if !good {
            let source = self.consumed.error.as_ref().map(|error| error.source.to_string());
            tally.fail(name, format!("{expect}: {:?} {source:?}; Java: {}", self.consumed, self.case));
        }
    }

    /// The rule by which the outcome differs from Java's, on purpose.
    fn difference(&self, same: bool, java: &Delivered) -> Option<&'static str> {
        if same {
            return Some("as Java");
        }
        let delivered = &self.consumed.delivered_offsets;
        let Some(error) = &self.consumed.error else {
            // Java's exception is an accident of its arithmetic or of a null; what could be read is read.
            let java_error = !self.case["error"].is_null();
            return (java_error && Delivered::Offsets(delivered.clone()).begins_with(&self.java_offsets(java)))
                .then_some("reads on where Java throws");
        };
        let kind = &error.source.kind;
        match error.source.field {
            // A wrong checksum is damage, wherever it is.
            "batch.crc" => Some("a wrapper's CRC counts too"),
            "batch.records" if matches!(kind, DecodeErrorKind::Checksum { .. }) => {
                Some("an LZ4 content checksum counts")
            }
            "batch.records" if matches!(kind, DecodeErrorKind::Leftover { .. }) => Some("no record, no bytes"),
            // An offset that 64 bits can't hold is no offset.
            "batch.last_offset_delta" => Some("offsets don't overflow"),
            _ => None,
        }
    }

    fn java_offsets(&self, java: &Delivered) -> Vec<i64> {
        match java {
            Delivered::Offsets(offsets) => offsets.clone(),
            Delivered::Many { first, .. } => vec![*first],
        }
    }

    fn low_level_offsets(&self) -> Vec<i64> {
        let batches = self.low_level["batches"].as_array().into_iter().flatten();
        batches
            .filter(|batch| batch["is_control"] != true)
            .flat_map(|batch| batch["records"].as_array().into_iter().flatten())
            .filter_map(|record| record["offset"].as_i64())
            .collect()
    }
}

/// An item of a packed file of random changes: Java read it, or it didn't.
fn check_packed(run: &[u8], item: &Value, entry: &Entry, decompressor: &mut Decompressor, tally: &mut Tally) {
    let name = format!("{} item at {}", entry.name, item["offset"]);
    let fetch_offset = run.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes));
    let consumed = consume(run, &Fetch::from(fetch_offset), decompressor);
    let java = Delivered::of(item);
    if item["java_ok"] == false {
        if consumed.error.is_none() || !java.begins_with(&consumed.delivered_offsets) {
            tally.fail(&name, format!("{consumed:?}; Java: {item}"));
        }
        return;
    }
    let next = item["next_fetch_offset"].as_i64().expect("next_fetch_offset");
    let next = next.max(fetch_offset).max(java.last().map_or(fetch_offset, |last| last + 1));
    if consumed.error.is_some() || !java.is(&consumed.delivered_offsets) || consumed.next_fetch_offset != next {
        tally.fail(&name, format!("{consumed:?}; Java: {item}"));
    }
    let Some(Ok(batch)) = RecordBatches::new(run).next() else { return };
    for difference in batch_differences(&batch, &item["decode"]) {
        tally.fail(&name, difference);
    }
    let (records, error) = records_json(&batch, decompressor);
    check_records(0, &records, error, &item["decode"], false, entry, tally);
}

/// The records in a real broker's answers, behind the messages around them.
#[test]
fn vectors_of_live_fetches_hold_the_records_that_kafka_saw() {
    let mut tally = Tally::default();
    let mut decompressor = Decompressor::new();
    for entry in index().iter().filter(|entry| entry.kind == "live") {
        let (bytes, json) = read(entry);
        if json["api"] != "FETCH" {
            continue;
        }
        let bytes = Bytes::from(bytes);
        for pair in json["pairs"].as_array().expect("pairs") {
            tally.count("answers");
            let version = i16::try_from(pair["version"].as_i64().expect("version")).expect("version");
            let start = usize_of(&pair["response_offset"]) + 4;
            let frame = bytes.slice(start..start - 4 + usize_of(&pair["response_len"]));
            let flexible = ResponseHeader::is_flexible::<FetchResponse>(version);
            let body = frame.slice(if flexible { 5 } else { 4 }..);
            let response = FetchResponse::decode(version, &body).expect("a fetch response");
            let topics = pair["response"]["responses"].as_array().expect("responses");
            for (topic, expected) in response.responses.iter().zip(topics) {
                let partitions = expected["partitions"].as_array().expect("partitions");
                for (partition, expected) in topic.partitions.iter().zip(partitions) {
                    let run = partition.records.as_deref().unwrap_or_default();
                    assert_eq!(run.len(), usize_of(&expected["recordsSizeInBytes"]), "{}", entry.name);
                    tally.count("partitions");
                    if expected["decode"].is_object() {
                        check_decode(run, expected, entry, &mut decompressor, &mut tally);
                    } else {
                        assert!(run.is_empty(), "{}: records without a decode", entry.name);
                    }
                    // A real log: nothing in it is refused, also under read_committed.
                    let aborted = partition.aborted_transactions.iter().flatten();
                    let mut filter = AbortedTransactions::new(aborted.map(|one| (one.producer_id, one.first_offset)));
                    for batch in RecordBatches::new(run) {
                        let batch = batch.expect("a batch");
                        batch.check_crc().expect("a CRC that holds");
                        tally.count(match filter.observe(&batch, &mut decompressor).expect("a marker") {
                            Visibility::Deliver => "delivered batches",
                            Visibility::Aborted => "aborted batches",
                            Visibility::Control => "control batches",
                        });
                    }
                }
            }
        }
    }
    tally.finish("live fetches");
}

fn usize_of(json: &Value) -> usize {
    json.as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or_else(|| panic!("no size: {json}"))
}

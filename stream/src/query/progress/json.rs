//! Progress as JSON, field by field in the order of Spark's `StreamingQueryProgress`.

use super::{
    QueryProgress, SinkProgress, SourceProgress,
    numbers::{one_decimal, timestamp},
};
use crate::{LostRange, SourceOffset};
use serde_json::{Map, Value, json};

impl QueryProgress {
    /// The JSON of Spark's `StreamingQueryProgress`, on one line. What is our own stands at the end of a source, and only if there is
    /// something to say: `lost`, the ranges that are gone. Rates that are not finite and empty metrics are left out, as in Spark.
    pub fn json(&self) -> String {
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
        put("id", self.id.as_str().into());
        put("runId", self.run_id.as_str().into());
        put("name", self.name.as_deref().into());
        put("timestamp", timestamp(self.timestamp_ms).into());
        put("batchId", self.batch_id.into());
        put("batchDuration", self.batch_duration_ms.into());
        put_rows(&mut object, self.num_input_rows(), self.input_rows_per_second(), self.processed_rows_per_second());
        if !self.duration_ms.is_empty() {
            let steps = self.duration_ms.iter().map(|(step, ms)| ((*step).to_owned(), (*ms).into()));
            object.insert("durationMs".to_owned(), Value::Object(steps.collect()));
        }
        object.insert("stateOperators".to_owned(), json!([]));
        object.insert("sources".to_owned(), self.sources.iter().map(source).collect());
        object.insert("sink".to_owned(), sink(&self.sink));
        Value::Object(object).to_string()
    }
}

fn put_rows(object: &mut Map<String, Value>, rows: u64, input_rate: f64, processed_rate: f64) {
    object.insert("numInputRows".to_owned(), rows.into());
    for (name, rate) in [("inputRowsPerSecond", input_rate), ("processedRowsPerSecond", processed_rate)] {
        if let Some(rate) = one_decimal(rate) {
            object.insert(name.to_owned(), rate.into());
        }
    }
}

fn source(source: &SourceProgress) -> Value {
    let mut object = Map::new();
    object.insert("description".to_owned(), source.description.as_str().into());
    for (name, map) in [
        ("startOffset", &source.start_offset),
        ("endOffset", &source.end_offset),
        ("latestOffset", &source.latest_offset),
    ] {
        object.insert(name.to_owned(), map.as_ref().map_or(Value::Null, SourceOffset::to_json));
    }
    put_rows(&mut object, source.num_input_rows, source.input_rows_per_second, source.processed_rows_per_second);
    if !source.metrics.is_empty() {
        let metrics = source.metrics.iter().map(|(name, text)| ((*name).to_owned(), text.as_str().into()));
        object.insert("metrics".to_owned(), Value::Object(metrics.collect()));
    }
    if !source.lost.is_empty() {
        object.insert("lost".to_owned(), source.lost.iter().map(lost).collect());
    }
    Value::Object(object)
}

fn lost(lost: &LostRange) -> Value {
    let known = |offset: i64| (offset >= 0).then_some(offset);
    json!({
        "topic": lost.range.topic,
        "partition": lost.range.partition,
        "fromOffset": lost.range.from_offset,
        "untilOffset": lost.range.until_offset,
        "condition": lost.kind.condition(),
        "logStartOffset": known(lost.log_start_offset),
        "logEndOffset": known(lost.log_end_offset),
    })
}

fn sink(sink: &SinkProgress) -> Value {
    let rows = sink.num_output_rows.map_or_else(|| Value::from(-1), Value::from);
    json!({ "description": sink.description, "numOutputRows": rows })
}

#[cfg(test)]
mod tests {
    use super::{
        super::{SourceBatch, TriggerTimes},
        *,
    };
    use crate::{ConsumerStrategy, LossKind, OffsetRange, offset::Offsets};
    use ottla_client::TopicPartition;

    fn offsets(offsets: &[(&str, i32, i64)]) -> Offsets {
        offsets.iter().map(|(topic, index, offset)| (TopicPartition::new(*topic, *index), *offset)).collect()
    }

    fn progress(times: &TriggerTimes, durations: &[(&'static str, u64)], source: SourceBatch<'_>) -> QueryProgress {
        QueryProgress {
            id: "<uuid>".to_owned(),
            run_id: "<uuid>".to_owned(),
            name: None,
            timestamp_ms: times.start_ms,
            batch_id: 0,
            batch_duration_ms: times.duration_ms(),
            duration_ms: durations.iter().copied().collect(),
            sources: vec![SourceProgress::new(source, times)],
            sink: SinkProgress { description: "ForeachBatchSink".to_owned(), num_output_rows: None },
        }
    }

    /// The `full` progress of the goldens, byte for byte.
    #[test]
    fn goldens_a01_and_i01() {
        let end = offsets(&[("a01x", 0, 100), ("a01x", 1, 7), ("a01x", 2, 0), ("a01y", 0, 20)]);
        let times =
            TriggerTimes { previous_start_ms: None, start_ms: 1_795_992_315_860, end_ms: 1_795_992_315_860 + 22_255 };
        let durations = [
            ("walCommit", 142),
            ("addBatch", 18_059),
            ("commitOffsets", 211),
            ("getBatch", 49),
            ("latestOffset", 2473),
            ("queryPlanning", 1242),
            ("triggerExecution", 22_248),
        ];
        let source = SourceBatch {
            strategy: &ConsumerStrategy::subscribe(" a01x, a01y ,").unwrap(),
            start: None,
            end: Some(&end),
            latest: Some(&end),
            num_input_rows: 127,
            lost: Vec::new(),
        };
        assert_eq!(
            progress(&times, &durations, source).json(),
            r#"{"id":"<uuid>","runId":"<uuid>","name":null,"timestamp":"2026-11-29T22:45:15.860Z","batchId":0,"batchDuration":22255,"numInputRows":127,"inputRowsPerSecond":0.0,"processedRowsPerSecond":5.7,"durationMs":{"addBatch":18059,"commitOffsets":211,"getBatch":49,"latestOffset":2473,"queryPlanning":1242,"triggerExecution":22248,"walCommit":142},"stateOperators":[],"sources":[{"description":"KafkaV2[Subscribe[a01x, a01y]]","startOffset":null,"endOffset":{"a01x":{"0":100,"1":7,"2":0},"a01y":{"0":20}},"latestOffset":{"a01x":{"0":100,"1":7,"2":0},"a01y":{"0":20}},"numInputRows":127,"inputRowsPerSecond":0.0,"processedRowsPerSecond":5.7,"metrics":{"avgOffsetsBehindLatest":"0.0","maxOffsetsBehindLatest":"0","minOffsetsBehindLatest":"0"}}],"sink":{"description":"ForeachBatchSink","numOutputRows":-1}}"#
        );

        let end = offsets(&[("i01", 0, 5)]);
        let start_ms = 1_795_992_685_789;
        let times = TriggerTimes { previous_start_ms: None, start_ms, end_ms: start_ms + 1346 };
        let durations = [
            ("addBatch", 1101),
            ("commitOffsets", 60),
            ("getBatch", 2),
            ("latestOffset", 106),
            ("queryPlanning", 9),
            ("triggerExecution", 1346),
            ("walCommit", 66),
        ];
        let source = SourceBatch {
            strategy: &ConsumerStrategy::subscribe("i01").unwrap(),
            start: None,
            end: Some(&end),
            latest: Some(&end),
            num_input_rows: 5,
            lost: Vec::new(),
        };
        assert_eq!(
            progress(&times, &durations, source).json(),
            r#"{"id":"<uuid>","runId":"<uuid>","name":null,"timestamp":"2026-11-29T22:51:25.789Z","batchId":0,"batchDuration":1346,"numInputRows":5,"inputRowsPerSecond":0.0,"processedRowsPerSecond":3.7,"durationMs":{"addBatch":1101,"commitOffsets":60,"getBatch":2,"latestOffset":106,"queryPlanning":9,"triggerExecution":1346,"walCommit":66},"stateOperators":[],"sources":[{"description":"KafkaV2[Subscribe[i01]]","startOffset":null,"endOffset":{"i01":{"0":5}},"latestOffset":{"i01":{"0":5}},"numInputRows":5,"inputRowsPerSecond":0.0,"processedRowsPerSecond":3.7,"metrics":{"avgOffsetsBehindLatest":"0.0","maxOffsetsBehindLatest":"0","minOffsetsBehindLatest":"0"}}],"sink":{"description":"ForeachBatchSink","numOutputRows":-1}}"#
        );
    }

    /// A batch that an earlier run planned (golden f01: no latest offsets, no metrics), with what is our own.
    #[test]
    fn what_is_unknown_is_null_or_left_out_and_losses_come_last() {
        let (start, end) = (offsets(&[("t", 0, 50)]), offsets(&[("t", 0, 100), ("t", 10, 3), ("t", 2, 1)]));
        let lost = |kind, from_offset, until_offset, (log_start_offset, log_end_offset)| LostRange {
            range: OffsetRange { topic: "t".to_owned(), partition: 0, from_offset, until_offset },
            kind,
            wanted_until_offset: 100,
            log_start_offset,
            log_end_offset,
        };
        let times = TriggerTimes { previous_start_ms: Some(0), start_ms: 0, end_ms: 500 };
        let mut source = SourceBatch {
            strategy: &ConsumerStrategy::subscribe_pattern("t.*").unwrap(),
            start: Some(&start),
            end: Some(&end),
            latest: None,
            num_input_rows: 30,
            lost: Vec::new(),
        };
        let json = |source| {
            let mut progress = progress(&times, &[], source);
            progress.name = Some("a \"name\"".to_owned());
            progress.sink.num_output_rows = Some(4);
            progress.json()
        };
        let begin = r#"{"id":"<uuid>","runId":"<uuid>","name":"a \"name\"","timestamp":"1970-01-01T00:00:00.000Z","batchId":0,"batchDuration":500,"numInputRows":30,"processedRowsPerSecond":60.0,"stateOperators":[],"sources":[{"description":"KafkaV2[SubscribePattern[t.*]]","startOffset":{"t":{"0":50}},"endOffset":{"t":{"0":100,"2":1,"10":3}},"latestOffset":null,"numInputRows":30,"processedRowsPerSecond":60.0"#;
        let finish = r#"}],"sink":{"description":"ForeachBatchSink","numOutputRows":4}}"#;
        source.lost =
            vec![lost(LossKind::OutOfRange, 50, 70, (70, 100)), lost(LossKind::PartitionDeleted, 6, 6, (-1, -1))];
        let lost = r#","lost":[{"topic":"t","partition":0,"fromOffset":50,"untilOffset":70,"condition":"KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE","logStartOffset":70,"logEndOffset":100},{"topic":"t","partition":0,"fromOffset":6,"untilOffset":6,"condition":"KAFKA_DATA_LOSS.PARTITIONS_DELETED","logStartOffset":null,"logEndOffset":null}]"#;
        let without = SourceBatch { lost: Vec::new(), ..source };
        assert_eq!(json(SourceBatch { lost: source.lost, ..without }), format!("{begin}{lost}{finish}"));
    }

    #[test]
    fn several_sources_add_up() {
        let times = TriggerTimes { previous_start_ms: Some(0), start_ms: 1000, end_ms: 3000 };
        let strategy = ConsumerStrategy::subscribe("t").unwrap();
        let source = |rows| SourceBatch {
            strategy: &strategy,
            start: None,
            end: None,
            latest: None,
            num_input_rows: rows,
            lost: Vec::new(),
        };
        let mut progress = progress(&times, &[], source(10));
        progress.sources.push(SourceProgress::new(source(5), &times));
        assert_eq!(progress.num_input_rows(), 15);
        assert_eq!((progress.input_rows_per_second(), progress.processed_rows_per_second()), (15.0, 7.5));
        progress.sources.clear();
        let json = progress.json();
        assert!(json.contains(r#""numInputRows":0,"inputRowsPerSecond":0.0,"processedRowsPerSecond":0.0,"#), "{json}");
        assert!(json.contains(r#""sources":[],"#), "{json}");
    }
}

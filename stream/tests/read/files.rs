//! A bounded read into files.

use crate::support::{options, process, topic};
use ottla_embedded::EmbeddedBroker;
use ottla_stream::FileSink;
use std::collections::BTreeMap;

#[tokio::test]
async fn a_read_writes_every_record_once_and_again_into_the_same_file() {
    let broker = EmbeddedBroker::start().await.unwrap();
    topic(&broker, 5, 100);
    let directory = tempfile::tempdir().unwrap();
    let sink = FileSink::new(directory.path()).unwrap();
    for _ in 0..2 {
        process(&options(&broker, &[]), &sink).await.unwrap();
        let names: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["batch-00000000000000000000.jsonl"]);
        let text = std::fs::read_to_string(directory.path().join(&names[0])).unwrap();
        let mut offsets = BTreeMap::<i64, Vec<i64>>::new();
        for line in text.lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            offsets.entry(row["partition"].as_i64().unwrap()).or_default().push(row["offset"].as_i64().unwrap());
        }
        assert_eq!(offsets.len(), 5);
        assert!(offsets.values().all(|offsets| *offsets == (0..100).collect::<Vec<_>>()));
    }
}

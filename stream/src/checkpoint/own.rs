//! `ottla/offsets/N`: what Spark has no place for, beside `offsets/N` and written before it.
//!
//! ```text
//! {"version":1,"offsetsCrc32c":2788422914,"sources":[
//!   {"topicIds":{"t":"VLPZl7-3n3M_pa9rp1xkgw"},"leaderEpochs":{"t":{"0":3}},"newStarts":{"t":{"1":0}}}]}
//! ```
//! The checksum is that of the bytes of `offsets/N`: it tells whether the two belong together.

use super::{
    CheckpointError, CheckpointErrorKind, Offsets,
    offset_log::{parse_offsets, write_offsets},
};
use ottla_client::TopicPartition;
use ottla_protocol::Uuid;
use serde_json::{Map, Value};
use std::{collections::BTreeMap, path::Path};

const VERSION: u64 = 1;

/// What is known about a batch beside its offsets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct OwnEntry {
    /// By source, as many as the batch has.
    pub(crate) sources: Vec<OwnSource>,
}

/// What is known about a source's part of a batch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct OwnSource {
    /// The ids of the topics, where the brokers have them.
    pub(crate) topic_ids: BTreeMap<String, Uuid>,
    /// The leader epoch of the last batch read of each partition, where it has one.
    pub(crate) leader_epochs: BTreeMap<TopicPartition, i32>,
    /// Where partitions begin that the batch before did not have, so that a replay begins there too.
    pub(crate) new_starts: Offsets,
}

impl OwnEntry {
    /// The text of the file beside an offsets file that holds `offsets`.
    pub(super) fn write(&self, offsets: &[u8]) -> String {
        let json = |text: String| serde_json::from_str::<Value>(&text).unwrap_or_default();
        let source = |source: &OwnSource| {
            let ids = source.topic_ids.iter().map(|(topic, id)| (topic.clone(), id.to_string().into()));
            let epochs = source.leader_epochs.iter().map(|(partition, epoch)| (partition.clone(), i64::from(*epoch)));
            let fields = [
                ("topicIds".to_owned(), Value::Object(ids.collect())),
                ("leaderEpochs".to_owned(), json(write_offsets(&epochs.collect()))),
                ("newStarts".to_owned(), json(write_offsets(&source.new_starts))),
            ];
            Value::Object(Map::from_iter(fields))
        };
        let fields = [
            ("version".to_owned(), VERSION.into()),
            ("offsetsCrc32c".to_owned(), crc32c::crc32c(offsets).into()),
            ("sources".to_owned(), self.sources.iter().map(source).collect()),
        ];
        Value::Object(Map::from_iter(fields)).to_string()
    }

    /// Reads the file `path` beside an offsets file that holds `offsets` of `sources` sources. The inner `Err` is why it can't be used.
    pub(super) fn parse(
        path: &Path,
        bytes: &[u8],
        offsets: &[u8],
        sources: usize,
    ) -> Result<Result<Self, String>, CheckpointError> {
        let file: Value = match serde_json::from_slice(bytes) {
            Ok(file) => file,
            Err(error) => return Ok(Err(format!("it is damaged: {error}"))),
        };
        match file.get("version").and_then(Value::as_u64) {
            Some(found) if found > VERSION => {
                return Err(CheckpointError::new(path, CheckpointErrorKind::OwnVersion { max: VERSION, found }));
            }
            Some(VERSION) => {}
            _ => return Ok(Err("it is damaged: it has no version".to_owned())),
        }
        if file.get("offsetsCrc32c").and_then(Value::as_u64) != Some(crc32c::crc32c(offsets).into()) {
            return Ok(Err("its checksum is not that of the offsets file, which somebody else wrote".to_owned()));
        }
        let Some(listed) = file.get("sources").and_then(Value::as_array).filter(|listed| listed.len() == sources)
        else {
            return Ok(Err(format!("it is damaged: it has not {sources} sources")));
        };
        let parsed: Result<_, String> = listed.iter().map(OwnSource::parse).collect();
        Ok(parsed.map(|sources| Self { sources }).map_err(|reason| format!("it is damaged: {reason}")))
    }
}

impl OwnSource {
    fn parse(source: &Value) -> Result<Self, String> {
        let field = |name: &str| source.get(name).ok_or_else(|| format!("\"{name}\" is missing"));
        let ids = field("topicIds")?.as_object().ok_or("\"topicIds\" is no object")?;
        let id = |(topic, id): (&String, &Value)| {
            let id = id.as_str().and_then(|id| id.parse().ok());
            Ok((topic.clone(), id.ok_or_else(|| format!("the id of '{topic}' is none"))?))
        };
        let epoch = |(partition, epoch): (TopicPartition, i64)| {
            let epoch = i32::try_from(epoch).map_err(|_| format!("{epoch} of {partition} is no leader epoch"))?;
            Ok((partition, epoch))
        };
        Ok(Self {
            topic_ids: ids.iter().map(id).collect::<Result<_, String>>()?,
            leader_epochs: parse_offsets(&field("leaderEpochs")?.to_string())?
                .into_iter()
                .map(epoch)
                .collect::<Result<_, String>>()?,
            new_starts: parse_offsets(&field("newStarts")?.to_string())?,
        })
    }
}

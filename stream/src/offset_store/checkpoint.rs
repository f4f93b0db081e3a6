//! The offsets in a query's checkpoint, Spark's or ours: looked at while its query may be running, and never written.

use super::{CommitOutcome, OffsetStore, StoreCommit, StoreFuture, StoredOffset, StoredOffsets, blocking};
use crate::{
    CheckpointError, CheckpointErrorKind, Error, Result,
    checkpoint::{CheckpointView, FinishedBatch, FinishedSource, Look},
};
use ottla_client::TopicPartition;
use std::{collections::BTreeSet, time::Duration};
use uuid::Uuid;

/// How often files are looked at that are being written or deleted, before they count as damaged.
const LOOKS_MAX: u32 = 5;
/// The pause between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// What a query's checkpoint says is processed: where its newest batch ended that both `commits` and `offsets` have. No lock is taken, and
/// nothing is written; the query may be running.
#[derive(Clone, Debug)]
pub struct CheckpointOffsets {
    view: CheckpointView,
    location: String,
    source: Option<usize>,
}

/// What a batch of the checkpoint came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FinishedOffsets {
    pub(crate) batch_id: i64,
    pub(crate) query_id: Option<Uuid>,
    pub(crate) source: FinishedSource,
}

impl CheckpointOffsets {
    /// The checkpoint at `location`, a path or a `file:` URL, which need not be there yet. `source` is the number of the source that is meant,
    /// from 0, in a query of several.
    ///
    /// # Errors
    /// The location is not of this machine.
    pub fn new(location: &str, source: Option<usize>) -> Result<Self> {
        Ok(Self { view: CheckpointView::new(location)?, location: location.to_owned(), source })
    }

    /// The id of the query; `None` when no batch is done yet, or it can't be read.
    ///
    /// # Errors
    /// There is no such checkpoint, or its files are damaged.
    pub async fn query_id(&self) -> Result<Option<String>> {
        Ok(self.look().await?.and_then(|batch| batch.query_id).map(|id| id.to_string()))
    }

    /// The newest batch that is done, of the source that is meant; `None` when none is done yet.
    ///
    /// # Errors
    /// There is no such checkpoint or source, or its files are damaged: they were looked at several times.
    pub(crate) async fn newest(&self) -> Result<Option<FinishedOffsets>> {
        let Some(batch) = self.look().await? else { return Ok(None) };
        let source = batch.source(self.view.directory(), self.source)?;
        Ok(Some(FinishedOffsets { batch_id: batch.batch_id, query_id: batch.query_id, source }))
    }

    /// As [`newest`](Self::newest), of all sources together when none is named.
    ///
    /// # Errors
    /// Two sources have a partition in common, and as `newest`.
    pub(crate) async fn newest_of_all(&self) -> Result<Option<FinishedOffsets>> {
        if self.source.is_some() {
            return self.newest().await;
        }
        let Some(batch) = self.look().await? else { return Ok(None) };
        let union = batch.union(self.view.directory())?;
        let source = union.map_err(|shared| Error::Plan {
            condition: "SOURCES_SHARE_PARTITIONS",
            message: format!("{}: {shared}; name one of them as ?source=N", self.name()),
        })?;
        Ok(Some(FinishedOffsets { batch_id: batch.batch_id, query_id: batch.query_id, source }))
    }

    async fn look(&self) -> Result<Option<FinishedBatch>> {
        let mut looks = 1;
        loop {
            let view = self.view.clone();
            match blocking(move || view.look()).await?? {
                Look::Nothing => return Ok(None),
                Look::Finished(batch) => return Ok(Some(batch)),
                Look::Unclear(error) if looks == LOOKS_MAX => return Err(error.into()),
                Look::Unclear(_) => {}
            }
            looks += 1;
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }
}

impl FinishedOffsets {
    pub(crate) fn stored(&self) -> StoredOffsets {
        let own = &self.source.own;
        let stored = |(partition, offset): (&TopicPartition, &i64)| {
            let stored = StoredOffset {
                offset: *offset,
                batch_id: Some(self.batch_id),
                topic_id: own.topic_ids.get(&partition.topic).copied(),
                leader_epoch: own.leader_epochs.get(partition).copied(),
            };
            (partition.clone(), stored)
        };
        StoredOffsets { offsets: self.source.offsets.iter().map(stored).collect(), ..StoredOffsets::default() }
    }
}

impl OffsetStore for CheckpointOffsets {
    fn name(&self) -> String {
        match self.source {
            None => format!("checkpoint '{}'", self.location),
            Some(source) => format!("source {source} of checkpoint '{}'", self.location),
        }
    }

    fn load<'a>(&'a self, partitions: Option<&'a BTreeSet<TopicPartition>>) -> StoreFuture<'a, StoredOffsets> {
        Box::pin(async move {
            let mut stored = self.newest().await?.map(|batch| batch.stored()).unwrap_or_default();
            if let Some(wanted) = partitions {
                stored.offsets.retain(|partition, _| wanted.contains(partition));
            }
            Ok(stored)
        })
    }

    /// Always an error: only the query writes its checkpoint.
    fn store<'a>(&'a self, _: &'a StoreCommit) -> StoreFuture<'a, CommitOutcome> {
        let error = CheckpointError::new(self.view.directory(), CheckpointErrorKind::ReadOnly);
        Box::pin(async move { Err(error.into()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Offsets,
        checkpoint::{Checkpoint, OffsetsEntry, OwnEntry, OwnSource},
    };
    use ottla_protocol::Uuid as TopicId;
    use std::{fs, path::Path};

    fn entry(sources: &[&[(&str, i64)]]) -> OffsetsEntry {
        let offsets = |source: &&[(&str, i64)]| -> Option<Offsets> {
            Some(source.iter().map(|(topic, offset)| (TopicPartition::new(*topic, 0), *offset)).collect())
        };
        let own = OwnSource { topic_ids: [("t".to_owned(), TopicId([7; 16]))].into(), ..OwnSource::default() };
        OffsetsEntry {
            metadata: None,
            sources: sources.iter().map(offsets).collect(),
            own: Some(OwnEntry { sources: vec![own; sources.len()] }),
        }
    }

    fn store(directory: &Path, source: Option<usize>) -> CheckpointOffsets {
        CheckpointOffsets::new(directory.to_str().unwrap(), source).unwrap()
    }

    async fn newest(directory: &Path) -> Option<(i64, i64)> {
        let batch = store(directory, None).newest().await.unwrap()?;
        Some((batch.batch_id, *batch.source.offsets.values().next().unwrap()))
    }

    async fn fails(store: &CheckpointOffsets) -> (&'static str, String) {
        let error = store.load(None).await.unwrap_err();
        (error.condition(), ottla_client::report(&error))
    }

    #[tokio::test]
    async fn the_newest_batch_that_is_done_counts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(fails(&store(&path.join("none"), None)).await.0, "CHECKPOINT_NOT_THERE");
        assert_eq!(fails(&store(path, None)).await.0, "CHECKPOINT_NOT_THERE");
        let checkpoint = Checkpoint::open(path.to_str().unwrap()).unwrap();
        assert_eq!(newest(path).await, None);
        checkpoint.write_offsets(0, &entry(&[&[("t", 5)]])).unwrap();
        assert_eq!(newest(path).await, None, "planned is not done");
        checkpoint.write_commit(0).unwrap();
        checkpoint.write_offsets(1, &entry(&[&[("t", 9)]])).unwrap();
        assert_eq!(newest(path).await, Some((0, 5)), "and the lock of its query is not asked for");
        let commit = path.join("commits/1");
        for half in ["", "v", "v1\n{\"nextBatchWatermarkMs"] {
            fs::write(&commit, half).unwrap();
            assert_eq!(newest(path).await, Some((0, 5)), "{half:?}");
        }
        fs::write(&commit, "v1\n{\"nextBatchWatermarkMs\":0}").unwrap();
        assert_eq!(newest(path).await, Some((1, 9)));
        let stored = store(path, Some(0)).load(None).await.unwrap().offsets;
        let stored = stored[&TopicPartition::new("t", 0)];
        assert_eq!((stored.batch_id, stored.topic_id), (Some(1), Some(TopicId([7; 16]))));
        assert_eq!(store(path, None).query_id().await.unwrap(), Some(checkpoint.id().to_string()));
        let partitions = BTreeSet::from([TopicPartition::new("u", 0)]);
        assert_eq!(store(path, None).load(Some(&partitions)).await.unwrap(), StoredOffsets::default());
        // Half of the offsets are deleted: what is left counts.
        fs::remove_file(path.join("offsets/1")).unwrap();
        assert_eq!(newest(path).await, Some((0, 5)));
        fs::write(path.join("offsets/0"), "v1\n\n{\"t\":{\"0\":5").unwrap();
        assert_eq!(fails(&store(path, None)).await.0, "MALFORMED_LOG_FILE");
        fs::remove_file(path.join("offsets/0")).unwrap();
        assert_eq!(fails(&store(path, None)).await.0, "CHECKPOINT_COMMITS_WITHOUT_OFFSETS");
        fs::write(&commit, "v9\n{}").unwrap();
        assert_eq!(fails(&store(path, None)).await.0, "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION");
    }

    /// With Hadoop's checksum files beside its own.
    #[tokio::test]
    async fn a_checkpoint_that_spark_wrote_is_read_as_it_is() {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/checkpoint-sample");
        let newest = store(&sample, None).newest().await.unwrap().unwrap();
        let offsets: Vec<_> = newest.source.offsets.into_iter().map(|(p, offset)| (p.to_string(), offset)).collect();
        assert_eq!((newest.batch_id, offsets), (6, vec![("h02-0".to_owned(), 60), ("h02-1".to_owned(), 30)]));
        assert_eq!(newest.query_id.unwrap().to_string(), "2dbd350d-fa68-44a5-adc2-faa460a7e098");
    }

    #[tokio::test]
    async fn one_of_several_sources_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let checkpoint = Checkpoint::open(path.to_str().unwrap()).unwrap();
        checkpoint.write_offsets(0, &entry(&[&[("t", 5)], &[("u", 6)]])).unwrap();
        checkpoint.write_commit(0).unwrap();
        let (condition, text) = fails(&store(path, None)).await;
        assert!(
            condition == "CHECKPOINT_SOURCES" && text.contains("2 sources") && text.contains("?source=N"),
            "{text}"
        );
        let (_, text) = fails(&store(path, Some(2))).await;
        assert!(text.contains("no source 2: it has 2"), "{text}");
        let one = store(path, Some(1)).load(None).await.unwrap().offsets;
        assert_eq!(one.keys().map(ToString::to_string).collect::<Vec<_>>(), ["u-0"]);
        let union = store(path, None).newest_of_all().await.unwrap().unwrap();
        assert_eq!(union.source.offsets.len(), 2);
        checkpoint.write_offsets(1, &entry(&[&[("t", 5)], &[("u", 6), ("t", 7)]])).unwrap();
        checkpoint.write_commit(1).unwrap();
        let error = store(path, None).newest_of_all().await.unwrap_err();
        assert!(error.condition() == "SOURCES_SHARE_PARTITIONS" && error.to_string().contains("t-0"), "{error}");
        // A source of another kind is in nobody's way.
        fs::write(path.join("offsets/2"), "v1\n{}\n{\"logOffset\":3}\n{\"u\":{\"0\":8}}").unwrap();
        fs::write(path.join("commits/2"), "v1\n{}").unwrap();
        let one = store(path, Some(1)).load(None).await.unwrap().offsets;
        assert_eq!(one[&TopicPartition::new("u", 0)].offset, 8);
        let (_, text) = fails(&store(path, Some(0))).await;
        assert!(text.contains("source 0 is no Kafka source"), "{text}");
        let error = store(path, Some(1)).store(&StoreCommit::default()).await.unwrap_err();
        assert_eq!(error.condition(), "CHECKPOINT_READ_ONLY");
    }
}

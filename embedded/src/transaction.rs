//! Producer ids and transactions: who may write in which transaction, and what its end does to logs and groups.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::ResponseError;

use crate::batch::BatchHeader;
use crate::group::TopicPartition;
use crate::state::{Cluster, now_ms};

/// The first producer id, far from offsets and node ids, so that a mix-up shows.
const FIRST_PRODUCER_ID: i64 = 1_000;

/// A transactional id with its open transaction, if any.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    pub(crate) partitions: BTreeSet<TopicPartition>,
    pub(crate) groups: BTreeSet<String>,
}

/// All transactional ids.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    producer_ids: i64,
    by_id: BTreeMap<String, Transaction>,
}

impl Transactions {
    pub(crate) fn next_producer_id(&mut self) -> i64 {
        let id = FIRST_PRODUCER_ID.saturating_add(self.producer_ids);
        self.producer_ids = self.producer_ids.saturating_add(1);
        id
    }

    /// The transaction if the producer is its newest.
    pub(crate) fn get(
        &mut self,
        transactional_id: &str,
        producer_id: i64,
        producer_epoch: i16,
    ) -> Result<&mut Transaction, ResponseError> {
        let transaction = self.by_id.get_mut(transactional_id).ok_or(ResponseError::InvalidProducerIdMapping)?;
        if transaction.producer_id != producer_id {
            Err(ResponseError::InvalidProducerIdMapping)
        } else if transaction.producer_epoch != producer_epoch {
            Err(ResponseError::ProducerFenced)
        } else {
            Ok(transaction)
        }
    }

    /// Whether a transactional batch may be written to a partition.
    pub(crate) fn check_append(
        &mut self,
        transactional_id: &str,
        header: &BatchHeader,
        topic: &str,
        partition: i32,
    ) -> Result<(), ResponseError> {
        let transaction = self.get(transactional_id, header.producer_id, header.producer_epoch)?;
        let is_added = transaction.partitions.contains(&(topic.to_owned(), partition));
        if is_added { Ok(()) } else { Err(ResponseError::InvalidTxnState) }
    }
}

impl Cluster {
    /// Gives a transactional id its producer; an open transaction of an older producer is aborted.
    pub(crate) fn init_transactional_producer(&mut self, transactional_id: &str) -> Result<(i64, i16), ResponseError> {
        self.end_transaction(transactional_id, false)?;
        let producer_id = match self.transactions.by_id.get_mut(transactional_id) {
            Some(known) if known.producer_epoch < i16::MAX => {
                known.producer_epoch += 1;
                return Ok((known.producer_id, known.producer_epoch));
            }
            _ => self.transactions.next_producer_id(),
        };
        let transaction = Transaction { producer_id, ..Transaction::default() };
        self.transactions.by_id.insert(transactional_id.to_owned(), transaction);
        Ok((producer_id, 0))
    }

    /// Writes the markers of a transaction and keeps or forgets its groups' offsets.
    pub(crate) fn end_transaction(&mut self, transactional_id: &str, committed: bool) -> Result<(), ResponseError> {
        let Some(transaction) = self.transactions.by_id.get_mut(transactional_id) else { return Ok(()) };
        let (producer_id, producer_epoch) = (transaction.producer_id, transaction.producer_epoch);
        let partitions = std::mem::take(&mut transaction.partitions);
        let groups = std::mem::take(&mut transaction.groups);
        for (topic, partition) in partitions {
            // A topic that was deleted meanwhile needs no marker.
            let Some(partition) = self.partition_mut(&topic, partition) else { continue };
            let epoch = partition.leader_epoch;
            partition.log.end_transaction(producer_id, producer_epoch, committed, now_ms(), epoch)?;
        }
        for group in groups {
            let Some(group) = self.groups.get_mut(&group) else { continue };
            let pending = group.pending_offsets.remove(&producer_id).unwrap_or_default();
            if committed {
                group.offsets.extend(pending);
            }
        }
        Ok(())
    }
}

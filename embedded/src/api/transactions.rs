//! InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit and EndTxn. Sequence numbers are stored and not checked.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    EndTxnRequest, EndTxnResponse, InitProducerIdRequest, InitProducerIdResponse, ProducerId, TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
};
use tokio::time::Instant;

use super::offsets::{check_coordinator, check_metadata};
use super::{CommittedOffset, Context, code};
use crate::state::Cluster;

pub(super) fn init_producer_id(
    cluster: &mut Cluster,
    context: &Context,
    request: &InitProducerIdRequest,
) -> InitProducerIdResponse {
    let given = context.check_whole().and_then(|()| match &request.transactional_id {
        None => Ok((cluster.transactions.next_producer_id(), 0)),
        Some(id) => {
            check_coordinator(cluster, context, id)?;
            cluster.init_transactional_producer(id)
        }
    });
    let response = InitProducerIdResponse::default().with_error_code(code(&given));
    let (producer_id, producer_epoch) = given.unwrap_or((-1, -1));
    response.with_producer_id(ProducerId(producer_id)).with_producer_epoch(producer_epoch)
}

/// Versions up to 3, which hold one transaction.
pub(super) fn add_partitions(
    cluster: &mut Cluster,
    context: &Context,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse {
    let transactional_id = request.v3_and_below_transactional_id.to_string();
    let (producer_id, producer_epoch) = (request.v3_and_below_producer_id.0, request.v3_and_below_producer_epoch);
    let topics = request.v3_and_below_topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|&partition| {
            let added = context.check_partition(&topic.name, partition).and_then(|()| {
                check_coordinator(cluster, context, &transactional_id)?;
                cluster.partition(&topic.name, partition).ok_or(ResponseError::UnknownTopicOrPartition)?;
                let transaction = cluster.transactions.get(&transactional_id, producer_id, producer_epoch)?;
                transaction.partitions.insert((topic.name.to_string(), partition));
                Ok(())
            });
            AddPartitionsToTxnPartitionResult::default()
                .with_partition_index(partition)
                .with_partition_error_code(code(&added))
        });
        let partitions = partitions.collect();
        AddPartitionsToTxnTopicResult::default().with_name(topic.name).with_results_by_partition(partitions)
    });
    AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(topics.collect())
}

pub(super) fn add_offsets(
    cluster: &mut Cluster,
    context: &Context,
    request: &AddOffsetsToTxnRequest,
) -> AddOffsetsToTxnResponse {
    let added = context.check_whole().and_then(|()| {
        check_coordinator(cluster, context, &request.transactional_id)?;
        let transaction =
            cluster.transactions.get(&request.transactional_id, request.producer_id.0, request.producer_epoch)?;
        transaction.groups.insert(request.group_id.to_string());
        Ok(())
    });
    AddOffsetsToTxnResponse::default().with_error_code(code(&added))
}

/// Offsets that count once the transaction is committed.
pub(super) fn commit_offsets(
    cluster: &mut Cluster,
    context: &Context,
    request: TxnOffsetCommitRequest,
) -> TxnOffsetCommitResponse {
    let group_id = request.group_id.to_string();
    let producer_id = request.producer_id.0;
    let allowed = check_coordinator(cluster, context, &group_id).and_then(|()| {
        cluster.transactions.get(&request.transactional_id, producer_id, request.producer_epoch)?;
        match cluster.groups.get_mut(&group_id) {
            // Producers that know no membership send -1 and no member id, and are let in (KIP-447).
            Some(group) if request.generation_id >= 0 => {
                group.check_commit(&request.member_id, request.generation_id, Instant::now())
            }
            _ => Ok(()),
        }
    });
    let topics = request.topics.into_iter().map(|topic| {
        let name = topic.name.to_string();
        let partitions = topic.partitions.into_iter().map(|asked| {
            let index = asked.partition_index;
            let committed = context.check_partition(&name, index).and_then(|()| {
                cluster.partition(&name, index).ok_or(ResponseError::UnknownTopicOrPartition)?;
                allowed?;
                let metadata = asked.committed_metadata.unwrap_or_default();
                check_metadata(&metadata)?;
                let committed = CommittedOffset {
                    offset: asked.committed_offset,
                    leader_epoch: asked.committed_leader_epoch,
                    metadata: metadata.to_string(),
                };
                let group = cluster.groups.entry(group_id.clone()).or_default();
                group.pending_offsets.entry(producer_id).or_default().insert((name.clone(), index), committed);
                Ok(())
            });
            TxnOffsetCommitResponsePartition::default().with_partition_index(index).with_error_code(code(&committed))
        });
        let partitions = partitions.collect();
        TxnOffsetCommitResponseTopic::default().with_name(topic.name).with_partitions(partitions)
    });
    TxnOffsetCommitResponse::default().with_topics(topics.collect())
}

pub(super) fn end(cluster: &mut Cluster, context: &Context, request: &EndTxnRequest) -> EndTxnResponse {
    let ended = context.check_whole().and_then(|()| {
        check_coordinator(cluster, context, &request.transactional_id)?;
        cluster.transactions.get(&request.transactional_id, request.producer_id.0, request.producer_epoch)?;
        cluster.end_transaction(&request.transactional_id, request.committed)
    });
    EndTxnResponse::default().with_error_code(code(&ended))
}

//! Transactions over the wire: the last stable offset, markers, aborted transactions, offsets that count on commit.

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, GroupId, InitProducerIdRequest,
    InitProducerIdResponse, ListOffsetsRequest, OffsetFetchRequest, ProduceRequest, TransactionalId,
    TxnOffsetCommitRequest,
};
use kafka_protocol::records::RecordBatchDecoder;
use ottla_embedded::EmbeddedBroker;

use crate::support::{Client, PLAIN, Position, Writer, batch, batch_of, fetch, partitions, produce, topic_name};

const LOGS: Position = Position { topic: "logs", partition: 0, offset: 0 };
const READ_COMMITTED: i8 = 1;

fn id() -> TransactionalId {
    TransactionalId("t".into())
}

async fn broker() -> EmbeddedBroker {
    let broker = EmbeddedBroker::start().await.unwrap();
    broker.create_topic("logs", 1, &[]).unwrap();
    broker
}

async fn init(client: &mut Client) -> InitProducerIdResponse {
    let producer = client.ask(4, InitProducerIdRequest::default().with_transactional_id(Some(id()))).await;
    assert_eq!(producer.error_code, 0);
    producer
}

async fn add(client: &mut Client, producer: &InitProducerIdResponse) -> i16 {
    let topic = AddPartitionsToTxnTopic::default().with_name(topic_name("logs")).with_partitions(vec![0]);
    let request = AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(id())
        .with_v3_and_below_producer_id(producer.producer_id)
        .with_v3_and_below_producer_epoch(producer.producer_epoch)
        .with_v3_and_below_topics(vec![topic]);
    client.ask(3, request).await.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
}

fn written(broker: &EmbeddedBroker, producer: &InitProducerIdResponse) -> ProduceRequest {
    let writer = Writer { producer_id: producer.producer_id.0, transactional: true, ..PLAIN };
    produce(broker, 9, "logs", 0, batch_of(writer, 10, 10)).with_transactional_id(Some(id()))
}

async fn produce_code(client: &mut Client, request: ProduceRequest) -> i16 {
    client.ask(9, request).await.responses[0].partition_responses[0].error_code
}

fn end(producer: &InitProducerIdResponse, committed: bool) -> EndTxnRequest {
    EndTxnRequest::default()
        .with_transactional_id(id())
        .with_producer_id(producer.producer_id)
        .with_producer_epoch(producer.producer_epoch)
        .with_committed(committed)
}

#[tokio::test]
async fn markers_move_the_last_stable_offset_and_tell_aborted_records() {
    let broker = broker().await;
    let mut client = Client::connect(&broker, 1).await;
    let producer = init(&mut client).await;
    broker.append("logs", 0, batch(10)).unwrap();
    let not_added = written(&broker, &producer);
    assert_eq!(produce_code(&mut client, not_added).await, ResponseError::InvalidTxnState.code());

    assert_eq!(add(&mut client, &producer).await, 0);
    assert_eq!(produce_code(&mut client, written(&broker, &producer)).await, 0);
    broker.append("logs", 0, batch(10)).unwrap();
    let sizes = async |client: &mut Client, isolation_level: i8| {
        let response = client.ask(12, fetch(&broker, 12, &[LOGS]).with_isolation_level(isolation_level)).await;
        let data = partitions(&response)[0].clone();
        (data.high_watermark, data.last_stable_offset, data.records.unwrap().len(), data.aborted_transactions)
    };
    let size = batch(10).len();
    assert_eq!(sizes(&mut client, 0).await, (30, 10, 3 * size, None));
    assert_eq!(sizes(&mut client, READ_COMMITTED).await, (30, 10, size, Some(vec![])));
    for (isolation_level, latest) in [(0, 30), (READ_COMMITTED, 10)] {
        let partition = ListOffsetsPartition::default().with_timestamp(-1);
        let topic = ListOffsetsTopic::default().with_name(topic_name("logs")).with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default().with_isolation_level(isolation_level).with_topics(vec![topic]);
        assert_eq!(client.ask(5, request).await.topics[0].partitions[0].offset, latest);
    }

    assert_eq!(client.ask(4, end(&producer, false)).await.error_code, 0);
    let (_, last_stable_offset, _, aborted) = sizes(&mut client, READ_COMMITTED).await;
    assert_eq!(last_stable_offset, 31);
    let aborted: Vec<_> = aborted.unwrap().iter().map(|t| (t.producer_id, t.first_offset)).collect();
    assert_eq!(aborted, [(producer.producer_id, 10)]);

    add(&mut client, &producer).await;
    produce_code(&mut client, written(&broker, &producer)).await;
    assert_eq!(client.ask(4, end(&producer, true)).await.error_code, 0);
    assert_eq!(broker.last_stable_offset("logs", 0), Ok(42));
    let response = client.ask(12, fetch(&broker, 12, &[Position { offset: 30, ..LOGS }])).await;
    let mut records = partitions(&response)[0].records.clone().unwrap();
    let sets = RecordBatchDecoder::decode_all(&mut records).unwrap();
    let markers: Vec<_> = sets
        .iter()
        .flat_map(|set| &set.records)
        .filter(|r| r.control)
        .map(|r| (r.offset, r.key.clone().unwrap()))
        .collect();
    assert_eq!(markers, [(30, Bytes::from_static(&[0, 0, 0, 0])), (41, Bytes::from_static(&[0, 0, 0, 1]))]);
    // Beyond the aborted transaction's marker it isn't told any more.
    let request = fetch(&broker, 12, &[Position { offset: 31, ..LOGS }]).with_isolation_level(READ_COMMITTED);
    assert_eq!(partitions(&client.ask(12, request).await)[0].aborted_transactions, Some(vec![]));
}

#[tokio::test]
async fn a_new_producer_fences_the_old_one_and_aborts_its_transaction() {
    let broker = broker().await;
    let mut client = Client::connect(&broker, 1).await;
    let old = init(&mut client).await;
    add(&mut client, &old).await;
    produce_code(&mut client, written(&broker, &old)).await;
    let new = init(&mut client).await;
    assert_eq!((new.producer_id, new.producer_epoch), (old.producer_id, old.producer_epoch + 1));
    assert_eq!(broker.last_stable_offset("logs", 0), Ok(11));
    assert_eq!(client.ask(4, end(&old, true)).await.error_code, ResponseError::ProducerFenced.code());
    assert_eq!(add(&mut client, &old).await, ResponseError::ProducerFenced.code());
    // Without a transactional id every producer gets an id of its own.
    let idempotent = client.ask(4, InitProducerIdRequest::default()).await;
    assert_ne!(idempotent.producer_id, new.producer_id);
}

#[tokio::test]
async fn offsets_of_a_transaction_count_when_it_is_committed() {
    let broker = broker().await;
    let mut client = Client::connect(&broker, 1).await;
    for committed in [false, true] {
        let producer = init(&mut client).await;
        let group = GroupId("g".into());
        let added = AddOffsetsToTxnRequest::default()
            .with_transactional_id(id())
            .with_producer_id(producer.producer_id)
            .with_producer_epoch(producer.producer_epoch)
            .with_group_id(group.clone());
        assert_eq!(client.ask(3, added).await.error_code, 0);
        let partition =
            |index| TxnOffsetCommitRequestPartition::default().with_partition_index(index).with_committed_offset(5);
        let topic = TxnOffsetCommitRequestTopic::default()
            .with_name(topic_name("logs"))
            .with_partitions(vec![partition(0), partition(1)]);
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(id())
            .with_group_id(group.clone())
            .with_producer_id(producer.producer_id)
            .with_producer_epoch(producer.producer_epoch)
            .with_topics(vec![topic]);
        let response = client.ask(3, request).await;
        let codes: Vec<i16> = response.topics[0].partitions.iter().map(|p| p.error_code).collect();
        assert_eq!(codes, [0, 3]);
        assert_eq!(broker.committed("g", "logs", 0), None);

        let topic = OffsetFetchRequestTopics::default().with_name(topic_name("logs")).with_partition_indexes(vec![0]);
        let asked = OffsetFetchRequestGroup::default().with_group_id(group).with_topics(Some(vec![topic]));
        let request = OffsetFetchRequest::default().with_groups(vec![asked]).with_require_stable(true);
        let unstable = client.ask(8, request).await.groups[0].topics[0].partitions[0].error_code;
        assert_eq!(unstable, ResponseError::UnstableOffsetCommit.code());
        assert_eq!(client.ask(4, end(&producer, committed)).await.error_code, 0);
    }
    assert_eq!(broker.committed("g", "logs", 0).map(|committed| committed.offset), Some(5));
}

#[tokio::test]
async fn transactions_can_be_written_without_sockets() {
    let broker = broker().await;
    let writer = Writer { producer_id: 5, transactional: true, ..PLAIN };
    broker.append("logs", 0, batch_of(writer, 3, 1)).unwrap();
    assert_eq!((broker.last_stable_offset("logs", 0), broker.end_offset("logs", 0)), (Ok(0), Ok(3)));
    broker.end_transaction("logs", 0, 5, 0, false).unwrap();
    assert_eq!((broker.last_stable_offset("logs", 0), broker.end_offset("logs", 0)), (Ok(4), Ok(4)));
}

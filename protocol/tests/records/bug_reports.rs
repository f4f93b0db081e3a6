//! What other clients got wrong, each with its right answer. The numbers are those of the collection of reports that these tests follow.

use crate::consumer::{Fetch, consume};
use crate::handmade::{HandmadeBatch, Lz4Frame, fix_crc, gzip_stored_member, message, record, section, zstd_raw_frame};
use bytes::{Bytes, BytesMut};
use ottla_protocol::compression::{Compression, Compressor, Decompressor};
use ottla_protocol::message::{FetchResponse, FetchableTopicResponse, PartitionData};
use ottla_protocol::record::{
    BatchError, ControlRecord, OwnedHeaders, Record, RecordBatchBuilder, RecordBatchOptions, RecordBatches,
    TimestampType, next_fetch_offset,
};
use ottla_protocol::{DecodeErrorKind, ErrorCode, Message};

/// The values of all records of a batch with this payload, or why it can't be read.
fn values(compression: Compression, count: i32, payload: &[u8]) -> Result<Vec<Vec<u8>>, BatchError> {
    let handmade = HandmadeBatch {
        base_offset: 0,
        last_offset_delta: count - 1,
        attributes: compression.id(),
        records_count: count,
        payload,
    };
    let bytes = handmade.bytes();
    let mut decompressor = Decompressor::new();
    let batch = RecordBatches::new(&bytes).next().expect("a batch")?;
    batch.check_crc()?;
    let records = batch.records(&mut decompressor)?;
    let values = records.map(|record| Ok(record.map_err(|error| batch.error(error))?.value.expect("a value").to_vec()));
    values.collect()
}

fn batch(options: RecordBatchOptions, records: &[Record<'_>]) -> BytesMut {
    let mut builder = RecordBatchBuilder::new(options);
    for record in records {
        builder.append(record).expect("small");
    }
    builder.build(&mut Compressor::new()).expect("a batch")
}

/// Compaction removed the asked record: nothing is delivered, and the position moves on.
#[test]
fn s_d02_the_position_moves_past_what_compaction_removed() {
    let mut decompressor = Decompressor::new();
    let sparse = batch(RecordBatchOptions::new(8737).last_offset(8747), &[record(8738, None, None)]);
    let consumed = consume(&sparse, &Fetch::from(8747), &mut decompressor);
    assert_eq!((consumed.delivered_offsets, consumed.next_fetch_offset), (vec![], 8748));
    let empty = batch(RecordBatchOptions::new(100).last_offset(109), &[]);
    assert_eq!(empty.len(), 61);
    let consumed = consume(&empty, &Fetch::from(100), &mut decompressor);
    assert_eq!((consumed.delivered_offsets, consumed.next_fetch_offset), (vec![], 110));
    assert_eq!((next_fetch_offset(&sparse, 8747), next_fetch_offset(&empty, 100)), (8748, 110));
}

/// The byte limit cut the last batch: the whole ones are delivered.
#[test]
fn s_d06_a_cut_last_batch_is_left_out_silently() {
    let mut run = Vec::new();
    for offset in 0..3 {
        run.extend(batch(RecordBatchOptions::new(offset), &[record(offset, None, Some(b"v"))]));
    }
    let size = run.len() / 3;
    let mut decompressor = Decompressor::new();
    for tail in [0, 1, 9, 11, 12, 16, 17, 20, 60, 61, size - 1] {
        let consumed = consume(&run[..2 * size + tail], &Fetch::from(0), &mut decompressor);
        assert_eq!((consumed.delivered_offsets, consumed.error), (vec![0, 1], None), "a tail of {tail}");
        assert_eq!((consumed.next_fetch_offset, consumed.trailing_bytes), (2, tail));
    }
    let nothing = consume(&run[..size - 1], &Fetch::from(0), &mut decompressor);
    assert!(nothing.no_progress && nothing.next_fetch_offset == 0);
}

/// A damaged batch: nothing of it is delivered, the error says which offsets, and reading can go on behind it.
#[test]
fn s_d08_a_damaged_batch_names_its_offsets() {
    let damaged = |run: &[u8], what: &str| {
        let mut decompressor = Decompressor::new();
        let consumed = consume(run, &Fetch::from(200), &mut decompressor);
        let error = consumed.error.unwrap_or_else(|| panic!("{what}: accepted"));
        assert_eq!((consumed.delivered_offsets, consumed.next_fetch_offset), (vec![], 200), "{what}");
        assert_eq!((error.position, error.base_offset, error.last_offset), (0, 200, Some(202)), "{what}");
        // Whoever decides to lose it goes on at last + 1.
        let mut batches = RecordBatches::new(run);
        batches.next();
        let next = batches.next().expect("the next batch").expect("is whole");
        assert_eq!(next.header().base_offset, error.last_offset.expect("known") + 1);
        error
    };
    let records = [200, 201, 202].map(|offset| record(offset, None, Some(b"a value, a value, a value")));
    let after = batch(RecordBatchOptions::new(203), &[record(203, None, None)]);
    for compression in [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd]
    {
        let good = batch(RecordBatchOptions::new(200).compression(compression), &records);
        let mut run = good.to_vec();
        run[70] ^= 0x10;
        let error = damaged(&[&run[..], &after].concat(), "a flipped bit");
        assert_eq!(error.source.field, "batch.crc");
        assert!(matches!(error.source.kind, DecodeErrorKind::Checksum { .. }));
        let mut run = good.to_vec();
        run[61..65].copy_from_slice(&[0xff; 4]);
        fix_crc(&mut run);
        let error = damaged(&[&run[..], &after].concat(), compression.name());
        assert_ne!(error.source.field, "batch.crc");
    }
}

/// Legal LZ4 frames that Java would not write decode; wrong checksums and linked blocks are one error each.
#[test]
fn s_d09_lz4_frames_of_other_writers() {
    let plain = section(&[&[b'a'; 100], &[b'b'; 200_000], b"c"]);
    let expected = vec![vec![b'a'; 100], vec![b'b'; 200_000], b"c".to_vec()];
    let usual = Lz4Frame { block_bytes: 64 << 10, ..Lz4Frame::default() };
    for (what, frame) in [
        ("as Java", usual),
        ("content size", Lz4Frame { content_size: true, ..usual }),
        ("block checksums", Lz4Frame { block_checksums: true, ..usual }),
        ("content checksum", Lz4Frame { content_checksum: true, ..usual }),
        ("uncompressed blocks", Lz4Frame { stored_blocks: true, ..usual }),
        ("4 MiB blocks", Lz4Frame { block_size_id: 7, block_bytes: 4 << 20, ..usual }),
    ] {
        assert_eq!(values(Compression::Lz4, 3, &frame.of(&plain)).as_ref(), Ok(&expected), "{what}");
    }
    for (what, frame, wrong) in [
        ("block checksum", Lz4Frame { block_checksums: true, block_size_id: 7, block_bytes: 4 << 20, ..usual }, 5),
        ("content checksum", Lz4Frame { content_checksum: true, ..usual }, 1),
    ] {
        let mut frame = frame.of(&plain);
        let at = frame.len() - wrong;
        frame[at] ^= 1;
        let error = values(Compression::Lz4, 3, &frame).expect_err(what);
        assert!(matches!(error.source.kind, DecodeErrorKind::Checksum { .. }), "{what}: {:?}", error.source);
    }
    let linked = Lz4Frame { linked_blocks: true, ..usual }.of(&plain);
    let error = values(Compression::Lz4, 3, &linked).expect_err("linked blocks");
    assert!(error.source.to_string().contains("linked"), "{}", error.source);
}

/// A bare block and Java's stream both decode.
#[test]
fn s_d10_both_layouts_of_snappy() {
    let plain = section(&[b"x", b"y"]);
    let mut bare = snap::raw::Encoder::new().compress_vec(&plain).expect("snappy");
    let mut framed = BytesMut::new();
    Compressor::new().compress(Compression::Snappy, &plain, &mut framed).expect("snappy");
    let expected = vec![b"x".to_vec(), b"y".to_vec()];
    assert_eq!(values(Compression::Snappy, 2, &bare).as_ref(), Ok(&expected));
    assert_eq!(values(Compression::Snappy, 2, &framed).as_ref(), Ok(&expected));
    let tiny = snap::raw::Encoder::new().compress_vec(&section(&[b""])).expect("snappy");
    assert!(tiny.len() < 16, "shorter than the header of a stream");
    assert_eq!(values(Compression::Snappy, 1, &tiny), Ok(vec![vec![]]));
    bare.truncate(5);
    values(Compression::Snappy, 2, &bare).expect_err("a cut block");
}

/// A record may straddle two blocks of a snappy stream, and a stream may have no block.
#[test]
fn s_d11_records_straddle_snappy_blocks() {
    let value: Vec<u8> = (0..3000u32).map(|i| (i * i % 251) as u8).collect();
    let plain = section(&[&value[..]; 50]);
    let mut framed = BytesMut::new();
    Compressor::new().compress(Compression::Snappy, &plain, &mut framed).expect("snappy");
    assert_eq!(values(Compression::Snappy, 50, &framed), Ok(vec![value; 50]));
    assert_eq!(values(Compression::Snappy, 0, &framed[..16]), Ok(vec![]), "no block is no bytes");
}

/// Frames without a content size, and several of them; what follows them is an error.
#[test]
fn s_d12_zstd_frames_of_a_stream() {
    let plain = section(&[b"first", b"second", b"third", b"fourth"]);
    let (first, second) = plain.split_at(plain.len() / 2);
    let mut payload = [zstd_raw_frame(first), zstd_raw_frame(second)].concat();
    let expected: Vec<Vec<u8>> = [&b"first"[..], b"second", b"third", b"fourth"].map(<[u8]>::to_vec).to_vec();
    assert_eq!(values(Compression::Zstd, 4, &payload), Ok(expected));
    payload.extend(b"junk");
    let error = values(Compression::Zstd, 4, &payload).expect_err("junk at the end");
    assert!(matches!(error.source.kind, DecodeErrorKind::Compression { codec: "zstd", .. }));
}

/// As there: several members.
#[test]
fn s_d12_gzip_members() {
    let plain = section(&[b"first", b"second"]);
    let (first, second) = plain.split_at(plain.len() / 2);
    let payload = [gzip_stored_member(first), gzip_stored_member(b""), gzip_stored_member(second)].concat();
    assert_eq!(values(Compression::Gzip, 2, &payload), Ok(vec![b"first".to_vec(), b"second".to_vec()]));
}

/// Several partitions of one response: each has its own bytes, whatever lies between them.
#[test]
fn s_d13_every_partition_of_a_response_has_its_own_bytes() {
    let run = |partition: i32| {
        let value = format!("of partition {partition}");
        let options = RecordBatchOptions::new(0).compression(Compression::Gzip);
        batch(options, &[0, 1].map(|offset| record(offset, None, Some(value.as_bytes())))).freeze()
    };
    let data = |partition_index, error_code, records| PartitionData {
        partition_index,
        error_code,
        high_watermark: 2,
        records,
        ..PartitionData::default()
    };
    let not_leader = ErrorCode::NOT_LEADER_OR_FOLLOWER;
    let partitions = vec![
        data(0, ErrorCode::NONE, Some(run(0))),
        data(1, ErrorCode::NONE, Some(Bytes::new())),
        data(2, not_leader, None),
        data(3, ErrorCode::NONE, Some(run(3))),
    ];
    // With errors apart, as brokers do, and the same topic once more.
    let again = vec![data(5, not_leader, Some(Bytes::new())), data(4, ErrorCode::NONE, Some(run(4)))];
    let topic = |partitions| FetchableTopicResponse { topic: "t".into(), partitions, ..Default::default() };
    let response = FetchResponse { responses: vec![topic(partitions), topic(again)], ..Default::default() };
    for version in [4, 11, 12] {
        let mut body = BytesMut::new();
        response.encode(version, &mut body).expect("a response");
        let read = FetchResponse::decode(version, &body.freeze()).expect("a response");
        let mut decompressor = Decompressor::new();
        let mut found = Vec::new();
        for partition in read.responses.iter().flat_map(|topic| &topic.partitions) {
            let records = partition.records.as_deref().unwrap_or_default();
            let expected = format!("of partition {}", partition.partition_index);
            for batch in RecordBatches::new(records) {
                let batch = batch.expect("whole");
                batch.check_crc().expect("as written");
                for record in batch.records(&mut decompressor).expect("records") {
                    let record = record.expect("a record");
                    assert_eq!(record.value, Some(expected.as_bytes()), "version {version}");
                    found.push((partition.partition_index, record.offset));
                }
            }
        }
        assert_eq!(found, [(0, 0), (0, 1), (3, 0), (3, 1), (4, 0), (4, 1)], "version {version}");
    }
}

/// With LogAppendTime every record has the batch's time.
#[test]
fn s_d14_log_append_time_is_the_batch_time() {
    let records = [5, 1005, 2005].map(|timestamp| Record { timestamp, ..record(timestamp / 1000, None, None) });
    let bytes = batch(RecordBatchOptions::new(0).log_append_time_ms(1_700_000_123_456), &records);
    let mut decompressor = Decompressor::new();
    let batch = RecordBatches::new(&bytes).next().expect("a batch").expect("whole");
    for record in batch.records(&mut decompressor).expect("records") {
        let record = record.expect("a record");
        assert_eq!((record.timestamp, record.timestamp_type), (1_700_000_123_456, TimestampType::LogAppendTime));
    }
}

/// Null is not empty, and headers keep their order and their repeats.
#[test]
fn s_d15_null_and_empty_are_told_apart() {
    let mut headers = OwnedHeaders::default();
    headers.push(b"twice", None);
    headers.push(b"twice", Some(b""));
    headers.push(b"once", Some(b"v"));
    let fields = [(None, None), (None, Some(&b""[..])), (Some(&b""[..]), None), (Some(&b""[..]), Some(&b""[..]))];
    let records: Vec<Record<'_>> = (0..)
        .zip(fields)
        .map(|(offset, (key, value))| Record { headers: headers.as_headers(), ..record(offset, key, value) })
        .collect();
    let bytes = batch(RecordBatchOptions::new(0), &records);
    let mut decompressor = Decompressor::new();
    let batch = RecordBatches::new(&bytes).next().expect("a batch").expect("whole");
    for (read, (key, value)) in batch.records(&mut decompressor).expect("records").zip(fields) {
        let read = read.expect("a record");
        assert_eq!((read.key, read.value), (key, value));
        let pairs: Vec<_> = read.headers.iter().map(|header| (header.key, header.value)).collect();
        assert_eq!(pairs, [(&b"twice"[..], None), (b"twice", Some(&b""[..])), (b"once", Some(b"v"))]);
    }
}

/// One producer commits, aborts and commits: only the second transaction is dropped.
#[test]
fn s_d16_an_aborted_transaction_ends_at_its_own_marker() {
    let options = |offset| RecordBatchOptions::new(offset).producer(7, 0, 0).transactional();
    let marker = |offset, control| {
        RecordBatchBuilder::transaction_marker(RecordBatchOptions::new(offset).producer(7, 0, -1), control, 0)
            .expect("a marker")
    };
    let data = |first: i64| batch(options(first), &[0, 1, 2].map(|i| record(first + i, None, None)));
    let (commit, abort) =
        (ControlRecord::Commit { coordinator_epoch: Some(0) }, ControlRecord::Abort { coordinator_epoch: Some(0) });
    let run = [data(0), marker(3, commit), data(4), marker(7, abort), data(8), marker(11, commit)].concat();
    let mut fetch = Fetch { aborted_transactions: vec![(7, 4)], read_committed: true, ..Fetch::from(0) };
    let mut decompressor = Decompressor::new();
    let consumed = consume(&run, &fetch, &mut decompressor);
    assert_eq!((consumed.delivered_offsets, consumed.next_fetch_offset), (vec![0, 1, 2, 8, 9, 10], 12));
    fetch.read_committed = false;
    let consumed = consume(&run, &fetch, &mut decompressor);
    assert_eq!((consumed.delivered_offsets, consumed.next_fetch_offset), (vec![0, 1, 2, 4, 5, 6, 8, 9, 10], 12));
}

/// Whether inner offsets are relative is the message's magic alone.
#[test]
fn s_d17_inner_offsets_follow_the_magic() {
    let wrapper = |magic: u8, offset: i64, inner: &[i64]| {
        let set: Vec<u8> = inner.iter().flat_map(|&offset| message(magic, offset, 0, 5, Some(b"v"))).collect();
        message(magic, offset, 1, 5, Some(&gzip_stored_member(&set)))
    };
    let mut decompressor = Decompressor::new();
    let mut offsets = |run: &[u8]| {
        let consumed = consume(run, &Fetch::from(0), &mut decompressor);
        assert_eq!(consumed.error, None);
        (consumed.delivered_offsets, consumed.next_fetch_offset)
    };
    assert_eq!(offsets(&wrapper(1, 8, &[0, 1, 2, 3, 4, 5, 6, 7, 8])), ((0..9).collect(), 9));
    assert_eq!(offsets(&wrapper(1, 108, &[0, 3, 8])), (vec![100, 103, 108], 109), "compacted");
    assert_eq!(offsets(&wrapper(0, 108, &[100, 103, 108])), (vec![100, 103, 108], 109), "absolute");
}

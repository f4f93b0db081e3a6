//! What `ottla dump` reads. An even first byte: a segment, read a piece at a time, is what it is as a whole. An odd one: frames in a row as
//! JSON, of the API, direction and version that the next three bytes choose.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ottla_protocol::ApiKey;
use ottla_protocol::json::{Direction, frames_json};
use ottla_protocol::record::{BatchError, BatchHeader, RecordBatches};

const API_KEYS: [ApiKey; 9] = [
    ApiKey::FETCH,
    ApiKey::LIST_OFFSETS,
    ApiKey::OFFSET_COMMIT,
    ApiKey::OFFSET_FETCH,
    ApiKey::METADATA,
    ApiKey::API_VERSIONS,
    ApiKey::FIND_COORDINATOR,
    ApiKey::OFFSET_FOR_LEADER_EPOCH,
    ApiKey::HEARTBEAT,
];

fuzz_target!(|data: &[u8]| {
    match data {
        [kind, piece, segment @ ..] if kind % 2 == 0 => segments(segment, usize::from(*piece) + 1),
        [_, api_key, direction, version, frames @ ..] => {
            let api_key = API_KEYS[usize::from(*api_key) % API_KEYS.len()];
            let direction = if direction % 2 == 0 { Direction::Request } else { Direction::Response };
            let version = (version % 21 < 20).then_some(i16::from(version % 21));
            let shown: Vec<_> = frames_json(api_key, direction, version, frames).collect();
            assert!(shown.len() <= frames.len() / 4 + 1);
            assert!(shown.iter().rev().skip(1).all(Result::is_ok), "the first error ends it");
        }
        _ => {}
    }
});

fn segments(segment: &[u8], piece: usize) {
    type Read = Vec<Result<(usize, BatchHeader), BatchError>>;
    let mut batches = RecordBatches::new(segment);
    let whole: Read = batches.by_ref().map(|batch| batch.map(|b| (b.position(), *b.header()))).collect();
    let trailing = batches.trailing_bytes();

    let (mut pieces, mut start, mut end) = (Read::new(), 0, 0);
    let left = loop {
        let mut batches = RecordBatches::starting_at(&segment[start..end], start);
        pieces.extend(batches.by_ref().map(|batch| batch.map(|b| (b.position(), *b.header()))));
        start = batches.position();
        let missing = batches.bytes_missing();
        assert_eq!(
            missing == 0,
            matches!(pieces.last(), Some(Err(_))),
            "after an error, and only then, nothing is wanted"
        );
        if missing == 0 || end == segment.len() {
            break end - start;
        }
        end = (end + missing.min(piece)).min(segment.len());
    };
    assert_eq!(pieces, whole);
    assert!(matches!(whole.last(), Some(Err(_))) || left == trailing);
}

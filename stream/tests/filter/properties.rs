//! Random filters and records: the filter equals its slow twin, its text parses back, and its hints leave nothing out.

use crate::model::{Bytes, Expr, Int, Piece, Sample};
use ottla_protocol::record::Record;
use ottla_stream::Filter;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Few different bytes, so that literals are often found: ASCII, characters of two and four bytes, pieces of them, and SQL's own characters.
fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    let units: Vec<&[u8]> = vec![
        b"a",
        b"a",
        b"b",
        b"b",
        "é".as_bytes(),
        "😀".as_bytes(),
        b"\xC3",
        b"\x9F",
        b"\xFF",
        b"%",
        b"_",
        b"'",
        b"!",
        b"\\",
    ];
    vec(select(units), 0..=most).prop_map(|units| units.concat())
}

fn int() -> impl Strategy<Value = i64> {
    prop_oneof![10 => -2i64..5, 1 => Just(i64::MIN), 1 => Just(i64::MAX)]
}

fn bytes_column() -> impl Strategy<Value = Bytes> {
    select(vec![Bytes::Key, Bytes::Value, Bytes::Value, Bytes::Topic, Bytes::Header("k"), Bytes::Header("key")])
}

fn int_column() -> impl Strategy<Value = Int> {
    select(vec![Int::Partition, Int::Offset, Int::Timestamp, Int::TimestampType])
}

fn op() -> impl Strategy<Value = &'static str> {
    select(vec!["=", "<>", "<", "<=", ">", ">="])
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        2 => bytes(2).prop_map(Piece::Bytes),
        1 => Just(Piece::One),
        1 => Just(Piece::Any),
    ]
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let literal = || bytes(2).prop_map(Piece::Bytes);
    prop_oneof![
        3 => vec(piece(), 0..6),
        1 => literal().prop_map(|literal| vec![Piece::Any, literal, Piece::Any]),
        1 => literal().prop_map(|literal| vec![literal, Piece::Any]),
        1 => literal().prop_map(|literal| vec![Piece::Any, literal]),
    ]
}

fn leaf() -> impl Strategy<Value = Expr> {
    prop_oneof![
        1 => select(vec![None, Some(false), Some(true)]).prop_map(Expr::Constant),
        4 => (bytes_column(), op(), bytes(2)).prop_map(|(column, op, literal)| Expr::CompareBytes(column, op, literal)),
        2 => (bytes_column(), any::<bool>(), bytes(2), bytes(2)).prop_map(|(c, n, low, high)| Expr::BetweenBytes(c, n, low, high)),
        3 => (bytes_column(), any::<bool>(), vec(option::weighted(0.9, bytes(1)), 1..4)).prop_map(|(c, n, list)| Expr::InBytes(c, n, list)),
        6 => (bytes_column(), any::<bool>(), pieces()).prop_map(|(column, negated, pieces)| Expr::Like(column, negated, pieces)),
        2 => (bytes_column(), any::<bool>()).prop_map(|(column, negated)| Expr::IsNull(column, negated)),
        4 => (int_column(), op(), int()).prop_map(|(column, op, literal)| Expr::CompareInt(column, op, literal)),
        2 => (int_column(), any::<bool>(), vec(option::weighted(0.9, int()), 1..4)).prop_map(|(c, n, list)| Expr::InInt(c, n, list)),
        1 => Just(Expr::HeadersNull),
        1 => Just(Expr::EvenValue),
    ]
}

fn expr() -> impl Strategy<Value = Expr> {
    leaf().prop_recursive(5, 24, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|a| Expr::Not(Box::new(a))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Expr::And(Box::new(a), Box::new(b))),
            (inner.clone(), inner).prop_map(|(a, b)| Expr::Or(Box::new(a), Box::new(b))),
        ]
    })
}

fn sample() -> impl Strategy<Value = Sample> {
    (
        select(vec!["a", "ab", "b"]),
        -1i32..4,
        int(),
        int(),
        -1i64..2,
        option::of(bytes(4)),
        option::of(bytes(6)),
        vec((select(vec!["k", "key", "b"]), option::weighted(0.7, bytes(3))), 0..4),
    )
        .prop_map(|(topic, partition, offset, timestamp, timestamp_type, key, value, headers)| Sample {
            topic,
            partition,
            offset,
            timestamp,
            timestamp_type,
            key,
            value,
            headers,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_filter_equals_its_slow_twin(expr in expr(), samples in vec(sample(), 1..12)) {
        let filter = expr.filter();
        for sample in &samples {
            let headers = sample.owned_headers();
            let record = sample.record(&headers);
            let expected = expr.eval(sample);
            let bound = filter.bind(sample.topic, sample.partition);
            prop_assert_eq!(bound.keep(&record), expected == Some(true), "{} of {:?}", filter, sample);
            let negated = (!filter.clone()).bind(sample.topic, sample.partition);
            prop_assert_eq!(negated.keep(&record), expected == Some(false), "NOT {} of {:?}", filter, sample);
        }
    }

    #[test]
    fn hints_leave_no_match_out(expr in expr(), samples in vec(sample(), 1..12)) {
        let filter = expr.filter();
        for sample in &samples {
            let headers = sample.owned_headers();
            let record = sample.record(&headers);
            let bound = filter.bind(sample.topic, sample.partition);
            let kept = bound.keep(&record);
            prop_assert!(kept || !bound.is_always(), "{filter}");
            prop_assert!(!kept || !bound.is_never(), "{filter}");
            if !bound.needs_key() {
                prop_assert_eq!(bound.keep(&Record { key: None, ..record }), kept, "{}", filter);
            }
            if !bound.needs_value() {
                prop_assert_eq!(bound.keep(&Record { value: None, ..record }), kept, "{}", filter);
            }
            if !bound.needs_headers() {
                prop_assert_eq!(bound.keep(&Record { headers: Default::default(), ..record }), kept, "{}", filter);
            }
            let literals = bound.literals();
            prop_assert!(literals.iter().flatten().all(|literal| !literal.is_empty()));
            if kept {
                let occurs = |literal: &&[u8]| {
                    sample.haystacks().iter().any(|haystack| haystack.windows(literal.len()).any(|window| window == *literal))
                };
                prop_assert!(literals.is_none_or(|literals| literals.iter().any(occurs)), "{filter} of {sample:?}");
                prop_assert!(bound.timestamp_lower_bound().is_none_or(|bound| sample.timestamp >= bound), "{filter}");
                prop_assert!(bound.offset_bounds().contains(&sample.offset), "{filter} of {sample:?}");
            }
        }
    }

    #[test]
    fn the_text_of_a_filter_parses_to_an_equal_filter(expr in expr()) {
        if !expr.has_closure() {
            let filter = expr.filter();
            let text = filter.to_string();
            prop_assert_eq!(&text.parse::<Filter>().map_err(|e| TestCaseError::fail(e.to_string()))?, &filter);
            prop_assert_eq!(&expr.sql().parse::<Filter>().map_err(|e| TestCaseError::fail(e.to_string()))?, &filter, "{}", expr.sql());
        }
    }

    #[test]
    fn any_text_parses_or_says_where_it_does_not(text in "[a-z0-9%'\"()<>=!,.\\[\\] \\-\n\u{e4}\u{1F600}]{0,40}|(value|key|offset|NOT|AND|OR|LIKE|IN|IS|NULL|BETWEEN|'a'|5|-|=|<|\\(|\\)|,|headers|\\[|\\]| ){0,12}") {
        match text.parse::<Filter>() {
            Ok(filter) => prop_assert_eq!(filter.to_string().parse::<Filter>().unwrap(), filter),
            Err(error) => {
                prop_assert!(text.is_char_boundary(error.position()) && error.position() <= text.len());
                prop_assert!(!error.message().is_empty());
                prop_assert_eq!(error.to_string().lines().count(), 3);
            }
        }
    }
}

/// Characters whole and in pieces, close to each other, so that patterns nearly match.
fn like_bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    let units: Vec<&[u8]> =
        vec![b"a", b"b", "\u{e9}".as_bytes(), "\u{20ac}".as_bytes(), b"\xC3", b"\xA9", b"\xE2", b"\x82", b"\xAC"];
    vec(select(units), 0..=most).prop_map(|units| units.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn like_equals_its_slow_twin(
        pieces in vec(prop_oneof![2 => like_bytes(2).prop_map(Piece::Bytes), 2 => Just(Piece::One), 3 => Just(Piece::Any)], 0..8),
        values in vec(like_bytes(8), 1..20),
    ) {
        let like = Expr::Like(Bytes::Value, false, pieces);
        let bound = like.filter().bind("t", 0);
        for value in values {
            let sample = Sample {
                topic: "t",
                partition: 0,
                offset: 0,
                timestamp: 0,
                timestamp_type: 0,
                key: None,
                value: Some(value),
                headers: Vec::new(),
            };
            let headers = sample.owned_headers();
            prop_assert_eq!(Some(bound.keep(&sample.record(&headers))), like.eval(&sample), "{:?} {:?}", like, sample.value);
        }
    }
}

//! Expressions and what each says of a record, case by case.

use ottla_protocol::record::{OwnedHeaders, Record, TimestampType};
use ottla_stream::Filter;

fn headers(list: &[(&str, Option<&[u8]>)]) -> OwnedHeaders {
    let mut headers = OwnedHeaders::default();
    for (key, value) in list {
        headers.push(key.as_bytes(), *value);
    }
    headers
}

/// `logs-3`, offset 42, one ordinary record.
fn record(headers: &OwnedHeaders) -> Record<'_> {
    Record {
        offset: 42,
        timestamp: 1_700_000_000_000,
        timestamp_type: TimestampType::LogAppendTime,
        key: Some(b"k1"),
        value: Some("10% ERROR: no d\u{ef}sk".as_bytes()),
        headers: headers.as_headers(),
    }
}

fn keeps(text: &str, record: &Record<'_>) -> bool {
    let filter: Filter = text.parse().unwrap_or_else(|error| panic!("{error}"));
    filter.bind("logs", 3).keep(record)
}

#[test]
fn an_ordinary_record() {
    let headers = headers(&[("trace", Some(b"abc")), ("twice", Some(b"a")), ("twice", Some(b"b")), ("null", None)]);
    let record = record(&headers);
    for (text, expected) in [
        ("TRUE", true),
        ("FALSE", false),
        ("key = 'k1'", true),
        ("key = 'k'", false),
        ("key <> 'k'", true),
        ("key < 'k10'", true),
        ("key > 'k'", true),
        ("key >= 'k1' AND key <= 'k1'", true),
        ("key BETWEEN 'k0' AND 'k1'", true),
        ("key NOT BETWEEN 'k0' AND 'k1'", false),
        ("key BETWEEN 'k2' AND 'k0'", false),
        ("key IN ('k2', 'k1')", true),
        ("key NOT IN ('k2', 'k3')", true),
        ("key IS NULL", false),
        ("key IS NOT NULL", true),
        ("value LIKE '%ERROR%'", true),
        ("value LIKE '%error%'", false),
        ("value LIKE '10!% %' ESCAPE '!'", true),
        ("value LIKE '%d_sk'", true),
        ("value LIKE '%d__sk'", false),
        ("value LIKE '10_%no%'", true),
        ("value NOT LIKE '%x%'", true),
        ("value > X'31'", true),
        ("value < X'FF'", true),
        ("value > 'z'", false),
        ("topic = 'logs'", true),
        ("topic LIKE 'l%' AND partition = 3", true),
        ("topic <> 'logs' OR partition <> 3", false),
        ("partition IN (1, 3)", true),
        ("partition BETWEEN 4 AND 9", false),
        ("offset = 42", true),
        ("42 < offset OR offset < 42", false),
        ("offset NOT BETWEEN 1 AND 3", true),
        ("timestamp = 1700000000000", true),
        ("timestamp > TIMESTAMP '2023-11-14 22:13:19.999'", true),
        ("timestamp > TIMESTAMP '2023-11-14 22:13:20'", false),
        ("timestampType = 1", true),
        ("timestampType IN (-1, 0)", false),
        ("headers IS NULL", false),
        ("headers['trace'] = 'abc'", true),
        ("headers['trace'] LIKE 'a%'", true),
        ("headers['Trace'] IS NULL", true),
        ("headers['Trace'] = 'abc'", false),
        ("NOT headers['Trace'] = 'abc'", false),
        ("headers['twice'] = 'b'", true),
        ("headers['twice'] <> 'b'", true),
        ("NOT headers['twice'] = 'b'", false),
        ("NOT headers['twice'] = 'c'", true),
        ("headers['twice'] IN ('c', 'b')", true),
        ("headers['twice'] NOT IN ('c', 'b')", false),
        ("headers['twice'] BETWEEN 'aa' AND 'az'", false),
        ("headers['twice'] >= 'aa' AND headers['twice'] <= 'az'", true),
        ("headers['null'] IS NULL", true),
        ("headers['null'] = ''", false),
        ("NOT headers['null'] = ''", false),
    ] {
        assert_eq!(keeps(text, &record), expected, "{text}");
    }
}

#[test]
fn nulls_are_unknown() {
    let mixed = headers(&[("h", None), ("h", Some(b"v"))]);
    let record = Record {
        timestamp: -1,
        timestamp_type: TimestampType::NoTimestamp,
        key: None,
        value: Some(b""),
        ..record(&mixed)
    };
    for (text, expected) in [
        ("key = 'a'", false),
        ("NOT key = 'a'", false),
        ("key <> 'a'", false),
        ("key = 'a' OR key <> 'a'", false),
        ("key LIKE '%'", false),
        ("key NOT LIKE '%'", false),
        ("key IN ('a')", false),
        ("key NOT IN ('a')", false),
        ("key BETWEEN 'a' AND 'b'", false),
        ("key NOT BETWEEN 'a' AND 'b'", false),
        ("key = NULL", false),
        ("key IS NULL", true),
        ("NOT key IS NOT NULL", true),
        ("key = 'a' OR TRUE", true),
        ("key = 'a' AND FALSE", false),
        ("NOT (key = 'a' AND FALSE)", true),
        ("NOT (key = 'a' AND TRUE)", false),
        ("NOT (key = 'a' OR FALSE)", false),
        ("NULL", false),
        ("NOT NULL", false),
        ("NULL OR value = ''", true),
        ("value = ''", true),
        ("value LIKE '%'", true),
        ("value LIKE ''", true),
        ("value LIKE '_%'", false),
        ("value IN ('x', NULL)", false),
        ("value NOT IN ('x', NULL)", false),
        ("value IN ('', NULL)", true),
        ("value NOT IN ('', NULL)", false),
        ("value BETWEEN NULL AND 'a'", false),
        ("value NOT BETWEEN 'a' AND NULL", true),
        ("offset IN (42, NULL)", true),
        ("offset NOT IN (41, NULL)", false),
        ("timestamp = -1", true),
        ("timestamp < 0", true),
        ("timestampType = -1", true),
        // One occurrence is null, the other 'v'.
        ("headers['h'] = 'v'", true),
        ("headers['h'] = 'w'", false),
        ("NOT headers['h'] = 'w'", false),
        ("headers['h'] <> 'w'", true),
        ("headers['h'] IS NULL", false),
        ("headers['h'] IS NOT NULL", true),
    ] {
        assert_eq!(keeps(text, &record), expected, "{text}");
    }
    let none = OwnedHeaders::default();
    let record = Record { headers: none.as_headers(), ..record };
    for (text, expected) in [
        ("headers IS NULL", true),
        ("headers IS NOT NULL", false),
        ("headers['h'] IS NULL", true),
        ("headers['h'] <> 'w'", false),
        ("NOT headers['h'] <> 'w'", false),
        ("headers['h'] IN ('w', NULL)", false),
    ] {
        assert_eq!(keeps(text, &record), expected, "{text}");
    }
}

#[test]
fn topic_and_partition_are_decided_when_binding() {
    let filter: Filter = "(topic = 'audit' AND value LIKE '%x%') OR partition > 5".parse().unwrap();
    assert!(filter.bind("logs", 3).is_never());
    assert!(filter.bind("logs", 6).is_always());
    let some = filter.bind("audit", 3);
    assert!(!some.is_never() && !some.is_always() && some.needs_value() && !some.needs_key() && !some.needs_headers());
    assert_eq!(some.literals(), Some(vec![&b"x"[..]]));
    let unknown: Filter = "NOT (topic = 'logs' AND NULL)".parse().unwrap();
    assert!(unknown.bind("logs", 0).is_never(), "NOT unknown is unknown");
    assert!(unknown.bind("audit", 0).is_always(), "NOT (false AND unknown) is true");
}

#[test]
fn literals_of_a_match() {
    let literals = |text: &str| {
        let filter = text.parse::<Filter>().unwrap().bind("logs", 3);
        filter
            .literals()
            .map(|literals| literals.iter().map(|literal| literal.escape_ascii().to_string()).collect::<Vec<_>>())
    };
    let some = |list: &[&str]| Some(list.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(literals("value LIKE '%abc%'"), some(&["abc"]));
    assert_eq!(literals("value = 'abc'"), some(&["abc"]));
    assert_eq!(literals("NOT value <> 'abc'"), some(&["abc"]));
    assert_eq!(literals("value LIKE 'ab%cde_f'"), some(&["cde"]));
    assert_eq!(literals("value LIKE '%_%'"), None);
    assert_eq!(literals("value = ''"), None);
    assert_eq!(literals("value <> 'a'"), None);
    assert_eq!(literals("value NOT LIKE '%a%'"), None);
    assert_eq!(literals("value > 'a'"), None);
    assert_eq!(literals("value IS NULL"), None);
    assert_eq!(literals("offset = 5"), None);
    assert_eq!(literals("TRUE"), None);
    assert_eq!(literals("FALSE"), some(&[]));
    assert_eq!(literals("value = 'abc' AND key = 'abcd' AND offset > 5"), some(&["abcd"]));
    assert_eq!(literals("value = 'abc' OR key = 'abcd'"), some(&["abc", "abcd"]));
    assert_eq!(literals("value = 'abc' OR key > 'abcd'"), None);
    assert_eq!(literals("(value = 'abc' OR key > 'abcd') AND key LIKE '%xy%'"), some(&["xy"]));
    assert_eq!(literals("value IN ('abc', 'd')"), some(&["abc", "d"]));
    assert_eq!(literals("value IN ('abc', '')"), None);
    assert_eq!(literals("value NOT IN ('abc')"), None);
    assert_eq!(literals("value IN ('1','2','3','4','5','6','7','8','9') AND key = 'a'"), some(&["a"]));
    assert_eq!(literals("headers['trace'] = 'abc'"), some(&["trace"]));
    assert_eq!(literals("headers['t'] = 'abc'"), some(&["abc"]));
    assert_eq!(literals("headers['trace'] > 'abc'"), some(&["trace"]));
    assert_eq!(literals("NOT headers['trace'] = 'abc'"), some(&["trace"]));
    assert_eq!(literals("headers['trace'] IS NOT NULL"), some(&["trace"]));
    assert_eq!(literals("headers['trace'] IS NULL"), None);
    assert_eq!(literals("topic = 'logs' AND value = 'a'"), some(&["a"]));
    assert_eq!(literals("topic = 'logs' OR value = 'a'"), None);
    let closure = Filter::value().eq("abc").or(Filter::from_fn(|_| true));
    assert_eq!(closure.bind("logs", 3).literals(), None);
}

#[test]
fn bounds_of_a_match() {
    let bound = |text: &str| text.parse::<Filter>().unwrap().bind("logs", 3).timestamp_lower_bound();
    assert_eq!(bound("timestamp >= 5"), Some(5));
    assert_eq!(bound("timestamp > 5"), Some(6));
    assert_eq!(bound("timestamp = 5"), Some(5));
    assert_eq!(bound("timestamp IN (7, 5, NULL)"), Some(5));
    assert_eq!(bound("NOT timestamp < 5"), Some(5));
    assert_eq!(bound("timestamp BETWEEN 5 AND 9"), Some(5));
    assert_eq!(bound("timestamp >= 5 AND value = 'a' AND timestamp >= 7"), Some(7));
    assert_eq!(bound("timestamp >= 5 OR timestamp >= 3"), Some(3));
    assert_eq!(bound("timestamp >= 5 OR value = 'a'"), None);
    assert_eq!(bound("timestamp < 5"), None);
    assert_eq!(bound("timestamp <> 5"), None);
    assert_eq!(bound("timestamp NOT IN (5)"), None);
    assert_eq!(bound("timestamp > 9223372036854775807"), Some(i64::MAX));
    let offsets = |text: &str| text.parse::<Filter>().unwrap().bind("logs", 3).offset_bounds();
    assert_eq!(offsets("offset > 5 AND offset < 9"), 6..=8);
    assert_eq!(offsets("offset = 5 OR offset IN (7, 9)"), 5..=9);
    assert_eq!(offsets("value = 'a'"), i64::MIN..=i64::MAX);
    assert_eq!(offsets("offset >= 5 OR (offset < 3 AND offset > 7)"), 5..=i64::MAX);
    assert!(offsets("offset > 5 AND offset < 5").is_empty());
}

#[test]
fn closures_see_the_record() {
    let headers = OwnedHeaders::default();
    let record = record(&headers);
    let even = Filter::from_fn(|record| record.offset % 2 == 0);
    assert!(even.bind("logs", 3).keep(&record));
    assert!(!(!even.clone()).bind("logs", 3).keep(&record));
    let both = Filter::topic().eq("logs") & even.clone();
    assert!(both.bind("logs", 3).keep(&record) && both.bind("audit", 3).is_never());
    assert_eq!(both.to_string(), "topic = 'logs' AND <closure>");
    assert!(both.to_string().parse::<Filter>().is_err());
    assert_eq!(even, even.clone());
    assert_ne!(even, Filter::from_fn(|record| record.offset % 2 == 0));
}

#[test]
fn filters_cross_threads() {
    fn is_send_and_sync<T: Send + Sync + Clone + 'static>() {}
    is_send_and_sync::<Filter>();
    is_send_and_sync::<ottla_stream::BoundFilter>();
}

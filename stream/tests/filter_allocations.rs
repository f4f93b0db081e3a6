//! The filter's test of a record takes no memory. A test binary of its own: it counts with its own allocator.

use ottla_protocol::record::{OwnedHeaders, Record, TimestampType};
use ottla_stream::Filter;

#[test]
fn keep_allocates_nothing() {
    let texts = [
        "value LIKE '%ERROR%'",
        "value LIKE 'a%' OR value LIKE '%z' OR value = 'abc' OR value > 'm'",
        "value LIKE '_%b__%_c%' OR value LIKE '%é_'",
        "key IN ('a', 'b', 'c', NULL) OR NOT key NOT IN ('a')",
        "NOT (key BETWEEN 'a' AND 'c' AND timestamp > 5) AND offset IN (1, 2, 3)",
        "headers['k'] = 'v' OR headers['k'] LIKE '%v%w' OR headers IS NULL OR headers['j'] IS NULL",
        "topic = 'logs' AND partition = 3 AND timestampType = 0 AND value IS NOT NULL",
        "TRUE",
    ];
    let mut filters: Vec<_> = texts.iter().map(|text| text.parse::<Filter>().unwrap().bind("logs", 3)).collect();
    filters.push(Filter::from_fn(|record| record.value.is_some()).bind("logs", 3));
    let mut headers = OwnedHeaders::default();
    headers.push(b"k", Some(b"some v and w"));
    headers.push(b"j", None);
    let long = b"xb\xC3\xA9yyc ERROR".repeat(100);
    let values = [None, Some(&b""[..]), Some(b"abc"), Some(&long)];
    let mut kept = 0;
    let counted = allocation_counter::measure(|| {
        for offset in 0..1000 {
            for value in values {
                let record = Record {
                    offset,
                    timestamp: offset,
                    timestamp_type: TimestampType::CreateTime,
                    key: value,
                    value,
                    headers: headers.as_headers(),
                };
                kept += filters.iter().filter(|filter| filter.keep(&record)).count();
            }
        }
    });
    assert_eq!((counted.count_total, counted.bytes_total), (0, 0));
    assert!((10_000..30_000).contains(&kept), "the filters are neither all true nor all false: {kept}");
}

//! What parses, to what, and what each mistake is told.

use super::*;

fn parsed(text: &str) -> Filter {
    parse(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn conditions() {
    for (text, expected) in [
        ("value LIKE '%ERROR%' AND topic <> 'audit'", Filter::value().contains("ERROR") & Filter::topic().ne("audit")),
        ("VALUE = 'x' or Key != 'y' and NOT partition = 3", {
            Filter::value().eq("x") | (Filter::key().ne("y") & !Filter::partition().eq(3))
        }),
        ("(value = 'x' OR value = 'y') AND value = 'z'", {
            (Filter::value().eq("x") | Filter::value().eq("y")) & Filter::value().eq("z")
        }),
        ("timestamptype in (0, 1, -1)", Filter::timestamp_type().is_in([1, -1, 0])),
        ("timestampType NOT IN (0)", !Filter::timestamp_type().is_in([0])),
        ("timestamp >= TIMESTAMP '2023-11-14 22:13:20'", Filter::timestamp().ge(1_700_000_000_000)),
        ("timestamp < timestamp '2023-11-14T22:13:20.5Z'", Filter::timestamp().lt(1_700_000_000_500)),
        ("timestamp BETWEEN -5 AND 7", Filter::timestamp().ge(-5) & Filter::timestamp().le(7)),
        ("5 < offset", Filter::offset().gt(5)),
        ("'a' >= value", Filter::value().le("a")),
        ("NULL = value", Filter::unknown()),
        ("offset = -9223372036854775808", Filter::offset().eq(i64::MIN)),
        ("offset = + 9223372036854775807", Filter::offset().eq(i64::MAX)),
        ("headers['k'] = 'v'", Filter::header("k").eq("v")),
        ("HEADERS [ 'it''s' ] IS NOT NULL", Filter::header("it's").is_not_null()),
        ("headers IS NULL", Filter::headers_is_null()),
        ("headers IS NOT NULL", !Filter::headers_is_null()),
        ("key IS NULL", Filter::key().is_null()),
        ("offset IS NULL", Filter::never()),
        ("offset IS NOT NULL", Filter::always()),
        ("value = X'6869'", Filter::value().eq("hi")),
        ("value = x'FFfe'", Filter::value().eq(b"\xFF\xFE")),
        ("value LIKE X'25FF25'", Filter::value().contains(b"\xFF")),
        ("value LIKE '50!%%' ESCAPE '!'", Filter::value().starts_with("50%")),
        ("value NOT LIKE 'C:\\%'", !Filter::value().starts_with("C:\\")),
        ("value = 'it''s'", Filter::value().eq("it's")),
        ("CAST(value AS STRING) LIKE '%x'", Filter::value().ends_with("x")),
        ("cast(key as string) = cast_me OR TRUE".replace("cast_me", "'a'").as_str(), {
            Filter::key().eq("a") | Filter::always()
        }),
        ("value::binary = 'a'", Filter::value().eq("a")),
        ("CAST(offset AS BIGINT) = 5", Filter::offset().eq(5)),
        ("\"value\" = 'x' AND `Topic` = 'y'", Filter::value().eq("x") & Filter::topic().eq("y")),
        ("value IN ('b', 'a', 'b', NULL)", Filter::value().in_list(vec![b"a"[..].into(), b"b"[..].into()], true)),
        ("value IN (NULL)", Filter::unknown()),
        ("partition IN (1, NULL)", Filter::partition().in_list(vec![1], true)),
        ("value BETWEEN 'a' AND 'c'", Filter::value().between("a", "c")),
        ("value NOT BETWEEN 'a' AND 'c'", !Filter::value().between("a", "c")),
        ("value BETWEEN NULL AND 'c'", Filter::unknown() & Filter::value().le("c")),
        ("value = NULL", Filter::unknown()),
        ("value LIKE NULL", Filter::unknown()),
        ("TRUE", Filter::always()),
        ("false OR null", Filter::never() | Filter::unknown()),
        ("NOT NOT value = 'x'", Filter::value().eq("x")),
        ("/* a */ value = 'x' -- b", Filter::value().eq("x")),
        ("value\n=\r\n\t'x'", Filter::value().eq("x")),
        ("((value)) = (('x'))", Filter::value().eq("x")),
    ] {
        assert_eq!(parsed(text), expected, "{text}");
        assert_eq!(parsed(&expected.to_string()), expected, "{text} shown as {expected}");
    }
}

#[test]
fn mistakes() {
    for (text, position, message) in [
        ("value LIKE", 10, "unexpected end of expression"),
        ("value LIKE  ", 10, "unexpected end of expression"),
        ("value = 'a' AND", 15, "unexpected end of expression"),
        ("(value = 'a'", 12, "unexpected end of expression"),
        ("value IN ('a',", 14, "unexpected end of expression"),
        ("value BETWEEN 'a'", 17, "unexpected end of expression"),
        ("NOT", 3, "unexpected end of expression"),
        ("", 0, "the expression is empty"),
        ("  -- nothing", 0, "the expression is empty"),
        ("value = 'a')", 11, "unexpected ) after the end of the expression"),
        ("value = 'a' value", 12, "unexpected value after the end of the expression"),
        ("value = 'a'; DROP TABLE x", 11, "unexpected ; after the end of the expression"),
        ("value = 'abc", 8, "unterminated string literal"),
        ("value IN ()", 10, "expected an expression, found )"),
        ("value = 'a' AND AND", 16, "a column or a literal is needed here, not AND"),
        (
            "valu = 'x'",
            0,
            "there is no column valu; the columns are key, value, topic, partition, offset, timestamp, timestampType and headers['…']",
        ),
        (
            "value = \"x\"",
            8,
            "there is no column \"x\"; the columns are key, value, topic, partition, offset, timestamp, timestampType and headers['…']; text is written in single quotes",
        ),
        ("topic = 'ä' AND\n valü = 3", 18, "there is no column valü"),
        ("offset LIKE 'x'", 0, "LIKE looks at bytes, and offset is a number"),
        ("partition = 'abc'", 12, "partition is a number; it compares with a whole number like 42"),
        ("partition IN (1, 'abc')", 17, "partition is a number; it compares with a whole number like 42"),
        ("offset = TIMESTAMP '2023-11-14 22:13:20'", 19, "offset is a number; it compares with a whole number like 42"),
        (
            "timestamp = 'text'",
            12,
            "timestamp compares with a number of milliseconds since 1970 or with TIMESTAMP '…' (2023-11-14 22:13:20[.123] in UTC)",
        ),
        (
            "timestamp = TIMESTAMP '2023-11-14'",
            22,
            "'2023-11-14' is not a timestamp of the form 2023-11-14 22:13:20[.123] in UTC",
        ),
        ("value = 5", 8, "value is bytes; it compares with text like 'abc' or bytes like X'616263'"),
        ("5 = value", 0, "value is bytes; it compares with text like 'abc' or bytes like X'616263'"),
        ("value = TRUE", 8, "value is bytes; it compares with text like 'abc' or bytes like X'616263'"),
        ("value BETWEEN 'a' AND 5", 22, "value is bytes; it compares with text like 'abc' or bytes like X'616263'"),
        ("headers['k'] = 5", 15, "headers['k'] is bytes; it compares with text like 'abc' or bytes like X'616263'"),
        ("offset = 1.5", 9, "1.5 is not a whole number"),
        ("offset = 9223372036854775808", 9, "9223372036854775808 is outside the range of 64-bit numbers"),
        ("offset = -9223372036854775809", 9, "-9223372036854775809 is outside the range of 64-bit numbers"),
        ("value = X'686'", 8, "X'686' needs an even number of hexadecimal digits"),
        ("value = N'a'", 8, "the literal N'a' is not supported; text is written 'abc', bytes X'616263'"),
        ("value LIKE 'a!b' ESCAPE '!'", 11, "the escape character '!' may stand only before %, _ and itself"),
        ("value LIKE 'a!' ESCAPE '!'", 11, "the pattern ends with its escape character '!'"),
        ("value LIKE 'a' ESCAPE '!!'", 22, "ESCAPE needs a text of one character, such as '!'"),
        ("value LIKE key", 11, "a literal is needed here, not a column"),
        ("value = key", 8, "a column is compared with a literal here, not with another column"),
        ("1 = 1", 0, "one side of a comparison must be a column"),
        ("'a' IN ('a')", 0, "a column is needed here"),
        ("value", 0, "a condition is needed here, such as value = 'x'; this is a column"),
        ("NOT 5", 4, "a condition is needed here, such as value = 'x'; this is a literal"),
        (
            "headers = 'x'",
            0,
            "headers is all headers; compare one of them, as headers['key'], or write headers IS NULL",
        ),
        ("headers BETWEEN 'a' AND 'b'", 0, "headers is all headers"),
        ("headers[1] = 'x'", 0, "only headers has parts, and they are written headers['key']"),
        ("value['k'] = 'x'", 0, "only headers has parts, and they are written headers['key']"),
        ("headers.k = 'x'", 0, "a name with a dot is not supported; supported are"),
        (
            "CAST(value AS INT) = 5",
            5,
            "this cast to INT is not supported; key and value can be cast to STRING or BINARY",
        ),
        ("CAST(timestamp AS BIGINT) = 5", 5, "this cast to BIGINT is not supported"),
        ("(value = 'a') = TRUE", 1, "a column or a literal is needed here, not a condition"),
        (
            "key = 'a' OR lower(value) = 'x'",
            13,
            "the function lower is not supported; supported are =, <>, <, <=, >, >=, LIKE, IN, BETWEEN, IS [NOT] NULL, AND, OR and NOT, between a column and a literal",
        ),
        ("value IN (SELECT 1)", 10, "a subquery is not supported; supported are"),
        ("EXISTS (SELECT 1)", 8, "a subquery is not supported; supported are"),
        ("value ILIKE 'x'", 0, "ILIKE is not supported; supported are"),
        ("value RLIKE 'x'", 0, "RLIKE is not supported; supported are"),
        ("value LIKE ANY ('a', 'b')", 0, "LIKE ANY is not supported; supported are"),
        ("offset = 5 + 1", 9, "the operator + is not supported; supported are"),
        ("value <=> 'a'", 0, "the operator <=> is not supported; supported are"),
        ("value IS TRUE", 0, "IS TRUE or FALSE is not supported; supported are"),
        ("timestamp > INTERVAL '1' DAY", 21, "INTERVAL is not supported; supported are"),
        ("CASE WHEN TRUE THEN FALSE END", 0, "CASE is not supported; supported are"),
    ] {
        let error = parse(text).expect_err(text);
        let exact = !message.ends_with("supported are") && error.message() == message;
        assert!(exact || error.message().starts_with(message), "{text}: {}", error.message());
        assert_eq!(error.position(), position, "{text}: {error}");
        assert!(!error.message().contains('\n'), "{text}");
    }
}

#[test]
fn no_text_overflows_the_stack_or_takes_long() {
    let many = 40_000;
    for text in [
        format!("{}value = 'a'{}", "(".repeat(many), ")".repeat(many)),
        format!("{}value = 'a'", "NOT ".repeat(many)),
        format!("offset = {}5", "- ".repeat(many)),
        format!("value = 'a'{}", " AND value = 'a'".repeat(many / 4)),
        format!("value = 'a'{}", " OR value = 'a' AND key = 'b'".repeat(many / 8)),
        format!("value{} = 'a'", " IS NULL".repeat(many / 2)),
        format!("value{} = 'a'", "['k']".repeat(many)),
        format!("value{} = 'a'", "::STRING".repeat(many / 2)),
        format!("offset = 1{}", "-1".repeat(many)),
        format!("{}value{}", "CAST(".repeat(many / 4), " AS STRING)".repeat(many / 12)),
        "CASE WHEN ".repeat(many / 4),
        "lower(".repeat(many / 4),
        format!("value IN ({}", "(".repeat(many)),
        format!("value LIKE '{}'", "_%".repeat(TEXT_BYTES_MAX)),
        "value".repeat(many),
        "'".repeat(many + 1),
        // Few enough tokens, so that the parser itself has to give up.
        format!("{}value = 'a'{}", "(".repeat(2000), ")".repeat(2000)),
        format!("{}value = 'a'", "NOT ".repeat(2000)),
        format!("{}value{} = 'a'", "CAST(".repeat(1000), " AS STRING)".repeat(1000)),
        format!("{}1{}", "CASE WHEN ".repeat(1000), " THEN 1 END".repeat(1000)),
        format!("{}value{} = 'a'", "lower(".repeat(1000), ")".repeat(1000)),
        format!("value = {}1{}", "(SELECT ".repeat(1000), ")".repeat(1000)),
        format!("value = {}1{}", "ARRAY[".repeat(1000), "]".repeat(1000)),
        format!("value = {}1{}", "STRUCT(".repeat(1000), ")".repeat(1000)),
        format!("value IN {}", "(value IN ".repeat(1000)),
    ] {
        let error = parse(&text).expect_err("too much");
        assert!(error.to_string().chars().count() < 600, "{error}");
    }
    // As long and as deep as allowed, on the 2 MiB of a test's stack.
    for nested in [
        format!("{}value = 'a'{}", "(".repeat(NESTING_MAX - 3), ")".repeat(NESTING_MAX - 3)),
        format!("{}value = 'a'", "NOT ".repeat(NESTING_MAX - 3)),
        format!("value = 'a'{}", " OR value = 'a'".repeat(TOKENS_MAX / 3 - 1)),
        format!("value IN ('a'{})", ", 'b', X'FF'".repeat(50_000)),
        format!("offset IN (1{})", ", 12345".repeat(50_000)),
    ] {
        parsed(&nested);
    }
    let chain = format!("offset = 1{}", "-1".repeat(TOKENS_MAX - 2));
    assert!(parse(&chain).expect_err("arithmetic").message().starts_with("the operator - is not supported"));
    let chain = format!("value {} = 'a'", " IS NULL".repeat(TOKENS_MAX / 2 - 3));
    assert_eq!(
        parse(&chain).expect_err("a condition").message(),
        "a column or a literal is needed here, not a condition"
    );
}

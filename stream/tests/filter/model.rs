//! A slow, obvious twin of the filter: a tree of its own, evaluated in three-valued logic with `None` for unknown, and three ways to make the
//! filter that it stands for.

use ottla_protocol::record::{OwnedHeaders, Record, TimestampType};
use ottla_stream::{BytesColumn, Filter, IntColumn};
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Constant(Option<bool>),
    CompareBytes(Bytes, &'static str, Vec<u8>),
    BetweenBytes(Bytes, bool, Vec<u8>, Vec<u8>),
    InBytes(Bytes, bool, Vec<Option<Vec<u8>>>),
    Like(Bytes, bool, Vec<Piece>),
    IsNull(Bytes, bool),
    CompareInt(Int, &'static str, i64),
    InInt(Int, bool, Vec<Option<i64>>),
    HeadersNull,
    /// `value` has an even length, as a closure.
    EvenValue,
    Not(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
}

#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    One,
    Any,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Bytes {
    Key,
    Value,
    Topic,
    Header(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Int {
    Partition,
    Offset,
    Timestamp,
    TimestampType,
}

#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) topic: &'static str,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) timestamp_type: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(&'static str, Option<Vec<u8>>)>,
}

impl Sample {
    pub(crate) fn owned_headers(&self) -> OwnedHeaders {
        let mut headers = OwnedHeaders::default();
        for (key, value) in &self.headers {
            headers.push(key.as_bytes(), value.as_deref());
        }
        headers
    }

    pub(crate) fn record<'b>(&'b self, headers: &'b OwnedHeaders) -> Record<'b> {
        Record {
            offset: self.offset,
            timestamp: self.timestamp,
            timestamp_type: match self.timestamp_type {
                -1 => TimestampType::NoTimestamp,
                0 => TimestampType::CreateTime,
                _ => TimestampType::LogAppendTime,
            },
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: headers.as_headers(),
        }
    }

    /// Everything that a literal may occur in.
    pub(crate) fn haystacks(&self) -> Vec<&[u8]> {
        let headers = self.headers.iter().flat_map(|(key, value)| [Some(key.as_bytes()), value.as_deref()]);
        [self.key.as_deref(), self.value.as_deref()].into_iter().chain(headers).flatten().collect()
    }

    /// All values of the column: one, unless it is a header.
    fn values(&self, column: Bytes) -> Vec<Option<&[u8]>> {
        match column {
            Bytes::Key => vec![self.key.as_deref()],
            Bytes::Value => vec![self.value.as_deref()],
            Bytes::Topic => vec![Some(self.topic.as_bytes())],
            Bytes::Header(wanted) => {
                self.headers.iter().filter(|(key, _)| *key == wanted).map(|(_, value)| value.as_deref()).collect()
            }
        }
    }

    fn int(&self, column: Int) -> i64 {
        match column {
            Int::Partition => i64::from(self.partition),
            Int::Offset => self.offset,
            Int::Timestamp => self.timestamp,
            Int::TimestampType => self.timestamp_type,
        }
    }
}

/// SQL's tables, written out.
fn not(a: Option<bool>) -> Option<bool> {
    a.map(|a| !a)
}

fn and(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    not(and(not(a), not(b)))
}

fn compare<T: Ord + ?Sized>(a: &T, op: &str, b: &T) -> bool {
    match op {
        "=" => a == b,
        "<>" => a != b,
        "<" => a < b,
        "<=" => a <= b,
        ">" => a > b,
        ">=" => a >= b,
        _ => panic!("{op}"),
    }
}

impl Expr {
    pub(crate) fn eval(&self, sample: &Sample) -> Option<bool> {
        match self {
            Self::Constant(constant) => *constant,
            Self::CompareBytes(column, op, literal) => any_value(sample, *column, |value| compare(value, op, literal)),
            Self::BetweenBytes(column, negated, low, high) => negate(
                *negated,
                any_value(sample, *column, |value| compare(value, ">=", low) && compare(value, "<=", high)),
            ),
            Self::InBytes(column, negated, list) => {
                let in_list = any(sample.values(*column).into_iter().map(|value| {
                    let value = value?;
                    any_or_false(list.iter().map(|item| item.as_deref().map(|item| item == value)))
                }));
                negate(*negated, if list.iter().all(Option::is_none) { None } else { in_list })
            }
            Self::Like(column, negated, pieces) => {
                negate(*negated, any_value(sample, *column, |value| like(value, pieces)))
            }
            Self::IsNull(column, negated) => negate(*negated, Some(sample.values(*column).iter().all(Option::is_none))),
            Self::CompareInt(column, op, literal) => Some(compare(&sample.int(*column), op, literal)),
            Self::InInt(column, negated, list) => {
                let value = sample.int(*column);
                negate(*negated, any_or_false(list.iter().map(|item| item.map(|item| item == value))))
            }
            Self::HeadersNull => Some(sample.headers.is_empty()),
            Self::EvenValue => Some(even(sample.value.as_deref())),
            Self::Not(a) => not(a.eval(sample)),
            Self::And(a, b) => and(a.eval(sample), b.eval(sample)),
            Self::Or(a, b) => or(a.eval(sample), b.eval(sample)),
        }
    }

    pub(crate) fn has_closure(&self) -> bool {
        match self {
            Self::EvenValue => true,
            Self::Not(a) => a.has_closure(),
            Self::And(a, b) | Self::Or(a, b) => a.has_closure() || b.has_closure(),
            _ => false,
        }
    }

    /// The filter, made with the library's constructors.
    pub(crate) fn filter(&self) -> Filter {
        let negate = |negated: bool, filter: Filter| if negated { !filter } else { filter };
        match self {
            Self::Constant(Some(true)) => Filter::always(),
            Self::Constant(Some(false)) => Filter::never(),
            Self::CompareBytes(column, op, literal) => {
                let column = column.column();
                match *op {
                    "=" => column.eq(literal),
                    "<>" => column.ne(literal),
                    "<" => column.lt(literal),
                    "<=" => column.le(literal),
                    ">" => column.gt(literal),
                    _ => column.ge(literal),
                }
            }
            Self::BetweenBytes(column, negated, low, high) => negate(*negated, column.column().between(low, high)),
            Self::InBytes(column, negated, list) if list.iter().all(Option::is_some) => {
                negate(*negated, column.column().is_in(list.iter().flatten()))
            }
            Self::Like(column, negated, pieces) => {
                let column = column.column();
                negate(
                    *negated,
                    match pieces.as_slice() {
                        [Piece::Any, Piece::Bytes(literal), Piece::Any] => column.contains(literal),
                        [Piece::Bytes(literal), Piece::Any] => column.starts_with(literal),
                        [Piece::Any, Piece::Bytes(literal)] => column.ends_with(literal),
                        _ => column.like_escape(pattern(pieces), '\\').expect("a right pattern"),
                    },
                )
            }
            Self::IsNull(column, true) => column.column().is_not_null(),
            Self::IsNull(column, false) => column.column().is_null(),
            Self::CompareInt(column, op, literal) => {
                let (column, literal) = (column.column(), *literal);
                match *op {
                    "=" => column.eq(literal),
                    "<>" => column.ne(literal),
                    "<" => column.lt(literal),
                    "<=" => column.le(literal),
                    ">" => column.gt(literal),
                    _ => column.ge(literal),
                }
            }
            Self::InInt(column, negated, list) if list.iter().all(Option::is_some) => {
                negate(*negated, column.column().is_in(list.iter().flatten().copied()))
            }
            Self::HeadersNull => Filter::headers_is_null(),
            Self::EvenValue => Filter::from_fn(|record| even(record.value)),
            Self::Not(a) => !a.filter(),
            Self::And(a, b) => a.filter().and(b.filter()),
            Self::Or(a, b) => a.filter().or(b.filter()),
            // Nulls can be written in SQL only.
            Self::Constant(None) | Self::InBytes(..) | Self::InInt(..) => self.sql().parse().expect("right SQL"),
        }
    }

    /// The filter in SQL, with more parentheses than `Display` writes.
    pub(crate) fn sql(&self) -> String {
        let not = |negated: bool| if negated { "NOT " } else { "" };
        match self {
            Self::Constant(Some(true)) => "true".to_owned(),
            Self::Constant(Some(false)) => "False".to_owned(),
            Self::Constant(None) => "null".to_owned(),
            Self::CompareBytes(column, op, literal) => format!("{} {op} {}", column.sql(), hex(literal)),
            Self::BetweenBytes(column, negated, low, high) => {
                format!("{} {}BETWEEN {} AND {}", column.sql(), not(*negated), hex(low), hex(high))
            }
            Self::InBytes(column, negated, list) => {
                let list: Vec<_> =
                    list.iter().map(|item| item.as_ref().map_or("NULL".to_owned(), |item| hex(item))).collect();
                format!("{} {}IN ({})", column.sql(), not(*negated), list.join(","))
            }
            Self::Like(column, negated, pieces) => {
                format!("{} {}LIKE {} ESCAPE '\\'", column.sql(), not(*negated), hex(&pattern(pieces)))
            }
            Self::IsNull(column, negated) => format!("{} IS {}NULL", column.sql(), not(*negated)),
            Self::CompareInt(column, op, literal) => format!("({}) {op} ({literal})", column.sql()),
            Self::InInt(column, negated, list) => {
                let list: Vec<_> =
                    list.iter().map(|item| item.map_or("NULL".to_owned(), |item| item.to_string())).collect();
                format!("{} {}IN ({})", column.sql(), not(*negated), list.join(","))
            }
            Self::HeadersNull => "headers IS NULL".to_owned(),
            Self::EvenValue => panic!("a closure has no SQL"),
            Self::Not(a) => format!("NOT ({})", a.sql()),
            Self::And(a, b) => format!("({}) AND ({})", a.sql(), b.sql()),
            Self::Or(a, b) => format!("({}) OR ({})", a.sql(), b.sql()),
        }
    }
}

impl Bytes {
    fn column(self) -> BytesColumn {
        match self {
            Self::Key => Filter::key(),
            Self::Value => Filter::value(),
            Self::Topic => Filter::topic(),
            Self::Header(key) => Filter::header(key),
        }
    }

    fn sql(self) -> String {
        match self {
            Self::Key => "KEY".to_owned(),
            Self::Value => "\"value\"".to_owned(),
            Self::Topic => "CAST(topic AS STRING)".to_owned(),
            Self::Header(key) => format!("headers['{key}']"),
        }
    }
}

impl Int {
    fn column(self) -> IntColumn {
        match self {
            Self::Partition => Filter::partition(),
            Self::Offset => Filter::offset(),
            Self::Timestamp => Filter::timestamp(),
            Self::TimestampType => Filter::timestamp_type(),
        }
    }

    fn sql(self) -> &'static str {
        match self {
            Self::Partition => "partition",
            Self::Offset => "Offset",
            Self::Timestamp => "timestamp",
            Self::TimestampType => "timestamptype",
        }
    }
}

fn even(value: Option<&[u8]>) -> bool {
    value.is_some_and(|value| value.len() % 2 == 0)
}

fn hex(bytes: &[u8]) -> String {
    format!("X'{}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

fn negate(negated: bool, a: Option<bool>) -> Option<bool> {
    if negated { not(a) } else { a }
}

/// True if one is; unknown if there is none, or one is unknown; else false.
fn any(mut truths: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let first = truths.next()?;
    truths.fold(first, or)
}

fn any_or_false(truths: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    truths.fold(Some(false), or)
}

fn any_value(sample: &Sample, column: Bytes, test: impl Fn(&[u8]) -> bool) -> Option<bool> {
    any(sample.values(column).into_iter().map(|value| value.map(&test)))
}

/// The pattern, each wildcard in a literal escaped with a backslash.
fn pattern(pieces: &[Piece]) -> Vec<u8> {
    let mut pattern = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Any => pattern.push(b'%'),
            Piece::One => pattern.push(b'_'),
            Piece::Bytes(bytes) => {
                for byte in bytes {
                    if b"%_\\".contains(byte) {
                        pattern.push(b'\\');
                    }
                    pattern.push(*byte);
                }
            }
        }
    }
    pattern
}

/// LIKE by keeping every place where the pattern so far may end.
fn like(value: &[u8], pieces: &[Piece]) -> bool {
    let mut boundaries = BTreeSet::from([0]);
    let mut at = 0;
    for chunk in value.utf8_chunks() {
        for c in chunk.valid().chars() {
            at += c.len_utf8();
            boundaries.insert(at);
        }
        for _ in chunk.invalid() {
            at += 1;
            boundaries.insert(at);
        }
    }
    let mut places = BTreeSet::from([0]);
    for piece in pieces {
        places = match piece {
            Piece::Any => places.first().map(|first| (*first..=value.len()).collect()).unwrap_or_default(),
            Piece::One => places
                .intersection(&boundaries)
                .filter_map(|place| boundaries.range(place + 1..).next().copied())
                .collect(),
            Piece::Bytes(bytes) => places
                .into_iter()
                .filter(|place| value[*place..].starts_with(bytes))
                .map(|place| place + bytes.len())
                .collect(),
        };
    }
    places.contains(&value.len())
}

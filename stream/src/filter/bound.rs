//! A filter for the records of one partition: what runs for every record.

use super::compare::CompareOp;
use super::leaf::{BytesTest, InList, equal};
use super::node::Closure;
use super::truth::Truth;
use ottla_protocol::record::{Headers, Record, TimestampType};
use std::sync::Arc;

/// A [`Filter`](super::Filter) for one partition of a topic. [`keep`](Self::keep) is called for every record: it allocates nothing, locks
/// nothing, and calls through a pointer only where the filter has a closure.
#[derive(Clone, Debug)]
pub struct BoundFilter {
    pub(super) node: BoundNode,
}

/// A condition without NOT: binding pushes each NOT down to the leaves, which ask for `wanted` instead of for true. So unknown needs no
/// care above the leaves: a leaf that is unknown is neither.
#[derive(Clone, Debug)]
pub(super) enum BoundNode {
    /// Every record. Only at the root.
    Always,
    /// No record. Only at the root.
    Never,
    All(Vec<BoundNode>),
    Any(Vec<BoundNode>),
    Bytes {
        column: RecordBytes,
        test: Arc<BytesTest>,
        wanted: Truth,
    },
    Header {
        key: Arc<str>,
        test: Arc<BytesTest>,
        wanted: Truth,
    },
    Compare {
        column: RecordInt,
        op: CompareOp,
        literal: i64,
    },
    In {
        column: RecordInt,
        list: Arc<InList<i64>>,
        wanted: Truth,
    },
    HeadersNull {
        wanted: bool,
    },
    Closure {
        closure: Closure,
        wanted: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RecordBytes {
    Key,
    Value,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RecordInt {
    Offset,
    Timestamp,
    TimestampType,
}

impl BoundFilter {
    /// Whether the record is kept: the condition is true for it, not false, not unknown.
    #[inline]
    pub fn keep(&self, record: &Record<'_>) -> bool {
        self.node.holds(record)
    }

    /// Whether every record of the partition is kept, so that none needs to be looked at.
    pub fn is_always(&self) -> bool {
        matches!(self.node, BoundNode::Always)
    }

    /// Whether no record of the partition is kept, so that none needs to be looked at. False doesn't promise that there is one.
    pub fn is_never(&self) -> bool {
        matches!(self.node, BoundNode::Never)
    }
}

impl BoundNode {
    fn holds(&self, record: &Record<'_>) -> bool {
        match self {
            Self::All(nodes) => nodes.iter().all(|node| node.leaf_holds(record)),
            Self::Any(nodes) => nodes.iter().any(|node| node.leaf_holds(record)),
            leaf => leaf.leaf_holds(record),
        }
    }

    /// The same, without a call for a leaf: most filters are a list of those.
    #[inline(always)]
    fn leaf_holds(&self, record: &Record<'_>) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::All(_) | Self::Any(_) => self.holds(record),
            Self::Bytes { column, test, wanted } => test.truth(column.of(record)) == *wanted,
            Self::Header { key, test, wanted } => header_truth(record.headers, key, test) == *wanted,
            Self::Compare { column, op, literal } => op.holds(column.of(record).cmp(literal)),
            Self::In { column, list, wanted } => {
                let column = column.of(record);
                list.truth(|item| item.cmp(&column)) == *wanted
            }
            Self::HeadersNull { wanted } => record.headers.is_empty() == *wanted,
            Self::Closure { closure, wanted } => (closure.0)(record) == *wanted,
        }
    }
}

impl RecordBytes {
    fn of<'b>(self, record: &Record<'b>) -> Option<&'b [u8]> {
        match self {
            Self::Key => record.key,
            Self::Value => record.value,
        }
    }
}

impl RecordInt {
    fn of(self, record: &Record<'_>) -> i64 {
        match self {
            Self::Offset => record.offset,
            Self::Timestamp => record.timestamp,
            // Spark's numbers.
            Self::TimestampType => match record.timestamp_type {
                TimestampType::NoTimestamp => -1,
                TimestampType::CreateTime => 0,
                TimestampType::LogAppendTime => 1,
            },
        }
    }
}

/// What a test says of a header key that may occur any number of times: true if it is for one occurrence; else unknown if it is for one,
/// or if there is none; else false. IS NULL is true if no occurrence has a value.
fn header_truth(headers: Headers<'_>, key: &str, test: &BytesTest) -> Truth {
    let mut values = headers.iter().filter(|header| equal(header.key, key.as_bytes())).map(|header| header.value);
    if matches!(test, BytesTest::IsNull) {
        return Truth::from(values.all(|value| value.is_none()));
    }
    let mut truth = None;
    for value in values {
        match test.truth(value) {
            Truth::True => return Truth::True,
            Truth::Unknown => truth = Some(Truth::Unknown),
            Truth::False => truth = truth.or(Some(Truth::False)),
        }
    }
    truth.unwrap_or(Truth::Unknown)
}

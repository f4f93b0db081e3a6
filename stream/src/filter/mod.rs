//! Which records to keep: conditions on borrowed bytes, with SQL's three-valued logic.
//!
//! A [`Filter`] is written once, with [columns](BytesColumn) and literals, as a closure, or as SQL text (`"value LIKE '%x%'".parse()`).
//! [`Filter::bind`] fixes the topic and the partition and gives a [`BoundFilter`], which looks at records without allocating, and which
//! can tell what a match must contain, so that a reader can leave out whole batches. Reading, positions and commits are not its concern:
//! a filter sees a record, never a range.

mod bind;
mod bound;
mod column;
mod compare;
mod display;
mod hints;
mod leaf;
mod like;
mod like_matcher;
mod node;
mod truth;
mod utf8;
mod where_clause;

pub use bound::BoundFilter;
pub use column::{BytesColumn, IntColumn};
pub use like::LikeError;
pub use where_clause::WhereError;

use node::{BytesSource, Closure, IntSource, Node};
use ottla_protocol::record::Record;
use std::{fmt, ops, str::FromStr, sync::Arc};
use truth::Truth;

/// A condition on records.
///
/// A comparison with null is unknown, as in SQL, and NOT of unknown is unknown; a record is kept only where the condition is true.
/// The text form (`Display`) is SQL that parses to an equal filter; closures show as `<closure>`, which does not parse.
///
/// ```
/// use ottla_stream::Filter;
/// let filter = Filter::value().contains("ERROR").and(Filter::topic().ne("audit"));
/// assert_eq!(filter.to_string(), "value LIKE '%ERROR%' AND topic <> 'audit'");
/// assert!(filter.bind("audit", 0).is_never());
/// ```
#[derive(Clone, PartialEq)]
pub struct Filter {
    node: Node,
}

impl Filter {
    /// The record's key.
    pub fn key() -> BytesColumn {
        BytesColumn(BytesSource::Key)
    }

    /// The record's value.
    pub fn value() -> BytesColumn {
        BytesColumn(BytesSource::Value)
    }

    /// The values of the record's headers with this key: `headers['key']`. See [`BytesColumn`] for keys that occur more than once.
    pub fn header(key: impl AsRef<str>) -> BytesColumn {
        BytesColumn(BytesSource::Header(key.as_ref().into()))
    }

    /// The topic that the record was read from.
    pub fn topic() -> BytesColumn {
        BytesColumn(BytesSource::Topic)
    }

    /// The partition that the record was read from.
    pub fn partition() -> IntColumn {
        IntColumn(IntSource::Partition)
    }

    /// The record's offset.
    pub fn offset() -> IntColumn {
        IntColumn(IntSource::Offset)
    }

    /// The record's timestamp: milliseconds since the epoch. A record without one has -1, and compares so, as in Spark.
    pub fn timestamp() -> IntColumn {
        IntColumn(IntSource::Timestamp)
    }

    /// What the timestamp means: -1 nothing, 0 create time, 1 log append time.
    pub fn timestamp_type() -> IntColumn {
        IntColumn(IntSource::TimestampType)
    }

    /// `headers IS NULL`: the record has no headers.
    pub fn headers_is_null() -> Self {
        Self { node: Node::HeadersNull }
    }

    /// Keeps every record.
    pub fn always() -> Self {
        Self { node: Node::Constant(Truth::True) }
    }

    /// Keeps none.
    pub fn never() -> Self {
        Self { node: Node::Constant(Truth::False) }
    }

    /// NULL as a condition: neither true nor false, so that its negation keeps nothing either.
    fn unknown() -> Self {
        Self { node: Node::Constant(Truth::Unknown) }
    }

    /// A condition in Rust. It is called for every record that the conditions beside it let through, from whichever thread reads.
    pub fn from_fn(keep: impl Fn(&Record<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self { node: Node::Closure(Closure(Arc::new(keep))) }
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { node: self.node.and(other.node) }
    }

    /// Either or both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { node: self.node.or(other.node) }
    }

    /// The filter for the records of one partition. What it says of the topic and the partition is decided here, once.
    pub fn bind(&self, topic: &str, partition: i32) -> BoundFilter {
        bind::bind(&self.node, topic, partition)
    }
}

impl ops::BitAnd for Filter {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        self.and(other)
    }
}

impl ops::BitOr for Filter {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.or(other)
    }
}

impl ops::Not for Filter {
    type Output = Self;
    fn not(self) -> Self {
        Self { node: self.node.not() }
    }
}

impl FromStr for Filter {
    type Err = WhereError;

    /// Parses an SQL condition on the columns `key`, `value`, `topic`, `partition`, `offset`, `timestamp`, `timestampType` and
    /// `headers['…']`, with `=`, `<>`, `<`, `<=`, `>`, `>=`, `LIKE … [ESCAPE …]`, `IN`, `BETWEEN`, `IS [NOT] NULL`, `AND`, `OR`, `NOT`.
    /// Text is written in single quotes, in which only a quote is special (`'it''s'`); bytes are `X'6869'`; a timestamp is a number of
    /// milliseconds or `TIMESTAMP '2023-11-14 22:13:20.123'`, in UTC. Without `ESCAPE`, a pattern has no escape character.
    ///
    /// # Errors
    /// The text is not such a condition, or compares a column with a literal of another type. The error says where.
    ///
    /// ```
    /// use ottla_stream::Filter;
    /// let filter: Filter = "value LIKE '%ERROR%' AND timestamp >= TIMESTAMP '2023-11-14 22:13:20'".parse()?;
    /// assert_eq!(filter, Filter::value().contains("ERROR").and(Filter::timestamp().ge(1_700_000_000_000)));
    /// # Ok::<(), ottla_stream::WhereError>(())
    /// ```
    fn from_str(text: &str) -> Result<Self, WhereError> {
        where_clause::parse(text)
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filter({self})")
    }
}

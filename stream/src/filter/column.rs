//! The columns that a filter can ask about, and what it can ask.

use super::Filter;
use super::compare::CompareOp;
use super::leaf::{BytesTest, InList, IntTest};
use super::like::{Like, LikeError};
use super::node::{BytesSource, IntSource, Node};
use super::truth::Truth;
use std::sync::Arc;

/// A column of bytes: `key`, `value`, `topic` or a header. Literals are text or bytes; comparisons are of unsigned bytes, as Spark's of
/// its binary columns. Every condition but [`is_null`](Self::is_null) and [`is_not_null`](Self::is_not_null) is unknown for null.
///
/// A header key may occur several times. A condition on `headers['k']` is true if it is for any occurrence; else unknown if it is
/// unknown for one (whose value is null) or if the key does not occur; else false. So `<> 'v'` asks for an occurrence that differs, and
/// `NOT (headers['k'] = 'v')` for one or more of which none is `'v'`. `IS NULL` is the exception, since it must stay the opposite of
/// `IS NOT NULL`: it is true if no occurrence has a value.
#[derive(Clone, Debug)]
pub struct BytesColumn(pub(super) BytesSource);

impl BytesColumn {
    fn test(self, test: BytesTest) -> Filter {
        Filter { node: Node::Bytes(self.0, Arc::new(test)) }
    }

    pub(super) fn compare(self, op: CompareOp, literal: impl AsRef<[u8]>) -> Filter {
        self.test(BytesTest::Compare(op, literal.as_ref().into()))
    }

    /// `= literal`.
    pub fn eq(self, literal: impl AsRef<[u8]>) -> Filter {
        self.compare(CompareOp::Eq, literal)
    }

    /// `<> literal`.
    pub fn ne(self, literal: impl AsRef<[u8]>) -> Filter {
        self.compare(CompareOp::Ne, literal)
    }

    /// `< literal`.
    pub fn lt(self, literal: impl AsRef<[u8]>) -> Filter {
        self.compare(CompareOp::Lt, literal)
    }

    /// `<= literal`.
    pub fn le(self, literal: impl AsRef<[u8]>) -> Filter {
        self.compare(CompareOp::Le, literal)
    }

    /// `> literal`.
    pub fn gt(self, literal: impl AsRef<[u8]>) -> Filter {
        self.compare(CompareOp::Gt, literal)
    }

    /// `>= literal`.
    pub fn ge(self, literal: impl AsRef<[u8]>) -> Filter {
        self.compare(CompareOp::Ge, literal)
    }

    /// `BETWEEN low AND high`, both included; for a header, of the same occurrence.
    pub fn between(self, low: impl AsRef<[u8]>, high: impl AsRef<[u8]>) -> Filter {
        self.test(BytesTest::Between(low.as_ref().into(), high.as_ref().into()))
    }

    /// `IN (literals)`. No literals: false for every record.
    pub fn is_in<L: AsRef<[u8]>>(self, literals: impl IntoIterator<Item = L>) -> Filter {
        self.in_list(literals.into_iter().map(|literal| literal.as_ref().into()).collect(), false)
    }

    pub(super) fn in_list(self, literals: Vec<Box<[u8]>>, has_null: bool) -> Filter {
        match empty_list(literals.is_empty(), has_null) {
            Some(constant) => constant,
            None => self.test(BytesTest::In(InList::new(literals, has_null))),
        }
    }

    /// `LIKE pattern`: `%` is any bytes, `_` one UTF-8 character (one byte where the bytes are not UTF-8). Nothing is an escape.
    pub fn like(self, pattern: impl AsRef<[u8]>) -> Filter {
        self.test(BytesTest::Like(Like::unescaped(pattern.as_ref())))
    }

    /// `LIKE pattern ESCAPE escape`.
    ///
    /// # Errors
    /// The escape character stands at the end, or before something else than `%`, `_` and itself.
    pub fn like_escape(self, pattern: impl AsRef<[u8]>, escape: char) -> Result<Filter, LikeError> {
        Ok(self.test(BytesTest::Like(Like::escaped(pattern.as_ref(), escape)?)))
    }

    /// The bytes occur somewhere. The same as `LIKE '%literal%'`, where nothing in the literal is a wildcard.
    pub fn contains(self, literal: impl AsRef<[u8]>) -> Filter {
        self.test(BytesTest::Like(Like::contains(literal.as_ref())))
    }

    /// The column begins with these bytes.
    pub fn starts_with(self, literal: impl AsRef<[u8]>) -> Filter {
        self.test(BytesTest::Like(Like::starts_with(literal.as_ref())))
    }

    /// The column ends with these bytes.
    pub fn ends_with(self, literal: impl AsRef<[u8]>) -> Filter {
        self.test(BytesTest::Like(Like::ends_with(literal.as_ref())))
    }

    /// `IS NULL`. For a header: it does not occur, or only with null values.
    pub fn is_null(self) -> Filter {
        self.test(BytesTest::IsNull)
    }

    /// `IS NOT NULL`. For a header: it occurs with a value.
    pub fn is_not_null(self) -> Filter {
        !self.is_null()
    }
}

/// A column of numbers: `partition`, `offset`, `timestamp` (milliseconds since the epoch, -1 if the record has none) or `timestampType`
/// (-1 none, 0 create time, 1 log append time). None of them is ever null.
#[derive(Clone, Copy, Debug)]
pub struct IntColumn(pub(super) IntSource);

impl IntColumn {
    fn test(self, test: IntTest) -> Filter {
        Filter { node: Node::Int(self.0, test) }
    }

    pub(super) fn is_timestamp(self) -> bool {
        self.0 == IntSource::Timestamp
    }

    pub(super) fn compare(self, op: CompareOp, literal: i64) -> Filter {
        self.test(IntTest::Compare(op, literal))
    }

    /// `= literal`.
    pub fn eq(self, literal: i64) -> Filter {
        self.compare(CompareOp::Eq, literal)
    }

    /// `<> literal`.
    pub fn ne(self, literal: i64) -> Filter {
        self.compare(CompareOp::Ne, literal)
    }

    /// `< literal`.
    pub fn lt(self, literal: i64) -> Filter {
        self.compare(CompareOp::Lt, literal)
    }

    /// `<= literal`.
    pub fn le(self, literal: i64) -> Filter {
        self.compare(CompareOp::Le, literal)
    }

    /// `> literal`.
    pub fn gt(self, literal: i64) -> Filter {
        self.compare(CompareOp::Gt, literal)
    }

    /// `>= literal`.
    pub fn ge(self, literal: i64) -> Filter {
        self.compare(CompareOp::Ge, literal)
    }

    /// `BETWEEN low AND high`, both included.
    pub fn between(self, low: i64, high: i64) -> Filter {
        self.ge(low).and(self.le(high))
    }

    /// `IN (literals)`. No literals: false for every record.
    pub fn is_in(self, literals: impl IntoIterator<Item = i64>) -> Filter {
        self.in_list(literals.into_iter().collect(), false)
    }

    pub(super) fn in_list(self, literals: Vec<i64>, has_null: bool) -> Filter {
        match empty_list(literals.is_empty(), has_null) {
            Some(constant) => constant,
            None => self.test(IntTest::In(Arc::new(InList::new(literals, has_null)))),
        }
    }
}

/// An IN list without literals says the same of every column: unknown if it holds a null, else false.
fn empty_list(is_empty: bool, has_null: bool) -> Option<Filter> {
    let truth = if has_null { Truth::Unknown } else { Truth::False };
    is_empty.then_some(Filter { node: Node::Constant(truth) })
}

//! What can be told about every record that a filter keeps, so that a reader can leave out the others early.
//!
//! All of these are necessary conditions, never sufficient ones: what they let through still goes to [`BoundFilter::keep`].

use super::bound::{BoundFilter, BoundNode, RecordBytes, RecordInt};
use super::compare::CompareOp;
use super::leaf::BytesTest;
use super::truth::Truth;
use std::cmp::Reverse;
use std::ops::RangeInclusive;

/// A union of more literals than this is searched only when there is nothing better: each costs a pass over the bytes.
const FEW_LITERALS: usize = 8;

impl BoundFilter {
    /// Byte strings of which at least one occurs in the key, the value, a header key or a header value of every record that is kept, in
    /// one piece. `None`: there is no such set. An empty set: no record is kept. None of the strings is empty.
    ///
    /// Of conditions joined by AND, the one with the longest shortest literal is taken; OR and IN need all of theirs.
    pub fn literals(&self) -> Option<Vec<&[u8]>> {
        self.node.literals()
    }

    /// The smallest timestamp (milliseconds since the epoch, inclusive) that a kept record can have; `None` if any will do.
    pub fn timestamp_lower_bound(&self) -> Option<i64> {
        let low = *self.node.interval(RecordInt::Timestamp).start();
        (low > i64::MIN).then_some(low)
    }

    /// The offsets that kept records can have, both ends inclusive. Empty if there are none; all of `i64` if the filter doesn't care.
    pub fn offset_bounds(&self) -> RangeInclusive<i64> {
        self.node.interval(RecordInt::Offset)
    }

    /// Whether the filter looks at keys.
    pub fn needs_key(&self) -> bool {
        self.node.needs(&|node| matches!(node, BoundNode::Bytes { column: RecordBytes::Key, .. }))
    }

    /// Whether the filter looks at values.
    pub fn needs_value(&self) -> bool {
        self.node.needs(&|node| matches!(node, BoundNode::Bytes { column: RecordBytes::Value, .. }))
    }

    /// Whether the filter looks at headers.
    pub fn needs_headers(&self) -> bool {
        self.node.needs(&|node| matches!(node, BoundNode::Header { .. } | BoundNode::HeadersNull { .. }))
    }
}

impl BoundNode {
    /// Whether a leaf needs it. A closure may look at anything.
    fn needs(&self, leaf: &impl Fn(&Self) -> bool) -> bool {
        match self {
            Self::All(nodes) | Self::Any(nodes) => nodes.iter().any(|node| node.needs(leaf)),
            Self::Closure { .. } => true,
            node => leaf(node),
        }
    }

    fn literals(&self) -> Option<Vec<&[u8]>> {
        match self {
            Self::Never => Some(Vec::new()),
            Self::All(nodes) => nodes.iter().filter_map(Self::literals).max_by_key(|literals| rank(literals)),
            Self::Any(nodes) => {
                let mut union = Vec::new();
                for node in nodes {
                    union.extend(node.literals()?);
                }
                union.sort_unstable();
                union.dedup();
                Some(union)
            }
            Self::Bytes { test, wanted, .. } => test_literals(test, *wanted),
            Self::Header { key, test, wanted } => header_literals(key, test, *wanted),
            Self::Always | Self::Compare { .. } | Self::In { .. } | Self::HeadersNull { .. } | Self::Closure { .. } => {
                None
            }
        }
    }

    /// The hull of what the column can be where this holds.
    fn interval(&self, of: RecordInt) -> RangeInclusive<i64> {
        match self {
            Self::Never => NOTHING,
            Self::All(nodes) => nodes.iter().map(|node| node.interval(of)).fold(ANYTHING, |a, b| {
                if a.is_empty() || b.is_empty() { NOTHING } else { *a.start().max(b.start())..=*a.end().min(b.end()) }
            }),
            Self::Any(nodes) => {
                nodes.iter().map(|node| node.interval(of)).fold(NOTHING, |a, b| match (a.is_empty(), b.is_empty()) {
                    (true, _) => b,
                    (_, true) => a,
                    _ => *a.start().min(b.start())..=*a.end().max(b.end()),
                })
            }
            Self::Compare { column, op, literal } if *column == of => match op {
                CompareOp::Eq => *literal..=*literal,
                CompareOp::Ne => ANYTHING,
                CompareOp::Lt => literal.checked_sub(1).map_or(NOTHING, |end| i64::MIN..=end),
                CompareOp::Le => i64::MIN..=*literal,
                CompareOp::Gt => literal.checked_add(1).map_or(NOTHING, |start| start..=i64::MAX),
                CompareOp::Ge => *literal..=i64::MAX,
            },
            Self::In { column, list, wanted: Truth::True } if *column == of => {
                match (list.items().first(), list.items().last()) {
                    (Some(first), Some(last)) => *first..=*last,
                    _ => NOTHING,
                }
            }
            _ => ANYTHING,
        }
    }
}

const ANYTHING: RangeInclusive<i64> = i64::MIN..=i64::MAX;
/// Empty; begins at the end so that it is also the largest lower bound.
const NOTHING: RangeInclusive<i64> = RangeInclusive::new(i64::MAX, i64::MIN);

/// How good a set of literals is: few, then long, then fewer. No literals at all is best: nothing can match.
fn rank(literals: &[&[u8]]) -> (bool, usize, Reverse<usize>) {
    let shortest = literals.iter().map(|literal| literal.len()).min().unwrap_or(usize::MAX);
    (literals.len() <= FEW_LITERALS, shortest, Reverse(literals.len()))
}

/// What the bytes contain where `test` is `wanted`.
fn test_literals(test: &BytesTest, wanted: Truth) -> Option<Vec<&[u8]>> {
    let literals = match (test, wanted) {
        (BytesTest::Compare(CompareOp::Eq, literal), Truth::True)
        | (BytesTest::Compare(CompareOp::Ne, literal), Truth::False) => vec![&**literal],
        (BytesTest::In(list), Truth::True) => list.items().iter().map(|item| &**item).collect(),
        (BytesTest::Like(like), Truth::True) => vec![like.longest_literal()?],
        _ => return None,
    };
    // An empty string occurs in everything.
    literals.iter().all(|literal| !literal.is_empty()).then_some(literals)
}

/// As [`test_literals`], for an occurrence of a header: the record has its key as well, unless the header may be missing.
fn header_literals<'t>(key: &'t str, test: &'t BytesTest, wanted: Truth) -> Option<Vec<&'t [u8]>> {
    if *test == BytesTest::IsNull && wanted == Truth::True {
        return None;
    }
    let key = (!key.is_empty()).then(|| vec![key.as_bytes()]);
    [key, test_literals(test, wanted)].into_iter().flatten().max_by_key(|literals| rank(literals))
}

//! What a leaf of a filter asks of one column.

use super::compare::CompareOp;
use super::like::Like;
use super::truth::Truth;
use std::{cmp::Ordering, sync::Arc};

/// A question about bytes: the key, the value, the topic, a header.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum BytesTest {
    /// Compared as unsigned bytes.
    Compare(CompareOp, Box<[u8]>),
    /// Both ends included. One test, not two comparisons: for a header both must hold for the same occurrence.
    Between(Box<[u8]>, Box<[u8]>),
    In(InList<Box<[u8]>>),
    Like(Like),
    IsNull,
}

/// Whether two byte strings are the same. Without a call for the short ones that keys and headers are, and from the end: ids differ there.
#[inline]
pub(super) fn equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    if let (Some(a_end), Some(b_end)) = (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        return a_end == b_end && a.first_chunk::<8>() == b.first_chunk::<8>() && (a.len() <= 16 || a == b);
    }
    if let (Some(a_end), Some(b_end)) = (a.last_chunk::<4>(), b.last_chunk::<4>()) {
        return a_end == b_end && a.first_chunk::<4>() == b.first_chunk::<4>();
    }
    a.iter().eq(b)
}

impl BytesTest {
    #[inline(always)]
    pub(super) fn truth(&self, column: Option<&[u8]>) -> Truth {
        let Some(bytes) = column else {
            return if matches!(self, Self::IsNull) { Truth::True } else { Truth::Unknown };
        };
        match self {
            Self::Compare(CompareOp::Eq, literal) => Truth::from(equal(bytes, literal)),
            test => test.truth_of(bytes),
        }
    }

    fn truth_of(&self, bytes: &[u8]) -> Truth {
        match self {
            Self::Compare(CompareOp::Ne, literal) => Truth::from(!equal(bytes, literal)),
            Self::Compare(op, literal) => Truth::from(op.holds(bytes.cmp(literal))),
            Self::Between(low, high) => Truth::from(&**low <= bytes && bytes <= &**high),
            Self::In(list) => list.truth(|item| (**item).cmp(bytes)),
            Self::Like(like) => Truth::from(like.matches(bytes)),
            Self::IsNull => Truth::False,
        }
    }
}

/// A question about a number, which is never null.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum IntTest {
    Compare(CompareOp, i64),
    In(Arc<InList<i64>>),
}

impl IntTest {
    pub(super) fn truth(&self, column: i64) -> Truth {
        match self {
            Self::Compare(op, literal) => Truth::from(op.holds(column.cmp(literal))),
            Self::In(list) => list.truth(|item| item.cmp(&column)),
        }
    }
}

/// The items of an IN list.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct InList<T> {
    /// Sorted, each once.
    items: Vec<T>,
    has_null: bool,
}

impl<T: Ord> InList<T> {
    pub(super) fn new(mut items: Vec<T>, has_null: bool) -> Self {
        items.sort_unstable();
        items.dedup();
        Self { items, has_null }
    }

    pub(super) fn items(&self) -> &[T] {
        &self.items
    }

    pub(super) fn has_null(&self) -> bool {
        self.has_null
    }

    /// A column that equals no item might still equal the null.
    pub(super) fn truth(&self, compare: impl FnMut(&T) -> Ordering) -> Truth {
        match self.items.binary_search_by(compare) {
            Ok(_) => Truth::True,
            Err(_) if self.has_null => Truth::Unknown,
            Err(_) => Truth::False,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equal_is_what_slices_say(a in proptest::collection::vec(0u8..3, 0..40), change in any::<Option<(prop::sample::Index, u8)>>()) {
            let mut b = a.clone();
            prop_assert!(equal(&a, &b));
            match change {
                Some((at, byte)) if !b.is_empty() => {
                    let at = at.index(b.len());
                    b[at] = byte;
                }
                _ => b.push(0),
            }
            prop_assert_eq!(equal(&a, &b), a == b);
        }
    }
}

//! A filter as it was written: a tree of conditions.

use super::leaf::{BytesTest, IntTest};
use super::truth::Truth;
use ottla_protocol::record::Record;
use std::{fmt, sync::Arc};

/// A condition. AND and OR are flat, and NOT NOT is nothing, so that equal filters have equal trees.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Node {
    Constant(Truth),
    Bytes(BytesSource, Arc<BytesTest>),
    Int(IntSource, IntTest),
    /// `headers IS NULL`: the record has none.
    HeadersNull,
    Closure(Closure),
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
}

/// A column of bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum BytesSource {
    Key,
    Value,
    Topic,
    /// The header with this key.
    Header(Arc<str>),
}

/// A column of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum IntSource {
    Partition,
    Offset,
    Timestamp,
    TimestampType,
}

/// The user's own condition. Equal only to itself.
#[derive(Clone)]
pub(super) struct Closure(pub(super) Arc<KeepFn>);

pub(super) type KeepFn = dyn Fn(&Record<'_>) -> bool + Send + Sync;

impl PartialEq for Closure {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Closure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<closure>")
    }
}

impl Node {
    pub(super) fn and(self, other: Self) -> Self {
        let mut operands = match self {
            Self::And(operands) => operands,
            node => vec![node],
        };
        match other {
            Self::And(more) => operands.extend(more),
            node => operands.push(node),
        }
        Self::And(operands)
    }

    pub(super) fn or(self, other: Self) -> Self {
        let mut operands = match self {
            Self::Or(operands) => operands,
            node => vec![node],
        };
        match other {
            Self::Or(more) => operands.extend(more),
            node => operands.push(node),
        }
        Self::Or(operands)
    }

    pub(super) fn not(self) -> Self {
        match self {
            Self::Not(node) => *node,
            Self::Constant(truth) => Self::Constant(truth.negated()),
            node => Self::Not(Box::new(node)),
        }
    }
}

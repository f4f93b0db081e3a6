//! Binds a filter to a partition: decides what it says of topic and partition, pushes NOT to the leaves, and folds constants.

use super::bound::{BoundFilter, BoundNode, RecordBytes, RecordInt};
use super::leaf::{BytesTest, IntTest};
use super::node::{BytesSource, IntSource, Node};
use super::truth::Truth;
use std::sync::Arc;

pub(super) fn bind(node: &Node, topic: &str, partition: i32) -> BoundFilter {
    BoundFilter { node: Binder { topic: topic.as_bytes(), partition: i64::from(partition) }.bind(node, Truth::True) }
}

struct Binder<'t> {
    topic: &'t [u8],
    partition: i64,
}

impl Binder<'_> {
    /// A node that holds where `node` is `wanted`: true, or (below a NOT) false.
    fn bind(&self, node: &Node, wanted: Truth) -> BoundNode {
        match (node, wanted) {
            (Node::Constant(truth), _) => constant(*truth == wanted),
            (Node::Bytes(source, test), _) => self.bind_bytes(source, test, wanted),
            (Node::Int(source, test), _) => self.bind_int(*source, test, wanted),
            (Node::HeadersNull, _) => BoundNode::HeadersNull { wanted: wanted == Truth::True },
            (Node::Closure(closure), _) => {
                BoundNode::Closure { closure: closure.clone(), wanted: wanted == Truth::True }
            }
            (Node::Not(node), _) => self.bind(node, wanted.negated()),
            // De Morgan's laws hold in three-valued logic.
            (Node::And(nodes), Truth::True) | (Node::Or(nodes), Truth::False) => all(self.bind_each(nodes, wanted)),
            (Node::Or(nodes), _) | (Node::And(nodes), _) => any(self.bind_each(nodes, wanted)),
        }
    }

    fn bind_each(&self, nodes: &[Node], wanted: Truth) -> impl Iterator<Item = BoundNode> {
        nodes.iter().map(move |node| self.bind(node, wanted))
    }

    fn bind_bytes(&self, source: &BytesSource, test: &Arc<BytesTest>, wanted: Truth) -> BoundNode {
        let column = match source {
            BytesSource::Topic => return constant(test.truth(Some(self.topic)) == wanted),
            BytesSource::Header(key) => {
                return BoundNode::Header { key: Arc::clone(key), test: Arc::clone(test), wanted };
            }
            BytesSource::Key => RecordBytes::Key,
            BytesSource::Value => RecordBytes::Value,
        };
        BoundNode::Bytes { column, test: Arc::clone(test), wanted }
    }

    fn bind_int(&self, source: IntSource, test: &IntTest, wanted: Truth) -> BoundNode {
        let column = match source {
            IntSource::Partition => return constant(test.truth(self.partition) == wanted),
            IntSource::Offset => RecordInt::Offset,
            IntSource::Timestamp => RecordInt::Timestamp,
            IntSource::TimestampType => RecordInt::TimestampType,
        };
        match test {
            IntTest::Compare(op, literal) => {
                let op = if wanted == Truth::True { *op } else { op.negated() };
                BoundNode::Compare { column, op, literal: *literal }
            }
            IntTest::In(list) => BoundNode::In { column, list: Arc::clone(list), wanted },
        }
    }
}

fn constant(holds: bool) -> BoundNode {
    if holds { BoundNode::Always } else { BoundNode::Never }
}

fn all(nodes: impl Iterator<Item = BoundNode>) -> BoundNode {
    let mut kept = Vec::new();
    for node in nodes {
        match node {
            BoundNode::Never => return BoundNode::Never,
            BoundNode::Always => {}
            BoundNode::All(nodes) => kept.extend(nodes),
            node => kept.push(node),
        }
    }
    one_or(kept, BoundNode::Always, BoundNode::All)
}

fn any(nodes: impl Iterator<Item = BoundNode>) -> BoundNode {
    let mut kept = Vec::new();
    for node in nodes {
        match node {
            BoundNode::Always => return BoundNode::Always,
            BoundNode::Never => {}
            BoundNode::Any(nodes) => kept.extend(nodes),
            node => kept.push(node),
        }
    }
    one_or(kept, BoundNode::Never, BoundNode::Any)
}

/// The nodes, the cheap ones first; alone, a node needs no list.
fn one_or(mut nodes: Vec<BoundNode>, none: BoundNode, list: fn(Vec<BoundNode>) -> BoundNode) -> BoundNode {
    if nodes.len() > 1 {
        nodes.sort_by_key(cost);
        return list(nodes);
    }
    nodes.pop().unwrap_or(none)
}

/// A rank: numbers before bytes, bytes before headers, which must be parsed, and the user's code last.
fn cost(node: &BoundNode) -> u8 {
    match node {
        BoundNode::Always | BoundNode::Never => 0,
        BoundNode::Compare { .. } | BoundNode::In { .. } | BoundNode::HeadersNull { .. } => 1,
        BoundNode::Bytes { test, .. } => match **test {
            BytesTest::IsNull | BytesTest::Compare(..) | BytesTest::Between(..) => 2,
            BytesTest::In(_) | BytesTest::Like(_) => 3,
        },
        BoundNode::Header { .. } => 4,
        BoundNode::Closure { .. } => 6,
        BoundNode::All(nodes) | BoundNode::Any(nodes) => nodes.iter().map(cost).max().unwrap_or(0).max(5),
    }
}

//! A filter as SQL that parses to an equal filter.

use super::Filter;
use super::leaf::{BytesTest, InList, IntTest};
use super::like::{Like, Piece};
use super::node::{BytesSource, IntSource, Node};
use super::truth::Truth;
use std::fmt::{self, Display, Formatter, Write};

impl Display for Filter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}

impl Display for Node {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(Truth::True) => f.write_str("TRUE"),
            Self::Constant(Truth::False) => f.write_str("FALSE"),
            Self::Constant(Truth::Unknown) => f.write_str("NULL"),
            Self::Bytes(source, test) => write_bytes_test(f, source, test, ""),
            Self::Int(source, test) => write_int_test(f, *source, test, ""),
            Self::HeadersNull => f.write_str("headers IS NULL"),
            Self::Closure(_) => f.write_str("<closure>"),
            Self::Not(node) => match &**node {
                // Comparisons have no negated spelling: `<>` is an operator of its own.
                Self::Bytes(source, test) if !matches!(**test, BytesTest::Compare(..)) => {
                    write_bytes_test(f, source, test, "NOT ")
                }
                Self::Int(source, test @ IntTest::In(_)) => write_int_test(f, *source, test, "NOT "),
                Self::HeadersNull => f.write_str("headers IS NOT NULL"),
                node => write!(f, "NOT ({node})"),
            },
            Self::And(nodes) => write_joined(f, nodes, " AND ", |node| matches!(node, Self::Or(_))),
            Self::Or(nodes) => write_joined(f, nodes, " OR ", |node| matches!(node, Self::And(_))),
        }
    }
}

/// AND binds tighter than OR, but not every reader knows: both get parentheses inside the other.
fn write_joined(f: &mut Formatter<'_>, nodes: &[Node], with: &str, in_parentheses: fn(&Node) -> bool) -> fmt::Result {
    for (index, node) in nodes.iter().enumerate() {
        if index > 0 {
            f.write_str(with)?;
        }
        if in_parentheses(node) {
            write!(f, "({node})")?;
        } else {
            node.fmt(f)?;
        }
    }
    Ok(())
}

fn write_bytes_test(f: &mut Formatter<'_>, source: &BytesSource, test: &BytesTest, not: &str) -> fmt::Result {
    match test {
        BytesTest::Compare(op, literal) => write!(f, "{source} {op} {}", Literal(literal)),
        BytesTest::Between(low, high) => write!(f, "{source} {not}BETWEEN {} AND {}", Literal(low), Literal(high)),
        BytesTest::In(list) => {
            write!(f, "{source} {not}IN ")?;
            write_list(f, list, |item| Literal(item))
        }
        BytesTest::Like(like) => write!(f, "{source} {not}LIKE {like}"),
        BytesTest::IsNull => write!(f, "{source} IS {not}NULL"),
    }
}

fn write_int_test(f: &mut Formatter<'_>, source: IntSource, test: &IntTest, not: &str) -> fmt::Result {
    match test {
        IntTest::Compare(op, literal) => write!(f, "{source} {op} {literal}"),
        IntTest::In(list) => {
            write!(f, "{source} {not}IN ")?;
            write_list(f, list, |item| *item)
        }
    }
}

fn write_list<'l, T: Ord, D: Display>(f: &mut Formatter<'_>, list: &'l InList<T>, show: fn(&'l T) -> D) -> fmt::Result {
    f.write_char('(')?;
    for (index, item) in list.items().iter().enumerate() {
        write!(f, "{}{}", if index > 0 { ", " } else { "" }, show(item))?;
    }
    f.write_str(if list.has_null() { ", NULL)" } else { ")" })
}

impl Display for BytesSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => f.write_str("key"),
            Self::Value => f.write_str("value"),
            Self::Topic => f.write_str("topic"),
            Self::Header(key) => write!(f, "headers[{}]", Literal(key.as_bytes())),
        }
    }
}

impl Display for IntSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Partition => "partition",
            Self::Offset => "offset",
            Self::Timestamp => "timestamp",
            Self::TimestampType => "timestampType",
        })
    }
}

/// Bytes as `'text'` where they are UTF-8, else as `X'hex'`.
struct Literal<'b>(&'b [u8]);

impl Display for Literal<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(self.0) {
            Ok(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Err(_) => {
                f.write_str("X'")?;
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))?;
                f.write_char('\'')
            }
        }
    }
}

impl Display for Like {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let is_wildcard = |byte: &u8| matches!(byte, b'%' | b'_');
        let needs_escape = self
            .pieces()
            .iter()
            .any(|piece| matches!(piece, Piece::Literal(literal) if literal.iter().any(is_wildcard)));
        let mut pattern = Vec::new();
        for piece in self.pieces() {
            match piece {
                Piece::Any => pattern.push(b'%'),
                Piece::One => pattern.push(b'_'),
                Piece::Literal(literal) => {
                    for byte in literal {
                        if needs_escape && (is_wildcard(byte) || *byte == b'!') {
                            pattern.push(b'!');
                        }
                        pattern.push(*byte);
                    }
                }
            }
        }
        Literal(&pattern).fmt(f)?;
        if needs_escape { f.write_str(" ESCAPE '!'") } else { Ok(()) }
    }
}

//! Errors about a part of the tree: where it stands in the text, and what it is called.

use super::WhereError;
use super::error::brief;
use sqlparser::ast::{Expr, InTarget, UnaryOperator};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

const SUPPORTED: &str = "supported are =, <>, <, <=, >, >=, LIKE, IN, BETWEEN, IS [NOT] NULL, AND, OR and NOT, between a column and a literal";

/// The text of which the tree was made.
pub(super) struct Text<'t> {
    text: &'t str,
    /// Where the first subquery begins: its tree doesn't say.
    select: Location,
}

impl<'t> Text<'t> {
    pub(super) fn new(text: &'t str, tokens: &[TokenWithSpan]) -> Self {
        let select =
            tokens.iter().find(|token| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::SELECT));
        Self { text, select: select.map_or(Location::new(1, 1), |token| token.span.start) }
    }

    /// An error about `expr`. Finding the place takes a walk over the text, so it is left until there is an error.
    pub(super) fn error(&self, expr: &Expr, message: impl Into<String>) -> WhereError {
        let mut position = byte_position(self.text, location(expr).unwrap_or(self.select));
        if let Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, .. } = expr {
            // The tree has a place for the number only. The sign is the last thing before it.
            position = self.text.get(..position).unwrap_or_default().trim_end().len().saturating_sub(1);
        }
        WhereError::new(message, self.text, position)
    }

    pub(super) fn unsupported(&self, expr: &Expr) -> WhereError {
        let what = match expr {
            Expr::Function(function) => format!("the function {}", brief(&function.name)),
            Expr::BinaryOp { op, .. } => format!("the operator {op}"),
            Expr::UnaryOp { op, .. } => format!("the operator {op}"),
            Expr::In { target: InTarget::Subquery(_), .. } | Expr::Subquery(_) | Expr::Exists { .. } => {
                let message = format!("a subquery is not supported; {SUPPORTED}");
                return WhereError::new(message, self.text, byte_position(self.text, self.select));
            }
            Expr::ILike { .. } => "ILIKE".to_owned(),
            Expr::RLike { .. } => "RLIKE".to_owned(),
            Expr::SimilarTo { .. } => "SIMILAR TO".to_owned(),
            Expr::Like { .. } => "LIKE ANY".to_owned(),
            Expr::Case { .. } => "CASE".to_owned(),
            Expr::IsTrue(_) | Expr::IsNotTrue(_) | Expr::IsFalse(_) | Expr::IsNotFalse(_) => {
                "IS TRUE or FALSE".to_owned()
            }
            Expr::IsUnknown(_) | Expr::IsNotUnknown(_) => "IS UNKNOWN".to_owned(),
            Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => "IS DISTINCT FROM".to_owned(),
            Expr::AnyOp { .. } | Expr::AllOp { .. } => "ANY or ALL".to_owned(),
            Expr::Tuple(_) => "a list of values here".to_owned(),
            Expr::Interval(_) => "INTERVAL".to_owned(),
            Expr::Collate { .. } => "COLLATE".to_owned(),
            Expr::CompoundIdentifier(_) => "a name with a dot".to_owned(),
            Expr::TypedString(typed) => format!("a {} literal", brief(&typed.data_type)),
            Expr::Cast { .. } => "this kind of cast".to_owned(),
            _ => "this expression".to_owned(),
        };
        self.error(expr, format!("{what} is not supported; {SUPPORTED}"))
    }
}

/// The byte at a line and a column, both counted from 1 and in characters. Line 0 stands for the end of the text.
pub(super) fn byte_position(text: &str, location: Location) -> usize {
    let Some(line) = usize::try_from(location.line).ok().and_then(|line| line.checked_sub(1)) else {
        return text.trim_end().len();
    };
    let start = text.split_inclusive('\n').take(line).map(str::len).sum();
    let column = usize::try_from(location.column.saturating_sub(1)).unwrap_or(usize::MAX);
    let line = text.get(start..).unwrap_or_default();
    line.char_indices().nth(column).map_or(text.len(), |(index, _)| start + index)
}

/// Where the expression begins, as far as the tree tells: at its leftmost leaf. In a loop, since the tree may be deep to the left.
fn location(mut expr: &Expr) -> Option<Location> {
    loop {
        let span = match expr {
            Expr::Identifier(name) => name.span,
            Expr::CompoundIdentifier(names) => names.first()?.span,
            Expr::Value(value) => value.span,
            Expr::TypedString(typed) => typed.value.span,
            Expr::Function(function) => function.name.0.first()?.as_ident()?.span,
            Expr::Case { case_token, .. } => case_token.0.span,
            Expr::CompoundFieldAccess { root: inner, .. }
            | Expr::Nested(inner)
            | Expr::BinaryOp { left: inner, .. }
            | Expr::UnaryOp { expr: inner, .. }
            | Expr::Cast { expr: inner, .. }
            | Expr::Like { expr: inner, .. }
            | Expr::ILike { expr: inner, .. }
            | Expr::RLike { expr: inner, .. }
            | Expr::SimilarTo { expr: inner, .. }
            | Expr::In { expr: inner, .. }
            | Expr::Between { expr: inner, .. }
            | Expr::Collate { expr: inner, .. }
            | Expr::IsNull(inner)
            | Expr::IsNotNull(inner)
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotUnknown(inner)
            | Expr::IsDistinctFrom(inner, _)
            | Expr::IsNotDistinctFrom(inner, _)
            | Expr::AnyOp { left: inner, .. }
            | Expr::AllOp { left: inner, .. } => {
                expr = inner;
                continue;
            }
            Expr::Interval(interval) => {
                expr = &interval.value;
                continue;
            }
            Expr::Tuple(items) => {
                expr = items.first()?;
                continue;
            }
            _ => return None,
        };
        return Some(span.start);
    }
}

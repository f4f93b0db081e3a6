//! The parser's tree to a filter: the conditions. Their operands are in `operand.rs`.

use super::super::Filter;
use super::super::column::{BytesColumn, IntColumn};
use super::super::compare::CompareOp;
use super::WhereError;
use super::literal::{Column, LiteralValue, WrongType, bytes, headers_need_a_key, number};
use super::operand::{COLUMNS, Operand};
use super::place::Text;
use sqlparser::ast::{BinaryOperator, Expr, InTarget, UnaryOperator, Value, ValueWithSpan};

/// Converts the tree of this text.
pub(super) struct Converter<'t> {
    pub(super) text: Text<'t>,
}

impl Converter<'_> {
    /// Recurses as deep as the parser did: a chain of ANDs or ORs, for which it didn't, is walked in a loop.
    pub(super) fn condition(&self, expr: &Expr) -> Result<Filter, WhereError> {
        match expr {
            Expr::Nested(inner) => self.condition(inner),
            Expr::BinaryOp { op: BinaryOperator::And, .. } => self.chain(expr, &BinaryOperator::And, Filter::and),
            Expr::BinaryOp { op: BinaryOperator::Or, .. } => self.chain(expr, &BinaryOperator::Or, Filter::or),
            Expr::BinaryOp { left, op, right } => match compare_op(op) {
                Some(op) => self.comparison(left, op, right),
                None => Err(self.text.unsupported(expr)),
            },
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => Ok(!self.condition(expr)?),
            Expr::IsNull(column) => self.is_null(column),
            Expr::IsNotNull(column) => Ok(!self.is_null(column)?),
            Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                Ok(negate(*negated, self.like(expr, pattern, escape_char.as_deref())?))
            }
            Expr::In { expr, target: InTarget::List(items), negated, global: false } => {
                Ok(negate(*negated, self.in_list(expr, items)?))
            }
            Expr::Between { expr, negated, low, high } => Ok(negate(*negated, self.between(expr, low, high)?)),
            Expr::Value(ValueWithSpan { value: Value::Boolean(true), .. }) => Ok(Filter::always()),
            Expr::Value(ValueWithSpan { value: Value::Boolean(false), .. }) => Ok(Filter::never()),
            Expr::Value(ValueWithSpan { value: Value::Null, .. }) => Ok(Filter::unknown()),
            Expr::Identifier(_) | Expr::CompoundFieldAccess { .. } | Expr::Value(_) => {
                let what = match self.operand(expr)? {
                    Operand::Column(_) => "a column",
                    Operand::Literal(_) => "a literal",
                };
                Err(self.text.error(expr, format!("a condition is needed here, such as value = 'x'; this is {what}")))
            }
            _ => Err(self.text.unsupported(expr)),
        }
    }

    fn chain(
        &self,
        expr: &Expr,
        op: &BinaryOperator,
        join: fn(Filter, Filter) -> Filter,
    ) -> Result<Filter, WhereError> {
        let mut first = expr;
        let mut rest = Vec::new();
        while let Expr::BinaryOp { left, op: chained, right } = first
            && op == chained
        {
            rest.push(right);
            first = left;
        }
        let first = self.condition(first)?;
        rest.into_iter().rev().try_fold(first, |joined, operand| Ok(join(joined, self.condition(operand)?)))
    }

    fn comparison(&self, left: &Expr, op: CompareOp, right: &Expr) -> Result<Filter, WhereError> {
        let error = |expr, message: &str| Err(self.text.error(expr, message));
        let (column, column_expr, op, literal, literal_expr) = match (self.operand(left)?, self.operand(right)?) {
            (Operand::Column(column), Operand::Literal(literal)) => (column, left, op, literal, right),
            (Operand::Literal(literal), Operand::Column(column)) => (column, right, op.flipped(), literal, left),
            (Operand::Column(_), Operand::Column(_)) => {
                return error(right, "a column is compared with a literal here, not with another column");
            }
            (Operand::Literal(_), Operand::Literal(_)) => {
                return error(left, "one side of a comparison must be a column");
            }
        };
        // A literal of the wrong type is the mistake, unless there is no right one.
        let mistake = if matches!(column, Column::Headers) { column_expr } else { literal_expr };
        column.compare(op, literal).map_err(|wrong| self.wrong_type(mistake, wrong))
    }

    fn is_null(&self, expr: &Expr) -> Result<Filter, WhereError> {
        Ok(match self.column(expr)? {
            Column::Bytes(column) => column.is_null(),
            Column::Int(_) => Filter::never(),
            Column::Headers => Filter::headers_is_null(),
        })
    }

    fn like(&self, expr: &Expr, pattern: &Expr, escape: Option<&Expr>) -> Result<Filter, WhereError> {
        let column = self.like_column(expr)?;
        let escape = escape.map(|escape| self.escape(escape)).transpose()?;
        let literal = bytes(&column, self.literal(pattern)?).map_err(|wrong| self.wrong_type(pattern, wrong))?;
        match (literal, escape) {
            (None, _) => Ok(Filter::unknown()),
            (Some(literal), None) => Ok(column.like(literal)),
            (Some(literal), Some(escape)) => {
                column.like_escape(literal, escape).map_err(|wrong| self.text.error(pattern, wrong.to_string()))
            }
        }
    }

    fn like_column(&self, expr: &Expr) -> Result<BytesColumn, WhereError> {
        let wrong = match self.column(expr)? {
            Column::Bytes(column) => return Ok(column),
            Column::Int(IntColumn(source)) => WrongType(format!("LIKE looks at bytes, and {source} is a number")),
            Column::Headers => headers_need_a_key(),
        };
        Err(self.wrong_type(expr, wrong))
    }

    fn escape(&self, expr: &Expr) -> Result<char, WhereError> {
        if let LiteralValue::Bytes(bytes) = self.literal(expr)?
            && let Ok(text) = str::from_utf8(&bytes)
            && let [escape] = text.chars().collect::<Vec<_>>().as_slice()
        {
            return Ok(*escape);
        }
        Err(self.text.error(expr, "ESCAPE needs a text of one character, such as '!'"))
    }

    fn in_list(&self, expr: &Expr, items: &[Expr]) -> Result<Filter, WhereError> {
        match self.column(expr)? {
            Column::Bytes(column) => {
                let (literals, has_null) = self.literals(items, |literal| bytes(&column, literal))?;
                Ok(column.in_list(literals.into_iter().map(Vec::into_boxed_slice).collect(), has_null))
            }
            Column::Int(column) => {
                let (literals, has_null) = self.literals(items, |literal| number(column, literal))?;
                Ok(column.in_list(literals, has_null))
            }
            Column::Headers => Err(self.wrong_type(expr, headers_need_a_key())),
        }
    }

    /// The literals that are not null, and whether there was a null.
    fn literals<T>(
        &self,
        items: &[Expr],
        typed: impl Fn(LiteralValue) -> Result<Option<T>, WrongType>,
    ) -> Result<(Vec<T>, bool), WhereError> {
        let mut literals = Vec::with_capacity(items.len());
        let mut has_null = false;
        for item in items {
            match typed(self.literal(item)?).map_err(|wrong| self.wrong_type(item, wrong))? {
                Some(literal) => literals.push(literal),
                None => has_null = true,
            }
        }
        Ok((literals, has_null))
    }

    fn between(&self, expr: &Expr, low: &Expr, high: &Expr) -> Result<Filter, WhereError> {
        let column = self.column(expr)?;
        if matches!(column, Column::Headers) {
            return Err(self.wrong_type(expr, headers_need_a_key()));
        }
        let (from, to) = (self.literal(low)?, self.literal(high)?);
        if let (Column::Bytes(column), LiteralValue::Bytes(from), LiteralValue::Bytes(to)) = (&column, &from, &to) {
            return Ok(column.clone().between(from, to));
        }
        // Numbers, and ends that are NULL: a value beyond the other end is outside all the same.
        let from = column.clone().compare(CompareOp::Ge, from).map_err(|wrong| self.wrong_type(low, wrong))?;
        let to = column.compare(CompareOp::Le, to).map_err(|wrong| self.wrong_type(high, wrong))?;
        Ok(from.and(to))
    }

    fn column(&self, expr: &Expr) -> Result<Column, WhereError> {
        match self.operand(expr)? {
            Operand::Column(column) => Ok(column),
            Operand::Literal(_) => Err(self.text.error(expr, format!("a column is needed here: {COLUMNS}"))),
        }
    }

    fn literal(&self, expr: &Expr) -> Result<LiteralValue, WhereError> {
        match self.operand(expr)? {
            Operand::Literal(literal) => Ok(literal),
            Operand::Column(_) => Err(self.text.error(expr, "a literal is needed here, not a column")),
        }
    }

    fn wrong_type(&self, expr: &Expr, WrongType(message): WrongType) -> WhereError {
        self.text.error(expr, message)
    }
}

pub(super) fn compare_op(op: &BinaryOperator) -> Option<CompareOp> {
    Some(match op {
        BinaryOperator::Eq => CompareOp::Eq,
        BinaryOperator::NotEq => CompareOp::Ne,
        BinaryOperator::Lt => CompareOp::Lt,
        BinaryOperator::LtEq => CompareOp::Le,
        BinaryOperator::Gt => CompareOp::Gt,
        BinaryOperator::GtEq => CompareOp::Ge,
        _ => return None,
    })
}

fn negate(negated: bool, filter: Filter) -> Filter {
    if negated { !filter } else { filter }
}

//! The parser's tree to a filter.

use super::super::Filter;
use super::super::column::{BytesColumn, IntColumn};
use super::super::compare::CompareOp;
use super::error::brief;
use super::literal::{Column, Literal, LiteralValue, WrongType, bytes, headers_need_a_key, number};
use super::{WhereError, byte_position, timestamp};
use sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType, Expr, Ident, InTarget, Subscript, TimezoneInfo, UnaryOperator,
    Value, ValueWithSpan,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

const COLUMNS: &str = "key, value, topic, partition, offset, timestamp, timestampType and headers['…']";
/// Words that the parser takes for names where it expects an operand.
const OPERATORS: [&str; 7] = ["AND", "OR", "NOT", "LIKE", "IN", "BETWEEN", "IS"];
const SUPPORTED: &str = "supported are =, <>, <, <=, >, >=, LIKE, IN, BETWEEN, IS [NOT] NULL, AND, OR and NOT, between a column and a literal";

/// Knows the text, for the places of errors.
pub(super) struct Converter<'t> {
    text: &'t str,
    /// Where a subquery begins: its tree doesn't say.
    select: usize,
}

/// One side of an operator.
enum Operand {
    Column(Column, usize),
    Literal(Literal),
}

impl<'t> Converter<'t> {
    pub(super) fn new(text: &'t str, tokens: &[TokenWithSpan]) -> Self {
        let select =
            tokens.iter().find(|token| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::SELECT));
        Self { text, select: select.map_or(0, |token| byte_position(text, token.span.start)) }
    }

    /// Recurses as deep as the parser did: a chain of ANDs or ORs, for which it didn't, is walked in a loop.
    pub(super) fn condition(&self, expr: &Expr) -> Result<Filter, WhereError> {
        match expr {
            Expr::Nested(inner) => self.condition(inner),
            Expr::BinaryOp { op: BinaryOperator::And, .. } => self.chain(expr, &BinaryOperator::And, Filter::and),
            Expr::BinaryOp { op: BinaryOperator::Or, .. } => self.chain(expr, &BinaryOperator::Or, Filter::or),
            Expr::BinaryOp { left, op, right } => self.comparison(expr, left, op, right),
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
                    Operand::Column(..) => "a column",
                    Operand::Literal(_) => "a literal",
                };
                Err(self.error(expr, format!("a condition is needed here, such as value = 'x'; this is {what}")))
            }
            _ => Err(self.unsupported(expr)),
        }
    }

    fn chain(
        &self,
        expr: &Expr,
        chained: &BinaryOperator,
        join: fn(Filter, Filter) -> Filter,
    ) -> Result<Filter, WhereError> {
        let mut first = expr;
        let mut rest = Vec::new();
        while let Expr::BinaryOp { left, op, right } = first
            && op == chained
        {
            rest.push(right);
            first = left;
        }
        let first = self.condition(first)?;
        rest.into_iter().rev().try_fold(first, |joined, operand| Ok(join(joined, self.condition(operand)?)))
    }

    fn comparison(&self, expr: &Expr, left: &Expr, op: &BinaryOperator, right: &Expr) -> Result<Filter, WhereError> {
        let op = match op {
            BinaryOperator::Eq => CompareOp::Eq,
            BinaryOperator::NotEq => CompareOp::Ne,
            BinaryOperator::Lt => CompareOp::Lt,
            BinaryOperator::LtEq => CompareOp::Le,
            BinaryOperator::Gt => CompareOp::Gt,
            BinaryOperator::GtEq => CompareOp::Ge,
            _ => return Err(self.unsupported(expr)),
        };
        let (column, op, literal) = match (self.operand(left)?, self.operand(right)?) {
            (Operand::Column(Column::Headers, position), _) | (_, Operand::Column(Column::Headers, position)) => {
                return Err(self.wrong_type(headers_need_a_key(), position));
            }
            (Operand::Column(column, _), Operand::Literal(literal)) => (column, op, literal),
            (Operand::Literal(literal), Operand::Column(column, _)) => (column, op.flipped(), literal),
            (Operand::Column(..), Operand::Column(..)) => {
                return Err(
                    self.error(right, "a column is compared with a literal here, not with another column".to_owned())
                );
            }
            (Operand::Literal(_), Operand::Literal(_)) => {
                return Err(self.error(left, "one side of a comparison must be a column".to_owned()));
            }
        };
        column.compare(op, literal.value).map_err(|wrong| self.wrong_type(wrong, literal.position))
    }

    fn is_null(&self, expr: &Expr) -> Result<Filter, WhereError> {
        Ok(match self.column(expr)?.0 {
            Column::Bytes(column) => column.is_null(),
            Column::Int(_) => Filter::never(),
            Column::Headers => Filter::headers_is_null(),
        })
    }

    fn like(&self, expr: &Expr, pattern: &Expr, escape: Option<&Expr>) -> Result<Filter, WhereError> {
        let column = self.bytes_column(expr, "LIKE")?;
        let escape = escape.map(|escape| self.escape(escape)).transpose()?;
        let literal = self.literal(pattern)?;
        let pattern = bytes(&column, literal.value).map_err(|wrong| self.wrong_type(wrong, literal.position))?;
        let Some(pattern) = pattern else { return Ok(Filter::unknown()) };
        match escape {
            None => Ok(column.like(pattern)),
            Some(escape) => column
                .like_escape(pattern, escape)
                .map_err(|wrong| WhereError::new(wrong.to_string(), self.text, literal.position)),
        }
    }

    fn escape(&self, expr: &Expr) -> Result<char, WhereError> {
        if let LiteralValue::Bytes(bytes) = self.literal(expr)?.value
            && let Ok(text) = str::from_utf8(&bytes)
            && let [escape] = text.chars().collect::<Vec<_>>().as_slice()
        {
            return Ok(*escape);
        }
        Err(self.error(expr, "ESCAPE needs a text of one character, such as '!'".to_owned()))
    }

    fn in_list(&self, expr: &Expr, items: &[Expr]) -> Result<Filter, WhereError> {
        let (column, position) = self.column(expr)?;
        match column {
            Column::Bytes(column) => {
                let (literals, has_null) = self.literals(items, |literal| bytes(&column, literal))?;
                Ok(column.in_list(literals.into_iter().map(Vec::into_boxed_slice).collect(), has_null))
            }
            Column::Int(column) => {
                let (literals, has_null) = self.literals(items, |literal| number(column, literal))?;
                Ok(column.in_list(literals, has_null))
            }
            Column::Headers => Err(self.wrong_type(headers_need_a_key(), position)),
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
            let literal = self.literal(item)?;
            match typed(literal.value).map_err(|wrong| self.wrong_type(wrong, literal.position))? {
                Some(literal) => literals.push(literal),
                None => has_null = true,
            }
        }
        Ok((literals, has_null))
    }

    fn between(&self, expr: &Expr, low: &Expr, high: &Expr) -> Result<Filter, WhereError> {
        let (column, position) = self.column(expr)?;
        if matches!(column, Column::Headers) {
            return Err(self.wrong_type(headers_need_a_key(), position));
        }
        let (low, high) = (self.literal(low)?, self.literal(high)?);
        if let (Column::Bytes(column), LiteralValue::Bytes(low), LiteralValue::Bytes(high)) =
            (&column, &low.value, &high.value)
        {
            return Ok(column.clone().between(low, high));
        }
        // Numbers, and ends that are NULL: a value beyond the other end is outside all the same.
        let ends = [(CompareOp::Ge, low), (CompareOp::Le, high)].map(|(op, end)| {
            column.clone().compare(op, end.value).map_err(|wrong| self.wrong_type(wrong, end.position))
        });
        let [low, high] = ends;
        Ok(low?.and(high?))
    }

    fn column(&self, expr: &Expr) -> Result<(Column, usize), WhereError> {
        match self.operand(expr)? {
            Operand::Column(column, position) => Ok((column, position)),
            Operand::Literal(literal) => {
                Err(WhereError::new(format!("a column is needed here: {COLUMNS}"), self.text, literal.position))
            }
        }
    }

    fn bytes_column(&self, expr: &Expr, operator: &str) -> Result<BytesColumn, WhereError> {
        let (column, position) = self.column(expr)?;
        let wrong = match column {
            Column::Bytes(column) => return Ok(column),
            Column::Int(IntColumn(source)) => WrongType(format!("{operator} looks at bytes, and {source} is a number")),
            Column::Headers => headers_need_a_key(),
        };
        Err(self.wrong_type(wrong, position))
    }

    fn literal(&self, expr: &Expr) -> Result<Literal, WhereError> {
        match self.operand(expr)? {
            Operand::Literal(literal) => Ok(literal),
            Operand::Column(_, position) => {
                Err(WhereError::new("a literal is needed here, not a column", self.text, position))
            }
        }
    }

    fn operand(&self, expr: &Expr) -> Result<Operand, WhereError> {
        let literal = |value| Ok(Operand::Literal(Literal { value, position: self.position(expr) }));
        match expr {
            Expr::Nested(inner) => self.operand(inner),
            Expr::Identifier(name) => Ok(Operand::Column(self.named_column(name)?, self.position(expr))),
            Expr::CompoundFieldAccess { root, access_chain } => self.header(expr, root, access_chain),
            Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, format: None } => {
                self.cast(expr, inner, data_type)
            }
            Expr::Value(value) => literal(self.literal_value(value)?),
            Expr::UnaryOp { op: sign @ (UnaryOperator::Minus | UnaryOperator::Plus), expr: inner } => match &**inner {
                Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
                    // The tree has no place for the sign.
                    let before = self.text.get(..self.position(inner)).unwrap_or_default().trim_end();
                    let position = before.len().saturating_sub(1);
                    let sign = if *sign == UnaryOperator::Minus { "-" } else { "" };
                    match integer(&format!("{sign}{digits}")) {
                        Ok(number) => Ok(Operand::Literal(Literal { value: LiteralValue::Int(number), position })),
                        Err(message) => Err(WhereError::new(message, self.text, position)),
                    }
                }
                _ => Err(self.unsupported(expr)),
            },
            Expr::TypedString(typed) => {
                let is_timestamp = matches!(
                    typed.data_type,
                    DataType::Timestamp(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone)
                );
                match &typed.value.value {
                    Value::SingleQuotedString(text) if is_timestamp => match timestamp::parse(text) {
                        Some(ms) => literal(LiteralValue::Timestamp(ms)),
                        None => {
                            let message =
                                format!("'{}' is not a timestamp of the form {}", brief(text), timestamp::FORM);
                            Err(self.error(expr, message))
                        }
                    },
                    _ => Err(self.unsupported(expr)),
                }
            }
            Expr::BinaryOp { op, .. } if is_logical(op) => Err(self.not_an_operand(expr)),
            Expr::UnaryOp { op: UnaryOperator::Not, .. }
            | Expr::Like { .. }
            | Expr::In { .. }
            | Expr::Between { .. }
            | Expr::IsNull(_)
            | Expr::IsNotNull(_) => Err(self.not_an_operand(expr)),
            _ => Err(self.unsupported(expr)),
        }
    }

    fn not_an_operand(&self, expr: &Expr) -> WhereError {
        self.error(expr, "a column or a literal is needed here, not a condition".to_owned())
    }

    fn named_column(&self, name: &Ident) -> Result<Column, WhereError> {
        Ok(match name.value.to_ascii_lowercase().as_str() {
            "key" => Column::Bytes(Filter::key()),
            "value" => Column::Bytes(Filter::value()),
            "topic" => Column::Bytes(Filter::topic()),
            "partition" => Column::Int(Filter::partition()),
            "offset" => Column::Int(Filter::offset()),
            "timestamp" => Column::Int(Filter::timestamp()),
            "timestamptype" => Column::Int(Filter::timestamp_type()),
            "headers" => Column::Headers,
            _ => {
                if name.quote_style.is_none() && OPERATORS.contains(&name.value.to_ascii_uppercase().as_str()) {
                    let message = format!("a column or a literal is needed here, not {name}");
                    return Err(WhereError::new(message, self.text, byte_position(self.text, name.span.start)));
                }
                let name_shown = brief(name);
                let hint = if name.quote_style == Some('"') { "; text is written in single quotes" } else { "" };
                let message = format!("there is no column {name_shown}; the columns are {COLUMNS}{hint}");
                return Err(WhereError::new(message, self.text, byte_position(self.text, name.span.start)));
            }
        })
    }

    fn header(&self, expr: &Expr, root: &Expr, chain: &[AccessExpr]) -> Result<Operand, WhereError> {
        if let Expr::Identifier(name) = root
            && let Column::Headers = self.named_column(name)?
            && let [AccessExpr::Subscript(Subscript::Index { index })] = chain
            && let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(key), .. }) = index
        {
            return Ok(Operand::Column(Column::Bytes(Filter::header(key)), self.position(expr)));
        }
        Err(self.error(expr, "only headers has parts, and they are written headers['key']".to_owned()))
    }

    /// Spark's users cast the binary columns to text before they look at them. Bytes compare the same either way.
    fn cast(&self, expr: &Expr, inner: &Expr, data_type: &DataType) -> Result<Operand, WhereError> {
        let operand = self.operand(inner)?;
        let same = match (&operand, data_type) {
            (
                Operand::Column(Column::Bytes(_), _),
                DataType::String(None)
                | DataType::Text
                | DataType::Varchar(None)
                | DataType::Binary(None)
                | DataType::Varbinary(None)
                | DataType::Bytea,
            ) => true,
            // Not timestamp: Spark's cast to a number gives seconds.
            (Operand::Column(Column::Int(column), _), DataType::BigInt(None)) => !column.is_timestamp(),
            _ => false,
        };
        if same {
            return Ok(operand);
        }
        Err(self.error(
            expr,
            format!(
                "this cast to {} is not supported; key and value can be cast to STRING or BINARY",
                brief(data_type)
            ),
        ))
    }

    fn literal_value(&self, value: &ValueWithSpan) -> Result<LiteralValue, WhereError> {
        let position = byte_position(self.text, value.span.start);
        let error = |message: String| WhereError::new(message, self.text, position);
        match &value.value {
            Value::Number(digits, _) => Ok(LiteralValue::Int(integer(digits).map_err(error)?)),
            Value::SingleQuotedString(text) => Ok(LiteralValue::Bytes(text.clone().into_bytes())),
            Value::HexStringLiteral(digits) => match hex(digits) {
                Some(bytes) => Ok(LiteralValue::Bytes(bytes)),
                None => Err(error(format!("X'{}' needs an even number of hexadecimal digits", brief(digits)))),
            },
            Value::Boolean(_) => Ok(LiteralValue::Boolean),
            Value::Null => Ok(LiteralValue::Null),
            other => Err(error(format!(
                "the literal {} is not supported; text is written 'abc', bytes X'616263'",
                brief(other)
            ))),
        }
    }

    fn wrong_type(&self, WrongType(message): WrongType, position: usize) -> WhereError {
        WhereError::new(message, self.text, position)
    }

    fn error(&self, expr: &Expr, message: String) -> WhereError {
        WhereError::new(message, self.text, self.position(expr))
    }

    fn unsupported(&self, expr: &Expr) -> WhereError {
        let what = match expr {
            Expr::Function(function) => format!("the function {}", brief(&function.name)),
            Expr::BinaryOp { op, .. } => format!("the operator {op}"),
            Expr::UnaryOp { op, .. } => format!("the operator {op}"),
            Expr::In { target: InTarget::Subquery(_), .. } | Expr::Subquery(_) | Expr::Exists { .. } => {
                return WhereError::new(format!("a subquery is not supported; {SUPPORTED}"), self.text, self.select);
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

    fn position(&self, expr: &Expr) -> usize {
        location(expr).map_or(self.select, |location| byte_position(self.text, location))
    }
}

fn is_logical(op: &BinaryOperator) -> bool {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    matches!(op, And | Or | Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

fn negate(negated: bool, filter: Filter) -> Filter {
    if negated { !filter } else { filter }
}

fn integer(digits: &str) -> Result<i64, String> {
    digits.parse().map_err(|_| {
        let shown = brief(digits);
        if digits.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()) {
            format!("{shown} is outside the range of 64-bit numbers")
        } else {
            format!("{shown} is not a whole number")
        }
    })
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let nibble = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(nibble(high)? << 4 | nibble(low)?)).collect()
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

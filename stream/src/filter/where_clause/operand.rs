//! The parser's tree to columns and literals.

use super::super::Filter;
use super::convert::{Converter, compare_op};
use super::error::brief;
use super::literal::{Column, LiteralValue};
use super::{WhereError, timestamp};
use sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType, Expr, Ident, Subscript, TimezoneInfo, TypedString, UnaryOperator,
    Value, ValueWithSpan,
};

pub(super) const COLUMNS: &str = "key, value, topic, partition, offset, timestamp, timestampType and headers['…']";
/// Words that the parser takes for names where it expects an operand.
const OPERATORS: [&str; 7] = ["AND", "OR", "NOT", "LIKE", "IN", "BETWEEN", "IS"];

/// One side of an operator.
pub(super) enum Operand {
    Column(Column),
    Literal(LiteralValue),
}

impl Converter<'_> {
    pub(super) fn operand(&self, expr: &Expr) -> Result<Operand, WhereError> {
        match expr {
            Expr::Nested(inner) => self.operand(inner),
            Expr::Identifier(name) => Ok(Operand::Column(self.named_column(expr, name)?)),
            Expr::CompoundFieldAccess { root, access_chain } => self.header(expr, root, access_chain),
            Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, format: None } => {
                self.cast(expr, inner, data_type)
            }
            Expr::Value(value) => self.value(expr, &value.value),
            Expr::UnaryOp { op: sign @ (UnaryOperator::Minus | UnaryOperator::Plus), expr: inner } => match &**inner {
                Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
                    let sign = if *sign == UnaryOperator::Minus { "-" } else { "" };
                    self.integer(expr, &format!("{sign}{digits}"))
                }
                _ => Err(self.text.unsupported(expr)),
            },
            Expr::TypedString(typed) => self.timestamp(expr, typed),
            Expr::BinaryOp { op, .. }
                if compare_op(op).is_some() || matches!(op, BinaryOperator::And | BinaryOperator::Or) =>
            {
                Err(self.not_an_operand(expr))
            }
            Expr::UnaryOp { op: UnaryOperator::Not, .. }
            | Expr::Like { .. }
            | Expr::In { .. }
            | Expr::Between { .. }
            | Expr::IsNull(_)
            | Expr::IsNotNull(_) => Err(self.not_an_operand(expr)),
            _ => Err(self.text.unsupported(expr)),
        }
    }

    fn not_an_operand(&self, expr: &Expr) -> WhereError {
        self.text.error(expr, "a column or a literal is needed here, not a condition")
    }

    fn named_column(&self, expr: &Expr, name: &Ident) -> Result<Column, WhereError> {
        Ok(match name.value.to_ascii_lowercase().as_str() {
            "key" => Column::Bytes(Filter::key()),
            "value" => Column::Bytes(Filter::value()),
            "topic" => Column::Bytes(Filter::topic()),
            "partition" => Column::Int(Filter::partition()),
            "offset" => Column::Int(Filter::offset()),
            "timestamp" => Column::Int(Filter::timestamp()),
            "timestamptype" => Column::Int(Filter::timestamp_type()),
            "headers" => Column::Headers,
            _ if name.quote_style.is_none() && OPERATORS.contains(&name.value.to_ascii_uppercase().as_str()) => {
                return Err(self.text.error(expr, format!("a column or a literal is needed here, not {name}")));
            }
            _ => {
                let hint = if name.quote_style == Some('"') { "; text is written in single quotes" } else { "" };
                let message = format!("there is no column {}; the columns are {COLUMNS}{hint}", brief(name));
                return Err(self.text.error(expr, message));
            }
        })
    }

    fn header(&self, expr: &Expr, root: &Expr, chain: &[AccessExpr]) -> Result<Operand, WhereError> {
        if let Expr::Identifier(name) = root
            && let Column::Headers = self.named_column(root, name)?
            && let [AccessExpr::Subscript(Subscript::Index { index })] = chain
            && let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(key), .. }) = index
        {
            return Ok(Operand::Column(Column::Bytes(Filter::header(key))));
        }
        Err(self.text.error(expr, "only headers has parts, and they are written headers['key']"))
    }

    /// Spark's users cast the binary columns to text before they look at them. Bytes compare the same either way.
    fn cast(&self, expr: &Expr, inner: &Expr, data_type: &DataType) -> Result<Operand, WhereError> {
        let operand = self.operand(inner)?;
        let same = match (&operand, data_type) {
            (
                Operand::Column(Column::Bytes(_)),
                DataType::String(None)
                | DataType::Text
                | DataType::Varchar(None)
                | DataType::Binary(None)
                | DataType::Varbinary(None)
                | DataType::Bytea,
            ) => true,
            // Not timestamp: Spark's cast to a number gives seconds.
            (Operand::Column(Column::Int(column)), DataType::BigInt(None)) => !column.is_timestamp(),
            _ => false,
        };
        if same {
            return Ok(operand);
        }
        let data_type = brief(data_type);
        let message =
            format!("this cast to {data_type} is not supported; key and value can be cast to STRING or BINARY");
        Err(self.text.error(expr, message))
    }

    fn value(&self, expr: &Expr, value: &Value) -> Result<Operand, WhereError> {
        let literal = match value {
            Value::Number(digits, _) => return self.integer(expr, digits),
            Value::SingleQuotedString(text) => LiteralValue::Bytes(text.clone().into_bytes()),
            Value::HexStringLiteral(digits) => match hex(digits) {
                Some(bytes) => LiteralValue::Bytes(bytes),
                None => {
                    let message = format!("X'{}' needs an even number of hexadecimal digits", brief(digits));
                    return Err(self.text.error(expr, message));
                }
            },
            Value::Boolean(_) => LiteralValue::Boolean,
            Value::Null => LiteralValue::Null,
            other => {
                let shown = brief(other);
                let message = format!("the literal {shown} is not supported; text is written 'abc', bytes X'616263'");
                return Err(self.text.error(expr, message));
            }
        };
        Ok(Operand::Literal(literal))
    }

    fn timestamp(&self, expr: &Expr, typed: &TypedString) -> Result<Operand, WhereError> {
        let (
            DataType::Timestamp(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone),
            Value::SingleQuotedString(text),
        ) = (&typed.data_type, &typed.value.value)
        else {
            return Err(self.text.unsupported(expr));
        };
        match timestamp::parse(text) {
            Some(ms) => Ok(Operand::Literal(LiteralValue::Timestamp(ms))),
            None => {
                let message = format!("'{}' is not a timestamp of the form {}", brief(text), timestamp::FORM);
                Err(self.text.error(expr, message))
            }
        }
    }

    fn integer(&self, expr: &Expr, digits: &str) -> Result<Operand, WhereError> {
        match digits.parse() {
            Ok(number) => Ok(Operand::Literal(LiteralValue::Int(number))),
            Err(_) => {
                let whole = digits.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
                let wrong = if whole { "outside the range of 64-bit numbers" } else { "not a whole number" };
                Err(self.text.error(expr, format!("{} is {wrong}", brief(digits))))
            }
        }
    }
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let nibble = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(nibble(high)? << 4 | nibble(low)?)).collect()
}

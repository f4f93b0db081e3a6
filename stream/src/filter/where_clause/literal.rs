//! Literals, the columns they are compared with, and whether the two go together.

use super::super::Filter;
use super::super::column::{BytesColumn, IntColumn};
use super::super::compare::CompareOp;
use super::timestamp;

pub(super) enum LiteralValue {
    /// Text or `X'…'`.
    Bytes(Vec<u8>),
    Int(i64),
    /// `TIMESTAMP '…'`: milliseconds since the epoch.
    Timestamp(i64),
    Boolean,
    Null,
}

/// A column.
#[derive(Clone)]
pub(super) enum Column {
    Bytes(BytesColumn),
    Int(IntColumn),
    /// All headers: only IS NULL has a meaning for them.
    Headers,
}

/// A sentence about a column and what can't be done with it.
pub(super) struct WrongType(pub(super) String);

impl Column {
    pub(super) fn compare(self, op: CompareOp, literal: LiteralValue) -> Result<Filter, WrongType> {
        match self {
            Self::Bytes(column) => {
                let bytes = bytes(&column, literal)?;
                Ok(bytes.map_or_else(Filter::unknown, |bytes| column.compare(op, bytes)))
            }
            Self::Int(column) => {
                let number = number(column, literal)?;
                Ok(number.map_or_else(Filter::unknown, |number| column.compare(op, number)))
            }
            Self::Headers => Err(headers_need_a_key()),
        }
    }
}

pub(super) fn headers_need_a_key() -> WrongType {
    WrongType("headers is all headers; compare one of them, as headers['key'], or write headers IS NULL".to_owned())
}

/// The literal as bytes; `None` for NULL.
pub(super) fn bytes(column: &BytesColumn, literal: LiteralValue) -> Result<Option<Vec<u8>>, WrongType> {
    match literal {
        LiteralValue::Bytes(bytes) => Ok(Some(bytes)),
        LiteralValue::Null => Ok(None),
        LiteralValue::Int(_) | LiteralValue::Timestamp(_) | LiteralValue::Boolean => {
            Err(WrongType(format!("{} is bytes; it compares with text like 'abc' or bytes like X'616263'", column.0)))
        }
    }
}

/// The literal as a number; `None` for NULL.
pub(super) fn number(column: IntColumn, literal: LiteralValue) -> Result<Option<i64>, WrongType> {
    match literal {
        LiteralValue::Int(number) => Ok(Some(number)),
        LiteralValue::Timestamp(ms) if column.is_timestamp() => Ok(Some(ms)),
        LiteralValue::Null => Ok(None),
        _ if column.is_timestamp() => Err(WrongType(format!(
            "timestamp compares with a number of milliseconds since 1970 or with TIMESTAMP '…' ({})",
            timestamp::FORM
        ))),
        _ => Err(WrongType(format!("{} is a number; it compares with a whole number like 42", column.0))),
    }
}

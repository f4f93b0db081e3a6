//! `--where`: SQL text to a [`Filter`].
//!
//! The `sqlparser` crate cuts the text into tokens and parses them into its tree, which knows far more SQL than a filter can express; it is
//! then converted, and what has no meaning here is refused by name and place. The text may come from anyone: its length and its nesting are
//! limited before anything recurses over it.

mod convert;
mod error;
mod literal;
mod operand;
mod place;
#[cfg(test)]
mod tests;
mod timestamp;

pub use error::WhereError;

use super::Filter;
use convert::Converter;
use error::brief;
use place::{Text, byte_position};
use sqlparser::dialect::Dialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use std::thread;

/// The longest text, in bytes.
const TEXT_BYTES_MAX: usize = 1024 * 1024;
/// How deep parentheses and NOT may nest.
const NESTING_MAX: usize = 50;
/// A level of nesting takes up to 120 KiB of stack in a debug build of the parser. So it gets a stack of its own, whatever the caller's is; memory is
/// taken only for what is used of it.
const STACK_BYTES: usize = 16 * 1024 * 1024;
/// How many tokens a condition may have, literals and commas aside: `a = 1 OR a = 2 OR …` is parsed without recursion into a tree as deep as
/// it is long, and dropping that tree recurses. Long IN lists are flat, and not limited by this.
const TOKENS_MAX: usize = 10_000;

pub(super) fn parse(text: &str) -> Result<Filter, WhereError> {
    thread::scope(|scope| {
        let parsed = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, || parse_here(text));
        match parsed.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(parsed)) => parsed,
            Ok(Err(_)) => Err(WhereError::new("the parser failed on this expression", text, 0)),
            Err(e) => Err(WhereError::new(format!("no thread to parse the expression: {e}"), text, 0)),
        }
    })
}

fn parse_here(text: &str) -> Result<Filter, WhereError> {
    let error = |message: &str, position| WhereError::new(message, text, position);
    if text.len() > TEXT_BYTES_MAX {
        return Err(error(&format!("the expression is longer than {TEXT_BYTES_MAX} bytes"), TEXT_BYTES_MAX));
    }
    let tokens = match Tokenizer::new(&FilterDialect, text).tokenize_with_location() {
        Ok(tokens) => tokens,
        Err(e) => return Err(error(&sentence(&e.message), byte_position(text, e.location))),
    };
    check_tokens(text, &tokens)?;
    let converter = Converter { text: Text::new(text, &tokens) };
    let mut parser = Parser::new(&FilterDialect).with_recursion_limit(NESTING_MAX).with_tokens_with_locations(tokens);
    let expr = match parser.parse_expr() {
        Ok(expr) => expr,
        Err(ParserError::RecursionLimitExceeded) => {
            let place = byte_position(text, parser.peek_token_ref().span.start);
            return Err(error(&format!("the expression is nested deeper than {NESTING_MAX} levels"), place));
        }
        Err(ParserError::ParserError(message) | ParserError::TokenizerError(message)) => {
            return Err(parser_error(text, &message));
        }
    };
    let next = parser.peek_token_ref();
    if next.token != Token::EOF {
        let message = format!("unexpected {} after the end of the expression", brief(&next.token));
        return Err(error(&message, byte_position(text, next.span.start)));
    }
    converter.condition(&expr)
}

fn check_tokens(text: &str, tokens: &[TokenWithSpan]) -> Result<(), WhereError> {
    if tokens.iter().all(|token| matches!(token.token, Token::Whitespace(_) | Token::EOF)) {
        return Err(WhereError::new("the expression is empty", text, 0));
    }
    let mut structural = tokens.iter().filter(|token| {
        let flat = matches!(
            token.token,
            Token::Whitespace(_)
                | Token::Comma
                | Token::Number(..)
                | Token::SingleQuotedString(_)
                | Token::HexStringLiteral(_)
                | Token::EOF
        );
        !flat
    });
    if let Some(token) = structural.nth(TOKENS_MAX) {
        let message = format!(
            "the expression has more than {TOKENS_MAX} words and operators; a long list can be written with IN"
        );
        return Err(WhereError::new(message, text, byte_position(text, token.span.start)));
    }
    Ok(())
}

/// The parser's message has its place at the end, as text: `Expected: A, found: B at Line: 1, Column: 5`; without it, it is the end.
fn parser_error(text: &str, message: &str) -> WhereError {
    let located = message.rsplit_once(" at Line: ").and_then(|(message, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        Some((message, Location::new(line.parse().ok()?, column.parse().ok()?)))
    });
    let (message, location) = located.unwrap_or((message, Location::empty()));
    let position = byte_position(text, location);
    let expected = message.strip_prefix("Expected: ").and_then(|rest| rest.rsplit_once(", found: "));
    match expected {
        Some((_, "EOF")) => WhereError::new("unexpected end of expression", text, position),
        Some((expected, found)) => {
            WhereError::new(format!("expected {expected}, found {}", brief(found)), text, position)
        }
        None => WhereError::new(sentence(message), text, position),
    }
}

/// Messages of the tokenizer and the parser begin with a capital; ours don't.
fn sentence(message: &str) -> String {
    let mut chars = message.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// Standard SQL: text in single quotes without backslash escapes, names in double quotes or, as in Spark, in backticks.
#[derive(Debug)]
struct FilterDialect;

impl Dialect for FilterDialect {
    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_'
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '"' || ch == '`'
    }

    fn is_reserved_for_identifier(&self, kw: Keyword) -> bool {
        matches!(
            kw,
            Keyword::AND | Keyword::OR | Keyword::NOT | Keyword::LIKE | Keyword::IN | Keyword::BETWEEN | Keyword::IS
        )
    }
}

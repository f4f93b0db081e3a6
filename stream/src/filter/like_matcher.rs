//! Matches a LIKE pattern, in time linear in the value's length for each piece of the pattern.
//!
//! A pattern is cut at its `%` into segments. The first is matched at the start, the last one backwards from the end, and each in between
//! at the first place after the one before. Taking the first place is enough: of two places where a segment matches, the earlier one
//! also ends earlier, so no later choice could leave more room. Hence no backtracking.

use super::like::Piece;
use super::utf8::{char_start_before, char_width, is_boundary, next_boundary};
use memchr::memmem::Finder;

/// The shapes of patterns, the frequent ones with a matcher of their own.
#[derive(Clone, Debug)]
pub(super) enum Matcher {
    /// `%`
    Everything,
    /// `literal`
    Exact(Vec<u8>),
    /// `literal%`
    Prefix(Vec<u8>),
    /// `%literal`
    Suffix(Vec<u8>),
    /// `%literal%`
    Contains(Box<Finder<'static>>),
    /// Anything else.
    General(Box<General>),
}

impl Matcher {
    pub(super) fn compile(pieces: &[Piece]) -> Self {
        match pieces {
            [] => Self::Exact(Vec::new()),
            [Piece::Any] => Self::Everything,
            [Piece::Literal(literal)] => Self::Exact(literal.clone()),
            [Piece::Literal(literal), Piece::Any] => Self::Prefix(literal.clone()),
            [Piece::Any, Piece::Literal(literal)] => Self::Suffix(literal.clone()),
            [Piece::Any, Piece::Literal(literal), Piece::Any] => Self::Contains(Box::new(finder(literal))),
            _ => Self::General(Box::new(General::compile(pieces))),
        }
    }

    pub(super) fn matches(&self, value: &[u8]) -> bool {
        match self {
            Self::Everything => true,
            Self::Exact(literal) => value == literal.as_slice(),
            Self::Prefix(literal) => value.starts_with(literal),
            Self::Suffix(literal) => value.ends_with(literal),
            Self::Contains(finder) => finder.find(value).is_some(),
            Self::General(general) => general.matches(value),
        }
    }
}

fn finder(literal: &[u8]) -> Finder<'static> {
    Finder::new(literal).into_owned()
}

/// `first % middle % middle % last`, where a segment is made of literals and `_`.
#[derive(Clone, Debug)]
pub(super) struct General {
    first: Vec<Piece>,
    middle: Vec<Middle>,
    /// `None`: the pattern has no `%`, and `first` is all of it.
    last: Option<Vec<Piece>>,
}

/// A segment that may match anywhere: some `_`, then a literal that can be searched, then the rest.
#[derive(Clone, Debug)]
struct Middle {
    ones: usize,
    literal: Option<Box<Finder<'static>>>,
    rest: Vec<Piece>,
}

impl General {
    fn compile(pieces: &[Piece]) -> Self {
        let mut segments: Vec<&[Piece]> = pieces.split(|piece| *piece == Piece::Any).collect();
        let last = if segments.len() > 1 { segments.pop().map(<[Piece]>::to_vec) } else { None };
        let mut segments = segments.into_iter();
        let first = segments.next().unwrap_or_default().to_vec();
        Self { first, middle: segments.map(Middle::compile).collect(), last }
    }

    fn matches(&self, value: &[u8]) -> bool {
        let Some(mut at) = match_forwards(&self.first, value, 0) else { return false };
        let Some(last) = &self.last else { return at == value.len() };
        for segment in &self.middle {
            match segment.find(value, at) {
                Some(end) => at = end,
                None => return false,
            }
        }
        match_backwards(last, value).is_some_and(|start| start >= at)
    }
}

impl Middle {
    fn compile(segment: &[Piece]) -> Self {
        let ones = segment.iter().take_while(|piece| **piece == Piece::One).count();
        let mut rest = segment.iter().skip(ones);
        let literal = match rest.next() {
            Some(Piece::Literal(literal)) => Some(Box::new(finder(literal))),
            _ => None,
        };
        Self { ones, literal, rest: rest.cloned().collect() }
    }

    /// The end of the first match at or after `at`.
    fn find(&self, value: &[u8], mut at: usize) -> Option<usize> {
        if self.ones > 0 {
            at = next_boundary(value, at);
            for _ in 0..self.ones {
                at = one(value, at)?;
            }
        }
        let Some(finder) = &self.literal else { return Some(at) };
        loop {
            let start = at + finder.find(value.get(at..)?)?;
            // What stands before is either any bytes, or a `_`, which ends where a character does.
            if (self.ones == 0 || is_boundary(value, start))
                && let Some(end) = match_forwards(&self.rest, value, start + finder.needle().len())
            {
                return Some(end);
            }
            at = start + 1;
        }
    }
}

/// The end of the character at `at`, if one begins there.
fn one(value: &[u8], at: usize) -> Option<usize> {
    (at < value.len() && is_boundary(value, at)).then(|| at + char_width(value, at))
}

/// The end of `segment` when it begins at `at`.
fn match_forwards(segment: &[Piece], value: &[u8], at: usize) -> Option<usize> {
    segment.iter().try_fold(at, |at, piece| match piece {
        Piece::Literal(literal) => value.get(at..)?.starts_with(literal).then_some(at + literal.len()),
        Piece::One => one(value, at),
        // Segments hold none.
        Piece::Any => None,
    })
}

/// The start of `segment` when it ends where `value` does.
fn match_backwards(segment: &[Piece], value: &[u8]) -> Option<usize> {
    segment.iter().rev().try_fold(value.len(), |end, piece| match piece {
        Piece::Literal(literal) => value.get(..end)?.ends_with(literal).then(|| end - literal.len()),
        Piece::One if is_boundary(value, end) => char_start_before(value, end),
        Piece::One | Piece::Any => None,
    })
}

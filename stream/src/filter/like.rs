//! A LIKE pattern, parsed once into pieces and compiled into the cheapest matcher that does.
//!
//! `%` stands for any bytes, `_` for one character: one UTF-8 sequence, or one byte that belongs to none. There is no escape character
//! unless the pattern was given one, as in standard SQL. `contains`, `starts_with` and `ends_with` are patterns as well, so that there
//! is one way to match, to print and to find literals.

use super::like_matcher::Matcher;

/// A pattern. Two are equal when they mean the same pieces, however they were escaped.
#[derive(Clone, Debug)]
pub(super) struct Like {
    pieces: Vec<Piece>,
    matcher: Matcher,
}

/// What a pattern is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// These bytes.
    Literal(Vec<u8>),
    /// `_`.
    One,
    /// `%`.
    Any,
}

/// What is wrong with a LIKE pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LikeError {
    /// The pattern ends with its escape character.
    #[error("the pattern ends with its escape character '{0}'")]
    EndsWithEscape(char),
    /// The escape character stands before something that needs no escape.
    #[error("the escape character '{0}' may stand only before %, _ and itself")]
    NothingToEscape(char),
}

impl Like {
    /// `pattern`, in which every `%` and `_` is a wildcard.
    pub(super) fn unescaped(pattern: &[u8]) -> Self {
        let mut pieces = Pieces::default();
        pattern.iter().for_each(|byte| pieces.byte(*byte));
        Self::new(pieces)
    }

    /// `pattern`, in which `escape` takes the meaning from a `%`, a `_` or itself.
    pub(super) fn escaped(pattern: &[u8], escape: char) -> Result<Self, LikeError> {
        let mut buffer = [0; 4];
        let encoded = escape.encode_utf8(&mut buffer).as_bytes();
        let mut pieces = Pieces::default();
        let mut rest = pattern;
        while let Some((&byte, after)) = rest.split_first() {
            let Some(escaped) = rest.strip_prefix(encoded) else {
                pieces.byte(byte);
                rest = after;
                continue;
            };
            if let Some(after) = escaped.strip_prefix(encoded) {
                pieces.literal(encoded);
                rest = after;
                continue;
            }
            match escaped.split_first() {
                Some((wildcard @ (b'%' | b'_'), after)) => {
                    pieces.literal(&[*wildcard]);
                    rest = after;
                }
                Some(_) => return Err(LikeError::NothingToEscape(escape)),
                None => return Err(LikeError::EndsWithEscape(escape)),
            }
        }
        Ok(Self::new(pieces))
    }

    /// `%literal%`.
    pub(super) fn contains(literal: &[u8]) -> Self {
        let mut pieces = Pieces::default();
        pieces.any();
        pieces.literal(literal);
        pieces.any();
        Self::new(pieces)
    }

    /// `literal%`.
    pub(super) fn starts_with(literal: &[u8]) -> Self {
        let mut pieces = Pieces::default();
        pieces.literal(literal);
        pieces.any();
        Self::new(pieces)
    }

    /// `%literal`.
    pub(super) fn ends_with(literal: &[u8]) -> Self {
        let mut pieces = Pieces::default();
        pieces.any();
        pieces.literal(literal);
        Self::new(pieces)
    }

    fn new(pieces: Pieces) -> Self {
        let Pieces(pieces) = pieces;
        Self { matcher: Matcher::compile(&pieces), pieces }
    }

    /// Whether `value` matches. Allocates nothing.
    pub(super) fn matches(&self, value: &[u8]) -> bool {
        self.matcher.matches(value)
    }

    /// The pieces: neighbouring literals are one, and so are neighbouring `%`.
    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The longest run of bytes that every match contains; `None` if there is none.
    pub(super) fn longest_literal(&self) -> Option<&[u8]> {
        let literals = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Literal(literal) => Some(literal.as_slice()),
            Piece::One | Piece::Any => None,
        });
        literals.max_by_key(|literal| literal.len())
    }
}

impl PartialEq for Like {
    fn eq(&self, other: &Self) -> bool {
        self.pieces == other.pieces
    }
}

#[derive(Default)]
struct Pieces(Vec<Piece>);

impl Pieces {
    fn literal(&mut self, bytes: &[u8]) {
        match self.0.last_mut() {
            Some(Piece::Literal(literal)) => literal.extend_from_slice(bytes),
            _ if bytes.is_empty() => {}
            _ => self.0.push(Piece::Literal(bytes.to_vec())),
        }
    }

    fn byte(&mut self, byte: u8) {
        match byte {
            b'%' => self.any(),
            b'_' => self.0.push(Piece::One),
            _ => self.literal(&[byte]),
        }
    }

    fn any(&mut self) {
        if self.0.last() != Some(&Piece::Any) {
            self.0.push(Piece::Any);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, value: &[u8]) -> bool {
        Like::unescaped(pattern.as_bytes()).matches(value)
    }

    #[test]
    fn patterns() {
        for (pattern, value, expected) in [
            ("", "", true),
            ("", "a", false),
            ("%", "", true),
            ("%", "a", true),
            ("%%", "abc", true),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("abc%", "abcd", true),
            ("abc%", "ab", false),
            ("%abc", "xxabc", true),
            ("%abc", "abcx", false),
            ("%abc%", "xabcx", true),
            ("%abc%", "ab c", false),
            ("a%c", "ac", true),
            ("a%c", "abc", true),
            ("ab%bc", "abc", false),
            ("a%b%c", "a-b-b-c", true),
            ("a%b%c", "a-c-b", false),
            ("_", "", false),
            ("_", "é", true),
            ("_", "ab", false),
            ("__", "é", false),
            ("%_%", "", false),
            ("%_%", "x", true),
            ("_%_", "é", false),
            ("%___", "😀", false),
            ("%_", "😀", true),
            ("a_c", "a€c", true),
            ("%a_c%d", "a€cacabcad", true),
            ("%a_c%d", "a€b", false),
            ("%_b", "ab", true),
            ("%_b", "b", false),
            ("%__b%", "xbyzb", true),
            ("%__b%", "xb", false),
            ("%aab%b", "aaab", false),
            ("%aa_b", "aaaxb", true),
            ("%aab%b", "aaabb", true),
            ("a\\%", "a\\x", true),
        ] {
            assert_eq!(matches(pattern, value.as_bytes()), expected, "{value:?} LIKE {pattern:?}");
        }
    }

    #[test]
    fn an_invalid_byte_is_one_character() {
        assert!(matches("a_b", b"a\xFFb"));
        assert!(!matches("a_b", b"a\xFF\xFEb"));
        assert!(matches("a__b", b"a\xE2\x82b"), "a cut sequence is as many characters as bytes");
        assert!(matches("%_b", b"\x80b"));
    }

    #[test]
    fn bytes_inside_a_character_are_found_by_literals_only() {
        let euro = "€".as_bytes();
        assert!(Like::contains(&[0x82]).matches(euro));
        assert!(!Like::unescaped(b"%\x82_").matches(euro), "_ does not begin inside a character");
        assert!(!Like::unescaped(b"%_\x82%").matches(euro), "nor end there");
        assert!(Like::unescaped(b"\xE2%_").matches("€x".as_bytes()));
    }

    #[test]
    fn escapes() {
        let like = Like::escaped(b"10!%!_!!%", '!').unwrap();
        assert_eq!(like.pieces(), [Piece::Literal(b"10%_!".to_vec()), Piece::Any]);
        assert_eq!(like.longest_literal(), Some(&b"10%_!"[..]));
        assert_eq!(Like::escaped("é%é_".as_bytes(), 'é').unwrap().pieces(), [Piece::Literal(b"%_".to_vec())]);
        assert_eq!(Like::escaped(b"%%_", '%').unwrap().pieces(), [Piece::Literal(b"%".to_vec()), Piece::One]);
        assert_eq!(Like::escaped(b"a!", '!').unwrap_err(), LikeError::EndsWithEscape('!'));
        assert_eq!(Like::escaped(b"!a", '!').unwrap_err(), LikeError::NothingToEscape('!'));
    }

    #[test]
    fn no_pattern_takes_exponential_time() {
        let value = vec![b'a'; 100_000];
        let pattern = format!("{}b", "%a_".repeat(30));
        assert!(!matches(&pattern, &value));
        assert!(!matches("%aaaaaaaaaaaaaaaab_%", &value));
    }
}

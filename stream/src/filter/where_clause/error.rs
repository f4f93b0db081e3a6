//! What is wrong with a condition, and where.

use std::fmt;

/// Characters that are shown before and after the place.
const SHOWN_BEFORE: usize = 60;
const SHOWN_AFTER: usize = 40;

/// A condition that can't be understood. It prints as a sentence, the line, and a caret under the place:
///
/// ```text
/// unexpected end of expression
///   value LIKE
///             ^
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WhereError {
    message: String,
    position: usize,
    text: String,
}

impl WhereError {
    /// `position` is moved back to where a character begins. The message stays on one line.
    pub(super) fn new(message: impl Into<String>, text: &str, position: usize) -> Self {
        let message = message.into().replace(char::is_control, " ");
        let mut position = position.min(text.len());
        while !text.is_char_boundary(position) {
            position -= 1;
        }
        Self { message, position, text: text.to_owned() }
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where it is: the byte in the text, from 0; the text's length if something is missing at its end.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl fmt::Display for WhereError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = self.text.split_at_checked(self.position).unwrap_or((&self.text, ""));
        let before = before.rsplit(['\n', '\r']).next().unwrap_or_default();
        let after = after.split(['\n', '\r']).next().unwrap_or_default();
        let cut = before.chars().count().saturating_sub(SHOWN_BEFORE);
        let lead = if cut > 0 { "…" } else { "" };
        let tail = if after.chars().count() > SHOWN_AFTER { "…" } else { "" };
        // One column a character, so that the caret stands under its place; other controls could move the cursor.
        let show = |c: char| if c.is_control() { ' ' } else { c };
        let before: String = lead.chars().chain(before.chars().skip(cut)).map(show).collect();
        let after: String = after.chars().take(SHOWN_AFTER).map(show).collect();
        writeln!(f, "{}", self.message)?;
        writeln!(f, "  {before}{after}{tail}")?;
        write!(f, "  {:width$}^", "", width = before.chars().count())
    }
}

impl std::error::Error for WhereError {}

/// A piece of the text for a message: its beginning, if it is long.
pub(super) fn brief(piece: impl fmt::Display) -> String {
    let piece = piece.to_string();
    match piece.char_indices().nth(SHOWN_AFTER) {
        Some((end, _)) => piece.get(..end).unwrap_or_default().to_owned() + "…",
        None => piece,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_place() {
        let error = WhereError::new("unexpected end of expression", "value LIKE", 10);
        assert_eq!(error.to_string(), "unexpected end of expression\n  value LIKE\n            ^");
        let error = WhereError::new("no", "topic = 'ä' AND\n\tvalu = 'x'\nOR", 18);
        assert_eq!(error.to_string(), "no\n   valu = 'x'\n   ^");
    }

    #[test]
    fn a_long_line_is_shown_in_part() {
        let text = format!("{} HERE {}", "ä".repeat(100), "b".repeat(100));
        let error = WhereError::new("no", &text, 201);
        let shown = error.to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[1].starts_with("  …ä") && lines[1].ends_with("b…"), "{shown}");
        let column = lines[2].chars().count() - 1;
        assert_eq!(lines[1].chars().skip(column).take(4).collect::<String>(), "HERE");
    }

    #[test]
    fn a_place_inside_a_character_or_outside_the_text_is_moved() {
        assert_eq!(WhereError::new("", "ä", 1).position(), 0);
        assert_eq!(WhereError::new("", "ä", 9).position(), 2);
    }
}

//! Characters in bytes that are UTF-8 mostly.
//!
//! A value is cut, from left to right, into characters: a valid UTF-8 sequence is one, and so is each byte that belongs to none.
//! UTF-8 synchronises itself, so where a character begins can be told from the three bytes before, without walking from the start.

/// How many bytes the character at `at` takes: 1 to 4. `at` must be a boundary inside `bytes`.
pub(super) fn char_width(bytes: &[u8], at: usize) -> usize {
    let claimed = match bytes.get(at) {
        Some(0xC2..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xF4) => 4,
        _ => return 1,
    };
    match bytes.get(at..at + claimed) {
        Some(sequence) if std::str::from_utf8(sequence).is_ok() => claimed,
        _ => 1,
    }
}

/// Whether a character begins (or the bytes end) at `at`.
pub(super) fn is_boundary(bytes: &[u8], at: usize) -> bool {
    let Some(byte) = bytes.get(at) else { return true };
    // Only a continuation byte can lie inside a sequence.
    if byte & 0xC0 != 0x80 {
        return true;
    }
    !(1..=3usize).any(|back| at.checked_sub(back).is_some_and(|start| char_width(bytes, start) > back))
}

/// The first boundary at or after `at`.
pub(super) fn next_boundary(bytes: &[u8], mut at: usize) -> usize {
    while !is_boundary(bytes, at) {
        at += 1;
    }
    at
}

/// Where the character that ends at the boundary `end` begins; `None` at the start.
pub(super) fn char_start_before(bytes: &[u8], end: usize) -> Option<usize> {
    let single = end.checked_sub(1)?;
    let long = (2..=4usize).filter_map(|width| end.checked_sub(width).map(|start| (start, width)));
    Some(long.into_iter().find(|&(start, width)| char_width(bytes, start) == width).map_or(single, |(start, _)| start))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Boundaries by walking from the start.
    fn walked(bytes: &[u8]) -> Vec<usize> {
        let mut at = 0;
        let mut boundaries = vec![0];
        while at < bytes.len() {
            at += char_width(bytes, at);
            boundaries.push(at);
        }
        boundaries
    }

    #[test]
    fn local_boundaries_equal_walked_ones() {
        for sample in [
            "añ€😀z".as_bytes(),
            b"\xF0\x9F\x98",
            b"\x80\x80a",
            b"\xE2\x82a\xE2\x82\xAC",
            b"\xF0\xF0\x9F\x98\x80\x80",
            b"\xED\xA0\x80",
            b"\xC0\x80",
            b"",
        ] {
            let boundaries = walked(sample);
            for at in 0..=sample.len() {
                assert_eq!(is_boundary(sample, at), boundaries.contains(&at), "{sample:?} at {at}");
            }
            for pair in boundaries.windows(2) {
                assert_eq!(char_start_before(sample, pair[1]), Some(pair[0]), "{sample:?} before {}", pair[1]);
            }
            assert_eq!(char_start_before(sample, 0), None);
        }
    }
}

//! Where the records of a v2 section lie, by their lengths alone.

use super::records;
use crate::DecodeError;
use std::ops::Range;

/// Iterates over where each record of an inflated v2 section lies: from its length field to its end, in bytes from the section's start.
/// Nothing else of a record is read. Ends after the first error.
#[derive(Clone, Debug)]
pub struct RecordRanges<'a> {
    section: &'a [u8],
    position: usize,
    left: usize,
}

impl<'a> RecordRanges<'a> {
    pub(super) fn new(section: &'a [u8], count: usize) -> Self {
        Self { section, position: 0, left: count }
    }
}

impl Iterator for RecordRanges<'_> {
    type Item = Result<Range<usize>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let start = self.position;
        let item = match records::end_of_record(self.section, start) {
            Ok(end) if self.left == 0 => records::check_leftover(self.section, end).map(|()| end),
            other => other,
        };
        match item {
            Ok(end) => {
                self.position = end;
                Some(Ok(start..end))
            }
            Err(error) => {
                self.left = 0;
                Some(Err(error))
            }
        }
    }
}

impl std::iter::FusedIterator for RecordRanges<'_> {}

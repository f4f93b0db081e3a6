//! One search over a batch's whole record section in place of one for each record.
//!
//! A filter's literals must occur in every record it keeps, so a record without a hit needs no look by the filter. A hit proves nothing:
//! it may lie in another field, or across two records; the filter decides. What it keeps was searched twice, so where it keeps much, or where
//! records are large and the second search long, the filter looks at each record and nothing goes before it.

use crate::BoundFilter;
use memchr::memmem;

/// A search for shorter literals would stop at nearly every record.
const LITERAL_BYTES_MIN: usize = 3;
/// Of records larger than this on average, each is looked at by the filter itself. (Measured: at 1 KB one search a batch is a little cheaper,
/// at 10 KB it is when nothing is kept, and dearer when all is.)
const RECORD_BYTES_MAX: usize = 2 << 10;

/// What must occur in a record for the filter to keep it.
#[derive(Debug)]
pub(super) struct Prefilter {
    search: Search,
}

#[derive(Debug)]
enum Search {
    One(Box<memmem::Finder<'static>>),
    Any(Box<aho_corasick::AhoCorasick>),
}

impl Prefilter {
    /// The search for `filter`, if it has literals worth searching for.
    pub(super) fn new(filter: &BoundFilter) -> Option<Self> {
        let literals = filter.literals()?;
        if literals.is_empty() || literals.iter().any(|literal| literal.len() < LITERAL_BYTES_MIN) {
            return None;
        }
        let search = match literals.as_slice() {
            [literal] => Search::One(Box::new(memmem::Finder::new(literal).into_owned())),
            // Only a set of enormous literals can't be built; the filter does without then.
            literals => Search::Any(Box::new(aho_corasick::AhoCorasick::new(literals).ok()?)),
        };
        Some(Self { search })
    }

    /// Whether searching the section beats looking at each of its records.
    pub(super) fn pays_for(section: &[u8], records: i32) -> bool {
        usize::try_from(records).is_ok_and(|records| section.len() <= records.saturating_mul(RECORD_BYTES_MAX))
    }

    /// The hits in `section`, to be asked record by record.
    pub(super) fn hits<'a>(&'a self, section: &'a [u8]) -> Hits<'a> {
        let mut hits = Hits { prefilter: self, section, next: 0 };
        hits.advance(0);
        hits
    }
}

/// The hits of a section, in order.
pub(super) struct Hits<'a> {
    prefilter: &'a Prefilter,
    section: &'a [u8],
    /// Where the next hit begins; `usize::MAX` when there is none.
    next: usize,
}

impl Hits<'_> {
    /// Where the next hit begins, in bytes from the section's start; `usize::MAX` when there is none.
    #[inline]
    pub(super) fn next_at(&self) -> usize {
        self.next
    }

    /// Whether a hit begins before `end`, where a record ends that begins where the last one ended. Hits in it are passed over.
    #[inline]
    pub(super) fn any_before(&mut self, end: usize) -> bool {
        if self.next >= end {
            return false;
        }
        self.advance(end);
        true
    }

    /// Finds the first hit that begins at `from` or later.
    fn advance(&mut self, from: usize) {
        let rest = self.section.get(from..).unwrap_or_default();
        let found = match &self.prefilter.search {
            Search::One(finder) => finder.find(rest),
            Search::Any(automaton) => automaton.find(rest).map(|found| found.start()),
        };
        self.next = found.map_or(usize::MAX, |at| from + at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Filter;

    fn prefilter(text: &str) -> Option<Prefilter> {
        let filter: Filter = text.parse().unwrap();
        Prefilter::new(&filter.bind("t", 0))
    }

    #[test]
    fn hits_are_asked_record_by_record() {
        let prefilter = prefilter("value LIKE '%abc%'").unwrap();
        let section = b"xxabc abc|----|ab|c---|abc";
        let mut hits = prefilter.hits(section);
        let ends = [10, 15, 18, 23, 26];
        assert_eq!(ends.map(|end| hits.any_before(end)), [true, false, false, false, true]);
        assert!(!prefilter.hits(b"").any_before(10));
    }

    #[test]
    fn several_literals_and_none() {
        let prefilter_of_two = prefilter("value = 'abc' OR key = 'xyz'").unwrap();
        let mut hits = prefilter_of_two.hits(b"--xyz|----|-abc");
        assert_eq!([6, 11, 15].map(|end| hits.any_before(end)), [true, false, true]);
        for without in ["value LIKE '%ab%'", "NOT value = 'abc'", "offset > 5", "value = 'abc' OR offset = 5"] {
            assert!(prefilter(without).is_none(), "{without}");
        }
    }

    #[test]
    fn large_records_are_left_to_the_filter() {
        assert!(Prefilter::pays_for(&[0; 1000], 10));
        assert!(!Prefilter::pays_for(&[0; 30_000], 10));
        assert!(!Prefilter::pays_for(&[0; 10], -1));
    }
}

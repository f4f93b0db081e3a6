//! The nodes that hold offsets: their paths, and what is in them.

use crate::OptionError;
use ottla_client::TopicPartition;

/// How much of a value that is no offset is shown.
const SHOWN_CHARS: usize = 40;

/// Where the offsets of a group lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Paths {
    /// Empty, or a path without a slash at its end.
    pub(super) chroot: String,
    pub(super) group: String,
}

impl Paths {
    /// Checks a path to begin below, and a group, for what ZooKeeper takes.
    pub(super) fn new(chroot: &str, group: &str) -> Result<Self, OptionError> {
        let chroot = chroot.strip_suffix('/').unwrap_or(chroot);
        if let Some(names) = chroot.strip_prefix('/') {
            names.split('/').try_for_each(|name| is_name("a ZooKeeper path", name))?;
        } else if !chroot.is_empty() {
            return Err(OptionError::new(format!("the ZooKeeper path '{chroot}' does not begin with /")));
        }
        is_name("a group in ZooKeeper", group)?;
        Ok(Self { chroot: chroot.to_owned(), group: group.to_owned() })
    }

    /// The node that all groups of all programs share.
    pub(super) fn consumers(&self) -> String {
        format!("{}/consumers", self.chroot)
    }

    /// The parent of the topics.
    pub(super) fn offsets(&self) -> String {
        format!("{}/{}/offsets", self.consumers(), self.group)
    }

    pub(super) fn topic(&self, topic: &str) -> String {
        format!("{}/{topic}", self.offsets())
    }

    pub(super) fn partition(&self, partition: &TopicPartition) -> String {
        format!("{}/{}", self.topic(&partition.topic), partition.partition)
    }
}

/// Whether a node can have this name.
fn is_name(what: &str, name: &str) -> Result<(), OptionError> {
    let refused = |c: char| matches!(c, '/' | '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}');
    let reason = match name {
        "" => "it is empty",
        "." | ".." => "ZooKeeper has no relative paths",
        name if name.contains('/') => "/ separates nodes",
        name if name.contains(refused) => "it has a character that ZooKeeper refuses",
        _ => return Ok(()),
    };
    Err(OptionError::new(format!("{what} can't have the name '{}': {reason}", name.escape_debug())))
}

/// The partition that a node is named by.
pub(super) fn partition_number(name: &str) -> Option<i32> {
    // No second spelling of a number: that would be another node.
    name.parse().ok().filter(|number: &i32| *number >= 0 && number.to_string() == name)
}

/// An offset from its decimal text, white space around it aside. Anything else comes back as text to show, cut short.
pub(super) fn offset(bytes: &[u8]) -> Result<i64, String> {
    let text = str::from_utf8(bytes).map(str::trim).ok();
    let digits = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| shortened(bytes))
}

fn shortened(bytes: &[u8]) -> String {
    // No character takes more than four bytes.
    let beginning = bytes.get(..SHOWN_CHARS * 4).unwrap_or(bytes);
    let text = String::from_utf8_lossy(beginning);
    let shown: String = text.chars().take(SHOWN_CHARS).collect();
    if shown.len() == text.len() && beginning.len() == bytes.len() { shown } else { shown + "…" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_decimal_digits_are_an_offset() {
        for (text, value) in [("42", 42), (" 42\n", 42), ("0", 0), ("007", 7), ("9223372036854775807", i64::MAX)] {
            assert_eq!(offset(text.as_bytes()), Ok(value), "{text:?}");
        }
        for text in
            ["", " ", "abc", "-1", "+1", "1.5", "1e3", "4 2", "0x10", "{\"offset\":1}", "9223372036854775808", "٤٢"]
        {
            assert_eq!(offset(text.as_bytes()), Err(text.to_owned()));
        }
        assert_eq!(offset(b"\xff1"), Err("\u{fffd}1".to_owned()));
    }

    #[test]
    fn long_values_are_shown_cut_short() {
        assert_eq!(offset("x".repeat(40).as_bytes()), Err("x".repeat(40)));
        assert_eq!(offset("x".repeat(41).as_bytes()), Err("x".repeat(40) + "…"));
        assert_eq!(offset(&[b'y'; 1_000_000]), Err("y".repeat(40) + "…"));
        assert_eq!(offset("ü".repeat(500).as_bytes()), Err("ü".repeat(40) + "…"));
    }

    #[test]
    fn partitions_have_one_spelling() {
        assert_eq!(partition_number("0"), Some(0));
        assert_eq!(partition_number("2147483647"), Some(i32::MAX));
        for name in ["", "01", "+1", "-1", "x", "1 ", "2147483648"] {
            assert_eq!(partition_number(name), None, "{name:?}");
        }
    }

    #[test]
    fn paths_are_those_of_kafkas_old_consumers() {
        let paths = Paths::new("", "g").unwrap();
        assert_eq!(paths.partition(&TopicPartition::new("t", 3)), "/consumers/g/offsets/t/3");
        let paths = Paths::new("/a/b/", "team a").unwrap();
        assert_eq!(paths.partition(&TopicPartition::new("t", 0)), "/a/b/consumers/team a/offsets/t/0");
        assert_eq!(Paths::new("/", "g"), Paths::new("", "g"));
        for (chroot, group, part) in [
            ("", "", "it is empty"),
            ("", "team-a/x", "/ separates nodes"),
            ("", "..", "no relative paths"),
            ("", "a\nb", "refuses"),
            ("kafka", "g", "does not begin with /"),
            ("/a//b", "g", "it is empty"),
            ("/a/./b", "g", "no relative paths"),
        ] {
            let error = Paths::new(chroot, group).unwrap_err().to_string();
            assert!(error.contains(part), "{chroot:?} {group:?}: {error}");
        }
    }
}

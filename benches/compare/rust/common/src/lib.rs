//! What the Rust clients share: arguments, the two filters, the counts, and the line that `run` reads.

use memchr::memmem::Finder;

/// What the filter looks for in the values.
pub const NEEDLE: &[u8] = b"\"event\":\"purchase\"";

/// `BOOTSTRAP TOPIC filter|visit PARTITIONS`
pub struct Arguments {
    /// The broker's `host:port`.
    pub bootstrap: String,
    /// The topic to read from its earliest to its latest offset.
    pub topic: String,
    /// Whether key, headers and timestamp of every record are looked at, too.
    pub visit: bool,
    /// How many partitions the topic has, for a client that can't ask.
    pub partitions: i32,
}

impl Arguments {
    /// Those of the process.
    pub fn parse() -> Self {
        let mut arguments = std::env::args().skip(1);
        let mut next = || arguments.next().expect("BOOTSTRAP TOPIC filter|visit PARTITIONS");
        let (bootstrap, topic, work, partitions) = (next(), next(), next(), next());
        Self { bootstrap, topic, visit: work == "visit", partitions: partitions.parse().expect("a number") }
    }
}

/// What was counted; `run` holds it against what the topic was filled with.
pub struct Count {
    pub records: u64,
    pub value_bytes: u64,
    pub hits: u64,
    finder: Finder<'static>,
}

impl Default for Count {
    fn default() -> Self {
        Self { records: 0, value_bytes: 0, hits: 0, finder: Finder::new(NEEDLE) }
    }
}

impl Count {
    /// The filter `value LIKE '%"event":"purchase"%'`.
    #[inline]
    pub fn filter(&mut self, value: &[u8]) {
        self.records += 1;
        self.value_bytes += value.len() as u64;
        self.hits += u64::from(self.finder.find(value).is_some());
    }

    /// The filter that has to look at all of a record: see VISIT in topics.py.
    #[inline]
    pub fn visit<'r>(
        &mut self,
        key: Option<&[u8]>,
        value: &[u8],
        timestamp: i64,
        headers: impl Iterator<Item = (&'r [u8], &'r [u8])>,
    ) {
        self.records += 1;
        self.value_bytes += value.len() as u64;
        let mut hit = key == Some(b"user-99999999999");
        for (name, text) in headers {
            hit |= (name == b"source" && text == b"fax") || (name == b"trace" && text == b"ffffffffffffffff");
        }
        hit |= timestamp < 1_764_000_000_010;
        self.hits += u64::from(hit || self.finder.find(value).is_some());
    }

    /// Adds what another thread or task counted.
    pub fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.value_bytes += other.value_bytes;
        self.hits += other.hits;
    }

    /// The line that `run` reads.
    pub fn print(&self) {
        let Self { records, value_bytes, hits, .. } = self;
        println!("{{\"records\":{records},\"valueBytes\":{value_bytes},\"hits\":{hits}}}");
    }
}

//! Topics of click events, as those that `compare` fills: JSON values with `"event":"purchase"` in some of them. The same arguments give the
//! same bytes everywhere.

use bytes::Bytes;
use ottla_protocol::compression::{Compression, Compressor};
use ottla_protocol::record::{OwnedHeaders, Record, RecordBatchBuilder, RecordBatchOptions, TimestampType};
use std::fmt::Write;

/// All codecs.
pub const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

/// What the filter of the benches looks for.
pub const NEEDLE: &str = "\"event\":\"purchase\"";

/// A batch is full when its records have so many bytes before they are compressed: what a producer with `batch.size=131072` sends.
const BATCH_BYTES: usize = 128 << 10;
const FIRST_TIMESTAMP_MS: i64 = 1_764_000_000_000;
const EVENTS: [&str; 6] = ["click", "view", "scroll", "search", "login", "hover"];
const AGENTS: [&str; 5] = ["Firefox/128.0", "Chrome/131.0", "Safari/17.5", "Edge/130.0", "okhttp/4.12"];
const WORDS: [&str; 24] = [
    "alpha", "offer", "banner", "checkout", "spring", "summer", "promo", "mobile", "desktop", "north", "south",
    "variant", "control", "carousel", "footer", "search", "product", "detail", "rating", "stock", "coupon", "loyalty",
    "session", "theme",
];

/// What the records of a topic look like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// About how many bytes a value has: 20 without an event, 100, or more with attributes.
    pub value_bytes: usize,
    /// How many of a hundred values hold [`NEEDLE`]. (Values of 20 bytes never do.)
    pub purchases_percent: u32,
    /// Keys of 16 bytes.
    pub keys: bool,
    /// Two headers, `source` and `trace`.
    pub headers: bool,
    /// The codec of the batches.
    pub codec: Compression,
}

impl Shape {
    /// Values of about this size, 1 % purchases, no keys, no headers, not compressed.
    pub fn values(value_bytes: usize) -> Self {
        Self { value_bytes, purchases_percent: 1, keys: false, headers: false, codec: Compression::None }
    }

    /// With this codec.
    #[must_use]
    pub fn codec(self, codec: Compression) -> Self {
        Self { codec, ..self }
    }
}

/// What there is to count in records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Records.
    pub records: u64,
    /// Bytes of their values.
    pub value_bytes: u64,
    /// Those whose value holds [`NEEDLE`].
    pub hits: u64,
}

/// Record batches of one partition, from offset 0 on, and what is in them.
#[derive(Debug)]
pub struct Run {
    /// Each batch by itself.
    pub batches: Vec<Bytes>,
    /// What a reader has to find.
    pub counts: Counts,
}

impl Run {
    /// `records` records.
    ///
    /// # Panics
    /// When a batch can't be built.
    pub fn build(shape: Shape, records: u32) -> Self {
        let mut events = Events { state: u64::from(records), shape, text: String::new() };
        let mut compressor = Compressor::new();
        let mut run = Self { batches: Vec::new(), counts: Counts::default() };
        let mut builder: Option<RecordBatchBuilder> = None;
        let mut close = |builder: RecordBatchBuilder| {
            run.batches.push(builder.build(&mut compressor).expect("a batch").freeze());
        };
        for offset in 0..i64::from(records) {
            let timestamp = FIRST_TIMESTAMP_MS + offset / 7;
            let key = format!("user-{:011}", events.below(200_000));
            let headers = if shape.headers { events.headers() } else { OwnedHeaders::default() };
            let value = events.value(timestamp);
            let batch = builder.get_or_insert_with(|| {
                RecordBatchBuilder::new(RecordBatchOptions::new(offset).compression(shape.codec))
            });
            batch
                .append(&Record {
                    offset,
                    timestamp,
                    timestamp_type: TimestampType::CreateTime,
                    key: shape.keys.then_some(key.as_bytes()),
                    value: Some(value.as_bytes()),
                    headers: headers.as_headers(),
                })
                .expect("a record");
            run.counts.records += 1;
            run.counts.value_bytes += value.len() as u64;
            run.counts.hits += u64::from(value.contains(NEEDLE));
            if batch.section_bytes() >= BATCH_BYTES {
                builder.take().into_iter().for_each(&mut close);
            }
        }
        builder.into_iter().for_each(close);
        run
    }

    /// All batches one after the other, as a Fetch response has them.
    pub fn bytes(&self) -> Bytes {
        self.batches.concat().into()
    }
}

/// Makes values of a shape, from numbers that only look random (SplitMix64).
struct Events {
    state: u64,
    shape: Shape,
    text: String,
}

impl Events {
    fn below(&mut self, bound: u32) -> u32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((((mixed ^ (mixed >> 31)) >> 32) * u64::from(bound)) >> 32) as u32
    }

    fn of(&mut self, words: &[&'static str]) -> &'static str {
        words[self.below(words.len() as u32) as usize]
    }

    fn headers(&mut self) -> OwnedHeaders {
        let trace = format!("{:08x}{:08x}", self.below(u32::MAX), self.below(u32::MAX));
        let mut headers = OwnedHeaders::default();
        headers.push(b"source", Some(self.of(&["web", "app", "api"]).as_bytes()));
        headers.push(b"trace", Some(trace.as_bytes()));
        headers
    }

    fn value(&mut self, timestamp: i64) -> &str {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        self.write_value(&mut text, timestamp).expect("a string takes everything");
        self.text = text;
        &self.text
    }

    fn write_value(&mut self, text: &mut String, timestamp: i64) -> std::fmt::Result {
        let (user, goal) = (self.below(200_000), self.shape.value_bytes);
        if goal < 64 {
            return write!(text, "{{\"u\":{user},\"n\":{}}}", self.below(10_000));
        }
        let is_purchase = self.below(100) < self.shape.purchases_percent;
        let event = if is_purchase { "purchase" } else { self.of(&EVENTS) };
        write!(
            text,
            "{{\"user\":\"u{user}\",\"event\":\"{event}\",\"ts\":{timestamp},\"page\":\"/p/{}\"",
            self.below(1000)
        )?;
        write!(text, ",\"ua\":\"{}\"", self.of(&AGENTS))?;
        if goal <= 128 {
            return write!(text, ",\"ms\":{}}}", self.below(3000));
        }
        text.push_str(",\"attrs\":[");
        while text.len() + 40 < goal {
            let (name, first, second) = (self.of(&WORDS), self.of(&WORDS), self.of(&WORDS));
            write!(text, "{{\"k\":\"{name}\",\"w\":\"{first}-{second}\",\"n\":{}}},", self.below(10_000))?;
        }
        text.pop();
        text.push_str("]}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_about_the_size_asked_for_and_the_hits() {
        for (asked, records) in [(20, 10_000), (100, 10_000), (1024, 1000), (100 << 10, 10)] {
            let counts = Run::build(Shape::values(asked), records).counts;
            let average = counts.value_bytes as usize / records as usize;
            assert!((asked * 9 / 10..=asked * 11 / 10).contains(&average), "{asked}: {average}");
        }
        let hits =
            |purchases_percent| Run::build(Shape { purchases_percent, ..Shape::values(100) }, 10_000).counts.hits;
        assert_eq!((hits(0), hits(100)), (0, 10_000));
        assert!((50..200).contains(&hits(1)), "{}", hits(1));
    }

    #[test]
    fn the_same_arguments_give_the_same_bytes() {
        let shape = Shape { keys: true, headers: true, ..Shape::values(100) };
        assert_eq!(Run::build(shape, 5000).batches, Run::build(shape, 5000).batches);
    }
}

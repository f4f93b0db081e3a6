//! A fixed piece of work for `instructions.sh`, which counts its instructions under callgrind.
//!
//! ```text
//! instructions serve                            a broker with the topics to read; prints its address, ends with its input
//! instructions walk|keep|read CODEC N [ADDRESS] the work on N batches' worth of records; prints how many records that were
//! ```
//! `walk`: header, CRC, inflating, every record. `keep`: and every record given to `BoundFilter::keep`, 1 % hits. `read`: the whole product, from
//! the broker that `serve` is, planning and connections included: fetch, filter, 1 % hits, nothing printed.

use ottla_benches::data::{CODECS, Counts, Run, Shape};
use ottla_benches::read::{Embedded, TopicReader, decode, purchases};
use ottla_protocol::compression::{Compression, Decompressor};
use std::hint::black_box;
use std::io::Read;

/// What N counts: about 100 KB of values.
const RECORDS: u32 = 1_000;
const PARTITIONS: i32 = 2;
/// The sizes that `serve` has topics of; the same as in `instructions.sh`.
const SIZES: [u32; 2] = [10, 110];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["serve"] => serve(),
        ["read", codec, size, address] => {
            let reader = TopicReader::connect(address, &topic(codec, size), purchases(), 1);
            report(reader.read());
        }
        [work @ ("walk" | "keep"), codec, rounds] => in_memory(work, codec, rounds.parse().expect("a number")),
        _ => {
            eprintln!("usage: instructions serve | walk|keep CODEC N | read CODEC N ADDRESS");
            std::process::exit(2);
        }
    }
}

fn topic(codec: impl std::fmt::Display, size: impl std::fmt::Display) -> String {
    format!("{codec}-{size}")
}

fn serve() {
    let broker = Embedded::start();
    for codec in CODECS {
        for size in SIZES {
            let run = Run::build(Shape::values(100).codec(codec), size * RECORDS / PARTITIONS as u32);
            broker.fill(&topic(codec, size), PARTITIONS, &run);
        }
    }
    println!("{}", broker.bootstrap_servers());
    // Until whoever started this closes the pipe, or ends.
    let _ = std::io::stdin().read(&mut [0]);
}

fn in_memory(work: &str, codec: &str, rounds: u32) {
    let codec: Compression = CODECS.into_iter().find(|known| known.name() == codec).expect("a codec");
    let run = Run::build(Shape::values(100).codec(codec), RECORDS);
    let bytes = run.bytes();
    let mut decompressor = Decompressor::new();
    let filter = purchases().bind("t", 0);
    let mut seen = Counts::default();
    for _ in 0..rounds {
        let counts = match work {
            "keep" => decode(black_box(&bytes), &mut decompressor, |record| filter.keep(record)),
            _ => decode(black_box(&bytes), &mut decompressor, |_| false),
        };
        assert_eq!(counts, Counts { hits: if work == "keep" { run.counts.hits } else { 0 }, ..run.counts });
        seen.records += counts.records;
        seen.value_bytes += counts.value_bytes;
        seen.hits += counts.hits;
    }
    report(seen);
}

fn report(counts: Counts) {
    println!("{}", counts.records);
}

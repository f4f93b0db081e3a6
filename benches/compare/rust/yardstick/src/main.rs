//! The yardstick: what a reader costs that does nothing but the work. One broker, Fetch 11 on a blocking socket, one reused buffer, the
//! next request before decoding, CRC-32C, codecs with kept contexts; no errors handled, no transactions, nothing untrusted.
//!
//! `BOOTSTRAP TOPIC filter|scan|visit CONNECTIONS`: `filter` searches each value, `scan` each batch as a whole, `visit` looks at everything.
//! Each connection has a thread of its own and its share of the partitions.

mod codec;
mod connection;

use codec::Decoder;
use compare_common::{Count, NEEDLE};
use connection::{Connection, PartitionOffsets, batches, each_partition};
use memchr::memmem::Finder;

/// What a request asks for of each partition: more no longer fits into the cache.
const PARTITION_BYTES: i32 = 1 << 20;

#[derive(Clone, Copy)]
enum Work {
    Filter,
    Scan,
    Visit,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bootstrap, topic, work, connections] = arguments.as_slice() else {
        panic!("BOOTSTRAP TOPIC filter|scan|visit CONNECTIONS")
    };
    let work = match work.as_str() {
        "filter" => Work::Filter,
        "scan" => Work::Scan,
        _ => Work::Visit,
    };
    let partitions = Connection::open(bootstrap).offsets(topic);
    let connections: usize = connections.parse().expect("a number");
    let mut total = Count::default();
    if connections == 1 {
        total.add(&read(bootstrap, topic, work, partitions));
    } else {
        std::thread::scope(|scope| {
            let shares = partitions.chunks(partitions.len().div_ceil(connections));
            let start = |share: &[PartitionOffsets]| {
                let share = share.to_vec();
                scope.spawn(move || read(bootstrap, topic, work, share))
            };
            let threads: Vec<_> = shares.map(start).collect();
            threads.into_iter().for_each(|thread| total.add(&thread.join().expect("all of its share")));
        });
    }
    total.print();
}

fn read(bootstrap: &str, topic: &str, work: Work, mut partitions: Vec<PartitionOffsets>) -> Count {
    let mut connection = Connection::open(bootstrap);
    let mut buffer = Vec::new();
    let mut decoder = Decoder::default();
    let finder = Finder::new(NEEDLE);
    let mut count = Count::default();
    partitions.retain(|partition| partition.position < partition.end);
    if !partitions.is_empty() {
        connection.send_fetch(topic, &partitions, PARTITION_BYTES);
    }
    while !partitions.is_empty() {
        let response = connection.receive(&mut buffer);
        each_partition(response, |index, records| {
            let partition = partitions.iter_mut().find(|partition| partition.index == index).expect("a partition");
            if let Some(last) = batches(records).last() {
                partition.position = last.next_offset();
            }
        });
        partitions.retain(|partition| partition.position < partition.end);
        if !partitions.is_empty() {
            // Before decoding, so that the broker works meanwhile.
            connection.send_fetch(topic, &partitions, PARTITION_BYTES);
        }
        each_partition(response, |_, records| {
            for batch in batches(records) {
                assert_eq!(crc32c::crc32c(batch.crc_data()), batch.crc());
                let section = decoder.inflate(batch.codec(), batch.payload());
                match work {
                    Work::Filter => walk(section, batch.records(), |from, to| count.filter(&section[from..to])),
                    Work::Scan => scan(section, batch.records(), &finder, &mut count),
                    Work::Visit => visit(section, batch.records(), batch.base_timestamp(), &mut count),
                }
            }
        });
    }
    count
}

/// One search over the whole batch; a hit counts where it lies wholly in a value.
fn scan(section: &[u8], records: usize, finder: &Finder<'_>, count: &mut Count) {
    let mut found = finder.find_iter(section);
    let mut hit = found.next().unwrap_or(usize::MAX);
    walk(section, records, |from, to| {
        count.records += 1;
        count.value_bytes += (to - from) as u64;
        let mut any = false;
        while hit < to {
            any |= hit >= from && hit + NEEDLE.len() <= to;
            hit = found.next().unwrap_or(usize::MAX);
        }
        count.hits += u64::from(any);
    });
}

/// Where each record's value lies.
#[inline(always)]
fn walk(section: &[u8], records: usize, mut value: impl FnMut(usize, usize)) {
    let mut at = 0;
    for _ in 0..records {
        let length = varint(section, &mut at) as usize;
        let end = at + length;
        at += 1; // attributes
        varint(section, &mut at); // timestamp delta
        varint(section, &mut at); // offset delta
        let key = varint(section, &mut at);
        at += key.max(0) as usize;
        let length = varint(section, &mut at).max(0) as usize;
        value(at, at + length);
        at = end;
    }
}

fn visit(section: &[u8], records: usize, base_timestamp: i64, count: &mut Count) {
    let mut at = 0;
    for _ in 0..records {
        let length = varint(section, &mut at) as usize;
        let end = at + length;
        at += 1; // attributes
        let timestamp = base_timestamp + varint(section, &mut at);
        varint(section, &mut at); // offset delta
        let key = field(section, &mut at);
        let value = field(section, &mut at).unwrap_or_default();
        let headers = (0..varint(section, &mut at)).map(|_| {
            let name = field(section, &mut at).unwrap_or_default();
            (name, field(section, &mut at).unwrap_or_default())
        });
        count.visit(key, value, timestamp, headers);
        at = end;
    }
}

#[inline(always)]
fn field<'a>(section: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let length = usize::try_from(varint(section, at)).ok()?;
    let from = *at;
    *at += length;
    Some(&section[from..*at])
}

#[inline(always)]
fn varint(bytes: &[u8], at: &mut usize) -> i64 {
    let (mut raw, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        raw |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return (raw >> 1) as i64 ^ -((raw & 1) as i64);
        }
        shift += 7;
    }
}

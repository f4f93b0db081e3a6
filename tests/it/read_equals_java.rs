//! What `ottla read` prints is what Java's own consumers read from the same range: every codec and log shape, both isolation
//! levels, whole logs and cuts in the middle of batches.

use support::{
    Codec, ConsumedRecord, Isolation, KafkaCluster, Produce, ProducerRecord, Recipe, TimestampType, kafka_or_skip,
};

use crate::common::{isolation_option, offsets_json, read, rows, wait_until};

const BOTH: [Isolation; 2] = [Isolation::ReadUncommitted, Isolation::ReadCommitted];

/// Every record of a topic, compared; returns how many there were.
#[track_caller]
fn same_topic(kafka: &KafkaCluster, topic: &str, isolation: Isolation) -> usize {
    let expected = kafka.consume(topic, isolation);
    let args = ["--subscribe", topic, "--include-headers", "-X", isolation_option(isolation)];
    let printed = rows(&read(kafka.bootstrap_servers(), &args).run().expect_code(0));
    assert_same(&printed, &expected, &format!("{topic} {isolation:?}"))
}

/// The records in `[from, until)` of one partition, compared; returns how many there were.
#[track_caller]
fn same_range(kafka: &KafkaCluster, topic: &str, isolation: Isolation, partition: i32, from: i64, until: i64) -> usize {
    let expected = kafka.consume_range(topic, isolation, partition, from, Some(until));
    let printed = range(kafka, topic, isolation, partition, from, until);
    assert_same(&printed, &expected, &format!("{topic}-{partition} [{from}, {until}) {isolation:?}"))
}

#[track_caller]
fn range(
    kafka: &KafkaCluster,
    topic: &str,
    isolation: Isolation,
    partition: i32,
    from: i64,
    until: i64,
) -> Vec<ConsumedRecord> {
    let assign = serde_json::json!({ topic: [partition] }).to_string();
    let (from, until) = (offsets_json(topic, &[(partition, from)]), offsets_json(topic, &[(partition, until)]));
    let args = ["--assign", &assign, "--starting-offsets", &from, "--ending-offsets", &until, "--include-headers"];
    let args = [&args[..], &["-X", isolation_option(isolation)]].concat();
    rows(&read(kafka.bootstrap_servers(), &args).run().expect_code(0))
}

#[track_caller]
fn assert_same(printed: &[ConsumedRecord], expected: &[ConsumedRecord], what: &str) -> usize {
    for (at, (ours, theirs)) in printed.iter().zip(expected).enumerate() {
        assert!(ours == theirs, "{what}: record {at} is {ours:?}, Java has {theirs:?}");
    }
    assert_eq!(printed.len(), expected.len(), "{what}: records");
    expected.len()
}

#[test]
fn every_codec_over_several_partitions() {
    let Some(kafka) = kafka_or_skip("reading every codec as Java's consumer does") else { return };
    let mut compared = 0;
    for codec in Codec::ALL {
        let topic = kafka.create_topic(&format!("java-{}", codec.name()), 3, &[]);
        let generated = Produce::generated(&topic, 21_000).codec(codec).partitions(3).batch_bytes(40_000);
        kafka.produce(&generated.keys("k").values("v", 30).headers(2).timestamps(1_700_000_000_000, 7));
        for isolation in BOTH {
            compared += same_topic(kafka, &topic, isolation);
        }
        // Batches hold hundreds of records: both ends lie within one.
        for (partition, from, until) in [(0, 1, 2), (1, 333, 5_001), (2, 6_998, 7_000), (0, 500, 500)] {
            assert_eq!(
                same_range(kafka, &topic, Isolation::ReadCommitted, partition, from, until) as i64,
                until - from
            );
        }
        same_as_the_console_consumer(kafka, &topic);
    }
    assert!(compared >= 200_000, "{compared} records compared");
}

/// Java's console consumer prints fields with tabs between; the same lines from our rows.
#[track_caller]
fn same_as_the_console_consumer(kafka: &KafkaCluster, topic: &str) {
    let (partition, from, count) = (1, 1_234, 3_000);
    let mut args = Vec::new();
    for property in ["print.timestamp", "print.partition", "print.offset", "print.headers", "print.key"] {
        args.extend(["--formatter-property".to_owned(), format!("{property}=true")]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let theirs = kafka.console_consumer(topic, partition, from, count, &args);
    let text =
        |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or("null".to_owned(), |b| String::from_utf8_lossy(b).into_owned());
    let line = |r: &ConsumedRecord| {
        assert_eq!(r.timestamp_type, TimestampType::CreateTime);
        let headers: Vec<String> = r.headers.iter().map(|(k, v)| format!("{k}:{}", text(v))).collect();
        format!(
            "CreateTime:{}\tPartition:{}\tOffset:{}\t{}\t{}\t{}\n",
            r.timestamp_ms,
            r.partition,
            r.offset,
            headers.join(","),
            text(&r.key),
            text(&r.value)
        )
    };
    let until = from + count as i64;
    let ours: String =
        range(kafka, topic, Isolation::ReadUncommitted, partition, from, until).iter().map(line).collect();
    let first_other = ours.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs);
    assert!(ours == theirs, "{topic}: {first_other:?}, {} and {} bytes", ours.len(), theirs.len());
}

#[test]
fn every_recipe_of_a_log() {
    let Some(kafka) = kafka_or_skip("reading transactions, compacted and deleted logs as Java's consumer does") else {
        return;
    };
    for recipe in Recipe::ALL {
        let made = recipe.make(kafka);
        for (isolation, records, end) in [
            (Isolation::ReadUncommitted, &made.uncommitted, made.end),
            (Isolation::ReadCommitted, &made.committed, made.stable_end),
        ] {
            assert_eq!(same_topic(kafka, &made.topic, isolation), records.len(), "{recipe:?} {isolation:?}");
            // Every cut of it, where the log is short.
            for from in (made.start..end).filter(|from| end <= 14 || from % 37 == 0) {
                let until = end - (from - made.start) % 3;
                if from <= until {
                    let inside = records.iter().filter(|o| (from..until).contains(*o)).count();
                    assert_eq!(same_range(kafka, &made.topic, isolation, 0, from, until), inside);
                }
            }
        }
    }
}

#[test]
fn interleaved_transactions_of_several_producers() {
    let Some(kafka) = kafka_or_skip("reading interleaved transactions as Java's consumer does") else { return };
    let topic = kafka.create_topic("java-transactions", 2, &[]);
    let producers: Vec<_> = [Codec::None, Codec::Zstd, Codec::Gzip]
        .map(|codec| kafka.transaction(&format!("{topic}-{}", codec.name()), &[("compression.type", codec.name())]))
        .into();
    let send = |producer: &support::Transaction, round: usize| {
        producer.send(&Produce::generated(&topic, 300).partitions(2).values(&format!("r{round}-"), 20));
    };
    for round in 0..8 {
        for producer in &producers {
            producer.begin();
        }
        for _ in 0..2 {
            for producer in &producers {
                send(producer, round);
            }
            kafka.produce(&Produce::generated(&topic, 100).partitions(2).values("plain", 0).codec(Codec::Lz4));
        }
        for (number, producer) in producers.iter().enumerate() {
            match (round + number) % 3 {
                0 => producer.abort(),
                _ => producer.commit(),
            }
        }
    }
    // One stays open: a reader of committed records ends before it.
    producers[0].begin();
    send(&producers[0], 8);
    kafka.produce(&Produce::generated(&topic, 100).partitions(2).values("behind", 0));

    let committed = same_topic(kafka, &topic, Isolation::ReadCommitted);
    let uncommitted = same_topic(kafka, &topic, Isolation::ReadUncommitted);
    assert_eq!(uncommitted, 8 * (3 * 600 + 200) + 300 + 100);
    assert_eq!(committed, 8 * 200 + 16 * 600);
    for isolation in BOTH {
        for (partition, from, until) in [(0, 155, 1_300), (1, 1_999, 4_020), (0, 640, 641)] {
            same_range(kafka, &topic, isolation, partition, from, until);
        }
    }
}

#[test]
fn compacted_batches_with_holes() {
    let Some(kafka) = kafka_or_skip("reading batches that compaction thinned out as Java's consumer does") else {
        return;
    };
    let config = [("cleanup.policy", "compact"), ("segment.ms", "1000"), ("min.cleanable.dirty.ratio", "0.01")];
    let topic = kafka.create_topic("java-compacted", 1, &config);
    // Every third key comes once, the others again and again: batches keep some of their records.
    let key = |i: i32| if i % 3 == 0 { format!("once{i}") } else { format!("again{}", i % 40) };
    let records = (0..3_000).map(|i| ProducerRecord::new(key(i), format!("value {i}")));
    kafka.produce(&Produce::records(&topic, records).codec(Codec::Lz4).flush_every(100));
    // A record after segment.ms closes the segment before it, and only closed segments are cleaned.
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    kafka.produce(&Produce::records(&topic, [ProducerRecord::new("last", "last")]));
    wait_until("compacted", std::time::Duration::from_secs(60), || {
        kafka.consume(&topic, Isolation::ReadUncommitted).len() < 1_100
    });
    assert!(same_topic(kafka, &topic, Isolation::ReadCommitted) > 1_000);
    for (from, until) in [(0, 3_001), (1, 2), (150, 151), (98, 1_501), (2_999, 3_001)] {
        same_range(kafka, &topic, Isolation::ReadUncommitted, 0, from, until);
    }
}

#[test]
fn nulls_empty_bytes_text_and_headers_of_every_kind() {
    let Some(kafka) = kafka_or_skip("reading nulls, binary values and headers as Java's consumer does") else { return };
    let odd: [Option<&[u8]>; 6] = [
        None,
        Some(b""),
        Some(b"text \"quoted\" \\ \n\t\x01 \x7f"),
        Some(&[0xff, 0, 0x80]),
        Some("é🚀\u{2028}".as_bytes()),
        Some(&[0]),
    ];
    for config in [&[][..], &[("message.timestamp.type", "LogAppendTime")]] {
        let topic = kafka.create_topic("java-odd", 2, config);
        let mut records = Vec::new();
        for (i, key) in odd.iter().enumerate() {
            for (j, value) in odd.iter().enumerate() {
                let mut record = ProducerRecord {
                    key: key.map(<[u8]>::to_vec),
                    value: value.map(<[u8]>::to_vec),
                    ..ProducerRecord::default()
                };
                record = record.to((i + j) as i32 % 2).at(1_600_000_000_000 + i as i64);
                for n in 0..j {
                    record = record.header(["h", "", "é", "h", "x"][n], odd[(i + n) % odd.len()]);
                }
                records.push(record);
            }
        }
        for codec in Codec::ALL {
            kafka.produce(&Produce::records(&topic, records.clone()).codec(codec));
        }
        for isolation in BOTH {
            assert_eq!(same_topic(kafka, &topic, isolation), Codec::ALL.len() * 36);
        }
    }
}

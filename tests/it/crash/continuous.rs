//! Continuous mode, killed between any two steps of an epoch: every record is written, at least once, and the group never has what is not
//! written.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use support::{Produce, kafka_or_skip};

use super::child::{Life, Point};
use super::disk::Disk;
use super::process::Running;
use super::schedule::{Aim, Seen};
use super::{group_offsets, kept_folder, rows};
use crate::common::wait_until;

#[test]
fn a_continuous_query_loses_nothing_when_it_is_killed() {
    let Some(kafka) = kafka_or_skip("a continuous query that is killed between any two steps") else { return };
    let folder = kept_folder();
    let topic = kafka.create_topic("crash-continuous", 2, &[]);
    let group = format!("{topic}-group");
    let life = |kill| Life {
        folder: folder.clone(),
        bootstrap: kafka.bootstrap_servers().to_owned(),
        topic: topic.clone(),
        group: group.clone(),
        limit: None,
        file_sink: true,
        trigger: "continuous:50ms".to_owned(),
        kill,
    };
    let aims = [
        Aim::Point(Point::BatchBegun, 2),
        Aim::Point(Point::Reading, 70),
        Aim::Point(Point::BatchRead, 1),
        Aim::File(Seen::OutputTemporary, 1, Duration::ZERO),
        Aim::Point(Point::OutputWritten, 2),
        Aim::File(Seen::Own, 0, Duration::ZERO),
        Aim::File(Seen::Offsets, 1, Duration::ZERO),
        Aim::Point(Point::Committed, 2),
        Aim::Point(Point::Committed, 1),
        Aim::Point(Point::Stored, 2),
    ];
    // What the group has is written: by partition, value and offset.
    let check = || {
        let (written, group) = (Disk::of(&folder).rows(), group_offsets(kafka, &group));
        let written: BTreeSet<_> = written.into_iter().collect();
        let done = |partition: i64, offset| group.iter().any(|(p, end)| i64::from(*p) == partition && offset < *end);
        let missing: Vec<_> = rows(kafka, &topic).into_iter().filter(|row| !written.contains(row)).collect();
        assert!(!missing.iter().any(|row| done(row.0, row.1)), "the group has {group:?}, the output lacks {missing:?}");
        missing.len()
    };
    for (number, aim) in aims.iter().enumerate() {
        let next_epoch = Disk::of(&folder).planned() + 1;
        let produce = || drop(kafka.produce(&Produce::generated(&topic, 100).partitions(2).flush_every(9)));
        produce();
        let kill = match aim {
            Aim::Point(point, times) => Some((*point, *times)),
            _ => None,
        };
        let mut process = Running::start(&life(kill));
        if number % 2 == 0 {
            produce();
        }
        process.kill(aim, &folder, next_epoch);
        check();
    }
    let last = Running::start(&life(None));
    wait_until("everything is committed", Duration::from_secs(30), || {
        let table = kafka.group_table(&group);
        table.len() == 2 && table.iter().all(|row| row.lag == Some(0))
    });
    assert_eq!(check(), 0);
    drop(last);
    let log = fs::read_to_string(folder.join("log")).expect("the log");
    assert!(!log.contains("warning "), "{log}");
    fs::remove_dir_all(&folder).expect("the folder can be removed");
}

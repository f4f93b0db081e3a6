//! S-S17: a batch whose output is there and whose commit is not is run again as it was.

use std::collections::BTreeMap;
use std::fs;

use support::{Produce, kafka_or_skip};

use super::child::{Life, Point};
use super::disk::{Disk, Ranges, ranges_of_batches};
use super::process::Running;
use super::schedule::Aim;
use super::{group_offsets, kept_folder};

#[test]
fn s_s17_killed_after_the_output_was_written_and_before_the_commit() {
    let Some(kafka) = kafka_or_skip("S-S17: kill -9 between output and commit") else { return };
    for file_sink in [true, false] {
        let folder = kept_folder();
        let topic = kafka.create_topic("s17", 1, &[]);
        let produce = |count| drop(kafka.produce(&Produce::generated(&topic, count).flush_every(3)));
        produce(25);
        let life = |limit, kill: Option<(Point, i64)>| Life {
            folder: folder.clone(),
            bootstrap: kafka.bootstrap_servers().to_owned(),
            topic: topic.clone(),
            group: format!("{topic}-group"),
            limit,
            file_sink,
            trigger: if kill.is_some() { "0s" } else { "available-now" }.to_owned(),
            kill,
        };
        // In batch 4, then in the same one again.
        for (comes_there, runs) in [(5, 5), (1, 6)] {
            let aim = Aim::Point(Point::OutputWritten, comes_there);
            Running::start(&life(Some(5), Some((Point::OutputWritten, comes_there)))).kill(&aim, &folder, 0);
            let (disk, group) = (Disk::of(&folder), group_offsets(kafka, &format!("{topic}-group")));
            disk.check(&group);
            assert_eq!((disk.committed(), disk.planned(), &disk.outputs), (3, 4, &vec![0, 1, 2, 3, 4]));
            assert_eq!((disk.rows().len(), group), (25, BTreeMap::from([(0, 20)])));
            let log = fs::read_to_string(folder.join("log")).expect("the log");
            assert_eq!(log.lines().filter(|line| line.starts_with("begin ")).count(), runs);
        }
        produce(10);
        Running::start(&life(None, None)).end();
        let (disk, group) = (Disk::of(&folder), group_offsets(kafka, &format!("{topic}-group")));
        disk.check(&group);
        let (batches, replays) = ranges_of_batches(&fs::read_to_string(folder.join("log")).expect("the log"));
        // From the first piece's start to the last one's end.
        let whole = |ranges: &Ranges| Some((ranges.first()?.1, ranges.last()?.2));
        let ranges: Vec<_> = batches.values().skip(4).filter_map(whole).collect();
        assert_eq!((ranges, replays), (vec![(20, 25), (25, 35)], 2), "the new ones come in batch 5");
        assert_eq!(disk.rows().iter().map(|row| row.1).collect::<Vec<_>>(), (0..35).collect::<Vec<_>>());
        assert_eq!((disk.committed(), group), (5, BTreeMap::from([(0, 35)])));
        fs::remove_dir_all(&folder).expect("the folder can be removed");
    }
}

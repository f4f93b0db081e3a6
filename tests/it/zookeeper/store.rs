//! The store by itself: paths, values, versions, credentials.

use ottla_stream::{OffsetStore, ZooKeeperErrorKind};
use tokio::join;

use super::{Other, commit, kind, loaded, offsets, shared, store, stored};
use crate::common::block_on;

#[test]
fn what_is_stored_is_what_kafkas_old_consumers_read() {
    let Some(server) = shared("offsets in ZooKeeper") else { return };
    let ours = store(server, "?group=plain", &[]);
    block_on(async {
        assert_eq!(loaded(&ours, None).await.expect("an answer"), offsets(&[]));
        let first = [("a", 0, 0), ("a", 11, 42), ("b", 0, i64::MAX)];
        assert_eq!(stored(&ours, &first).await.expect("stored"), offsets(&first));
        assert_eq!(loaded(&ours, None).await.expect("an answer"), offsets(&first));
        let some = loaded(&ours, Some(&[("a", 0), ("a", 1), ("z", 0)])).await.expect("an answer");
        assert_eq!(some, offsets(&[("a", 0, 0)]), "S-O02: 0 is an offset, and what is missing is none");
        assert_eq!(loaded(&ours, Some(&[])).await.expect("an answer"), offsets(&[]));
    });
    let said = server.shell(&["get", "/consumers/plain/offsets/a/11"]).expect_code(0);
    assert_eq!(said.lines().last().map(String::as_str), Some("42"));
    assert_eq!(ours.name(), format!("ZooKeeper group 'plain' at {}", server.connect_string()));
}

#[test]
fn s_z02_other_texts_and_a_chroot() {
    let Some(server) = shared("S-Z02: what nodes hold") else { return };
    let ours = store(server, "/kafka/prod?group=z02", &[]);
    block_on(async {
        let other = Other::connect(server).await;
        let base = "/kafka/prod/consumers/z02/offsets/t";
        for (partition, text) in [(0, "42"), (1, " 42\n"), (2, "0042")] {
            other.put(&format!("{base}/{partition}"), text.as_bytes()).await;
        }
        assert_eq!(loaded(&ours, None).await.expect("an answer"), offsets(&[("t", 0, 42), ("t", 1, 42), ("t", 2, 42)]));
        for text in ["", "abc", "-1", "+1", "9223372036854775808", r#"{"offset":42}"#] {
            other.put(&format!("{base}/1"), text.as_bytes()).await;
            let error = loaded(&ours, Some(&[("t", 0), ("t", 1)])).await.expect_err("no offset");
            assert_eq!(error.condition(), "NOT_AN_OFFSET");
            let said = ottla_client::report(&error);
            let expected =
                format!("ZooKeeper at {}: {base}/1 holds {text:?}, which is no offset", server.connect_string());
            assert!(said.starts_with(&expected), "{said}");
        }
        other.put(&format!("{base}/1"), "x".repeat(1000).as_bytes()).await;
        let said = ottla_client::report(&loaded(&ours, None).await.expect_err("no offset"));
        assert!(said.contains(&"x".repeat(40)) && said.len() < 250, "{said}");

        // A store that has not looked before does not write over it either, unless it is told to.
        let blind = store(server, "/kafka/prod?group=z02", &[]);
        let error = stored(&blind, &[("t", 0, 43), ("t", 1, 50)]).await.expect_err("no offset");
        assert!(matches!(kind(error), ZooKeeperErrorKind::NotAnOffset { .. }));
        assert_eq!(other.get(&format!("{base}/0")).await.as_deref(), Some("43"), "the others are stored");
        let mut forced = commit(&[("t", 0, 43), ("t", 1, 50)]);
        forced.moved_back = forced.offsets.keys().cloned().collect();
        assert_eq!(OffsetStore::store(&blind, &forced).await.expect("stored").committed, forced.offsets);
        assert_eq!(other.get(&format!("{base}/1")).await.as_deref(), Some("50"));

        other.put(&format!("{base}/lock"), b"1").await;
        let error = loaded(&ours, None).await.expect_err("no partition");
        assert!(matches!(kind(error), ZooKeeperErrorKind::NotAPartition { path } if path == format!("{base}/lock")));
    });
}

#[test]
fn parents_are_created_down_from_the_chroot() {
    let Some(server) = shared("a chroot that is not there yet") else { return };
    let ours = store(server, "/not/there/yet?group=parents", &[]);
    block_on(async {
        assert_eq!(loaded(&ours, None).await.expect("an answer"), offsets(&[]));
        let many: Vec<(String, i32, i64)> =
            (0..300).map(|n| (format!("topic-{}", n % 3), n / 3, i64::from(n))).collect();
        let many: Vec<(&str, i32, i64)> = many.iter().map(|(topic, p, offset)| (topic.as_str(), *p, *offset)).collect();
        assert_eq!(stored(&ours, &many).await.expect("stored"), offsets(&many));
        let again = store(server, "/not/there/yet?group=parents", &[]);
        assert_eq!(loaded(&again, None).await.expect("an answer"), offsets(&many));
        let other = Other::connect(server).await;
        assert_eq!(other.get("/not/there/yet/consumers/parents/offsets/topic-1/7").await.as_deref(), Some("22"));
    });
}

#[test]
fn offsets_do_not_go_back_and_are_never_negative() {
    let Some(server) = shared("S-O01: offsets that are none") else { return };
    let ours = store(server, "?group=forwards", &[]);
    block_on(async {
        for bad in [-1, -1001, i64::MIN] {
            let error = stored(&ours, &[("t", 0, 5), ("t", 1, bad)]).await.expect_err("no offset");
            assert!(error.to_string().contains(&bad.to_string()), "{error}");
        }
        assert_eq!(loaded(&ours, None).await.expect("an answer"), offsets(&[]), "nothing was stored");

        stored(&ours, &[("t", 0, 10), ("t", 1, 10), ("gone", 0, 10)]).await.expect("stored");
        let mut back = commit(&[("t", 0, 4), ("t", 1, 4), ("gone", 0, 20)]);
        back.moved_back = offsets(&[("t", 1, 0)]).into_keys().collect();
        back.recreated = ["gone".to_owned()].into();
        let outcome = OffsetStore::store(&ours, &back).await.expect("stored");
        assert_eq!(outcome.kept, offsets(&[("t", 0, 10)]));
        assert_eq!(outcome.committed, offsets(&[("t", 1, 4)]));
        assert_eq!(outcome.gone, offsets(&[("gone", 0, 0)]).into_keys().collect());
        let now = offsets(&[("t", 0, 10), ("t", 1, 4), ("gone", 0, 10)]);
        assert_eq!(loaded(&ours, None).await.expect("an answer"), now);
    });
}

#[test]
fn two_writers_notice_each_other() {
    let Some(server) = shared("S-Z03: two writers") else { return };
    block_on(async {
        let (one, two) = (store(server, "?group=two", &[]), store(server, "?group=two", &[]));
        let path = "/consumers/two/offsets/t/0";
        let changed = |error: ottla_stream::Error, from: Option<&str>, to: Option<&str>| {
            assert_eq!(error.condition(), "CONCURRENT_OFFSET_WRITER");
            let said = ottla_client::report(&error);
            let expected = format!(
                "another writer changed {path} from {} to {}",
                from.unwrap_or("nothing"),
                to.unwrap_or("nothing")
            );
            assert!(said.ends_with(&expected), "{said} is not: {expected}");
        };
        // Both see nothing; the second one to create it is told.
        let nothing = join!(loaded(&one, Some(&[("t", 0)])), loaded(&two, Some(&[("t", 0)])));
        assert!(nothing.0.expect("an answer").is_empty() && nothing.1.expect("an answer").is_empty());
        stored(&one, &[("t", 0, 5)]).await.expect("stored");
        changed(stored(&two, &[("t", 0, 7)]).await.expect_err("it is there"), None, Some("5"));
        // The same offset is another writer's all the same.
        changed(stored(&two, &[("t", 0, 5)]).await.expect_err("it is there"), None, Some("5"));

        loaded(&two, Some(&[("t", 0)])).await.expect("an answer");
        stored(&two, &[("t", 0, 9), ("t", 1, 1)]).await.expect("stored");
        let error = stored(&one, &[("t", 0, 8), ("u", 0, 1)]).await.expect_err("it was changed");
        changed(error, Some("5"), Some("9"));
        changed(stored(&one, &[("t", 0, 12)]).await.expect_err("and still is"), Some("5"), Some("9"));
        let other = Other::connect(server).await;
        assert_eq!(other.get(path).await.as_deref(), Some("9"), "nothing was written over");
        assert_eq!(other.get("/consumers/two/offsets/u/0").await.as_deref(), Some("1"), "what nobody else wrote was");

        other.0.delete(path, None).await.expect("deleted");
        changed(stored(&two, &[("t", 0, 10)]).await.expect_err("it is gone"), Some("9"), None);
        other.put(path, b"garbage").await;
        changed(stored(&two, &[("t", 0, 10)]).await.expect_err("it is another"), Some("9"), Some("garbage"));
    });
}

#[test]
fn unchanged_offsets_are_not_written_again() {
    let Some(server) = shared("a commit without news") else { return };
    let ours = store(server, "?group=same", &[]);
    block_on(async {
        for offset in [5, 5, 5, 6] {
            stored(&ours, &[("t", 0, offset), ("t", 1, 3)]).await.expect("stored");
        }
        let other = Other::connect(server).await;
        for (path, version) in [("/consumers/same/offsets/t/0", 1), ("/consumers/same/offsets/t/1", 0)] {
            assert_eq!(other.0.get_data(path).await.expect("a node").1.version, version);
        }
    });
}

#[test]
fn the_begin_of_a_batch_where_it_is_to_be_read_again() {
    let Some(server) = shared("offset=from") else { return };
    let ours = store(server, "?group=from&offset=from", &[]);
    block_on(async {
        let batch = |from: &[(&str, i32, i64)], until: &[(&str, i32, i64)]| {
            let mut commit = commit(until);
            commit.from_offsets = offsets(from);
            commit
        };
        let first = batch(&[("t", 0, 0)], &[("t", 0, 10), ("t", 1, 0)]);
        let outcome = OffsetStore::store(&ours, &first).await.expect("stored");
        assert_eq!(outcome.committed, offsets(&[("t", 0, 0)]), "nothing was read of the other one");
        let second = batch(&[("t", 0, 10), ("t", 1, 0)], &[("t", 0, 20), ("t", 1, 7)]);
        OffsetStore::store(&ours, &second).await.expect("stored");
        // A batch of an earlier run, of which nobody knows where it began.
        OffsetStore::store(&ours, &batch(&[], &[("t", 0, 30), ("t", 1, 30)])).await.expect("nothing to do");
        assert_eq!(loaded(&ours, None).await.expect("an answer"), offsets(&[("t", 0, 10), ("t", 1, 0)]));
        // The last batch is read again, in smaller pieces.
        OffsetStore::store(&ours, &batch(&[("t", 0, 5)], &[("t", 0, 12)])).await.expect("stored");
        assert_eq!(loaded(&ours, None).await.expect("an answer"), offsets(&[("t", 0, 5), ("t", 1, 0)]));
    });
}

#[test]
fn credentials_guard_the_group_and_leave_the_rest_open() {
    let Some(server) = shared("digest credentials") else { return };
    let auth = ("ottla.zookeeper.auth", "digest:ann:s3cret");
    block_on(async {
        let ours = store(server, "/guarded?group=ann", &[auth]);
        stored(&ours, &[("t", 0, 5)]).await.expect("stored");
        // Anybody may read it; only who has the password may write it.
        let open = store(server, "/guarded?group=ann", &[]);
        assert_eq!(loaded(&open, None).await.expect("an answer"), offsets(&[("t", 0, 5)]));
        for of in [("t", 0, 6), ("t", 1, 6), ("u", 0, 6)] {
            let error = stored(&open, &[of]).await.expect_err("no password");
            assert_eq!(error.condition(), "ZOOKEEPER_REFUSED");
            let said = ottla_client::report(&error);
            assert!(said.contains("/guarded/consumers/ann/offsets/") && said.ends_with("not authorized"), "{said}");
        }
        let wrong = store(server, "/guarded?group=ann", &[("ottla.zookeeper.auth", "digest:ann:other")]);
        let error = stored(&wrong, &[("t", 0, 6)]).await.expect_err("another password");
        assert!(!format!("{error:?} {}", ottla_client::report(&error)).contains("other"));
        let again = store(server, "/guarded?group=ann", &[auth]);
        stored(&again, &[("t", 0, 6)]).await.expect("stored");
        // A topic that is somebody else's keeps no other from being stored.
        let other = Other::connect(server).await;
        other.put("/guarded/consumers/mixed/offsets/b/0", b"1").await;
        stored(&store(server, "/guarded?group=mixed", &[auth]), &[("a", 0, 1)]).await.expect("stored");
        let mixed = store(server, "/guarded?group=mixed", &[]);
        let error = stored(&mixed, &[("a", 0, 2), ("a", 1, 2), ("b", 0, 2), ("c", 0, 2)]).await.expect_err("not ours");
        assert_eq!(error.condition(), "ZOOKEEPER_REFUSED");
        let now = offsets(&[("a", 0, 1), ("b", 0, 2), ("c", 0, 2)]);
        assert_eq!(loaded(&mixed, None).await.expect("an answer"), now);
        // Other groups have their own place, with credentials or without.
        let neighbour = store(server, "/guarded?group=bob", &[]);
        stored(&neighbour, &[("t", 0, 1)]).await.expect("stored");
        assert!(!format!("{ours:?}").contains("s3cret"));
    });
    let said = server.shell(&["getAcl", "/guarded/consumers/ann/offsets/t/0"]).expect_code(0).text();
    assert!(said.contains("'digest,'ann:") && said.contains(": cdrwa") && said.contains("'world,'anyone"), "{said}");
}

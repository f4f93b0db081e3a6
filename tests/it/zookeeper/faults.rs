//! Servers that are down, silent, restarted, or that nobody hears the answer of.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ottla_stream::{OffsetStore, ZooKeeperErrorKind, ZooKeeperStore};
use support::{ZooKeeper, free_port, java_or_skip};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, tcp};

use super::{Other, commit, kind, loaded, offsets, shared, store, stored};
use crate::common::{Scripted, block_on};

/// Loads and stores, and sees both fail within their time, with the servers named.
async fn nobody_answers(servers: &str) {
    let patience = Duration::from_millis(1500);
    let options = ("ottla.zookeeper.timeout.ms", "1500");
    let (options, _) = ottla_stream::ZooKeeperOptions::split([options]).expect("options");
    let ours = ZooKeeperStore::builder(&format!("{servers}/a"), "g").expect("servers").options(options).build();
    for turn in 0..2 {
        let begun = Instant::now();
        let error = match turn {
            0 => loaded(&ours, Some(&[("t", 0)])).await.expect_err("nobody is there"),
            _ => stored(&ours, &[("t", 0, 1)]).await.expect_err("nobody is there"),
        };
        assert!(begun.elapsed() < patience + Duration::from_secs(1), "{:?}", begun.elapsed());
        assert_eq!(error.condition(), "ZOOKEEPER_UNREACHABLE");
        let said = ottla_client::report(&error);
        assert!(said.starts_with(&format!("ZooKeeper at {servers}: no answer within 1.5 s")), "{said}");
    }
}

/// Opens a session, and answers every request with a success and nothing in it.
fn empty_answers(stream: &mut std::net::TcpStream) {
    let mut is_open = false;
    loop {
        let mut length = [0; 4];
        if stream.read_exact(&mut length).is_err() {
            return;
        }
        let mut request = vec![0; u32::from_be_bytes(length) as usize];
        if stream.read_exact(&mut request).is_err() {
            return;
        }
        // Version, timeout, id and password of the session; or the request's number, the tree's, and no error.
        let answer = match is_open {
            false => {
                [&[0; 4][..], &10_000_u32.to_be_bytes(), &1_u64.to_be_bytes(), &16_u32.to_be_bytes(), &[7; 16], &[0]]
            }
            true => [&request[..4], &[0; 8], &[0; 4], &[], &[], &[]],
        };
        is_open = true;
        let answer = answer.concat();
        let frame = [&(answer.len() as u32).to_be_bytes()[..], &answer].concat();
        if stream.write_all(&frame).is_err() {
            return;
        }
    }
}

#[test]
fn s_z03_who_does_not_answer_is_an_error_in_time() {
    let down = || format!("127.0.0.1:{}", free_port());
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let silent = silent.local_addr().expect("an address").to_string();
    // The runtime that `ottla` uses.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        nobody_answers(&format!("{},{}", down(), down())).await;
        nobody_answers(&silent).await;
        nobody_answers("no-such-host.invalid").await;
        let elsewhere = Scripted::answering(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        nobody_answers(&elsewhere.address()).await;
        // Answers without the values they should have: a panic in the client's code, which stays there.
        let nonsense = Scripted::start(empty_answers);
        nobody_answers(&nonsense.address()).await;
        assert!(nonsense.connections() > 1, "it was tried again");
    });
}

#[test]
fn a_server_is_restarted_between_and_during_calls() {
    let Some(()) = java_or_skip("ZooKeeper restarted") else { return };
    let mut server = ZooKeeper::start();
    let ours = Arc::new(store(&server, "/restarted?group=g", &[]));
    block_on(async {
        stored(&ours, &[("t", 0, 1)]).await.expect("stored");
        server.kill();
        server.start_again();
        stored(&ours, &[("t", 0, 2)]).await.expect("stored");
        server.kill();
        let during = Arc::clone(&ours);
        let during = tokio::spawn(async move { stored(&during, &[("t", 0, 3), ("t", 1, 1)]).await });
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert!(!during.is_finished());
        server.start_again();
        assert_eq!(during.await.expect("no panic").expect("stored"), offsets(&[("t", 0, 3), ("t", 1, 1)]));
        assert_eq!(loaded(&ours, None).await.expect("an answer"), offsets(&[("t", 0, 3), ("t", 1, 1)]));
    });
}

#[test]
fn s_z03_a_session_expires() {
    let Some(()) = java_or_skip("a session that expires") else { return };
    let server = ZooKeeper::start();
    let ours = Arc::new(store(&server, "?group=g", &[("ottla.zookeeper.session.timeout.ms", "1000")]));
    let late = store(&server, "?group=g", &[("ottla.zookeeper.session.timeout.ms", "1000")]);
    block_on(async {
        stored(&ours, &[("t", 0, 1)]).await.expect("stored");
        loaded(&late, None).await.expect("an answer");
        // Longer than the session lasts, on both sides; once idle, once with a call under way.
        server.pause();
        let during = Arc::clone(&ours);
        let during = tokio::spawn(async move { stored(&during, &[("t", 0, 2)]).await });
        tokio::time::sleep(Duration::from_millis(3500)).await;
        assert!(!during.is_finished());
        server.resume();
        assert_eq!(during.await.expect("no panic").expect("stored"), offsets(&[("t", 0, 2)]));
        server.pause();
        tokio::time::sleep(Duration::from_millis(3500)).await;
        server.resume();
        stored(&ours, &[("t", 0, 3)]).await.expect("stored");
        // The older run comes back, and must not write over the newer one.
        let error = stored(&late, &[("t", 0, 2)]).await.expect_err("it was changed");
        let ZooKeeperErrorKind::OtherWriter { from, to, .. } = kind(error) else { panic!("not the other writer") };
        assert_eq!((from.as_deref(), to.as_deref()), (Some("1"), Some("3")));
    });
}

#[test]
fn runtimes_come_and_go() {
    let Some(server) = shared("a store used from several runtimes") else { return };
    let ours = store(server, "?group=runtimes", &[]);
    for offset in 1..4 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let done = runtime.block_on(stored(&ours, &[("t", 0, offset)])).expect("stored");
        assert_eq!(done, offsets(&[("t", 0, offset)]));
    }
}

/// A way to a server on which answers can be lost.
struct Proxy {
    address: SocketAddr,
    /// The next answer is not passed on, and its connection breaks.
    breaks: Arc<AtomicBool>,
    /// The next answer is not passed on, and its connection stands still.
    stalls: Arc<AtomicBool>,
}

impl Proxy {
    async fn start(server: &ZooKeeper) -> Self {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (breaks, stalls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (to, flags) = (server.connect_string(), (Arc::clone(&breaks), Arc::clone(&stalls)));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&to).await.expect("a server");
                let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
                tokio::spawn(pass(from_client, to_server, None));
                tokio::spawn(pass(from_server, to_client, Some(flags.clone())));
            }
        });
        Self { address, breaks, stalls }
    }

    fn store(&self, group: &str) -> ZooKeeperStore {
        let builder = ZooKeeperStore::builder(&self.address.to_string(), group).expect("a server");
        let session = ("ottla.zookeeper.session.timeout.ms", "3000");
        builder.options(ottla_stream::ZooKeeperOptions::split([session]).expect("options").0).build()
    }
}

async fn pass(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    flags: Option<(Arc<AtomicBool>, Arc<AtomicBool>)>,
) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if let Some((breaks, stalls)) = &flags {
            if breaks.swap(false, Ordering::SeqCst) {
                return;
            }
            if stalls.swap(false, Ordering::SeqCst) {
                return std::future::pending().await;
            }
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

#[test]
fn a_write_whose_answer_is_lost_is_known_as_ours() {
    let Some(server) = shared("answers that are lost") else { return };
    block_on(async {
        let proxy = Proxy::start(server).await;
        let ours = proxy.store("lost");
        let other = Other::connect(server).await;
        let path = "/consumers/lost/offsets/t/0";
        loaded(&ours, Some(&[("t", 0)])).await.expect("an answer");
        other.put("/consumers/lost/offsets/t/9", b"0").await;
        // A create, then a set: both are carried out, and sent again.
        for offset in [5, 6] {
            proxy.breaks.store(true, Ordering::SeqCst);
            assert_eq!(stored(&ours, &[("t", 0, offset)]).await.expect("stored"), offsets(&[("t", 0, offset)]));
            assert!(!proxy.breaks.load(Ordering::SeqCst), "an answer was lost");
        }
        let (value, stat) = other.0.get_data(path).await.expect("a node");
        assert_eq!((value, stat.version), (b"6".to_vec(), 1), "each was written once");

        // The caller gives up; what it wrote is still known as its own by the next call.
        proxy.stalls.store(true, Ordering::SeqCst);
        let commit = commit(&[("t", 0, 7)]);
        let given_up = tokio::time::timeout(Duration::from_millis(300), OffsetStore::store(&ours, &commit)).await;
        assert!(given_up.is_err());
        assert_eq!(other.get(path).await.as_deref(), Some("7"));
        assert_eq!(stored(&ours, &[("t", 0, 8)]).await.expect("stored"), offsets(&[("t", 0, 8)]));
        let (value, stat) = other.0.get_data(path).await.expect("a node");
        assert_eq!((value, stat.version), (b"8".to_vec(), 3));

        // A lost answer hides nobody else's write.
        other.put(path, b"100").await;
        proxy.breaks.store(true, Ordering::SeqCst);
        let error = stored(&ours, &[("t", 0, 9)]).await.expect_err("it was changed");
        assert_eq!(error.condition(), "CONCURRENT_OFFSET_WRITER");
        assert_eq!(other.get(path).await.as_deref(), Some("100"));
    });
}

//! Reported faults of other clients, area N: addresses and brokers that are not as they should be. S-N02 and the parts of
//! S-N03 and S-N10 that need no process are tests of the client; S-N10 and S-N11 as users see them are in `bad_input`.

use std::time::{Duration, Instant};

use ottla_embedded::EmbeddedBroker;
use ottla_protocol::compression::Compression;
use support::free_port;

use crate::common::{Embedded, Scripted, batch, offsets, read, rows, sentence};

#[test]
fn s_n02_one_dead_address_is_no_error() {
    let broker = Embedded::start(EmbeddedBroker::builder());
    broker.create_topic("t", 1, &[]).unwrap();
    broker.append("t", 0, batch(Compression::None, ["a"])).unwrap();
    let port = broker.address(1).expect("its address").port();
    // The name has an IPv6 address as well on most machines; the broker listens on IPv4 only.
    for bootstrap in [format!("localhost:{port}"), format!("127.0.0.1:{},127.0.0.1:{port}", free_port())] {
        let start = Instant::now();
        let finished = read(&bootstrap, &["--subscribe", "t"]).run().expect_code(0);
        assert_eq!(offsets(&rows(&finished)), [0]);
        assert!(start.elapsed() < Duration::from_secs(4), "{bootstrap}: {:?}", start.elapsed());
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    }
}

#[test]
fn s_n03_a_bad_address_is_named() {
    for (bootstrap, named) in [("host:0", "host:0"), ("a:9092,host:70000", "host:70000"), (",", ","), ("[::1", "[::1")]
    {
        let finished = read(bootstrap, &["--subscribe", "t"]).run().expect_code(2);
        assert!(sentence(&finished).contains(named), "{}", finished.stderr);
    }
    // A scheme that asks for more than plain text is never dialled as if it didn't.
    let finished = read("SASL_SSL://host:9092", &["--subscribe", "t"]).run().expect_code(2);
    assert!(sentence(&finished).contains("SASL_SSL"), "{}", finished.stderr);
    // Blanks and empty parts are nothing; an IPv6 literal is an address.
    let port = free_port();
    let limit = ["--subscribe", "t", "-X", "kafka.default.api.timeout.ms=300"];
    let finished = read(&format!("[::1]:{port},, 127.0.0.1:{port} "), &limit).run().expect_code(1);
    assert!(sentence(&finished).contains(&format!("[::1]:{port},127.0.0.1:{port}")), "{}", finished.stderr);
}

#[test]
fn s_n08_a_broker_that_refuses_is_not_flooded() {
    // Accepts and closes at once.
    let server = Scripted::start(|_| {});
    let start = Instant::now();
    let args = ["--subscribe", "t", "-X", "kafka.default.api.timeout.ms=10000"];
    let finished = read(&server.address(), &args).run().expect_code(1);
    let took = start.elapsed();
    assert!(sentence(&finished).contains("closed"), "{}", finished.stderr);
    assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(12), "{took:?}");
    // 50 ms, doubling to a second.
    assert!((8..40).contains(&server.connections()), "{} connections", server.connections());
}

#[test]
fn s_n08_a_broker_that_goes_away_in_the_middle_is_not_flooded() {
    use ottla_embedded::Action;
    use ottla_embedded::messages::ApiKey;
    let broker = Embedded::start(EmbeddedBroker::builder());
    broker.create_topic("t", 20, &[]).unwrap();
    for partition in 0..20 {
        broker.append("t", partition, batch(Compression::None, ["a"])).unwrap();
    }
    broker.on(ApiKey::Fetch, |_| Action::Close);
    let args = ["--subscribe", "t", "-X", "kafka.default.api.timeout.ms=5000", "--commit-group", "g"];
    let start = Instant::now();
    let finished = read(&broker.bootstrap_servers(), &args).run().expect_code(1);
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    assert!(sentence(&finished).contains("closed"), "{}", finished.stderr);
    // All partitions share one broker's back-off.
    assert!(broker.connections(1) < 40, "{} connections", broker.connections(1));
    assert_eq!(broker.committed("g", "t", 0), None);
}

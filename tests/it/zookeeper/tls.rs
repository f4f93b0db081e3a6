//! Encrypted connections, where both sides show certificates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ottla_stream::{ZooKeeperOptions, ZooKeeperStore};
use support::{ZooKeeper, free_port, java_or_skip};

use super::{loaded, offsets, stored};
use crate::common::block_on;

/// A key, a certificate that vouches for itself, and both in one file.
struct Identity {
    certificate: PathBuf,
    both: PathBuf,
}

impl Identity {
    fn make(folder: &Path, name: &str, address: &str) -> Self {
        let file = |end: &str| folder.join(format!("{name}{end}"));
        let (key, certificate, both) = (file(".key"), file("-certificate.pem"), file(".pem"));
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
        openssl.args(["-subj", &format!("/CN={name}"), "-addext", &format!("subjectAltName=IP:{address}")]);
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        let made = openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate).output().expect("openssl");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let pem = [key, certificate.clone()].map(|path| fs::read_to_string(path).expect("PEM")).concat();
        fs::write(&both, pem).expect("a file");
        Self { certificate, both }
    }
}

fn encrypted(server: &str, trusted: &Path, shown: Option<&Path>) -> ZooKeeperStore {
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let mut pairs = vec![
        ("ottla.zookeeper.ssl.truststore.location", text(trusted)),
        ("ottla.zookeeper.timeout.ms", "5000".to_owned()),
    ];
    pairs.extend(shown.map(|shown| ("ottla.zookeeper.ssl.keystore.location", text(shown))));
    let (options, _) = ZooKeeperOptions::split(pairs).expect("options");
    ZooKeeperStore::builder(server, "tls").expect("a server").options(options).build()
}

#[test]
fn only_who_is_trusted_is_spoken_to() {
    let Some(()) = java_or_skip("ZooKeeper with TLS") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let identity = |name: &str, address: &str| Identity::make(folder.path(), name, address);
    let (server, client) = (identity("server", "127.0.0.1"), identity("client", "127.0.0.1"));
    let stranger = identity("stranger", "127.0.0.1");
    let port = free_port().to_string();
    let zookeeper = ZooKeeper::start_with(&[
        ("secureClientPort", &port),
        ("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory"),
        ("ssl.keyStore.location", server.both.to_str().expect("UTF-8")),
        ("ssl.trustStore.location", client.certificate.to_str().expect("UTF-8")),
    ]);
    let secure = format!("127.0.0.1:{port}");
    block_on(async {
        let ours = encrypted(&secure, &server.certificate, Some(&client.both));
        stored(&ours, &[("t", 0, 5)]).await.expect("stored");
        assert_eq!(loaded(&ours, None).await.expect("an answer"), offsets(&[("t", 0, 5)]));

        for (what, store) in [
            ("a server that is not trusted", encrypted(&secure, &stranger.certificate, Some(&client.both))),
            ("a client that is not trusted", encrypted(&secure, &server.certificate, Some(&stranger.both))),
            ("a client that shows nothing", encrypted(&secure, &server.certificate, None)),
            ("another name", encrypted(&format!("localhost:{port}"), &server.certificate, Some(&client.both))),
            ("plain text", encrypted(&zookeeper.connect_string(), &server.certificate, Some(&client.both))),
        ] {
            let Err(error) = loaded(&store, None).await else { panic!("{what} was taken") };
            assert_eq!(error.condition(), "ZOOKEEPER_UNREACHABLE", "{what}");
        }
        // What no other try would change is told at once.
        let missing = folder.path().join("missing.pem");
        let empty = folder.path().join("empty.pem");
        fs::write(&empty, "").expect("a file");
        for (trusted, shown, part) in [
            (&missing, None, "missing.pem: No such file"),
            (&empty, None, "empty.pem: bad arguments: no valid tls trust anchor in pem"),
            (&server.certificate, Some(&*empty), "empty.pem: bad arguments: no client private key"),
        ] {
            let error = loaded(&encrypted(&secure, trusted, shown), None).await.expect_err("no use");
            let said = ottla_client::report(&error);
            assert!(error.condition() == "ZOOKEEPER_REFUSED" && said.contains(part), "{said}");
        }
        let error = loaded(&encrypted("a..b:1", &server.certificate, None), None).await.expect_err("no name");
        assert!(ottla_client::report(&error).contains("a..b: "), "{}", ottla_client::report(&error));
    });
}

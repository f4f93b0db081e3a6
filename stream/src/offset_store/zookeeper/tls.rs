//! TLS to ZooKeeper, from PEM files.

use crate::{BoxError, ZooKeeperOptions};
use rustls::{
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::ServerName,
};
use std::{fs, path::Path};
use zookeeper_client::TlsOptions;

/// What connections are encrypted with, if they are to be. The files are read anew for each session, so that they can be renewed.
///
/// # Errors
/// A file that can't be read or holds nothing of use; a server with a name that no certificate can have.
pub(super) fn options(servers: &str, options: &ZooKeeperOptions) -> Result<Option<TlsOptions>, BoxError> {
    let Some(truststore) = &options.ssl_truststore_location else { return Ok(None) };
    for server in servers.split(',') {
        let host = host(server);
        ServerName::try_from(host).map_err(|error| format!("{host}: {error}"))?;
    }
    if CryptoProvider::get_default().is_none() {
        // The client takes the process's, and panics if there are two to choose from. That somebody else was faster is fine.
        let _ = aws_lc_rs::default_provider().install_default();
    }
    let unusable = |path: &Path, error: zookeeper_client::Error| format!("{}: {error}", path.display());
    let mut tls = TlsOptions::new().with_pem_ca(&read(truststore)?).map_err(|error| unusable(truststore, error))?;
    if let Some(keystore) = &options.ssl_keystore_location {
        let pem = read(keystore)?;
        tls = tls.with_pem_identity(&pem, &pem).map_err(|error| unusable(keystore, error))?;
    }
    Ok(Some(tls))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn host(server: &str) -> &str {
    let bracketed = server.strip_prefix('[').and_then(|rest| rest.split(']').next());
    bracketed.or_else(|| server.split(':').next()).unwrap_or(server)
}

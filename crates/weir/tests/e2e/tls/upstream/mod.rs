//! TLS with servers: verification, the certificate of Weir, and that a connection with TLS carries what any other does.

mod files;
mod probes;
mod relays;
mod sessions;
mod trust;

use rustls::ServerConfig;
use tempfile::TempDir;

use crate::harness::origin::{Connection, ok};
use crate::harness::{CertificateAuthority, Origin, Weir, config_with, temporary_folder};

/// An origin for `app.test` that answers every request with what it knows of the TLS connection: the server name that it was asked
/// for, whether the session was resumed, and how many certificates it was shown.
fn telling(config: ServerConfig) -> Origin {
    Origin::start_tls(config, |conn| {
        loop {
            conn.request()?;
            let described = tell(conn);
            conn.send(ok(&described))?;
        }
    })
}

fn tell(conn: &mut Connection) -> String {
    let rustls::Connection::Server(session) = conn.tls().session() else { unreachable!("an origin serves") };
    let name = session.server_name().unwrap_or("-").to_owned();
    let kind = session.handshake_kind().expect("a request has come");
    let shown = session.peer_certificates().map_or(0, <[_]>::len);
    format!("{name} {kind:?} {shown}")
}

/// A folder with `ca.pem`, the certificate of `authority`.
fn folder(authority: &CertificateAuthority) -> TempDir {
    let folder = temporary_folder();
    std::fs::write(folder.path().join("ca.pem"), authority.pem()).expect("the folder takes a file");
    folder
}

/// A Weir in front of `servers`, with the table `tls` of their upstream and more settings.
fn start(folder: TempDir, servers: &str, tls: &str, settings: &str) -> Weir {
    let settings = format!("log.level = \"debug\"\nupstream.app.tls = {{ {tls} }}\n{settings}");
    Weir::start_in(folder, &config_with(&[servers.to_owned()], &settings))
}

/// The same for one origin that has a certificate for `app.test` from `authority`.
fn start_for(origin: &Origin, authority: &CertificateAuthority, settings: &str) -> Weir {
    start(folder(authority), &origin.entry(), "ca = \"ca.pem\", server_name = \"app.test\"", settings)
}

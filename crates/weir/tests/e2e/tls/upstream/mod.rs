//! TLS with servers: whom Weir believes, what it shows, and that a connection with TLS carries what any other does.

mod files;
mod probes;
mod relays;
mod sessions;
mod trust;

use rustls::ServerConfig;
use tempfile::TempDir;

use crate::harness::origin::{Connection, ok};
use crate::harness::{Authority, Origin, Weir};

/// An origin for `app.test` that answers every request with what it knows of the TLS connection: the server name that it was asked
/// for, whether the session was resumed, and how many certificates it was shown.
fn telling(config: ServerConfig) -> Origin {
    Origin::start_tls(config, |conn| {
        loop {
            conn.request()?;
            let told = tell(conn);
            conn.send(ok(&told))?;
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
fn folder(authority: &Authority) -> TempDir {
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    std::fs::write(folder.path().join("ca.pem"), authority.pem()).expect("the folder takes a file");
    folder
}

/// A Weir in front of the server `address`, with the table `tls` of its upstream and more settings in the form of dotted keys.
fn start(folder: TempDir, servers: &str, tls: &str, settings: &str) -> Weir {
    Weir::start_in(
        folder,
        &format!(
            "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\nadmin.address = \"127.0.0.1:0\"\n\
             log.level = \"debug\"\nupstream.app.servers = [{servers}]\nupstream.app.tls = {{ {tls} }}\n{settings}\n"
        ),
    )
}

/// The same for one origin that has a certificate for `app.test` from `authority`.
fn start_for(origin: &Origin, authority: &Authority, settings: &str) -> Weir {
    let servers = format!("\"{}\"", origin.address());
    start(folder(authority), &servers, "ca = \"ca.pem\", server_name = \"app.test\"", settings)
}

//! The PROXY protocol header of a server connection: the first bytes on it, before TLS and before any request.
//!
//! It tells a server whose connection it is, and that cannot be taken back: such a connection carries nothing for another
//! client. Must not decide who the client is; that was done when its connection was accepted.

use std::io;

use weir_config::ProxyVersion;
use weir_http::proxy_protocol::{Claims, Endpoints, write_v1, write_v2};

use crate::downstream::session::{Peer, Session};
use crate::socket::{Behind, Socket};

/// The header for a server connection that is opened for `session`; `unique_id` is what the connection is known by, such as
/// the id of its first request, and empty when there is no such thing.
///
/// Of a client on a Unix socket it says that it is unknown.
pub(crate) fn of_session(session: &Session, version: ProxyVersion, unique_id: &[u8]) -> Vec<u8> {
    let endpoints = match (session.peer, session.destination()) {
        (Peer::Inet(source), Some(destination)) => Endpoints::Inet { source, destination },
        _ => Endpoints::Unknown,
    };
    let claims = Claims {
        authority: session.proxied.as_ref().and_then(|proxied| proxied.authority.as_deref()),
        unique_id: Some(unique_id).filter(|id| !id.is_empty()),
        ..Claims::default()
    };
    written(version, &endpoints, &claims)
}

/// The header for a connection of Weir's own, such as that of a probe.
pub(crate) fn of_weir(version: ProxyVersion) -> Vec<u8> {
    written(version, &Endpoints::Local, &Claims::default())
}

fn written(version: ProxyVersion, endpoints: &Endpoints<'_>, claims: &Claims<'_>) -> Vec<u8> {
    let mut header = Vec::new();
    match version {
        ProxyVersion::V1 => write_v1(&mut header, endpoints),
        ProxyVersion::V2 => write_v2(&mut header, endpoints, claims),
    }
    header
}

/// Sends a header on a new connection. It waits for what comes behind it only if `behind` says that this comes at once.
///
/// # Errors
/// Those of `send(2)`.
pub(crate) async fn send(socket: &mut Socket, mut header: &[u8], behind: Behind) -> io::Result<()> {
    while !header.is_empty() {
        let len = std::future::poll_fn(|cx| socket.poll_write(cx, header, behind)).await?;
        header = &header[len..];
    }
    Ok(())
}

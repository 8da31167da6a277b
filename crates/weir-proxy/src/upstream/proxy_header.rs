//! The PROXY protocol header of a server connection: the first bytes on it, before TLS and before any request.
//!
//! It names the client of the connection to the server, for as long as it is open: such a connection carries nothing for another
//! client. Must not determine the client; that was done when its connection was accepted.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use weir_config::ProxyVersion;
use weir_http::proxy_protocol::{Endpoints, SslTlv, TlvValues, write_v1, write_v2};

use super::connect;
use crate::net::endpoint::Endpoint;
use crate::net::peer::Peer;
use crate::net::socket::{Behind, Socket};
use crate::net::source::BoundSource;
use crate::net::timing::timers::Timers;
use crate::net::tls::facts::TlsFacts;

/// A header as it is sent.
#[derive(Debug)]
pub struct Header {
    bytes: Vec<u8>,
}

/// The client connection that a header describes.
#[derive(Debug)]
pub(crate) struct ProxiedClient<'a> {
    pub(crate) peer: Peer,
    /// Where the client connected to; `None` on a Unix socket.
    pub(crate) destination: Option<SocketAddr>,
    /// The host name that the client requested, by SNI or in a PROXY header.
    pub(crate) authority: Option<&'a str>,
    /// The TLS of the client, if Weir terminates it.
    pub(crate) tls: Option<TlsFacts<'a>>,
    /// The id of the request, if it has one.
    pub(crate) unique_id: Option<&'a [u8]>,
}

/// The header for a server connection that is opened for a client.
///
/// Version 2 also contains the id of the request, the TLS of the client, and the host name. Of a client on
/// a Unix socket it says nothing but that the connection is Weir's own; version 1 that it is unknown.
pub(crate) fn of_client(version: ProxyVersion, client: &ProxiedClient<'_>) -> Header {
    let endpoints = match (client.peer, client.destination) {
        (Peer::Inet(source), Some(destination)) => Endpoints::Inet { source, destination },
        // A receiver need not take TLVs behind no addresses: HAProxy 2.6 does not.
        _ if version == ProxyVersion::V2 => Endpoints::Local,
        _ => Endpoints::Unknown,
    };
    let claims = TlvValues {
        authority: client.authority,
        ssl: client.tls.map(of_tls),
        unique_id: client.unique_id,
        ..TlvValues::default()
    };
    Header { bytes: written(version, &endpoints, &claims) }
}

/// The TLV about TLS with the client: its version and its certificate.
fn of_tls(tls: TlsFacts<'_>) -> SslTlv<'_> {
    let identity = tls.client_certificate.and_then(|certificate| certificate.identity.as_ref());
    let certificate = match (identity, tls.is_resumed) {
        (None, _) => 0,
        (Some(_), true) => SslTlv::CERTIFICATE_IN_SESSION,
        (Some(_), false) => SslTlv::CERTIFICATE_IN_SESSION | SslTlv::CERTIFICATE_ON_CONNECTION,
    };
    SslTlv {
        client: SslTlv::TLS | certificate,
        verify: u32::from(identity.is_none()),
        version: Some(if tls.is_version_13 { "TLSv1.3" } else { "TLSv1.2" }),
        common_name: identity.and_then(|identity| identity.common_name.as_deref()),
        ..SslTlv::default()
    }
}

/// The header for a connection of Weir's own, such as that of a probe.
pub fn of_weir(version: ProxyVersion) -> Header {
    Header { bytes: written(version, &Endpoints::Local, &TlvValues::default()) }
}

fn written(version: ProxyVersion, endpoints: &Endpoints<'_>, claims: &TlvValues<'_>) -> Vec<u8> {
    let mut header = Vec::new();
    match version {
        ProxyVersion::V1 => write_v1(&mut header, endpoints),
        ProxyVersion::V2 => write_v2(&mut header, endpoints, claims),
    }
    header
}

/// How a connection identifies itself to a server, beside the address of this machine.
#[derive(Debug, Default)]
pub struct ConnectionIdentity {
    /// The PROXY header that the connection begins with.
    pub header: Option<Header>,
    /// The address that it comes from; `None`: the system chooses one of this machine.
    pub source: Option<BoundSource>,
}

/// Connects as [`connect::connect`] does, and sends the header, if there is one; `behind` is what comes next.
///
/// # Errors
/// Those of [`connect::connect`] and of `send(2)`.
pub(crate) async fn connect(
    identity: &ConnectionIdentity,
    behind: Behind,
    endpoints: &[Endpoint],
    first: usize,
    timers: Option<&Rc<Timers>>,
) -> io::Result<Socket> {
    let mut socket = connect::connect(endpoints, first, identity.source, timers).await?;
    if let Some(Header { bytes }) = &identity.header {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let len = std::future::poll_fn(|cx| socket.poll_write(cx, rest, behind)).await?;
            rest = &rest[len..];
        }
    }
    Ok(socket)
}

//! The PROXY protocol header of a server connection: the first bytes on it, before TLS and before any request.
//!
//! It tells a server whose connection it is, and that cannot be taken back: such a connection carries nothing for another
//! client. Must not decide who the client is; that was done when its connection was accepted.

use std::io;
use std::rc::Rc;

use weir_config::ProxyVersion;
use weir_http::proxy_protocol::{Endpoints, SslTlv, TlvValues, write_v1, write_v2};

use super::connect;
use crate::downstream::session::Session;
use crate::exchange::Exchange;
use crate::net::endpoint::Endpoint;
use crate::net::peer::Peer;
use crate::net::socket::{Behind, Socket};
use crate::net::timers::Timers;
use crate::net::tls::records::Records;
use crate::state::snapshot::UpstreamPlan;

/// A header as it is sent.
#[derive(Debug)]
pub(crate) struct Header {
    bytes: Vec<u8>,
}

/// The header for a server connection that is opened for this exchange; `None` when the upstream wants none.
///
/// Version 2 also names the connection by the id of the request, if it has one, tells about TLS with the client, if Weir terminates it, and
/// the host name that the client asked for: by SNI, or, if a header came in that tells it, from the proxy in front. Of a client on a Unix socket it says nothing but
/// that the connection is Weir's own; version 1 that it is unknown.
pub(crate) fn of_exchange(session: &Session, exchange: &Exchange, plan: &UpstreamPlan) -> Option<Header> {
    let version = plan.config.proxy_protocol?;
    let endpoints = match (session.peer, session.destination()) {
        (Peer::Inet(source), Some(destination)) => Endpoints::Inet { source, destination },
        // A receiver need not take TLVs behind no addresses: HAProxy 2.6 does not.
        _ if version == ProxyVersion::V2 => Endpoints::Local,
        _ => Endpoints::Unknown,
    };
    let asked_for = std::str::from_utf8(&exchange.server_name).ok().filter(|name| !name.is_empty());
    let told = session.proxied.as_ref().and_then(|proxied| proxied.authority.as_deref());
    let claims = TlvValues {
        authority: asked_for.or(told),
        ssl: session.client.tls.as_ref().map(|tls| of_tls(session, tls)),
        unique_id: Some(&*exchange.record.request_id).filter(|id| !id.is_empty()),
        ..TlvValues::default()
    };
    Some(Header { bytes: written(version, &endpoints, &claims) })
}

/// What is said about TLS with the client: its version, and whose certificate there was.
fn of_tls<'a>(session: &'a Session, tls: &Records) -> SslTlv<'a> {
    let identity = session.certificate().map(|certificate| &certificate.identity);
    let certificate = match (identity, tls.is_resumed()) {
        (None, _) => 0,
        (Some(_), true) => SslTlv::CERTIFICATE_IN_SESSION,
        (Some(_), false) => SslTlv::CERTIFICATE_IN_SESSION | SslTlv::CERTIFICATE_ON_CONNECTION,
    };
    SslTlv {
        client: SslTlv::TLS | certificate,
        verify: u32::from(identity.is_none()),
        version: Some(if tls.is_version_13() { "TLSv1.3" } else { "TLSv1.2" }),
        common_name: identity.and_then(|identity| identity.common_name.as_deref()),
        ..SslTlv::default()
    }
}

/// The header for a connection of Weir's own, such as that of a probe.
pub(crate) fn of_weir(version: ProxyVersion) -> Header {
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

/// Connects as [`connect::connect`] does, and sends the header, if there is one; `behind` is what comes next.
///
/// # Errors
/// Those of [`connect::connect`] and of `send(2)`.
pub(crate) async fn connect(
    header: Option<&Header>,
    behind: Behind,
    endpoints: &[Endpoint],
    first: usize,
    timers: Option<&Rc<Timers>>,
) -> io::Result<Socket> {
    let mut socket = connect::connect(endpoints, first, timers).await?;
    if let Some(Header { bytes }) = header {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let len = std::future::poll_fn(|cx| socket.poll_write(cx, rest, behind)).await?;
            rest = &rest[len..];
        }
    }
    Ok(socket)
}

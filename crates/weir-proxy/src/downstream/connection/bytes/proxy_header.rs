//! Phase Accept: the PROXY protocol header of a new connection, before anything else is made of its bytes.
//!
//! Whether one has to come is decided by the address of the peer, never by the bytes: a peer that is named in the config
//! must send one, and bytes of other peers are never read as one. What follows the header stays in the input, for the protocol that comes
//! next.

use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use weir_config::ProxyProtocol;
use weir_http::proxy_protocol::{Endpoints, ProxyHeader, ProxyHeaderError, ProxyHeaderProgress, parse};
use weir_observe::{Cause, Failure, Phase};

use super::ByteConnection;
use crate::net::clock;
use crate::net::peer::{ConnectionOrigin, Peer};
use crate::state::connections::activity::Activity;

/// Receives the header of a connection that begins with one; whether the connection may go on. Otherwise that is counted and
/// logged, and the connection is to be closed.
pub(crate) async fn receive(conn: &mut ByteConnection) -> bool {
    let plan = std::sync::Arc::clone(&conn.client.listener.plan());
    let Some(config) = &plan.config.proxy_protocol else { return true };
    conn.client.deadline.set(conn.client.now, Some(config.timeout));
    conn.transport.connection.fill_at_once(&conn.client.worker.stock);
    let outcome = std::future::poll_fn(|cx| poll_header(cx, conn, config)).await;
    conn.client.now = clock::now();
    let outcome = outcome.and_then(|()| conn.count_client().map_err(Some));
    match outcome {
        Ok(()) => conn.client.listener.shard.proxy_headers.increment(),
        Err(Some(failure)) => {
            conn.client.listener.shard.failures.record(failure);
            conn.record(failure, conn.client.now);
        }
        Err(None) => {}
    }
    outcome.is_ok()
}

/// Reads on until the header is whole or wrong. No failure is returned when neither side broke a rule.
fn poll_header(
    cx: &mut Context<'_>,
    conn: &mut ByteConnection,
    config: &ProxyProtocol,
) -> Poll<Result<(), Option<Failure>>> {
    let bad = Failure::client(Phase::Accept, Cause::ProxyHeaderBad);
    loop {
        match take_header(conn, config) {
            Ok(true) => return Poll::Ready(Ok(())),
            Ok(false) => {}
            Err(fault) => {
                // From peers of the config only: one that is not set up for it is worth a line each time.
                let plan = std::sync::Arc::clone(&conn.client.listener.plan());
                let listener = &*plan.config.name;
                let reason = fault.sentence();
                tracing::warn!(listener, peer = %shown(conn.client.peer), reason, "a PROXY protocol header was refused");
                return Poll::Ready(Err(Some(bad)));
            }
        }
        if conn.is_stopped() {
            return Poll::Ready(Err(None));
        }
        match conn.transport.connection.poll_fill(cx, &conn.client.worker.stock) {
            Poll::Ready(Ok(len)) if len > 0 => {}
            // Connected and gone, as a health check of TCP does.
            Poll::Ready(_) if !conn.transport.connection.has_input() => return Poll::Ready(Err(None)),
            Poll::Ready(_) => return Poll::Ready(Err(Some(bad))),
            Poll::Pending => {
                let timed_out = Failure::client(Phase::Accept, Cause::TimedOut);
                conn.client.report_idle(Activity::ProxyHeader);
                let over = conn.client.deadline.poll_passed();
                return over.map(|()| Err(Some(conn.client.deadline.failure(Phase::Accept, timed_out))));
            }
        }
    }
}

/// Takes the header off what has been received; `false` as long as it is not whole.
fn take_header(conn: &mut ByteConnection, config: &ProxyProtocol) -> Result<bool, ProxyHeaderError> {
    let size_max = config.header_size.as_usize();
    match parse(conn.transport.connection.received(), size_max)? {
        ProxyHeaderProgress::Complete(header) => {
            let (len, origin) = (header.len, origin(&header, conn.client.peer, config.keeps_values));
            if let Some((client, origin)) = origin {
                conn.replace_peer(client, origin);
            }
            conn.transport.connection.consume(len);
            Ok(true)
        }
        ProxyHeaderProgress::Incomplete => {
            if let Some(input) = conn.transport.connection.input.as_mut().filter(|input| input.is_full()) {
                let size = (input.len() * 2).min(size_max + 1).max(input.len() + 1);
                input.grow(size);
            }
            Ok(false)
        }
    }
}

/// The client that a header names; `None` when it names none, so that the peer stays what it is.
///
/// A process on the sender's own machine, connected to it over a Unix socket, has no address that means anything here.
fn origin(header: &ProxyHeader<'_>, sender: Peer, keeps_values: bool) -> Option<(Peer, ConnectionOrigin)> {
    let Endpoints::Inet { source, destination } = header.endpoints else { return None };
    let canonical = |addr: SocketAddr| SocketAddr::new(addr.ip().to_canonical(), addr.port());
    let authority = header.tlvs.authority().map(Box::from);
    let values = header.tlvs.as_bytes();
    let values = (keeps_values && !values.is_empty()).then(|| values.into());
    let destination = canonical(destination);
    let origin = ConnectionOrigin { destination, sender: Some(sender), authority, values };
    Some((Peer::Inet(canonical(source)), origin))
}

/// The address of a peer for the log.
fn shown(peer: Peer) -> String {
    peer.ip().as_ref().map_or_else(|| "unix".to_owned(), IpAddr::to_string)
}

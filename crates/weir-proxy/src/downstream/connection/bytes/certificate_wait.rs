//! A handshake that waits for its certificate, where Weir obtains certificates by itself.
//!
//! Only while a host of the listener has none, or where hosts may be had on demand: the ClientHello is read ahead, without taking part in
//! TLS. Must not decide what is ordered.

use std::future::Future as _;
use std::pin::pin;
use std::task::Poll;

use weir_http::{CLIENT_HELLO_BYTES_MAX, ClientHello, HelloProgress};
use weir_observe::{Cause, Failure, Phase};

use super::ByteConnection;
use super::tls_refusal::{TlsRefusal, poll_over};
use crate::net::clock;
use crate::net::socket::Behind;
use crate::net::tls::certificates::Certificates;
use crate::net::tls::issued::{CHALLENGE_PROTOCOL, ListenerIssued, NamedCertificate};

/// Alerts (RFC 8446 section 6.2).
const INTERNAL_ERROR: u8 = 80;
const UNRECOGNIZED_NAME: u8 = 112;

/// Waits until there is a certificate for the name that the client asks for, within `acme.wait`.
///
/// # Errors
/// When there is none by then, or none to come: the client has been sent an alert. When the client is gone.
pub(super) async fn wait(
    conn: &mut ByteConnection,
    certificates: &Certificates,
    issued: &ListenerIssued,
) -> Result<(), TlsRefusal> {
    let Some(hello) = read_hello(conn).await? else { return Ok(()) };
    if hello.protocols().eq([CHALLENGE_PROTOCOL]) {
        return Ok(());
    }
    let name = hello.server_name().unwrap_or_default().to_ascii_lowercase();
    if certificates.is_configured_for(&name) {
        return Ok(());
    }
    conn.client.deadline.set(clock::now(), Some(issued.wait()));
    loop {
        let mut changed = pin!(issued.changed());
        // From here on no change is missed.
        changed.as_mut().enable();
        match issued.look(&name) {
            NamedCertificate::There => return Ok(()),
            NamedCertificate::Unknown if certificates.has_default() => return Ok(()),
            NamedCertificate::Unknown => {
                let failure = Failure::client(Phase::Tls, Cause::TlsUnrecognizedName);
                return Err(refuse(conn, UNRECOGNIZED_NAME, failure).await);
            }
            NamedCertificate::Missing => return Err(refuse_host(conn, issued, &name).await),
            NamedCertificate::Coming => {}
        }
        let has_changed = std::future::poll_fn(|cx| {
            if changed.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(true));
            }
            if conn.is_stopped() {
                let drained = Failure::weir(Phase::Tls, Cause::Drained);
                return Poll::Ready(Err(TlsRefusal::Failed(drained)));
            }
            poll_over(conn).map(|_| Ok(false))
        });
        if !has_changed.await? {
            return Err(refuse_host(conn, issued, &name).await);
        }
    }
}

/// The ClientHello, which stays in the input; `None` where it is none, which the handshake will find out.
pub(super) async fn read_hello(conn: &mut ByteConnection) -> Result<Option<ClientHello>, TlsRefusal> {
    let mut hello = ClientHello::new();
    let is_one = std::future::poll_fn(|cx| {
        loop {
            match hello.parse(conn.transport.connection.received(), CLIENT_HELLO_BYTES_MAX) {
                Ok(HelloProgress::Complete) => return Poll::Ready(Ok(true)),
                Ok(HelloProgress::NotTls) | Err(_) => return Poll::Ready(Ok(false)),
                Ok(HelloProgress::Incomplete { .. }) => {}
            }
            if let Some(input) = conn.transport.connection.input.as_mut().filter(|input| input.is_full()) {
                input.grow((input.len() * 2).min(CLIENT_HELLO_BYTES_MAX + 1).max(input.len() + 1));
            }
            match conn.transport.connection.poll_fill(cx, &conn.client.worker.stock) {
                Poll::Ready(Ok(len)) if len > 0 => {}
                Poll::Ready(_) => {
                    let closed = Failure::client(Phase::Tls, Cause::Closed);
                    return Poll::Ready(Err(TlsRefusal::Failed(closed)));
                }
                Poll::Pending => return poll_over(conn).map(Err),
            }
        }
    });
    Ok(is_one.await?.then_some(hello))
}

/// Rejects a client for want of a certificate, and says so in the log, once in a while for each host.
async fn refuse_host(conn: &mut ByteConnection, issued: &ListenerIssued, host: &str) -> TlsRefusal {
    if let Some(reason) = issued.to_tell(host) {
        let listener = &*conn.client.listener.plan().config.name;
        tracing::warn!(
            listener,
            host,
            reason = &*reason,
            "a client was rejected: there is no certificate for the host yet"
        );
    }
    refuse(conn, INTERNAL_ERROR, Failure::weir(Phase::Tls, Cause::TlsCertificatePending)).await
}

async fn refuse(conn: &mut ByteConnection, alert: u8, failure: Failure) -> TlsRefusal {
    // A fatal alert in a record without encryption: the handshake has not begun.
    let record = [21, 3, 3, 0, 2, 2, alert];
    let sent = std::future::poll_fn(|cx| {
        match conn.transport.connection.poll_write(cx, [&record, &[], &[]], Behind::Close) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => poll_over(conn).map(|_| ()),
        }
    });
    sent.await;
    TlsRefusal::Failed(failure)
}

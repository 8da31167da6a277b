//! Phase Tls: from the first bytes of a client to a connection that both sides trust to be private.
//!
//! Runs between accept and the protocol of the listener. Until its first byte a client holds no memory for
//! TLS. Must not decide what a failure means.

use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rustls::pki_types::UnixTime;
use rustls::server::UnbufferedServerConnection;
use weir_observe::{Cause, Failure, Party, Phase};

use super::tls_refusal::{TlsRefusal, poll_over};
use super::{ByteConnection, certificate_wait};
use crate::exchange::tcp;
use crate::net::clock::{self, Instant};
use crate::net::failure::of_io;
use crate::net::socket::Behind;
use crate::net::tls::client_certificates::ClientCertificate;
use crate::net::tls::failure::of_rustls;
use crate::net::tls::issued::CHALLENGE_PROTOCOL;
use crate::net::tls::records::Records;
use crate::net::tls::server_config::TlsServerConfig;
use crate::net::tls::session::TlsSession;
use crate::state::tracing::recorder::ClientTransport;

/// The content type of the first record of a handshake (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 0x16;

/// Does the TLS handshake with a client that has just connected, within the time limit of the phase.
///
/// # Errors
/// When there is no TLS on the connection. What plain HTTP the client sent is left in its input.
pub(crate) async fn accept(
    conn: &mut ByteConnection,
    server_config: &TlsServerConfig,
) -> Result<(), TlsRefusal> {
    let limit = conn.client.listener.plan().config.timeouts.tls;
    let began = conn.client.now;
    conn.client.deadline.set(began, Some(limit));
    let outcome = match first_byte(conn).await {
        Ok(HANDSHAKE) if passes_through(conn).await => {
            // The time left is for the server name, which is read again.
            conn.client.deadline.set_at(None);
            conn.client.now = clock::now();
            return Ok(());
        }
        Ok(HANDSHAKE) => match wait_for_rate(conn, server_config, began + limit).await {
            Ok(()) => match certificate(conn, server_config, limit).await {
                Ok(()) => shake(conn, server_config).await,
                Err(refused) => Err(refused),
            },
            Err(refused) => Err(refused),
        },
        Ok(byte) if byte.is_ascii_alphabetic() => {
            Err(TlsRefusal::Failed(Failure::client(Phase::Tls, Cause::PlainHttpOnTlsPort)))
        }
        Ok(_) => Err(TlsRefusal::Failed(Failure::client(Phase::Tls, Cause::TlsHandshakeFailed))),
        Err(refused) => Err(refused),
    };
    conn.client.deadline.set_at(None);
    conn.client.now = clock::now();
    if let (Ok(()), Some(records)) = (outcome, &mut conn.transport.connection.tls) {
        records.handshake_micros = clock::micros(conn.client.now.saturating_duration_since(began));
        count(conn);
    }
    outcome
}

/// What the client begins with; it stays in the input.
async fn first_byte(conn: &mut ByteConnection) -> Result<u8, TlsRefusal> {
    // What came behind a PROXY protocol header is in the input already.
    if !conn.transport.connection.has_input()
        && !conn.transport.connection.fill_at_once(&conn.client.worker.stock)
    {
        let received = std::future::poll_fn(|cx| {
            if conn.is_stopped() {
                return Poll::Ready(Err(TlsRefusal::Closed));
            }
            match conn.transport.connection.poll_fill(cx, &conn.client.worker.stock) {
                Poll::Ready(Ok(_)) => Poll::Ready(Ok(())),
                Poll::Ready(Err(_)) => Poll::Ready(Err(TlsRefusal::Closed)),
                Poll::Pending => poll_over(conn).map(Err),
            }
        });
        received.await?;
    }
    conn.transport.connection.received().first().copied().ok_or(TlsRefusal::Closed)
}

/// Whether TLS passes through to the server, as the route for the server name says. A hello that cannot be read is left to the handshake.
async fn passes_through(conn: &mut ByteConnection) -> bool {
    let listener = Arc::clone(&conn.client.listener.plan());
    if !listener.passes_tls {
        return false;
    }
    // On the heap, since few listeners do this and it would make every handshake larger.
    let Ok(Some(hello)) = Box::pin(certificate_wait::read_hello(conn)).await else { return false };
    tcp::passes_tls(&conn.client, &listener, hello.server_name().unwrap_or_default())
}

/// Waits until the rate limit allows this handshake.
async fn wait_for_rate(
    conn: &mut ByteConnection,
    server_config: &TlsServerConfig,
    latest: Instant,
) -> Result<(), TlsRefusal> {
    let Some(rate) = &server_config.handshake_rate else { return Ok(()) };
    // All workers count from the same moment.
    let epoch = conn.client.worker.config.borrow().snapshot.epoch;
    let nanos =
        |at: Instant| u64::try_from(at.saturating_duration_since(epoch).as_nanos()).unwrap_or(u64::MAX);
    let Some(at) = rate.try_take(nanos(clock::now()), nanos(latest)) else {
        return Err(TlsRefusal::Failed(Failure::weir(Phase::Tls, Cause::TooManyHandshakes)));
    };
    let at = epoch + Duration::from_nanos(at);
    std::future::poll_fn(|_| {
        if clock::now() >= at {
            return Poll::Ready(Ok(()));
        }
        conn.client.deadline.look_again(at);
        poll_over(conn).map(Err)
    })
    .await
}

/// Waits for the certificate that the client needs, if Weir obtains certificates by itself and some are not there yet.
async fn certificate(
    conn: &mut ByteConnection,
    server_config: &TlsServerConfig,
    limit: Duration,
) -> Result<(), TlsRefusal> {
    let certificates = &server_config.certificates;
    let Some(issued) = certificates.issued().filter(|issued| issued.may_wait()) else { return Ok(()) };
    Box::pin(certificate_wait::wait(conn, certificates, issued)).await?;
    conn.client.deadline.set(clock::now(), Some(limit));
    Ok(())
}

async fn shake(conn: &mut ByteConnection, server_config: &TlsServerConfig) -> Result<(), TlsRefusal> {
    let made = UnbufferedServerConnection::new(server_config.config());
    let made = made.map_err(|_| TlsRefusal::Failed(Failure::weir(Phase::Tls, Cause::Io)))?;
    let mut records =
        Box::new(Records::new(TlsSession::Server(made), conn.transport.connection.input.take()));
    let outcome = std::future::poll_fn(|cx| {
        match records.poll_handshake(
            cx,
            &mut conn.transport.connection.socket,
            &conn.client.worker.stock,
            Behind::Unknown,
        ) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(refused(conn, &error))),
            Poll::Pending if conn.is_stopped() => {
                Poll::Ready(Err(TlsRefusal::Failed(Failure::weir(Phase::Tls, Cause::Drained))))
            }
            Poll::Pending => poll_over(conn).map(Err),
        }
    })
    .await;
    outcome?;
    if records.protocol() == Some(CHALLENGE_PROTOCOL) {
        // The handshake was the whole proof (RFC 8737 section 3).
        return Err(TlsRefusal::Closed);
    }
    records.client_certificate = client_certificate(conn, &records, server_config)?;
    conn.transport.connection.tls = Some(records);
    conn.client.is_tls = true;
    conn.client.transport = ClientTransport::Tls;
    Ok(())
}

/// The certificate that the client presented, if one was requested.
fn client_certificate(
    conn: &ByteConnection,
    records: &Records,
    server_config: &TlsServerConfig,
) -> Result<Option<Box<ClientCertificate>>, TlsRefusal> {
    let plan = Arc::clone(&conn.client.listener.plan());
    let tls = plan.config.tls.as_ref();
    let clients = tls.and_then(|tls| tls.client_certificates.as_ref());
    let (Some(clients), Some(chain @ [der, ..])) = (clients, records.peer_certificates()) else {
        return Ok(None);
    };
    let now = clock::date();
    let verifier = server_config.client_verifier();
    if verifier.is_some_and(|verifier| !verifier.is_valid(chain, UnixTime::since_unix_epoch(now.duration())))
    {
        return Ok(Some(ClientCertificate::invalid(&clients.headers)));
    }
    let rejected = |cause| TlsRefusal::Failed(Failure::client(Phase::Tls, cause));
    let read = ClientCertificate::read(der, &clients.headers);
    let read = read.ok_or_else(|| rejected(Cause::TlsCertificateRejected))?;
    // In a handshake that resumes an earlier session, no verifier runs.
    if read.identity.as_ref().is_some_and(|identity| identity.not_after < now) {
        return Err(rejected(Cause::TlsCertificateExpired));
    }
    Ok(Some(read))
}

fn refused(conn: &ByteConnection, error: &io::Error) -> TlsRefusal {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let failure = match cause {
        Some(error) => match of_rustls(error) {
            // The fault is in the revocation lists, not in the client.
            cause @ Cause::TlsRevocationUnknown => Failure::weir(Phase::Tls, cause),
            cause => Failure::client(Phase::Tls, cause),
        },
        None => of_io(Phase::Tls, Party::Client, error),
    };
    tracing::debug!(
        listener = &*conn.client.listener.plan().config.name,
        peer = ?conn.client.peer,
        reason = failure.reason(),
        %error,
        "no TLS with a client"
    );
    TlsRefusal::Failed(failure)
}

fn count(conn: &ByteConnection) {
    let Some(tls) = &conn.transport.connection.tls else { return };
    let by_version = &conn.client.listener.shard.tls_handshakes[usize::from(tls.is_version_13())];
    by_version[usize::from(tls.is_resumed())].increment();
}

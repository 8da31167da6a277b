//! Phase Tls: from the first bytes of a client to a connection that both sides trust to be private.
//!
//! Stands between accept and the protocol of the listener, whatever that is. Until its first byte a client holds no memory for
//! TLS. Must not decide what a failure means.

use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, UNIX_EPOCH};

use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;
use weir_observe::{Cause, Failure, Party, Phase};

use super::Session;
use crate::net::clock::{self, Instant};
use crate::net::failure::of_io;
use crate::net::socket::Behind;
use crate::net::tls::clients::ClientCertificate;
use crate::net::tls::failure::of_rustls;
use crate::net::tls::records::Records;
use crate::net::tls::session::Session as TlsSession;
use crate::net::tls::terms::Terms;
use crate::state::activity::Activity;

/// The content type of the first record of a handshake (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 0x16;

/// Why there is no TLS on a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Refused {
    /// Nobody said anything.
    Quietly,
    Failed(Failure),
}

/// Shakes hands with a client that has just connected, within the time limit of the phase.
///
/// # Errors
/// When there is no TLS on the connection. What plain HTTP the client sent is left in its input.
pub(crate) async fn accept(session: &mut Session, terms: &Terms) -> Result<(), Refused> {
    let limit = session.client.listener.plan().config.timeouts.tls;
    let began = session.client.now;
    session.client.deadline.set(began, Some(limit));
    let outcome = match first_byte(session).await {
        Ok(HANDSHAKE) => match take_turn(session, terms, began + limit).await {
            Ok(()) => shake(session, terms.config()).await,
            Err(refused) => Err(refused),
        },
        Ok(byte) if byte.is_ascii_alphabetic() => {
            Err(Refused::Failed(Failure::client(Phase::Tls, Cause::PlainHttpOnTlsPort)))
        }
        Ok(_) => Err(Refused::Failed(Failure::client(Phase::Tls, Cause::TlsHandshakeFailed))),
        Err(refused) => Err(refused),
    };
    session.client.deadline.set_at(None);
    session.client.now = clock::now();
    if let (Ok(()), Some(records)) = (outcome, &mut session.connection.tls) {
        records.handshake_micros = clock::micros(session.client.now.saturating_duration_since(began));
        count(session);
    }
    outcome
}

/// What the client begins with; it stays in the input.
async fn first_byte(session: &mut Session) -> Result<u8, Refused> {
    // What came behind a PROXY protocol header is in the input already.
    if !session.connection.has_input() && !session.connection.fill_at_once(&session.client.worker.stock) {
        let received = std::future::poll_fn(|cx| {
            if session.is_stopped() {
                return Poll::Ready(Err(Refused::Quietly));
            }
            match session.connection.poll_fill(cx, &session.client.worker.stock) {
                Poll::Ready(Ok(_)) => Poll::Ready(Ok(())),
                Poll::Ready(Err(_)) => Poll::Ready(Err(Refused::Quietly)),
                Poll::Pending => poll_over(session).map(Err),
            }
        });
        received.await?;
    }
    session.connection.received().first().copied().ok_or(Refused::Quietly)
}

/// Waits for the turn of this handshake, where their rate is limited.
async fn take_turn(session: &mut Session, terms: &Terms, latest: Instant) -> Result<(), Refused> {
    let Some(turns) = &terms.turns else { return Ok(()) };
    // All workers count from the same moment.
    let epoch = session.client.worker.view.borrow().snapshot.epoch;
    let nanos =
        |at: Instant| u64::try_from(at.saturating_duration_since(epoch).as_nanos()).unwrap_or(u64::MAX);
    let Some(turn) = turns.try_take(nanos(clock::now()), nanos(latest)) else {
        return Err(Refused::Failed(Failure::weir(Phase::Tls, Cause::TooManyHandshakes)));
    };
    let turn = epoch + Duration::from_nanos(turn);
    std::future::poll_fn(|_| {
        if clock::now() >= turn {
            return Poll::Ready(Ok(()));
        }
        session.client.deadline.look_again(turn);
        poll_over(session).map(Err)
    })
    .await
}

async fn shake(session: &mut Session, config: Arc<ServerConfig>) -> Result<(), Refused> {
    let made = UnbufferedServerConnection::new(config);
    let made = made.map_err(|_| Refused::Failed(Failure::weir(Phase::Tls, Cause::Io)))?;
    let mut records = Box::new(Records::new(TlsSession::Server(made), session.connection.input.take()));
    let outcome = std::future::poll_fn(|cx| {
        match records.poll_handshake(
            cx,
            &mut session.connection.socket,
            &session.client.worker.stock,
            Behind::Unknown,
        ) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(refused(session, &error))),
            Poll::Pending if session.is_stopped() => {
                Poll::Ready(Err(Refused::Failed(Failure::weir(Phase::Tls, Cause::Drained))))
            }
            Poll::Pending => poll_over(session).map(Err),
        }
    })
    .await;
    outcome?;
    records.client_certificate = certificate(session, &records)?;
    session.connection.tls = Some(records);
    session.client.is_tls = true;
    Ok(())
}

/// Whose certificate the client has shown, if it was asked for one.
fn certificate(session: &Session, records: &Records) -> Result<Option<Box<ClientCertificate>>, Refused> {
    let plan = Arc::clone(&session.client.listener.plan());
    let tls = plan.config.tls.as_ref();
    let clients = tls.and_then(|tls| tls.client_certificates.as_ref());
    let (Some(clients), Some(der)) = (clients, records.peer_certificate()) else { return Ok(None) };
    let rejected = |cause| Refused::Failed(Failure::client(Phase::Tls, cause));
    let read = ClientCertificate::read(der, &clients.headers);
    let read = read.ok_or_else(|| rejected(Cause::TlsCertificateRejected))?;
    // In a handshake that goes on with an earlier session nobody else looks.
    if read.identity.not_after < UNIX_EPOCH + clock::unix_now() {
        return Err(rejected(Cause::TlsCertificateExpired));
    }
    Ok(Some(read))
}

/// Waits; ready when that has to end.
fn poll_over(session: &mut Session) -> Poll<Refused> {
    session.client.report_idle(Activity::Handshake);
    let timed_out = Failure::client(Phase::Tls, Cause::TimedOut);
    let over = session.client.deadline.poll_passed();
    over.map(|()| Refused::Failed(session.client.deadline.failure(Phase::Tls, timed_out)))
}

fn refused(session: &Session, error: &io::Error) -> Refused {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let failure = match cause {
        Some(error) => match of_rustls(error) {
            // Whoever the client is: the lists are what is wrong.
            cause @ Cause::TlsRevocationUnknown => Failure::weir(Phase::Tls, cause),
            cause => Failure::client(Phase::Tls, cause),
        },
        None => of_io(Phase::Tls, Party::Client, error),
    };
    tracing::debug!(
        listener = &*session.client.listener.plan().config.name,
        peer = ?session.client.peer,
        reason = failure.reason(),
        %error,
        "no TLS with a client"
    );
    Refused::Failed(failure)
}

fn count(session: &Session) {
    let Some(tls) = &session.connection.tls else { return };
    let by_version = &session.client.listener.shard.tls_handshakes[usize::from(tls.is_version_13())];
    by_version[usize::from(tls.is_resumed())].increment();
}

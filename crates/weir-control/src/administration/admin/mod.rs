//! The admin listener: reports and changes over HTTP, served off the workers.
//!
//! One short request per connection, with bounds on its size, its time and on how many there are; `guard` decides which are allowed. Must
//! not be reachable through the data path, nor by pages of other sites in a user's browser.

mod reserve;
mod routes;
mod scrape;
mod stub_status;
mod api;
mod server_modes;
mod maintenance;
mod hand_over;
mod purge;
mod exchanges;
mod connections;
mod profile;
mod ready;
mod guard;
mod request;
mod response;
mod query;
mod connection_slots;
mod one_at_a_time;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use weir_observe::AdminRefusal;

use super::admin_operations::Operations;
use crate::administration::admin_access::AdminPeer;
use connection_slots::ConnectionSlots;
use request::ReceivedRequest;
use reserve::ReadinessReserve;
use response::RefusedRequest;
use routes::AdminReply;

/// How long one request may take from its first byte to its last.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// How long the client may take to read the answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// How long a wrong password or token takes: with the connections that one address may have, that is 32 guesses a second.
const GUESS_TIME: Duration = Duration::from_millis(500);

/// Bytes that are read and dropped after a rejection, so that the client reads the answer before it sees the close.
const LINGER_BYTES_MAX: usize = 256 * 1024;
const LINGER_TIME: Duration = Duration::from_secs(2);

/// Binds the admin address.
///
/// # Errors
/// The errors of `bind(2)`.
pub(crate) fn bind(addr: SocketAddr) -> io::Result<(std::net::TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind(addr)?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

/// Takes over a socket of another process that is bound and listens.
pub(crate) fn take_over(sockets: Vec<OwnedFd>) -> io::Result<(std::net::TcpListener, SocketAddr)> {
    let socket = sockets.into_iter().next().ok_or(io::ErrorKind::NotFound)?;
    let listener = std::net::TcpListener::from(socket);
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

/// Serves until the task is dropped.
pub(crate) async fn serve(listener: std::net::TcpListener, operations: Arc<Operations>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let (slots, reserve) = (Arc::new(ConnectionSlots::default()), Mutex::new(ReadinessReserve::default()));
    let accept = || async { accept_all(&listener, &slots, &mut *reserve.lock().await, &operations).await };
    weir_tasks::keep("the admin listener", accept).await;
    Ok(())
}

async fn accept_all(
    listener: &TcpListener,
    slots: &Arc<ConnectionSlots>,
    reserve: &mut ReadinessReserve,
    operations: &Arc<Operations>,
) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let peer = AdminPeer::Network(address);
                let Some(slot) = slots.take(address.ip()) else {
                    reserve.take(stream, operations, peer);
                    continue;
                };
                let operations = Arc::clone(operations);
                tokio::spawn(async move {
                    // Whatever goes wrong here concerns this one client only.
                    let _outcome = serve_one(stream, Vec::new(), &operations, peer).await;
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the admin listener cannot accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Answers the one request of a connection, whose first bytes may have been read already.
pub(crate) async fn serve_one(
    mut stream: impl AsyncRead + AsyncWrite + AsFd + Unpin,
    first: Vec<u8>,
    operations: &Arc<Operations>,
    peer: AdminPeer,
) -> io::Result<()> {
    let (outcome, with_body) =
        match tokio::time::timeout(REQUEST_TIME, request::read(&mut stream, first)).await {
            Err(_elapsed) => {
                let what = "The request was not whole in time.\n";
                (Err(RefusedRequest::new(AdminRefusal::TooSlow, 408, what)), true)
            }
            Ok(ReceivedRequest::Gone) => return Ok(()),
            Ok(ReceivedRequest::Refused(refused)) => (Err(refused), true),
            Ok(ReceivedRequest::Whole(request)) => {
                let with_body = request.method() != weir_http::Method::Head;
                let outcome = match guard::check(&operations.access, &request, peer) {
                    Ok(()) => routes::respond(&request, operations, peer).await,
                    Err(refused) => Err(refused),
                };
                let is_api = request.path().starts_with(b"/api/");
                (if is_api { for_api(outcome) } else { outcome }, with_body)
            }
        };
    match outcome {
        Ok(AdminReply::Whole(answer)) => {
            operations.access.count_answer();
            send(&mut stream, answer.into_bytes(with_body), operations, peer).await
        }
        Ok(AdminReply::Metrics(scraping)) => {
            operations.access.count_answer();
            let sent = scraping.send(&mut stream, with_body).await;
            if sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
                operations.access.count_refusal(AdminRefusal::TooSlow, peer);
            }
            sent
        }
        Err(refused) => {
            operations.access.count_refusal(refused.refusal, peer);
            if refused.guessed {
                tokio::time::sleep(GUESS_TIME).await;
            }
            let sent = send(&mut stream, refused.answer.into_bytes(with_body), operations, peer).await;
            let _elapsed = tokio::time::timeout(LINGER_TIME, linger(&mut stream)).await;
            sent
        }
    }
}

/// The outcome of a request below `/api/`, where programs read what is wrong.
fn for_api(outcome: Result<AdminReply, RefusedRequest>) -> Result<AdminReply, RefusedRequest> {
    match outcome {
        Ok(AdminReply::Whole(answer)) => Ok(AdminReply::Whole(answer.for_api())),
        Err(refused) => Err(RefusedRequest { answer: refused.answer.for_api(), ..refused }),
        metrics => metrics,
    }
}

/// Sends a whole answer, and closes.
async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    answer: Vec<u8>,
    operations: &Operations,
    peer: AdminPeer,
) -> io::Result<()> {
    let send = async {
        stream.write_all(&answer).await?;
        stream.shutdown().await
    };
    match tokio::time::timeout(ANSWER_TIME, send).await {
        Ok(sent) => sent,
        Err(elapsed) => {
            operations.access.count_refusal(AdminRefusal::TooSlow, peer);
            Err(elapsed.into())
        }
    }
}

/// Reads on until the client has closed too.
async fn linger(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let (mut scrap, mut left) = ([0; 4096], LINGER_BYTES_MAX);
    while left > 0 {
        match stream.read(&mut scrap).await? {
            0 => break,
            len => left = left.saturating_sub(len),
        }
    }
    Ok(())
}

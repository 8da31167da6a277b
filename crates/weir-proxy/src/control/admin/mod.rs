//! The admin listener: what Weir tells of itself and takes orders by, over HTTP, served off the workers.
//!
//! One short request per connection, with bounds on its size, its time and on how many there are; `guard` decides who is answered. Must
//! not be reachable through the data path, nor through the pages of other sites in somebody's browser.

mod reserve;
mod routes;
mod scrape;
mod api;
mod server_modes;
mod exchanges;
mod connections;
mod profile;
mod ready;
mod guard;
mod request;
mod response;
mod query;
mod connection_slots;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use weir_observe::AdminRefusal;

use self::connection_slots::Seats;
use self::request::Received;
use self::reserve::Reserve;
use self::response::Refused;
use self::routes::Reply;
use crate::control::admin_access::Peer;
use crate::control::operations::Served;

/// How long one request may take from its first byte to its last.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// How long the client may take to read the answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// How long a wrong password or token takes: with the connections that one address may have, that is 32 guesses a second.
const GUESS_TIME: Duration = Duration::from_millis(500);

/// What is read and forgotten after a refusal, so that the client gets to read the answer before it hears of the close.
const LINGER_BYTES_MAX: usize = 256 * 1024;
const LINGER_TIME: Duration = Duration::from_secs(2);

/// Binds the admin address.
///
/// # Errors
/// Those of `bind(2)`.
pub(crate) fn bind(addr: SocketAddr) -> io::Result<(std::net::TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind(addr)?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

/// Serves until the task is dropped.
pub(crate) async fn serve(listener: std::net::TcpListener, served: Arc<Served>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let (seats, mut reserve) = (Arc::new(Seats::default()), Reserve::default());
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let peer = Peer::Network(address);
                let Some(seat) = seats.take(address.ip()) else {
                    reserve.take(stream, &served, peer);
                    continue;
                };
                let served = Arc::clone(&served);
                tokio::spawn(async move {
                    // Whatever goes wrong here concerns this one client only.
                    let _outcome = serve_one(stream, Vec::new(), &served, peer).await;
                    drop(seat);
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
    served: &Arc<Served>,
    peer: Peer,
) -> io::Result<()> {
    let (outcome, with_body) =
        match tokio::time::timeout(REQUEST_TIME, request::read(&mut stream, first)).await {
            Err(_elapsed) => {
                let what = "The request was not whole in time.\n";
                (Err(Refused::new(AdminRefusal::TooSlow, 408, what)), true)
            }
            Ok(Received::Gone) => return Ok(()),
            Ok(Received::Refused(refused)) => (Err(refused), true),
            Ok(Received::Whole(request)) => {
                let with_body = request.method() != weir_http::Method::Head;
                let outcome = match guard::check(&served.guard, &request, peer) {
                    Ok(()) => routes::reply(&request, served, peer).await,
                    Err(refused) => Err(refused),
                };
                (outcome, with_body)
            }
        };
    match outcome {
        Ok(Reply::Whole(answer)) => {
            served.guard.count_answer();
            send(&mut stream, answer.into_bytes(with_body), served, peer).await
        }
        Ok(Reply::Metrics(scraping)) => {
            served.guard.count_answer();
            let sent = scraping.send(&mut stream, with_body).await;
            if sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
                served.guard.count_refusal(AdminRefusal::TooSlow, peer);
            }
            sent
        }
        Err(refused) => {
            served.guard.count_refusal(refused.refusal, peer);
            if refused.guessed {
                tokio::time::sleep(GUESS_TIME).await;
            }
            let sent = send(&mut stream, refused.answer.into_bytes(with_body), served, peer).await;
            let _elapsed = tokio::time::timeout(LINGER_TIME, linger(&mut stream)).await;
            sent
        }
    }
}

/// Sends a whole answer, and closes.
async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    answer: Vec<u8>,
    served: &Served,
    peer: Peer,
) -> io::Result<()> {
    let send = async {
        stream.write_all(&answer).await?;
        stream.shutdown().await
    };
    match tokio::time::timeout(ANSWER_TIME, send).await {
        Ok(sent) => sent,
        Err(elapsed) => {
            served.guard.count_refusal(AdminRefusal::TooSlow, peer);
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

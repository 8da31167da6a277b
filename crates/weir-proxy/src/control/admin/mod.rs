//! The admin listener: what Weir tells of itself and takes orders by, over HTTP, served off the workers.
//!
//! One short request per connection, with bounds on its size, its time and on how many run at once. Must not be
//! reachable through the data path, nor through somebody's browser.

mod answer;
mod places;
mod profile;
mod query;
mod ready;
mod request;
mod servers;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use self::answer::Answer;
use self::request::Received;
use super::modes::Modes;
use super::overview::Sources;

/// Requests that run at once; more wait in the backlog.
const REQUESTS_MAX: usize = 32;

/// How long one request may take from its first byte to its last.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// How long the client may take to read the answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// What is served.
pub(crate) struct Served {
    pub(crate) sources: Arc<Sources>,
    pub(crate) modes: Arc<Modes>,
    /// Whether anything may be changed here.
    pub(crate) changes: bool,
}

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
    let running = Arc::new(Semaphore::new(REQUESTS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&running).acquire_owned().await else { return Ok(()) };
        match listener.accept().await {
            Ok((stream, _)) => {
                let served = Arc::clone(&served);
                tokio::spawn(async move {
                    // Whatever goes wrong here concerns this one client only.
                    let _outcome = serve_one(stream, Vec::new(), &served).await;
                    drop(permit);
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
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    first: Vec<u8>,
    served: &Arc<Served>,
) -> io::Result<()> {
    let (answer, with_body) =
        match tokio::time::timeout(REQUEST_TIME, request::read(&mut stream, first)).await {
            Err(_elapsed) => (Answer::plain(408, "The request was not whole in time.\n"), true),
            Ok(Received::Gone) => return Ok(()),
            Ok(Received::Refused(answer)) => (answer, true),
            Ok(Received::Whole(request)) => {
                let with_body = request.method() != weir_http::Method::Head;
                (places::answer(&request, served).await, with_body)
            }
        };
    let send = async {
        stream.write_all(&answer.into_bytes(with_body)).await?;
        stream.shutdown().await
    };
    tokio::time::timeout(ANSWER_TIME, send).await?
}

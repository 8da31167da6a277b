//! The admin listener: figures over HTTP, served off the workers.
//!
//! One short request per connection, with bounds on its size, its time and on how many run at once. Must not be
//! reachable through the data path.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use weir_http::{HeadLimits, Method, Progress, RequestHead, Version, write};

/// Requests that run at once; more wait in the backlog.
const REQUESTS_MAX: usize = 32;

/// How long one request may take from its first byte to the last of the answer.
const REQUEST_TIME: Duration = Duration::from_secs(10);

const HEAD_BYTES_MAX: usize = 8 * 1024;

/// Renders what is shown at `/metrics`.
pub(crate) type RenderMetrics = Arc<dyn Fn() -> String + Send + Sync>;

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
pub(crate) async fn serve(listener: std::net::TcpListener, metrics: RenderMetrics) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let running = Arc::new(Semaphore::new(REQUESTS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&running).acquire_owned().await else { return Ok(()) };
        match listener.accept().await {
            Ok((stream, _)) => {
                let metrics = Arc::clone(&metrics);
                tokio::spawn(async move {
                    // Whatever goes wrong here concerns this one client only.
                    let _outcome = tokio::time::timeout(REQUEST_TIME, answer(stream, &metrics)).await;
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

async fn answer(mut stream: TcpStream, metrics: &RenderMetrics) -> io::Result<()> {
    let mut received = Vec::with_capacity(1024);
    let mut head = RequestHead::new();
    let limits = HeadLimits { head_bytes_max: HEAD_BYTES_MAX, ..HeadLimits::default() };
    let response = loop {
        if stream.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
        match head.parse(&received, &limits) {
            Ok(Progress::Incomplete) => {}
            Ok(Progress::Complete { .. }) => break respond(&head, &received, metrics),
            Err(rule) => break text(400, "text/plain; charset=utf-8", rule.sentence(), true),
        }
    };
    stream.write_all(&response).await?;
    stream.shutdown().await
}

fn respond(head: &RequestHead, received: &[u8], metrics: &RenderMetrics) -> Vec<u8> {
    let with_body = head.method() != Method::Head;
    if !matches!(head.method(), Method::Get | Method::Head) {
        return text(405, "text/plain; charset=utf-8", "Only GET and HEAD are served here.\n", with_body);
    }
    match head.path().of(received) {
        b"/metrics" => text(200, weir_observe::prometheus::CONTENT_TYPE, &metrics(), with_body),
        b"/" => text(200, "text/plain; charset=utf-8", "Metrics are at /metrics.\n", with_body),
        _ => text(
            404,
            "text/plain; charset=utf-8",
            "There is nothing here. Metrics are at /metrics.\n",
            with_body,
        ),
    }
}

fn text(status: u16, content_type: &str, body: &str, with_body: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 256);
    write::status_line(&mut out, Version::Http11, status, write::reason_phrase(status).as_bytes());
    write::field(&mut out, b"Content-Type", content_type.as_bytes());
    write::decimal_field(&mut out, b"Content-Length", body.len() as u64);
    write::field(&mut out, b"Cache-Control", b"no-store");
    write::field(&mut out, b"Connection", b"close");
    out.extend_from_slice(b"\r\n");
    if with_body {
        out.extend_from_slice(body.as_bytes());
    }
    out
}

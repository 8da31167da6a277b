//! The admin listener: figures and the modes of servers over HTTP, served off the workers.
//!
//! One short request per connection, with bounds on its size, its time and on how many run at once. Must not be
//! reachable through the data path, nor through somebody's browser.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use weir_config::parse_duration;
use weir_http::{HeadLimits, Method, Progress, RequestHead, Version, write};
use weir_traffic::Mode;
use weir_traffic::route::query_value;

use super::modes::Modes;

/// Requests that run at once; more wait in the backlog.
const REQUESTS_MAX: usize = 32;

/// How long one request may take from its first byte to the last of the answer.
const REQUEST_TIME: Duration = Duration::from_secs(10);

const HEAD_BYTES_MAX: usize = 8 * 1024;

const PLAIN: &str = "text/plain; charset=utf-8";

/// What is served.
pub(crate) struct Served {
    /// Renders what is shown at `/metrics`.
    pub(crate) metrics: Box<dyn Fn() -> String + Send + Sync>,
    pub(crate) modes: Arc<Modes>,
    /// Whether modes may be changed here.
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
                    let _outcome = tokio::time::timeout(REQUEST_TIME, answer(stream, &served)).await;
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

async fn answer(mut stream: TcpStream, served: &Served) -> io::Result<()> {
    let mut received = Vec::with_capacity(1024);
    let mut head = RequestHead::new();
    let limits = HeadLimits { head_bytes_max: HEAD_BYTES_MAX, ..HeadLimits::default() };
    let response = loop {
        if stream.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
        match head.parse(&received, &limits) {
            Ok(Progress::Incomplete) => {}
            Ok(Progress::Complete { .. }) => break respond(&head, &received, served),
            Err(rule) => break text(400, PLAIN, rule.sentence(), true),
        }
    };
    stream.write_all(&response).await?;
    stream.shutdown().await
}

fn respond(head: &RequestHead, received: &[u8], served: &Served) -> Vec<u8> {
    let with_body = head.method() != Method::Head;
    let path = head.path().of(received);
    if path == b"/servers" && head.method() == Method::Post {
        let (status, told) = change_mode(head, received, served);
        return text(status, PLAIN, &told, true);
    }
    if !matches!(head.method(), Method::Get | Method::Head) {
        return text(405, PLAIN, "Only GET and HEAD are served here, and POST at /servers.\n", with_body);
    }
    match path {
        b"/metrics" => text(200, weir_observe::prometheus::CONTENT_TYPE, &(served.metrics)(), with_body),
        b"/servers" => text(200, PLAIN, &served.modes.table(), with_body),
        b"/" => text(200, PLAIN, "Metrics are at /metrics, servers at /servers.\n", with_body),
        _ => {
            let what = "There is nothing here. Metrics are at /metrics, servers at /servers.\n";
            text(404, PLAIN, what, with_body)
        }
    }
}

/// `POST /servers?upstream=NAME&server=NAME&mode=MODE[&deadline=TIME]`: the status and what to tell.
fn change_mode(head: &RequestHead, received: &[u8], served: &Served) -> (u16, String) {
    if !served.changes {
        return (403, "Changes are not allowed here: `admin.changes` of the config is off.\n".into());
    }
    // Only a browser sends it, and then a web page is behind the request, of this machine or of any other site.
    if head.fields().get_by_name(received, "origin").is_some() {
        return (403, "Requests from web pages are refused.\n".into());
    }
    match Wish::read(head.query().map_or(b"", |query| query.of(received))) {
        Err(what) => (400, format!("{what}\n")),
        Ok(Wish { upstream, server, mode, deadline }) => {
            match served.modes.set(&upstream, &server, mode, deadline) {
                Ok(()) => (200, served.modes.table()),
                Err(unknown) => (404, format!("{unknown}\n")),
            }
        }
    }
}

/// What somebody wants of a server.
#[derive(Debug, PartialEq, Eq)]
struct Wish {
    upstream: String,
    server: String,
    mode: Mode,
    deadline: Option<Duration>,
}

impl Wish {
    fn read(query: &[u8]) -> Result<Self, String> {
        for parameter in query.split(|&byte| byte == b'&').filter(|parameter| !parameter.is_empty()) {
            let name = parameter.split(|&byte| byte == b'=').next().unwrap_or_default();
            if !matches!(name, b"upstream" | b"server" | b"mode" | b"deadline") {
                let name = String::from_utf8_lossy(name);
                return Err(format!(
                    "`{name}` is not known; give upstream, server, mode and if need be deadline"
                ));
            }
        }
        let value = |name: &str| query_value(query, name.as_bytes()).map(decoded);
        let needed = |name: &str| {
            value(name).ok_or_else(|| {
                format!("`{name}` is missing; give upstream, server, mode and if need be deadline")
            })
        };
        let word = needed("mode")?;
        let mode = Mode::named(&word).ok_or_else(|| {
            let [all, bound, none] = Mode::ALL.map(Mode::name);
            format!("`mode` is {all}, {bound} or {none}, not `{word}`")
        })?;
        let deadline = value("deadline").map(|text| parse_duration(&text)).transpose();
        let deadline = deadline.map_err(|error| format!("`deadline`: {}", error.what))?;
        if deadline.is_some() && mode != Mode::Draining {
            return Err("`deadline` belongs to `mode=draining`".into());
        }
        Ok(Self { upstream: needed("upstream")?, server: needed("server")?, mode, deadline })
    }
}

/// The text of a query parameter (RFC 3986 section 2.1). A percent sign without two digits stands for itself.
fn decoded(value: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&first, tail)) = rest.split_first() {
        let hex = |at: usize| tail.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        match (first, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read_from_the_query() {
        let query = b"server=10.0.0.1%3A80&upstream=a%20b&mode=draining&deadline=30s";
        let wish = Wish {
            upstream: "a b".into(),
            server: "10.0.0.1:80".into(),
            mode: Mode::Draining,
            deadline: Some(Duration::from_secs(30)),
        };
        assert_eq!(Wish::read(query), Ok(wish));
        for (query, what) in [
            ("", "`mode` is missing; give upstream, server, mode and if need be deadline"),
            ("upstream=a&server=b", "`mode` is missing; give upstream, server, mode and if need be deadline"),
            (
                "upstream=a&mode=serving",
                "`server` is missing; give upstream, server, mode and if need be deadline",
            ),
            (
                "server=a&mode=serving",
                "`upstream` is missing; give upstream, server, mode and if need be deadline",
            ),
            ("upstream=a&server=b&mode=drain", "`mode` is serving, draining or maintenance, not `drain`"),
            ("upstream=a&server=b&mode=serving&deadline=1s", "`deadline` belongs to `mode=draining`"),
            (
                "upstream=a&server=b&mode=serving&dead=1s",
                "`dead` is not known; give upstream, server, mode and if need be deadline",
            ),
        ] {
            assert_eq!(Wish::read(query.as_bytes()), Err(what.to_owned()), "{query}");
        }
        assert!(Wish::read(b"upstream=a&server=b&mode=draining&deadline=soon").is_err());
    }

    #[test]
    fn percent_signs_are_decoded_where_they_mean_something() {
        for (text, expected) in [("a%2Fb", "a/b"), ("%", "%"), ("%4", "%4"), ("%zz", "%zz"), ("%41%", "A%")] {
            assert_eq!(decoded(text.as_bytes()), expected);
        }
    }
}

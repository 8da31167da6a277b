//! `GET /metrics`: which of them, and their text piece by piece, as fast as the client takes it.
//!
//! A scrape holds one piece of the text. It has a time, and so has each piece; some run at once, and the next waits for its turn.

use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use weir_http::Version;
use weir_http::http1::write;
use weir_observe::AdminRefusal;
use weir_observe::prometheus::{CONTENT_TYPE, FamilyFilter, PIECE_BYTES, Scrape};

use super::query::{all_values, only_known};
use super::request::AdminRequest;
use super::response::{BufferedResponse, RefusedRequest, head_begins};
use crate::administration::admin_operations::{Operations, SCRAPES_MAX};
use crate::administration::statistics::metrics_source::MetricsReading;

/// How long a scrape waits for its turn.
const TURN_TIME: Duration = Duration::from_secs(10);

/// How long the client may take for one piece.
const PIECE_TIME: Duration = Duration::from_secs(10);

/// How long it may take for the whole text. Prometheus gives up after 10 s unless its `scrape_timeout` says otherwise.
const SCRAPE_TIME: Duration = Duration::from_secs(60);

const ACCEPTED: &str = "/metrics takes `upstream=NAME`, `listener=NAME` and `metrics=PREFIX` (what names of metrics begin with), \
    each as often as needed, as in `/metrics?upstream=app&metrics=weir_server_`.";

/// A scrape that has its turn.
pub(super) struct ActiveScrape {
    scrape: Scrape<MetricsReading>,
    version: Version,
    _turn: OwnedSemaphorePermit,
}

/// Reads the requested metrics, and waits for a turn.
pub(super) async fn begin(
    request: &AdminRequest,
    operations: &Operations,
) -> Result<Result<Box<ActiveScrape>, BufferedResponse>, RefusedRequest> {
    let query = request.query();
    let bad = |what: &str| Ok(Err(BufferedResponse::plain(400, format!("{what}. {ACCEPTED}\n"))));
    if let Err(what) = only_known(query, &["upstream", "listener", "metrics"]) {
        return bad(&what);
    }
    let filter = match FamilyFilter::by_prefix(all_values(query, "metrics")) {
        Ok(filter) => filter,
        Err(vain) => return bad(&format!("No name of a metric begins with `{}`", vain.0)),
    };
    let Ok(Some(turn)) = timeout(TURN_TIME, operations.scrape_slots.take()).await else {
        let what = format!("{SCRAPES_MAX} scrapes run already.\n");
        return Err(RefusedRequest::new(AdminRefusal::TooMany, 503, &what));
    };
    let names = |name| all_values(query, name);
    match MetricsReading::new(&operations.sources, &names("upstream"), &names("listener")) {
        Ok(reading) => {
            let scrape = Scrape::new(reading, &filter);
            Ok(Ok(Box::new(ActiveScrape { scrape, version: request.version(), _turn: turn })))
        }
        Err(unknown) => Ok(Err(BufferedResponse::plain(404, format!("{unknown}\n")))),
    }
}

impl ActiveScrape {
    /// Sends the whole text.
    ///
    /// # Errors
    /// The errors of the stream, and `TimedOut` when the client is too slow. Then the client can detect that the text is not whole.
    pub(super) async fn send(
        mut self: Box<Self>,
        stream: &mut (impl AsyncWrite + AsFd + Unpin),
        with_body: bool,
    ) -> io::Result<()> {
        let sent = timeout(SCRAPE_TIME, self.send_pieces(stream, with_body)).await;
        let sent = sent.unwrap_or_else(|elapsed| Err(elapsed.into()));
        if sent.is_err() && self.version == Version::Http10 {
            // Its text ends with the connection, so that half a text ended by a FIN would look whole.
            let _unset = rustix::net::sockopt::set_socket_linger(stream.as_fd(), Some(Duration::ZERO));
        }
        sent
    }

    async fn send_pieces(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        with_body: bool,
    ) -> io::Result<()> {
        let is_chunked = self.version == Version::Http11;
        let (mut text, mut bytes) = (String::new(), Vec::with_capacity(PIECE_BYTES + 8 * 1024));
        head_begins(&mut bytes, 200, CONTENT_TYPE);
        if is_chunked {
            write::field(&mut bytes, b"Transfer-Encoding", b"chunked");
        }
        write::field(&mut bytes, b"Connection", b"close");
        bytes.extend_from_slice(b"\r\n");
        let mut goes_on = with_body;
        while goes_on {
            text.clear();
            goes_on = self.scrape.write_piece(&mut text);
            push_chunk(&mut bytes, &text, is_chunked);
            if bytes.len() >= PIECE_BYTES {
                timeout(PIECE_TIME, stream.write_all(&bytes)).await??;
                bytes.clear();
            }
            // The listener, its guard and other clients are on this thread too.
            tokio::task::yield_now().await;
        }
        if is_chunked && with_body {
            bytes.extend_from_slice(b"0\r\n\r\n");
        }
        timeout(PIECE_TIME, stream.write_all(&bytes)).await??;
        timeout(PIECE_TIME, stream.shutdown()).await?
    }
}

/// Appends a chunk (RFC 9112 section 7.1), or the text as it is; nothing of an empty text, since an empty chunk is the last.
fn push_chunk(bytes: &mut Vec<u8>, text: &str, is_chunked: bool) {
    if !is_chunked {
        bytes.extend_from_slice(text.as_bytes());
    } else if !text.is_empty() {
        write!(bytes, "{:x}\r\n", text.len()).expect("a vector takes everything");
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
}

//! Requests as `hyper` reads them: from the client's own bytes, or behind Weir.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderName, HeaderValue};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{spawn_local, yield_now};

use weir_wire::http1::StartLine;

use super::memory::MemoryIo;

/// The field of a response that tells which of the recorded requests it answers.
pub(super) const SEEN: &str = "seen";

/// More than Weir forwards, its own included.
const FIELDS_MAX: usize = 400;

/// Turns of the event loop in which bytes that lie in the sockets reach a service: accept, register, read, serve.
const TURNS: usize = 8;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadRequest {
    pub(crate) method: String,
    /// Path and query, or `*`; empty in the authority form.
    pub(crate) target: String,
    /// Whether the target was absolute.
    pub(crate) absolute: bool,
    /// The authority that the request is for: of an absolute target, else of Host.
    pub(crate) host: Option<Bytes>,
    /// Name in lower case and value, in the order received for each name.
    pub(crate) fields: Vec<(String, Bytes)>,
    pub(crate) body: Bytes,
    /// Whether the body came to its end.
    pub(crate) whole: bool,
}

impl ReadRequest {
    /// The first field called `name`.
    pub(crate) fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| &value[..])
    }
}

/// What was read from one client, or behind Weir for one client.
#[derive(Debug, Default)]
pub(crate) struct ReadRequests {
    pub(crate) requests: Vec<ReadRequest>,
    /// Whether a head was refused; nothing behind it was read.
    pub(crate) refused: bool,
    /// Requests whose body has not ended yet.
    open: usize,
    /// What has come on each connection, by its number.
    records: BTreeMap<usize, Vec<u8>>,
}

impl ReadRequests {
    /// Fails unless the bytes of each connection are exactly these requests, for a reader without any tolerance.
    ///
    /// # Panics
    /// When they are not.
    pub(crate) fn assert_exact(&self) {
        let mut read = Vec::new();
        for record in self.records.values() {
            let reading = weir_wire::http1::requests(record);
            let shown = record.escape_ascii();
            assert_eq!(
                (reading.fault, reading.tunnel, reading.unfinished_head),
                (None, None, None),
                "{shown}"
            );
            read.extend(reading.messages.into_iter().map(|message| match message.start {
                StartLine::Request { method, .. } => (method, message.body, message.is_complete),
                StartLine::Response { .. } => unreachable!("requests were read"),
            }));
        }
        // What `hyper` refuses, it does not record.
        if self.refused {
            return;
        }
        let seen = self
            .requests
            .iter()
            .map(|request| (request.method.clone(), request.body.to_vec(), request.whole));
        let mut seen: Vec<_> = seen.collect();
        read.sort();
        seen.sort();
        assert_eq!(read, seen);
    }
}

/// A connection of which everything is recorded that it receives.
struct RecordedConnection {
    stream: UnixStream,
    number: usize,
    reading: Rc<RefCell<ReadRequests>>,
}

impl AsyncRead for RecordedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let received = &buf.filled()[before..];
        if !received.is_empty() {
            let mut reading = self.reading.borrow_mut();
            reading.records.entry(self.number).or_default().extend_from_slice(received);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for RecordedConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The requests that `bytes` hold when a client sends them and closes.
pub(crate) async fn read_requests(bytes: &[u8]) -> ReadRequests {
    let reading = RefCell::new(ReadRequests::default());
    let service = service_fn(|request| answer(request, &reading));
    let served = builder().serve_connection(MemoryIo::of_client(bytes), service).await;
    let mut reading = reading.into_inner();
    reading.refused = served.is_err_and(|error| error.is_parse());
    reading
}

/// A server that records what it gets.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestRecorder(Rc<RefCell<ReadRequests>>);

impl RequestRecorder {
    /// Serves every connection that comes.
    pub(crate) async fn serve(self, listener: UnixListener) {
        let mut number = 0;
        while let Ok((stream, _)) = listener.accept().await {
            let recorder = self.clone();
            number += 1;
            let stream = RecordedConnection { stream, number, reading: Rc::clone(&self.0) };
            spawn_local(async move {
                let service = service_fn(|request| answer(request, &recorder.0));
                let served = builder().serve_connection(TokioIo::new(stream), service).await;
                if served.is_err_and(|error| error.is_parse()) {
                    recorder.0.borrow_mut().refused = true;
                }
            });
        }
    }

    /// What has come since the last call. All that Weir sent for a client lies in the sockets when it closes the
    /// connection of that client; this waits until it was read.
    pub(crate) async fn take(&self) -> ReadRequests {
        let mut turns = 0;
        while turns < TURNS || self.0.borrow().open > 0 {
            yield_now().await;
            turns += 1;
        }
        self.0.take()
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.half_close(true).max_headers(FIELDS_MAX).header_read_timeout(None);
    builder
}

/// A request while its body comes. Dropped, it is recorded as far as it came, also when `hyper` gives up the
/// connection in between.
struct UnfinishedRequest<'a> {
    reading: &'a RefCell<ReadRequests>,
    request: Option<ReadRequest>,
    body: Vec<u8>,
    whole: bool,
}

impl Drop for UnfinishedRequest<'_> {
    fn drop(&mut self) {
        let body = Bytes::from(std::mem::take(&mut self.body));
        let request = self.request.take().map(|request| ReadRequest { body, whole: self.whole, ..request });
        let mut reading = self.reading.borrow_mut();
        reading.open -= 1;
        reading.requests.extend(request);
    }
}

/// Records `request` and gives its body back.
async fn answer(
    request: hyper::Request<Incoming>,
    reading: &RefCell<ReadRequests>,
) -> Result<hyper::Response<Full<Bytes>>, hyper::Error> {
    reading.borrow_mut().open += 1;
    let (head, mut incoming) = request.into_parts();
    let mut coming =
        UnfinishedRequest { reading, request: Some(describe(&head)), body: Vec::new(), whole: false };
    while let Some(frame) = incoming.frame().await {
        // After an error the connection closes without an answer.
        coming.body.extend_from_slice(frame?.data_ref().map_or(&[], |data| &data[..]));
    }
    coming.whole = true;
    let body = Bytes::copy_from_slice(&coming.body);
    drop(coming);
    Ok(respond(&head.method, reading.borrow().requests.len() - 1, body))
}

fn describe(head: &hyper::http::request::Parts) -> ReadRequest {
    let target = head.uri.path_and_query().map_or("", |target| target.as_str());
    // The empty path is `/` (RFC 9110 section 4.2.3).
    let slash = if target.starts_with('?') { "/" } else { "" };
    let host = head.uri.authority().map(|authority| authority.as_str().as_bytes());
    let host = host.or_else(|| head.headers.get(HOST).map(|host| host.as_bytes()));
    let field = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.to_string(), Bytes::copy_from_slice(value.as_bytes()))
    };
    ReadRequest {
        method: head.method.to_string(),
        target: format!("{slash}{target}"),
        absolute: head.uri.scheme().is_some(),
        host: host.map(Bytes::copy_from_slice),
        fields: head.headers.iter().map(field).collect(),
        body: Bytes::new(),
        whole: false,
    }
}

fn respond(method: &hyper::Method, index: usize, body: Bytes) -> hyper::Response<Full<Bytes>> {
    // An accepted CONNECT would end HTTP on this connection.
    let status = if method == hyper::Method::CONNECT { 501 } else { 200 };
    let response = hyper::Response::builder().status(status).header(SEEN, index).body(Full::from(body));
    response.expect("a status and a number are sound")
}

//! Two independent parsers as a second opinion: `httparse` on what is valid, `hyper` on where a message ends.
//!
//! This crate may reject messages that they accept. It must not accept any that `httparse` rejects, and where both this crate and
//! `hyper` accept a message, they must see the same method, target, fields and body.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use weir_http::http1::{ChunkedDecoder, HeadProgress, ParsedRequest, ParsedResponse};
use weir_http::{Framing, HeadLimits, Method, TargetForm, Version};

use crate::generate;

/// How the body of a message turns out.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Whole(Vec<u8>),
    /// The input ends before the body does, or the body is refused.
    Broken,
}

/// A connection whose peer sends `input` and closes, and reads everything.
struct Wire {
    input: Vec<u8>,
    at: usize,
    /// Whether the peer still waits for the first byte before it sends its own.
    waits: bool,
}

impl hyper::rt::Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buf: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.waits {
            return Poll::Pending;
        }
        let len = buf.remaining().min(self.input.len() - self.at);
        buf.put_slice(&self.input[self.at..self.at + len]);
        self.at += len;
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Wire {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        self.waits = false;
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The body of a response that has none.
struct EmptyBody;

impl Body for EmptyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(None)
    }
}

/// Reads `body` to its end.
async fn collect(mut body: Incoming) -> Outcome {
    let mut payload = Vec::new();
    loop {
        match std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            None => return Outcome::Whole(payload),
            Some(Err(_)) => return Outcome::Broken,
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    payload.extend_from_slice(&data);
                }
            }
        }
    }
}

/// Polls until `future` is ready, or has been asked often enough to be stuck: the wire never makes it wait.
fn drive<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    (0..200).find_map(|_| match future.as_mut().poll(&mut cx) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    })
}

/// A message as `hyper` sees it.
#[derive(Debug, Clone)]
struct Seen {
    /// Method and target, or the status.
    start: (String, String),
    fields: usize,
    body: Outcome,
}

/// The first request that `hyper` hands to its service.
fn hyper_request(input: &[u8]) -> Option<Seen> {
    let seen = Rc::new(RefCell::new(None));
    let service = service_fn(|request: Request<Incoming>| {
        let seen = Rc::clone(&seen);
        async move {
            let (head, body) = request.into_parts();
            let start = (head.method.to_string(), head.uri.to_string());
            let body = collect(body).await;
            seen.borrow_mut().get_or_insert(Seen { start, fields: head.headers.len(), body });
            Ok::<_, Infallible>(Response::new(EmptyBody))
        }
    });
    let wire = Wire { input: input.to_vec(), at: 0, waits: false };
    let mut builder = hyper::server::conn::http1::Builder::new();
    _ = drive(builder.header_read_timeout(None).half_close(true).serve_connection(wire, service));
    seen.take()
}

/// The response that `hyper` gives for a GET.
fn hyper_response(input: &[u8]) -> Option<Seen> {
    let wire = Wire { input: input.to_vec(), at: 0, waits: true };
    let seen = Rc::new(RefCell::new(None));
    let exchange = async {
        let (mut sender, conn) = hyper::client::conn::http1::handshake(wire).await.ok()?;
        let mut conn = pin!(conn);
        let response = sender.send_request(Request::new(EmptyBody));
        let mut receive = pin!(async {
            let response = response.await.ok()?;
            let (head, body) = response.into_parts();
            let start = (head.status.as_u16().to_string(), String::new());
            let body = collect(body).await;
            *seen.borrow_mut() = Some(Seen { start, fields: head.headers.len(), body });
            Some(())
        });
        // Both run until the response is through; the connection alone could end before its last bytes are taken.
        std::future::poll_fn(|cx| {
            _ = conn.as_mut().poll(cx);
            receive.as_mut().poll(cx)
        })
        .await
    };
    _ = drive(exchange);
    seen.take()
}

/// Takes the body off the front of `bytes` as this crate delimits it.
fn take_body(bytes: &[u8], length: Option<u64>, chunked: bool) -> Outcome {
    if chunked {
        let mut buf = bytes.to_vec();
        return match ChunkedDecoder::default().decode(&mut buf) {
            Ok(decoded) if decoded.done => Outcome::Whole(buf[decoded.data].to_vec()),
            _ => Outcome::Broken,
        };
    }
    let length = usize::try_from(length.unwrap_or_default()).unwrap_or(usize::MAX);
    bytes.get(..length).map_or(Outcome::Broken, |body| Outcome::Whole(body.to_vec()))
}

fn request_body(bytes: &[u8], body: Framing) -> Outcome {
    match body {
        Framing::None => take_body(bytes, None, false),
        Framing::Length(length) => take_body(bytes, Some(length), false),
        Framing::Delimited => take_body(bytes, None, true),
        Framing::UntilClose => unreachable!("no request ends with its connection"),
    }
}

/// Whether the first line has a minor version above 1, which this crate takes for HTTP/1.1 (RFC 9110 2.5) and the others refuse.
fn has_later_version(bytes: &[u8]) -> bool {
    let line = bytes.trim_ascii_start().split(|&byte| byte == b'\n').next().unwrap_or_default();
    line.windows(8).any(|window| window.starts_with(b"HTTP/1.") && matches!(window[7], b'2'..=b'9'))
}

/// Compares a request that this crate accepts with the results of the others.
fn check_request(bytes: &[u8]) -> Result<bool, proptest::test_runner::TestCaseError> {
    let mut head = ParsedRequest::new();
    let Ok(HeadProgress::Complete { len }) = head.parse(bytes, &HeadLimits::default()) else {
        return Ok(false);
    };
    if has_later_version(bytes) {
        return Ok(false);
    }
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let mut other = httparse::Request::new(&mut headers);
    prop_assert_eq!(other.parse(bytes), Ok(httparse::Status::Complete(len)));
    prop_assert_eq!(other.method.map(str::as_bytes), Some(head.method_span().of(bytes)));
    prop_assert_eq!(other.path.map(str::as_bytes), Some(head.target().of(bytes)));
    prop_assert_eq!(other.version, Some(head.version() as u8));
    prop_assert_eq!(other.headers.len(), head.fields().len());
    for (field, header) in head.fields().iter().zip(other.headers.iter()) {
        prop_assert_eq!(field.name.of(bytes), header.name.as_bytes());
        prop_assert_eq!(field.value.of(bytes), header.value);
    }
    let Some(seen) = hyper_request(bytes) else { return Ok(false) };
    prop_assert_eq!(seen.start.0.as_bytes(), head.method_span().of(bytes));
    if head.target_form() == TargetForm::Origin {
        prop_assert_eq!(seen.start.1.as_bytes(), head.target().of(bytes));
    }
    prop_assert_eq!(seen.fields, head.fields().len());
    let body = request_body(&bytes[len..], head.body());
    if body != Outcome::Broken || head.body() != Framing::Delimited {
        // Chunks may be refused here that hyper lets pass; all else must end where it ends for hyper.
        prop_assert_eq!(body, seen.body);
    }
    Ok(true)
}

fn check_response(bytes: &[u8]) -> Result<bool, proptest::test_runner::TestCaseError> {
    let mut head = ParsedResponse::new();
    let Ok(HeadProgress::Complete { len }) = head.parse(bytes, &HeadLimits::default()) else {
        return Ok(false);
    };
    if has_later_version(bytes) {
        return Ok(false);
    }
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let mut other = httparse::Response::new(&mut headers);
    prop_assert_eq!(other.parse(bytes), Ok(httparse::Status::Complete(len)));
    prop_assert_eq!(other.code, Some(head.status()));
    prop_assert_eq!(other.version, Some(head.version() as u8));
    prop_assert_eq!(other.headers.len(), head.fields().len());
    for (field, header) in head.fields().iter().zip(other.headers.iter()) {
        prop_assert_eq!(field.name.of(bytes), header.name.as_bytes());
        prop_assert_eq!(field.value.of(bytes), header.value);
    }
    if head.status() < 200 {
        return Ok(false);
    }
    let Some(seen) = hyper_response(bytes) else { return Ok(false) };
    prop_assert_eq!(seen.start.0, head.status().to_string());
    prop_assert_eq!(seen.fields, head.fields().len());
    let rest = &bytes[len..];
    let body = match head.framing(Method::Get) {
        Framing::None => take_body(rest, None, false),
        Framing::Length(length) => take_body(rest, Some(length), false),
        Framing::Delimited => take_body(rest, None, true),
        Framing::UntilClose => Outcome::Whole(rest.to_vec()),
    };
    if body != Outcome::Broken || head.framing(Method::Get) != Framing::Delimited {
        prop_assert_eq!(body, seen.body);
    }
    Ok(true)
}

proptest! {
    #[test]
    fn requests_mean_the_same_to_others(bytes in generate::request()) {
        check_request(&bytes)?;
    }

    #[test]
    fn responses_mean_the_same_to_others(bytes in generate::response()) {
        check_response(&bytes)?;
    }

    #[test]
    fn chunks_mean_the_same_to_others(body in generate::chunked_body()) {
        let request = [b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", body.as_slice()].concat();
        prop_assert!(check_request(&request)?);
    }
}

/// A later minor version is not compared, so a row says what becomes of it.
#[test]
fn a_later_minor_version_is_http_1_1() {
    for minor in 2..=9 {
        let bytes = format!("HTTP/1.{minor} 200 OK\r\n\r\n");
        let mut response = ParsedResponse::new();
        let parsed = response.parse(bytes.as_bytes(), &HeadLimits::default());
        assert!(matches!(parsed, Ok(HeadProgress::Complete { .. })), "{bytes:?}: {parsed:?}");
        assert_eq!(response.version(), Version::Http11);
        assert!(!check_response(bytes.as_bytes()).unwrap());

        let bytes = format!("GET / HTTP/1.{minor}\r\nHost: a\r\n\r\n");
        let mut request = ParsedRequest::new();
        let parsed = request.parse(bytes.as_bytes(), &HeadLimits::default());
        assert!(matches!(parsed, Ok(HeadProgress::Complete { .. })), "{bytes:?}: {parsed:?}");
        assert_eq!(request.version(), Version::Http11);
        assert!(!check_request(bytes.as_bytes()).unwrap());
    }
}

/// The comparisons above would say nothing if `hyper` never saw a message.
#[test]
fn others_see_plain_messages() {
    let requests: &[&[u8]] = &[
        b"GET /a?b HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhell",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\nrest",
        b"GET / HTTP/1.0\r\n\r\n",
    ];
    for bytes in requests {
        assert!(check_request(bytes).unwrap(), "{:?}", String::from_utf8_lossy(bytes));
    }
    let responses: &[&[u8]] = &[
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ];
    for bytes in responses {
        assert!(check_response(bytes).unwrap(), "{:?}", String::from_utf8_lossy(bytes));
    }
}

//! Responses as `hyper` reads them from a server's own bytes, and a server that sends such bytes.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Context;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{Builder, SendRequest};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{spawn_local, yield_now};

use super::memory::MemoryIo;
use crate::pieces::pieces;

/// More than Weir accepts.
const FIELDS_MAX: usize = 400;

/// What a client makes of a server's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HyperResponse {
    /// No response at all.
    Refused,
    /// A response, as far as it came.
    Response {
        status: u16,
        body: Bytes,
        /// Whether the body came to its end.
        whole: bool,
        /// The bytes of the other protocol behind a 101.
        behind: Bytes,
    },
}

/// What `hyper` reads from `bytes` as the answer to `request`, when the server closes behind them.
///
/// # Panics
/// When the connection cannot be set up, which needs nothing from outside.
pub(crate) async fn read_response(bytes: &[u8], request: hyper::Request<Full<Bytes>>) -> HyperResponse {
    let handshake = Builder::new().max_headers(FIELDS_MAX).handshake(MemoryIo::of_server(bytes)).await;
    let (sender, mut connection) = handshake.expect("the handshake of the HTTP/1 client sends nothing");
    let mut is_over = false;
    let mut drive =
        |cx: &mut Context<'_>| is_over = is_over || connection.poll_without_shutdown(cx).is_ready();
    let mut reading = pin!(read(sender, request));
    let mut answer = poll_fn(|cx| {
        drive(cx);
        reading.as_mut().poll(cx)
    })
    .await;
    if let HyperResponse::Response { status: 101, behind, .. } = &mut answer {
        let parts = connection.into_parts();
        *behind = [&parts.read_buf, parts.io.left()].concat().into();
    }
    answer
}

async fn read(mut sender: SendRequest<Full<Bytes>>, request: hyper::Request<Full<Bytes>>) -> HyperResponse {
    let Ok(response) = sender.send_request(request).await else { return HyperResponse::Refused };
    let status = response.status().as_u16();
    let mut incoming = response.into_body();
    let (mut body, mut whole) = (Vec::new(), true);
    while let Some(frame) = incoming.frame().await {
        match frame {
            Ok(frame) => body.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..])),
            Err(_) => whole = false,
        }
    }
    HyperResponse::Response { status, body: body.into(), whole, behind: Bytes::new() }
}

/// A server that answers every request with the bytes of `script`, whatever they are, and closes.
pub(crate) async fn play(listener: UnixListener, script: Rc<RefCell<Vec<u8>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let script = Rc::clone(&script);
        spawn_local(async move { play_once(stream, &script).await });
    }
}

async fn play_once(mut stream: UnixStream, script: &RefCell<Vec<u8>>) {
    let mut received = Vec::new();
    while !has_request(&received) {
        // Weir opened the connection for a request that it then gave up.
        let Ok(1..) = stream.read_buf(&mut received).await else { return };
    }
    let reading = weir_wire::http1::requests(&received);
    let is_one = reading.fault.is_none() && reading.messages.len() == 1 && reading.messages[0].is_complete;
    assert!(is_one, "not one request: {reading:?}");
    let bytes = script.borrow().clone();
    for piece in pieces(&bytes) {
        if stream.write_all(piece).await.is_err() {
            return;
        }
        yield_now().await;
    }
}

/// Whether `bytes` hold a whole request. Closing before that would reset the connection and lose the answer.
fn has_request(bytes: &[u8]) -> bool {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Request::new(&mut headers);
    let parsed = head.parse(bytes).expect("Weir sends well-formed requests");
    let httparse::Status::Complete(len) = parsed else { return false };
    let length = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.map_or("0", |header| str::from_utf8(header.value).expect("a length is ASCII"));
    bytes.len() - len >= length.parse::<usize>().expect("a length is a number")
}

//! WebSockets to servers of HTTP/2 (RFC 8441), from clients of either protocol.

use crate::harness::http2::frame::ENABLE_CONNECT_PROTOCOL;
use crate::harness::http2::server::Http2Server;
use crate::harness::{Client, Http2Client, Origin, Weir};

/// Returns what it gets on a WebSocket.
fn mirror(settings: &'static [(u16, u32)]) -> Origin {
    Origin::start(move |conn| {
        let mut server = Http2Server::accept(conn, settings)?;
        loop {
            let asked = server.head()?;
            let of = |name| asked.field(name).unwrap_or("-");
            assert_eq!((of(":method"), of(":protocol"), of(":path")), ("CONNECT", "websocket", "/chat"));
            assert_eq!((of("sec-websocket-version"), of("sec-websocket-key")), ("13", "-"));
            server.send_head(
                asked.stream,
                &[(":status", "200"), ("sec-websocket-protocol", "chat")],
                false,
            )?;
            let body = server.body(asked.stream, 5)?;
            server.send_data(asked.stream, &body, false)?;
            while !server.streams[&asked.stream].has_ended {
                server.read_frame()?;
            }
            server.send_data(asked.stream, b"bye", true)?;
        }
    })
}

fn start(origin: &Origin) -> Weir {
    super::start(origin, "")
}

const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

#[test]
fn a_client_of_http1_gets_its_proof() {
    let origin = mirror(&[(ENABLE_CONNECT_PROTOCOL, 1)]);
    let weir = start(&origin);
    let mut client = Client::connect(weir.web());
    client.send(ASK);
    let head = client.head();
    assert_eq!(head.status(), Ok(101));
    // RFC 6455 section 1.3.
    assert_eq!(head.fields.one("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(head.fields.one("upgrade"), Some("websocket"));
    assert_eq!(head.fields.one("sec-websocket-protocol"), Some("chat"));
    client.send("hello");
    assert_eq!(client.take(5), b"hello");
    client.finish();
    assert_eq!(client.take_to_end().0, b"bye");
}

#[test]
fn a_client_of_http2_has_a_stream() {
    let origin = mirror(&[(ENABLE_CONNECT_PROTOCOL, 1)]);
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let fields = [
        (":method", "CONNECT"),
        (":scheme", "http"),
        (":authority", "a.test"),
        (":path", "/chat"),
        (":protocol", "websocket"),
        ("sec-websocket-version", "13"),
    ];
    let stream = client.open(&fields, false);
    assert_eq!(client.head(stream).status, 200);
    client.data(stream, "hello", false);
    assert_eq!(client.body(stream, 5), b"hello");
    client.data(stream, "", true);
    assert_eq!(client.response(stream).text(), "hellobye");
}

#[test]
fn a_server_without_extended_connect_takes_none() {
    let origin = mirror(&[]);
    let weir = start(&origin);
    let response = Client::exchange(weir.web(), ASK);
    assert_eq!((response.status, response.reason()), (502, Some("response-websocket-not-supported")));
}

#[test]
fn a_server_may_refuse_a_websocket() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[(ENABLE_CONNECT_PROTOCOL, 1)])?;
        loop {
            let asked = server.head()?;
            server.respond(asked.stream, "403", b"no")?;
        }
    });
    let weir = start(&origin);
    let mut client = Client::connect(weir.web());
    client.send(ASK);
    let response = client.response();
    assert_eq!((response.status, response.text()), (403, "no".to_owned()));
}

//! gRPC and gRPC-Web over HTTP/3, to servers of HTTP/2.

use super::start;
use crate::harness::http2::server::{Asked, Http2Server};
use crate::harness::http3::{Http3Client, frame, section};
use crate::harness::{CertificateAuthority, Origin, Weir, eventually};

const HEAD: [(&str, &str); 2] = [(":status", "200"), ("content-type", "application/grpc+proto")];
const H2C: &str = "upstream.app.protocol = \"h2c\"\nlistener.web.access_log = { format = '{target} {status} {grpc_status} {reason}', output = \"file:{dir}/access.log\" }\n";
const CALL: [(&str, &str); 2] = [("content-type", "application/grpc"), ("te", "trailers")];

fn message(content: &[u8]) -> Vec<u8> {
    [&[0][..], &(content.len() as u32).to_be_bytes(), content].concat()
}

fn origin(answer: impl Fn(&mut Http2Server<'_>, &Asked) -> Option<()> + Send + Sync + 'static) -> Origin {
    Origin::start(move |conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            answer(&mut server, &asked)?;
        }
    })
}

/// Answers with what was asked, and the status that the path names.
fn answering() -> Origin {
    origin(|server, asked| {
        assert_eq!(asked.field("te"), Some("trailers"));
        server.send_head(asked.stream, &HEAD, false)?;
        server.send_data(asked.stream, &asked.body, false)?;
        let status = asked.path().trim_start_matches('/').to_owned();
        server.send_head(asked.stream, &[("grpc-status", &status), ("grpc-message", "so it is")], true)
    })
}

fn client(origin: &Origin, settings: &str) -> (CertificateAuthority, Weir, Http3Client) {
    let (authority, weir) = start(origin, &format!("{H2C}{settings}"));
    let client = Http3Client::connect(weir.web(), &authority);
    (authority, weir, client)
}

#[test]
fn the_status_of_a_call_is_in_its_trailers_and_in_the_log() {
    let origin = answering();
    let (_authority, weir, mut client) = client(&origin, "");
    for status in ["0", "5"] {
        let response = client.post(&format!("/{status}"), &CALL, &message(b"question"));
        assert_eq!((response.status, &response.body[..]), (200, &message(b"question")[..]));
        assert_eq!(response.trailer("grpc-status"), Some(status));
        assert_eq!(response.trailer("grpc-message"), Some("so it is"));
    }
    assert_eq!(weir.access_log(2)[1], "/5 200 not-found -");
}

/// A stream of messages in both directions: each passes when it is there.
#[test]
fn messages_pass_one_by_one() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        let asked = server.head()?;
        server.send_head(asked.stream, &HEAD, false)?;
        for number in 1..=3 {
            server.body(asked.stream, 8 * number)?;
            let sent = server.streams[&asked.stream].body[8 * (number - 1)..8 * number].to_vec();
            server.send_data(asked.stream, &sent, false)?;
        }
        server.send_head(asked.stream, &[("grpc-status", "0")], true)
    });
    let (_authority, _weir, mut client) = client(&origin, "");
    let pseudo = [(":method", "POST"), (":scheme", "https"), (":authority", "a.test"), (":path", "/a.B/C")];
    let mut stream = client.open(&[&pseudo[..], &CALL].concat());
    for number in 1..=3 {
        client.send_data(&mut stream, &message(b"abc"));
        assert_eq!(client.body(&mut stream, 8 * number).len(), 8 * number);
    }
    client.finish(&mut stream);
    let all = client.rest(&mut stream);
    assert_eq!(all.trailers.as_ref().and_then(|trailers| trailers.first("grpc-status")), Some("0"));
}

#[test]
fn a_deadline_bounds_a_call() {
    let hanging = origin(|server, _| server.read_frame());
    let (_authority, weir, mut client) = client(&hanging, "");
    let fields = [&CALL[..], &[("grpc-timeout", "200m")]].concat();
    let response = client.post("/slow", &fields, &message(b"question"));
    let status = response.field("grpc-status").or(response.trailer("grpc-status"));
    assert_eq!((response.status, status), (200, Some("4")), "DEADLINE_EXCEEDED");
    assert_eq!(weir.access_log(1)[0], "/slow 200 deadline-exceeded exchange-timeout");
}

#[test]
fn a_call_that_is_given_up_is_given_up_at_the_server() {
    let (told, wait) = std::sync::mpsc::channel();
    let origin = Origin::start(move |conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        let asked = server.head()?;
        server.send_head(asked.stream, &HEAD, false)?;
        let code = server.wait_for_reset(asked.stream)?;
        told.send(code).ok()
    });
    let (_authority, _weir, mut client) = client(&origin, "");
    let pseudo = [(":method", "POST"), (":scheme", "https"), (":authority", "a.test"), (":path", "/a.B/C")];
    let mut stream = client.open(&[&pseudo[..], &CALL].concat());
    client.head(&mut stream);
    client.cancel(&mut stream);
    assert_eq!(wait.recv(), Ok(8), "CANCEL");
}

/// A server that breaks a call off: its client may not take it for whole.
#[test]
fn a_call_that_breaks_off_is_no_success() {
    let origin = origin(|server, asked| {
        server.send_head(asked.stream, &HEAD, false)?;
        server.send_data(asked.stream, &message(b"half")[..7], false)?;
        server.reset(asked.stream, 2)
    });
    let (_authority, _weir, mut client) = client(&origin, "");
    let pseudo = [(":method", "POST"), (":scheme", "https"), (":authority", "a.test"), (":path", "/a.B/C")];
    let mut stream = client.open(&[&pseudo[..], &CALL].concat());
    client.send_data(&mut stream, &message(b"question"));
    client.finish(&mut stream);
    let all = client.rest(&mut stream);
    let status = all.trailers.as_ref().and_then(|trailers| trailers.first("grpc-status"));
    assert!(all.reset.is_some() || status.is_some_and(|status| status != "0"), "{all:?}");
}

#[test]
fn grpc_web_has_its_trailers_in_the_body() {
    let origin = answering();
    let route = "listener.web.route = [{ upstream = \"app\", path = \"/\", grpc_web = true }]\n";
    let (_authority, weir, mut client) = client(&origin, route);
    let fields = [("content-type", "application/grpc-web+proto")];
    let response = client.post("/0", &fields, &message(b"question"));
    assert_eq!(response.field("content-type"), Some("application/grpc-web+proto"));
    let end = b"\x80\0\0\0\x28grpc-status: 0\r\ngrpc-message: so it is\r\n";
    assert_eq!(response.body, [&message(b"question")[..], end].concat());
    assert!(response.trailers.is_empty(), "{response:?}");
    eventually("it is counted", || {
        weir.metrics().sum("weir_upstream_grpc_calls_total", &["status=\"ok\""]) == 1.0
    });
}

/// What a client of gRPC sends as trailers has no meaning there, and harms nothing.
#[test]
fn trailers_of_a_call_harm_nothing() {
    let origin = answering();
    let (_authority, _weir, mut client) = client(&origin, "");
    let pseudo = [(":method", "POST"), (":scheme", "https"), (":authority", "a.test"), (":path", "/0")];
    let mut stream = client.open(&[&pseudo[..], &CALL].concat());
    client.send_data(&mut stream, &message(b"question"));
    client.send_raw(&mut stream, &frame(1, &section(&[("x-sum", "1")])));
    client.finish(&mut stream);
    assert_eq!(client.rest(&mut stream).body, message(b"question"));
}

//! WebSocket over a stream (RFC 9220), to servers of HTTP/1 and of HTTP/2.

use rustix::process::Signal;

use super::start;
use crate::harness::http2::frame::ENABLE_CONNECT_PROTOCOL;
use crate::harness::http2::server::Http2Server;
use crate::harness::http3::{Http3Client, OpenHttp3Stream};
use crate::harness::scripts::pattern;
use crate::harness::websocket::switching;
use crate::harness::{Connection, End, Origin, eventually};

const H2C: &str = "upstream.app.protocol = \"h2c\"\n";

/// Sends back every byte, to the end of the client's direction.
fn echo(conn: &mut Connection) -> Option<()> {
    let mut buf = vec![0; 65_536];
    while let Some(len) = conn.skim(&mut buf) {
        conn.send(&buf[..len])?;
    }
    Some(())
}

/// A server of HTTP/2 that returns what it gets, and says farewell behind the end of its client.
fn echo_h2() -> Origin {
    Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[(ENABLE_CONNECT_PROTOCOL, 1)])?;
        loop {
            let asked = server.head()?;
            if asked.field(":protocol") != Some("websocket") {
                server.respond(asked.stream, "200", b"plain")?;
                continue;
            }
            server.send_head(asked.stream, &[(":status", "200")], false)?;
            let mut returned = 0;
            loop {
                let stream = &server.streams[&asked.stream];
                let (body, has_ended) = (stream.body[returned..].to_vec(), stream.has_ended);
                returned += body.len();
                if !body.is_empty() {
                    server.send_data(asked.stream, &body, false)?;
                }
                if has_ended {
                    break server.send_data(asked.stream, b"bye", true)?;
                }
                server.read_frame()?;
            }
        }
    })
}

fn ask(client: &mut Http3Client, target: &str) -> OpenHttp3Stream {
    client.open(&[
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "a.test"),
        (":path", target),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "chat"),
        ("origin", "https://a.test"),
    ])
}

/// One that is open.
fn open(client: &mut Http3Client) -> OpenHttp3Stream {
    let mut stream = ask(client, "/socket");
    let head = client.head(&mut stream);
    assert_eq!((head.status(), head.has_ended), (200, false), "{head:?}");
    assert_eq!(head.head.all("sec-websocket-accept"), [""; 0], "it has no meaning here: {head:?}");
    stream
}

#[test]
fn a_server_of_http1_gets_a_handshake() {
    let origin = switching(echo);
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream = open(&mut client);
    client.send_data(&mut stream, b"hello");
    assert_eq!(client.body(&mut stream, 5), b"hello");
    let request = origin.last_request();
    assert_eq!(request.head.start_line, "GET /socket HTTP/1.1");
    assert!(request.fields().lists("connection", "upgrade"), "{request:?}");
    assert_eq!(request.field("sec-websocket-protocol"), Some("chat"));
    assert_eq!(weir.metrics().sum("weir_listener_tunnels_open", &[]), 1.0);
    assert_eq!(client.get("/plain").text(), "plain", "other streams go on");
}

#[test]
fn a_server_of_http2_gets_a_stream() {
    let origin = echo_h2();
    let (authority, weir) = start(&origin, H2C);
    let mut client = Http3Client::connect(weir.web(), &authority);
    assert_eq!(client.get("/plain").text(), "plain");
    let mut stream = open(&mut client);
    client.send_data(&mut stream, b"hello");
    assert_eq!(client.body(&mut stream, 5), b"hello");
    client.finish(&mut stream);
    let all = client.rest(&mut stream);
    assert_eq!((all.body, all.has_ended), (b"hellobye".to_vec(), true));
    eventually("the tunnel is over", || weir.metrics().sum("weir_listener_tunnels_open", &[]) == 0.0);
}

#[test]
fn what_comes_with_the_head_goes_behind_the_handshake() {
    for (origin, settings) in [(switching(echo), ""), (echo_h2(), H2C)] {
        let (authority, weir) = start(&origin, settings);
        let mut client = Http3Client::connect(weir.web(), &authority);
        let mut stream = ask(&mut client, "/socket");
        client.send_data(&mut stream, b"early");
        assert_eq!(client.body(&mut stream, 5), b"early");
    }
}

#[test]
fn much_goes_both_ways() {
    const LEN: usize = 2 << 20;
    for (origin, settings) in [(switching(echo), ""), (echo_h2(), H2C)] {
        let (authority, weir) = start(&origin, settings);
        let mut client = Http3Client::connect(weir.web(), &authority);
        let mut stream = open(&mut client);
        let bytes = pattern(LEN);
        let mut sent = 0;
        for piece in bytes.chunks(50_000) {
            client.send_data(&mut stream, piece);
            sent += piece.len();
            // All that is on its way both ways fits into the windows.
            client.body(&mut stream, sent.saturating_sub(100_000));
        }
        let body = client.body(&mut stream, LEN);
        assert!(body == bytes, "{} bytes", body.len());
    }
}

#[test]
fn the_client_finishes_first() {
    let origin = switching(|conn| {
        let (rest, end) = conn.wait_for_end();
        assert_eq!((rest.as_slice(), end), (&b"bye"[..], End::Closed));
        conn.send("still here")
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream = open(&mut client);
    client.send_data(&mut stream, b"bye");
    client.finish(&mut stream);
    let all = client.rest(&mut stream);
    assert_eq!((all.body, all.reset), (b"still here".to_vec(), None));
    assert_eq!(client.get("/plain").text(), "plain");
}

#[test]
fn the_server_finishes_first() {
    let origin = switching(|conn| {
        conn.send("bye")?;
        conn.finish();
        let (rest, end) = conn.wait_for_end();
        assert_eq!((rest.as_slice(), end), (&b"still here"[..], End::Closed));
        Some(())
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream = open(&mut client);
    let all = client.rest(&mut stream);
    assert_eq!((all.body, all.has_ended), (b"bye".to_vec(), true));
    client.send_data(&mut stream, b"still here");
    client.finish(&mut stream);
    assert_eq!(origin.wait_for_end(0), End::Closed);
    assert_eq!(client.get("/plain").text(), "plain");
}

#[test]
fn a_client_that_does_not_follow_the_server_is_let_go() {
    let origin = switching(|conn| {
        conn.send("bye")?;
        conn.finish();
        conn.wait_for_end();
        Some(())
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream = open(&mut client);
    assert_eq!(client.rest(&mut stream).body, b"bye");
    assert_eq!(client.stop_code(&mut stream), Some(0x100));
    eventually("the tunnel is over", || weir.metrics().sum("weir_listener_tunnels_open", &[]) == 0.0);
    assert!(weir.metrics().all("weir_listener_failures_total", &[]).is_empty(), "that is no failure");
    assert_eq!(client.get("/plain").text(), "plain");
}

#[test]
fn a_reset_by_the_client_ends_the_connection_to_the_server() {
    let origin = switching(|conn| {
        conn.wait_for_end();
        Some(())
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream = open(&mut client);
    client.reset(&mut stream, 0x10c);
    let end = origin.wait_for_end(0);
    assert!(matches!(end, End::Closed | End::Reset), "{end}");
    assert_eq!(client.get("/plain").text(), "plain");
}

#[test]
fn a_client_that_goes_ends_the_connection_to_the_server() {
    let origin = switching(|conn| {
        conn.wait_for_end();
        Some(())
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let stream = open(&mut client);
    client.leave();
    drop(stream);
    origin.wait_for_end(0);
    eventually("the tunnel is over", || weir.metrics().sum("weir_listener_tunnels_open", &[]) == 0.0);
}

#[test]
fn a_server_that_fails_resets_the_stream() {
    let origin = switching(|conn| {
        conn.take(2)?;
        conn.reset();
        None
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream = open(&mut client);
    client.send_data(&mut stream, b"go");
    assert!(client.rest(&mut stream).reset.is_some());
    assert_eq!(client.get("/plain").text(), "plain");
}

/// Frames of trailers have no place in a tunnel, nor has anything but DATA (RFC 9114 section 4.4).
#[test]
fn a_tunnel_takes_nothing_but_data() {
    let origin = switching(|conn| {
        conn.wait_for_end();
        Some(())
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream = open(&mut client);
    let trailers = crate::harness::http3::section(&[("x-sum", "6")]);
    client.send_raw(&mut stream, &crate::harness::http3::frame(1, &trailers));
    origin.wait_for_end(0);
}

#[test]
fn a_tunnel_outlives_a_reload() {
    for (origin, settings) in [(switching(echo), ""), (echo_h2(), H2C)] {
        let (authority, weir) = start(&origin, settings);
        let mut client = Http3Client::connect(weir.web(), &authority);
        let mut stream = open(&mut client);
        client.send_data(&mut stream, b"before");
        assert_eq!(client.body(&mut stream, 6), b"before");
        let text = std::fs::read_to_string(weir.folder().join("weir.toml")).expect("it is there");
        weir.reload(&format!("{text}\nlistener.web.timeouts.idle = \"50s\"\n"));
        client.send_data(&mut stream, b" and behind");
        assert_eq!(client.body(&mut stream, 17), b"before and behind");
    }
}

#[test]
fn a_stop_ends_tunnels_in_time() {
    let origin = switching(echo);
    let (authority, mut weir) = start(&origin, "process.stop_grace = \"1s\"\n");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream = open(&mut client);
    weir.signal(Signal::TERM);
    client.send_data(&mut stream, b"still");
    assert_eq!(client.body(&mut stream, 5), b"still");
    client.rest(&mut stream);
    assert_eq!(weir.wait_for_exit().code(), Some(3), "it was cut: {}", weir.stderr());
}

#[test]
fn a_server_that_refuses_gives_an_ordinary_response() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream = ask(&mut client, "/403");
    let response = client.rest(&mut stream);
    assert_eq!((response.status(), &response.body[..]), (403, &b"no"[..]));
}

#[test]
fn a_protocol_that_is_not_known_is_answered_501() {
    let origin = switching(echo);
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream = client.open(&[
        (":method", "CONNECT"),
        (":protocol", "connect-udp"),
        (":scheme", "https"),
        (":authority", "a.test"),
        (":path", "/.well-known/masque/udp/a.test/443/"),
    ]);
    assert_eq!(client.rest(&mut stream).status(), 501);
    assert_eq!(origin.requests().len(), 0);
}

/// Its stream holds its own window, and nothing of the others.
#[test]
fn a_tunnel_whose_client_takes_nothing_holds_up_no_other_stream() {
    let origin = switching(|conn| {
        let piece = vec![b'x'; 100_000];
        while conn.send(&piece).is_some() {}
        Some(())
    });
    let (authority, weir) = start(&origin, "upstream.app.timeouts.tunnel = \"400ms\"\n");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream = open(&mut client);
    client.body(&mut stream, 1_000);
    for _ in 0..20 {
        assert_eq!(client.get("/plain").text(), "plain");
    }
    eventually("both sides were silent for too long", || {
        client.get("/plain").text() == "plain" && weir.metrics().sum("weir_listener_tunnels_open", &[]) == 0.0
    });
}

//! WebSocket over a stream (RFC 8441), to a server that speaks HTTP/1: Weir makes the key of the handshake and verifies the answer.

use rustix::process::Signal;

use crate::harness::http2::frame::{
    self, CANCEL, DATA, END_STREAM, INITIAL_WINDOW_SIZE, INTERNAL_ERROR, NO_ERROR, PROTOCOL_ERROR,
};
use crate::harness::http2::{start, start_with};
use crate::harness::scripts::pattern;
use crate::harness::websocket::{SWITCH, switching};
use crate::harness::{Connection, End, Http2Client, Origin, Weir, config_with, eventually, origin::ok};

/// Sends back every byte, to the end of the client's direction.
fn echo(conn: &mut Connection) -> Option<()> {
    let mut buf = vec![0; 65_536];
    while let Some(len) = conn.skim(&mut buf) {
        conn.send(&buf[..len])?;
    }
    Some(())
}

/// Asks for a WebSocket at `target`.
fn ask(client: &mut Http2Client, target: &str) -> u32 {
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "a.test"),
        (":path", target),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "chat"),
        ("origin", "http://a.test"),
    ];
    client.open(&fields, false)
}

/// One that is open.
fn open(client: &mut Http2Client) -> u32 {
    let stream = ask(client, "/socket");
    let head = client.head(stream);
    assert_eq!((head.status, head.is_over()), (200, false), "{head:?}");
    assert_eq!(head.fields.all("sec-websocket-accept"), [""; 0], "it has no meaning here: {head:?}");
    stream
}

#[test]
fn the_server_gets_a_handshake_of_http_1() {
    let origin = switching(echo);
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let mut keys = Vec::new();
    for _ in 0..2 {
        let stream = open(&mut client);
        client.data(stream, "hello", false);
        assert_eq!(client.body(stream, 5), b"hello");
        let request = origin.last_request();
        assert_eq!(request.head.start_line, "GET /socket HTTP/1.1");
        assert!(request.fields().lists("connection", "upgrade"), "{request:?}");
        for (name, value) in [
            ("upgrade", "websocket"),
            ("host", "a.test"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", "chat"),
            ("origin", "http://a.test"),
        ] {
            assert_eq!(request.field(name), Some(value), "{request:?}");
        }
        assert_eq!(
            request.fields().all("content-length").len() + request.fields().all("transfer-encoding").len(),
            0
        );
        keys.push(request.field("sec-websocket-key").map(str::to_owned));
    }
    assert_ne!(keys[0], keys[1], "each handshake has its own key");
    assert_eq!(weir.metrics().sum("weir_listener_tunnels_open", &[]), 2.0);
    assert_eq!(client.fetch("/plain").text(), "plain", "other streams go on");
}

/// A client need not wait for the answer, if it can live with a refusal.
#[test]
fn what_comes_with_the_head_goes_behind_the_handshake() {
    let origin = switching(echo);
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = ask(&mut client, "/socket");
    client.data(stream, "early", false);
    assert_eq!(client.body(stream, 5), b"early");
    client.data(stream, " and late", true);
    assert_eq!(client.response(stream).text(), "early and late");
}

#[test]
fn much_goes_both_ways_at_once() {
    const LEN: usize = 2 << 20;
    let origin = switching(echo);
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let streams = [open(&mut client), open(&mut client)];
    let bytes = pattern(LEN);
    for piece in bytes.chunks(100_000) {
        for stream in streams {
            assert_eq!(client.upload(stream, piece, false), piece.len());
        }
    }
    for stream in streams {
        assert!(client.body(stream, LEN) == bytes, "{stream}");
    }
}

#[test]
fn the_client_finishes_first() {
    let origin = switching(|conn| {
        let (rest, end) = conn.wait_for_end();
        assert_eq!((rest.as_slice(), end), (&b"bye"[..], End::Closed));
        conn.send("still here")
    });
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = open(&mut client);
    client.data(stream, "bye", true);
    let received = client.response(stream);
    assert_eq!((received.text(), received.reset), ("still here".to_owned(), None));
    assert_eq!(client.fetch("/plain").text(), "plain");
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
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = open(&mut client);
    assert_eq!(client.response(stream).text(), "bye");
    client.data(stream, "still here", true);
    assert_eq!(origin.wait_for_end(0), End::Closed);
    assert_eq!(client.fetch("/plain").text(), "plain");
    assert_eq!(client.received(stream).reset, None);
}

/// Firefox takes a stream for closed when the server has ended it, and never ends its own direction.
#[test]
fn a_client_that_does_not_follow_the_server_is_let_go() {
    let origin = switching(|conn| {
        conn.send("bye")?;
        conn.finish();
        conn.wait_for_end();
        Some(())
    });
    let weir = start_with(&origin, "listener.web.http2.streams_max = 1");
    let mut client = Http2Client::connect(weir.web());
    let stream = open(&mut client);
    assert_eq!(client.response(stream).text(), "bye");
    assert_eq!(client.wait_for_reset(stream), NO_ERROR);
    assert_eq!(client.fetch("/plain").text(), "plain");
    eventually("the tunnel is over", || weir.metrics().sum("weir_listener_tunnels_open", &[]) == 0.0);
    assert!(weir.metrics().all("weir_listener_failures_total", &[]).is_empty(), "that is no failure");
}

/// For the client a stream is closed with the last frame of either side, so the next may come in the same segment (RFC 9113 section 5.1.2).
#[test]
fn the_next_stream_may_follow_the_end_of_a_tunnel_at_once() {
    let origin = switching(|conn| {
        conn.finish();
        assert_eq!(conn.wait_for_end().1, End::Closed);
        Some(())
    });
    let weir = start_with(&origin, "listener.web.http2.streams_max = 1");
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..20 {
        let stream = ask(&mut client, "/socket");
        assert!(client.response(stream).has_ended);
        let (next, opening) = client.opening(&client.request("GET", "/plain"), true);
        client.send([frame::frame(DATA, END_STREAM, stream, b""), opening].concat());
        let received = client.outcome(next);
        assert_eq!((received.text(), received.reset), ("plain".to_owned(), None));
    }
    assert_eq!(weir.metrics().sum("weir_listener_streams_refused_total", &[]), 0.0);
}

#[test]
fn a_reset_by_the_client_ends_the_connection_to_the_server() {
    let origin = switching(|conn| {
        conn.wait_for_end();
        Some(())
    });
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = open(&mut client);
    client.reset(stream, CANCEL);
    let end = origin.wait_for_end(0);
    assert!(matches!(end, End::Closed | End::Reset), "{end}");
    assert_eq!(client.fetch("/plain").text(), "plain");
}

#[test]
fn a_server_that_fails_resets_the_stream() {
    let origin = switching(|conn| {
        conn.take(2)?;
        conn.reset();
        None
    });
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = open(&mut client);
    client.data(stream, "go", false);
    assert_eq!(client.wait_for_reset(stream), INTERNAL_ERROR);
    assert_eq!(client.fetch("/plain").text(), "plain");
}

#[test]
fn a_server_that_refuses_gives_an_ordinary_response() {
    let origin = Origin::start(|conn| {
        loop {
            let answer = match conn.request()?.target() {
                "/403" => "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno".to_owned(),
                _ => ok("an ordinary page"),
            };
            conn.send(answer)?;
        }
    });
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = ask(&mut client, "/403");
    let response = client.outcome(stream);
    assert_eq!((response.status, response.text()), (403, "no".to_owned()));
    // A 200 would open the tunnel, although the server did not agree to one.
    let stream = ask(&mut client, "/page");
    let response = client.outcome(stream);
    assert!(response.status >= 400 || response.reset.is_some(), "{response:?}");
    assert_eq!(client.fetch("/plain").status, 200);
}

#[test]
fn a_server_that_has_not_read_the_key_is_not_believed() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        // The answer to another key.
        conn.send(SWITCH)?;
        conn.wait_for_end();
        Some(())
    });
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = ask(&mut client, "/socket");
    let response = client.outcome(stream);
    assert_eq!(response.status, 502, "{response:?}");
    origin.wait_for_end(0);
}

#[test]
fn where_no_upgrade_is_allowed_it_is_answered_501() {
    let origin = switching(echo);
    let settings = format!(
        "{}listener.web.route = [{{ path = \"/\", upstream = \"app\", upgrades = [] }}]",
        crate::harness::http2::H2C
    );
    let config = config_with(&[origin.entry()], &settings).replace("listener.web.upstream = \"app\"\n", "");
    let weir = Weir::start(&config);
    let mut client = Http2Client::connect(weir.web());
    let stream = ask(&mut client, "/socket");
    assert_eq!(client.outcome(stream).status, 501);
    assert_eq!(client.fetch("/plain").text(), "plain");
    assert_eq!(origin.targets(), ["/plain"]);
}

#[test]
fn a_protocol_that_is_not_known_is_answered_501() {
    let origin = switching(echo);
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "connect-udp"),
        (":scheme", "http"),
        (":authority", "a.test"),
        (":path", "/.well-known/masque/udp/a.test/443/"),
    ];
    let stream = client.open(&fields, false);
    assert_eq!(client.outcome(stream).status, 501);
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn a_protocol_with_another_method_is_malformed() {
    let origin = switching(echo);
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let fields = [&client.request("GET", "/socket")[..], &[(":protocol", "websocket")]].concat();
    let stream = client.open(&fields, true);
    assert_eq!(client.wait_for_reset(stream), PROTOCOL_ERROR);
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
    let weir = start_with(&origin, "upstream.app.timeouts.tunnel = \"400ms\"");
    let mut client = Http2Client::connect_with(weir.web(), &[(INITIAL_WINDOW_SIZE, 1_000)]);
    client.gives_back = false;
    let stream = open(&mut client);
    client.body(stream, 1_000);
    for _ in 0..20 {
        assert_eq!(client.fetch("/plain").text(), "plain");
    }
    assert!(client.outcome(stream).is_over(), "both sides were silent for too long");
    assert_eq!(client.fetch("/plain").text(), "plain");
}

/// An open tunnel does not keep a process that stops beyond its grace.
#[test]
fn a_stop_ends_tunnels_in_time() {
    let origin = switching(echo);
    let mut weir = start_with(&origin, "process.stop_grace = \"1s\"");
    let mut client = Http2Client::connect(weir.web());
    let stream = open(&mut client);
    weir.signal(Signal::TERM);
    assert_eq!(client.goaway(2), (stream, NO_ERROR));
    client.data(stream, "still", false);
    assert_eq!(client.body(stream, 5), b"still");
    assert!(client.outcome(stream).is_over());
    client.end();
    assert_eq!(weir.wait_for_exit().code(), Some(3), "it was cut: {}", weir.stderr());
}

#[test]
fn a_reload_without_the_listener_ends_tunnels_in_time() {
    let origin = switching(echo);
    let other =
        "process.reload_grace = \"1s\"\nlistener.other = { address = \"127.0.0.1:0\", upstream = \"app\" }\n";
    let with = config_with(&[origin.named("a")], &format!("{other}{}", crate::harness::http2::H2C));
    let weir = Weir::start(&with);
    let mut client = Http2Client::connect(weir.web());
    let stream = open(&mut client);
    weir.reload(
        &with.lines().filter(|line| !line.starts_with("listener.web")).collect::<Vec<_>>().join("\n"),
    );
    assert_eq!(client.goaway(2), (stream, NO_ERROR));
    client.data(stream, "still", false);
    assert_eq!(client.body(stream, 5), b"still");
    assert!(client.outcome(stream).is_over());
    client.end();
}

#[test]
fn a_silent_tunnel_ends_in_time() {
    let origin = switching(|conn| {
        conn.wait_for_end();
        Some(())
    });
    let weir = start_with(&origin, "upstream.app.timeouts.tunnel = \"200ms\"");
    let mut client = Http2Client::connect(weir.web());
    let stream = open(&mut client);
    assert!(client.outcome(stream).is_over());
    let end = origin.wait_for_end(0);
    assert!(matches!(end, End::Closed | End::Reset), "{end}");
}

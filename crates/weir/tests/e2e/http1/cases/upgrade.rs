//! Row 38: the response of the server decides whether a tunnel opens; a client cannot force one.

use crate::harness::websocket::{HANDSHAKE, SWITCH};
use crate::harness::{CLOSED_PORT, Client, End, Gate, Origin, Weir, origin::ok};

/// Row 38.
#[test]
fn a_101_opens_a_tunnel_with_half_close() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send(SWITCH)?;
        let (sent, end) = conn.wait_for_end();
        assert_eq!(
            (sent.as_slice(), end),
            (&b"ping"[..], End::Closed),
            "the client's end comes through in order"
        );
        conn.send("pong after the client's end")?;
        Some(())
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send(HANDSHAKE);
    let head = client.head();
    assert_eq!(head.status(), Ok(101));
    assert!(head.fields.lists("connection", "upgrade"), "{head:?}");
    assert_eq!(head.fields.one("upgrade"), Some("websocket"));
    client.send("ping");
    client.finish();
    assert_eq!(client.take_to_end(), (b"pong after the client's end".to_vec(), End::Closed));
    let request = origin.last_request();
    assert_eq!(request.field("upgrade"), Some("websocket"));
    assert!(request.fields().lists("connection", "upgrade"), "{request:?}");
    assert_eq!(request.field("sec-websocket-key"), Some("dGhlIHNhbXBsZSBub25jZQ=="));
}

/// Row 38.
#[test]
fn bytes_before_a_101_are_held_or_tunnelled() {
    let ready = Gate::new();
    let early_sent = ready.clone();
    let origin = Origin::start(move |conn| {
        conn.request()?;
        ready.wait("the client has sent its first tunnel bytes");
        conn.send(SWITCH)?;
        let early = conn.take(5)?;
        assert_eq!(early, b"early");
        conn.send("got it")?;
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send(format!("{HANDSHAKE}early"));
    early_sent.open();
    assert_eq!(client.head().status(), Ok(101));
    assert_eq!(client.take(6), b"got it");
}

/// Row 38.
#[test]
fn a_refused_upgrade_is_an_ordinary_response() {
    for status in ["200 OK", "403 Forbidden", "426 Upgrade Required"] {
        let origin = Origin::answering(format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nno"));
        let weir = Weir::proxying(&origin);
        let mut client = Client::connect(weir.web());
        client.send(HANDSHAKE);
        let response = client.response();
        assert_eq!((response.status.to_string(), response.text()), (status[..3].to_owned(), "no".to_owned()));
        // Bytes for a tunnel may be on their way, so Weir may close; if it does not, the next request is served.
        if response.closes() {
            client.assert_closed();
            assert_eq!(origin.targets(), ["/socket"]);
        } else {
            assert_eq!(client.fetch("/alive").text(), "no", "{status}: the connection goes on");
            assert_eq!(origin.targets(), ["/socket", "/alive"]);
        }
    }
}

/// Row 38. Bytes that look like a request but were meant for a tunnel must not become one when no tunnel opens.
#[test]
fn bytes_meant_for_a_tunnel_never_become_a_request() {
    let origin = Origin::answering("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send(format!("{HANDSHAKE}GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n"));
    assert_eq!(client.response().status, 403);
    let (rest, _) = client.take_to_end();
    assert!(rest.is_empty(), "nothing more is answered: {rest:?}");
    assert_eq!(Client::get(weir.web(), "/fence").status, 403);
    assert_eq!(origin.targets(), ["/socket", "/fence"]);
}

/// Row 38. Nor when Weir itself has the answer: a fixed one, a redirect, or a failure.
#[test]
fn bytes_meant_for_a_tunnel_never_become_a_request_when_weir_answers() {
    let origin = Origin::serving("fine");
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\n\
         upstream.app.servers = [\"{}\"]\nupstream.gone.servers = [\"{CLOSED_PORT}\"]\nlistener.web.route = [\n\
         {{ path = \"/app\", upstream = \"app\" }},\n\
         {{ path = \"/gone\", upstream = \"gone\" }},\n\
         {{ path = \"/fixed\", respond = {{ status = 403 }} }},\n\
         {{ path = \"/moved\", redirect = {{ to = \"https://{{host}}/\", status = 308 }} }},\n]\n",
        origin.address()
    ));
    for (path, status) in [("/gone", 502), ("/fixed", 403), ("/moved", 308), ("/unknown", 404)] {
        let mut client = Client::connect(weir.web());
        let handshake = HANDSHAKE.replace("/socket", path);
        client.send(format!("{handshake}GET /app/smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        let response = client.response();
        assert_eq!((response.status, response.closes()), (status, true), "{path}: {response:?}");
        client.assert_closed();
    }
    assert_eq!(Client::get(weir.web(), "/app/fence").status, 200);
    assert_eq!(origin.targets(), ["/app/fence"]);
}

/// Row 38. Bytes that come while the refusal is on its way were sent before the client had read it.
#[test]
fn bytes_behind_the_head_of_a_refusal_never_become_a_request() {
    let sent = Gate::new();
    let gate = sent.clone();
    let origin = Origin::start(move |conn| {
        loop {
            if conn.request()?.target() == "/socket" {
                conn.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nno")?;
                gate.wait("the client has sent its first tunnel bytes");
                conn.send("no")?;
            } else {
                conn.send(ok("fence"))?;
            }
        }
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send(HANDSHAKE);
    assert_eq!(client.head().status(), Ok(403));
    assert_eq!(client.take(2), b"no");
    client.send("GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n");
    sent.open();
    assert_eq!(client.take(2), b"no");
    client.assert_closed();
    assert_eq!(Client::get(weir.web(), "/fence").text(), "fence");
    assert_eq!(origin.targets(), ["/socket", "/fence"]);
}

/// Row 38. The same for CONNECT, refused by the server, by Weir without a server, or by Weir without a route.
#[test]
fn bytes_behind_a_refused_connect_never_become_a_request() {
    let origin = Origin::answering("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\n\
         upstream.app.servers = [\"{}\"]\nupstream.gone.servers = [\"{CLOSED_PORT}\"]\nlistener.web.route = [\n\
         {{ host = \"refused.test\", upstream = \"app\", allow_connect = true }},\n\
         {{ host = \"gone.test\", upstream = \"gone\", allow_connect = true }},\n\
         {{ host = \"a.test\", upstream = \"app\" }},\n]\n",
        origin.address()
    ));
    for (host, status) in [("refused.test", 403), ("gone.test", 502), ("unknown.test", 404)] {
        let mut client = Client::connect(weir.web());
        client.send(format!(
            "CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n\
             GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n"
        ));
        let response = client.response_to("CONNECT");
        assert_eq!((response.status, response.closes()), (status, true), "{host}: {response:?}");
        client.assert_closed();
    }
    let fence = "GET /fence HTTP/1.1\r\nHost: a.test\r\n\r\n";
    assert_eq!(Client::exchange(weir.web(), fence).status, 403);
    assert_eq!(origin.targets(), ["refused.test:443", "/fence"]);
}

/// Row 38.
#[test]
fn an_unrequested_101_is_a_bad_gateway() {
    let origin = Origin::start(|conn| {
        let request = conn.request()?;
        if request.target() == "/alive" {
            return conn.send(ok("alive"));
        }
        conn.send(SWITCH)?;
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::proxying(&origin);
    for request in [
        "GET /unasked HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "POST /unasked HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi",
        "GET /unnamed HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\n\r\n",
    ] {
        let mut client = Client::connect(weir.web());
        client.send(request);
        let response = client.response();
        assert_eq!(response.status, 502, "{request:?}: {response:?}");
        assert!(response.reason().is_some(), "{response:?}");
    }
    assert_eq!(Client::get(weir.web(), "/alive").status, 200);
}

/// Row 38. What is left of the body would follow as the first bytes of the new protocol.
#[test]
fn a_101_before_the_request_is_complete_is_a_bad_gateway() {
    let origin = Origin::start(|conn| {
        conn.head()?;
        conn.send(SWITCH)?;
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::proxying(&origin);
    let post = HANDSHAKE.replace("GET", "POST");
    for (framing, half) in [("Transfer-Encoding: chunked", "5\r\nhe"), ("Content-Length: 5", "he")] {
        let mut client = Client::connect(weir.web());
        client.send(post.replace("\r\n\r\n", &format!("\r\n{framing}\r\n\r\n{half}")));
        let response = client.response();
        assert_eq!(
            (response.status, response.reason()),
            (502, Some("response-premature-upgrade")),
            "{framing}"
        );
        client.assert_closed();
    }
}

/// Row 38.
#[test]
fn ignores_upgrade_in_http_1_0_and_keeps_the_body_of_a_post() {
    let origin = Origin::serving("plain");
    let weir = Weir::proxying(&origin);
    let old = "GET /old HTTP/1.0\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(Client::exchange(weir.web(), old).text(), "plain");
    let request = origin.last_request();
    assert_eq!(request.field("upgrade"), None, "HTTP/1.0 has no upgrade: {request:?}");
    assert!(!request.fields().lists("connection", "upgrade"), "{request:?}");

    let post = "POST /post HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n\r\nhello";
    let mut client = Client::connect(weir.web());
    client.send(post);
    let response = client.response();
    if response.status == 200 {
        let request = origin.last_request();
        assert_eq!((request.target(), request.text()), ("/post", "hello".to_owned()), "the body is the body");
    } else {
        assert_eq!(response.status, 400, "served as a POST, or refused: {response:?}");
        client.assert_closed();
    }
}

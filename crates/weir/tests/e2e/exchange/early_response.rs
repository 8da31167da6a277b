//! A response that comes while the request body still flows: relayed at once, in both directions at the same time.

use crate::harness::{Client, Gate, Origin, Weir, origin::ok};

/// Request and response are two independent streams: what the server echoes comes back before the next piece is sent.
#[test]
fn both_directions_flow_at_the_same_time() {
    const ROUNDS: usize = 50;
    let origin = Origin::start(|conn| {
        let head = conn.head()?;
        assert_eq!(head.fields.one("content-length"), Some((ROUNDS * 10).to_string().as_str()));
        conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", ROUNDS * 10))?;
        for _ in 0..ROUNDS {
            let piece = conn.take(10)?;
            conn.send(piece)?;
        }
        let request = conn.request()?;
        conn.send(ok(request.target()))
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send(format!("POST /echo HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n", ROUNDS * 10));
    let head = client.head();
    assert_eq!(head.status(), Ok(200));
    for round in 0..ROUNDS {
        let piece = format!("{round:010}");
        client.send(&piece);
        assert_eq!(client.take(10), piece.as_bytes());
    }
    // A response that began before its request ended may cost the connection, but then it has to say so.
    if head.fields.lists("connection", "close") {
        client.assert_closed();
    } else {
        assert_eq!(client.fetch("/after").text(), "/after");
    }
}

#[test]
fn the_response_ends_before_the_request_and_the_server_reads_on() {
    let response_seen = Gate::new();
    let gate = response_seen.clone();
    let origin = Origin::start(move |conn| {
        loop {
            let head = conn.head()?;
            if head.word(0) == "POST" {
                conn.send(ok("early"))?;
                gate.wait("the client has the response");
            }
            let request = conn.request_body(head)?;
            if request.method() == "GET" {
                conn.send(ok("alive"))?;
            }
        }
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send("POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nhello");
    let response = client.response();
    assert_eq!(response.text(), "early", "the response does not wait for the rest of the request");
    response_seen.open();
    // From here on Weir may take the rest or close; it must not take the rest for a request.
    let _ = client.send_what_is_taken("worldGET /next HTTP/1.1\r\nHost: a.test\r\n\r\n");
    if let Ok(next) = client.try_response_to("GET") {
        assert_eq!((next.status, next.text()), (200, "alive".to_owned()));
    }
    assert_eq!(Client::get(weir.web(), "/alive").text(), "alive");
    assert!(origin.targets().iter().all(|target| ["/up", "/next", "/alive"].contains(&target.as_str())));
}

/// The server answers and closes; the client gets the response in spite of the reset that follows.
#[test]
fn the_server_answers_and_closes_during_a_large_upload() {
    let origin = Origin::start(|conn| {
        let head = conn.head()?;
        if head.word(0) == "GET" {
            return conn.send(ok("alive"));
        }
        // Unread body bytes make this close a reset.
        conn.send("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
    });
    let weir = Weir::proxying(&origin);
    for framing in ["Content-Length: 50000000", "Transfer-Encoding: chunked"] {
        let mut client = Client::connect(weir.web());
        client.send(format!("POST /up HTTP/1.1\r\nHost: a.test\r\n{framing}\r\n\r\n"));
        let piece = if framing.contains("chunked") {
            format!("10000\r\n{}\r\n", "x".repeat(65_536))
        } else {
            "x".repeat(65_536)
        };
        for _ in 0..700 {
            if client.send_what_is_taken(&piece).is_err() {
                break;
            }
        }
        let response = client.response();
        assert_eq!((response.status, response.text()), (413, "big".to_owned()), "{framing}");
    }
    assert_eq!(Client::get(weir.web(), "/alive").text(), "alive");
}

/// A client that writes all of its body before it reads gets the response, however long the body is: one of Weir or of the server, with any
/// framing.
#[test]
fn an_early_answer_outlives_an_upload_of_any_length() {
    const BODY: usize = 40 << 20;
    let origin = Origin::start(|conn| {
        let head = conn.head()?;
        if head.word(1) == "/closes" {
            return conn
                .send("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig");
        }
        conn.send(
            "HTTP/1.1 413 Content Too Large\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbig\r\n0\r\n\r\n",
        )?;
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nupstream.app.servers = [\"{}\"]\nlistener.web.route = [\n\
         {{ path = \"/small\", upstream = \"app\", limits = {{ body_size = \"10KiB\" }} }},\n\
         {{ path = \"/\", upstream = \"app\" }},\n]\n",
        origin.address()
    ));
    for path in ["/closes", "/stays", "/small"] {
        let mut client = Client::connect(weir.web());
        client.send(format!("POST {path} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {BODY}\r\n\r\n"));
        for _ in 0..BODY >> 16 {
            client.send([b'x'; 1 << 16]);
        }
        assert_eq!(client.response().status, 413, "{path}");
    }
}

/// Whether the client's connection goes on is known when both have ended: it need not end with a response that merely began early.
#[test]
fn a_response_without_a_length_that_began_early_costs_no_connection() {
    let origin = Origin::start(|conn| {
        loop {
            conn.head()?;
            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            let body = conn.take(10)?;
            conn.send(b"a\r\n")?;
            conn.send(body)?;
            conn.send("\r\n0\r\n\r\n")?;
        }
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    for _ in 0..3 {
        client.send("POST /echo HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nhello");
        let head = client.head();
        assert!(head.status() == Ok(200) && !head.fields.lists("connection", "close"), "{head:?}");
        client.send("world");
        assert_eq!(client.take(20), b"a\r\nhelloworld\r\n0\r\n\r\n");
    }
    assert_eq!(origin.connections(), 1);
}

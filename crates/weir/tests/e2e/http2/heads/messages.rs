//! Requests and responses of every kind, and what the server sees of them.

use crate::harness::http2::{H2C, start, start_with, start_with_tls};
use crate::harness::origin::{ok, status};
use crate::harness::scripts::echo;
use crate::harness::{CLOSED_PORT, Http2Client, Origin, Weir, config_with};

#[test]
fn a_get_is_one_of_http_1_to_the_server() {
    let origin = Origin::serving("fine");
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = client.get_with("/a?b=c", &[("accept", "text/html"), ("te", "trailers")]);
    let response = client.response(stream);
    assert_eq!((response.status, response.text()), (200, "fine".to_owned()));
    assert_eq!(response.field("content-length"), Some("4"));
    let request = origin.last_request();
    assert_eq!(request.head.start_line, "GET /a?b=c HTTP/1.1");
    assert_eq!((request.field("host"), request.field("accept")), (Some("a.test"), Some("text/html")));
    assert_eq!(request.field("te"), Some("trailers"), "the client takes trailers");
    assert_eq!(
        request.fields().all("content-length").len() + request.fields().all("transfer-encoding").len(),
        0
    );
}

#[test]
fn one_connection_carries_one_exchange_after_the_other() {
    let origin = echo();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for number in 0..300 {
        let target = format!("/{number}");
        assert_eq!(client.fetch(&target).text(), target);
    }
    assert_eq!(origin.connections(), 1, "the server's connection is used again");
    assert_eq!(client.goaways, []);
}

#[test]
fn a_body_with_and_without_a_length() {
    let origin = echo();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = client.post("/", &[("content-length", "5")]);
    client.data(stream, "hello", true);
    assert_eq!(client.response(stream).text(), "/hello");
    assert_eq!(origin.last_request().field("content-length"), Some("5"));

    let stream = client.post("/", &[]);
    client.data(stream, "hel", false);
    client.data(stream, "lo", false);
    client.data(stream, "", true);
    assert_eq!(client.response(stream).text(), "/hello");
    let request = origin.last_request();
    assert_eq!(
        (request.field("content-length"), request.field("transfer-encoding")),
        (None, Some("chunked"))
    );

    let stream = client.open(&[&client.request("POST", "/")[..], &[("content-length", "0")]].concat(), true);
    assert_eq!(client.response(stream).text(), "/");
    assert_eq!(origin.last_request().field("content-length"), Some("0"));
}

#[test]
fn responses_without_a_body_end_with_their_head() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            conn.send(match request.target() {
                "/204" => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
                "/304" => "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\nETag: \"a\"\r\n\r\n".to_owned(),
                "/length" => "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n".to_owned(),
                "/chunked" => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
                _ => status(200),
            })?;
        }
    });
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for (method, target, expected) in [
        ("GET", "/204", (204, None)),
        ("GET", "/304", (304, Some("10"))),
        ("HEAD", "/length", (200, Some("10"))),
        ("HEAD", "/chunked", (200, None)),
        ("GET", "/empty", (200, Some("0"))),
    ] {
        let stream = client.open(&client.request(method, target), true);
        let response = client.response(stream);
        assert_eq!((response.status, response.field("content-length")), expected, "{method} {target}");
        assert!(response.body.is_empty() && response.trailers.is_none(), "{response:?}");
        let last = client.frames().last().expect("a frame came");
        assert_eq!((last.kind, last.stream), (1, stream), "the head bears the end: {:?}", client.frames());
    }
}

#[test]
fn a_response_that_ends_with_its_connection_ends_its_stream_only() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send("HTTP/1.0 200 OK\r\n\r\nall of it")
    });
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..3 {
        let response = client.fetch("/");
        assert_eq!((response.status, response.text()), (200, "all of it".to_owned()));
        assert_eq!(response.field("content-length"), None);
    }
}

#[test]
fn fields_of_the_hop_stay_behind() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\nX-Kept: a\r\n\
         X-Kept: b\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n",
    );
    let weir = start(&origin);
    let response = Http2Client::connect(weir.web()).fetch("/");
    // The client of the harness rejects the fields that HTTP/2 does not have.
    assert_eq!(response.fields.all("x-hop"), [""; 0]);
    assert_eq!(response.fields.all("x-kept"), ["a", "b"], "in their order, each in its line");
    assert_eq!(response.fields.all("set-cookie"), ["a=1", "b=2"]);
}

#[test]
fn trailers_of_the_hop_stay_behind() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nConnection: X-Hop\r\nKeep-Alive: 5\r\n\
         Transfer-Encoding: chunked\r\nContent-Length: 3\r\nUpgrade: h2c\r\nX-UPPER: 1\r\nX-Latin:  \u{e9} \r\n\r\n",
    );
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..2 {
        let response = client.fetch("/");
        let trailers = response.trailers.expect("there are some");
        assert_eq!(trailers.one("x-upper"), Some("1"), "{trailers:?}");
        assert_eq!(trailers.all("content-length"), [""; 0], "{trailers:?}");
    }
}

/// Names are in lower case, whatever the server writes; what a value holds is not changed.
#[test]
fn fields_of_every_kind_come_through() {
    let names = "!#$%&'*+-.^_`|~";
    let head = format!(
        "HTTP/1.1 200 OK\r\nX-MiXed: Kept As It Is\r\n{names}: odd\r\nX-Empty:\r\nX-Tab: a\tb\r\nX-Spaces:   a  b   \r\nContent-Length: 0\r\n\r\n"
    );
    let origin = Origin::answering([head.as_bytes()].concat());
    let weir = start(&origin);
    let response = Http2Client::connect(weir.web()).fetch("/");
    for (name, value) in [
        ("x-mixed", "Kept As It Is"),
        (names, "odd"),
        ("x-empty", ""),
        ("x-tab", "a\tb"),
        ("x-spaces", "a  b"),
    ] {
        assert_eq!(response.field(name), Some(value), "{response:?}");
    }
}

#[test]
fn an_answer_of_weir_to_head_has_no_body() {
    let weir = Weir::start(&config_with(&[format!("\"{CLOSED_PORT}\"")], H2C));
    let mut client = Http2Client::connect(weir.web());
    let stream = client.open(&client.request("HEAD", "/"), true);
    let response = client.response(stream);
    assert_eq!((response.status, response.body.len()), (502, 0));
}

#[test]
fn crumbs_of_a_cookie_are_joined() {
    let origin = Origin::serving("fine");
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let crumbs = [("cookie", "a=1"), ("x-between", "1"), ("cookie", "b=2"), ("cookie", "c=3")];
    let stream = client.get_with("/", &crumbs);
    assert_eq!(client.response(stream).status, 200);
    assert_eq!(origin.last_request().field("cookie"), Some("a=1; b=2; c=3"));
}

#[test]
fn heads_of_many_fields_and_more_than_one_frame_pass_both_ways() {
    const LEN: usize = 20_000;
    let long = |byte: char| byte.to_string().repeat(LEN);
    let answer = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\nContent-Length: 0\r\n\r\n", long('b'));
    let origin = Origin::answering(answer);
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..2 {
        let long = long('a');
        let stream = client.next_stream();
        let fields = [&client.request("GET", "/")[..], &[("x-long", &long[..])]].concat();
        let block = client.block(&fields);
        let (first, rest) = block.split_at(block.len() / 2);
        client.send(crate::harness::http2::frame::frame(1, 1, stream, first));
        client.send(crate::harness::http2::frame::frame(9, 4, stream, rest));
        let response = client.response(stream);
        assert_eq!(response.field("x-long").map(str::len), Some(LEN));
        assert_eq!(origin.last_request().field("x-long").map(str::len), Some(LEN));
    }
}

#[test]
fn an_answer_of_weir_itself_is_one_of_http_2() {
    let weir = Weir::start(&config_with(&[format!("\"{CLOSED_PORT}\"")], H2C));
    let mut client = Http2Client::connect(weir.web());
    let response = client.fetch("/");
    assert_eq!((response.status, response.reason()), (502, Some("connect-refused")));
    assert!(!response.body.is_empty());
    assert_eq!(client.fetch("/").status, 502, "the connection goes on");
}

#[test]
fn a_request_is_repeated_at_another_server() {
    let reset = Origin::start(|conn| {
        conn.request()?;
        conn.reset();
        None
    });
    let fine = Origin::serving("fine");
    let servers = [reset.entry(), fine.entry()];
    let weir = Weir::start(&config_with(&servers, &format!("{H2C}upstream.app.balance = \"round-robin\"")));
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..4 {
        assert_eq!(client.fetch("/").text(), "fine");
    }
    assert!(reset.connections() > 0, "it was tried");
}

#[test]
fn a_response_that_the_server_cuts_off_resets_its_stream_only() {
    let origin = Origin::start(|conn| {
        loop {
            match conn.request()?.target() {
                "/cut" => {
                    conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")?;
                    conn.reset();
                    return None;
                }
                _ => conn.send(ok("fine"))?,
            }
        }
    });
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = client.get("/cut");
    assert_eq!(client.wait_for_reset(stream), 2, "INTERNAL_ERROR");
    assert!(!client.received(stream).has_ended);
    assert_eq!(client.fetch("/").text(), "fine");
}

#[test]
fn the_same_with_tls() {
    let origin = echo();
    let (authority, weir) = start_with_tls(&origin, "listener.web.forwarded.x_forwarded = true");
    let mut client = Http2Client::connect_tls(&authority, weir.web());
    assert_eq!(client.fetch("/tls").text(), "/tls");
    let body = vec![b'x'; 300_000];
    assert_eq!(client.fetch_by_post("/", &body).body.len(), 1 + body.len());
    assert_eq!(origin.last_request().field("x-forwarded-proto"), Some("https"));
}

#[test]
fn where_the_client_is_known_to_the_server_it_is_so_for_streams() {
    let origin = echo();
    let weir = start_with(&origin, "");
    let mut client = Http2Client::connect(weir.web());
    client.fetch("/");
    assert_eq!(origin.last_request().field("x-forwarded-for"), Some("127.0.0.1"));
}

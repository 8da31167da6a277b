//! Heads, both ways: what a server gets of a request, and a client of a response.

use super::start;
use crate::harness::http2::server::{Http2Server, http2_echo, http2_origin};
use crate::harness::{Client, Http2Client, Origin};

#[test]
fn a_request_becomes_pseudo_fields_and_fields() {
    let origin = http2_origin(|asked| {
        let of = |name| asked.field(name).unwrap_or("-");
        assert_eq!((of(":method"), of(":scheme"), of(":authority")), ("POST", "http", "a.test:8080"));
        assert_eq!((of(":path"), of("x-one"), of("content-length")), ("/p?q=1", "1", "5"));
        assert_eq!((of("x-forwarded-for"), of("te"), of("x-hop")), ("127.0.0.1", "-", "-"));
        assert_eq!(asked.text(), "hello");
        ("200", b"fine".to_vec())
    });
    let weir = start(&origin, "");
    let request = "POST /p?q=1 HTTP/1.1\r\nHost: a.test:8080\r\nX-One: 1\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\
                   Content-Length: 5\r\n\r\nhello";
    let response = Client::exchange(weir.web(), request);
    assert_eq!((response.status, response.text()), (200, "fine".to_owned()));
}

#[test]
fn a_response_has_a_phrase_and_a_framing_for_http1() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            let status = asked.path().trim_start_matches('/').to_owned();
            server.send_head(asked.stream, &[(":status", &status), ("x-a", "b")], status == "204")?;
            if status != "204" {
                server.send_data(asked.stream, b"without a length", true)?;
            }
        }
    });
    let weir = start(&origin, "");
    let mut client = Client::connect(weir.web());
    for (status, phrase) in [(200, "OK"), (404, "Not Found"), (204, "No Content")] {
        let response = client.fetch(&format!("/{status}"));
        assert_eq!((response.status, response.head.word(2)), (status, phrase.split(' ').next().unwrap()));
        assert_eq!(response.field("x-a"), Some("b"));
        let body = if status == 204 { "" } else { "without a length" };
        assert_eq!(response.text(), body);
    }
}

#[test]
fn head_and_not_modified_have_no_body_whatever_their_length_says() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            let status = if asked.path() == "/304" { "304" } else { "200" };
            server.send_head(asked.stream, &[(":status", status), ("content-length", "1000")], true)?;
        }
    });
    let weir = start(&origin, "");
    let mut client = Client::connect(weir.web());
    client.send("HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let response = client.response_to("HEAD");
    assert_eq!((response.status, response.field("content-length")), (200, Some("1000")));
    let response = client.fetch("/304");
    assert_eq!((response.status, response.text()), (304, String::new()));
}

#[test]
fn a_response_of_another_length_than_it_says_is_refused() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            server.send_head(
                asked.stream,
                &[(":status", "200"), ("content-length", "5")],
                asked.path() == "/none",
            )?;
            if asked.path() == "/more" {
                server.send_data(asked.stream, b"too long", true)?;
            }
        }
    });
    let weir = start(&origin, "retry.attempts_max = 1");
    let response = Client::get(weir.web(), "/none");
    assert_eq!((response.status, response.reason()), (502, Some("response-length-differs")));
    let mut client = Client::connect(weir.web());
    client.send("GET /more HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    let (bytes, _) = client.take_to_end();
    assert!(!String::from_utf8_lossy(&bytes).contains("too long"), "no byte more than announced");
}

#[test]
fn trailers_pass_both_ways() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            let trailers = asked.trailers.as_ref().and_then(|fields| fields.one("x-sum")).unwrap_or("-");
            assert_eq!(asked.field("te"), Some("trailers"));
            server.send_head(asked.stream, &[(":status", "200")], false)?;
            server.send_data(asked.stream, b"body", false)?;
            server.send_head(asked.stream, &[("x-back", trailers)], true)?;
        }
    });
    let weir = start(&origin, "");
    let mut client = Http2Client::connect(weir.web());
    let stream = client.post("/", &[("te", "trailers")]);
    client.data(stream, "hello", false);
    client.trailers(stream, &[("x-sum", "1234")]);
    let response = client.response(stream);
    assert_eq!(
        response.trailers.and_then(|fields| fields.one("x-back").map(str::to_owned)),
        Some("1234".into())
    );
    let request = "POST / HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5\r\nhello\r\n0\r\nX-Sum: 99\r\n\r\n";
    let response = Client::exchange(weir.web(), request);
    assert_eq!(response.body.trailers.one("x-back"), Some("99"));
}

#[test]
fn interim_responses_pass() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        let asked = server.head()?;
        assert_eq!(asked.field("expect"), Some("100-continue"));
        server.send_head(asked.stream, &[(":status", "100")], false)?;
        server.send_head(asked.stream, &[(":status", "103"), ("link", "</a.css>")], false)?;
        let asked = server.request()?;
        server.respond(asked.stream, "200", &asked.body)
    });
    let weir = start(&origin, "");
    let mut client = Client::connect(weir.web());
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(client.head().status(), Ok(100));
    let early = client.head();
    assert_eq!((early.status(), early.fields.one("link")), (Ok(103), Some("</a.css>")));
    client.send("hello");
    assert_eq!(client.response().text(), "hello");
}

#[test]
fn more_interim_responses_than_pass_are_a_failure() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        let asked = server.request()?;
        for _ in 0..200 {
            server.send_head(asked.stream, &[(":status", "103")], false)?;
        }
        server.read_to_end();
        Some(())
    });
    let weir = start(&origin, "retry.attempts_max = 1");
    let mut client = Client::connect(weir.web());
    client.send_get("/");
    let response = client.final_response();
    assert_eq!((response.status, response.reason()), (502, Some("response-too-many-interim")));
}

#[test]
fn every_method_and_target_form() {
    let origin = http2_echo();
    let weir = start(&origin, "");
    for (request, expected) in [
        ("OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n", "OPTIONS * "),
        ("PATCH /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n", "PATCH /a "),
        ("GET http://a.test/b?c HTTP/1.1\r\nHost: a.test\r\n\r\n", "GET /b?c "),
        ("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n", "GET / "),
    ] {
        let response = Client::exchange(weir.web(), request);
        assert_eq!((response.status, response.text()), (200, expected.to_owned()), "{request}");
    }
}

#[test]
fn cookies_and_large_heads_pass() {
    let origin = http2_origin(|asked| {
        let cookies = asked.fields.all("cookie").join("; ");
        ("200", format!("{} {cookies}", asked.field("x-large").map_or(0, str::len)).into_bytes())
    });
    let weir = start(&origin, "");
    let large = "x".repeat(20_000);
    let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Large: {large}\r\nCookie: a=1; b=2\r\n\r\n");
    assert_eq!(Client::exchange(weir.web(), &request).text(), "20000 a=1; b=2");
}

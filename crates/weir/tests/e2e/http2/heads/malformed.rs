//! Requests that are malformed (RFC 9113 section 8.1.1), or that HTTP/1 could read in two ways: answered 400, their stream is reset, and no
//! server gets a byte of them, while the connection goes on.

use crate::harness::http2::frame::{self, NO_ERROR, PROTOCOL_ERROR};
use crate::harness::http2::{start, start_with};
use crate::harness::scripts::echo;
use crate::harness::{End, Http2Client, eventually};

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "a.test"), (":path", "/")];

type Lines<'a> = Vec<(&'a [u8], &'a [u8])>;

fn lines<'a>(fields: &[(&'a str, &'a str)]) -> Lines<'a> {
    fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
}

/// The GET with more fields behind.
fn with<'a>(fields: &[(&'a str, &'a str)]) -> Lines<'a> {
    [lines(&GET), lines(fields)].concat()
}

/// The GET with another value of this field.
fn but<'a>(name: &str, value: &'a [u8]) -> Lines<'a> {
    lines(&GET).into_iter().map(|(n, v)| if n == name.as_bytes() { (n, value) } else { (n, v) }).collect()
}

/// The GET without this field.
fn without(name: &str) -> Lines<'static> {
    lines(&GET).into_iter().filter(|(n, _)| *n != name.as_bytes()).collect()
}

/// Panics unless each head is answered 400 and its stream reset, without any connection to the server.
fn assert_refused(rows: &[(&str, Lines<'_>)]) {
    let origin = echo();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for (what, fields) in rows {
        for ends_stream in [true, false] {
            let stream = client.open(fields, ends_stream);
            let code = client.wait_for_reset(stream);
            let received = client.received(stream);
            assert_eq!((code, received.status), (PROTOCOL_ERROR, 400), "{what}: {received:?}");
            assert!(received.reason().is_some() && received.has_ended, "{what}: {received:?}");
        }
    }
    assert_eq!(origin.connections(), 0, "nothing reached the server");
    assert_eq!(client.fetch("/fine").text(), "/fine", "the connection goes on");
    assert_eq!(client.goaways, []);
}

/// RFC 9113 section 8.3.
#[test]
fn pseudo_fields_are_there_once_and_first() {
    let late = [&lines(&GET[..3])[..], &lines(&[("x-a", "1"), (":path", "/")])].concat();
    assert_refused(&[
        ("without :method", without(":method")),
        ("without :scheme", without(":scheme")),
        ("without :path", without(":path")),
        ("without :authority and Host", without(":authority")),
        ("two methods", with(&[(":method", "GET")])),
        ("two paths", with(&[(":path", "/admin")])),
        ("two schemes", with(&[(":scheme", "http")])),
        ("two authorities", with(&[(":authority", "a.test")])),
        ("a late path", late),
        ("one of responses", with(&[(":status", "200")])),
        ("one that does not exist", with(&[(":unknown", "1")])),
        ("one without a name", with(&[(":", "1")])),
    ]);
}

/// RFC 9113 section 8.3.1.
#[test]
fn pseudo_fields_have_values_of_their_grammar() {
    assert_refused(&[
        ("an empty method", but(":method", b"")),
        ("a method with a space", but(":method", b"GET /admin HTTP/1.1")),
        ("a method with CR LF", but(":method", b"GET / HTTP/1.1\r\nX: y")),
        ("a method with a colon", but(":method", b"GE:T")),
        ("an empty scheme", but(":scheme", b"")),
        ("a scheme that begins with a digit", but(":scheme", b"1http")),
        ("a scheme with a colon", but(":scheme", b"http://b.test/?")),
        ("a scheme with a space", but(":scheme", b"ht tp")),
        ("a scheme with LF", but(":scheme", b"http\nX: y")),
        ("an empty path", but(":path", b"")),
        ("a path without slash", but(":path", b"a")),
        ("an absolute path", but(":path", b"http://a.test/")),
        ("an asterisk without OPTIONS", but(":path", b"*")),
        ("a path with a space", but(":path", b"/a HTTP/1.1")),
        ("a path with CR LF", but(":path", b"/ HTTP/1.1\r\nHost: b.test\r\n\r\nGET /admin")),
        ("a path with LF", but(":path", b"/\nX: y")),
        ("a path with NUL", but(":path", b"/\0")),
        ("a path with a tab", but(":path", b"/\ta")),
        ("a path with a fragment", but(":path", b"/a#b")),
        ("an empty authority", but(":authority", b"")),
        ("an authority with CR LF", but(":authority", b"a.test\r\nX: y")),
        ("an authority with a space", but(":authority", b"a.test b.test")),
        ("an authority with a path", but(":authority", b"a.test/admin")),
        ("an authority with a user", but(":authority", b"user@a.test")),
        ("an authority with a bad port", but(":authority", b"a.test:x")),
    ]);
}

/// RFC 9113 section 8.2.1.
#[test]
fn fields_have_names_and_values_of_their_grammar() {
    let name = |name: &'static [u8]| [&lines(&GET)[..], &[(name, &b"1"[..])]].concat();
    let value = |value: &'static [u8]| [&lines(&GET)[..], &[(&b"x-a"[..], value)]].concat();
    assert_refused(&[
        ("an upper-case name", name(b"X-A")),
        ("an empty name", name(b"")),
        ("a name with a space", name(b"x a")),
        ("a name with a trailing space", name(b"content-length ")),
        ("a name with a colon", name(b"x:a")),
        ("a name with CR LF", name(b"x\r\nhost")),
        ("a name with NUL", name(b"x\0")),
        ("a name beyond ASCII", name(b"x\xff")),
        ("a name with DEL", name(b"x\x7f")),
        ("a value with CR LF", value(b"a\r\nHost: b.test")),
        ("a value with CR", value(b"a\rb")),
        ("a value with LF", value(b"a\nb")),
        ("a value with NUL", value(b"a\0b")),
        ("a value that begins with a space", value(b" a")),
        ("a value that ends with a space", value(b"a ")),
        ("a value that begins with a tab", value(b"\ta")),
        ("a value that ends with a tab", value(b"a\t")),
    ]);
}

/// RFC 9113 section 8.2.2.
#[test]
fn fields_of_http_1_connections_are_not_there() {
    assert_refused(&[
        ("connection", with(&[("connection", "close")])),
        ("connection that names a field", with(&[("connection", "x-a"), ("x-a", "1")])),
        ("keep-alive", with(&[("keep-alive", "timeout=5")])),
        ("proxy-connection", with(&[("proxy-connection", "close")])),
        ("transfer-encoding", with(&[("transfer-encoding", "chunked")])),
        ("upgrade", with(&[("upgrade", "websocket")])),
        ("te other than trailers", with(&[("te", "gzip")])),
        ("te with trailers and more", with(&[("te", "trailers, gzip")])),
    ]);
}

#[test]
fn there_is_one_host_and_one_length() {
    assert_refused(&[
        ("Host that differs", with(&[("host", "b.test")])),
        ("Host with another port", with(&[("host", "a.test:81")])),
        ("two Hosts", [without(":authority"), lines(&[("host", "a.test"), ("host", "a.test")])].concat()),
        ("lengths that differ", with(&[("content-length", "1"), ("content-length", "2")])),
        ("equal lengths", with(&[("content-length", "0"), ("content-length", "0")])),
        ("a length that is no number", with(&[("content-length", "1x")])),
        ("a negative length", with(&[("content-length", "-1")])),
        ("a length with a sign", with(&[("content-length", "+1")])),
        ("an empty length", with(&[("content-length", "")])),
        ("a list of lengths", with(&[("content-length", "1, 2")])),
        ("a length that overflows", with(&[("content-length", "18446744073709551616")])),
    ]);
}

#[test]
fn connect_has_its_own_pseudo_fields() {
    assert_refused(&[
        ("CONNECT with a path", lines(&[(":method", "CONNECT"), (":authority", "a.test:1"), (":path", "/")])),
        (
            "CONNECT with a scheme",
            lines(&[(":method", "CONNECT"), (":authority", "a.test:1"), (":scheme", "http")]),
        ),
        ("CONNECT without authority", lines(&[(":method", "CONNECT")])),
        ("CONNECT without a port", lines(&[(":method", "CONNECT"), (":authority", "a.test")])),
        (
            "extended CONNECT without a path",
            lines(&[
                (":method", "CONNECT"),
                (":protocol", "websocket"),
                (":scheme", "http"),
                (":authority", "a.test"),
            ]),
        ),
        (
            "extended CONNECT without a scheme",
            lines(&[
                (":method", "CONNECT"),
                (":protocol", "websocket"),
                (":path", "/"),
                (":authority", "a.test"),
            ]),
        ),
        (
            "extended CONNECT without authority",
            lines(&[(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":path", "/")]),
        ),
    ]);
}

#[test]
fn a_length_without_a_body_is_malformed() {
    let origin = echo();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = client.open(&with(&[("content-length", "5")]), true);
    assert_eq!(client.wait_for_reset(stream), PROTOCOL_ERROR);
    assert_eq!(client.received(stream).status, 400);
    assert_eq!(origin.connections(), 0);
}

/// The server has seen the head by then; what it must not see is an end.
#[test]
fn a_body_of_another_length_has_no_end_at_the_server() {
    let origin = echo();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for (number, (sent, ends)) in
        [("hello!", false), ("hell", true), ("hello!", true), ("", true)].into_iter().enumerate()
    {
        let stream = client.post("/", &[("content-length", "5")]);
        origin.wait_for_connections(number + 1);
        client.data(stream, sent, ends);
        assert_eq!(client.wait_for_reset(stream), PROTOCOL_ERROR, "{sent} {ends}");
        let end = origin.wait_for_end(number);
        assert!(matches!(end, End::Closed | End::Reset), "{end}");
    }
    let stream = client.post("/", &[("content-length", "5")]);
    client.data(stream, "hell", false);
    client.trailers(stream, &[("x-a", "1")]);
    assert_eq!(client.wait_for_reset(stream), PROTOCOL_ERROR, "trailers end it too early");
    assert_eq!(origin.requests().len(), 0, "none was whole");
    assert_eq!(client.fetch("/fine").text(), "/fine");
    let failures = || weir.metrics().sum("weir_listener_failures_total", &["reason=\"length-differs\""]);
    eventually("each is counted", || failures() == 5.0);
}

/// All of it in one segment: the exchange never begins, and is counted all the same.
#[test]
fn a_body_of_another_length_that_comes_with_its_head() {
    let origin = echo();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    client.settle();
    let head = [&client.request("POST", "/")[..], &[("content-length", "5")]].concat();
    let (stream, opening) = client.opening(&head, false);
    client.send([opening, frame::frame(frame::DATA, frame::END_STREAM, stream, b"hell")].concat());
    assert_eq!(client.wait_for_reset(stream), PROTOCOL_ERROR);
    client.settle();
    assert_eq!(weir.metrics().sum("weir_listener_failures_total", &["reason=\"length-differs\""]), 1.0);
    assert_eq!(origin.connections(), 0);
}

#[test]
fn trailers_that_are_malformed_have_no_end_at_the_server() {
    let origin = echo();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for (number, field) in
        [(":path", "/admin"), ("X-Upper", "1"), ("connection", "close"), ("x-a", "a\r\nb"), ("x-a", " a")]
            .into_iter()
            .enumerate()
    {
        let stream = client.post("/", &[]);
        client.data(stream, "hello", false);
        origin.wait_for_connections(number + 1);
        client.trailers(stream, &[field]);
        assert_eq!(client.wait_for_reset(stream), PROTOCOL_ERROR, "{field:?}");
        origin.wait_for_end(number);
    }
    assert_eq!(origin.requests().len(), 0, "none was whole");
    assert_eq!(client.fetch("/fine").text(), "/fine");
}

/// RFC 9110 section 6.5.1: they would change how the message is framed or routed.
#[test]
fn trailers_that_frame_or_route_do_not_reach_the_server() {
    let origin = echo();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for field in [("content-length", "5"), ("host", "b.test"), ("transfer-encoding", "chunked")] {
        let stream = client.post("/", &[]);
        client.data(stream, "hello", false);
        client.trailers(stream, &[field, ("x-fine", "1")]);
        client.outcome(stream);
        for request in origin.requests() {
            assert_eq!(request.body.trailers.all(field.0), [""; 0], "{request:?}");
        }
    }
    assert_eq!(client.fetch("/fine").text(), "/fine");
}

#[test]
fn what_looks_odd_and_is_allowed_passes() {
    let origin = echo();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for (what, fields) in [
        ("Host that is the authority", with(&[("host", "a.test")])),
        ("Host in other letters", with(&[("host", "A.TEST")])),
        ("Host alone", [without(":authority"), lines(&[("host", "a.test")])].concat()),
        ("te: trailers", with(&[("te", "trailers")])),
        ("an empty value", with(&[("x-a", "")])),
        ("a tab inside a value", with(&[("x-a", "a\tb")])),
        ("bytes beyond ASCII in a value", [&lines(&GET)[..], &[(&b"x-a"[..], &b"\xe9"[..])]].concat()),
        ("another scheme", but(":scheme", b"https")),
        ("an unusual method", but(":method", b"M-SEARCH")),
    ] {
        let stream = client.open(&fields, true);
        let received = client.response(stream);
        assert_eq!((received.status, received.reset), (200, None), "{what}: {received:?}");
        let request = origin.last_request();
        assert_eq!(request.field("x-forwarded-proto"), Some("http"), "what the connection is: {what}");
        assert_eq!(request.field("host").map(str::to_ascii_lowercase).as_deref(), Some("a.test"), "{what}");
    }
    let asterisk = [(":method", "OPTIONS"), (":scheme", "http"), (":authority", "a.test"), (":path", "*")];
    let stream = client.open(&asterisk, true);
    assert_eq!(client.response(stream).status, 200);
    assert_eq!(origin.last_request().head.start_line, "OPTIONS * HTTP/1.1");
}

/// Two requests of one segment, of which the first is malformed: the second is served, and has its own fields.
#[test]
fn the_table_of_fields_survives_a_malformed_request() {
    let origin = echo();
    let weir = start_with(&origin, "");
    let mut client = Http2Client::connect(weir.web());
    let (bad, mut bytes) = client.opening(&with(&[("X-Bad", "1"), ("x-in-the-table", "kept")]), true);
    let (good, opening) = client.opening(&with(&[("x-in-the-table", "kept")]), true);
    bytes.extend(opening);
    client.send(bytes);
    assert_eq!(client.response(good).status, 200);
    assert_eq!(origin.last_request().field("x-in-the-table"), Some("kept"));
    assert_ne!(client.wait_for_reset(bad), NO_ERROR);
}

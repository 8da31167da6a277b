//! The end of a request, its host, and its connection options.
//!
//! The numbers group rows by attack and are the same in the end-to-end tests.

use weir_http::{Expectation, Framing, Rule};

use crate::outcome::{assert_accepted, assert_refused, get, post};

#[test]
fn refused_framing() {
    let rows: &[(u32, &str, Rule)] = &[
        (11, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Rule::LengthWithTransferEncoding),
        (11, "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", Rule::LengthWithTransferEncoding),
        (11, "TRANSFER-ENCODING: chunked\r\ncontent-length: 0\r\n", Rule::LengthWithTransferEncoding),
        (12, "Content-Length: 5\r\nContent-Length: 6\r\n", Rule::ConflictingLengths),
        (12, "Content-Length: 5, 6\r\n", Rule::ConflictingLengths),
        (13, "Content-Length: 5\r\nContent-Length: 5\r\n", Rule::RepeatedLength),
        (13, "Content-Length: 5, 5\r\n", Rule::RepeatedLength),
        (14, "Content-Length: +5\r\n", Rule::BadLength),
        (14, "Content-Length: -1\r\n", Rule::BadLength),
        (14, "Content-Length: -0\r\n", Rule::BadLength),
        (14, "Content-Length: 0x5\r\n", Rule::BadLength),
        (14, "Content-Length: 5_0\r\n", Rule::BadLength),
        (14, "Content-Length: 1 0\r\n", Rule::BadLength),
        (14, "Content-Length:\r\n", Rule::BadLength),
        (14, "Content-Length: \t \r\n", Rule::BadLength),
        (14, "Content-Length: 5,\r\n", Rule::BadLength),
        (14, "Content-Length: 5, x\r\n", Rule::BadLength),
        (14, "Content-Length: five\r\n", Rule::BadLength),
        (14, "Content-Length: 5.0\r\n", Rule::BadLength),
        (14, "Content-Length: \"5\"\r\n", Rule::BadLength),
        (14, "Content-Length: 9223372036854775808\r\n", Rule::BadLength),
        (14, "Content-Length: 18446744073709551616\r\n", Rule::BadLength),
        (14, "Content-Length: 18446744073709551621\r\n", Rule::BadLength),
        (14, "Content-Length: 99999999999999999999999999\r\n", Rule::BadLength),
        (15, "Content-Length: 005\r\n", Rule::BadLength),
        (15, "Content-Length: 00\r\n", Rule::BadLength),
        (17, "Transfer-Encoding: chunked, gzip\r\n", Rule::BadTransferEncoding),
        (17, "Transfer-Encoding: xchunked\r\n", Rule::BadTransferEncoding),
        (17, "Transfer-Encoding: identity\r\n", Rule::BadTransferEncoding),
        (17, "Transfer-Encoding: gzip, chunked\r\n", Rule::UnknownTransferCoding),
        (17, "Transfer-Encoding: gzip;q=1, chunked\r\n", Rule::UnknownTransferCoding),
        (18, "Transfer-Encoding: chunked, chunked\r\n", Rule::BadTransferEncoding),
        (18, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Rule::BadTransferEncoding),
        (18, "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", Rule::BadTransferEncoding),
        (18, "Transfer-Encoding: chunked;q=1\r\n", Rule::BadTransferEncoding),
        (18, "Transfer-Encoding: chunked;q=1, chunked\r\n", Rule::BadTransferEncoding),
        (19, "Transfer-Encoding: ,chunked\r\n", Rule::BadTransferEncoding),
        (19, "Transfer-Encoding: chunked,\r\n", Rule::BadTransferEncoding),
        (19, "Transfer-Encoding:\r\n", Rule::BadTransferEncoding),
        (20, "Transfer-Encoding: \x0bchunked\r\n", Rule::ControlByte),
        (20, "Transfer-Encoding: chunked\0\r\n", Rule::NulByte),
        (20, "Transfer-Encoding: \"chunked\"\r\n", Rule::BadTransferEncoding),
        (20, "Transfer-Encoding: chun ked\r\n", Rule::BadTransferEncoding),
        (20, "Transfer-Encoding: (gzip), chunked\r\n", Rule::BadTransferEncoding),
    ];
    for (group, lines, rule) in rows {
        assert_refused(*group, &post(lines), *rule);
    }
    assert_refused(
        16,
        b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        Rule::TransferEncodingInHttp10,
    );
}

#[test]
fn accepted_framing() {
    let rows: &[(u32, &str, Framing)] = &[
        (14, "", Framing::None),
        (14, "Content-Length: 0\r\n", Framing::Length(0)),
        (14, "Content-Length: 5\r\n", Framing::Length(5)),
        (14, "content-LENGTH:5\r\n", Framing::Length(5)),
        (14, "Content-Length:\t 5 \t\r\n", Framing::Length(5)),
        (14, "Content-Length: 9223372036854775807\r\n", Framing::Length(i64::MAX as u64)),
        (20, "Transfer-Encoding: chunked\r\n", Framing::Delimited),
        (20, "transfer-encoding:CHUNKED\r\n", Framing::Delimited),
        (20, "Transfer-Encoding: \t Chunked \t \r\n", Framing::Delimited),
        (10, "Content_Length: 5\r\n", Framing::None),
        (10, "Transfer_Encoding: chunked\r\n", Framing::None),
        (10, "Content_Length: 5\r\nTransfer-Encoding: chunked\r\n", Framing::Delimited),
    ];
    for (group, lines, body) in rows {
        assert_eq!(assert_accepted(*group, &post(lines)).body(), *body, "group {group}: {lines:?}");
    }
}

#[test]
fn expectations() {
    let rows: &[(&str, &str, &str, Expectation, bool)] = &[
        ("POST", "1.1", "Content-Length: 5\r\nExpect: 100-continue\r\n", Expectation::Continue, true),
        (
            "POST",
            "1.1",
            "Transfer-Encoding: chunked\r\nExpect: 100-Continue\r\n",
            Expectation::Continue,
            true,
        ),
        ("GET", "1.1", "Content-Length: 5\r\nExpect: 100-continue\r\n", Expectation::Continue, true),
        ("POST", "1.0", "Content-Length: 5\r\nExpect: 100-continue\r\n", Expectation::None, false),
        ("POST", "1.0", "Content-Length: 5\r\nExpect: x\r\n", Expectation::None, false),
        ("POST", "1.1", "Content-Length: 5\r\nExpect: 100-continue, x\r\n", Expectation::Unknown, false),
        (
            "POST",
            "1.1",
            "Content-Length: 5\r\nExpect: x\r\nExpect: 100-continue\r\n",
            Expectation::Unknown,
            false,
        ),
        (
            "POST",
            "1.1",
            "Content-Length: 5\r\nExpect: 100-continue\r\nExpect: x\r\n",
            Expectation::Unknown,
            false,
        ),
        ("POST", "1.1", "Content-Length: 5\r\nExpect:\r\n", Expectation::Unknown, false),
        ("GET", "1.1", "Expect: 100-continue\r\n", Expectation::Continue, false),
        ("GET", "1.1", "", Expectation::None, false),
    ];
    for (method, version, lines, expectation, waits) in rows {
        let bytes = format!("{method} / HTTP/{version}\r\nHost: a\r\n{lines}\r\n");
        let head = assert_accepted(40, bytes.as_bytes());
        assert_eq!((head.expectation(), head.expects_continue()), (*expectation, *waits), "{bytes:?}");
    }
}

#[test]
fn persistence() {
    let rows: &[(&str, &str, bool)] = &[
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: keep-alive\r\n", true),
        ("1.1", "Connection: Keep-Alive, CLOSE\r\n", false),
        ("1.1", "Connection: x\r\nConnection: close\r\n", false),
        ("1.1", "Connection: closed\r\n", true),
        ("1.1", "Connection: ,,close,\r\n", false),
        ("1.0", "", false),
        ("1.0", "Connection: keep-alive\r\n", true),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
        ("1.0", "Proxy-Connection: keep-alive\r\n", false),
    ];
    for (version, lines, expected) in rows {
        let bytes = format!("GET / HTTP/{version}\r\nHost: a\r\n{lines}\r\n");
        assert_eq!(assert_accepted(44, bytes.as_bytes()).keep_alive(), *expected, "{bytes:?}");
    }
}

#[test]
fn connection_strips_only_permitted_fields() {
    let bytes = get(
        "Connection: close, X-Forwarded-For, Host, Authorization, Content-Length, x-hop, TE , Cookie,Content_Length\r\n\
         X-Forwarded-For: 1.2.3.4\r\nAuthorization: x\r\nContent-Length: 5\r\nX-Hop: y\r\nX-Hop2: y\r\nTE: trailers\r\n\
         Cookie: c\r\nKeep-Alive: x\r\nContent_Length: 7\r\n",
    );
    let head = assert_accepted(35, &bytes);
    assert!(head.connection().others() && head.connection().close());
    let stripped: Vec<&[u8]> = head
        .fields()
        .iter()
        .filter(|field| head.is_named_by_connection(&bytes, field))
        .map(|field| field.name.of(&bytes))
        .collect();
    assert_eq!(stripped, [b"X-Hop".as_slice(), b"TE", b"Content_Length"]);
    assert_eq!(head.body(), Framing::Length(5));
    let plain = assert_accepted(35, &get("Connection: keep-alive, Upgrade\r\n"));
    assert!(!plain.connection().others() && plain.connection().upgrade());
}

#[test]
fn upgrades() {
    let rows: &[(&str, &str, Option<&str>)] = &[
        ("1.1", "Connection: Upgrade\r\nUpgrade: websocket\r\n", Some("websocket")),
        ("1.1", "Upgrade: h2c\r\nConnection: x, upgrade\r\n", Some("h2c")),
        ("1.1", "Upgrade: websocket\r\n", None),
        ("1.1", "Connection: upgrade\r\n", None),
        ("1.1", "Connection: upgrade\r\nUpgrade:\r\n", None),
        ("1.1", "Connection: upgrade\r\nUpgrade: a\r\nUpgrade: b\r\n", None),
        ("1.0", "Connection: upgrade\r\nUpgrade: websocket\r\n", None),
    ];
    for (version, lines, expected) in rows {
        let bytes = format!("GET / HTTP/{version}\r\nHost: a\r\n{lines}\r\n").into_bytes();
        let head = assert_accepted(38, &bytes);
        assert_eq!(head.upgrade().map(|span| span.of(&bytes)), expected.map(str::as_bytes), "{lines:?}");
    }
}

#[test]
fn max_forwards() {
    let rows: &[(&str, &str, Option<u64>)] = &[
        ("OPTIONS", "Max-Forwards: 0\r\n", Some(0)),
        ("TRACE", "Max-Forwards: 10\r\n", Some(10)),
        ("TRACE", "Max-Forwards: 00\r\n", Some(0)),
        ("GET", "Max-Forwards: 0\r\n", None),
        ("TRACE", "Max-Forwards: -1\r\n", None),
        ("TRACE", "Max-Forwards: +0\r\n", None),
        ("TRACE", "Max-Forwards:\r\n", None),
        ("TRACE", "", None),
    ];
    for (method, lines, expected) in rows {
        let bytes = format!("{method} / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").into_bytes();
        assert_eq!(assert_accepted(48, &bytes).max_forwards(&bytes), *expected, "{method} {lines:?}");
    }
}

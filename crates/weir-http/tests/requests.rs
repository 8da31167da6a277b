//! Requests that parsers are attacked with, and what becomes of each: refused by name, or understood exactly so.
//!
//! Every row is parsed in one piece, byte by byte, and with another request behind it; the outcome must not differ.
//! The numbers group rows by attack and are the same in the end-to-end tests.

use weir_http::{
    Expectation, HeadLimits, Lenient, Method, Progress, RequestBody, RequestHead, Rule, TargetForm, Version,
};

/// Parses `bytes` in one piece.
fn parse_whole(bytes: &[u8], limits: &HeadLimits) -> Result<(RequestHead, Progress), Rule> {
    let mut head = RequestHead::new();
    head.parse(bytes, limits).map(|progress| (head, progress))
}

/// Parses `bytes` as they come in one by one.
fn parse_bytewise(bytes: &[u8], limits: &HeadLimits) -> Result<(RequestHead, Progress), Rule> {
    let mut head = RequestHead::new();
    for len in 0..=bytes.len() {
        match head.parse(&bytes[..len], limits)? {
            Progress::Incomplete => {}
            complete => return Ok((head, complete)),
        }
    }
    Ok((head, Progress::Incomplete))
}

fn outcome(result: &Result<(RequestHead, Progress), Rule>) -> Result<Progress, Rule> {
    result.as_ref().map(|(_, progress)| *progress).map_err(|rule| *rule)
}

/// Parses `bytes` in every way and gives the outcome they agree on.
fn parse(bytes: &[u8], limits: &HeadLimits) -> Result<(RequestHead, Progress), Rule> {
    let whole = parse_whole(bytes, limits);
    let shown = || String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
    assert_eq!(outcome(&whole), outcome(&parse_bytewise(bytes, limits)), "byte by byte: {:?}", shown());
    if outcome(&whole) != Ok(Progress::Incomplete) {
        let more = [bytes, b"GET /next HTTP/1.1\r\nHost: next\r\n\r\n"].concat();
        assert_eq!(outcome(&whole), outcome(&parse_whole(&more, limits)), "with more behind: {:?}", shown());
    }
    whole
}

#[track_caller]
fn assert_refused(group: u32, bytes: &[u8], rule: Rule) {
    let result = parse(bytes, &HeadLimits::default());
    assert_eq!(outcome(&result), Err(rule), "group {group}: {:?}", String::from_utf8_lossy(bytes));
}

#[track_caller]
fn assert_accepted(group: u32, bytes: &[u8]) -> RequestHead {
    match parse(bytes, &HeadLimits::default()) {
        Ok((head, Progress::Complete { len })) => {
            assert_eq!(len, bytes.len(), "group {group}");
            assert_eq!(head.len(), len, "group {group}");
            head
        }
        other => panic!("group {group}: {:?}: {:?}", String::from_utf8_lossy(bytes), outcome(&other)),
    }
}

/// A GET with the given field lines, each with its line end, besides Host.
fn get(lines: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").into_bytes()
}

/// A POST with the given field lines.
fn post(lines: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").into_bytes()
}

/// A GET for the given target.
fn get_target(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

#[test]
fn refused_lines() {
    let rows: &[(u32, &str, Rule)] = &[
        (1, "X: y\n", Rule::BareLf),
        (1, "X: y\r\nZ: 1\n\r\n", Rule::BareLf),
        (2, "X: a\rb\r\n", Rule::BareCr),
        (2, "X: a\r\r\n", Rule::BareCr),
        (2, "X: y\rZ: 1\r\n", Rule::BareCr),
        (2, "\rX: y\r\n", Rule::BareCr),
        (3, "X: a\0b\r\n", Rule::NulByte),
        (3, "X\0: a\r\n", Rule::NulByte),
        (3, "X: \0\r\n", Rule::NulByte),
        (4, "X: \x01\r\n", Rule::ControlByte),
        (4, "X: a\x07b\r\n", Rule::ControlByte),
        (4, "X: \x0b\r\n", Rule::ControlByte),
        (4, "X: \x1f\r\n", Rule::ControlByte),
        (4, "X: longer than eight\x7f\r\n", Rule::ControlByte),
        (5, "X: a\r\n b\r\n", Rule::ObsFold),
        (5, "X: a\r\n\tb\r\n", Rule::ObsFold),
        (5, "Transfer-Encoding:\r\n chunked\r\n", Rule::BadTransferEncoding),
        (6, "X : y\r\n", Rule::SpaceBeforeColon),
        (6, "X\t: y\r\n", Rule::SpaceBeforeColon),
        (6, "Content-Length : 5\r\n", Rule::SpaceBeforeColon),
        (6, "Transfer-Encoding  : chunked\r\n", Rule::SpaceBeforeColon),
        (7, " \r\n", Rule::ObsFold),
        (8, ": x\r\n", Rule::EmptyFieldName),
        (8, "NoColon\r\n", Rule::MissingColon),
        (8, "No colon\r\n", Rule::BadFieldName),
        (8, "NoColon \r\n", Rule::MissingColon),
        (8, "Content-Length\r\n", Rule::MissingColon),
        (9, "{x}: y\r\n", Rule::BadFieldName),
        (9, "X@y: z\r\n", Rule::BadFieldName),
        (9, "X(y: z\r\n", Rule::BadFieldName),
        (9, "\"X\": z\r\n", Rule::BadFieldName),
        (9, "né: z\r\n", Rule::BadFieldName),
        (9, "Content-Length\u{a0}: 5\r\n", Rule::BadFieldName),
        (27, "Host: b\r\n", Rule::SeveralHosts),
        (27, "host: a\r\n", Rule::SeveralHosts),
    ];
    for (group, lines, rule) in rows {
        assert_refused(*group, &get(lines), *rule);
    }
    for byte in [b'\x85', b'\xa0'] {
        let bytes = [b"GET / HTTP/1.1\r\nHost: a\r\nX", [byte].as_slice(), b": y\r\n\r\n"].concat();
        assert_refused(9, &bytes, Rule::BadFieldName);
    }
    assert_refused(7, b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", Rule::LeadingSpace);
    assert_refused(7, b"GET / HTTP/1.1\r\n\tHost: a\r\n\r\n", Rule::LeadingSpace);
    assert_refused(7, b" GET / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::LeadingSpace);
    assert_refused(1, b"GET / HTTP/1.1\nHost: a\n\n", Rule::BareLf);
    assert_refused(1, b"GET / HTTP/1.1\r\nHost: a\r\n\n", Rule::BareLf);
    assert_refused(2, b"GET / HTTP/1.1\rHost: a\r\r", Rule::BareCr);
}

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
    let rows: &[(u32, &str, RequestBody)] = &[
        (14, "", RequestBody::None),
        (14, "Content-Length: 0\r\n", RequestBody::None),
        (14, "Content-Length: 5\r\n", RequestBody::Length(5)),
        (14, "content-LENGTH:5\r\n", RequestBody::Length(5)),
        (14, "Content-Length:\t 5 \t\r\n", RequestBody::Length(5)),
        (14, "Content-Length: 9223372036854775807\r\n", RequestBody::Length(i64::MAX as u64)),
        (20, "Transfer-Encoding: chunked\r\n", RequestBody::Chunked),
        (20, "transfer-encoding:CHUNKED\r\n", RequestBody::Chunked),
        (20, "Transfer-Encoding: \t Chunked \t \r\n", RequestBody::Chunked),
        (10, "Content_Length: 5\r\n", RequestBody::None),
        (10, "Transfer_Encoding: chunked\r\n", RequestBody::None),
        (10, "Content_Length: 5\r\nTransfer-Encoding: chunked\r\n", RequestBody::Chunked),
    ];
    for (group, lines, body) in rows {
        assert_eq!(assert_accepted(*group, &post(lines)).body(), *body, "group {group}: {lines:?}");
    }
}

#[test]
fn refused_targets() {
    let rows: &[(u32, &str, Rule)] = &[
        (3, "/a\0b", Rule::NulByte),
        (29, "ftp://a/", Rule::BadScheme),
        (29, "ws://a/", Rule::BadScheme),
        (29, "http:///", Rule::BadHost),
        (29, "http://", Rule::BadHost),
        (29, "http://?x", Rule::BadHost),
        (29, "http://u@a/", Rule::BadHost),
        (29, "http://u:p@a/", Rule::BadHost),
        (29, "http://a:0/", Rule::BadHost),
        (29, "http://:80/", Rule::BadHost),
        (29, "http:/a", Rule::BadTarget),
        (29, "://a/", Rule::BadTarget),
        (29, "1http://a/", Rule::BadTarget),
        (30, "*", Rule::BadTarget),
        (30, "a:80", Rule::BadTarget),
        (30, "a", Rule::BadTarget),
        (30, "?x", Rule::BadTarget),
        (31, "/#frag", Rule::BadTarget),
        (31, "/a b", Rule::BadRequestLine),
        (31, "/a\"b", Rule::BadTarget),
        (31, "/a<b", Rule::BadTarget),
        (31, "/a>b", Rule::BadTarget),
        (31, "/caf\u{e9}", Rule::BadTarget),
        (31, "/\x7f", Rule::BadTarget),
        (31, "/?q=\x7f", Rule::BadTarget),
        (31, "/a\tb", Rule::BadRequestLine),
        (31, "/\x01", Rule::BadTarget),
        (32, "/%", Rule::BadTarget),
        (32, "/%4", Rule::BadTarget),
        (32, "/%zz", Rule::BadTarget),
        (32, "/%%41", Rule::BadTarget),
    ];
    for (group, target, rule) in rows {
        assert_refused(*group, &get_target(target), *rule);
    }
    let rows: &[(u32, &str, Rule)] = &[
        (30, "OPTIONS *a HTTP/1.1", Rule::BadTarget),
        (30, "CONNECT / HTTP/1.1", Rule::BadHost),
        (30, "CONNECT a HTTP/1.1", Rule::BadTarget),
        (30, "CONNECT a: HTTP/1.1", Rule::BadTarget),
        (30, "CONNECT u@a:443 HTTP/1.1", Rule::BadHost),
        (30, "CONNECT http://a:443 HTTP/1.1", Rule::BadHost),
        (30, "CONNECT :443 HTTP/1.1", Rule::BadHost),
    ];
    for (group, line, rule) in rows {
        assert_refused(*group, format!("{line}\r\nHost: a\r\n\r\n").as_bytes(), *rule);
    }
}

/// Form, path, query, host and port of an accepted request line.
type Target<'a> = (TargetForm, &'a str, Option<&'a str>, &'a str, Option<u16>);

#[test]
fn accepted_targets() {
    use TargetForm::{Absolute, Asterisk, Authority, Origin};
    let long = format!("/{}", "a".repeat(7_950));
    let rows: &[(u32, &str, Target<'_>)] = &[
        (0, "GET /", (Origin, "/", None, "b", Some(81))),
        (0, "GET /?", (Origin, "/", Some(""), "b", Some(81))),
        (0, "GET /a?b?c", (Origin, "/a", Some("b?c"), "b", Some(81))),
        (0, "GET /a?100%&x=[1]|{2}", (Origin, "/a", Some("100%&x=[1]|{2}"), "b", Some(81))),
        (0, "get /~a:@!$&'()*+,;=", (Origin, "/~a:@!$&'()*+,;=", None, "b", Some(81))),
        (28, "GET http://a/", (Absolute, "/", None, "a", None)),
        (28, "GET http://a", (Absolute, "/", None, "a", None)),
        (28, "GET HTTPS://a:444/x?y", (Absolute, "/x", Some("y"), "a", Some(444))),
        (28, "GET http://a?y", (Absolute, "/", Some("y"), "a", None)),
        (28, "GET http://[::1]:8080/", (Absolute, "/", None, "[::1]", Some(8080))),
        (28, "GET http://a:/", (Absolute, "/", None, "a", None)),
        (28, "GET http://a/http://c/", (Absolute, "/http://c/", None, "a", None)),
        (30, "OPTIONS *", (Asterisk, "*", None, "b", Some(81))),
        (30, "OPTIONS http://a:1", (Absolute, "/", None, "a", Some(1))),
        (30, "CONNECT a:443", (Authority, "", None, "a", Some(443))),
        (30, "CONNECT [2001:db8::1]:443", (Authority, "", None, "[2001:db8::1]", Some(443))),
        (32, "GET /a/../b", (Origin, "/a/../b", None, "b", Some(81))),
        (32, "GET /a/%2e%2E/b", (Origin, "/a/%2e%2E/b", None, "b", Some(81))),
        (32, "GET //x", (Origin, "//x", None, "b", Some(81))),
        (32, "GET /a;/..;/b", (Origin, "/a;/..;/b", None, "b", Some(81))),
        (32, "GET /%2F", (Origin, "/%2F", None, "b", Some(81))),
        (32, "GET /%00", (Origin, "/%00", None, "b", Some(81))),
        (32, "GET /a\\b", (Origin, "/a\\b", None, "b", Some(81))),
        (32, "GET //a/x?http://c", (Origin, "//a/x", Some("http://c"), "b", Some(81))),
        (47, &format!("GET {long}"), (Origin, &long, None, "b", Some(81))),
    ];
    for (group, line, expected) in rows {
        let bytes = format!("{line} HTTP/1.1\r\nHost: b:81\r\n\r\n").into_bytes();
        let head = assert_accepted(*group, &bytes);
        let text = |span: weir_http::Span| std::str::from_utf8(span.of(head.text(&bytes))).unwrap();
        let found =
            (head.target_form(), text(head.path()), head.query().map(text), text(head.host()), head.port());
        assert_eq!(found, *expected, "group {group}: {line}");
        assert_eq!(text(head.target()), line.split_once(' ').unwrap().1);
        assert_eq!(text(head.method_span()), line.split_once(' ').unwrap().0);
    }
}

#[test]
fn encoded_nul_is_refused_by_option() {
    let limits = HeadLimits { refuse_encoded_nul: true, ..HeadLimits::default() };
    assert_eq!(outcome(&parse(&get_target("/a%00"), &limits)), Err(Rule::BadTarget));
    assert!(parse(&get_target("/a%20"), &limits).is_ok());
    assert!(parse(&get_target("/a?%00"), &limits).is_ok());
}

#[test]
fn hosts() {
    let refused = [
        "a, b",
        "a,b",
        "a/b",
        "u@a",
        "a:99999",
        "a:65536",
        "a:0",
        "a:080",
        "a:+1",
        "a:1:2",
        "a b",
        ":80",
        "[::1",
        "[::1]x",
        "::1",
        "[::g]",
        "[fe80::1%25eth0]",
        "[1.2.3.4]",
        "a%zz",
        "a%4",
        "a\\b",
        "a?b",
        "caf\u{e9}",
        "\"a\"",
        "[]",
        "a:http",
    ];
    for host in refused {
        let bytes = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_refused(27, bytes.as_bytes(), Rule::BadHost);
    }
    let accepted: &[(&str, &str, Option<u16>)] = &[
        ("a", "a", None),
        ("example.com:8080", "example.com", Some(8080)),
        ("a:", "a", None),
        ("a:65535", "a", Some(65535)),
        ("a:1", "a", Some(1)),
        ("1.2.3.4:80", "1.2.3.4", Some(80)),
        ("[::1]", "[::1]", None),
        ("[::ffff:1.2.3.4]:80", "[::ffff:1.2.3.4]", Some(80)),
        ("under_score.example", "under_score.example", None),
        ("a%41", "a%41", None),
        ("xn--caf-dma.example.", "xn--caf-dma.example.", None),
        ("", "", None),
    ];
    for (authority, host, port) in accepted {
        let bytes = format!("GET / HTTP/1.1\r\nHost:  {authority} \r\n\r\n").into_bytes();
        let head = assert_accepted(27, &bytes);
        assert_eq!(head.authority().of(&bytes), authority.as_bytes());
        assert_eq!((head.host().of(&bytes), head.port()), (host.as_bytes(), *port));
    }
    assert_refused(27, b"GET / HTTP/1.1\r\n\r\n", Rule::MissingHost);
    assert_refused(27, b"GET http://a/ HTTP/1.1\r\n\r\n", Rule::MissingHost);
    assert_refused(27, b"GET http://a/ HTTP/1.1\r\nHost: a b\r\n\r\n", Rule::BadHost);
    assert_refused(27, b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", Rule::SeveralHosts);
    let head = assert_accepted(27, b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!((head.authority().len, head.port(), head.version()), (0, None, Version::Http10));
}

#[test]
fn request_lines_that_are_none() {
    let rows: &[(u32, &[u8], Rule)] = &[
        (33, b"GET /\r\n", Rule::BadRequestLine),
        (33, b"GET / \r\n", Rule::BadRequestLine),
        (33, b"GET\r\n", Rule::BadRequestLine),
        (33, b"GET  / HTTP/1.1\r\n", Rule::BadRequestLine),
        (33, b"GET /  HTTP/1.1\r\n", Rule::BadRequestLine),
        (33, b"GET / HTTP/1.1 \r\n", Rule::BadRequestLine),
        (33, b"GET\t/ HTTP/1.1\r\n", Rule::BadRequestLine),
        (33, b"GET / HTTP/9.9\r\n", Rule::UnsupportedVersion),
        (33, b"GET / HTTP/2.0\r\n", Rule::UnsupportedVersion),
        (33, b"GET / HTTP/1.2\r\n", Rule::UnsupportedVersion),
        (33, b"GET / HTTP/0.9\r\n", Rule::UnsupportedVersion),
        (33, b"GET / http/1.1\r\n", Rule::BadVersion),
        (33, b"GET / HTTP/1.1x\r\n", Rule::BadVersion),
        (33, b"GET / HTTP/1.10\r\n", Rule::BadVersion),
        (33, b"GET / HTTP/01.1\r\n", Rule::BadVersion),
        (33, b"GET / HTTP/1,1\r\n", Rule::BadVersion),
        (33, b"GET / HTTP/1\r\n", Rule::BadVersion),
        (33, b"GET / HTTPS/1.1\r\n", Rule::BadVersion),
        (3, b"G\0T / HTTP/1.1\r\n", Rule::NulByte),
        (
            34,
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03and then forty bytes of random or more",
            Rule::TlsOnPlainPort,
        ),
        (34, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Rule::Http2Preface),
        (48, b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\n", Rule::ProxyHeaderUnexpected),
        (48, b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", Rule::ProxyHeaderUnexpected),
        (47, &[b'A'; 100_000], Rule::MethodTooLong),
        (0, b"\x80\x2e\x01", Rule::BadMethod),
        (0, b"G{T / HTTP/1.1\r\n", Rule::BadMethod),
        (0, b"(GET) / HTTP/1.1\r\n", Rule::BadMethod),
        (0, b"\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n", Rule::BadRequestLine),
        (0, b"\nGET / HTTP/1.1\r\n", Rule::BareLf),
        (0, b"\r\rGET / HTTP/1.1\r\n", Rule::BareCr),
    ];
    for (group, bytes, rule) in rows {
        assert_refused(*group, bytes, *rule);
    }
}

/// What is not HTTP/1 must be answered before the sender waits for an answer itself.
#[test]
fn foreign_protocols_are_refused_early() {
    let rows: &[(&[u8], Rule)] = &[
        (b"\x16", Rule::TlsOnPlainPort),
        (b"PRI ", Rule::Http2Preface),
        (b"PROXY ", Rule::ProxyHeaderUnexpected),
        (b"\r\n\r\n\0", Rule::ProxyHeaderUnexpected),
        (b"\0", Rule::NulByte),
        (b"{", Rule::BadMethod),
        (&[b'A'; 33], Rule::MethodTooLong),
    ];
    for (bytes, rule) in rows {
        assert_refused(34, bytes, *rule);
        let before = parse(&bytes[..bytes.len() - 1], &HeadLimits::default());
        assert_eq!(outcome(&before), Ok(Progress::Incomplete), "{bytes:?}");
        let lenient = Lenient { bare_lf: true, obs_fold: true, unsafe_target: true, ..Lenient::default() };
        let limits = HeadLimits { lenient, ..HeadLimits::default() };
        assert_eq!(outcome(&parse(bytes, &limits)), Err(*rule), "{bytes:?}");
    }
}

#[test]
fn empty_lines_before_a_request_are_skipped() {
    for count in 0..=4 {
        let bytes = ["\r\n".repeat(count).as_bytes(), b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
        let head = assert_accepted(0, &bytes);
        assert_eq!(head.path().of(&bytes), b"/a");
    }
}

#[test]
fn limits_hold() {
    let default = HeadLimits::default();
    let target =
        |len: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(len - 1)).into_bytes();
    assert!(parse(&target(default.target_bytes_max), &default).is_ok());
    let rows: &[(u32, Vec<u8>, Rule)] = &[
        (47, target(default.target_bytes_max + 1), Rule::TargetTooLong),
        (47, target(100_000), Rule::TargetTooLong),
        (47, get(&format!("X: {}\r\n", "a".repeat(100_000))), Rule::HeadTooLarge),
        (47, get(&format!("{}: a\r\n", "a".repeat(100_000))), Rule::HeadTooLarge),
        (47, get(&"X: y\r\n".repeat(10_000)), Rule::TooManyFields),
        (47, get(&format!("Cookie: {}\r\n", "a".repeat(4_000)).repeat(250)), Rule::HeadTooLarge),
        (47, get(&"X".repeat(100_000)), Rule::HeadTooLarge),
        (47, [&get("")[..17], &vec![b' '; 100_000]].concat(), Rule::HeadTooLarge),
    ];
    for (group, bytes, rule) in rows {
        assert_refused(*group, bytes, *rule);
    }
    let exact = get(&format!("X: {}\r\n", "a".repeat(8_000)));
    let limits = HeadLimits { head_bytes_max: exact.len(), ..default };
    assert_eq!(outcome(&parse(&exact, &limits)), Ok(Progress::Complete { len: exact.len() }));
    let limits = HeadLimits { head_bytes_max: exact.len() - 1, ..default };
    assert_eq!(outcome(&parse(&exact, &limits)), Err(Rule::HeadTooLarge));
    let limits = HeadLimits { fields_max: 2, ..default };
    assert!(parse(&get("X: y\r\n"), &limits).is_ok());
    assert_eq!(outcome(&parse(&get("X: y\r\nX: y\r\n"), &limits)), Err(Rule::TooManyFields));
    // A rule broken before the limit goes first, however the bytes come.
    let broken = get(&format!("X: {}\0{}\r\n", "a".repeat(1_000), "a".repeat(100_000)));
    assert_refused(47, &broken, Rule::NulByte);
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
fn connection_strips_only_what_it_may() {
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
    assert_eq!(head.body(), RequestBody::Length(5));
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
        ("GET", "Max-Forwards: 0\r\n", None),
        ("TRACE", "Max-Forwards: -1\r\n", None),
        ("TRACE", "", None),
    ];
    for (method, lines, expected) in rows {
        let bytes = format!("{method} / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").into_bytes();
        assert_eq!(assert_accepted(48, &bytes).max_forwards(&bytes), *expected, "{method} {lines:?}");
    }
}

/// Parses with one rule relaxed and gives the normalised text.
fn normalise(bytes: &[u8], lenient: Lenient) -> Result<String, Rule> {
    assert!(parse(bytes, &HeadLimits::default()).is_err(), "strictly refused: {bytes:?}");
    let limits = HeadLimits { lenient, ..HeadLimits::default() };
    let (head, progress) = parse(bytes, &limits)?;
    assert_eq!(progress, Progress::Complete { len: bytes.len() });
    let text = head.text(bytes);
    let strict = parse(text, &HeadLimits::default()).expect("what comes out obeys every rule");
    assert_eq!(strict.0.body(), head.body());
    assert_eq!(strict.0.target().of(text), head.target().of(text));
    assert_eq!(strict.0.fields().as_slice(), head.fields().as_slice());
    Ok(String::from_utf8_lossy(text).into_owned())
}

#[test]
fn relaxed_rules_normalise() {
    let none = Lenient::default();
    let bare_lf = Lenient { bare_lf: true, ..none };
    let obs_fold = Lenient { obs_fold: true, ..none };
    let unsafe_target = Lenient { unsafe_target: true, ..none };
    let repeated = Lenient { repeated_equal_length: true, ..none };
    let padded = Lenient { padded_length: true, ..none };
    let lengths = Lenient { repeated_equal_length: true, padded_length: true, ..none };
    let rows: &[(Lenient, &str, Result<&str, Rule>)] = &[
        (bare_lf, "\nGET / HTTP/1.1\nHost: a\n\n", Ok("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")),
        (bare_lf, "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\n", Ok("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n")),
        (bare_lf, "GET / HTTP/1.1\nHost: a\rb\n\n", Err(Rule::BareCr)),
        (bare_lf, "GET / HTTP/1.1\nHost: a\nX: y\r\r\n\n", Err(Rule::BareCr)),
        (bare_lf, "GET / HTTP/1.1\nHost: a\n X: y\n\n", Err(Rule::ObsFold)),
        (
            obs_fold,
            "GET / HTTP/1.1\r\nHost: a\r\nX: 1  \r\n \t 2\r\n\t3\r\n\r\n",
            Ok("GET / HTTP/1.1\r\nHost: a\r\nX: 1 2 3\r\n\r\n"),
        ),
        (
            obs_fold,
            "GET / HTTP/1.1\r\nHost: a\r\nX:\r\n 1\r\n\r\n",
            Ok("GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\n"),
        ),
        (obs_fold, "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", Err(Rule::ObsFold)),
        (obs_fold, "GET / HTTP/1.1\r\n Host: a\r\n\r\n", Err(Rule::LeadingSpace)),
        (obs_fold, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n 0\r\n\r\n", Err(Rule::ObsFold)),
        (
            obs_fold,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
            Err(Rule::BadTransferEncoding),
        ),
        (obs_fold, "GET / HTTP/1.1\r\nHost: a\r\nConnection: x\r\n close\r\n\r\n", Err(Rule::ObsFold)),
        (obs_fold, "GET / HTTP/1.1\r\nHost: a\r\nX: y\n z\r\n\r\n", Err(Rule::BareLf)),
        (
            unsafe_target,
            "GET /a b\"<>#\u{e9}\x7f%zz%41%4 HTTP/1.1\r\nHost: a\r\n\r\n",
            Ok("GET /a%20b%22%3C%3E%23%C3%A9%7F%25zz%41%254 HTTP/1.1\r\nHost: a\r\n\r\n"),
        ),
        (unsafe_target, "GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", Err(Rule::BadRequestLine)),
        (unsafe_target, "GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n", Err(Rule::NulByte)),
        (unsafe_target, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Err(Rule::BadTarget)),
        (
            repeated,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\n",
            Ok("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:5\r\n\r\n"),
        ),
        (
            repeated,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5,5\r\n\r\n",
            Ok("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:5\r\n\r\n"),
        ),
        (
            repeated,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            Err(Rule::ConflictingLengths),
        ),
        (
            repeated,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 6\r\n\r\n",
            Err(Rule::ConflictingLengths),
        ),
        (repeated, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 05\r\n\r\n", Err(Rule::BadLength)),
        (repeated, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ,5\r\n\r\n", Err(Rule::BadLength)),
        (
            padded,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0005\r\n\r\n",
            Ok("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:5\r\n\r\n"),
        ),
        (
            padded,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 000\r\n\r\n",
            Ok("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:0\r\n\r\n"),
        ),
        (padded, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n", Err(Rule::RepeatedLength)),
        (
            lengths,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 005\r\n\r\n",
            Ok("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:5\r\n\r\n"),
        ),
        (
            lengths,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            Err(Rule::LengthWithTransferEncoding),
        ),
    ];
    for (lenient, bytes, expected) in rows {
        let found = normalise(bytes.as_bytes(), *lenient);
        assert_eq!(found, expected.map(str::to_owned), "{lenient:?}: {bytes:?}");
    }
}

#[test]
fn a_relaxed_listener_reads_clean_requests_alike() {
    let lenient = Lenient {
        bare_lf: true,
        obs_fold: true,
        unsafe_target: true,
        repeated_equal_length: true,
        padded_length: true,
    };
    let limits = HeadLimits { lenient, ..HeadLimits::default() };
    let bytes = b"POST /a?b=%20 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX: y\r\n\r\n";
    let (head, progress) = parse(bytes, &limits).unwrap();
    assert_eq!(progress, Progress::Complete { len: bytes.len() });
    assert_eq!((head.method(), head.body()), (Method::Post, RequestBody::Length(5)));
    let large = get(&format!("X: y\r\n{}", " z\r\n".repeat(10_000)));
    assert_eq!(outcome(&parse(&large, &limits)), Err(Rule::HeadTooLarge));
}

#[test]
fn a_warm_head_keeps_its_memory() {
    let limits = HeadLimits::default();
    let bytes = get(&"X: y\r\n".repeat(50));
    let mut head = RequestHead::new();
    head.parse(&bytes, &limits).unwrap();
    let place = head.fields().as_slice().as_ptr();
    for _ in 0..3 {
        head.reset();
        assert!(head.is_empty() && head.fields().is_empty());
        head.parse(&bytes, &limits).unwrap();
        assert_eq!(head.fields().len(), 51);
        assert_eq!(head.fields().as_slice().as_ptr(), place);
    }
}

//! Responses of bad and of good servers: refused by name, or delimited exactly so.
//!
//! The numbers group rows by attack and are the same in the end-to-end tests.

use weir_http::http1::{HeadProgress, ParsedResponse, keep_alive_timeout};
use weir_http::{Framing, HeadLimits, Lenient, Method, Rule, Version};

fn parse_pieces(
    bytes: &[u8],
    limits: &HeadLimits,
    step: usize,
) -> Result<(ParsedResponse, HeadProgress), Rule> {
    let mut head = ParsedResponse::new();
    for len in (0..bytes.len()).step_by(step).chain([bytes.len()]) {
        match head.parse(&bytes[..len], limits)? {
            HeadProgress::Incomplete => {}
            complete => return Ok((head, complete)),
        }
    }
    Ok((head, HeadProgress::Incomplete))
}

/// Parses `bytes` in one piece and byte by byte, and gives the outcome both agree on.
fn parse(bytes: &[u8], limits: &HeadLimits) -> Result<(ParsedResponse, HeadProgress), Rule> {
    let whole = parse_pieces(bytes, limits, bytes.len());
    let progress = |result: &Result<(ParsedResponse, HeadProgress), Rule>| {
        result.as_ref().map(|(_, progress)| *progress).map_err(|rule| *rule)
    };
    assert_eq!(progress(&whole), progress(&parse_pieces(bytes, limits, 1)));
    whole
}

fn assert_accepted(bytes: &[u8]) -> ParsedResponse {
    match parse(bytes, &HeadLimits::default()) {
        Ok((head, HeadProgress::Complete { len })) if len == bytes.len() => head,
        Ok((_, progress)) => panic!("{:?}: {progress:?}", String::from_utf8_lossy(bytes)),
        Err(rule) => panic!("{:?}: {rule:?}", String::from_utf8_lossy(bytes)),
    }
}

#[test]
fn refused_responses() {
    let rows: &[(u32, &str, Rule)] = &[
        (43, "HTTP/1.1 200 OK\nX: y\r\n\r\n", Rule::BareLf),
        (43, "HTTP/1.1 200\n\n", Rule::BareLf),
        (43, "HTTP/1.1 200 OK\r\nX: y\n\r\n", Rule::BareLf),
        (
            43,
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            Rule::LengthWithTransferEncoding,
        ),
        (
            43,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
            Rule::LengthWithTransferEncoding,
        ),
        (43, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", Rule::ConflictingLengths),
        (43, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", Rule::RepeatedLength),
        (43, "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", Rule::RepeatedLength),
        (43, "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", Rule::BadLength),
        (43, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", Rule::BadTransferEncoding),
        (43, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Rule::UnknownTransferCoding),
        (43, "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Rule::TransferEncodingInHttp10),
        (
            42,
            "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            Rule::ConflictingLengths,
        ),
        (0, "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", Rule::ObsFold),
        (0, "HTTP/1.1 200 OK\r\n X: a\r\n\r\n", Rule::LeadingSpace),
        (0, "HTTP/1.1 200 OK\r\nX: a\0\r\n\r\n", Rule::NulByte),
        (0, "HTTP/1.1 200 OK\r\nX: a\rLocation: b\r\n\r\n", Rule::BareCr),
        (0, "HTTP/1.1 200 OK\r\nX y: a\r\n\r\n", Rule::SpaceBeforeColon),
        (0, "HTTP/1.1 200 OK\r\nX : a\r\n\r\n", Rule::SpaceBeforeColon),
        (0, "HTTP/1.1 200 O\x01K\r\n\r\n", Rule::ControlByte),
        (0, "HTTP/1.1 200 O\0K\r\n\r\n", Rule::NulByte),
        (0, "HTTP/1.1 200 OK\rX", Rule::BareCr),
        (0, "HTTP/1.1 200OK\r\n\r\n", Rule::BadStatusLine),
        (0, "HTTP/1.1  200 OK\r\n\r\n", Rule::BadStatusLine),
        (0, "HTTP/1.1 20 OK\r\n\r\n", Rule::BadStatusLine),
        (0, "HTTP/1.1 2000 OK\r\n\r\n", Rule::BadStatusLine),
        (0, "HTTP/1.1 2x0 OK\r\n\r\n", Rule::BadStatusLine),
        (0, "HTTP/1.1 -20 OK\r\n\r\n", Rule::BadStatusLine),
        (0, "HTTP/1.1\t200 OK\r\n\r\n", Rule::BadStatusLine),
        (0, "HTTP/1.1\r\n\r\n", Rule::BadStatusLine),
        (0, "HTTP/1.1 099 X\r\n\r\n", Rule::BadStatus),
        (0, "HTTP/1.1 000 X\r\n\r\n", Rule::BadStatus),
        (0, "HTTP/1.1 600 X\r\n\r\n", Rule::BadStatus),
        (0, "HTTP/1.1 999 X\r\n\r\n", Rule::BadStatus),
        (0, "HTTP/2.0 200 OK\r\n\r\n", Rule::UnsupportedVersion),
        (0, "HTTP/11 200 OK\r\n\r\n", Rule::BadVersion),
        (0, "http/1.1 200 OK\r\n\r\n", Rule::BadStatusLine),
        (0, "ICY 200 OK\r\n\r\n", Rule::BadStatusLine),
        (0, "\r\nHTTP/1.1 200 OK\r\n\r\n", Rule::BadStatusLine),
        (0, "<html>", Rule::BadStatusLine),
        (0, "\x15\x03\x03", Rule::BadStatusLine),
    ];
    for (group, bytes, rule) in rows {
        let found = parse(bytes.as_bytes(), &HeadLimits::default()).map(|_| ());
        assert_eq!(found, Err(*rule), "group {group}: {bytes:?}");
    }
}

#[test]
fn limits_hold() {
    let field = |len: usize| format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "a".repeat(len)).into_bytes();
    let refused = |bytes: &[u8]| parse(bytes, &HeadLimits::default()).map(|_| ());
    assert_eq!(refused(&field(100_000)), Err(Rule::HeadTooLarge));
    assert_eq!(refused(&[b"HTTP/1.1 200 ".as_slice(), &[b'a'; 100_000]].concat()), Err(Rule::HeadTooLarge));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(101));
    assert_eq!(refused(many.as_bytes()), Err(Rule::TooManyFields));
    let exact = field(1_000);
    let limits = HeadLimits { head_bytes_max: exact.len(), ..HeadLimits::default() };
    assert!(parse(&exact, &limits).is_ok());
    let limits = HeadLimits { head_bytes_max: exact.len() - 1, ..HeadLimits::default() };
    assert_eq!(parse(&exact, &limits).map(|_| ()), Err(Rule::HeadTooLarge));
}

#[test]
fn status_lines() {
    let rows: &[(&str, Version, u16, &str)] = &[
        ("HTTP/1.1 200 OK", Version::Http11, 200, "OK"),
        ("HTTP/1.0 404 Not Found", Version::Http10, 404, "Not Found"),
        // RFC 9110 section 2.5: a minor version that is not known yet is the highest known one.
        ("HTTP/1.2 404 Not Found", Version::Http11, 404, "Not Found"),
        ("HTTP/1.1 204 ", Version::Http11, 204, ""),
        ("HTTP/1.1 100", Version::Http11, 100, ""),
        ("HTTP/1.1 599  spaced\tout ", Version::Http11, 599, " spaced\tout "),
        ("HTTP/1.1 500 caf\u{e9}", Version::Http11, 500, "caf\u{e9}"),
    ];
    for (line, version, status, reason) in rows {
        let bytes = format!("{line}\r\nServer: x\r\n\r\n").into_bytes();
        let head = assert_accepted(&bytes);
        assert_eq!((head.version(), head.status()), (*version, *status), "{line:?}");
        assert_eq!(head.reason().of(&bytes), reason.as_bytes(), "{line:?}");
        assert_eq!(head.fields().len(), 1);
    }
}

#[test]
fn bodies() {
    use Framing::{Delimited, Length, None, UntilClose};
    const LENGTH: &str = "Content-Length: 5\r\n";
    const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";
    let rows: &[(u32, Method, u16, &str, Framing)] = &[
        (0, Method::Get, 200, "", UntilClose),
        (0, Method::Get, 200, LENGTH, Length(5)),
        (0, Method::Get, 200, "Content-Length: 0\r\n", Length(0)),
        (0, Method::Get, 200, CHUNKED, Delimited),
        (0, Method::Post, 500, LENGTH, Length(5)),
        (0, Method::Other, 302, "", UntilClose),
        (42, Method::Head, 200, "", None),
        (42, Method::Head, 200, LENGTH, None),
        (42, Method::Head, 200, CHUNKED, None),
        (42, Method::Head, 404, LENGTH, None),
        (42, Method::Get, 204, LENGTH, None),
        (42, Method::Get, 204, CHUNKED, None),
        (42, Method::Get, 304, LENGTH, None),
        (42, Method::Get, 304, CHUNKED, None),
        (42, Method::Get, 100, LENGTH, None),
        (42, Method::Get, 101, "", None),
        (42, Method::Get, 103, CHUNKED, None),
        (42, Method::Get, 205, LENGTH, Length(5)),
        (0, Method::Connect, 200, LENGTH, None),
        (0, Method::Connect, 299, "", None),
        (0, Method::Connect, 407, LENGTH, Length(5)),
        (0, Method::Connect, 502, "", UntilClose),
    ];
    for (group, method, status, lines, body) in rows {
        let head = assert_accepted(format!("HTTP/1.1 {status} X\r\n{lines}\r\n").as_bytes());
        assert_eq!(head.framing(*method), *body, "group {group}: {method:?} {status} {lines:?}");
    }
    let head = assert_accepted(b"HTTP/1.1 304 X\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(head.content_length(), Some(5));
}

#[test]
fn persistence() {
    let rows: &[(&str, &str, bool)] = &[
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: Upgrade, Close\r\n", false),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: Keep-Alive\r\nConnection: close\r\n", false),
    ];
    for (version, lines, expected) in rows {
        let head = assert_accepted(format!("HTTP/{version} 200 OK\r\n{lines}\r\n").as_bytes());
        assert_eq!(head.keep_alive(), *expected, "{version} {lines:?}");
    }
}

#[test]
fn keep_alive_timeouts() {
    let rows: &[(&str, Option<u32>)] = &[
        ("", None),
        ("Keep-Alive: timeout=5\r\n", Some(5)),
        ("Keep-Alive: max=100, Timeout=60\r\n", Some(60)),
        ("Keep-Alive: timeout=0\r\n", Some(0)),
        ("Keep-Alive: timeout=60\r\nKeep-Alive: timeout=5\r\n", Some(5)),
        ("Keep-Alive: timeout=-1, timeout=, timeout=x, timeout\r\n", None),
        ("Keep-Alive: timeout=4294967296\r\n", None),
        ("Keep-Alive: timeout=99999999999999999999\r\n", None),
        ("Keep-Alive: 300\r\n", None),
        ("Keep-Alive: \u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\r\n", None),
    ];
    for (lines, expected) in rows {
        let bytes = format!("HTTP/1.1 200 OK\r\n{lines}\r\n").into_bytes();
        assert_eq!(keep_alive_timeout(assert_accepted(&bytes).fields(), &bytes), *expected, "{lines:?}");
    }
}

#[test]
fn connection_strips_only_permitted_fields() {
    let bytes =
        b"HTTP/1.1 200 OK\r\nConnection: X-Hop, Set-Cookie, Keep-Alive\r\nX-Hop: 1\r\nSet-Cookie: a=b\r\n\
        Keep-Alive: timeout=5\r\n\r\n";
    let head = assert_accepted(bytes);
    let named = |name| head.is_named_by_connection(bytes, head.fields().get_by_name(bytes, name).unwrap());
    assert_eq!([named("x-hop"), named("set-cookie"), named("keep-alive")], [true, false, true]);
}

#[test]
fn relaxed_rules_normalise() {
    let lenient =
        Lenient { bare_lf: true, obs_fold: true, repeated_equal_length: true, ..Lenient::default() };
    let limits = HeadLimits { lenient, ..HeadLimits::default() };
    let bytes = b"HTTP/1.0 200 a b c\nX: 1\n 2\nContent-Length: 5\nContent-Length: 5\n\n";
    let (head, progress) = parse(bytes, &limits).unwrap();
    assert_eq!(progress, HeadProgress::Complete { len: bytes.len() });
    assert_eq!(head.text(bytes), b"HTTP/1.0 200 a b c\r\nX: 1 2\r\nContent-Length:5\r\n\r\n");
    assert_eq!(head.framing(Method::Get), Framing::Length(5));
    assert_eq!(parse(b"<html>", &limits).map(|_| ()), Err(Rule::BadStatusLine));
}

#[test]
fn mistakes_of_servers_are_normalised_or_rejected() {
    let none = Lenient::default();
    let control = Lenient { control_bytes: true, ..none };
    let lines_and_control = Lenient { empty_lines: true, ..control };
    let empty_lines = Lenient { empty_lines: true, ..none };
    let high_status = Lenient { high_status: true, ..none };
    let rows: &[(Lenient, &str, Result<&str, Rule>)] = &[
        (
            control,
            "HTTP/1.1 200 O\x01K\x7f\r\nX: \x02a\x1bb\x7f\r\n\r\n",
            Ok("HTTP/1.1 200 OK\r\nX: ab\r\n\r\n"),
        ),
        (control, "HTTP/1.1 200 OK\r\nX: a\0b\x01\r\n\r\n", Err(Rule::NulByte)),
        (lines_and_control, "HTTP/1.1\x1c 200 OK\r\n\r\n", Err(Rule::BadStatusLine)),
        (lines_and_control, "HTTP/1.1 2\x0100 OK\r\n\r\n", Err(Rule::BadStatusLine)),
        (lines_and_control, "\r\nHTTP/1.1 200 O\x01K\r\n\r\n", Ok("HTTP/1.1 200 OK\r\n\r\n")),
        (control, "HTTP/1.1 200 OK\r\nX: \x01a\rb\r\n\r\n", Err(Rule::BareCr)),
        (control, "HTTP/1.1 200 OK\r\nX\x01: a\r\n\r\n", Err(Rule::BadFieldName)),
        (control, "HTTP/1.1 200 OK\r\nContent-Length: 5\x01\r\n\r\n", Err(Rule::ControlByte)),
        (control, "HTTP/1.1 200 OK\r\nTransfer-Encoding: \x0bchunked\r\n\r\n", Err(Rule::ControlByte)),
        (control, "HTTP/1.1 200 OK\r\nConnection: close\x01\r\n\r\n", Err(Rule::ControlByte)),
        (empty_lines, "\r\n\r\nHTTP/1.1 200 OK\r\nX: a\r\n\r\n", Ok("HTTP/1.1 200 OK\r\nX: a\r\n\r\n")),
        (empty_lines, "\r\n\r\n\r\n\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", Err(Rule::BadStatusLine)),
        (empty_lines, "\rHTTP/1.1 200 OK\r\n\r\n", Err(Rule::BadStatusLine)),
        (empty_lines, "\nHTTP/1.1 200 OK\r\n\r\n", Err(Rule::BadStatusLine)),
        (empty_lines, "\r\n<html>", Err(Rule::BadStatusLine)),
        (empty_lines, "\r\nX: y\r\nHTTP/1.1 200 OK\r\n\r\n", Err(Rule::BadStatusLine)),
        (high_status, "HTTP/1.1 999 X\r\n\r\n", Ok("HTTP/1.1 999 X\r\n\r\n")),
        (high_status, "HTTP/1.1 600 X\r\n\r\n", Ok("HTTP/1.1 600 X\r\n\r\n")),
        (high_status, "HTTP/1.1 099 X\r\n\r\n", Err(Rule::BadStatus)),
        (high_status, "HTTP/1.1 1000 X\r\n\r\n", Err(Rule::BadStatusLine)),
    ];
    for (lenient, bytes, expected) in rows {
        let bytes = bytes.as_bytes();
        assert!(parse(bytes, &HeadLimits::default()).is_err(), "strictly refused: {bytes:?}");
        let found = parse(bytes, &HeadLimits { lenient: *lenient, ..HeadLimits::default() });
        let found = found.map(|(head, progress)| {
            assert_eq!(progress, HeadProgress::Complete { len: bytes.len() });
            String::from_utf8_lossy(head.text(bytes)).into_owned()
        });
        assert_eq!(found, expected.map(str::to_owned), "{lenient:?}: {:?}", String::from_utf8_lossy(bytes));
    }
}

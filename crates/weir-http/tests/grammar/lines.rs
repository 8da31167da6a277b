//! Requests that parsers are attacked with, line by line: each is refused by name, before anything is forwarded.
//!
//! The numbers group rows by attack and are the same in the end-to-end tests.

use weir_http::http1::{HeadProgress, ParsedRequest, ParsedResponse};
use weir_http::{HeadLimits, Lenient, Rule, Version};

use crate::outcome::{assert_accepted, assert_refused, get, outcome, parse};

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
        (3, "Content-Length\0: 5\r\n", Rule::NulByte),
        (3, "Transfer-Encoding\0\0: chunked\r\n", Rule::NulByte),
        (3, "Te\0: 5 and a line long enough\r\n", Rule::NulByte),
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
        (8, "No colon\r\n", Rule::SpaceBeforeColon),
        (8, "NoColon \r\n", Rule::SpaceBeforeColon),
        (8, "Content-Length\r\n", Rule::MissingColon),
        (9, "{x}: y\r\n", Rule::BadFieldName),
        (9, "X@y: z\r\n", Rule::BadFieldName),
        (9, "X(y: z\r\n", Rule::BadFieldName),
        (9, "\"X\": z\r\n", Rule::BadFieldName),
        (9, "né: z\r\n", Rule::BadFieldName),
        (9, "Content-Length\u{a0}: 5\r\n", Rule::BadFieldName),
        (27, "Host: b\r\n", Rule::DuplicateHost),
        (27, "host: a\r\n", Rule::DuplicateHost),
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

/// RFC 9110 section 2.5: a minor version that is not known yet is the highest known one.
#[test]
fn later_minor_versions() {
    for version in ["HTTP/1.2", "HTTP/1.9"] {
        let bytes = format!("GET / {version}\r\nHost: a\r\n\r\n");
        assert_eq!(assert_accepted(33, bytes.as_bytes()).version(), Version::Http11);
        assert_refused(27, format!("GET / {version}\r\n\r\n").as_bytes(), Rule::MissingHost);
        assert_refused(33, format!("GET / {version}0\r\n").as_bytes(), Rule::BadVersion);
        assert_refused(33, format!("GET / {version} \r\n").as_bytes(), Rule::BadRequestLine);
        assert_refused(1, format!("GET / {version}\n").as_bytes(), Rule::BareLf);
    }
}

/// Bytes that are not HTTP/1 must be answered before the sender waits for an answer itself.
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
        assert_eq!(outcome(&before), Ok(HeadProgress::Incomplete), "{bytes:?}");
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
        (47, [&get("")[..17], b":", &vec![b' '; 100_000]].concat(), Rule::HeadTooLarge),
    ];
    for (group, bytes, rule) in rows {
        assert_refused(*group, bytes, *rule);
    }
    let exact = get(&format!("X: {}\r\n", "a".repeat(8_000)));
    let limits = HeadLimits { head_bytes_max: exact.len(), ..default };
    assert_eq!(outcome(&parse(&exact, &limits)), Ok(HeadProgress::Complete { len: exact.len() }));
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
fn a_warm_head_keeps_its_memory() {
    let limits = HeadLimits::default();
    let bytes = get(&"X: y\r\n".repeat(50));
    let mut head = ParsedRequest::new();
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

#[test]
fn a_reset_head_knows_nothing_of_the_last() {
    let limits = HeadLimits::default();
    let mut head = ParsedRequest::new();
    head.parse(b"HEAD /a HTTP/1.0\r\nHost: a\r\n\r\n", &limits).unwrap();
    head.reset();
    assert_eq!(format!("{head:?}"), format!("{:?}", ParsedRequest::new()));

    let mut head = ParsedResponse::new();
    head.parse(b"HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n", &limits).unwrap();
    head.reset();
    assert_eq!(format!("{head:?}"), format!("{:?}", ParsedResponse::new()));
}

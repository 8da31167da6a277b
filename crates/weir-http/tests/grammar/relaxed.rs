//! Rules relaxed for legacy peers: the input breaks one, the output obeys all.

use weir_http::http1::HeadProgress;
use weir_http::{Framing, HeadLimits, Lenient, Method, Rule};

use crate::outcome::{get, outcome, parse};

/// Parses with one rule relaxed and gives the normalised text.
fn normalise(bytes: &[u8], lenient: Lenient) -> Result<String, Rule> {
    assert!(parse(bytes, &HeadLimits::default()).is_err(), "strictly refused: {bytes:?}");
    let limits = HeadLimits { lenient, ..HeadLimits::default() };
    let (head, progress) = parse(bytes, &limits)?;
    assert_eq!(progress, HeadProgress::Complete { len: bytes.len() });
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
    let target_fragment = Lenient { target_fragment: true, ..none };
    let repeated = Lenient { repeated_equal_length: true, ..none };
    let padded = Lenient { padded_length: true, ..none };
    let unencoded = Lenient { unencoded_target: true, ..none };
    let chunked = Lenient { repeated_chunked: true, ..none };
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
        (
            target_fragment,
            "GET /a?b#c HTTP/1.1\r\nHost: a\r\n\r\n",
            Ok("GET /a?b HTTP/1.1\r\nHost: a\r\n\r\n"),
        ),
        (target_fragment, "GET #c HTTP/1.1\r\nHost: a\r\n\r\n", Err(Rule::BadTarget)),
        (target_fragment, "GET http://a#/c HTTP/1.1\r\nHost: a\r\n\r\n", Err(Rule::BadTarget)),
        (target_fragment, "GET /a\"#c HTTP/1.1\r\nHost: a\r\n\r\n", Err(Rule::BadTarget)),
        (
            unencoded,
            "GET /a\"<>\\^`{|}\u{e9}?\"<>\\^`{|}\u{e9}[]% HTTP/1.1\r\nHost: a\r\n\r\n",
            Ok(
                "GET /a%22%3C%3E%5C%5E%60%7B%7C%7D%C3%A9?%22%3C%3E%5C%5E%60%7B%7C%7D%C3%A9[]% HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
        ),
        (
            unencoded,
            "GET http://a/{x} HTTP/1.1\r\nHost: a\r\n\r\n",
            Ok("GET http://a/%7Bx%7D HTTP/1.1\r\nHost: a\r\n\r\n"),
        ),
        (
            unencoded,
            "GET http://a?{x} HTTP/1.1\r\nHost: a\r\n\r\n",
            Ok("GET http://a?%7Bx%7D HTTP/1.1\r\nHost: a\r\n\r\n"),
        ),
        (unencoded, "GET http://a|b/ HTTP/1.1\r\nHost: a\r\n\r\n", Err(Rule::BadTarget)),
        (unencoded, "CONNECT a|b:443 HTTP/1.1\r\nHost: a\r\n\r\n", Err(Rule::BadTarget)),
        (unencoded, "GET /a\"b c HTTP/1.1\r\nHost: a\r\n\r\n", Err(Rule::BadRequestLine)),
        (unencoded, "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", Err(Rule::BadRequestLine)),
        (unencoded, "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", Err(Rule::BadTarget)),
        (unencoded, "GET /a\x7fb HTTP/1.1\r\nHost: a\r\n\r\n", Err(Rule::BadTarget)),
        (unencoded, "GET /a\"\x01b HTTP/1.1\r\nHost: a\r\n\r\n", Err(Rule::BadTarget)),
        (unencoded, "GET /\"%zz HTTP/1.1\r\nHost: a\r\n\r\n", Err(Rule::BadTarget)),
        (
            chunked,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: Chunked\r\n\r\n",
            Ok("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:chunked\r\n\r\n"),
        ),
        (
            chunked,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
            Ok("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:chunked\r\n\r\n"),
        ),
        (
            chunked,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n\r\n",
            Err(Rule::BadTransferEncoding),
        ),
        (
            chunked,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\nContent-Length: 5\r\n\r\n",
            Err(Rule::LengthWithTransferEncoding),
        ),
        (
            chunked,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n",
            Err(Rule::BadTransferEncoding),
        ),
        (unsafe_target, "GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", Err(Rule::BadRequestLine)),
        (unsafe_target, "GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n", Err(Rule::NulByte)),
        (unsafe_target, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Err(Rule::BadRequestLine)),
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
            Lenient { obs_fold: true, ..lengths },
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX: y\r\nContent-Length: 5\r\n 6\r\n\r\n",
            Err(Rule::ObsFold),
        ),
        (
            Lenient { obs_fold: true, ..lengths },
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX: y\r\n z\r\nContent-Length: 05\r\n\r\n",
            Ok("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:5\r\nX: y z\r\n\r\n"),
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
        unencoded_target: true,
        repeated_chunked: true,
        ..Lenient::default()
    };
    let limits = HeadLimits { lenient, ..HeadLimits::default() };
    let bytes = b"POST /a?b=%20 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX: y\r\n\r\n";
    let (head, progress) = parse(bytes, &limits).unwrap();
    assert_eq!(progress, HeadProgress::Complete { len: bytes.len() });
    assert_eq!((head.method(), head.body()), (Method::Post, Framing::Length(5)));
    let large = get(&format!("X: y\r\n{}", " z\r\n".repeat(10_000)));
    assert_eq!(outcome(&parse(&large, &limits)), Err(Rule::HeadTooLarge));
}

//! Heads and trailers as lists of fields: which are read, with which meaning, and the rule that each malformed one breaks.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;

use super::*;
use crate::h2::HpackDecoder;
use crate::h2::hpack::HpackEncoder;
use crate::message::field_writer::{FieldRun, FieldWriter};
use crate::message::fields::Fields;
use crate::message::framing::Framing;
use crate::message::limits::{ChunkedLimits, HeadLimits};
use crate::message::method::Method;
use crate::message::request::{Expectation, RequestHead};
use crate::message::response::ResponseHead;
use crate::message::rule::Rule;
use crate::message::target::TargetForm;
use crate::multiplexed::head::pseudo_fields::RequestPseudoFields;

/// A name and a value.
type Line<'a> = (&'a str, &'a str);

const GET: [Line<'_>; 4] =
    [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a.test")];

/// The lines as literals that no table keeps.
fn block(lines: &[Line<'_>]) -> Vec<u8> {
    let lines: Vec<_> = lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    block_of_bytes(&lines)
}

fn block_of_bytes(lines: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in lines {
        block.push(0);
        for string in [name, value] {
            write_length(&mut block, string.len());
            block.extend_from_slice(string);
        }
    }
    block
}

/// The length of a string that is not Huffman-coded (RFC 7541 section 5.2).
fn write_length(block: &mut Vec<u8>, len: usize) {
    let Some(mut rest) = len.checked_sub(0x7f) else { return block.push(len as u8) };
    block.push(0x7f);
    while rest >= 0x80 {
        block.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    block.push(rest as u8);
}

/// A request that was read, with its text.
#[derive(Debug)]
struct Read {
    head: RequestHead,
    text: Vec<u8>,
}

impl Read {
    fn fields(&self) -> Vec<(String, String)> {
        fields(self.head.fields(), &self.text)
    }
}

/// Names and values. Their lines are neighbours in the text, so that they can be copied as one.
fn fields(fields: &Fields, text: &[u8]) -> Vec<(String, String)> {
    for pair in fields.as_slice().windows(2) {
        assert_eq!(pair[0].value.end() + 2, pair[1].name.start as usize, "{}", String::from_utf8_lossy(text));
    }
    let string = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    fields.iter().map(|field| (string(field.name.of(text)), string(field.value.of(text)))).collect()
}

fn read_with(block: &[u8], limits: &HeadLimits, ends_stream: bool) -> Result<Read, BlockError> {
    let (mut head, mut text) = (RequestHead::new(), Vec::new());
    read_request(&mut HpackDecoder::new(), block, &mut head, &mut text, limits, ends_stream)?;
    Ok(Read { head, text })
}

fn read(lines: &[Line<'_>]) -> Result<Read, BlockError> {
    read_with(&block(lines), &HeadLimits::default(), false)
}

fn rule<T>(outcome: Result<T, BlockError>) -> Option<Rule> {
    outcome.err().map(|error| match error {
        BlockError::Malformed(rule) => rule,
        error => panic!("{error:?}"),
    })
}

#[test]
fn requests_that_are_malformed_by_a_field() {
    let rows: &[(&[Line<'_>], Rule)] = &[
        (&[("Host", "a.test")], Rule::UpperCaseFieldName),
        (&[("x-Foo", "1")], Rule::UpperCaseFieldName),
        (&[("", "1")], Rule::EmptyFieldName),
        (&[("x y", "1")], Rule::BadFieldName),
        (&[("x:", "1")], Rule::BadFieldName),
        (&[("x\r\ny", "1")], Rule::BadFieldName),
        (&[("x\u{e9}", "1")], Rule::BadFieldName),
        (&[("x", "1\r\nhost: b")], Rule::BareCr),
        (&[("x", "1\nhost: b")], Rule::BareLf),
        (&[("x", "\0")], Rule::NulByte),
        (&[("x", "a\u{1b}")], Rule::ControlByte),
        (&[("x", " a")], Rule::EdgeSpace),
        (&[("x", "a ")], Rule::EdgeSpace),
        (&[("x", "\ta")], Rule::EdgeSpace),
        (&[("x", "\t")], Rule::EdgeSpace),
        (&[("connection", "x")], Rule::ConnectionField),
        (&[("connection", "close")], Rule::ConnectionField),
        (&[("proxy-connection", "keep-alive")], Rule::ConnectionField),
        (&[("keep-alive", "timeout=5")], Rule::ConnectionField),
        (&[("transfer-encoding", "chunked")], Rule::ConnectionField),
        (&[("upgrade", "websocket")], Rule::ConnectionField),
        (&[("te", "gzip")], Rule::BadTe),
        (&[("te", "trailers, gzip")], Rule::BadTe),
        (&[("te", "")], Rule::BadTe),
        (&[("x", "1"), (":path", "/")], Rule::LatePseudoField),
        (&[("x", "1"), (":status", "200")], Rule::LatePseudoField),
        (&[("x", "1"), (":foo", "1")], Rule::UnknownPseudoField),
        (&[(":foo", "1")], Rule::UnknownPseudoField),
        (&[(":Method", "GET")], Rule::UnknownPseudoField),
        (&[(":host", "a.test")], Rule::UnknownPseudoField),
        (&[(":", "1")], Rule::UnknownPseudoField),
        (&[(":status", "200")], Rule::UnexpectedPseudoField),
        (&[(":method", "GET")], Rule::DuplicatePseudoField),
        (&[(":scheme", "https")], Rule::DuplicatePseudoField),
        (&[(":path", "/")], Rule::DuplicatePseudoField),
        (&[(":authority", "a.test")], Rule::DuplicatePseudoField),
        (&[(":protocol", "websocket"), (":protocol", "websocket")], Rule::DuplicatePseudoField),
        (&[(":protocol", "websocket")], Rule::UnexpectedPseudoField),
        (&[(":protocol", "a b")], Rule::BadProtocol),
        (&[(":protocol", "")], Rule::BadProtocol),
        (&[("host", "b.test")], Rule::HostDiffers),
        (&[("host", "a.test:443")], Rule::HostDiffers),
        (&[("host", "")], Rule::HostDiffers),
        (&[("host", "a.test"), ("host", "a.test")], Rule::DuplicateHost),
        (&[("content-length", "1x")], Rule::BadLength),
        (&[("content-length", "")], Rule::BadLength),
        (&[("content-length", "-1")], Rule::BadLength),
        (&[("content-length", "05")], Rule::BadLength),
        (&[("content-length", "5"), ("content-length", "6")], Rule::ConflictingLengths),
        (&[("content-length", "5"), ("content-length", "5")], Rule::RepeatedLength),
        (&[("content-length", "5, 5")], Rule::RepeatedLength),
    ];
    assert_eq!(rule(read(&GET)), None);
    for (lines, expected) in rows {
        let lines = [&GET[..], lines].concat();
        assert_eq!(rule(read(&lines)), Some(*expected), "{lines:?}");
    }
    // Bytes that are no text.
    for (name, value, expected) in
        [(&b"x\xff"[..], &b"1"[..], Rule::BadFieldName), (b"x", b"\xff\x7f", Rule::ControlByte)]
    {
        let bytes = [block(&GET), block_of_bytes(&[(name, value)])].concat();
        assert_eq!(rule(read_with(&bytes, &HeadLimits::default(), false)), Some(expected));
    }
}

/// `GET` with other pseudo-fields: those that are given replace its own, and go when they are `None`.
fn requests_with(changes: &[(&'static str, Option<&'static str>)]) -> Vec<Line<'static>> {
    let mut lines = GET.to_vec();
    for (name, value) in changes {
        lines.retain(|(known, _)| known != name);
        lines.extend(value.map(|value| (*name, value)));
    }
    lines
}

#[test]
fn requests_that_are_malformed_by_a_pseudo_field() {
    type Change = (&'static str, Option<&'static str>);
    let rows: &[(&[Change], Rule)] = &[
        (&[(":method", None)], Rule::MissingPseudoField),
        (&[(":scheme", None)], Rule::MissingPseudoField),
        (&[(":path", None)], Rule::MissingPseudoField),
        (&[(":authority", None)], Rule::MissingHost),
        (&[(":authority", None), ("host", Some(""))], Rule::EmptyHost),
        (&[(":authority", None), ("host", Some("a/b"))], Rule::BadHost),
        (&[(":method", Some(""))], Rule::BadMethod),
        (&[(":method", Some("GET /"))], Rule::BadMethod),
        (&[(":method", Some("G\r\n"))], Rule::BareCr),
        (&[(":method", Some("GETGETGETGETGETGETGETGETGETGETGETGET"))], Rule::MethodTooLong),
        (&[(":scheme", Some(""))], Rule::BadScheme),
        (&[(":scheme", Some("ftp"))], Rule::BadScheme),
        (&[(":scheme", Some("https://a.test"))], Rule::BadScheme),
        (&[(":path", Some(""))], Rule::BadTarget),
        (&[(":path", Some("a"))], Rule::BadTarget),
        (&[(":path", Some("?a"))], Rule::BadTarget),
        (&[(":path", Some("*"))], Rule::BadTarget),
        (&[(":path", Some("https://a.test/"))], Rule::BadTarget),
        (&[(":path", Some("a.test:443"))], Rule::BadTarget),
        (&[(":path", Some("/a b"))], Rule::BadTarget),
        (&[(":path", Some("/a HTTP/1.1"))], Rule::BadTarget),
        (&[(":path", Some("/#a"))], Rule::BadTarget),
        (&[(":path", Some("/%zz"))], Rule::BadTarget),
        (&[(":path", Some("/%"))], Rule::BadTarget),
        (&[(":path", Some("/\u{e9}"))], Rule::BadTarget),
        (&[(":path", Some("/\r\nx: y"))], Rule::BareCr),
        (&[(":path", Some(" /"))], Rule::EdgeSpace),
        (&[(":authority", Some(""))], Rule::EmptyHost),
        (&[(":authority", Some("u@a.test"))], Rule::BadHost),
        (&[(":authority", Some("u:p@a.test:80"))], Rule::BadHost),
        (&[(":authority", Some("a.test:x"))], Rule::BadHost),
        (&[(":authority", Some("a.test:65536"))], Rule::BadHost),
        (&[(":authority", Some("a.test/"))], Rule::BadHost),
        (&[(":authority", Some("a.test, b.test"))], Rule::BadHost),
        (&[(":authority", Some(":80"))], Rule::BadHost),
        (&[(":authority", Some("[::1"))], Rule::BadHost),
        (&[(":authority", Some("a\0b"))], Rule::NulByte),
        // OPTIONS alone may have no path.
        (&[(":method", Some("options")), (":path", Some("*"))], Rule::BadTarget),
        (&[(":method", Some("OPTIONS")), (":path", Some("*a"))], Rule::BadTarget),
        (&[(":method", Some("OPTIONS")), (":path", Some(""))], Rule::BadTarget),
        // CONNECT (RFC 9113 section 8.5).
        (&[(":method", Some("CONNECT"))], Rule::UnexpectedPseudoField),
        (&[(":method", Some("CONNECT")), (":path", None)], Rule::UnexpectedPseudoField),
        (&[(":method", Some("CONNECT")), (":scheme", None)], Rule::UnexpectedPseudoField),
        (
            &[(":method", Some("CONNECT")), (":scheme", None), (":path", None), (":authority", None)],
            Rule::MissingPseudoField,
        ),
        (
            &[
                (":method", Some("CONNECT")),
                (":scheme", None),
                (":path", None),
                (":authority", None),
                ("host", Some("a.test:443")),
            ],
            Rule::MissingPseudoField,
        ),
        // It must name the port.
        (&[(":method", Some("CONNECT")), (":scheme", None), (":path", None)], Rule::BadTarget),
        (
            &[
                (":method", Some("CONNECT")),
                (":scheme", None),
                (":path", None),
                (":authority", Some("u@a:1")),
            ],
            Rule::BadHost,
        ),
        // CONNECT of a protocol (RFC 8441 section 4).
        (&[(":protocol", Some("websocket"))], Rule::UnexpectedPseudoField),
        (
            &[(":method", Some("CONNECT")), (":protocol", Some("websocket")), (":scheme", None)],
            Rule::MissingPseudoField,
        ),
        (
            &[(":method", Some("CONNECT")), (":protocol", Some("websocket")), (":path", None)],
            Rule::MissingPseudoField,
        ),
        (
            &[(":method", Some("CONNECT")), (":protocol", Some("websocket")), (":authority", None)],
            Rule::MissingPseudoField,
        ),
        (
            &[(":method", Some("CONNECT")), (":protocol", Some("websocket")), (":path", Some("*"))],
            Rule::BadTarget,
        ),
    ];
    for (changes, expected) in rows {
        // A Host that is given comes last, as it must.
        let lines = requests_with(changes);
        assert_eq!(rule(read(&lines)), Some(*expected), "{lines:?}");
    }
}

#[test]
fn a_request_has_the_meaning_of_one_of_http1() {
    let read = read(&[
        (":authority", "A.test:8080"),
        (":path", "/a//b/../c?d=%"),
        (":scheme", "HTTPS"),
        (":method", "POST"),
        ("x-a", "1"),
        ("host", "a.TEST:8080"),
        ("expect", "100-continue"),
        ("x-a", "\u{e9}"),
        ("content-length", "5"),
        ("te", "trailers"),
        ("x_b", ""),
    ])
    .unwrap();
    let (head, text) = (&read.head, &read.text[..]);
    assert_eq!((head.method(), head.method_span().of(text)), (Method::Post, &b"POST"[..]));
    assert_eq!((head.target_form(), head.target().of(text)), (TargetForm::Origin, &b"/a//b/../c?d=%"[..]));
    assert_eq!((head.path().of(text), head.query().unwrap().of(text)), (&b"/a//b/../c"[..], &b"d=%"[..]));
    assert_eq!((head.normal_path(text), head.is_path_normal()), (&b"/a/c"[..], false));
    assert_eq!((head.scheme().of(text), head.protocol()), (&b"HTTPS"[..], None));
    let host = (head.authority().of(text), head.host().of(text), head.port());
    assert_eq!(host, (&b"A.test:8080"[..], &b"A.test"[..], Some(8080)));
    assert_eq!((head.body(), head.expectation()), (Framing::Length(5), Expectation::Continue));
    assert!(head.expects_continue() && head.upgrade().is_none());
    // The authority is the Host, and comes last.
    let expected = [
        ("x-a", "1"),
        ("expect", "100-continue"),
        ("x-a", "\u{e9}"),
        ("content-length", "5"),
        ("te", "trailers"),
        ("x_b", ""),
        ("host", "A.test:8080"),
    ];
    assert_eq!(read.fields(), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert!(text.ends_with(b"\r\nx_b: \r\nhost: A.test:8080\r\n\r\n"));
}

#[test]
fn an_authority_replaces_a_host_that_is_copied() {
    let read = read(&GET).unwrap();
    let pseudo = RequestPseudoFields {
        method: b"GET",
        scheme: b"https",
        authority: b"b.test",
        path: b"/",
        protocol: None,
    };
    let (mut encoder, mut block) = (HpackEncoder::default(), Vec::new());
    let mut writer = HeadWriter::request(&mut encoder, &mut block, &pseudo);
    let fields = read.head.fields().as_slice();
    writer.copy(FieldRun { text: &read.text, fields, end: read.text.len() - 2 });
    let copy = read_with(&block, &HeadLimits::default(), true).unwrap();
    assert_eq!(copy.fields(), [("host".to_owned(), "b.test".to_owned())]);
}

#[test]
fn targets_without_a_path() {
    let options = requests_with(&[(":method", Some("OPTIONS")), (":path", Some("*"))]);
    let read_options = read(&options).unwrap();
    assert_eq!(read_options.head.target_form(), TargetForm::Asterisk);

    let connect = [(":method", "CONNECT"), (":authority", "a.test:443")];
    let Read { head, text } = read(&connect).unwrap();
    assert_eq!((head.target_form(), head.target().of(&text)), (TargetForm::Authority, &b"a.test:443"[..]));
    assert_eq!((head.host().of(&text), head.port()), (&b"a.test"[..], Some(443)));
    assert_eq!((head.scheme().of(&text), head.protocol()), (&b""[..], None));

    let websocket = [&GET[1..], &[(":method", "CONNECT"), (":protocol", "websocket")]].concat();
    let Read { head, text } = read(&websocket).unwrap();
    assert_eq!(
        (head.method(), head.target_form(), head.path().of(&text)),
        (Method::Get, TargetForm::Origin, &b"/"[..]),
        "in HTTP/1 it is a GET with an upgrade"
    );
    assert_eq!((head.method_span().of(&text), head.body()), (&b"GET"[..], Framing::None));
    assert_eq!(head.upgrade(), head.protocol());
    assert_eq!(head.protocol().map(|protocol| protocol.of(&text)), Some(&b"websocket"[..]));
    assert_eq!(head.host().of(&text), b"a.test");

    // A Host alone says what an authority would.
    let Read { head, text } = read(&[&GET[..3], &[("host", "b.test:1")]].concat()).unwrap();
    assert_eq!((head.host().of(&text), head.port()), (&b"b.test"[..], Some(1)));
}

#[test]
fn bodies_of_requests() {
    let with = |lines: &[Line<'static>], ends_stream| {
        read_with(&block(&[&GET[..], lines].concat()), &HeadLimits::default(), ends_stream)
    };
    let body = |lines: &[Line<'static>], ends_stream| with(lines, ends_stream).map(|read| read.head.body());
    assert_eq!(body(&[], true), Ok(Framing::None));
    assert_eq!(body(&[], false), Ok(Framing::Delimited));
    assert_eq!(body(&[("content-length", "0")], true), Ok(Framing::Length(0)));
    assert_eq!(body(&[("content-length", "0")], false), Ok(Framing::Length(0)));
    assert_eq!(body(&[("content-length", "5")], false), Ok(Framing::Length(5)));
    assert_eq!(body(&[("content-length", "5")], true), Err(BlockError::Malformed(Rule::LengthDiffers)));
}

#[test]
fn cookies_become_one_field() {
    let rows: &[(&[Line<'_>], &[Line<'_>])] = &[
        (&[("cookie", "a=1")], &[("cookie", "a=1")]),
        (&[("cookie", "a=1"), ("cookie", "b=2"), ("cookie", "c=3")], &[("cookie", "a=1; b=2; c=3")]),
        (&[("cookie", ""), ("cookie", "b=2")], &[("cookie", "b=2")]),
        (&[("cookie", "a=1"), ("cookie", "")], &[("cookie", "a=1")]),
        (&[("cookie", ""), ("cookie", "")], &[("cookie", "")]),
        (
            &[("x", "1"), ("cookie", "a=1"), ("y", "2"), ("cookie", "b=2"), ("cookie", "c=3"), ("z", "3")],
            &[("x", "1"), ("cookie", "a=1; b=2; c=3"), ("y", "2"), ("z", "3")],
        ),
        (&[("cookie", ""), ("y", "2"), ("cookie", "b=2")], &[("cookie", "b=2"), ("y", "2")]),
        // The Host between them is the authority again, and no field.
        (&[("cookie", "a=1"), ("host", "a.test"), ("cookie", "b=2")], &[("cookie", "a=1; b=2")]),
    ];
    for (lines, expected) in rows {
        let read = read(&[&GET[..], lines].concat()).unwrap();
        let expected = [expected, &[("host", "a.test")][..]].concat();
        let expected: Vec<_> =
            expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(read.fields(), expected);
        assert_eq!(
            (read.head.host().of(&read.text), read.head.path().of(&read.text)),
            (&b"a.test"[..], &b"/"[..])
        );
    }
}

#[test]
fn limits_of_heads() {
    let limits = HeadLimits::default();
    let fields = |count: usize, field: Line<'static>| block(&[&GET[..], &vec![field; count]].concat());
    let outcome = |block: &[u8]| read_with(block, &limits, true).map(|read| read.head.fields().len());
    let malformed = |rule| Err(BlockError::Malformed(rule));
    // A hundred fields, and the Host that the authority becomes.
    assert_eq!(outcome(&fields(100, ("x", "1"))), Ok(101));
    assert_eq!(outcome(&fields(101, ("x", "1"))), malformed(Rule::TooManyFields));
    assert_eq!(outcome(&fields(400, ("x", "1"))), malformed(Rule::TooManyFields));
    assert_eq!(outcome(&fields(401, ("x", "1"))), Err(BlockError::TooLarge), "it is given up");
    // Each part of a cookie is one of them.
    assert_eq!(outcome(&fields(100, ("cookie", "a=1"))), Ok(2));
    assert_eq!(outcome(&fields(101, ("cookie", "a=1"))), malformed(Rule::TooManyFields));
    // 32 KiB, of which each line takes 32 bytes besides its own.
    let counted: usize = GET.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
    let left = 32 * 1024 - counted;
    let large = |len: usize| block(&[&GET[..], &[("x", &"1".repeat(len - 33))]].concat());
    assert_eq!(outcome(&large(left)), Ok(2));
    assert_eq!(outcome(&large(left + 1)), malformed(Rule::HeadTooLarge));
    assert_eq!(outcome(&large(4 * 32 * 1024)), Err(BlockError::TooLarge));
    // An index of one byte that stands for much: the bomb goes off for its sender.
    let bomb = [&[0x40, 1, b'x', 0x7f, 0x80, 0x1e][..], &[b'1'; 3_967], &[0xbe; 1_000]].concat();
    assert_eq!(outcome(&bomb), Err(BlockError::TooLarge));
    let path = |len: usize| {
        block(&[&GET[..2], &GET[3..], &[(":path", &format!("/{}", "a".repeat(len - 1)))]].concat())
    };
    assert_eq!(outcome(&path(8 * 1024)), Ok(1));
    assert_eq!(outcome(&path(8 * 1024 + 1)), malformed(Rule::TargetTooLong));
}

#[test]
fn the_table_is_in_step_behind_a_malformed_head() {
    // `X: 1` is malformed, and `y: 2` behind it is in the table all the same.
    let first = [&block(&GET)[..], b"\x40\x01X\x011\x40\x01y\x012"].concat();
    let mut decoder = HpackDecoder::new();
    let (mut head, mut text) = (RequestHead::new(), Vec::new());
    let limits = HeadLimits::default();
    let outcome = read_request(&mut decoder, &first, &mut head, &mut text, &limits, true);
    assert_eq!(outcome, Err(BlockError::Malformed(Rule::UpperCaseFieldName)));
    head.reset();
    let second = [&block(&GET)[..], b"\xbe"].concat();
    read_request(&mut decoder, &second, &mut head, &mut text, &limits, true).unwrap();
    assert_eq!(fields(head.fields(), &text)[0], ("y".to_owned(), "2".to_owned()));
    head.reset();
    let third = [&block(&GET)[..], b"\xbf"].concat();
    let outcome = read_request(&mut decoder, &third, &mut head, &mut text, &limits, true);
    assert_eq!(outcome, Err(BlockError::Malformed(Rule::UpperCaseFieldName)), "it is still there");
    // A block of which nothing is wanted counts as well.
    skip_block(&mut decoder, b"\x40\x01z\x013", &mut text, &limits).unwrap();
    assert!(text.is_empty());
    head.reset();
    read_request(&mut decoder, &second, &mut head, &mut text, &limits, true).unwrap();
    assert_eq!(fields(head.fields(), &text)[0], ("z".to_owned(), "3".to_owned()));
    assert!(skip_block(&mut decoder, b"\x80", &mut text, &limits).unwrap_err().is_of_connection());
}

fn read_status(lines: &[Line<'_>], ends_stream: bool) -> Result<(ResponseHead, Vec<u8>), BlockError> {
    let (mut head, mut text) = (ResponseHead::new(), Vec::new());
    let limits = HeadLimits::default();
    read_response(&mut HpackDecoder::new(), &block(lines), &mut head, &mut text, &limits, ends_stream)?;
    Ok((head, text))
}

#[test]
fn responses_that_are_malformed() {
    let rows: &[(&[Line<'_>], bool, Rule)] = &[
        (&[], false, Rule::MissingPseudoField),
        (&[("x", "1")], true, Rule::MissingPseudoField),
        (&[(":status", "")], true, Rule::BadStatus),
        (&[(":status", "20")], true, Rule::BadStatus),
        (&[(":status", "0200")], true, Rule::BadStatus),
        (&[(":status", "099")], true, Rule::BadStatus),
        (&[(":status", "2xx")], true, Rule::BadStatus),
        (&[(":status", "600")], true, Rule::BadStatus),
        (&[(":status", "200 OK")], true, Rule::BadStatus),
        (&[(":status", "101")], false, Rule::SwitchingProtocols),
        (&[(":status", "100")], true, Rule::InterimEndsStream),
        (&[(":status", "103")], true, Rule::InterimEndsStream),
        (&[(":status", "200"), (":status", "200")], true, Rule::DuplicatePseudoField),
        (&[("x", "1"), (":status", "200")], true, Rule::LatePseudoField),
        (&[(":status", "200"), ("x", "1"), (":status", "200")], true, Rule::LatePseudoField),
        (&[(":status", "200"), (":path", "/")], true, Rule::UnexpectedPseudoField),
        (&[(":status", "200"), (":foo", "1")], true, Rule::UnknownPseudoField),
        (&[(":status", "200"), ("Server", "1")], true, Rule::UpperCaseFieldName),
        (&[(":status", "200"), ("connection", "close")], true, Rule::ConnectionField),
        (&[(":status", "200"), ("transfer-encoding", "chunked")], true, Rule::ConnectionField),
        (&[(":status", "200"), ("x", "a\r\n\r\nb")], true, Rule::BareCr),
        (&[(":status", "200"), ("content-length", "5, 6")], false, Rule::ConflictingLengths),
        (&[(":status", "200"), ("content-length", "x")], false, Rule::BadLength),
    ];
    for (lines, ends_stream, expected) in rows {
        assert_eq!(rule(read_status(lines, *ends_stream)), Some(*expected), "{lines:?}");
    }
}

#[test]
fn responses() {
    let (head, text) = read_status(
        &[(":status", "404"), ("content-length", "5"), ("set-cookie", "a"), ("set-cookie", "b")],
        false,
    )
    .unwrap();
    assert_eq!((head.status(), head.reason().of(&text)), (404, &b""[..]));
    assert_eq!(head.fields().len(), 3, "Set-Cookie is no Cookie");
    assert!(text.ends_with(b"\r\nset-cookie: a\r\nset-cookie: b\r\n\r\n"));
    assert_eq!(read_status(&[(":status", "103")], false).unwrap().0.status(), 103);
    assert_eq!(read_status(&[(":status", "599")], true).unwrap().0.status(), 599);
    let limits = HeadLimits::default();
    let lenient = crate::message::limits::Lenient { high_status: true, ..limits.lenient };
    let limits = HeadLimits { lenient, ..limits };
    let mut head = ResponseHead::new();
    let block = block(&[(":status", "999")]);
    read_response(&mut HpackDecoder::new(), &block, &mut head, &mut Vec::new(), &limits, true).unwrap();
    assert_eq!(head.status(), 999);
}

#[test]
fn trailers() {
    let read = |block: &[u8], limits: &ChunkedLimits| {
        let (mut trailers, mut text) = (Fields::default(), Vec::new());
        read_trailers(&mut HpackDecoder::new(), block, &mut trailers, &mut text, limits)?;
        Ok::<_, BlockError>(fields(&trailers, &text))
    };
    let limits = ChunkedLimits::default();
    let lines = [
        ("grpc-status", "0"),
        ("content-length", "5"),
        ("authorization", "x"),
        ("etag", "\"1\""),
        ("host", "b"),
    ];
    let expected =
        [("grpc-status", "0"), ("etag", "\"1\"")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(read(&block(&lines), &limits), Ok(expected.to_vec()));
    assert_eq!(read(b"", &limits), Ok(vec![]));
    let bad: &[Line<'_>] = &[
        (":status", "200"),
        (":path", "/"),
        (":foo", ""),
        ("X", "1"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("x", "a\n"),
        ("x", " "),
    ];
    for line in bad {
        let outcome = read(&block(&[("a", "1"), *line]), &limits);
        assert_eq!(outcome, Err(BlockError::Malformed(Rule::BadTrailer)), "{line:?}");
    }
    let too_large = Err(BlockError::Malformed(Rule::TrailersTooLarge));
    assert_eq!(read(&block(&[("x", "1"); 32]), &limits).map(|fields| fields.len()), Ok(32));
    assert_eq!(read(&block(&[("x", "1"); 33]), &limits), too_large);
    assert_eq!(read(&block(&[("host", "1"); 33]), &limits), too_large, "those that are left out count");
    assert_eq!(read(&block(&[("x", &"1".repeat(8 * 1024 - 33))]), &limits).map(|fields| fields.len()), Ok(1));
    assert_eq!(read(&block(&[("x", &"1".repeat(8 * 1024 - 32))]), &limits), too_large);
    assert_eq!(read(&block(&[("x", "1"); 129]), &limits), Err(BlockError::TooLarge));
}

#[test]
fn every_error_is_of_the_connection_or_of_the_message() {
    let read = |block: &[u8]| read_with(block, &HeadLimits::default(), true).err();
    let broken = read(b"\xff").unwrap();
    assert!(matches!(broken, BlockError::Compression(_)) && broken.is_of_connection());
    assert!(!read(&block(&[("X", "1")])).unwrap().is_of_connection());
}

/// Names and values that a head may have, in the spelling of HTTP/1.
fn field() -> impl Strategy<Value = (String, String)> {
    let name = select(&["X-A", "accept", "Cookie", "Server", "x_y", "Content-Type", "TE", "Set-Cookie"][..]);
    let value = prop_oneof![Just(String::new()), "[!-~]([ -~\t]{0,30}[!-~])?"];
    (name, value).prop_map(|(name, value)| {
        let value = if name == "TE" { "trailers".to_owned() } else { value };
        (name.to_owned(), value)
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        heads in vec((select(&["GET", "POST", "M-SEARCH"][..]), "/[a-z0-9/?&=]{0,20}", vec(field(), 0..20)), 1..8),
    ) {
        let (mut encoder, mut decoder) = (HpackEncoder::default(), HpackDecoder::new());
        for (method, path, given) in heads {
            let mut block = Vec::new();
            let pseudo = RequestPseudoFields {
                method: method.as_bytes(),
                scheme: b"http",
                authority: b"a.test",
                path: path.as_bytes(),
                protocol: None,
            };
            let mut writer = HeadWriter::request(&mut encoder, &mut block, &pseudo);
            writer.field(b"Host", b"other.test");
            for (name, value) in &given {
                writer.field(name.as_bytes(), value.as_bytes());
            }
            let (mut head, mut text) = (RequestHead::new(), Vec::new());
            let limits = HeadLimits::default();
            read_request(&mut decoder, &block, &mut head, &mut text, &limits, true).unwrap();
            prop_assert_eq!(head.method_span().of(&text), method.as_bytes());
            prop_assert_eq!(head.target().of(&text), path.as_bytes());
            // Cookies in one, in the place of the first.
            let is_cookie = |field: &&(String, String)| field.0 == "Cookie";
            let cookies: Vec<&str> =
                given.iter().filter(is_cookie).map(|field| &field.1[..]).filter(|part| !part.is_empty()).collect();
            let mut expected: Vec<(String, String)> = Vec::new();
            for field in &given {
                match is_cookie(&field) {
                    true if expected.iter().any(|(name, _)| name == "cookie") => {}
                    true => expected.push(("cookie".to_owned(), cookies.join("; "))),
                    false => expected.push((field.0.to_lowercase(), field.1.clone())),
                }
            }
            expected.push(("host".to_owned(), "a.test".to_owned()));
            prop_assert_eq!(fields(head.fields(), &text), expected);

            // Copied into another message, nothing changes.
            let mut copy = Vec::new();
            let (mut other, mut fresh) = (HpackEncoder::new(0), HpackDecoder::new());
            let mut writer = HeadWriter::request(&mut other, &mut copy, &pseudo);
            let all = head.fields().as_slice();
            writer.copy(FieldRun { text: &text, fields: all, end: text.len() - 2 });
            let (mut again, mut again_text) = (RequestHead::new(), Vec::new());
            read_request(&mut fresh, &copy, &mut again, &mut again_text, &limits, true).unwrap();
            prop_assert_eq!(fields(again.fields(), &again_text), fields(head.fields(), &text));
        }
    }
}

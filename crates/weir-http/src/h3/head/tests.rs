//! Heads and trailers of HTTP/3: the same as those of HTTP/2, and what is told about a section that was dealt with.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;

use super::*;
use crate::h2;
use crate::h3::fault::{Http3Code, Http3Fault};
use crate::h3::qpack::{FieldSection, QpackDecoder, QpackEncoder, QpackError, SectionProgress};
use crate::message::field_writer::{FieldRun, FieldWriter};
use crate::message::fields::Fields;
use crate::message::framing::Framing;
use crate::message::limits::{ChunkedLimits, HeadLimits};
use crate::message::method::Method;
use crate::message::name::FieldName;
use crate::message::request::RequestHead;
use crate::message::response::ResponseHead;
use crate::message::rule::Rule;
use crate::message::version::Version;
use crate::multiplexed::compression::string;
use crate::multiplexed::head::pseudo_fields::RequestPseudoFields;

/// A name and a value.
type Line<'a> = (&'a str, &'a str);

const GET: [Line<'_>; 4] =
    [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a.test")];

/// The lines as literals.
fn section(lines: &[Line<'_>]) -> Vec<u8> {
    let mut out = vec![0, 0];
    for (name, value) in lines {
        string::write(&mut out, 0x20, 3, name.as_bytes(), false);
        string::write_whole(&mut out, value.as_bytes(), false);
    }
    out
}

/// The same for HTTP/2.
fn block(lines: &[Line<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in lines {
        out.push(0);
        string::write_whole(&mut out, name.as_bytes(), false);
        string::write_whole(&mut out, value.as_bytes(), false);
    }
    out
}

/// All that a request says, as text.
fn request_text(head: &RequestHead, text: &[u8]) -> String {
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {}",
        head.method(),
        head.body(),
        head.expectation(),
        head.scheme(),
        head.protocol(),
        head.authority(),
        head.fields(),
        String::from_utf8_lossy(text)
    )
}

fn read3(lines: &[Line<'_>], limits: &HeadLimits, ends: bool) -> Result<String, SectionError> {
    let (mut head, mut text) = (RequestHead::new(), Vec::new());
    let bytes = section(lines);
    let section = FieldSection { stream: 0, bytes: &bytes };
    read_request(&mut QpackDecoder::new(0, 0), section, &mut head, &mut text, limits, ends)?;
    assert_eq!(head.version(), Version::Http3);
    Ok(request_text(&head, &text))
}

fn read2(lines: &[Line<'_>], limits: &HeadLimits, ends: bool) -> Result<String, h2::BlockError> {
    let (mut head, mut text) = (RequestHead::new(), Vec::new());
    h2::read_request(&mut h2::HpackDecoder::new(), &block(lines), &mut head, &mut text, limits, ends)?;
    Ok(request_text(&head, &text))
}

fn rule3<T>(outcome: Result<T, SectionError>) -> Result<T, Rule> {
    outcome.map_err(|error| match error {
        SectionError::Malformed(rule) => rule,
        error => panic!("{error:?}"),
    })
}

fn rule2<T>(outcome: Result<T, h2::BlockError>) -> Result<T, Rule> {
    outcome.map_err(|error| match error {
        h2::BlockError::Malformed(rule) => rule,
        error => panic!("{error:?}"),
    })
}

#[test]
fn the_rules_are_those_of_http2() {
    let rows: &[(&[Line<'_>], Option<Rule>)] = &[
        (&[("accept", "*/*"), ("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")], None),
        (&[("content-length", "0")], None),
        (&[("Host", "a.test")], Some(Rule::UpperCaseFieldName)),
        (&[("x y", "1")], Some(Rule::BadFieldName)),
        (&[("x", "1\r\nhost: b")], Some(Rule::BareCr)),
        (&[("x", "\0")], Some(Rule::NulByte)),
        (&[("x", " a")], Some(Rule::EdgeSpace)),
        (&[("connection", "x")], Some(Rule::ConnectionField)),
        (&[("transfer-encoding", "chunked")], Some(Rule::ConnectionField)),
        (&[("te", "gzip")], Some(Rule::BadTe)),
        (&[(":path", "/b")], Some(Rule::DuplicatePseudoField)),
        (&[("x", "1"), (":scheme", "http")], Some(Rule::LatePseudoField)),
        (&[(":status", "200")], Some(Rule::UnexpectedPseudoField)),
        (&[(":other", "1")], Some(Rule::UnknownPseudoField)),
        (&[("host", "b.test")], Some(Rule::HostDiffers)),
        (&[("content-length", "1"), ("content-length", "2")], Some(Rule::ConflictingLengths)),
        (&[("content-length", "+1")], Some(Rule::BadLength)),
        (&[("content-length", "5")], Some(Rule::LengthDiffers)),
    ];
    let limits = HeadLimits::default();
    for (lines, expected) in rows {
        let lines = [&GET, *lines].concat();
        let found = rule3(read3(&lines, &limits, true));
        assert_eq!(found.as_ref().err(), expected.as_ref(), "{lines:?}");
        assert_eq!(found, rule2(read2(&lines, &limits, true)));
    }
}

#[test]
fn extended_connect_is_an_upgrade() {
    let lines = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":path", "/chat"),
        (":authority", "a.test"),
    ];
    let limits = HeadLimits::default();
    let found = read3(&lines, &limits, false).unwrap();
    assert_eq!(Ok(found), read2(&lines, &limits, false));
    let (mut head, mut text) = (RequestHead::new(), Vec::new());
    let bytes = section(&lines);
    let part = FieldSection { stream: 0, bytes: &bytes };
    read_request(&mut QpackDecoder::new(0, 0), part, &mut head, &mut text, &limits, false).unwrap();
    assert_eq!((head.method(), head.body()), (Method::Get, Framing::None));
    assert_eq!(head.upgrade().map(|protocol| protocol.of(&text)), Some(&b"websocket"[..]));
}

#[test]
fn limits_are_those_of_http2_but_nothing_is_lost() {
    let limits = HeadLimits { head_bytes_max: 600, fields_max: 3, ..HeadLimits::default() };
    let many = [("x", "1"); 100];
    let outcome = read3(&[&GET[..], &many].concat(), &limits, true);
    assert_eq!(outcome, Err(SectionError::Malformed(Rule::TooManyFields)));
    let large = "x".repeat(2_000);
    let outcome = read3(&[&GET[..], &[("x", &large)]].concat(), &limits, true);
    let error = outcome.unwrap_err();
    assert!(!error.http3_fault().is_of_connection(), "{error:?}");
    let cookies = [("cookie", "a=1"); 4];
    let outcome = read3(&[&GET[..], &cookies].concat(), &limits, true);
    assert_eq!(outcome, Err(SectionError::Malformed(Rule::TooManyFields)), "each part counts");
}

#[test]
fn responses_and_trailers() {
    let mut decoder = QpackDecoder::new(0, 0);
    let (mut head, mut text) = (ResponseHead::new(), Vec::new());
    let limits = HeadLimits::default();
    for (lines, ends, expected) in [
        (&[(":status", "200"), ("server", "a")][..], false, Ok((200, Framing::Delimited))),
        (&[(":status", "204")], true, Ok((204, Framing::Length(0)))),
        (&[(":status", "103"), ("link", "<a>")], false, Ok((103, Framing::Delimited))),
        (&[(":status", "100")], true, Err(Rule::InterimEndsStream)),
        (&[(":status", "101")], false, Err(Rule::SwitchingProtocols)),
        (&[("server", "a")], false, Err(Rule::MissingPseudoField)),
        (&[(":status", "700")], false, Err(Rule::BadStatus)),
        (&[("x", "a"), (":status", "200")], false, Err(Rule::LatePseudoField)),
        (&[(":path", "/"), (":status", "200")], false, Err(Rule::UnexpectedPseudoField)),
    ] {
        head.reset();
        let bytes = section(lines);
        let part = FieldSection { stream: 0, bytes: &bytes };
        let outcome = read_response(&mut decoder, part, &mut head, &mut text, &limits, ends);
        let found = rule3(outcome).map(|_| (head.status(), head.body(Method::Post)));
        assert_eq!(found.map(|(status, _)| status), expected.map(|(status, _)| status), "{lines:?}");
    }
    let mut fields = Fields::default();
    let limits = ChunkedLimits::default();
    for (lines, expected) in [
        (&[("grpc-status", "0"), ("content-length", "5"), ("x", "1")][..], Ok(2)),
        (&[], Ok(0)),
        (&[(":status", "200")], Err(Rule::BadTrailer)),
        (&[("X", "1")], Err(Rule::BadTrailer)),
        (&[("x", "1"); 500], Err(Rule::TrailersTooLarge)),
    ] {
        let bytes = section(lines);
        let part = FieldSection { stream: 0, bytes: &bytes };
        let outcome = read_trailers(&mut decoder, part, &mut fields, &mut text, &limits);
        assert_eq!(rule3(outcome).map(|_| fields.len()), expected);
    }
}

#[test]
fn every_error_is_of_the_connection_or_of_the_stream() {
    for (error, is_of_connection, code) in [
        (QpackError::BadIndex.into(), true, Http3Code::QPACK_DECOMPRESSION_FAILED),
        (QpackError::TooManyBlocked.into(), true, Http3Code::QPACK_DECOMPRESSION_FAILED),
        (QpackError::BlockedTooLarge.into(), true, Http3Code::EXCESSIVE_LOAD),
        (QpackError::TooMuchUnsent.into(), true, Http3Code::EXCESSIVE_LOAD),
        (SectionError::TooLarge, false, Http3Code::MESSAGE_ERROR),
        (SectionError::Malformed(Rule::EdgeSpace), false, Http3Code::MESSAGE_ERROR),
    ] {
        let fault: Http3Fault = error.http3_fault();
        assert_eq!((fault.is_of_connection(), fault.code()), (is_of_connection, code));
    }
}

#[test]
fn a_long_head_has_a_longer_length() {
    for len in [1_000, 16_378, 16_379, 16_380, 20_000] {
        let (mut encoder, mut out) = (QpackEncoder::default(), b"before".to_vec());
        let mut writer = SectionWriter::trailers(&mut encoder, 0, &mut out);
        writer.field_with(b"x", |out| out.resize(out.len() + len, b'y'));
        writer.finish();
        let frame = &out[6..];
        assert_eq!(frame[0], 1);
        let (section_len, bytes) = crate::h3::read_varint(&frame[1..]).unwrap();
        assert_eq!(section_len as usize, frame.len() - 1 - bytes);
    }
}

/// What a writer has written, read again.
fn written(out: &[u8]) -> &[u8] {
    let (_, len) = crate::h3::read_varint(&out[1..]).unwrap();
    &out[1 + len..]
}

#[test]
fn heads_that_are_written_read_back() {
    let (mut encoder, mut decoder) = (QpackEncoder::default(), QpackDecoder::new(0, 0));
    for (method, path) in [("GET", "/"), ("PUT", "/a?b"), ("PATCH", "/index.html"), ("OPTIONS", "*")] {
        let pseudo = RequestPseudoFields {
            method: method.as_bytes(),
            scheme: b"https",
            authority: b"a.test:1",
            path: path.as_bytes(),
            protocol: None,
        };
        let mut out = Vec::new();
        let mut writer = SectionWriter::request(&mut encoder, 0, &mut out, &pseudo);
        writer.field(b"Host", b"other");
        writer.field(b"X-A", b"1");
        writer.decimal_field(b"content-length", 5);
        writer.field_unless_empty(b"x-b", |_| {});
        writer.finish();
        let (mut head, mut text) = (RequestHead::new(), Vec::new());
        let part = FieldSection { stream: 0, bytes: written(&out) };
        let limits = HeadLimits::default();
        read_request(&mut decoder, part, &mut head, &mut text, &limits, false).unwrap();
        assert_eq!(head.method_span().of(&text), method.as_bytes());
        assert_eq!((head.target().of(&text), head.body()), (path.as_bytes(), Framing::Length(5)));
        let expected = b"x-a: 1\r\ncontent-length: 5\r\nhost: a.test:1\r\n\r\n";
        assert!(text.ends_with(expected), "{}", String::from_utf8_lossy(&text));

        // And copied.
        let mut out = Vec::new();
        let mut writer = SectionWriter::request(&mut encoder, 4, &mut out, &pseudo);
        writer.leave_out(FieldName::ContentLength);
        writer.copy(FieldRun { text: &text, fields: head.fields().as_slice(), end: text.len() - 2 });
        writer.finish();
        let (mut again, mut again_text) = (RequestHead::new(), Vec::new());
        let part = FieldSection { stream: 4, bytes: written(&out) };
        read_request(&mut decoder, part, &mut again, &mut again_text, &limits, true).unwrap();
        assert!(again_text.ends_with(b"x-a: 1\r\nhost: a.test:1\r\n\r\n"));
    }
    for status in 100..=999 {
        let mut out = Vec::new();
        SectionWriter::response(&mut encoder, 0, &mut out, status).finish();
        let (mut head, mut text) = (ResponseHead::new(), Vec::new());
        let part = FieldSection { stream: 0, bytes: written(&out) };
        let mut limits = HeadLimits::default();
        limits.lenient.high_status = true;
        let outcome = read_response(&mut decoder, part, &mut head, &mut text, &limits, false);
        assert_eq!((outcome.is_ok(), head.status()), (status != 101, status));
    }
}

#[test]
fn a_section_is_acknowledged_whatever_becomes_of_it() {
    let mut connection = crate::h3::Http3Connection::new(
        crate::h3::Role::Server,
        &crate::h3::Http3Settings {
            qpack_max_table_capacity: 4_096,
            qpack_blocked_streams: 1,
            ..Default::default()
        },
        crate::h3::Http3Limits::default(),
        None,
    );
    let (mut head, mut text) = (RequestHead::new(), Vec::new());
    let mut read = |connection: &mut crate::h3::Http3Connection, stream, bytes| {
        let part = FieldSection { stream, bytes };
        head.reset();
        read_request(&mut connection.decoder, part, &mut head, &mut text, &HeadLimits::default(), true)
    };
    // It needs `x: 1`, and has nothing else.
    let section = b"\x02\x00\x80";
    assert_eq!(read(&mut connection, 4, section), Ok(SectionProgress::Blocked));
    let mut stream = crate::h3::UnidirectionalStream::new();
    let input = crate::h3::StreamInput { bytes: b"\x02\x3f\xe1\x1f\x41x\x011", is_last: false };
    connection.receive(&mut stream, input, 0).unwrap();
    assert_eq!(connection.decoder.next_unblocked(), Some(4));
    let malformed = Err(SectionError::Malformed(Rule::MissingPseudoField));
    assert_eq!(read(&mut connection, 4, section), malformed);
    assert_eq!(connection.unsent(crate::h3::OwnStream::Decoder), b"\x03\x01\x84");
}

/// Lines that a request may have, well-formed or not.
fn lines() -> impl Strategy<Value = Vec<(String, String)>> {
    let names = select(vec![
        ":method",
        ":scheme",
        ":path",
        ":authority",
        ":protocol",
        ":status",
        ":x",
        "host",
        "cookie",
        "content-length",
        "expect",
        "te",
        "upgrade",
        "x",
        "X",
        "accept",
        "my_field",
    ]);
    let values = select(vec![
        "GET",
        "CONNECT",
        "OPTIONS",
        "https",
        "/",
        "/a//b",
        "*",
        "a.test",
        "b.test:80",
        "1",
        "200",
        "a=b",
        "trailers",
        " x",
        "100-continue",
        "",
    ]);
    let line = (names, values).prop_map(|(name, value)| (name.to_owned(), value.to_owned()));
    let get = Just(GET.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec());
    (prop_oneof![3 => get, 1 => Just(vec![])], vec(line, 0..5))
        .prop_map(|(begin, more)| [begin, more].concat())
}

proptest! {
    #[test]
    fn any_request_is_the_same_as_in_http2(lines in lines(), ends: bool) {
        let lines: Vec<Line<'_>> = lines.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let limits = HeadLimits { fields_max: 4, ..HeadLimits::default() };
        prop_assert_eq!(rule3(read3(&lines, &limits, ends)), rule2(read2(&lines, &limits, ends)));
    }
}

//! Requests of HTTP/2: one that passes is the same request when it goes on as HTTP/1, and when it goes on as HTTP/2, also for `weir-wire`.

use std::collections::BTreeSet;

use crate::heads::assert_same_fields;
use weir_http::h2::{HeadWriter, HpackDecoder, HpackEncoder, RequestPseudoFields, read_request};
use weir_http::http1::{HeadProgress, ParsedRequest, write};
use weir_http::{
    FieldName, FieldRun, FieldWriter, Fields, Framing, HeadLimits, RequestHead, TargetForm, Version,
};
use weir_wire::http1::{self, RecordedFraming, StartLine};
use weir_wire::http2::{self, FrameSender};
use weir_wire::latin1;

/// The fields that HTTP/1 has for what HTTP/2 says without them: an upgrade, and that a body of unknown length is chunked.
fn added_fields<'a>(head: &RequestHead, text: &'a [u8]) -> Vec<(&'static [u8], &'a [u8])> {
    if let Some(protocol) = head.protocol() {
        return vec![(b"connection", b"upgrade"), (b"upgrade", protocol.of(text))];
    }
    let is_chunked = head.body() == Framing::Delimited;
    Vec::from_iter(is_chunked.then_some((&b"transfer-encoding"[..], &b"chunked"[..])))
}

/// The head as HTTP/1 would send it.
fn as_http1(head: &RequestHead, text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write::request_line(&mut out, head.method_span().of(text), head.target().of(text), Version::Http11);
    for field in head.fields() {
        write::field(&mut out, field.name.of(text), field.value.of(text));
    }
    for (name, value) in added_fields(head, text) {
        write::field(&mut out, name, value);
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// Fails unless HTTP/1 carries the same request.
pub(super) fn check_http1(head: &RequestHead, text: &[u8]) {
    let bytes = as_http1(head, text);
    let limits = HeadLimits { head_bytes_max: usize::MAX, fields_max: 1_000, ..HeadLimits::default() };
    let mut parsed = ParsedRequest::new();
    let progress = parsed.parse(&bytes, &limits);
    assert_eq!(progress, Ok(HeadProgress::Complete { len: bytes.len() }));
    assert_eq!((parsed.method(), parsed.target_form()), (head.method(), head.target_form()));
    assert_eq!(parsed.target().of(&bytes), head.target().of(text));
    assert_eq!(parsed.normal_path(&bytes), head.normal_path(text));
    assert_eq!(parsed.query().map(|query| query.of(&bytes)), head.query().map(|query| query.of(text)));
    assert_eq!(parsed.authority().of(&bytes), head.authority().of(text));
    assert_eq!((parsed.host().of(&bytes), parsed.port()), (head.host().of(text), head.port()));
    assert_eq!((parsed.body(), parsed.expectation()), (head.body(), head.expectation()));
    let protocol = parsed.upgrade().map(|protocol| protocol.of(&bytes));
    assert_eq!(protocol, head.protocol().map(|protocol| protocol.of(text)));
    assert!(parsed.keep_alive());

    let mut headers = [httparse::EMPTY_HEADER; 256];
    let mut other = httparse::Request::new(&mut headers);
    assert_eq!(other.parse(&bytes), Ok(httparse::Status::Complete(bytes.len())));
    assert_eq!(other.method.map(str::as_bytes), Some(head.method_span().of(text)));
    assert_eq!(other.path.map(str::as_bytes), Some(head.target().of(text)));
    let added = added_fields(head, text).len();
    assert_same_fields(text, head.fields(), &other.headers[..other.headers.len() - added]);
    check_http1_bytes(head, text, bytes);
}

/// Fails unless the bytes are that request for `weir-wire`, too.
fn check_http1_bytes(head: &RequestHead, text: &[u8], mut bytes: Vec<u8>) {
    if head.body() == Framing::Delimited && head.protocol().is_none() {
        bytes.extend_from_slice(b"3\r\n...\r\n0\r\n\r\n");
    }
    let reading = http1::requests(&bytes);
    assert_eq!((&reading.fault, reading.unfinished_head, reading.messages.len()), (&None, None, 1));
    let message = &reading.messages[0];
    assert_eq!(message.is_complete, !matches!(message.framing, RecordedFraming::Length(1..)));
    let (method, target) = (latin1(head.method_span().of(text)), latin1(head.target().of(text)));
    assert_eq!(message.start, StartLine::Request { method, target });
    let meant = lines(head.fields(), text).into_iter().chain(added_fields(head, text));
    let meant: Vec<_> = meant.map(|(name, value)| (latin1(name), latin1(value))).collect();
    assert_eq!(message.fields.0, meant);
}

/// Fails unless the block, as a client sends it, is that request for `weir-wire`.
fn check_http2_bytes(
    pseudo: &RequestPseudoFields<'_>,
    fields: &[(Vec<u8>, Vec<u8>)],
    block: &[u8],
    ends: bool,
) {
    const SETTINGS: u8 = 4;
    const HEADERS: u8 = 1;
    const END_HEADERS: u8 = 4;
    let headers = http2::frame(HEADERS, END_HEADERS | u8::from(ends), 1, block);
    let bytes = [http2::PREFACE, &http2::frame(SETTINGS, 0, 0, b""), &headers].concat();
    let reading = http2::read(&bytes, FrameSender::Client, &BTreeSet::new(), usize::MAX);
    assert_eq!((&reading.fault, reading.streams.len()), (&None, 1));
    let stream = &reading.streams[&1];
    assert_eq!((stream.has_ended, stream.reset), (ends, None));
    let first = |name: &str| stream.head.first(name).map(str::to_owned).unwrap_or_default();
    assert_eq!(first(":method"), latin1(pseudo.method));
    assert_eq!(first(":path"), latin1(pseudo.path));
    assert_eq!(first(":authority"), latin1(pseudo.authority));
    assert_eq!(first(":protocol"), pseudo.protocol.map(latin1).unwrap_or_default());
    let others = stream.head.0.iter().filter(|(name, _)| !name.starts_with(':') && name != "host");
    let meant: Vec<_> = fields.iter().map(|(name, value)| (latin1(name), latin1(value))).collect();
    assert_eq!(others.cloned().collect::<Vec<_>>(), meant);
}

fn lines<'a>(fields: &'a Fields, text: &'a [u8]) -> Vec<(&'a [u8], &'a [u8])> {
    fields.iter().map(|field| (field.name.of(text), field.value.of(text))).collect()
}

/// Fails unless HTTP/2 carries the same request on.
fn check_http2(head: &RequestHead, text: &[u8], limits: &HeadLimits, ends_stream: bool) {
    let has_target = head.target_form() != TargetForm::Authority;
    let pseudo = RequestPseudoFields {
        method: if head.protocol().is_some() { b"CONNECT" } else { head.method_span().of(text) },
        scheme: head.scheme().of(text),
        authority: head.authority().of(text),
        path: if has_target { head.target().of(text) } else { b"" },
        protocol: head.protocol().map(|protocol| protocol.of(text)),
    };
    let (mut encoder, mut block) = (HpackEncoder::default(), Vec::new());
    let mut writer = HeadWriter::request(&mut encoder, &mut block, &pseudo);
    writer.copy(FieldRun { text, fields: head.fields().as_slice(), end: text.len() - 2 });
    let (mut again, mut again_text) = (RequestHead::new(), Vec::new());
    let outcome =
        read_request(&mut HpackDecoder::new(), &block, &mut again, &mut again_text, limits, ends_stream);
    assert_eq!(outcome, Ok(()));
    // A Host that came without an authority moves to the end.
    let without_host = |fields: &Fields, text: &[u8]| {
        let others = lines(fields, text).into_iter().filter(|(name, _)| *name != b"host");
        others.map(|(name, value)| (name.to_vec(), value.to_vec())).collect::<Vec<_>>()
    };
    assert_eq!(without_host(again.fields(), &again_text), without_host(head.fields(), text));
    check_http2_bytes(&pseudo, &without_host(head.fields(), text), &block, ends_stream);
    assert_eq!(again.authority().of(&again_text), head.authority().of(text));
    assert_eq!((again.method(), again.body()), (head.method(), head.body()));
    assert_eq!(again.target().of(&again_text), head.target().of(text));
}

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    let Some((first, block)) = input.split_first() else { return };
    let ends_stream = first & 1 != 0;
    let limits = HeadLimits::default();
    let (mut head, mut text) = (RequestHead::new(), Vec::new());
    let outcome = read_request(&mut HpackDecoder::new(), block, &mut head, &mut text, &limits, ends_stream);
    assert!(text.len() <= 5 * limits.head_bytes_max, "memory is bounded");
    if outcome.is_err() {
        return;
    }
    assert!(text.ends_with(b"\r\n\r\n") && head.fields().contains(FieldName::Host));
    assert!(text.len() <= 2 * limits.head_bytes_max && head.fields().len() <= limits.fields_max + 1);
    check_http1(&head, &text);
    check_http2(&head, &text, &limits, ends_stream);
}

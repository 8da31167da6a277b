//! A request stream of a hostile client: the same messages and the same fault however its bytes arrive; bodies are what a plain reader of frames finds, and
//! a request that passes is the same one in HTTP/1, and when it is written as HTTP/3 again.

use super::h2_head::check_http1;
use crate::pieces::growths;
use weir_http::h3::{
    FieldSection, Http3Connection, Http3Fault, Http3Limits, Http3Settings, QpackDecoder, QpackEncoder,
    RequestEvent, RequestPseudoFields, RequestStream, Role, SectionError, SectionProgress, SectionUse,
    SectionWriter, StreamInput, read_request, read_trailers, read_varint,
};
use weir_http::{
    ChunkedLimits, FieldName, FieldRun, FieldWriter, Fields, HeadLimits, RequestHead, TargetForm,
};

/// Bytes of a field section.
const SECTION_BYTES_MAX: usize = 1_000;

/// What was seen of a stream.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    steps: Vec<String>,
    body: Vec<u8>,
    fault: Option<Http3Fault>,
}

/// One stream, and what it needs of its connection.
struct FuzzedStream {
    connection: Http3Connection,
    stream: RequestStream,
    seen: Seen,
}

impl FuzzedStream {
    fn new() -> Self {
        let connection =
            Http3Connection::new(Role::Server, &Http3Settings::default(), Http3Limits::default(), None);
        let stream = RequestStream::new(Role::Server, SECTION_BYTES_MAX);
        Self { connection, stream, seen: Seen::default() }
    }

    fn give(&mut self, bytes: &[u8], is_last: bool) -> Result<(), Http3Fault> {
        let mut rest = bytes;
        loop {
            let input = StreamInput { bytes: rest, is_last };
            let received = self.stream.receive(input, &mut self.connection.budgets, 0)?;
            match received.event {
                None => {
                    assert_eq!(received.used, rest.len(), "all is used");
                    return Ok(());
                }
                Some(RequestEvent::Data { data, ends_stream }) => {
                    self.seen.body.extend_from_slice(&rest[data]);
                    self.end(ends_stream);
                }
                Some(RequestEvent::Section { section, usage, ends_stream }) => {
                    let bytes = self.stream.section(&section, rest).to_vec();
                    self.section(&bytes, usage)?;
                    self.end(ends_stream);
                }
                Some(RequestEvent::End) => self.end(true),
            }
            rest = &rest[received.used..];
        }
    }

    fn end(&mut self, ends_stream: bool) {
        assert_eq!(ends_stream, self.stream.has_ended());
        if ends_stream {
            self.seen.steps.push("end".into());
        }
    }

    /// Reads a section. That a head ends its stream shows later when the bytes are cut, so its body always counts as one that is still to come.
    fn section(&mut self, bytes: &[u8], usage: SectionUse) -> Result<(), Http3Fault> {
        let part = FieldSection { stream: 0, bytes };
        let (mut text, mut length) = (Vec::new(), None);
        let outcome = match usage {
            SectionUse::Head => {
                let (mut head, limits) = (RequestHead::new(), HeadLimits::default());
                let decoder = &mut self.connection.decoder;
                let outcome = read_request(decoder, part, &mut head, &mut text, &limits, false);
                if outcome.is_ok() {
                    check_request(&head, &text, &limits);
                    length = head.body().length();
                }
                outcome
            }
            SectionUse::Trailers => {
                let limits = ChunkedLimits { trailer_bytes_max: 500, ..ChunkedLimits::default() };
                read_trailers(&mut self.connection.decoder, part, &mut Fields::new(), &mut text, &limits)
            }
        };
        assert_ne!(outcome, Ok(SectionProgress::Blocked), "there is no table");
        assert!(text.len() <= 20 * SECTION_BYTES_MAX, "memory is bounded");
        self.seen.steps.push(format!("{usage:?} {outcome:?} {}", String::from_utf8_lossy(&text)));
        outcome.map_err(SectionError::http3_fault)?;
        length.map_or(Ok(()), |length| self.stream.expect_length(length))
    }
}

/// Fails unless HTTP/1 and HTTP/3 carry the same request on.
fn check_request(head: &RequestHead, text: &[u8], limits: &HeadLimits) {
    assert!(text.ends_with(b"\r\n\r\n") && head.fields().contains(FieldName::Host));
    check_http1(head, text);
    let has_target = head.target_form() != TargetForm::Authority;
    let pseudo = RequestPseudoFields {
        method: if head.protocol().is_some() { b"CONNECT" } else { head.method_span().of(text) },
        scheme: head.scheme().of(text),
        authority: head.authority().of(text),
        path: if has_target { head.target().of(text) } else { b"" },
        protocol: head.protocol().map(|protocol| protocol.of(text)),
    };
    let (mut encoder, mut out) = (QpackEncoder::default(), Vec::new());
    let mut writer = SectionWriter::request(&mut encoder, 0, &mut out, &pseudo);
    writer.copy(FieldRun { text, fields: head.fields().as_slice(), end: text.len() - 2 });
    writer.finish();
    let (len, len_len) = read_varint(&out[1..]).expect("a frame was written");
    let bytes = &out[1 + len_len..];
    assert_eq!((out[0], len as usize), (1, bytes.len()));
    let (mut again, mut again_text) = (RequestHead::new(), Vec::new());
    let part = FieldSection { stream: 0, bytes };
    let outcome =
        read_request(&mut QpackDecoder::new(0, 0), part, &mut again, &mut again_text, limits, false);
    assert_eq!(outcome, Ok(SectionProgress::Read));
    let others = |fields: &Fields, text: &[u8]| {
        let others = fields.iter().filter(|field| field.known != FieldName::Host);
        others.map(|field| (field.name.of(text).to_vec(), field.value.of(text).to_vec())).collect::<Vec<_>>()
    };
    assert_eq!(others(again.fields(), &again_text), others(head.fields(), text));
    assert_eq!(again.authority().of(&again_text), head.authority().of(text));
    assert_eq!(again.target().of(&again_text), head.target().of(text));
    assert_eq!((again.method(), again.body()), (head.method(), head.body()));
}

fn seen(input: &[u8], growth: &[usize], ends_alone: bool) -> Seen {
    let mut end = FuzzedStream::new();
    let mut used = 0;
    for &len in growth {
        let outcome = end.give(&input[used..len], len == input.len() && !ends_alone);
        used = len;
        if let Err(fault) = outcome {
            end.seen.fault = Some(fault);
            return end.seen;
        }
    }
    if ends_alone && let Err(fault) = end.give(&[], true) {
        end.seen.fault = Some(fault);
    }
    end.seen
}

/// The payloads of DATA, as far as frames are whole.
fn plain_body(input: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut rest = input;
    while let Some((number, number_len)) = read_varint(rest) {
        let Some((len, len_len)) = read_varint(&rest[number_len..]) else { break };
        let payload = &rest[number_len + len_len..];
        let (payload, behind) =
            payload.split_at(payload.len().min(usize::try_from(len).unwrap_or(usize::MAX)));
        if number == 0 {
            body.extend_from_slice(payload);
        }
        rest = behind;
    }
    body
}

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    let whole = seen(input, &[input.len()], false);
    let body = plain_body(input);
    match whole.fault {
        None => assert_eq!(whole.body, body),
        Some(_) => assert!(body.starts_with(&whole.body)),
    }
    for growth in growths(input) {
        for ends_alone in [false, true] {
            let other = seen(input, &growth, ends_alone);
            assert_eq!((other.fault, &other.steps), (whole.fault, &whole.steps));
            // A fault may be seen before the bytes that come with it.
            assert!(other.body.starts_with(&whole.body) || whole.body.starts_with(&other.body));
            assert!(whole.fault.is_some() || other.body == whole.body);
        }
    }
}

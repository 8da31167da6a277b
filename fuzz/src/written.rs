//! Messages that Weir writes, read by `weir-wire`, which shares nothing with Weir: exactly what was meant.

use weir_http::{Fields, Framing};
use weir_wire::http1::{self, Http1Reading, Message, SenderEnding, StartLine};
use weir_wire::latin1;

/// Longer bodies are not written.
const BODY_MAX: u64 = 1_000;

/// Fields that are written anew by what a message is, and not copied.
const WRITTEN_ANEW: [&str; 7] =
    ["connection", "content-length", "host", "te", "trailer", "transfer-encoding", "upgrade"];

/// Name and value, one `char` per byte.
pub(crate) type WrittenField = (String, String);

/// Whether a field passes from one connection to the other.
pub(crate) fn passes(name: &[u8]) -> bool {
    !WRITTEN_ANEW.iter().any(|anew| name.eq_ignore_ascii_case(anew.as_bytes()))
}

/// The fields in `text` that pass.
pub(crate) fn end_to_end(fields: &Fields, text: &[u8]) -> Vec<WrittenField> {
    let all = fields.iter().map(|field| (field.name.of(text), field.value.of(text)));
    all.filter(|(name, _)| passes(name)).map(|(name, value)| (latin1(name), latin1(value))).collect()
}

/// Ends a head with what says how its body is framed, and adds a body of this kind; whether that is whole.
pub(crate) fn put_body(out: &mut Vec<u8>, framing: Framing) -> bool {
    match framing {
        Framing::None => out.extend_from_slice(b"\r\n"),
        Framing::Length(len) => {
            out.extend(format!("Content-Length: {len}\r\n\r\n").bytes());
            out.extend((0..len.min(BODY_MAX)).map(|_| b'.'));
            return len <= BODY_MAX;
        }
        Framing::Delimited | Framing::UntilClose => {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n3\r\n...\r\n0\r\n\r\n");
        }
    }
    true
}

/// The only message in `bytes`.
fn only(reading: Http1Reading, bytes: &[u8], is_whole: bool) -> Message {
    let Http1Reading { mut messages, unfinished_head, fault, .. } = reading;
    let shown = bytes.escape_ascii();
    assert_eq!((fault, unfinished_head, messages.len()), (None, None, 1), "{shown}");
    let message = messages.remove(0);
    assert_eq!(message.is_complete, is_whole, "{shown}");
    assert_eq!(message.bytes, 0..bytes.len(), "{shown}");
    message
}

/// The fields of a message that are not about its framing.
fn passing(message: &Message) -> Vec<WrittenField> {
    let all = message.fields.0.iter().cloned();
    all.filter(|(name, _)| passes(name.as_bytes())).collect()
}

/// Fails unless `bytes` are one request, this one.
pub(crate) fn assert_request(
    bytes: &[u8],
    (method, target): (&[u8], &[u8]),
    fields: &[WrittenField],
    is_whole: bool,
) {
    let message = only(http1::requests(bytes), bytes, is_whole);
    let meant = StartLine::Request { method: latin1(method), target: latin1(target) };
    assert_eq!((&message.start, &passing(&message)[..]), (&meant, fields));
}

/// Fails unless `bytes` are one response to a GET, this one.
pub(crate) fn assert_response(bytes: &[u8], status: u16, fields: &[WrittenField], is_whole: bool) {
    let message = only(http1::responses(bytes, &["GET"], SenderEnding::Closed), bytes, is_whole);
    assert_eq!((message.status(), &passing(&message)[..]), (status, fields));
}

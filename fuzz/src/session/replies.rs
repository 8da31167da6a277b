//! What a client of Weir gets, read with no tolerance: Weir writes it, so there is nothing to forgive.
//!
//! The framing is found here, step by step; only the grammar of lines is left to `httparse`. Anything malformed, and
//! any byte that belongs to no response, fails the input.

use bytes::{Bytes, BytesMut};
use weir_wire::http1::{self, Message, SenderEnding};

use super::request::SEEN;

/// What is known of the request that a response answers, as far as it says where the response ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnsweredMethod {
    /// A HEAD: the response has no body.
    Head,
    /// Anything else.
    Other,
}

/// A final response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadReply {
    pub(crate) status: u16,
    /// Name in lower case and value.
    pub(crate) fields: Vec<(String, Bytes)>,
    pub(crate) body: Bytes,
    /// Whether the body came to the end that the head announced. True of one that only the close ends.
    pub(crate) whole: bool,
    /// Whether the body is ended by the close alone.
    pub(crate) until_close: bool,
    /// Interim responses before it.
    pub(crate) interims: usize,
    /// What follows a 101.
    pub(crate) behind: Bytes,
}

impl ReadReply {
    /// The first field called `name`.
    pub(crate) fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| &value[..])
    }

    fn all(&self, name: &str) -> Vec<Bytes> {
        self.fields.iter().filter(|(other, _)| other == name).map(|(_, value)| value.clone()).collect()
    }

    /// The number of the recorded request that this answers; none when no server gave the answer.
    pub(crate) fn seen(&self) -> Option<usize> {
        str::from_utf8(self.field(SEEN)?).ok()?.parse().ok()
    }

    /// Whether Weir answered by itself that something went wrong.
    pub(crate) fn is_own_failure(&self) -> bool {
        self.status >= 400 && self.field("weir-reason").is_some()
    }

    /// Whether it says that nothing follows.
    pub(crate) fn closes(&self) -> bool {
        self.field("connection").is_some_and(|value| value.eq_ignore_ascii_case(b"close"))
    }
}

/// All responses of a session.
#[derive(Debug, Default)]
pub(crate) struct ReadReplies {
    pub(crate) finals: Vec<ReadReply>,
    /// Interim responses behind the last final one: the connection was cut before theirs came.
    pub(crate) interims_left: usize,
}

/// All responses in `bytes`. `asked` gives the method of the request that a response answers, by the place of the final response from 0;
/// `None` when it is unknown.
///
/// # Panics
/// When `bytes` are anything but well-formed responses, of which the last may be cut off in its body.
pub(crate) fn read_replies(mut bytes: &[u8], asked: impl Fn(usize) -> Option<AnsweredMethod>) -> ReadReplies {
    let mut replies = ReadReplies::default();
    while !bytes.is_empty() {
        if let Some(last) = replies.finals.last() {
            let over = last.closes() || !last.whole || last.until_close || last.status == 101;
            assert!(!over, "bytes behind the last response: {}", bytes.escape_ascii());
        }
        let (mut reply, rest) = read_head(bytes);
        if reply.status < 200 && reply.status != 101 {
            replies.interims_left += 1;
            bytes = rest;
            continue;
        }
        reply.interims = std::mem::take(&mut replies.interims_left);
        bytes = read_body(&mut reply, rest, asked(replies.finals.len()));
        replies.finals.push(reply);
    }
    replies
}

/// Fails unless `bytes` are exactly these responses to requests with `methods`, for `weir-wire`. Of further requests, whose methods are unknown, it
/// takes what any method but HEAD and CONNECT allows.
///
/// # Panics
/// When they are not.
pub(crate) fn assert_exact_replies(bytes: &[u8], methods: &[&str], replies: &[ReadReply]) {
    let unknown = replies.len().saturating_sub(methods.len());
    let methods: Vec<&str> = methods.iter().copied().chain((0..=unknown).map(|_| "GET")).collect();
    let reading = http1::responses(bytes, &methods, SenderEnding::Closed);
    let shown = bytes.escape_ascii();
    assert_eq!((reading.fault, reading.unfinished_head), (None, None), "{shown}");
    let finals: Vec<&Message> = reading.messages.iter().filter(|message| !message.is_interim()).collect();
    assert_eq!(finals.len(), replies.len(), "{shown}");
    for (message, reply) in finals.iter().zip(replies) {
        assert_eq!((message.status(), &message.body[..]), (reply.status, &reply.body[..]), "{shown}");
        assert_eq!(message.is_complete, reply.whole, "{shown}");
    }
}

fn read_head(bytes: &[u8]) -> (ReadReply, &[u8]) {
    let mut headers = [httparse::EMPTY_HEADER; 400];
    let mut head = httparse::Response::new(&mut headers);
    let parsed = head.parse(bytes);
    let Ok(httparse::Status::Complete(len)) = parsed else {
        panic!("no response ({parsed:?}): {}", bytes.escape_ascii())
    };
    let (text, rest) = bytes.split_at(len);
    // `httparse` forgives a bare LF.
    let lines = text.split(|&byte| byte == b'\n').rev().skip(1);
    let sound =
        lines.into_iter().all(|line| line.iter().position(|&byte| byte == b'\r') == Some(line.len() - 1));
    assert!(sound, "a line that does not end with CR LF: {}", text.escape_ascii());
    assert_eq!(head.version, Some(1), "Weir speaks HTTP/1.1: {}", text.escape_ascii());
    let fields = head
        .headers
        .iter()
        .map(|header| (header.name.to_ascii_lowercase(), Bytes::copy_from_slice(header.value)));
    let reply = ReadReply {
        status: head.code.expect("the head is complete"),
        fields: fields.collect(),
        body: Bytes::new(),
        whole: true,
        until_close: false,
        interims: 0,
        behind: Bytes::new(),
    };
    (reply, rest)
}

/// Reads the body of `reply` (RFC 9112 section 6.3); gives what follows it.
fn read_body<'a>(reply: &mut ReadReply, bytes: &'a [u8], asked: Option<AnsweredMethod>) -> &'a [u8] {
    let lengths = reply.all("content-length");
    let codings = reply.all("transfer-encoding");
    assert!(lengths.len() + codings.len() <= 1, "more than one framing: {reply:?}");
    if reply.status == 101 {
        reply.behind = Bytes::copy_from_slice(bytes);
        return &[];
    }
    if asked == Some(AnsweredMethod::Head) || matches!(reply.status, 204 | 304) {
        return bytes;
    }
    // The answer to a head that was refused: maybe a HEAD, and nothing follows in any case.
    if asked.is_none() && reply.closes() && bytes.is_empty() {
        return bytes;
    }
    if let Some(coding) = codings.first() {
        assert_eq!(coding, "chunked", "another coding: {reply:?}");
        return read_chunks(reply, bytes);
    }
    let Some(length) = lengths.first() else {
        assert!(reply.closes(), "a body that only the close ends, and no close: {reply:?}");
        reply.until_close = true;
        reply.body = Bytes::copy_from_slice(bytes);
        return &[];
    };
    let digits =
        str::from_utf8(length).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let length = digits.and_then(|digits| digits.parse::<usize>().ok());
    let Some(length) = length else { panic!("no length: {reply:?}") };
    reply.whole = length <= bytes.len();
    let (body, rest) = bytes.split_at(length.min(bytes.len()));
    reply.body = Bytes::copy_from_slice(body);
    rest
}

fn read_chunks<'a>(reply: &mut ReadReply, bytes: &'a [u8]) -> &'a [u8] {
    let mut body = BytesMut::new();
    let (whole, rest) = gather_chunks(&mut body, bytes);
    (reply.body, reply.whole) = (body.freeze(), whole);
    rest
}

/// Appends the data of a chunked body; gives whether it has ended, and what follows it.
fn gather_chunks<'a>(body: &mut BytesMut, mut bytes: &'a [u8]) -> (bool, &'a [u8]) {
    loop {
        let size = httparse::parse_chunk_size(bytes)
            .unwrap_or_else(|_| panic!("no chunk: {}", bytes.escape_ascii()));
        let httparse::Status::Complete((len, size)) = size else { return (false, &[]) };
        bytes = &bytes[len..];
        if size == 0 {
            break;
        }
        let data = &bytes[..bytes.len().min(usize::try_from(size).unwrap_or(usize::MAX))];
        body.extend_from_slice(data);
        bytes = &bytes[data.len()..];
        match bytes {
            [b'\r', b'\n', rest @ ..] => bytes = rest,
            [] | [b'\r'] => return (false, &[]),
            _ => panic!("a chunk longer than its size: {}", bytes.escape_ascii()),
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; 64];
    match httparse::parse_headers(bytes, &mut headers) {
        Ok(httparse::Status::Complete((len, _))) => (true, &bytes[len..]),
        Ok(httparse::Status::Partial) => (false, &[]),
        Err(error) => panic!("no trailers ({error}): {}", bytes.escape_ascii()),
    }
}

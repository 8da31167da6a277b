//! Whole sessions with a hostile client: the requests that a server behind Weir reads are those that `hyper` reads from
//! the client's own bytes, and the client gets a well-formed response for each.
//!
//! Weir may be stricter: it may reject messages that `hyper` accepts, and ends the session then. The functions `may_*` are
//! the other permitted differences, one each.

use std::cell::Cell;

use crate::heads::in_known_versions;
use crate::session::{
    AnsweredMethod, ReadReply, ReadRequest, ReadRequests, RequestRecorder, Rig, assert_exact_replies,
    exchange, read_replies, read_requests,
};
use bytes::Bytes;

/// After this many inputs, a good request must be served as if nothing had happened.
const INPUTS_BETWEEN_CHECKS: u64 = 64;

/// The fields of a request that Weir writes itself.
const OWN_FIELDS: &[&str] = &[
    "connection",
    "content-length",
    "host",
    "max-forwards",
    "te",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-request-id",
];

struct RecordingServer {
    rig: Rig,
    recorder: RequestRecorder,
    inputs: Cell<u64>,
}

thread_local! {
    static STAGE: RecordingServer = {
        let recorder = RequestRecorder::default();
        let rig = Rig::start({
            let recorder = recorder.clone();
            |listener| recorder.serve(listener)
        });
        RecordingServer { rig, recorder, inputs: Cell::new(0) }
    };
}

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    STAGE.with(|stage| {
        let (direct, behind, received) = stage.pass(&in_known_versions(input));
        let replies = read_replies(&received, |index| asked(&direct, index)).finals;
        assert_exact(&direct, &behind, &received, &replies);
        judge(&direct, &behind, &replies);
        stage.inputs.set(stage.inputs.get() + 1);
        if stage.inputs.get().is_multiple_of(INPUTS_BETWEEN_CHECKS) {
            stage.check_service();
        }
    });
}

impl RecordingServer {
    /// The requests that `hyper` reads from `input`, the requests that it reads behind Weir, and the responses to the client.
    fn pass(&self, input: &[u8]) -> (ReadRequests, ReadRequests, Vec<u8>) {
        self.rig.run(async {
            let direct = read_requests(input).await;
            let received = exchange(self.rig.web(), input).await;
            (direct, self.recorder.take().await, received)
        })
    }

    fn check_service(&self) {
        let (direct, behind, received) = self.pass(
            b"POST /good HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        );
        let replies = read_replies(&received, |index| asked(&direct, index)).finals;
        assert_eq!(behind.requests.len(), 1);
        assert_eq!((replies.len(), replies[0].status, &replies[0].body[..]), (1, 200, &b"hello"[..]));
        assert_exact(&direct, &behind, &received, &replies);
        judge(&direct, &behind, &replies);
        self.rig.assert_no_leak();
    }
}

/// Fails unless Weir has written exactly what was read, to the client and to the server.
fn assert_exact(direct: &ReadRequests, behind: &ReadRequests, received: &[u8], replies: &[ReadReply]) {
    let methods: Vec<&str> = direct.requests.iter().map(|request| &*request.method).collect();
    assert_exact_replies(received, &methods, replies);
    behind.assert_exact();
}

fn asked(direct: &ReadRequests, index: usize) -> Option<AnsweredMethod> {
    let request = direct.requests.get(index)?;
    // Without a request, the method is unknown: how far Weir read a request that it refused does not show.
    Some(if request.method == "HEAD" { AnsweredMethod::Head } else { AnsweredMethod::Other })
}

fn judge(direct: &ReadRequests, behind: &ReadRequests, replies: &[ReadReply]) {
    let mut forwarded = behind.requests.iter();
    for (index, reply) in replies.iter().enumerate() {
        assert!(reply.whole, "a response is cut off: {reply:?}");
        let read = direct.requests.get(index);
        if let Some(number) = reply.seen() {
            let request = forwarded.next().expect("a response without its request");
            assert_eq!(*request, behind.requests[number], "responses in another order than their requests");
            assert!(request.whole, "a response to half a request: {request:?}");
            if may_be_refused_before(request, direct, index) {
                return;
            }
            let read = read.unwrap_or_else(|| panic!("a request that the client never sent: {request:?}"));
            assert_same(request, read);
            assert_eq!(reply.body, if read.method == "HEAD" { &[][..] } else { &read.body[..] });
        } else if may_stop_at_the_last_hop(reply, read) {
            continue;
        } else if may_be_refused_behind(reply, direct, behind, index) {
            // Nothing is left to compare with.
            return;
        } else {
            assert!(reply.is_own_failure(), "an answer of neither a server nor Weir: {reply:?}");
            assert!(index + 1 == replies.len() && reply.closes(), "the session goes on: {replies:?}");
        }
    }
    let answered = replies.iter().filter(|reply| !reply.is_own_failure()).count();
    if let Some(request) = forwarded.next() {
        assert!(!request.whole, "a request without response: {request:?}, {replies:?}");
        if may_be_refused_before(request, direct, answered) {
            return;
        }
        let read = direct.requests.get(answered).expect("a request that the client never sent");
        assert_beginning(request, read);
    }
    assert_eq!(forwarded.next(), None, "requests without response");
    let whole = direct.requests.iter().filter(|request| request.whole).count();
    let announced = replies.last().is_some_and(ReadReply::closes);
    assert!(replies.len() >= whole || announced, "the session ends without notice: {replies:?}, {direct:?}");
}

/// Fails unless a server behind Weir got the bytes that the client sent.
fn assert_same(request: &ReadRequest, read: &ReadRequest) {
    assert_head(request, read);
    assert!(read.whole, "half a request came out whole: {request:?}, {read:?}");
    assert_eq!(request.body, read.body);
}

/// Fails unless a server behind Weir got the beginning of what the client sent.
fn assert_beginning(request: &ReadRequest, read: &ReadRequest) {
    assert_head(request, read);
    assert!(read.body.starts_with(&request.body), "another body: {request:?}, {read:?}");
}

fn assert_head(request: &ReadRequest, read: &ReadRequest) {
    assert_eq!(request.method, read.method);
    if !may_ask_about_the_server(request, read) {
        assert_eq!(request.target, in_normal_form(&read.target));
    }
    assert!(!request.absolute, "a server is no proxy: {request:?}");
    if !may_get_a_host(read) {
        assert_eq!(request.host, read.host);
    }
    for field in &request.fields {
        let own = OWN_FIELDS.contains(&&*field.0);
        assert!(
            own || read.fields.contains(field),
            "a field that the client never sent: {field:?}, {read:?}"
        );
    }
}

/// What a server must get for a target: its path resolved and all of it encoded, by other means than Weir's. The segments
/// are resolved in a list, after everything was decoded or encoded.
fn in_normal_form(target: &str) -> String {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let query = query.map(|query| format!("?{}", encoded(query.as_bytes()))).unwrap_or_default();
    let Some(path) = path.strip_prefix('/') else { return target.to_owned() };
    let path = encoded(&decoded(path.as_bytes()));
    let mut kept: Vec<&str> = Vec::new();
    let (inner, last) = path.rsplit_once('/').unwrap_or(("", &path));
    for segment in inner.split('/').chain([last]) {
        match segment {
            "" | "." => {}
            ".." => _ = kept.pop(),
            other => kept.push(other),
        }
    }
    let ends_in_slash = !kept.is_empty() && matches!(last, "" | "." | "..");
    format!("/{}{}{query}", kept.join("/"), if ends_in_slash { "/" } else { "" })
}

/// Every unreserved character decoded, every other digit in upper case.
fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let digits = text.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| text[at] == b'%');
        match byte {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => out.push(byte),
            Some(byte) => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            None => {
                out.push(text[at]);
                at += 1;
                continue;
            }
        }
        at += 3;
    }
    out
}

/// Every byte encoded that Weir never sends in a target.
fn encoded(text: &[u8]) -> String {
    let encode = |&byte: &u8| match byte {
        b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0x80.. => format!("%{byte:02X}"),
        _ => char::from(byte).to_string(),
    };
    text.iter().map(encode).collect()
}

/// A TRACE or OPTIONS that may go no further is answered by Weir (RFC 9110 section 7.6.2), and the session goes on.
fn may_stop_at_the_last_hop(reply: &ReadReply, read: Option<&ReadRequest>) -> bool {
    let last_hop = |request: &ReadRequest| {
        let none_left = |digits: &[u8]| !digits.is_empty() && digits.iter().all(|&digit| digit == b'0');
        matches!(&*request.method, "TRACE" | "OPTIONS")
            && request.field("max-forwards").is_some_and(none_left)
    };
    read.is_some_and(last_hop) && matches!(reply.status, 200 | 405) && reply.field("allow").is_some()
}

/// `hyper` refuses some heads that Weir forwards, such as targets with bytes that its `Uri` does not take. It refuses
/// them from the client as well, and says nothing of what follows.
fn may_be_refused_behind(
    reply: &ReadReply,
    direct: &ReadRequests,
    behind: &ReadRequests,
    index: usize,
) -> bool {
    let by_hyper = matches!(reply.status, 400 | 414 | 431) && !reply.is_own_failure() && behind.refused;
    by_hyper && direct.refused && direct.requests.len() == index
}

/// `hyper` takes a percent sign in Host, but not in the authority of an absolute target, where it came from; and in a
/// target not all of the bytes that Weir encodes.
fn may_be_refused_before(request: &ReadRequest, direct: &ReadRequests, index: usize) -> bool {
    let escaped = request.host.as_ref().is_some_and(|host| host.contains(&b'%'));
    (escaped || request.target.contains('%')) && direct.refused && direct.requests.len() == index
}

/// OPTIONS of an absolute target without a path is about the server as a whole (RFC 9112 section 3.2.4); `hyper` takes
/// the empty path for `/`.
fn may_ask_about_the_server(request: &ReadRequest, read: &ReadRequest) -> bool {
    read.method == "OPTIONS" && read.absolute && read.target == "/" && request.target == "*"
}

/// Only HTTP/1.0 may do without Host, and an HTTP/1.1 server must get one.
fn may_get_a_host(read: &ReadRequest) -> bool {
    read.host.as_ref().is_none_or(Bytes::is_empty)
}

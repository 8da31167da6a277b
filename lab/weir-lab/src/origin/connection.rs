//! One connection as bytes in and bytes out: requests in order, each with its answer, pipelined or not.
//!
//! Knows no socket: the event loop feeds it what arrived and sends what it has ready, and says when work that takes its
//! time begins and is done. While an answer is delayed or larger than the output buffer, it takes no further request
//! (`is_blocked`), which is also its backpressure. After an opening of WebSocket it returns every message as it came.

use std::cell::RefCell;
use std::sync::LazyLock;
use std::time::Duration;

use super::journal::JournalWriter;
use super::pieces::Pieces;
use super::request::{self, OriginMethod, OriginRequest};
use super::{OriginCounters, response_spec};
use crate::clock;
use crate::origin::response_head::{BodyEnd, OriginResponseHead, ReadyHeads};
use crate::origin::response_spec::{BodySource, ResponseFailure, ResponseSpec};
use crate::wire::chunked::ChunkedReader;
use crate::wire::fields::{self, BodyFraming, MalformedHead};
use crate::wire::{checksum, pattern, websocket};

/// Output held before further requests wait, and largest body that is copied rather than streamed, in bytes.
const OUT_MAX: usize = 64 * 1024;

/// The answer to an opening of WebSocket (RFC 6455 4.2.2).
static UPGRADED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n",
        websocket::ACCEPT
    )
});

/// The state that all connections of a loop share.
#[derive(Debug)]
pub(super) struct OriginShared<'a> {
    pub(super) heads: &'a ReadyHeads,
    pub(super) counters: &'a OriginCounters,
    pub(super) journal: Option<&'a RefCell<JournalWriter>>,
}

impl OriginShared<'_> {
    /// Notes something in the journal, if there is one.
    fn note<T>(&self, entry: impl FnOnce(&mut JournalWriter) -> T) -> Option<T> {
        self.journal.map(|journal| entry(&mut journal.borrow_mut()))
    }
}

/// A request whose answer is still owed.
#[derive(Debug, Clone)]
struct PendingResponse {
    spec: ResponseSpec,
    /// How long the work on it takes.
    delay: Duration,
    is_head: bool,
    is_1_1: bool,
    keep_alive: bool,
    body_len: u64,
    crc: crc32fast::Hasher,
    /// Its number in the journal.
    number: Option<u64>,
}

/// A request whose answer takes time.
#[derive(Debug)]
struct DelayedResponse {
    pending: PendingResponse,
    /// The event loop knows of it.
    is_told: bool,
}

#[derive(Debug)]
enum RequestStage {
    /// The next byte begins a request.
    Head,
    /// This many bytes of a request body are to come.
    Body(PendingResponse, u64),
    /// A chunked request body is coming.
    ChunkedBody(PendingResponse, ChunkedReader),
    /// The connection carries WebSocket frames from here on.
    Frames,
}

/// See the module.
#[derive(Debug)]
pub(super) struct OriginConnection {
    state: RequestStage,
    /// Received, not yet read as requests.
    kept: Vec<u8>,
    /// Ready to send; the first `sent` bytes are gone.
    out: Vec<u8>,
    sent: usize,
    /// The rest of a large body: next position and end.
    tail: Option<(u64, u64)>,
    delayed: Option<DelayedResponse>,
    /// The rest of a body that is sent piece by piece.
    pieces: Option<Pieces>,
    /// The event loop has yet to learn of the pause before the next piece.
    pauses: bool,
    /// Nothing more is said on this connection.
    silent: bool,
    closing: bool,
    /// The end is a reset.
    resets: bool,
    /// Requests are kept that a blocked moment left unread.
    stalled: bool,
}

impl OriginConnection {
    pub(super) fn new() -> Self {
        Self {
            state: RequestStage::Head,
            kept: Vec::new(),
            out: Vec::new(),
            sent: 0,
            tail: None,
            delayed: None,
            pieces: None,
            pauses: false,
            silent: false,
            closing: false,
            resets: false,
            stalled: false,
        }
    }

    /// No request is taken before something has been sent or a delay has passed.
    pub(super) fn is_blocked(&self) -> bool {
        let owes = self.delayed.is_some() || self.tail.is_some() || self.pieces.is_some();
        owes || self.out.len() > OUT_MAX || self.closing || self.silent
    }

    /// Nothing will ever be sent again; the client decides when it is over.
    pub(super) fn is_silent(&self) -> bool {
        self.silent
    }

    /// It is to end with a reset.
    pub(super) fn is_reset(&self) -> bool {
        self.resets
    }

    /// There is something to `resume` now.
    pub(super) fn is_resumable(&self) -> bool {
        self.stalled && !self.is_blocked()
    }

    /// How long the work takes on which the next answer, or the next piece of one, depends; said once.
    pub(super) fn take_work(&mut self) -> Option<Duration> {
        if let Some(pieces) = &self.pieces {
            return std::mem::take(&mut self.pauses).then_some(pieces.pause);
        }
        let delayed = self.delayed.as_mut().filter(|delayed| !delayed.is_told)?;
        delayed.is_told = true;
        Some(delayed.pending.delay)
    }

    /// Notes that this work has begun.
    pub(super) fn begin_work(&self, shared: &OriginShared<'_>) {
        if let Some(number) = self.delayed.as_ref().and_then(|delayed| delayed.pending.number) {
            shared.note(|journal| journal.began(number));
        }
    }

    /// Everything is sent and the connection is to be closed.
    pub(super) fn is_finished(&self) -> bool {
        self.closing && self.is_flushed()
    }

    /// Nothing is owed to the client.
    pub(super) fn is_flushed(&self) -> bool {
        self.out.is_empty() && self.tail.is_none() && self.delayed.is_none() && self.pieces.is_none()
    }

    /// Takes arrived bytes.
    pub(super) fn receive(&mut self, bytes: &[u8], shared: &OriginShared<'_>) {
        if self.kept.is_empty() {
            let used = self.read(bytes, shared);
            self.kept.extend_from_slice(&bytes[used..]);
        } else {
            self.kept.extend_from_slice(bytes);
            self.resume(shared);
        }
    }

    /// Continues with the buffered bytes, after having been blocked.
    pub(super) fn resume(&mut self, shared: &OriginShared<'_>) {
        let kept = std::mem::take(&mut self.kept);
        let used = self.read(&kept, shared);
        self.kept = kept;
        self.kept.drain(..used);
    }

    /// Writes the delayed answer, or the next piece of one: the work is done.
    pub(super) fn finish_work(&mut self, shared: &OriginShared<'_>) {
        self.write_piece();
        if let Some(delayed) = self.delayed.take() {
            self.answer(&delayed.pending, shared);
        }
    }

    /// The bytes to send next; empty when there are none.
    pub(super) fn to_send(&self) -> &[u8] {
        if self.out.is_empty()
            && let Some((position, end)) = self.tail
        {
            let len = (end - position).min(pattern::RUN_MAX as u64) as usize;
            return pattern::run(position, len);
        }
        &self.out[self.sent..]
    }

    /// Notes that `len` bytes of `to_send` are gone.
    pub(super) fn advance(&mut self, len: usize) {
        if self.out.is_empty() {
            self.tail = self
                .tail
                .map(|(position, end)| (position + len as u64, end))
                .filter(|(position, end)| position < end);
            return;
        }
        self.sent += len;
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
            match &self.pieces {
                Some(pieces) if pieces.pause.is_zero() => self.write_piece(),
                Some(_) => self.pauses = true,
                None => {}
            }
        }
    }

    fn write_piece(&mut self) {
        if let Some(pieces) = &mut self.pieces
            && pieces.write_next(&mut self.out)
        {
            self.pieces = None;
        }
    }

    /// Reads requests and bodies; says how many bytes were used.
    fn read(&mut self, input: &[u8], shared: &OriginShared<'_>) -> usize {
        let mut at = 0;
        while !self.is_blocked() {
            let rest = &input[at..];
            match std::mem::replace(&mut self.state, RequestStage::Head) {
                RequestStage::Head => match request::read(rest) {
                    Ok(Some(head)) => {
                        at += head.len;
                        self.begin(&head, shared);
                    }
                    Ok(None) => break,
                    Err(rule) => self.refuse(rule, shared),
                },
                RequestStage::Body(mut pending, left) => {
                    let take = left.min(rest.len() as u64);
                    note(&mut pending, &rest[..take as usize]);
                    at += take as usize;
                    if take < left {
                        self.state = RequestStage::Body(pending, left - take);
                        break;
                    }
                    self.finish(pending, shared);
                }
                RequestStage::ChunkedBody(mut pending, mut chunked) => {
                    match chunked.feed(rest, |data| note(&mut pending, data)) {
                        Ok(used) => at += used,
                        Err(rule) => {
                            self.refuse(rule, shared);
                            break;
                        }
                    }
                    if !chunked.is_done() {
                        self.state = RequestStage::ChunkedBody(pending, chunked);
                        break;
                    }
                    self.finish(pending, shared);
                }
                RequestStage::Frames => {
                    self.state = RequestStage::Frames;
                    match websocket::read(rest) {
                        Ok(Some(head)) => {
                            let len = head.len + head.payload_len;
                            self.echo(&head, &rest[head.len..len]);
                            at += len;
                        }
                        Ok(None) => break,
                        Err(_) => self.closing = true,
                    }
                }
            }
        }
        self.stalled = self.is_blocked() && at < input.len();
        at
    }

    /// Returns a message as it came, answers a ping, and ends with the client. What comes unmasked ends it too
    /// (RFC 6455 5.1).
    fn echo(&mut self, head: &websocket::FrameHead, masked: &[u8]) {
        let Some(mask) = head.mask else {
            self.closing = true;
            return;
        };
        let opcode = match head.opcode {
            websocket::PING => websocket::PONG,
            websocket::PONG => return,
            other => other,
        };
        self.closing = opcode == websocket::CLOSE;
        websocket::write(&mut self.out, opcode, head.is_last, None, masked);
        let start = self.out.len() - masked.len();
        websocket::apply(mask, &mut self.out[start..]);
    }

    fn begin(&mut self, head: &OriginRequest<'_>, shared: &OriginShared<'_>) {
        if head.is_opening {
            shared.counters.requests.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.out.extend_from_slice(UPGRADED.as_bytes());
            self.state = RequestStage::Frames;
            return;
        }
        let mut spec = response_spec::read(head.target);
        let delay = shared.counters.draw(&mut spec);
        let pending = PendingResponse {
            spec,
            delay,
            is_1_1: head.is_1_1,
            is_head: head.method == OriginMethod::Head,
            keep_alive: head.keep_alive,
            body_len: 0,
            crc: crc32fast::Hasher::new(),
            number: shared.note(|journal| journal.got(head.target)),
        };
        if head.expects_continue && head.framing != BodyFraming::Unstated {
            self.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        match head.framing {
            BodyFraming::Unstated | BodyFraming::Length(0) => self.finish(pending, shared),
            BodyFraming::Length(len) => self.state = RequestStage::Body(pending, len),
            BodyFraming::Chunked => self.state = RequestStage::ChunkedBody(pending, ChunkedReader::default()),
        }
    }

    fn finish(&mut self, pending: PendingResponse, shared: &OriginShared<'_>) {
        shared.counters.requests.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let is_order = !pending.spec.hang.is_zero();
        if is_order {
            shared.counters.hang(pending.spec.hang);
        }
        if is_order || (pending.delay.is_zero() && shared.counters.hang_left().is_zero()) {
            self.answer(&pending, shared);
        } else {
            self.delayed = Some(DelayedResponse { pending, is_told: false });
        }
    }

    fn answer(&mut self, pending: &PendingResponse, shared: &OriginShared<'_>) {
        if let Some(number) = pending.number {
            shared.note(|journal| journal.done(number));
        }
        clock::burn(shared.counters.burn);
        if pending.spec == response_spec::PAGE && pending.keep_alive && !pending.is_head {
            self.out.extend_from_slice(shared.heads.page());
            return;
        }
        clock::burn(pending.spec.burn);
        self.closing = !pending.keep_alive;
        if let Some(failure) = pending.spec.failure
            && !self.goes_on(failure, shared)
        {
            return;
        }
        match pending.spec.content {
            BodySource::Pattern(len) => self.answer_pattern(pending, len, shared),
            BodySource::Checksum => {
                let line = checksum::line(pending.body_len, pending.crc.clone().finalize());
                self.answer_text(pending, "text/plain", &line, shared);
            }
            BodySource::Counters => {
                let seen = shared.counters;
                let (accepted, open, requests) = (seen.accepted(), seen.open(), seen.requests());
                let json = format!("{{\"accepted\":{accepted},\"open\":{open},\"requests\":{requests}}}\n");
                self.answer_text(pending, "application/json", &json, shared);
            }
        }
    }

    /// Begins to go wrong; says whether an answer follows at all.
    fn goes_on(&mut self, failure: ResponseFailure, shared: &OriginShared<'_>) -> bool {
        self.closing = failure != ResponseFailure::Silence;
        self.resets = matches!(failure, ResponseFailure::Reset | ResponseFailure::TruncateReset);
        match failure {
            ResponseFailure::Close | ResponseFailure::Reset => {}
            ResponseFailure::Silence => self.silent = true,
            ResponseFailure::Head => {
                let page = shared.heads.page();
                let head = fields::head_len(page).unwrap_or(page.len());
                self.out.extend_from_slice(&page[..head / 2]);
            }
            ResponseFailure::Garbage => self.out.extend_from_slice(b"\x00\xffthis is not HTTP\r\n\r\n"),
            ResponseFailure::Truncate | ResponseFailure::TruncateReset => return true,
        }
        false
    }

    fn answer_pattern(&mut self, pending: &PendingResponse, len: u64, shared: &OriginShared<'_>) {
        let spec = &pending.spec;
        self.write_head(pending, "text/html", len, shared);
        if !has_body(pending) {
            return;
        }
        let chunk = spec.chunk.filter(|_| pending.is_1_1);
        let pieces = Pieces::new(len, chunk, spec.drip);
        if spec.failure.is_some() {
            self.pieces = Some(pieces.cut());
        } else if chunk.is_some() || !spec.drip.is_zero() {
            self.pieces = Some(pieces);
        } else if len <= OUT_MAX as u64 {
            self.out.extend_from_slice(pattern::run(0, len as usize));
        } else {
            self.tail = Some((0, len));
        }
    }

    fn answer_text(
        &mut self,
        pending: &PendingResponse,
        content_type: &'static str,
        text: &str,
        shared: &OriginShared<'_>,
    ) {
        self.write_head(pending, content_type, text.len() as u64, shared);
        if has_body(pending) {
            self.out.extend_from_slice(text.as_bytes());
        }
    }

    fn write_head(
        &mut self,
        pending: &PendingResponse,
        content_type: &'static str,
        len: u64,
        shared: &OriginShared<'_>,
    ) {
        let status = pending.spec.status;
        let keep_alive = pending.keep_alive;
        let is_pattern = matches!(pending.spec.content, BodySource::Pattern(_));
        let length = match (status, pending.spec.chunk.filter(|_| pending.is_1_1 && is_pattern)) {
            (204, _) => BodyEnd::Unstated,
            (_, Some(_)) => BodyEnd::Chunked,
            (_, None) => BodyEnd::Bytes(len),
        };
        shared
            .heads
            .write_head(&mut self.out, OriginResponseHead { status, content_type, length, keep_alive });
    }

    fn refuse(&mut self, rule: MalformedHead, shared: &OriginShared<'_>) {
        let pending = PendingResponse {
            spec: ResponseSpec { status: 400, ..response_spec::PAGE },
            delay: Duration::ZERO,
            is_head: false,
            is_1_1: true,
            keep_alive: false,
            body_len: 0,
            crc: crc32fast::Hasher::new(),
            number: None,
        };
        self.closing = true;
        self.answer_text(&pending, "text/plain", &format!("{rule}\n"), shared);
    }
}

/// RFC 9110 6.4.1: no content in answers to HEAD, in 204 and in 304.
fn has_body(pending: &PendingResponse) -> bool {
    !pending.is_head && !matches!(pending.spec.status, 204 | 304)
}

/// Takes a piece of the request body into account.
fn note(pending: &mut PendingResponse, data: &[u8]) {
    pending.body_len += data.len() as u64;
    if pending.spec.content == BodySource::Checksum {
        pending.crc.update(data);
    }
}

//! One connection as bytes in and bytes out: requests in order, each with its answer, pipelined or not.
//!
//! Knows no socket: the event loop feeds it what arrived and sends what it has ready, and says when work that takes its
//! time begins and is done. While an answer is delayed or larger than the output buffer, it takes no further request
//! (`is_blocked`), which is also its backpressure. After an opening of WebSocket it returns every message as it came.

use std::cell::RefCell;
use std::sync::LazyLock;
use std::time::Duration;

use super::Counters;
use super::answer::{Length, Shape, Stock};
use super::journal::Writer;
use super::pieces::Pieces;
use super::request::{self, Head, Method};
use super::wish::{self, Content, Failure, Wish};
use crate::clock;
use crate::wire::chunked::Chunked;
use crate::wire::fields::{self, Framing, Malformed};
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

/// What every connection of a loop shares.
#[derive(Debug)]
pub(super) struct Desk<'a> {
    pub(super) stock: &'a Stock,
    pub(super) counters: &'a Counters,
    pub(super) journal: Option<&'a RefCell<Writer>>,
}

impl Desk<'_> {
    /// Notes something in the journal, if there is one.
    fn note<T>(&self, entry: impl FnOnce(&mut Writer) -> T) -> Option<T> {
        self.journal.map(|journal| entry(&mut journal.borrow_mut()))
    }
}

/// A request whose answer is still owed.
#[derive(Debug, Clone)]
struct Owed {
    wish: Wish,
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
struct Delayed {
    owed: Owed,
    /// The event loop has been told of it.
    is_told: bool,
}

#[derive(Debug)]
enum State {
    /// The next byte begins a request.
    Head,
    /// So many bytes of a request body are to come.
    Body(Owed, u64),
    /// A chunked request body is coming.
    ChunkedBody(Owed, Chunked),
    /// The connection carries WebSocket frames from here on.
    Frames,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Connection {
    state: State,
    /// Received, not yet read as requests.
    kept: Vec<u8>,
    /// Ready to send; the first `sent` bytes are gone.
    out: Vec<u8>,
    sent: usize,
    /// The rest of a large body: next position and end.
    tail: Option<(u64, u64)>,
    delayed: Option<Delayed>,
    /// The rest of a body that is sent piece by piece.
    pieces: Option<Pieces>,
    /// The event loop is to be told of the pause before the next piece.
    pauses: bool,
    /// Nothing more is said on this connection.
    silent: bool,
    closing: bool,
    /// The end is a reset.
    resets: bool,
    /// Requests are kept that a blocked moment left unread.
    stalled: bool,
}

impl Connection {
    pub(super) fn new() -> Self {
        Self {
            state: State::Head,
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
        Some(delayed.owed.delay)
    }

    /// Notes that this work has begun.
    pub(super) fn begin_work(&self, desk: &Desk<'_>) {
        if let Some(number) = self.delayed.as_ref().and_then(|delayed| delayed.owed.number) {
            desk.note(|journal| journal.began(number));
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

    /// Takes what arrived.
    pub(super) fn receive(&mut self, bytes: &[u8], desk: &Desk<'_>) {
        if self.kept.is_empty() {
            let used = self.read(bytes, desk);
            self.kept.extend_from_slice(&bytes[used..]);
        } else {
            self.kept.extend_from_slice(bytes);
            self.resume(desk);
        }
    }

    /// Reads on in what is kept, after having been blocked.
    pub(super) fn resume(&mut self, desk: &Desk<'_>) {
        let kept = std::mem::take(&mut self.kept);
        let used = self.read(&kept, desk);
        self.kept = kept;
        self.kept.drain(..used);
    }

    /// Writes the delayed answer, or the next piece of one: the work is done.
    pub(super) fn finish_work(&mut self, desk: &Desk<'_>) {
        self.write_piece();
        if let Some(delayed) = self.delayed.take() {
            self.answer(&delayed.owed, desk);
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
    fn read(&mut self, input: &[u8], desk: &Desk<'_>) -> usize {
        let mut at = 0;
        while !self.is_blocked() {
            let rest = &input[at..];
            match std::mem::replace(&mut self.state, State::Head) {
                State::Head => match request::read(rest) {
                    Ok(Some(head)) => {
                        at += head.len;
                        self.begin(&head, desk);
                    }
                    Ok(None) => break,
                    Err(rule) => self.refuse(rule, desk),
                },
                State::Body(mut owed, left) => {
                    let take = left.min(rest.len() as u64);
                    note(&mut owed, &rest[..take as usize]);
                    at += take as usize;
                    if take < left {
                        self.state = State::Body(owed, left - take);
                        break;
                    }
                    self.finish(owed, desk);
                }
                State::ChunkedBody(mut owed, mut chunked) => {
                    match chunked.feed(rest, |data| note(&mut owed, data)) {
                        Ok(used) => at += used,
                        Err(rule) => {
                            self.refuse(rule, desk);
                            break;
                        }
                    }
                    if !chunked.is_done() {
                        self.state = State::ChunkedBody(owed, chunked);
                        break;
                    }
                    self.finish(owed, desk);
                }
                State::Frames => {
                    self.state = State::Frames;
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
    fn echo(&mut self, head: &websocket::Head, masked: &[u8]) {
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

    fn begin(&mut self, head: &Head<'_>, desk: &Desk<'_>) {
        if head.is_opening {
            desk.counters.requests.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.out.extend_from_slice(UPGRADED.as_bytes());
            self.state = State::Frames;
            return;
        }
        let mut wish = wish::read(head.target);
        let delay = desk.counters.draw(&mut wish);
        let owed = Owed {
            wish,
            delay,
            is_1_1: head.is_1_1,
            is_head: head.method == Method::Head,
            keep_alive: head.keep_alive,
            body_len: 0,
            crc: crc32fast::Hasher::new(),
            number: desk.note(|journal| journal.got(head.target)),
        };
        if head.expects_continue && head.framing != Framing::Unstated {
            self.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        match head.framing {
            Framing::Unstated | Framing::Length(0) => self.finish(owed, desk),
            Framing::Length(len) => self.state = State::Body(owed, len),
            Framing::Chunked => self.state = State::ChunkedBody(owed, Chunked::default()),
        }
    }

    fn finish(&mut self, owed: Owed, desk: &Desk<'_>) {
        desk.counters.requests.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let is_order = !owed.wish.hang.is_zero();
        if is_order {
            desk.counters.hang(owed.wish.hang);
        }
        if is_order || (owed.delay.is_zero() && desk.counters.hang_left().is_zero()) {
            self.answer(&owed, desk);
        } else {
            self.delayed = Some(Delayed { owed, is_told: false });
        }
    }

    fn answer(&mut self, owed: &Owed, desk: &Desk<'_>) {
        if let Some(number) = owed.number {
            desk.note(|journal| journal.done(number));
        }
        clock::burn(desk.counters.burn);
        if owed.wish == wish::PAGE && owed.keep_alive && !owed.is_head {
            self.out.extend_from_slice(desk.stock.page());
            return;
        }
        clock::burn(owed.wish.burn);
        self.closing = !owed.keep_alive;
        if let Some(failure) = owed.wish.failure
            && !self.goes_on(failure, desk)
        {
            return;
        }
        match owed.wish.content {
            Content::Pattern(len) => self.answer_pattern(owed, len, desk),
            Content::Checksum => {
                let line = checksum::line(owed.body_len, owed.crc.clone().finalize());
                self.answer_text(owed, "text/plain", &line, desk);
            }
            Content::Counters => {
                let seen = desk.counters;
                let (accepted, open, requests) = (seen.accepted(), seen.open(), seen.requests());
                let json = format!("{{\"accepted\":{accepted},\"open\":{open},\"requests\":{requests}}}\n");
                self.answer_text(owed, "application/json", &json, desk);
            }
        }
    }

    /// Begins to go wrong; says whether an answer follows at all.
    fn goes_on(&mut self, failure: Failure, desk: &Desk<'_>) -> bool {
        self.closing = failure != Failure::Silence;
        self.resets = matches!(failure, Failure::Reset | Failure::TruncateReset);
        match failure {
            Failure::Close | Failure::Reset => {}
            Failure::Silence => self.silent = true,
            Failure::Head => {
                let page = desk.stock.page();
                let head = fields::head_len(page).unwrap_or(page.len());
                self.out.extend_from_slice(&page[..head / 2]);
            }
            Failure::Garbage => self.out.extend_from_slice(b"\x00\xffthis is not HTTP\r\n\r\n"),
            Failure::Truncate | Failure::TruncateReset => return true,
        }
        false
    }

    fn answer_pattern(&mut self, owed: &Owed, len: u64, desk: &Desk<'_>) {
        let wish = &owed.wish;
        self.write_head(owed, "text/html", len, desk);
        if !has_body(owed) {
            return;
        }
        let chunk = wish.chunk.filter(|_| owed.is_1_1);
        let pieces = Pieces::new(len, chunk, wish.drip);
        if wish.failure.is_some() {
            self.pieces = Some(pieces.cut());
        } else if chunk.is_some() || !wish.drip.is_zero() {
            self.pieces = Some(pieces);
        } else if len <= OUT_MAX as u64 {
            self.out.extend_from_slice(pattern::run(0, len as usize));
        } else {
            self.tail = Some((0, len));
        }
    }

    fn answer_text(&mut self, owed: &Owed, content_type: &'static str, text: &str, desk: &Desk<'_>) {
        self.write_head(owed, content_type, text.len() as u64, desk);
        if has_body(owed) {
            self.out.extend_from_slice(text.as_bytes());
        }
    }

    fn write_head(&mut self, owed: &Owed, content_type: &'static str, len: u64, desk: &Desk<'_>) {
        let status = owed.wish.status;
        let keep_alive = owed.keep_alive;
        let is_pattern = matches!(owed.wish.content, Content::Pattern(_));
        let length = match (status, owed.wish.chunk.filter(|_| owed.is_1_1 && is_pattern)) {
            (204, _) => Length::Unstated,
            (_, Some(_)) => Length::Chunked,
            (_, None) => Length::Bytes(len),
        };
        desk.stock.write_head(&mut self.out, Shape { status, content_type, length, keep_alive });
    }

    fn refuse(&mut self, rule: Malformed, desk: &Desk<'_>) {
        let owed = Owed {
            wish: Wish { status: 400, ..wish::PAGE },
            delay: Duration::ZERO,
            is_head: false,
            is_1_1: true,
            keep_alive: false,
            body_len: 0,
            crc: crc32fast::Hasher::new(),
            number: None,
        };
        self.closing = true;
        self.answer_text(&owed, "text/plain", &format!("{rule}\n"), desk);
    }
}

/// RFC 9110 6.4.1: no content in answers to HEAD, in 204 and in 304.
fn has_body(owed: &Owed) -> bool {
    !owed.is_head && !matches!(owed.wish.status, 204 | 304)
}

/// Takes a piece of the request body into account.
fn note(owed: &mut Owed, data: &[u8]) {
    owed.body_len += data.len() as u64;
    if owed.wish.content == Content::Checksum {
        owed.crc.update(data);
    }
}

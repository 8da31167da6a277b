//! A client of HTTP/2 in a random schedule: it opens streams, reads, opens windows, answers pings, and follows GOAWAY.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::{ANY_STREAM, Draw};
use crate::net::clock::{self, Instant};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// `:status: 200` of the static table (RFC 7541 appendix A).
const STATUS_200: u8 = 0x88;

/// Streams that it opens at most, and the time in which it does.
const STREAMS_MAX: u64 = 14;
const OPENING_TIME: Duration = Duration::from_millis(4_500);

/// What a stream asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamKind {
    /// A short response.
    Short,
    /// A long one, which is limited in its bandwidth.
    ExchangeLimits,
    /// An echo, by extended CONNECT (RFC 8441).
    Tunnel,
}

impl StreamKind {
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Short => "/short",
            Self::ExchangeLimits => "/limited",
            Self::Tunnel => "/tunnel",
        }
    }
}

/// One of its streams.
pub(super) struct BrowserStream {
    pub(super) id: u32,
    pub(super) kind: StreamKind,
    /// Whether it was opened although the client knew that no more streams are taken.
    pub(super) is_beyond_end: bool,
    /// Whether its response is a success.
    pub(super) was_answered: bool,
    pub(super) got: Vec<u8>,
    pub(super) sent: Vec<u8>,
    pub(super) has_ended: bool,
    /// Whether the client has ended its direction.
    is_sent: bool,
    pub(super) reset: Option<u32>,
    /// Bytes of its window that were not given back yet.
    owed: u32,
}

impl std::fmt::Debug for BrowserStream {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { id, kind, is_beyond_end, was_answered, got, sent, has_ended, is_sent, reset, .. } = self;
        write!(out, "{id} {kind:?} beyond={is_beyond_end} answered={was_answered} got={} ", got.len())?;
        write!(out, "sent={} ended={has_ended},{is_sent} reset={reset:?}", sent.len())
    }
}

/// Something that the client does at its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Open(StreamKind),
    /// Sends more into a tunnel, or ends it.
    Send(usize),
    /// Gives windows back.
    GiveBack,
    Pong([u8; 8]),
}

/// The client.
#[derive(Debug)]
pub(super) struct Browser {
    socket: UnixStream,
    draw: Draw,
    input: Vec<u8>,
    /// All that has come.
    pub(super) received: Vec<u8>,
    output: Vec<u8>,
    steps: Vec<(Instant, Step)>,
    pub(super) streams: Vec<BrowserStream>,
    /// Bytes of the connection's window that were not given back yet.
    owed: u32,
    /// The last streams of the GOAWAYs, and when they came.
    pub(super) goaways: Vec<(Instant, u32)>,
    /// When it has answered the ping behind the first of them.
    pub(super) ponged_at: Option<Instant>,
    is_over: bool,
}

impl std::fmt::Debug for Draw {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.0)
    }
}

impl Browser {
    pub(super) fn new(socket: UnixStream, mut draw: Draw) -> Self {
        socket.set_nonblocking(true).expect("it can be set");
        let mut output = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        put_frame(&mut output, SETTINGS, 0, 0, &[]);
        let now = clock::now();
        let count = 1 + draw.below(STREAMS_MAX);
        let steps = (0..count).map(|_| {
            let kind =
                [StreamKind::Short, StreamKind::ExchangeLimits, StreamKind::Tunnel][draw.below(3) as usize];
            (now + draw.time_below(OPENING_TIME), Step::Open(kind))
        });
        let steps = steps.collect();
        Self {
            socket,
            draw,
            input: Vec::new(),
            received: Vec::new(),
            output,
            steps,
            streams: Vec::new(),
            owed: 0,
            goaways: Vec::new(),
            ponged_at: None,
            is_over: false,
        }
    }

    /// When it does something next by itself.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.steps.iter().map(|(at, _)| *at).min()
    }

    /// Whether Weir has closed the connection.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Bytes of responses that are limited.
    pub(super) fn limited_bytes(&self) -> u64 {
        let limited = self.streams.iter().filter(|stream| stream.kind == StreamKind::ExchangeLimits);
        limited.map(|stream| stream.got.len() as u64).sum()
    }

    /// The last stream that was opened before the end was final.
    pub(super) fn last_stream_before_end(&self) -> u32 {
        let before = self.streams.iter().rfind(|stream| !stream.is_beyond_end);
        before.map_or(0, |stream| stream.id)
    }

    /// Does what is due.
    pub(super) fn act(&mut self) {
        let now = clock::now();
        while let Some(at) = self.steps.iter().position(|(at, _)| *at <= now) {
            match self.steps.swap_remove(at).1 {
                Step::Open(kind) => self.open(kind),
                Step::Send(stream) => self.send(stream),
                Step::GiveBack => self.give_back(),
                Step::Pong(payload) => {
                    put_frame(&mut self.output, PING, ACK, 0, &payload);
                    // Others measure the round trip.
                    if payload == *b"goodbye!" {
                        self.ponged_at = Some(now);
                    }
                }
            }
        }
    }

    fn later(&mut self, within: Duration, step: Step) {
        let at = clock::now() + Duration::from_millis(1) + self.draw.time_below(within);
        self.steps.push((at, step));
    }

    fn open(&mut self, kind: StreamKind) {
        let is_beyond_end = self.goaways.len() > 1;
        // Most follow the GOAWAY; one that does not gets no answer.
        if is_beyond_end && self.draw.below(2) == 0 {
            return;
        }
        let id = 1 + 2 * self.streams.len() as u32;
        let method = if kind == StreamKind::Tunnel { "CONNECT" } else { "GET" };
        let (path, mut block) = (kind.path(), Vec::new());
        for (name, value) in
            [(":method", method), (":scheme", "http"), (":path", path), (":authority", "a.test")]
        {
            put_field(&mut block, name, value);
        }
        if kind == StreamKind::Tunnel {
            put_field(&mut block, ":protocol", "websocket");
        }
        // Servers repeat it.
        put_field(&mut block, "x-id", &id.to_string());
        let flags = END_HEADERS | if kind == StreamKind::Tunnel { 0 } else { END_STREAM };
        put_frame(&mut self.output, HEADERS, flags, id, &block);
        let place = self.streams.len();
        self.streams.push(BrowserStream {
            id,
            kind,
            is_beyond_end,
            was_answered: false,
            got: Vec::new(),
            sent: Vec::new(),
            has_ended: false,
            is_sent: kind != StreamKind::Tunnel,
            reset: None,
            owed: 0,
        });
        if kind == StreamKind::Tunnel && !is_beyond_end {
            self.later(Duration::from_millis(300), Step::Send(place));
        }
    }

    /// Sends some bytes into a tunnel, which are bytes of no other place, or ends it.
    fn send(&mut self, place: usize) {
        let len = self.draw.below(3_000) as usize;
        let is_last = self.draw.below(5) == 0;
        let stream = &mut self.streams[place];
        if stream.is_sent || stream.reset.is_some() {
            return;
        }
        // What the echo brings back has to be read in time, so a tunnel never uses its windows up.
        let len = len.min(60_000_usize.saturating_sub(stream.sent.len()));
        let start = stream.sent.len();
        stream.sent.extend((start..start + len).map(|at| (at % 251) as u8 ^ place as u8));
        let bytes = stream.sent[start..].to_vec();
        let (id, is_last) = (stream.id, is_last || stream.sent.len() >= 60_000);
        stream.is_sent = is_last;
        put_frame(&mut self.output, DATA, if is_last { END_STREAM } else { 0 }, id, &bytes);
        if !is_last {
            self.later(Duration::from_millis(600), Step::Send(place));
        }
    }

    fn give_back(&mut self) {
        let owed = std::mem::take(&mut self.owed);
        if owed > 0 {
            put_frame(&mut self.output, WINDOW_UPDATE, 0, 0, &owed.to_be_bytes());
        }
        for stream in &mut self.streams {
            let owed = std::mem::take(&mut stream.owed);
            if owed > 0 && !stream.has_ended {
                put_frame(&mut self.output, WINDOW_UPDATE, 0, stream.id, &owed.to_be_bytes());
            }
        }
    }

    /// Reads and writes what there is; whether anything has moved.
    pub(super) fn turn(&mut self) -> bool {
        let mut moved = false;
        while !self.output.is_empty() && !self.is_over {
            match self.socket.write(&self.output) {
                Ok(len) => moved = self.output.drain(..len).len() > 0,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // Weir has closed: what was sent beyond the end is lost.
                Err(_) => self.output.clear(),
            }
        }
        let mut buf = [0; 16 * 1024];
        while !self.is_over {
            match self.socket.read(&mut buf) {
                Ok(0) => self.end(),
                Ok(len) => {
                    self.input.extend_from_slice(&buf[..len]);
                    self.received.extend_from_slice(&buf[..len]);
                    self.take_frames();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("the connection was broken: {error}"),
            }
            moved = true;
        }
        moved
    }

    /// Weir has ended the connection, and the client follows.
    fn end(&mut self) {
        self.is_over = true;
        self.steps.clear();
        let _gone = self.socket.shutdown(std::net::Shutdown::Both);
    }

    fn take_frames(&mut self) {
        while self.input.len() >= 9 {
            let len = usize::from(self.input[0]) << 16
                | usize::from(self.input[1]) << 8
                | usize::from(self.input[2]);
            if self.input.len() < 9 + len {
                return;
            }
            let frame: Vec<u8> = self.input.drain(..9 + len).collect();
            let id = u32::from_be_bytes([frame[5], frame[6], frame[7], frame[8]]);
            self.take_frame(frame[3], frame[4], id, &frame[9..]);
        }
    }

    fn take_frame(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) {
        let number =
            |at: usize| u32::from_be_bytes([payload[at], payload[at + 1], payload[at + 2], payload[at + 3]]);
        match kind {
            SETTINGS if flags & ACK == 0 => put_frame(&mut self.output, SETTINGS, ACK, 0, &[]),
            PING if flags & ACK == 0 => {
                let payload = payload.try_into().expect("it has eight bytes");
                // Some clients take longer than Weir waits.
                self.later(Duration::from_millis(3_000), Step::Pong(payload));
            }
            GOAWAY => {
                assert_eq!(number(4), 0, "the connection was ended for a fault");
                self.goaways.push((clock::now(), number(0)));
                assert!(self.goaways.len() > 1 || number(0) == ANY_STREAM, "the end was not announced");
            }
            HEADERS => {
                let stream = self.stream(id);
                assert!(!stream.was_answered && !stream.has_ended, "a second head on {stream:?}");
                assert_eq!(first_line(payload), Some(STATUS_200), "{stream:?}");
                stream.was_answered = true;
                stream.has_ended = flags & END_STREAM != 0;
            }
            DATA => {
                let stream = self.stream(id);
                assert!(stream.was_answered && !stream.has_ended, "DATA on {stream:?}");
                stream.got.extend_from_slice(payload);
                stream.has_ended = flags & END_STREAM != 0;
                stream.owed += payload.len() as u32;
                self.owed += payload.len() as u32;
                if !self.steps.iter().any(|(_, step)| *step == Step::GiveBack) {
                    self.later(Duration::from_millis(200), Step::GiveBack);
                }
            }
            RST_STREAM => self.stream(id).reset = Some(number(0)),
            _ => {}
        }
    }

    fn stream(&mut self, id: u32) -> &mut BrowserStream {
        &mut self.streams[(id as usize - 1) / 2]
    }
}

fn put_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// A field as a literal that enters no table (RFC 7541 section 6.2.2).
fn put_field(block: &mut Vec<u8>, name: &str, value: &str) {
    block.extend_from_slice(&[0, name.len() as u8]);
    block.extend_from_slice(name.as_bytes());
    block.push(value.len() as u8);
    block.extend_from_slice(value.as_bytes());
}

/// The byte that the first line of a block begins with, behind changes of the size of the table (RFC 7541 section 6.3).
fn first_line(mut block: &[u8]) -> Option<u8> {
    loop {
        let (first, mut rest) = block.split_first()?;
        if first & 0xe0 != 0x20 {
            return Some(*first);
        }
        if first & 0x1f == 0x1f {
            // The number goes on, seven bits in each byte.
            let last = rest.iter().position(|byte| byte & 0x80 == 0)?;
            rest = &rest[last + 1..];
        }
        block = rest;
    }
}

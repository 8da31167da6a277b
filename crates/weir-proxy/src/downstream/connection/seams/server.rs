//! A server: it takes requests, and answers each as was planned, packet by packet.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use rustls::ServerConfig;
use tempfile::TempDir;

use super::client::Reading;
use super::script::{Content, Framing, Part, Sender, Shape};
use super::tls;
use super::wire::{
    self, ACK, BEGIN_REQUEST, DATA, END_STREAM, HEADERS, Http1Message, PARAMS, PING, PREFACE, Pipe,
    RST_STREAM, SETTINGS, STDIN, WINDOW, WINDOW_UPDATE,
};

/// Bytes that a slow reader takes at a time.
const STEP: usize = 20_000;

/// The window that a slow server of HTTP/2 gives each stream.
const NARROW_WINDOW: u32 = 10_000;

/// How a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speech {
    Length,
    Chunked,
    UntilClose,
    Http2,
    Fastcgi,
}

impl Speech {
    /// The protocol of its upstream.
    pub(super) fn protocol(self, has_tls: bool) -> &'static str {
        match self {
            Self::Http2 if has_tls => "h2",
            Self::Http2 => "h2c",
            Self::Fastcgi => "fastcgi",
            _ => "http1",
        }
    }

    /// What it agrees on with TLS.
    pub(super) fn application_protocol(self) -> &'static [u8] {
        if self == Self::Http2 { b"h2" } else { b"http/1.1" }
    }
}

/// How one request is answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) status: u16,
    pub(super) fields: &'static [(&'static str, &'static str)],
    pub(super) shape: Shape,
    pub(super) content: Content,
    /// Whether it does not wait for the body of the request.
    pub(super) is_early: bool,
}

/// The length of the body that is sent unless something else was planned.
pub(super) const SHORT_LEN: usize = 2;

const SHORT: Plan = Plan {
    status: 200,
    fields: &[],
    shape: Shape { name: "short", packets: &[&[Part::Head, Part::Last(SHORT_LEN)]] },
    content: Content::Salted(0),
    is_early: false,
};

/// A request, as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) body: Vec<u8>,
    pub(super) is_whole: bool,
}

/// A request and its response.
struct Stream {
    id: u32,
    request: Received,
    plan: Plan,
    reply: Option<Sender>,
}

struct Conn {
    pipe: Pipe,
    speech: Speech,
    reading: Reading,
    streams: Vec<Stream>,
    has_begun: bool,
    /// The last stream of HTTP/2: what comes on an earlier one is the rest of a request that was answered early.
    last_stream: u32,
    /// Room in the window of the connection.
    window: i64,
    keeps_open: bool,
}

pub(super) struct Server {
    speech: Speech,
    tls: Option<Arc<ServerConfig>>,
    folder: TempDir,
    listener: UnixListener,
    conns: Vec<Conn>,
    /// How the next requests are answered.
    pub(super) plans: VecDeque<Plan>,
    pub(super) reading: Reading,
    /// Requests in all.
    pub(super) count: usize,
    /// What has come of those that are over.
    pub(super) received: Vec<Received>,
}

impl Server {
    pub(super) fn listen(speech: Speech, tls: Option<Arc<ServerConfig>>) -> Self {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let listener = UnixListener::bind(folder.path().join("server")).expect("the folder is new");
        listener.set_nonblocking(true).expect("it can be set");
        let (conns, plans, reading) = (Vec::new(), VecDeque::new(), Reading::AtOnce);
        Self { speech, tls, folder, listener, conns, plans, reading, count: 0, received: Vec::new() }
    }

    pub(super) fn path(&self) -> String {
        self.folder.path().join("server").to_str().expect("it has a plain name").to_owned()
    }

    /// Whether a request was not answered whole.
    pub(super) fn is_busy(&self) -> bool {
        self.conns.iter().any(|conn| !conn.streams.is_empty())
    }

    /// A new case begins: what is left of the last one ends.
    pub(super) fn begin(&mut self, reading: Reading, plans: &[Plan]) {
        self.conns.retain(|conn| conn.streams.is_empty() && conn.reading == reading && !conn.pipe.has_ended);
        (self.reading, self.count) = (reading, 0);
        self.plans = plans.iter().copied().collect();
        self.received.clear();
    }

    /// Sends the next packet, or reads some bytes; whether there was anything to do.
    pub(super) fn release(&mut self) -> bool {
        self.conns.iter_mut().any(Conn::release)
    }

    /// Does what needs no time; whether anything has moved.
    pub(super) fn turn(&mut self) -> bool {
        let mut moved = false;
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => {
                    let pipe = Pipe::new(socket, self.tls.as_ref().map(tls::accepted));
                    self.conns.push(Conn::new(pipe, self.speech, self.reading));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("no connection can be taken: {error}"),
            }
            moved = true;
        }
        let Self { conns, plans, count, received, .. } = self;
        let mut next_plan = || {
            *count += 1;
            plans.pop_front().unwrap_or(SHORT)
        };
        for conn in &mut *conns {
            moved |= conn.turn(&mut next_plan, received);
        }
        conns.retain(|conn| !conn.pipe.has_ended);
        moved
    }
}

impl Conn {
    fn new(pipe: Pipe, speech: Speech, reading: Reading) -> Self {
        let (streams, window) = (Vec::new(), WINDOW);
        Self { pipe, speech, reading, streams, has_begun: false, last_stream: 0, window, keeps_open: true }
    }

    fn release(&mut self) -> bool {
        if let Some(reply) = self
            .streams
            .iter_mut()
            .find_map(|stream| stream.reply.as_mut().filter(|reply| reply.has_packet()))
        {
            reply.release(&mut self.pipe.output, &mut self.window);
            return true;
        }
        self.reading == Reading::Slowly && !self.pipe.is_shaking() && self.pipe.read(STEP)
    }

    fn turn(&mut self, next_plan: &mut impl FnMut() -> Plan, received: &mut Vec<Received>) -> bool {
        if self.pipe.is_shaking() {
            return self.pipe.shake();
        }
        let mut moved = self.reading != Reading::Slowly && self.pipe.read(usize::MAX);
        match self.speech {
            Speech::Http2 => self.take_frames(next_plan, received),
            Speech::Fastcgi => self.take_records(next_plan),
            _ => self.take_http1(next_plan),
        }
        self.answer();
        moved |= self.pipe.write();
        let (mut closes, mut is_cut) = (self.pipe.has_ended, false);
        for stream in self.streams.extract_if(.., |stream| {
            stream.reply.as_ref().is_some_and(|reply| reply.is_sent()) && self.pipe.is_sent()
                || self.pipe.has_ended
        }) {
            // What is left of a request that was answered early is no other request.
            let is_answered_early = self.speech != Speech::Http2 && !stream.request.is_whole;
            is_cut |= stream.reply.as_ref().is_some_and(|reply| reply.was_cut);
            closes |= stream.reply.is_some_and(|reply| reply.closes) || !self.keeps_open || is_answered_early;
            received.push(stream.request);
            moved = true;
        }
        match closes && self.pipe.is_sent() {
            true if is_cut => self.pipe.cut(),
            true => self.pipe.close(),
            false => {}
        }
        moved
    }

    /// Begins the replies that can begin.
    fn answer(&mut self) {
        for stream in &mut self.streams {
            if stream.reply.is_some() || !(stream.request.is_whole || stream.plan.is_early) {
                continue;
            }
            let Plan { status, fields, shape, content, .. } = stream.plan;
            let framing = match self.speech {
                Speech::Length => Framing::Length,
                Speech::Chunked => Framing::Chunked,
                Speech::UntilClose => Framing::UntilClose,
                Speech::Http2 => Framing::Http2(stream.id),
                Speech::Fastcgi => Framing::Fastcgi,
            };
            let mut block = Vec::new();
            if self.speech == Speech::Http2 {
                wire::put_field(&mut block, ":status", &status.to_string());
                fields.iter().for_each(|(name, value)| wire::put_field(&mut block, name, value));
            } else {
                let first = if self.speech == Speech::Fastcgi { "Status:" } else { "HTTP/1.1" };
                let mut head = format!("{first} {status} OK\r\n");
                fields.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
                match self.speech {
                    Speech::Length => head.push_str(&format!("Content-Length: {}\r\n", shape.announced())),
                    Speech::Chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
                    _ => {}
                }
                block = format!("{head}\r\n").into_bytes();
            }
            stream.reply = Some(Sender::new(framing, block, (shape, content), WINDOW));
        }
    }

    fn begin_stream(&mut self, id: u32, plan: Plan) -> &mut Stream {
        self.streams.push(Stream { id, request: Received::default(), plan, reply: None });
        self.streams.last_mut().expect("it was just added")
    }

    fn take_http1(&mut self, next_plan: &mut impl FnMut() -> Plan) {
        let Some(message) = Http1Message::read(&self.pipe.input, true, false) else { return };
        if self.streams.is_empty() {
            self.begin_stream(0, next_plan());
        }
        let Some(stream) = self.streams.first_mut().filter(|stream| !stream.request.is_whole) else { return };
        stream.request = Received { body: message.body, is_whole: message.is_whole };
        if message.is_whole {
            self.pipe.input.drain(..message.len);
        }
    }

    fn take_records(&mut self, next_plan: &mut impl FnMut() -> Plan) {
        while let Some((kind, content)) = wire::take_record(&mut self.pipe.input) {
            match kind {
                BEGIN_REQUEST => self.keeps_open = content[2] == 1,
                PARAMS if content.is_empty() => drop(self.begin_stream(0, next_plan())),
                STDIN => {
                    let request = &mut self.streams.last_mut().expect("it has begun").request;
                    request.is_whole = content.is_empty();
                    request.body.extend(content);
                }
                _ => {}
            }
        }
    }

    fn take_frames(&mut self, next_plan: &mut impl FnMut() -> Plan, received: &mut Vec<Received>) {
        if !self.has_begun {
            if self.pipe.input.len() < PREFACE.len() {
                return;
            }
            self.has_begun = true;
            self.pipe.input.drain(..PREFACE.len());
            let mut settings = Vec::new();
            if self.reading == Reading::Slowly {
                // SETTINGS_INITIAL_WINDOW_SIZE.
                settings = [&4_u16.to_be_bytes()[..], &NARROW_WINDOW.to_be_bytes()].concat();
            }
            wire::put_frame(&mut self.pipe.output, SETTINGS, 0, 0, &settings);
        }
        while let Some((kind, flags, id, payload)) = wire::take_frame(&mut self.pipe.input) {
            let at = self.streams.iter().position(|stream| stream.id == id);
            let ends = flags & END_STREAM != 0;
            match (kind, at) {
                (SETTINGS, _) if flags & ACK == 0 => {
                    wire::put_frame(&mut self.pipe.output, SETTINGS, ACK, 0, &[]);
                }
                (PING, _) if flags & ACK == 0 => {
                    wire::put_frame(&mut self.pipe.output, PING, ACK, 0, &payload);
                }
                (HEADERS, None) if id > self.last_stream => {
                    self.last_stream = id;
                    self.begin_stream(id, next_plan()).request.is_whole = ends;
                }
                (HEADERS, Some(at)) => self.streams[at].request.is_whole = ends,
                (DATA, Some(at)) => {
                    let request = &mut self.streams[at].request;
                    request.body.extend_from_slice(&payload);
                    request.is_whole = ends;
                    let len = (payload.len() as u32).to_be_bytes();
                    if !payload.is_empty() {
                        wire::put_frame(&mut self.pipe.output, WINDOW_UPDATE, 0, 0, &len);
                        wire::put_frame(&mut self.pipe.output, WINDOW_UPDATE, 0, id, &len);
                    }
                }
                (DATA, None) if !payload.is_empty() => {
                    let len = (payload.len() as u32).to_be_bytes();
                    wire::put_frame(&mut self.pipe.output, WINDOW_UPDATE, 0, 0, &len);
                }
                (RST_STREAM, Some(at)) => received.push(self.streams.remove(at).request),
                (WINDOW_UPDATE, _) if id == 0 => self.window += i64::from(wire::number(&payload)),
                (WINDOW_UPDATE, Some(at)) => {
                    if let Some(reply) = &mut self.streams[at].reply {
                        reply.window += i64::from(wire::number(&payload));
                    }
                }
                _ => {}
            }
        }
        for reply in self.streams.iter_mut().filter_map(|stream| stream.reply.as_mut()) {
            reply.pump(&mut self.pipe.output, &mut self.window);
        }
    }
}

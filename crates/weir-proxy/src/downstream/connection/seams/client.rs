//! A client with one request: it sends packet by packet, and reads at once or some bytes at a time.

use weir_http::h2::{HpackDecoder, read_response, skip_block};
use weir_http::{HeadLimits, ResponseHead};

use super::script::{Content, Framing, Sender, Shape};
use super::wire::{
    self, ACK, DATA, END_STREAM, GOAWAY, HEADERS, Http1Message, PING, PREFACE, Pipe, RST_STREAM, SETTINGS,
    WINDOW, WINDOW_UPDATE,
};

/// Bytes that a slow reader takes at a time.
const STEP: usize = 20_000;

/// The window that a slow client of HTTP/2 gives each stream.
const NARROW_WINDOW: u32 = 10_000;

/// How a side reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    AtOnce,
    /// Some bytes, each time that nothing else happens.
    Slowly,
    /// The head and nothing behind it: then it is gone.
    LeavesEarly,
}

/// How a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speech {
    Http1,
    Http2,
}

impl Speech {
    /// What it agrees on with TLS.
    pub(super) fn application_protocol(self) -> &'static [u8] {
        if self == Self::Http2 { b"h2" } else { b"http/1.1" }
    }
}

/// What it asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// The number of the case, which makes its target its own.
    pub(super) number: usize,
    /// The body, and whether its length is announced.
    pub(super) body: Option<(Shape, bool)>,
    /// Whether the request is a call of gRPC-Web.
    pub(super) is_call: bool,
}

/// What has come.
#[derive(Debug, Default)]
pub(super) struct Got {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    pub(super) has_trailers: bool,
    pub(super) is_whole: bool,
    /// Whether nothing more will come.
    pub(super) is_over: bool,
    /// Whether the body is compressed.
    pub(super) is_gzip: bool,
}

pub(super) struct Client {
    pipe: Pipe,
    speech: Speech,
    reading: Reading,
    sender: Sender,
    /// Room in the window of the connection.
    window: i64,
    decoder: HpackDecoder,
    pub(super) got: Got,
}

impl Client {
    pub(super) fn new(mut pipe: Pipe, speech: Speech, reading: Reading, ask: Ask) -> Self {
        let shape = ask.body.map_or(Shape { name: "no body", packets: &[] }, |(shape, _)| shape);
        let is_known = ask.body.is_some_and(|(_, is_known)| is_known);
        let framing = match speech {
            Speech::Http2 => Framing::Http2(1),
            Speech::Http1 if is_known => Framing::Length,
            Speech::Http1 => Framing::Chunked,
        };
        let mut fields = vec![("accept-encoding", "gzip"), ("te", "trailers")];
        if ask.is_call {
            fields.push(("content-type", "application/grpc-web"));
        }
        let announced = shape.announced().to_string();
        match framing {
            _ if ask.body.is_none() => {}
            Framing::Chunked => fields.push(("transfer-encoding", "chunked")),
            _ if is_known => fields.push(("content-length", &announced)),
            _ => {}
        }
        let target = format!("{}/{}", ask.path, ask.number);
        let head = match speech {
            Speech::Http1 => {
                let lines: String =
                    fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                format!("{} {target} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n", ask.method).into_bytes()
            }
            Speech::Http2 => {
                let pseudo = [
                    (":method", ask.method),
                    (":scheme", if pipe.is_shaking() { "https" } else { "http" }),
                    (":path", &target),
                    (":authority", "a.test"),
                ];
                let mut block = Vec::new();
                let lines = pseudo.iter().chain(&fields);
                lines.for_each(|(name, value)| wire::put_field(&mut block, name, value));
                pipe.output.extend_from_slice(PREFACE);
                let mut settings = Vec::new();
                if reading == Reading::Slowly {
                    // SETTINGS_INITIAL_WINDOW_SIZE.
                    settings = [&4_u16.to_be_bytes()[..], &NARROW_WINDOW.to_be_bytes()].concat();
                }
                wire::put_frame(&mut pipe.output, SETTINGS, 0, 0, &settings);
                block
            }
        };
        if ask.body.is_none() {
            match speech {
                Speech::Http1 => pipe.output.extend_from_slice(&head),
                Speech::Http2 => {
                    let flags = wire::END_HEADERS | END_STREAM;
                    wire::put_frame(&mut pipe.output, HEADERS, flags, 1, &head);
                }
            }
        }
        let sender = Sender::new(framing, head, (shape, Content::Salted(0)), WINDOW);
        let (window, decoder) = (WINDOW, HpackDecoder::new());
        Self { pipe, speech, reading, sender, window, decoder, got: Got::default() }
    }

    /// Whether nothing more happens on it.
    pub(super) fn is_over(&self) -> bool {
        self.got.is_over
    }

    /// Sends the next packet, or reads some bytes; whether there was anything to do.
    pub(super) fn release(&mut self) -> bool {
        if self.got.is_over || self.pipe.is_shaking() {
            return false;
        }
        if self.sender.has_packet() {
            self.sender.release(&mut self.pipe.output, &mut self.window);
            return true;
        }
        self.reading == Reading::Slowly && self.take(STEP)
    }

    /// Does what needs no time; whether anything has moved.
    pub(super) fn turn(&mut self) -> bool {
        if self.got.is_over {
            return false;
        }
        if self.pipe.is_shaking() {
            let moved = self.pipe.shake();
            self.got.is_over = self.pipe.has_ended;
            return moved;
        }
        let mut moved = self.pipe.write();
        if self.sender.closes && self.pipe.is_sent() {
            self.leave();
            return true;
        }
        if self.sender.was_reset && self.sender.is_sent() && self.pipe.is_sent() {
            self.got.is_over = true;
            return true;
        }
        if self.reading != Reading::Slowly {
            moved |= self.take(usize::MAX);
        }
        moved
    }

    /// Is gone.
    pub(super) fn leave(&mut self) {
        self.pipe.cut();
        self.got.is_over = true;
    }

    fn take(&mut self, len_max: usize) -> bool {
        let moved = self.pipe.read(len_max);
        if moved {
            match self.speech {
                Speech::Http1 => self.read_http1(),
                Speech::Http2 => self.read_http2(),
            }
            self.got.is_over |= self.got.is_whole || self.pipe.has_ended;
            if self.reading == Reading::LeavesEarly && self.got.status > 0 {
                self.leave();
            }
        }
        moved
    }

    fn read_http1(&mut self) {
        let has_ended = self.pipe.has_ended_well();
        while let Some(message) = Http1Message::read(&self.pipe.input, false, has_ended) {
            if message.status() == 100 {
                let head = message.head.len();
                self.pipe.input.drain(..head);
                continue;
            }
            self.got.status = message.status();
            self.got.is_gzip = message.field("content-encoding") == Some("gzip");
            self.got.has_trailers = message.has_trailers;
            self.got.is_whole = message.is_whole;
            self.got.body = message.body;
            return;
        }
    }

    fn read_http2(&mut self) {
        let mut owed = 0;
        while let Some((kind, flags, stream, payload)) = wire::take_frame(&mut self.pipe.input) {
            match kind {
                SETTINGS if flags & ACK == 0 => wire::put_frame(&mut self.pipe.output, SETTINGS, ACK, 0, &[]),
                PING if flags & ACK == 0 => wire::put_frame(&mut self.pipe.output, PING, ACK, 0, &payload),
                HEADERS => self.take_block(&payload, flags & END_STREAM != 0),
                DATA => {
                    owed += payload.len() as u32;
                    self.got.body.extend_from_slice(&payload);
                    self.got.is_whole = flags & END_STREAM != 0;
                }
                // Behind a whole response, it only says that the request is not read to its end.
                RST_STREAM => self.got.is_over = true,
                GOAWAY => assert_eq!(wire::number(&payload[4..]), 0, "the client has broken no rule"),
                WINDOW_UPDATE if stream == 0 => self.window += i64::from(wire::number(&payload)),
                WINDOW_UPDATE => self.sender.window += i64::from(wire::number(&payload)),
                _ => {}
            }
        }
        if owed > 0 && !self.got.is_whole {
            wire::put_frame(&mut self.pipe.output, WINDOW_UPDATE, 0, 0, &owed.to_be_bytes());
            wire::put_frame(&mut self.pipe.output, WINDOW_UPDATE, 0, 1, &owed.to_be_bytes());
        }
        self.sender.pump(&mut self.pipe.output, &mut self.window);
    }

    fn take_block(&mut self, block: &[u8], ends: bool) {
        let (mut text, limits) = (Vec::new(), HeadLimits::default());
        if self.got.status >= 200 {
            skip_block(&mut self.decoder, block, &mut text, &limits).expect("trailers can be read");
            (self.got.has_trailers, self.got.is_whole) = (true, true);
            return;
        }
        let mut head = ResponseHead::default();
        let read = read_response(&mut self.decoder, block, &mut head, &mut text, &limits, ends);
        read.expect("the head can be read");
        self.got.status = head.status();
        let coding = head.fields().get_by_name(&text, "content-encoding");
        self.got.is_gzip = coding.is_some_and(|field| field.value.of(&text) == b"gzip");
        self.got.is_whole = ends;
    }
}

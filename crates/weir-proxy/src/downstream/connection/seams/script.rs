//! What a side sends, packet by packet, in the form of its protocol.
//!
//! A packet leaves only when everything that those before it could cause has happened: so a body is in the packet of its head, behind it, or later.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use super::wire::{self, DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM};

/// A part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Head,
    /// So many bytes of the body.
    Data(usize),
    /// The same, in a frame that bears the end of the message.
    Last(usize),
    /// The end, in a frame of its own where the protocol has one.
    End,
    /// The end, with trailers where the protocol has some.
    Trailers,
    /// The sender breaks off.
    Cut,
}

/// The parts of a message, packet by packet.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) packets: &'static [&'static [Part]],
}

impl fmt::Debug for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.name)
    }
}

impl Shape {
    fn parts(&self) -> impl Iterator<Item = Part> {
        self.packets.iter().flat_map(|packet| packet.iter().copied())
    }

    /// Bytes of the body that are sent.
    pub(super) fn len(&self) -> usize {
        let len = |part| if let Part::Data(len) | Part::Last(len) = part { len } else { 0 };
        self.parts().map(len).sum()
    }

    pub(super) fn is_cut(&self) -> bool {
        self.parts().any(|part| part == Part::Cut)
    }

    /// Whether its end is in the last packet, and no byte of the body.
    pub(super) fn ends_alone(&self) -> bool {
        self.packets.last().is_some_and(|last| matches!(last, [Part::End | Part::Trailers]))
    }

    pub(super) fn has_trailers(&self) -> bool {
        self.parts().any(|part| part == Part::Trailers)
    }

    /// The body, which differs from others by its `salt`.
    pub(super) fn body(&self, salt: u8) -> Vec<u8> {
        bytes(usize::from(salt)..usize::from(salt) + self.len()).to_vec()
    }

    /// What is sent as its body.
    pub(super) fn content(&self, content: Content) -> Vec<u8> {
        match content {
            Content::Salted(salt) => self.body(salt),
            Content::GrpcMessage { .. } if self.len() == 0 => Vec::new(),
            Content::GrpcMessage { missing } => {
                let len = (self.len() + missing) as u32;
                [&[0][..], &len.to_be_bytes(), &self.body(0)].concat()
            }
        }
    }

    /// The length that its head announces: more than is sent of a message that is cut.
    pub(super) fn announced(&self) -> usize {
        self.len() + if self.is_cut() { 1_000 } else { 0 }
    }
}

/// These of the bytes that all bodies are parts of: a part of another place differs.
pub(super) fn bytes(range: Range<usize>) -> &'static [u8] {
    static BYTES: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..400_000).map(|at: usize| (at % 251) as u8 ^ (at >> 8) as u8).collect());
    &BYTES[range]
}

/// What the bytes of a body are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Any, which differ from others by this.
    Salted(u8),
    /// One message of gRPC, with its prefix: so many of its bytes never come.
    GrpcMessage { missing: usize },
}

/// How a message is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length,
    Chunked,
    UntilClose,
    /// On this stream.
    Http2(u32),
    Fastcgi,
}

/// A frame of HTTP/2 that waits for the windows.
enum Queued {
    Frame(Vec<u8>),
    Data(Vec<u8>, bool),
}

/// A message on its way out.
pub(super) struct Sender {
    framing: Framing,
    /// In the form of the protocol: text, or a block of HPACK.
    head: Vec<u8>,
    body: Vec<u8>,
    /// Bytes of the body that go before the first part of it.
    prefix_len: usize,
    packets: VecDeque<&'static [Part]>,
    queue: VecDeque<Queued>,
    /// What the window of the stream has room for.
    pub(super) window: i64,
    /// Whether the connection ends behind what was sent.
    pub(super) closes: bool,
    /// Whether that is before the end of the message.
    pub(super) was_cut: bool,
    /// Whether the stream was reset.
    pub(super) was_reset: bool,
}

impl Sender {
    pub(super) fn new(
        framing: Framing,
        head: Vec<u8>,
        (shape, content): (Shape, Content),
        window: i64,
    ) -> Self {
        let (packets, queue) = (shape.packets.iter().copied().collect(), VecDeque::new());
        let body = shape.content(content);
        let prefix_len = body.len() - shape.len();
        let (closes, was_cut, was_reset) = (false, false, false);
        Self { framing, head, body, prefix_len, packets, queue, window, closes, was_cut, was_reset }
    }

    /// Whether there is a packet that has not left.
    pub(super) fn has_packet(&self) -> bool {
        !self.packets.is_empty()
    }

    /// Whether all has left.
    pub(super) fn is_sent(&self) -> bool {
        self.packets.is_empty() && self.queue.is_empty()
    }

    /// Adds the next packet to the output, as far as the windows allow.
    pub(super) fn release(&mut self, out: &mut Vec<u8>, connection_window: &mut i64) {
        for part in self.packets.pop_front().unwrap_or_default() {
            match self.framing {
                Framing::Http2(stream) => self.queue_part(*part, stream),
                _ => self.put_part(*part, out),
            }
        }
        self.pump(out, connection_window);
    }

    fn take_body(&mut self, len: usize) -> Vec<u8> {
        self.body.drain(..std::mem::take(&mut self.prefix_len) + len).collect()
    }

    fn put_part(&mut self, part: Part, out: &mut Vec<u8>) {
        let (data, ends) = match part {
            Part::Head => {
                let head = std::mem::take(&mut self.head);
                return match self.framing {
                    Framing::Fastcgi => wire::put_record(out, wire::STDOUT, &head),
                    _ => out.extend(head),
                };
            }
            Part::Data(len) => (self.take_body(len), false),
            Part::Last(len) => (self.take_body(len), true),
            Part::End | Part::Trailers => (Vec::new(), true),
            Part::Cut => {
                (self.closes, self.was_cut) = (true, true);
                return;
            }
        };
        match self.framing {
            Framing::Chunked => {
                if !data.is_empty() {
                    out.extend(format!("{:x}\r\n", data.len()).bytes());
                    out.extend(data);
                    out.extend(b"\r\n");
                }
                if ends {
                    let trailers = if part == Part::Trailers { "X-Sum: 1\r\n" } else { "" };
                    out.extend(format!("0\r\n{trailers}\r\n").bytes());
                }
            }
            Framing::Fastcgi => {
                data.chunks(32_000).for_each(|piece| wire::put_record(out, wire::STDOUT, piece));
                if ends {
                    wire::put_record(out, wire::STDOUT, b"");
                    wire::put_record(out, wire::END_REQUEST, &[0; 8]);
                }
            }
            _ => {
                out.extend(data);
                self.closes |= ends && self.framing == Framing::UntilClose;
            }
        }
    }

    fn queue_part(&mut self, part: Part, stream: u32) {
        let mut frame = Vec::new();
        match part {
            Part::Head => wire::put_frame(&mut frame, HEADERS, END_HEADERS, stream, &self.head),
            Part::Data(len) | Part::Last(len) => {
                let data = self.take_body(len);
                self.queue.push_back(Queued::Data(data, matches!(part, Part::Last(_))));
                return;
            }
            Part::End => {
                self.queue.push_back(Queued::Data(Vec::new(), true));
                return;
            }
            Part::Trailers => {
                let mut block = Vec::new();
                wire::put_field(&mut block, "x-sum", "1");
                wire::put_frame(&mut frame, HEADERS, END_HEADERS | END_STREAM, stream, &block);
            }
            Part::Cut => {
                // INTERNAL_ERROR.
                wire::put_frame(&mut frame, RST_STREAM, 0, stream, &2_u32.to_be_bytes());
                self.was_reset = true;
            }
        }
        self.queue.push_back(Queued::Frame(frame));
    }

    /// Adds what waits for the windows.
    pub(super) fn pump(&mut self, out: &mut Vec<u8>, connection_window: &mut i64) {
        let Framing::Http2(stream) = self.framing else { return };
        while let Some(next) = self.queue.pop_front() {
            let (mut data, ends) = match next {
                Queued::Frame(frame) => {
                    out.extend(frame);
                    continue;
                }
                Queued::Data(data, ends) => (data, ends),
            };
            let room = usize::try_from(self.window.min(*connection_window)).unwrap_or(0).min(16_384);
            let rest = data.split_off(data.len().min(room));
            if rest.is_empty() {
                let flags = if ends { END_STREAM } else { 0 };
                wire::put_frame(out, DATA, flags, stream, &data);
            } else if !data.is_empty() {
                wire::put_frame(out, DATA, 0, stream, &data);
            }
            self.window -= data.len() as i64;
            *connection_window -= data.len() as i64;
            if !rest.is_empty() {
                self.queue.push_front(Queued::Data(rest, ends));
                if room == 0 {
                    return;
                }
            }
        }
    }
}

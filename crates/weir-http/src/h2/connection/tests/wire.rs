//! Frames by their bytes, and one end of a connection that a test feeds with them.

use crate::h2::connection::{Block, BlockUse, ConnectionCodec, ConnectionLimits, Event};
use crate::h2::fault::{ConnectionFault, StreamFault};
use crate::h2::frame::{ErrorCode, FRAME_HEADER_BYTES, FrameHeader, PREFACE};
use crate::h2::settings::Settings;
use crate::message::rule::Rule;
use crate::multiplexed::role::Role;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;
pub(super) const PRIORITY_UPDATE: u8 = 16;

pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;
pub(super) const PRIORITISED: u8 = 0x20;

/// Any frame.
pub(super) fn frame(number: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader { len: payload.len() as u32, number, flags, stream };
    [&header.bytes()[..], payload].concat()
}

pub(super) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let setting = |(number, value): &(u16, u32)| [&number.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &values.iter().flat_map(setting).collect::<Vec<u8>>())
}

/// A whole head that leaves the stream open.
pub(super) fn head(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, b"\x82")
}

/// A whole head with nothing behind it.
pub(super) fn last_head(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x82")
}

pub(super) fn data(stream: u32, len: usize) -> Vec<u8> {
    frame(DATA, 0, stream, &vec![b'.'; len])
}

pub(super) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

pub(super) fn window_update(stream: u32, by: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes())
}

pub(super) fn ping() -> Vec<u8> {
    frame(PING, 0, 0, b"12345678")
}

pub(super) fn go_away(last_stream: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last_stream.to_be_bytes(), code.to_be_bytes()].concat())
}

/// What a connection has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) number: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

/// The frames of an output, all of which are whole.
pub(super) fn frames(mut out: &[u8]) -> Vec<Written> {
    let mut frames = Vec::new();
    while !out.is_empty() {
        let FrameHeader { len, number, flags, stream } = FrameHeader::read(out).expect("a whole header");
        let end = FRAME_HEADER_BYTES + len as usize;
        let payload = out[FRAME_HEADER_BYTES..end].to_vec();
        frames.push(Written { number, flags, stream, payload });
        out = &out[end..];
    }
    frames
}

/// An event with its bytes. Pieces of a body that follow each other are one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    Block { stream: u32, block: Vec<u8>, usage: BlockUse, ends_stream: bool },
    Data { stream: u32, data: Vec<u8>, ends_stream: bool },
    Reset { stream: u32, code: u32 },
    Fault { stream: u32, code: ErrorCode, rule: Rule },
    Window(u32),
    Settings,
    Pong([u8; 8]),
    GoAway { last_stream: u32, code: u32 },
    Priority { stream: u32, value: Vec<u8> },
}

/// Whether a connection gives the room of what it has received back at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    Consumes,
    Waits,
}

/// One end of a connection.
pub(super) struct End {
    pub(super) connection: ConnectionCodec,
    pub(super) out: Vec<u8>,
    /// Received bytes that are not dealt with.
    input: Vec<u8>,
    pub(super) now: u64,
    pub(super) reader: Reader,
}

impl End {
    /// One that has just been created.
    pub(super) fn fresh(role: Role, local: Settings) -> Self {
        Self::limited(role, local, ConnectionLimits::default())
    }

    pub(super) fn limited(role: Role, local: Settings, limits: ConnectionLimits) -> Self {
        let mut out = Vec::new();
        let connection = ConnectionCodec::new(role, local, limits, &mut out);
        Self { connection, out, input: Vec::new(), now: 0, reader: Reader::Waits }
    }

    /// One to which the peer has said and acknowledged all that comes first.
    pub(super) fn ready(role: Role) -> Self {
        Self::ready_with(role, Settings::default(), ConnectionLimits::default())
    }

    pub(super) fn ready_with(role: Role, local: Settings, limits: ConnectionLimits) -> Self {
        let mut end = Self::limited(role, local, limits);
        if role == Role::Server {
            end.receive(PREFACE);
        }
        assert_eq!(end.receive(&settings(&[])), [Seen::Settings]);
        end.receive(&frame(SETTINGS, ACK, 0, b""));
        assert!(end.connection.has_begun() && end.connection.is_acknowledged());
        end.out.clear();
        end
    }

    /// A client with streams 1, 3 and so on.
    pub(super) fn client_with_streams(count: usize) -> Self {
        let mut end = Self::ready(Role::Client);
        for _ in 0..count {
            end.connection.open_stream();
        }
        end
    }

    /// Takes in bytes in which nothing is wrong with the connection.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Vec<Seen> {
        let mut seen = Vec::new();
        self.receive_into(bytes, &mut seen).expect("the connection lives");
        seen
    }

    /// Takes in bytes that end the connection.
    pub(super) fn fault(&mut self, bytes: &[u8]) -> ConnectionFault {
        let mut seen = Vec::new();
        self.receive_into(bytes, &mut seen).expect_err(&format!("there is no fault, but {seen:?}"))
    }

    /// Takes in bytes, and adds what is seen to `seen`.
    pub(super) fn receive_into(&mut self, bytes: &[u8], seen: &mut Vec<Seen>) -> Result<(), ConnectionFault> {
        self.input.extend_from_slice(bytes);
        loop {
            let received = self.connection.receive(&self.input, self.now, &mut self.out)?;
            assert!(received.used <= self.input.len());
            let Some(event) = received.event else {
                self.input.drain(..received.used);
                return Ok(());
            };
            let event = self.seen(event);
            self.input.drain(..received.used);
            add(seen, event);
        }
    }

    fn seen(&mut self, event: Event) -> Seen {
        match event {
            Event::Block { stream, block, usage, ends_stream } => {
                let block = match block {
                    Block::Input(range) => self.input[range].to_vec(),
                    Block::Gathered => self.connection.take_block(),
                };
                Seen::Block { stream, block, usage, ends_stream }
            }
            Event::Data { stream, data, ends_stream } => {
                let data = self.input[data].to_vec();
                if self.reader == Reader::Consumes {
                    self.connection.consumed(stream, data.len() as u32, &mut self.out);
                }
                Seen::Data { stream, data, ends_stream }
            }
            Event::Reset { stream, code } => Seen::Reset { stream, code: code.0 },
            Event::Fault { stream, fault: StreamFault { code, rule } } => Seen::Fault { stream, code, rule },
            Event::Window { stream } => Seen::Window(stream),
            Event::Settings => Seen::Settings,
            Event::Pong { payload } => Seen::Pong(payload),
            Event::GoAway { last_stream, code } => Seen::GoAway { last_stream, code: code.0 },
            Event::Priority { stream, value } => Seen::Priority { stream, value: self.input[value].to_vec() },
        }
    }

    /// What was written since the last time.
    pub(super) fn written(&mut self) -> Vec<Written> {
        let out = std::mem::take(&mut self.out);
        frames(&out)
    }

    /// The windows that were opened since the last time, which must be all that was written.
    pub(super) fn opened(&mut self) -> Vec<(u32, u32)> {
        let frames = self.written();
        let opened = frames.iter().map(|frame| {
            assert_eq!(frame.number, WINDOW_UPDATE, "{frame:?}");
            (frame.stream, code_of(&frame.payload))
        });
        opened.collect()
    }

    /// The streams that were reset since the last time, and why; they must be all that was written.
    pub(super) fn resets(&mut self) -> Vec<(u32, ErrorCode)> {
        let frames = self.written();
        let resets = frames.iter().map(|frame| {
            assert_eq!(frame.number, RST_STREAM, "{frame:?}");
            (frame.stream, ErrorCode(code_of(&frame.payload)))
        });
        resets.collect()
    }

    /// Sends `len` bytes of body as far as the windows let them; returns how many that are.
    pub(super) fn send(&mut self, stream: u32, len: usize) -> usize {
        self.connection.send_data(stream, &vec![b'.'; len], usize::MAX, &mut self.out)
    }
}

fn code_of(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload.try_into().expect("four bytes"))
}

/// Adds an event; what continues a body is added to its piece before.
fn add(all: &mut Vec<Seen>, seen: Seen) {
    if let Seen::Data { stream, data, ends_stream } = &seen
        && let Some(Seen::Data { stream: before, data: whole, ends_stream: ended }) = all.last_mut()
        && stream == before
        && !*ended
    {
        whole.extend_from_slice(data);
        *ended = *ends_stream;
        return;
    }
    all.push(seen);
}

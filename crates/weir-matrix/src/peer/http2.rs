//! HTTP/2 as both ends need it: frames out within the windows, control frames answered, everything else left to the reader of records.

use std::collections::{BTreeSet, HashMap, HashSet};

use httlib_hpack::Encoder;
use weir_wire::http2::{FRAME_MAX, FrameSender, Http2Reading, PREFACE, RecordedFrameHeader, frame, read};

use super::link::{LinkEnd, RecordedLink};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
const INITIAL_WINDOW_SIZE: u16 = 4;
const WINDOW: i64 = 65_535;

/// One end of a connection.
pub(crate) struct Http2 {
    pub(super) link: RecordedLink,
    /// Which end Weir is.
    weir: FrameSender,
    /// Where the next frame of Weir begins.
    at: usize,
    initial_window: i64,
    window: i64,
    /// What was given and taken of the windows of streams.
    changes: HashMap<u32, i64>,
    /// Streams that Weir has reset.
    reset: HashSet<u32>,
    /// Streams whose responses have no body.
    pub(super) heads: BTreeSet<u32>,
    /// Whether a message may have begun or ended since `reading` was asked.
    pub(super) has_news: bool,
}

/// A block of literals that use no table, so that a record can be changed and still be read.
pub(crate) fn block(fields: &[(String, String)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::default();
    for (name, value) in fields {
        let field = (name.clone().into_bytes(), value.clone().into_bytes(), Encoder::NEVER_INDEXED);
        encoder.encode(field, &mut bytes).expect("a literal can always be written");
    }
    bytes
}

impl Http2 {
    /// Begins at the client's end.
    pub(super) fn client(mut link: RecordedLink) -> Result<Self, LinkEnd> {
        link.send(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat())?;
        Ok(Self::new(link, FrameSender::Server, 0))
    }

    /// Begins at the server's end.
    pub(super) fn server(mut link: RecordedLink) -> Result<Self, LinkEnd> {
        while link.received().len() < PREFACE.len() {
            link.receive()?;
        }
        link.send(&frame(SETTINGS, 0, 0, &[]))?;
        Ok(Self::new(link, FrameSender::Client, PREFACE.len()))
    }

    fn new(link: RecordedLink, weir: FrameSender, at: usize) -> Self {
        Self {
            link,
            weir,
            at,
            initial_window: WINDOW,
            window: WINDOW,
            changes: HashMap::new(),
            reset: HashSet::new(),
            heads: BTreeSet::new(),
            has_news: true,
        }
    }

    /// What Weir has sent so far, as messages.
    pub(super) fn reading(&mut self) -> Http2Reading {
        self.has_news = false;
        read(self.link.received(), self.weir, &self.heads, FRAME_MAX)
    }

    /// Takes the next frame of Weir.
    pub(super) fn read_frame(&mut self) -> Result<(), LinkEnd> {
        let header = loop {
            let rest = &self.link.received()[self.at..];
            match RecordedFrameHeader::read(rest) {
                Some(header) if rest.len() >= RecordedFrameHeader::LEN + header.len => break header,
                _ => self.link.receive()?,
            }
        };
        let begin = self.at + RecordedFrameHeader::LEN;
        let payload = self.link.received()[begin..begin + header.len].to_vec();
        self.at = begin + header.len;
        let number = payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        match header.kind {
            DATA => {
                self.has_news |= header.has(END_STREAM);
                self.give_back(header)
            }
            HEADERS | CONTINUATION => {
                self.has_news = true;
                Ok(())
            }
            RST_STREAM => {
                self.has_news = true;
                self.reset.insert(header.stream);
                Ok(())
            }
            SETTINGS if !header.has(ACK) => {
                let is_window = |setting: &&[u8]| setting[..2] == INITIAL_WINDOW_SIZE.to_be_bytes();
                for setting in payload.chunks_exact(6).filter(is_window) {
                    let size = setting[2..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
                    self.initial_window = i64::from(size);
                }
                self.answer(&frame(SETTINGS, ACK, 0, &[]))
            }
            PING if !header.has(ACK) => self.answer(&frame(PING, ACK, 0, &payload)),
            WINDOW_UPDATE if header.stream == 0 => {
                self.window += i64::from(number & 0x7fff_ffff);
                Ok(())
            }
            WINDOW_UPDATE => {
                *self.changes.entry(header.stream).or_default() += i64::from(number & 0x7fff_ffff);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Weir may be gone: what it has sent before that is still read.
    fn answer(&mut self, bytes: &[u8]) -> Result<(), LinkEnd> {
        let _ = self.link.send(bytes);
        Ok(())
    }

    fn give_back(&mut self, header: RecordedFrameHeader) -> Result<(), LinkEnd> {
        let Some(len) = u32::try_from(header.len).ok().filter(|len| *len > 0) else { return Ok(()) };
        let mut updates = frame(WINDOW_UPDATE, 0, 0, &len.to_be_bytes());
        if !header.has(END_STREAM) {
            updates.extend(frame(WINDOW_UPDATE, 0, header.stream, &len.to_be_bytes()));
        }
        self.answer(&updates)
    }

    pub(super) fn send_head(
        &mut self,
        stream: u32,
        fields: &[(String, String)],
        ends: bool,
    ) -> Result<(), LinkEnd> {
        let flags = END_HEADERS | if ends { END_STREAM } else { 0 };
        self.link.send(&frame(HEADERS, flags, stream, &block(fields)))
    }

    /// Sends one frame of DATA, whatever it does to the stream; the windows have room for it.
    pub(super) fn send_frame(&mut self, stream: u32, data: &[u8], ends: bool) -> Result<(), LinkEnd> {
        self.window -= data.len() as i64;
        *self.changes.entry(stream).or_default() -= data.len() as i64;
        self.link.send(&frame(DATA, u8::from(ends), stream, data))
    }

    /// Sends DATA as the windows allow, and reads meanwhile; stops when Weir resets the stream.
    pub(super) fn send_data(&mut self, stream: u32, data: &[u8], ends: bool) -> Result<(), LinkEnd> {
        let mut sent = 0;
        while !self.reset.contains(&stream) {
            let left = data.len() - sent;
            let room = self.window.min(self.initial_window + self.changes.get(&stream).copied().unwrap_or(0));
            let len = left.min(usize::try_from(room).unwrap_or(0)).min(FRAME_MAX);
            if len == 0 && left > 0 {
                self.read_frame()?;
                continue;
            }
            let is_last = len == left;
            self.send_frame(stream, &data[sent..sent + len], is_last && ends)?;
            sent += len;
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// Sends DATA and resets the stream in one write; the windows have room for it.
    pub(super) fn send_data_and_reset(&mut self, stream: u32, data: &[u8], code: u32) -> Result<(), LinkEnd> {
        self.window -= data.len() as i64;
        let reset = frame(RST_STREAM, 0, stream, &code.to_be_bytes());
        self.link.send(&[frame(DATA, 0, stream, data), reset].concat())
    }

    pub(super) fn send_reset(&mut self, stream: u32, code: u32) -> Result<(), LinkEnd> {
        self.link.send(&frame(RST_STREAM, 0, stream, &code.to_be_bytes()))
    }
}

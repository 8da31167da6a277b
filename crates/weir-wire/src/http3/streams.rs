//! Pieces to messages: what each stream has had, and what may follow on it (RFC 9114 sections 4.1 and 6.2).

use std::collections::{BTreeMap, BTreeSet};

use super::frames::{
    CANCEL_PUSH, CutFrame, FrameCutter, GOAWAY, HEADERS, MAX_PUSH_ID, OF_HTTP2, PUSH_PROMISE, SETTINGS,
    varint,
};
use super::qpack::QpackTable;
use super::{AnnouncedByClient, Http3Reading, RecordedPiece, StreamPiece};
use crate::WireFault;
use crate::http2::{FrameSender, lists};

/// Settings of HTTP/2 that may not be sent (RFC 9114 section 7.2.4.1).
const SETTINGS_OF_HTTP2: [u64; 5] = [0, 2, 3, 4, 5];

/// A stream that the server has opened.
#[derive(Debug)]
enum OpenedStream {
    /// Its type is not whole.
    Begun(Vec<u8>),
    Control(FrameCutter),
    Encoder,
    /// What of its last instruction has come.
    Decoder(Vec<u8>),
    /// Of a type that means nothing.
    Unknown,
}

pub(super) struct PieceReader<'a> {
    pub(super) reading: Http3Reading,
    without_bodies: &'a BTreeSet<u64>,
    frames: BTreeMap<u64, FrameCutter>,
    opened: BTreeMap<u64, OpenedStream>,
    table: QpackTable,
}

impl<'a> PieceReader<'a> {
    pub(super) fn new(announced: AnnouncedByClient<'a>) -> Self {
        Self {
            reading: Http3Reading::default(),
            without_bodies: announced.without_bodies,
            frames: BTreeMap::new(),
            opened: BTreeMap::new(),
            table: QpackTable::new(announced.table_bytes_max),
        }
    }

    pub(super) fn read_all(&mut self, record: &[u8]) -> Result<(), WireFault> {
        let mut at = 0;
        loop {
            let fault = |what: String| WireFault::new(at, what);
            let Some((piece, len)) = RecordedPiece::read(&record[at..]).map_err(fault)? else {
                return Ok(());
            };
            let came = self.piece_came(at, &piece);
            came.map_err(|what| fault(format!("stream {}: {what}", piece.stream)))?;
            at += len;
        }
    }

    fn piece_came(&mut self, at: usize, piece: &RecordedPiece) -> Result<(), String> {
        match (&piece.what, piece.stream % 4) {
            (StreamPiece::Close(code), _) => {
                self.reading.closed = Some(*code);
                Ok(())
            }
            (StreamPiece::Stop(code), 0 | 2) => {
                self.reading.stopped.insert(piece.stream, *code);
                Ok(())
            }
            (what, 0) => self.response_came(at, piece.stream, what),
            (what, 3) => self.server_stream_came(piece.stream, what),
            (what, _) => Err(format!("no server sends this here: {what:?}")),
        }
    }

    fn response_came(&mut self, at: usize, id: u64, what: &StreamPiece) -> Result<(), String> {
        let stream = self.reading.streams.entry(id).or_default();
        if stream.has_ended || stream.reset.is_some() {
            return Err(format!("behind the end of its stream: {what:?}"));
        }
        stream.last_frame = at;
        match what {
            StreamPiece::Bytes(bytes) => {
                self.frames.entry(id).or_default().push(bytes);
                while let Some(frame) = self.frames.entry(id).or_default().next() {
                    self.frame_came(id, frame)?;
                }
                Ok(())
            }
            StreamPiece::End => {
                stream.has_ended = true;
                if stream.head.0.is_empty() {
                    return Err("it ends without a response".to_owned());
                }
                if !self.frames.entry(id).or_default().is_at_end() {
                    return Err("it ends inside of a frame".to_owned());
                }
                stream.check_length(self.without_bodies.contains(&id))
            }
            StreamPiece::Reset(code) => {
                stream.reset = Some(u32::try_from(*code).unwrap_or(u32::MAX));
                Ok(())
            }
            StreamPiece::Stop(_) | StreamPiece::Close(_) => Ok(()),
        }
    }

    fn frame_came(&mut self, id: u64, frame: CutFrame) -> Result<(), String> {
        let stream = self.reading.streams.entry(id).or_default();
        match frame {
            CutFrame::Data(_) if stream.head.0.is_empty() => Err("DATA before the head".to_owned()),
            CutFrame::Data(_) if stream.trailers.is_some() => Err("DATA behind the trailers".to_owned()),
            CutFrame::Data(data) => {
                stream.body.extend_from_slice(&data);
                stream.check_length(self.without_bodies.contains(&id))
            }
            CutFrame::Other(HEADERS, section) => self.section_came(id, &section),
            CutFrame::Other(PUSH_PROMISE, _) => Err("PUSH_PROMISE".to_owned()),
            CutFrame::Other(kind @ (CANCEL_PUSH | SETTINGS | GOAWAY | MAX_PUSH_ID), _) => {
                Err(format!("a frame of control streams: {kind}"))
            }
            CutFrame::Other(kind, _) if OF_HTTP2.contains(&kind) => Err(format!("a frame of HTTP/2: {kind}")),
            CutFrame::Other(..) => Ok(()),
        }
    }

    fn section_came(&mut self, id: u64, section: &[u8]) -> Result<(), String> {
        let (fields, uses_table) = self.table.section(section)?;
        if uses_table {
            self.reading.sections.push(id);
        }
        let stream = self.reading.streams.entry(id).or_default();
        if stream.trailers.is_some() {
            return Err(format!("behind the trailers: {fields:?}"));
        }
        if !stream.head.0.is_empty() {
            lists::check_trailers(&fields)?;
            stream.trailers = Some(fields);
            return Ok(());
        }
        lists::check_head(&fields, FrameSender::Server)?;
        if fields.first(":status").is_some_and(|status| status.starts_with('1')) {
            stream.interim.push(fields);
            return Ok(());
        }
        stream.head = fields;
        stream.check_length(self.without_bodies.contains(&id))
    }

    fn server_stream_came(&mut self, id: u64, what: &StreamPiece) -> Result<(), String> {
        let mut stream = self.opened.remove(&id).unwrap_or_else(|| OpenedStream::Begun(Vec::new()));
        let StreamPiece::Bytes(bytes) = what else {
            return match stream {
                OpenedStream::Unknown | OpenedStream::Begun(_) => Ok(()),
                _ => Err(format!("a stream that stays open ends: {what:?}")),
            };
        };
        let mut bytes = bytes.clone();
        if let OpenedStream::Begun(begun) = &mut stream {
            begun.append(&mut bytes);
            let mut at = 0;
            if let Some(kind) = varint(begun, &mut at) {
                bytes = begun.split_off(at);
                stream = self.of_type(kind)?;
            }
        }
        match &mut stream {
            OpenedStream::Begun(_) | OpenedStream::Unknown => {}
            OpenedStream::Encoder => {
                self.table.instruct(&bytes)?;
                self.reading.insertions = self.table.insertions();
            }
            OpenedStream::Decoder(rest) => decoder_came(rest, &bytes)?,
            OpenedStream::Control(frames) => {
                frames.push(&bytes);
                while let Some(frame) = frames.next() {
                    self.control_came(frame)?;
                }
            }
        }
        self.opened.insert(id, stream);
        Ok(())
    }

    fn of_type(&self, kind: u64) -> Result<OpenedStream, String> {
        let stream = match kind {
            0 => OpenedStream::Control(FrameCutter::default()),
            1 => return Err("a push stream, which was not allowed".to_owned()),
            2 => OpenedStream::Encoder,
            3 => OpenedStream::Decoder(Vec::new()),
            _ => return Ok(OpenedStream::Unknown),
        };
        let same = |other: &OpenedStream| std::mem::discriminant(other) == std::mem::discriminant(&stream);
        if self.opened.values().any(same) {
            Err(format!("a second stream of type {kind}"))
        } else {
            Ok(stream)
        }
    }

    fn control_came(&mut self, frame: CutFrame) -> Result<(), String> {
        match (frame, self.reading.settings.is_some()) {
            (CutFrame::Other(SETTINGS, payload), false) => {
                self.reading.settings = Some(settings(&payload)?);
                Ok(())
            }
            (frame, false) => Err(format!("the first frame is not SETTINGS: {frame:?}")),
            (CutFrame::Other(GOAWAY, payload), true) => {
                let mut at = 0;
                let id = varint(&payload, &mut at).filter(|id| at == payload.len() && id.is_multiple_of(4));
                let id = id.ok_or_else(|| "a malformed GOAWAY".to_owned())?;
                if self.reading.goaway.replace(id).is_some_and(|before| before < id) {
                    return Err(format!("GOAWAY with a larger number: {id}"));
                }
                Ok(())
            }
            (
                CutFrame::Data(_) | CutFrame::Other(HEADERS | PUSH_PROMISE | SETTINGS | MAX_PUSH_ID, _),
                true,
            ) => Err("a frame that no control stream may have".to_owned()),
            (CutFrame::Other(kind, _), true) if OF_HTTP2.contains(&kind) => {
                Err(format!("a frame of HTTP/2: {kind}"))
            }
            (CutFrame::Other(..), true) => Ok(()),
        }
    }
}

fn settings(payload: &[u8]) -> Result<BTreeMap<u64, u64>, String> {
    let (mut settings, mut at) = (BTreeMap::new(), 0);
    while at < payload.len() {
        let mut next = || varint(payload, &mut at).ok_or_else(|| "SETTINGS are cut".to_owned());
        let (id, value) = (next()?, next()?);
        if SETTINGS_OF_HTTP2.contains(&id) || settings.insert(id, value).is_some() {
            return Err(format!("setting {id} is of HTTP/2, or there twice"));
        }
    }
    Ok(settings)
}

/// Instructions of the decoder (RFC 9204 section 4.4): all that can be judged in this direction is that they are some.
fn decoder_came(rest: &mut Vec<u8>, bytes: &[u8]) -> Result<(), String> {
    rest.extend_from_slice(bytes);
    while let Some(first) = rest.first() {
        let mask = if first & 0x80 != 0 { 0x7f } else { 0x3f };
        if first & 0xc0 == 0 && first & mask == 0 {
            return Err("an insert count is raised by nothing".to_owned());
        }
        let more = if first & mask == mask {
            let Some(end) = rest[1..].iter().position(|byte| byte & 0x80 == 0) else { return Ok(()) };
            end + 1
        } else {
            0
        };
        rest.drain(..=more);
    }
    Ok(())
}

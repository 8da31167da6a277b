//! Frames to messages: what each stream has had, and what may follow on it (RFC 9113 sections 5.1 and 8.1).

use std::collections::BTreeSet;

use httlib_hpack::Decoder;

use super::frame::{self, RecordedFrameHeader, without_padding};
use super::{FrameSender, Http2Reading, PREFACE, RecordedStream, lists};
use crate::WireFault;
use crate::fields::{RecordedFields, latin1};

/// A header block that is not complete.
struct RecordedBlock {
    stream: u32,
    ends_stream: bool,
    bytes: Vec<u8>,
}

pub(super) struct FrameReader<'a> {
    pub(super) reading: Http2Reading,
    sender: FrameSender,
    without_bodies: &'a BTreeSet<u32>,
    hpack: Decoder<'static>,
    block: Option<RecordedBlock>,
    has_settings: bool,
}

impl<'a> FrameReader<'a> {
    pub(super) fn new(sender: FrameSender, without_bodies: &'a BTreeSet<u32>) -> Self {
        Self {
            reading: Http2Reading::default(),
            sender,
            without_bodies,
            hpack: Decoder::default(),
            block: None,
            has_settings: false,
        }
    }

    pub(super) fn read_all(&mut self, bytes: &[u8], frame_max: usize) -> Result<(), WireFault> {
        let mut at = 0;
        if self.sender == FrameSender::Client {
            let len = bytes.len().min(PREFACE.len());
            if bytes[..len] != PREFACE[..len] {
                return Err(WireFault::new(0, format!("no preface: {:?}", latin1(&bytes[..len]))));
            }
            at = len;
        }
        while let Some(header) = RecordedFrameHeader::read(&bytes[at..]) {
            let fault = |what: String| WireFault::new(at, what);
            if header.len > frame_max {
                return Err(fault(format!("a frame of {} bytes: {header:?}", header.len)));
            }
            let begin = at + RecordedFrameHeader::LEN;
            let Some(payload) = bytes.get(begin..begin + header.len) else { return Ok(()) };
            if !std::mem::replace(&mut self.has_settings, true) && header.kind != frame::SETTINGS {
                return Err(fault(format!("the first frame is not SETTINGS: {header:?}")));
            }
            self.frame_came(at, header, payload).map_err(fault)?;
            at = begin + header.len;
        }
        Ok(())
    }

    fn frame_came(&mut self, at: usize, header: RecordedFrameHeader, payload: &[u8]) -> Result<(), String> {
        if let Some(block) = &self.block
            && (header.kind != frame::CONTINUATION || header.stream != block.stream)
        {
            return Err(format!("a frame inside of a header block: {header:?}"));
        }
        match header.kind {
            frame::DATA => self.data_came(at, header, payload),
            frame::HEADERS => self.headers_came(at, header, payload),
            frame::CONTINUATION => {
                let block = self.block.as_mut().ok_or_else(|| format!("no block is open: {header:?}"))?;
                block.bytes.extend_from_slice(payload);
                self.block_came(header)
            }
            frame::RST_STREAM => {
                let code = self.number(header, payload, 4)?;
                let stream = self.reading.streams.get_mut(&header.stream);
                // A server may reset a stream to which it has not responded.
                let stream = match stream {
                    Some(stream) => stream,
                    None if self.sender == FrameSender::Server => {
                        self.reading.streams.entry(header.stream).or_default()
                    }
                    None => return Err(format!("RST_STREAM on a stream that was not opened: {header:?}")),
                };
                (stream.reset, stream.last_frame) = (Some(code), at);
                Ok(())
            }
            frame::WINDOW_UPDATE => match self.number(header, payload, 4)? & 0x7fff_ffff {
                0 => Err(format!("a window is opened by nothing: {header:?}")),
                _ => Ok(()),
            },
            frame::GOAWAY => {
                let code = payload.get(4..8).and_then(|code| code.try_into().ok()).map(u32::from_be_bytes);
                self.reading.goaway = Some(code.ok_or_else(|| format!("too short: {header:?}"))?);
                Ok(())
            }
            frame::SETTINGS if header.stream != 0 || !payload.len().is_multiple_of(6) => {
                Err(format!("malformed SETTINGS: {header:?}"))
            }
            frame::SETTINGS if header.has(frame::ACK) && !payload.is_empty() => {
                Err(format!("an acknowledgement with settings: {header:?}"))
            }
            frame::PING if header.stream != 0 || payload.len() != 8 => {
                Err(format!("a malformed PING: {header:?}"))
            }
            frame::PRIORITY if payload.len() != 5 => Err(format!("a malformed PRIORITY: {header:?}")),
            frame::PUSH_PROMISE => Err(format!("PUSH_PROMISE: {header:?}")),
            // Frames of extensions may come at any time.
            _ => Ok(()),
        }
    }

    fn number(&self, header: RecordedFrameHeader, payload: &[u8], len: usize) -> Result<u32, String> {
        let number = payload.first_chunk().filter(|_| payload.len() == len);
        number.map(|bytes| u32::from_be_bytes(*bytes)).ok_or_else(|| format!("a malformed frame: {header:?}"))
    }

    /// The stream of a frame that belongs to a message: it is open in this direction.
    fn open_stream(&mut self, header: RecordedFrameHeader) -> Result<&mut RecordedStream, String> {
        let stream = self.reading.streams.get_mut(&header.stream);
        let stream = stream.ok_or_else(|| format!("on a stream that was not opened: {header:?}"))?;
        if stream.has_ended || stream.reset.is_some() {
            return Err(format!("a frame behind the end of its stream: {header:?}"));
        }
        Ok(stream)
    }

    fn data_came(&mut self, at: usize, header: RecordedFrameHeader, payload: &[u8]) -> Result<(), String> {
        let data = without_padding(header, payload)?;
        let stream = self.open_stream(header)?;
        if stream.head.0.is_empty() {
            return Err(format!("DATA before the head: {header:?}"));
        }
        stream.body.extend_from_slice(data);
        (stream.has_ended, stream.last_frame) = (header.has(frame::END_STREAM), at);
        self.check_length(header)
    }

    fn headers_came(&mut self, at: usize, header: RecordedFrameHeader, payload: &[u8]) -> Result<(), String> {
        let mut block = without_padding(header, payload)?;
        if header.has(frame::WITH_PRIORITY) {
            block = block.get(5..).ok_or_else(|| format!("too short: {header:?}"))?;
        }
        if !self.reading.streams.contains_key(&header.stream) {
            let last = self.reading.streams.last_key_value().map_or(0, |(last, _)| *last);
            let is_in_order = self.sender == FrameSender::Server || header.stream > last;
            if header.stream.is_multiple_of(2) || !is_in_order {
                return Err(format!("no stream can be opened with this number: {header:?}"));
            }
            self.reading.streams.insert(header.stream, RecordedStream::default());
        }
        self.open_stream(header)?.last_frame = at;
        let ends_stream = header.has(frame::END_STREAM);
        self.block = Some(RecordedBlock { stream: header.stream, ends_stream, bytes: block.to_vec() });
        self.block_came(header)
    }

    fn block_came(&mut self, header: RecordedFrameHeader) -> Result<(), String> {
        if !header.has(frame::END_HEADERS) {
            return Ok(());
        }
        let Some(mut block) = self.block.take() else { return Ok(()) };
        let mut lines = Vec::new();
        let decoded = self.hpack.decode(&mut block.bytes, &mut lines);
        decoded.map_err(|error| format!("no HPACK: {error:?}: {header:?}"))?;
        let fields = RecordedFields(
            lines.into_iter().map(|(name, value, _)| (latin1(&name), latin1(&value))).collect(),
        );
        let sender = self.sender;
        let stream = self.open_stream(header)?;
        stream.has_ended = block.ends_stream;
        if !stream.head.0.is_empty() {
            lists::check_trailers(&fields)?;
            if !block.ends_stream {
                return Err(format!("trailers that do not end their stream: {fields:?}"));
            }
            stream.trailers = Some(fields);
            return self.check_length(header);
        }
        lists::check_head(&fields, sender)?;
        let is_interim = fields.first(":status").is_some_and(|status| status.starts_with('1'));
        if is_interim {
            stream.interim.push(fields);
            return if block.ends_stream {
                Err("an interim response ends its stream".to_owned())
            } else {
                Ok(())
            };
        }
        stream.head = fields;
        self.check_length(header)
    }

    fn check_length(&self, header: RecordedFrameHeader) -> Result<(), String> {
        let Some(stream) = self.reading.streams.get(&header.stream) else { return Ok(()) };
        stream.check_length(self.without_bodies.contains(&header.stream))
    }
}

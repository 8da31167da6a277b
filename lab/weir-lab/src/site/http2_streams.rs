//! One connection of HTTP/2 to a site (RFC 9113): any requests, with bodies, on many streams; answers that are not known.
//!
//! Works on bytes alone: `receive` takes what has come and leaves in `out` what is to be sent. It offers no table for header lines,
//! so that the status of an answer can be read without one.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::load::LoadFault;
use crate::load::http2::client::StreamResult;
use crate::load::seen::SeenAnswer;
use crate::wire::http2::{self, FrameStart, kind, setting};

/// Bytes that a target may send on a stream, and on the connection, beyond what was read: as browsers have it.
const STREAM_WINDOW: u32 = 6 << 20;
const CONNECTION_WINDOW: u32 = 15 << 20;

/// The windows before anyone says anything, and the largest there are.
const WINDOW_AT_FIRST: i64 = 65_535;
const WINDOW_MAX: i64 = (1 << 31) - 1;

/// Bytes of a frame that every peer takes.
const FRAME_MAX: usize = 16_384;

/// The most that the lab reads of a header block, in bytes.
const BLOCK_MAX: usize = 64 * 1024;

/// Streams are numbered up to here.
const STREAM_MAX: u32 = (1 << 31) - 3;

/// A stream that is over: by which its driver knows it, how it ended, and what was seen.
pub(super) type EndedAnswer = (u64, StreamResult, SeenAnswer);

#[derive(Debug)]
struct SiteStream {
    tag: u64,
    /// The rest of the request's body.
    unsent: Bytes,
    /// Bytes that the target still takes.
    window: i64,
    /// Bytes of the answer for which its window was not opened again.
    owed: u32,
    has_head: bool,
    seen: SeenAnswer,
    text: Option<std::sync::Arc<[u8]>>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Http2Streams {
    streams: BTreeMap<u32, SiteStream>,
    next_id: u32,
    /// What is to be sent.
    pub(super) out: Vec<u8>,
    received: Vec<u8>,
    /// The head of an answer that came in several frames: its stream, its flags, and what came of it.
    block: Option<(u32, u8, Vec<u8>)>,
    window: i64,
    window_of_new: i64,
    streams_max: usize,
    owed: u32,
    /// The last stream that the target will process, once it says so.
    last_id: Option<u32>,
    /// The streams that are over since the last call.
    pub(super) ended: VecDeque<EndedAnswer>,
}

impl Http2Streams {
    /// A connection that begins as clients do.
    pub(super) fn new() -> Self {
        let mut out = http2::PREFACE.to_vec();
        let settings = [
            (setting::HEADER_TABLE_SIZE, 0),
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, STREAM_WINDOW),
        ];
        let settings: Vec<u8> = settings
            .iter()
            .flat_map(|(name, value): &(u16, u32)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        http2::write(&mut out, kind::SETTINGS, 0, 0, &settings);
        let more = CONNECTION_WINDOW - WINDOW_AT_FIRST as u32;
        http2::write(&mut out, kind::WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
        Self {
            streams: BTreeMap::new(),
            next_id: 1,
            out,
            received: Vec::new(),
            block: None,
            window: WINDOW_AT_FIRST,
            window_of_new: WINDOW_AT_FIRST,
            streams_max: usize::MAX,
            owed: 0,
            last_id: None,
            ended: VecDeque::new(),
        }
    }

    /// Whether it will take further requests, now or when others are answered.
    pub(super) fn takes_requests(&self) -> bool {
        self.last_id.is_none() && self.next_id < STREAM_MAX
    }

    /// Begins a request with this header block and body; false when the target takes no more streams now.
    pub(super) fn begin(
        &mut self,
        tag: u64,
        block: &[u8],
        body: &Bytes,
        text: Option<&std::sync::Arc<[u8]>>,
    ) -> bool {
        if !self.takes_requests() || self.streams.len() >= self.streams_max {
            return false;
        }
        let id = self.next_id;
        self.next_id += 2;
        let ends = if body.is_empty() { http2::END_STREAM } else { 0 };
        let parts = block.chunks(FRAME_MAX).count().max(1);
        for (number, part) in block.chunks(FRAME_MAX).enumerate() {
            let last = if number + 1 == parts { http2::END_HEADERS } else { 0 };
            let (kind, ends) = if number == 0 { (kind::HEADERS, ends) } else { (kind::CONTINUATION, 0) };
            http2::write(&mut self.out, kind, last | ends, id, part);
        }
        let stream = SiteStream {
            tag,
            unsent: body.clone(),
            window: self.window_of_new,
            owed: 0,
            has_head: false,
            seen: SeenAnswer::default(),
            text: text.cloned(),
        };
        self.streams.insert(id, stream);
        self.send_bodies();
        true
    }

    /// Sends of the bodies what the windows of the target allow.
    fn send_bodies(&mut self) {
        for (id, stream) in self.streams.iter_mut().filter(|(_, stream)| !stream.unsent.is_empty()) {
            while !stream.unsent.is_empty() {
                let room = self.window.min(stream.window).clamp(0, FRAME_MAX as i64) as usize;
                if room == 0 {
                    break;
                }
                let part = stream.unsent.split_to(room.min(stream.unsent.len()));
                self.window -= part.len() as i64;
                stream.window -= part.len() as i64;
                let ends = if stream.unsent.is_empty() { http2::END_STREAM } else { 0 };
                http2::write(&mut self.out, kind::DATA, ends, *id, &part);
            }
        }
    }

    /// Takes arrived bytes.
    ///
    /// # Errors
    /// The error after which the connection is over.
    pub(super) fn receive(&mut self, input: &[u8]) -> Result<(), LoadFault> {
        self.received.extend_from_slice(input);
        let received = std::mem::take(&mut self.received);
        let mut rest = &received[..];
        while let Some((start, payload)) = http2::frame(rest) {
            self.frame(start, payload)?;
            rest = &rest[http2::HEAD_LEN + start.len..];
        }
        self.received = rest.to_vec();
        if self.owed >= CONNECTION_WINDOW / 2 {
            http2::write(&mut self.out, kind::WINDOW_UPDATE, 0, 0, &self.owed.to_be_bytes());
            self.owed = 0;
        }
        self.send_bodies();
        Ok(())
    }

    fn frame(&mut self, start: FrameStart, payload: &[u8]) -> Result<(), LoadFault> {
        let number = |from: usize| {
            payload.get(from..from + 4).map_or(0, |it| u32::from_be_bytes(it.try_into().expect("four bytes")))
        };
        match start.kind {
            kind::SETTINGS if start.flags & http2::ACK == 0 => self.settings(payload),
            kind::PING if start.flags & http2::ACK == 0 => {
                http2::write(&mut self.out, kind::PING, http2::ACK, 0, payload);
            }
            kind::WINDOW_UPDATE => self.open_window(start.stream, i64::from(number(0) & 0x7fff_ffff))?,
            kind::GOAWAY => self.go_away(number(0) & 0x7fff_ffff, number(4))?,
            kind::RST_STREAM => {
                let is_answered = self.streams.get(&start.stream).is_some_and(|stream| stream.has_head);
                let result = match number(0) {
                    http2::REFUSED_STREAM if !is_answered => StreamResult::Unprocessed,
                    code => StreamResult::Failed(LoadFault::StreamReset(code)),
                };
                self.finish(start.stream, result);
            }
            kind::HEADERS | kind::CONTINUATION => self.header_block(start, payload)?,
            kind::DATA => self.data(start, payload)?,
            _ => {}
        }
        Ok(())
    }

    fn settings(&mut self, payload: &[u8]) {
        for entry in payload.chunks_exact(6) {
            let value = u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]);
            match u16::from_be_bytes([entry[0], entry[1]]) {
                setting::MAX_CONCURRENT_STREAMS => self.streams_max = value as usize,
                setting::INITIAL_WINDOW_SIZE => {
                    let change = i64::from(value) - self.window_of_new;
                    self.window_of_new = i64::from(value);
                    self.streams.values_mut().for_each(|stream| stream.window += change);
                }
                _ => {}
            }
        }
        http2::write(&mut self.out, kind::SETTINGS, http2::ACK, 0, &[]);
    }

    fn open_window(&mut self, id: u32, more: i64) -> Result<(), LoadFault> {
        let window = match id {
            0 => Some(&mut self.window),
            id => self.streams.get_mut(&id).map(|stream| &mut stream.window),
        };
        let Some(window) = window else { return Ok(()) };
        *window += more;
        if *window > WINDOW_MAX { Err(malformed("a window over 2^31-1")) } else { Ok(()) }
    }

    fn go_away(&mut self, last_id: u32, code: u32) -> Result<(), LoadFault> {
        self.last_id = Some(last_id);
        let unprocessed: Vec<u32> = self.streams.keys().copied().filter(|id| *id > last_id).collect();
        unprocessed.into_iter().for_each(|id| self.finish(id, StreamResult::Unprocessed));
        if code == 0 { Ok(()) } else { Err(LoadFault::Reset(format!("GOAWAY with code {code}"))) }
    }

    fn header_block(&mut self, start: FrameStart, payload: &[u8]) -> Result<(), LoadFault> {
        let (id, flags, mut block) = match (start.kind, self.block.take()) {
            (kind::HEADERS, None) => (start.stream, start.flags, http2::content(start, payload).to_vec()),
            (kind::CONTINUATION, Some((id, flags, mut block))) if id == start.stream => {
                block.extend_from_slice(payload);
                (id, flags, block)
            }
            _ => return Err(malformed("the frames of a header block follow each other")),
        };
        if block.len() > BLOCK_MAX {
            return Err(malformed("a head over 64 KiB"));
        }
        if start.flags & http2::END_HEADERS == 0 {
            self.block = Some((id, flags, std::mem::take(&mut block)));
            return Ok(());
        }
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        // What follows the body are trailers.
        if !stream.has_head {
            match http2::status(&block) {
                0 => return Err(malformed("a head begins with a status, without a table")),
                100..200 => return Ok(()),
                status => (stream.has_head, stream.seen.status) = (true, status),
            }
        }
        if flags & http2::END_STREAM != 0 {
            self.finish(id, StreamResult::Answered);
        }
        Ok(())
    }

    fn data(&mut self, start: FrameStart, payload: &[u8]) -> Result<(), LoadFault> {
        self.owed += start.len as u32;
        let Some(stream) = self.streams.get_mut(&start.stream) else { return Ok(()) };
        if !stream.has_head {
            return Err(malformed("a body before the head"));
        }
        let text = stream.text.clone();
        stream.seen.body(http2::content(start, payload), text.as_deref());
        stream.owed += start.len as u32;
        if start.flags & http2::END_STREAM != 0 {
            self.finish(start.stream, StreamResult::Answered);
        } else if stream.owed >= STREAM_WINDOW / 2 {
            http2::write(&mut self.out, kind::WINDOW_UPDATE, 0, start.stream, &stream.owed.to_be_bytes());
            stream.owed = 0;
        }
        Ok(())
    }

    /// A request is over; of one whose body is not wholly sent, the target is told.
    fn finish(&mut self, id: u32, result: StreamResult) {
        let Some(stream) = self.streams.remove(&id) else { return };
        if result == StreamResult::Answered && !stream.unsent.is_empty() {
            http2::write(&mut self.out, kind::RST_STREAM, 0, id, &http2::CANCEL.to_be_bytes());
        }
        self.ended.push_back((stream.tag, result, stream.seen));
    }

    /// Gives up the request that its driver knows by `tag`.
    pub(super) fn cancel(&mut self, tag: u64) {
        let found = self.streams.iter().find(|(_, stream)| stream.tag == tag).map(|(id, _)| *id);
        let Some(id) = found else { return };
        http2::write(&mut self.out, kind::RST_STREAM, 0, id, &http2::CANCEL.to_be_bytes());
        self.finish(id, StreamResult::Failed(LoadFault::Timeout));
    }

    /// The connection is over, and all that was open on it failed.
    pub(super) fn end(&mut self, fault: &LoadFault) {
        let ids: Vec<u32> = self.streams.keys().copied().collect();
        self.last_id.get_or_insert(0);
        ids.into_iter().for_each(|id| self.finish(id, StreamResult::Failed(fault.clone())));
    }
}

fn malformed(rule: &str) -> LoadFault {
    LoadFault::Malformed(rule.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{EndedAnswer, FRAME_MAX, Http2Streams, STREAM_WINDOW};
    use crate::load::LoadFault;
    use crate::load::http2::client::StreamResult;
    use crate::wire::http2::{self, ACK, END_HEADERS, END_STREAM, kind};
    use bytes::Bytes;

    /// The frames in `out` after what was read before: kind, flags, stream, length.
    fn frames(streams: &mut Http2Streams) -> Vec<(u8, u8, u32, usize)> {
        let out = std::mem::take(&mut streams.out);
        let mut rest = out.strip_prefix(http2::PREFACE).unwrap_or(&out);
        let mut frames = Vec::new();
        while let Some((start, payload)) = http2::frame(rest) {
            frames.push((start.kind, start.flags, start.stream, payload.len()));
            rest = &rest[http2::HEAD_LEN + start.len..];
        }
        frames
    }

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        http2::write(&mut out, kind, flags, stream, payload);
        out
    }

    fn ended(streams: &mut Http2Streams) -> Vec<(u64, StreamResult, u16, u64)> {
        let plain = |(tag, result, seen): EndedAnswer| (tag, result, seen.status, seen.len);
        streams.ended.drain(..).map(plain).collect()
    }

    #[test]
    fn answers_are_read_however_they_are_cut() {
        let answer = [
            frame(kind::SETTINGS, 0, 0, &[]),
            // 103, then 404 in two frames, then the body.
            frame(kind::HEADERS, END_HEADERS, 1, b"\x08\x03103"),
            frame(kind::HEADERS, 0, 1, b"\x8d\x00"),
            frame(kind::CONTINUATION, END_HEADERS, 1, b"\x01a\x01b"),
            frame(kind::DATA, 0, 1, b"hel"),
            frame(kind::DATA, END_STREAM, 1, b"lo"),
            frame(kind::PING, 0, 0, &[7; 8]),
        ]
        .concat();
        for piece in 1..=answer.len() {
            let mut streams = Http2Streams::new();
            assert!(streams.begin(9, b"\x82", &Bytes::new(), None));
            frames(&mut streams);
            for part in answer.chunks(piece) {
                streams.receive(part).unwrap();
            }
            assert_eq!(ended(&mut streams), [(9, StreamResult::Answered, 404, 5)], "in pieces of {piece}");
            let sent = frames(&mut streams);
            assert_eq!(sent, [(kind::SETTINGS, ACK, 0, 0), (kind::PING, ACK, 0, 8)]);
        }
    }

    #[test]
    fn a_body_waits_for_the_window() {
        let mut streams = Http2Streams::new();
        streams.begin(1, b"\x83", &Bytes::from(vec![0; 100_000]), None);
        let sent: Vec<_> = frames(&mut streams).into_iter().filter(|frame| frame.0 == kind::DATA).collect();
        assert_eq!(sent.iter().map(|frame| frame.3).sum::<usize>(), 65_535);
        assert!(sent.iter().all(|frame| frame.3 <= FRAME_MAX && frame.1 == 0));
        // The window of the stream alone is not enough.
        streams.receive(&frame(kind::WINDOW_UPDATE, 0, 1, &1_000_000_u32.to_be_bytes())).unwrap();
        assert_eq!(frames(&mut streams), []);
        streams.receive(&frame(kind::WINDOW_UPDATE, 0, 0, &1_000_000_u32.to_be_bytes())).unwrap();
        let sent = frames(&mut streams);
        assert_eq!(sent.iter().map(|frame| frame.3).sum::<usize>(), 100_000 - 65_535);
        assert_eq!(sent.last().map(|frame| frame.1), Some(END_STREAM));
    }

    #[test]
    fn windows_are_opened_again_for_long_answers() {
        let mut streams = Http2Streams::new();
        streams.begin(1, b"\x82", &Bytes::new(), None);
        streams.receive(&frame(kind::HEADERS, END_HEADERS, 1, b"\x88")).unwrap();
        frames(&mut streams);
        let part = frame(kind::DATA, 0, 1, &[0; FRAME_MAX]);
        let parts = STREAM_WINDOW as usize / 2 / FRAME_MAX;
        for _ in 0..parts {
            streams.receive(&part).unwrap();
        }
        assert_eq!(frames(&mut streams), [(kind::WINDOW_UPDATE, 0, 1, 4)]);
    }

    #[test]
    fn what_was_not_processed_is_told_from_what_failed() {
        let mut streams = Http2Streams::new();
        for tag in 1..=4 {
            streams.begin(tag, b"\x82", &Bytes::new(), None);
        }
        streams.receive(&frame(kind::RST_STREAM, 0, 1, &7_u32.to_be_bytes())).unwrap();
        streams.receive(&frame(kind::RST_STREAM, 0, 3, &2_u32.to_be_bytes())).unwrap();
        streams.receive(&frame(kind::GOAWAY, 0, 0, &[0, 0, 0, 5, 0, 0, 0, 0])).unwrap();
        let failed = |fault| StreamResult::Failed(fault);
        assert_eq!(
            ended(&mut streams),
            [
                (1, StreamResult::Unprocessed, 0, 0),
                (2, failed(LoadFault::StreamReset(2)), 0, 0),
                (4, StreamResult::Unprocessed, 0, 0),
            ]
        );
        assert!(!streams.takes_requests() && !streams.begin(5, b"\x82", &Bytes::new(), None));
        streams.cancel(3);
        assert_eq!(ended(&mut streams), [(3, failed(LoadFault::Timeout), 0, 0)]);
    }

    #[test]
    fn the_target_says_how_many_streams_there_may_be() {
        let mut streams = Http2Streams::new();
        streams.receive(&frame(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1])).unwrap();
        assert!(streams.begin(1, b"\x82", &Bytes::new(), None));
        assert!(!streams.begin(2, b"\x82", &Bytes::new(), None) && streams.takes_requests());
    }

    #[test]
    fn what_is_not_http_2_ends_the_connection() {
        for wrong in [
            frame(kind::HEADERS, END_HEADERS, 1, b"\xbe"),
            frame(kind::DATA, 0, 1, b"x"),
            frame(kind::CONTINUATION, END_HEADERS, 1, b"\x88"),
            frame(kind::WINDOW_UPDATE, 0, 0, &0x7fff_ffff_u32.to_be_bytes()),
            frame(kind::GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 11]),
        ] {
            let mut streams = Http2Streams::new();
            streams.begin(1, b"\x82", &Bytes::new(), None);
            assert!(streams.receive(&wrong).is_err(), "{wrong:x?}");
        }
    }
}

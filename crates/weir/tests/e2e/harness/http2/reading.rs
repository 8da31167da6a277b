//! The client: frames that come, and what must be true of them.

use super::client::Http2Client;
use super::frame::{self, FrameHeader, number};
use crate::harness::wire::End;

impl Http2Client {
    /// Reads one frame; panics when the connection ends instead.
    pub(crate) fn read_frame(&mut self) {
        if let Err(end) = self.try_read_frame() {
            panic!("no frame, {end}; {}", self.summary());
        }
    }

    /// Reads one frame.
    pub(crate) fn try_read_frame(&mut self) -> Result<(), End> {
        let header = self.wire.take(FrameHeader::LEN)?;
        let header = FrameHeader::read(&header).expect("it is as long as that");
        assert!(header.len <= frame::PAYLOAD_MAX, "a frame of {} bytes: {header:?}", header.len);
        let payload = self.wire.take(header.len)?;
        self.frames.push(header);
        if let Some((stream, ..)) = self.block {
            assert!(header.kind == frame::CONTINUATION && header.stream == stream, "in a block: {header:?}");
        }
        match header.kind {
            frame::DATA => self.data_came(header, &payload),
            frame::HEADERS => {
                assert_eq!(
                    header.flags & (frame::PADDED | frame::WITH_PRIORITY),
                    0,
                    "Weir has no use for these"
                );
                self.block = Some((header.stream, header.has(frame::END_STREAM), payload));
                self.block_came(header);
            }
            frame::CONTINUATION => {
                let (_, _, block) = self.block.as_mut().expect("a block was begun");
                block.extend(payload);
                self.block_came(header);
            }
            frame::RST_STREAM => {
                let summary = self.summary();
                let stream = self.streams.get_mut(&header.stream);
                let stream = stream.unwrap_or_else(|| panic!("no such stream: {header:?}; {summary}"));
                stream.reset = Some(number(&payload));
            }
            frame::SETTINGS => self.settings_came(header, &payload),
            frame::PING => {
                let payload: [u8; 8] = payload.try_into().expect("a ping has eight bytes");
                if header.has(frame::ACK) {
                    self.pongs.push(payload);
                } else if self.answers {
                    self.answer(&frame::frame(frame::PING, frame::ACK, 0, &payload));
                }
            }
            frame::GOAWAY => self.goaways.push((number(&payload), number(&payload[4..]))),
            frame::WINDOW_UPDATE => {
                let by = i64::from(number(&payload));
                assert!(by > 0, "a window is opened by nothing");
                match header.stream {
                    0 => self.send_window += by,
                    stream => *self.sent.entry(stream).or_default() -= by,
                }
            }
            _ => panic!("Weir sends no such frame: {header:?}"),
        }
        Ok(())
    }

    /// Sends what a frame makes necessary; Weir may be gone.
    fn answer(&mut self, bytes: &[u8]) {
        // What Weir has sent before it went is still read.
        let _ = self.wire.send(bytes);
    }

    fn data_came(&mut self, header: FrameHeader, payload: &[u8]) {
        assert_eq!(header.flags & frame::PADDED, 0, "Weir has no use for padding");
        let len = payload.len() as i64;
        let stream = self.streams.get_mut(&header.stream).expect("a stream that was opened");
        assert!(!stream.is_over(), "DATA on a stream that is over: {header:?}");
        stream.window -= len;
        self.window -= len;
        assert!(len == 0 || (stream.window >= 0 && self.window >= 0), "beyond the window: {header:?}");
        stream.data(payload, header.has(frame::END_STREAM));
        let is_over = stream.is_over();
        if self.gives_back && len > 0 {
            let by = payload.len() as u32;
            let mut updates = frame::window_update(0, by);
            self.window += len;
            if !is_over {
                updates.extend(frame::window_update(header.stream, by));
                self.streams.get_mut(&header.stream).expect("it is open").window += len;
            }
            self.answer(&updates);
        }
    }

    fn block_came(&mut self, header: FrameHeader) {
        if !header.has(frame::END_HEADERS) {
            return;
        }
        let (id, ends_stream, block) = self.block.take().expect("a block was begun");
        let fields = self.hpack.read(&block);
        let stream = self.streams.get_mut(&id).expect("a stream that was opened");
        assert!(!stream.is_over(), "a block on a stream that is over: {fields:?}");
        stream.head(fields, ends_stream);
    }

    fn settings_came(&mut self, header: FrameHeader, payload: &[u8]) {
        if header.has(frame::ACK) {
            self.acknowledged += 1;
            return;
        }
        let values = payload.chunks(6).map(|setting| {
            let number = u16::from_be_bytes([setting[0], setting[1]]);
            (number, frame::number(&setting[2..]))
        });
        self.settings = Some(values.collect());
        if self.answers {
            self.answer(&frame::frame(frame::SETTINGS, frame::ACK, 0, &[]));
        }
    }
}

//! Frames of streams on their way out, and room that goes back to the peer.

use super::{ConnectionCodec, Event};
use crate::h2::fault::{ConnectionFault, StreamFault};
use crate::h2::frame::{
    ErrorCode, FRAME_HEADER_BYTES, FrameHeader, FrameType, WINDOW_MAX, flag, write_window_update,
};
use crate::message::rule::Rule;
use crate::multiplexed::role::Role;

/// A header block that is being written, from [`ConnectionCodec::begin_block`] to [`ConnectionCodec::end_block`].
#[derive(Debug)]
pub struct OpenBlock {
    /// Where its frame begins in the output.
    start: usize,
    stream: u32,
}

impl ConnectionCodec {
    /// Whether the peer lets us open another stream now.
    pub fn can_open(&self) -> bool {
        self.last_granted.is_none()
            && self.last_stream < WINDOW_MAX - 2
            && self.streams.len() < self.remote.max_concurrent_streams as usize
    }

    /// Opens the next stream of a client.
    pub fn open_stream(&mut self) -> u32 {
        debug_assert!(self.role == Role::Client && self.can_open());
        self.last_stream = self.streams_opened() * 2 + 1;
        self.push_stream(self.last_stream, false, false);
        self.last_stream
    }

    /// Takes the last stream back that was opened, of which nothing was sent: its number is that of the next.
    pub fn abandon_stream(&mut self, id: u32) {
        debug_assert!(self.role == Role::Client && id == self.last_stream);
        self.streams.remove(id);
        self.last_stream = id.saturating_sub(2);
    }

    /// Begins a header block on a stream; the caller appends it to `out`.
    pub fn begin_block(&mut self, stream: u32, out: &mut Vec<u8>) -> OpenBlock {
        let start = out.len();
        out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
        OpenBlock { start, stream }
    }

    /// Ends a header block: writes the header of its frame, and divides it when it is too long for one (RFC 9113 section 4.3).
    #[expect(clippy::needless_pass_by_value, reason = "a block that has ended must not be used again")]
    pub fn end_block(&mut self, block: OpenBlock, ends_stream: bool, out: &mut Vec<u8>) {
        let OpenBlock { start, stream } = block;
        if ends_stream {
            self.end_local(stream);
        }
        let payload = start + FRAME_HEADER_BYTES;
        let len = out.len() - payload;
        let end_stream = if ends_stream { flag::END_STREAM } else { 0 };
        let max = Self::frame_bytes_max();
        let first = len.min(max);
        let end_headers = if first == len { flag::END_HEADERS } else { 0 };
        let header = FrameHeader::new(first, FrameType::Headers, end_stream | end_headers, stream);
        out[start..payload].copy_from_slice(&header.bytes());
        if first < len {
            let rest = out.split_off(payload + first);
            let mut fragments = rest.chunks(max).peekable();
            while let Some(fragment) = fragments.next() {
                let flags = if fragments.peek().is_none() { flag::END_HEADERS } else { 0 };
                FrameHeader::new(fragment.len(), FrameType::Continuation, flags, stream).write(out);
                out.extend_from_slice(fragment);
            }
        }
    }

    /// How many bytes of body all streams together may send now.
    pub fn room(&self) -> usize {
        self.send.left()
    }

    /// How many bytes of body the window of a stream lets pass; 0 when the stream is over, or our direction of it.
    pub fn stream_room(&self, stream: u32) -> usize {
        let open = self.streams.get(stream).filter(|open| !open.is_reset && !open.local_ended);
        open.map_or(0, |open| open.send.left())
    }

    /// Appends as much of `data` as both windows let pass, at most `max` bytes; returns how much that is.
    pub fn send_data(&mut self, id: u32, data: &[u8], max: usize, out: &mut Vec<u8>) -> usize {
        let allowed = self.stream_room(id).min(self.room()).min(max).min(data.len());
        for piece in data[..allowed].chunks(Self::frame_bytes_max()) {
            FrameHeader::new(piece.len(), FrameType::Data, 0, id).write(out);
            out.extend_from_slice(piece);
            self.control.earn(updates_earned(piece.len()));
        }
        self.send.take(allowed);
        if let Some(stream) = self.streams.get_mut(id) {
            stream.send.take(allowed);
        }
        allowed
    }

    /// Ends our direction of a stream. `last_frame` is where its last frame begins in `out`, if that has not left: then it bears
    /// the end, else an empty DATA frame does.
    pub fn send_end(&mut self, id: u32, last_frame: Option<usize>, out: &mut Vec<u8>) {
        if !self.end_local(id) {
            return;
        }
        let last = last_frame.and_then(|start| out.get_mut(start..start + FRAME_HEADER_BYTES));
        match last.and_then(|header| FrameHeader::read(header).map(|read| (header, read))) {
            Some((header, read)) if read.stream == id && bears_end(read) => header[4] |= flag::END_STREAM,
            _ => FrameHeader::new(0, FrameType::Data, flag::END_STREAM, id).write(out),
        }
    }

    /// Our direction of the stream ends; `false` when it has ended before.
    fn end_local(&mut self, id: u32) -> bool {
        match self.streams.get_mut(id) {
            Some(stream) if !stream.local_ended && !stream.is_reset => {
                stream.local_ended = true;
                true
            }
            _ => false,
        }
    }

    /// The body that follows the head of a stream has this length: DATA is held to it (RFC 9113 section 8.1.1).
    ///
    /// # Errors
    /// When the stream has ended without it.
    pub fn expect_length(&mut self, id: u32, length: u64) -> Result<(), StreamFault> {
        match self.streams.get_mut(id) {
            Some(stream) if stream.remote_ended && length > 0 => {
                Err(StreamFault::protocol(Rule::LengthDiffers))
            }
            Some(stream) => {
                stream.expected = Some(length);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Ends a stream on which the peer has broken a rule.
    ///
    /// # Errors
    /// When the peer does so too often.
    pub fn fail(
        &mut self,
        id: u32,
        fault: StreamFault,
        now: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event>, ConnectionFault> {
        let is_new = match self.streams.get_mut(id) {
            Some(stream) => !std::mem::replace(&mut stream.is_reset, true),
            None => {
                self.streams.remember_reset(id);
                true
            }
        };
        // What comes behind the end of a stream is answered each time: no honest peer sends it.
        if !is_new && fault.code != ErrorCode::STREAM_CLOSED {
            return Ok(None);
        }
        self.write_reset(id, fault.code, out);
        self.give_back_held(id);
        self.announce(0, out);
        if self.role == Role::Server {
            self.charge_reset(now, Rule::Http2TooManyFaults)?;
        }
        Ok(is_new.then_some(Event::Fault { stream: id, fault }))
    }

    /// Resets a stream for a reason of our own.
    pub fn reset(&mut self, id: u32, code: ErrorCode, out: &mut Vec<u8>) {
        if let Some(stream) = self.streams.get_mut(id)
            && !std::mem::replace(&mut stream.is_reset, true)
        {
            self.write_reset(id, code, out);
            self.give_back_held(id);
            self.announce(0, out);
        }
    }

    /// Forgets a stream whose exchange is over. One that has not ended is reset: with NO_ERROR when only the peer has not ended it,
    /// so that it takes the answer (RFC 9113 section 8.1), else with `code`.
    #[inline]
    pub fn release(&mut self, id: u32, code: ErrorCode, out: &mut Vec<u8>) {
        if !self.streams.remove_finished(id) {
            self.release_early(id, code, out);
        }
    }

    fn release_early(&mut self, id: u32, code: ErrorCode, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get(id) else { return };
        let (remote_ended, is_over) = (stream.remote_ended, stream.is_reset);
        if !is_over && !stream.local_ended {
            self.reset(id, code, out);
        } else if !is_over && !remote_ended {
            let code = if self.role == Role::Server { ErrorCode::NO_ERROR } else { ErrorCode::CANCEL };
            self.reset(id, code, out);
        }
        self.give_back_held(id);
        self.announce(0, out);
        if !remote_ended {
            self.streams.remember_reset(id);
        }
        self.streams.remove(id);
    }

    /// Bytes of a body were passed on: their room goes back to the peer. Whether its stream has used half of the window up since that was
    /// last so.
    pub fn consumed(&mut self, id: u32, len: u32, out: &mut Vec<u8>) -> bool {
        let Some(stream) = self.streams.get_mut(id) else { return false };
        let len = len.min(stream.held);
        stream.held -= len;
        stream.receive.give(len);
        self.unhold(len);
        self.announce(id, out)
    }

    /// Bytes of bodies that were received and not consumed.
    pub fn held(&self) -> u32 {
        self.held
    }

    /// From now on, so many of them do not hold up other streams. What is given back for that, the peer is told with the next window that
    /// opens, or by [`ConnectionCodec::grow_connection_window`].
    pub fn set_held_bytes_max(&mut self, bytes: u32) {
        self.limits.held_bytes_max = bytes;
        self.unhold(0);
    }

    /// Raises the window of a stream.
    pub fn grow_window(&mut self, id: u32, size: u32, out: &mut Vec<u8>) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.receive.grow(size);
            self.announce(id, out);
        }
    }

    /// Raises the window of the connection.
    pub fn grow_connection_window(&mut self, size: u32, out: &mut Vec<u8>) {
        self.receive.grow(size);
        self.announce(0, out);
    }

    /// The window of the connection, in bytes.
    pub fn connection_window(&self) -> u32 {
        self.receive.size()
    }

    /// Counts bytes that were received and are not consumed. Their room goes back at once while there are few of them, so that a
    /// stream that is not read holds its own window and not that of others.
    pub(super) fn hold(&mut self, len: u32) {
        self.held += len;
        if self.held - self.owed <= self.limits.held_bytes_max {
            self.receive.give(len);
        } else {
            self.owed += len;
        }
    }

    fn unhold(&mut self, len: u32) {
        self.held -= len;
        let owed = self.owed.min(self.held.saturating_sub(self.limits.held_bytes_max));
        self.receive.give(self.owed - owed);
        self.owed = owed;
    }

    /// What a stream holds goes back: it will not be consumed.
    pub(super) fn give_back_held(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(id) {
            let held = std::mem::take(&mut stream.held);
            self.unhold(held);
        }
    }

    /// Tells the peer about room that it has got back; whether on this stream.
    pub(super) fn announce(&mut self, id: u32, out: &mut Vec<u8>) -> bool {
        if let Some(by) = self.receive.announce() {
            write_window_update(out, 0, by);
        }
        if let Some(stream) = self.streams.get_mut(id)
            && !stream.remote_ended
            && !stream.is_reset
            && let Some(by) = stream.receive.announce()
        {
            write_window_update(out, id, by);
            return true;
        }
        false
    }
}

/// WINDOW_UPDATE frames that the peer may send for a DATA frame of this length: one for the stream and one for the connection, and as
/// many for each 4 KiB. Programs in Go open both windows whenever they have read so much.
const fn updates_earned(len: usize) -> u16 {
    const STEP_BYTES: usize = 4_096;
    2 + 2 * (len / STEP_BYTES) as u16
}

/// Whether a frame can bear the end of its stream.
fn bears_end(header: FrameHeader) -> bool {
    header.number == FrameType::Data as u8
        || header.number == FrameType::Headers as u8 && header.has(flag::END_HEADERS)
}

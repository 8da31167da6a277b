//! The message that a stream sends, as frames behind those of other streams.

use std::io;
use std::task::{Context, Poll};

use weir_http::Framing;
use weir_http::h2::HeadWriter;

use super::output::FramePlace;
use super::shared::ConnectionSide;
use super::shared::{Http2State, SharedConnection, StreamShared};
use crate::relay::ends::{RelayError, Sink, Source};
use crate::relay::message_end::BodyAllowance;

/// The message of a stream on its way out.
#[derive(Debug)]
pub(crate) struct OutgoingFrames {
    /// Whether the last data found no room, or not enough.
    is_blocked: bool,
    /// What the head allows behind it.
    allowance: BodyAllowance,
    /// Bytes that were appended to the output, framing included.
    pub(super) sent: u64,
    /// Whether what is sent is for a tunnel: the message has no body.
    pub(super) is_for_tunnel: bool,
    /// Whether the head has ended the stream.
    ends_with_head: bool,
    /// The last frame of the stream.
    pub(super) last_frame: Option<FramePlace>,
}

impl OutgoingFrames {
    pub(super) const fn new() -> Self {
        Self {
            is_blocked: false,
            allowance: BodyAllowance::unbegun(),
            sent: 0,
            is_for_tunnel: false,
            ends_with_head: false,
            last_frame: None,
        }
    }

    /// A final head is appended, which says this of what follows: nothing does when it has ended the stream.
    pub(super) fn begin(&mut self, framing: Framing) {
        self.allowance.begin(framing);
        self.ends_with_head = framing == Framing::None;
    }
}

/// A message that is written.
pub(crate) struct FrameSink<'a, S: ConnectionSide> {
    pub(super) connection: &'a SharedConnection<S>,
    pub(super) stream: &'a StreamShared<S>,
    pub(super) outgoing: &'a mut OutgoingFrames,
}

impl<S: ConnectionSide> FrameSink<'_, S> {
    /// Appends as much of `data` as may be; the rest waits for room.
    pub(super) fn append(&mut self, data: &[u8]) -> usize {
        let state = &mut *self.connection.state.borrow_mut();
        let allowed = state.allowance(self.stream);
        let (place, before) = (state.output.place(), state.output.bytes.len());
        let len = state.codec.send_data(self.stream.id, data, allowed, &mut state.output.bytes);
        if len > 0 {
            let framed = state.output.bytes.len() - before;
            self.outgoing.sent += framed as u64;
            state.body_bytes_sent += len as u64;
            // Of several frames, only the first is known: then none bears the end.
            let is_one_frame = framed - len == weir_http::h2::FRAME_HEADER_BYTES;
            self.outgoing.last_frame = is_one_frame.then_some(place);
            let given = self.stream.given.get();
            let used = given.min(len);
            self.stream.given.set(given - used);
            state.schedule.settle(used);
            state.wake();
        }
        self.outgoing.is_blocked = len < data.len();
        if self.outgoing.is_blocked {
            state.wait_for_room(self.stream);
            state.wake();
        } else {
            state.settle(self.stream);
        }
        len
    }
}

impl<S: ConnectionSide> FrameSink<'_, S> {
    /// The same with what is of a body, which is held to what the head has said.
    fn append_allowed(&mut self, data: &[u8]) -> usize {
        if !self.outgoing.allowance.check(data.len()) {
            self.outgoing.is_blocked = true;
            return 0;
        }
        let len = self.append(data);
        self.outgoing.allowance.count(len);
        len
    }

    /// Ends our direction of the stream.
    pub(super) fn end(&self) {
        let state = &mut *self.connection.state.borrow_mut();
        self.append_end(state);
        state.wake();
    }

    /// Appends the end of the stream.
    fn append_end(&self, state: &mut Http2State<S>) {
        let Http2State { codec, output, .. } = state;
        let last = self.outgoing.last_frame.and_then(|place| output.find(place));
        codec.send_end(self.stream.id, last, &mut output.bytes);
    }
}

impl<S: ConnectionSide> Sink for FrameSink<'_, S> {
    fn has_room(&self) -> bool {
        !self.outgoing.is_blocked
    }

    fn is_waiting(&self) -> bool {
        self.outgoing.is_blocked
    }

    fn accept(&mut self, data: &[u8]) -> usize {
        if self.stream.gone.get().is_some() {
            // The next write says so.
            self.outgoing.is_blocked = true;
            return 0;
        }
        self.append_allowed(data)
    }

    fn finish(&mut self, source: &impl Source) {
        // The end of a message without a body stands in its head: what a source has behind that is dropped.
        if self.outgoing.is_for_tunnel || self.stream.gone.get().is_some() || self.outgoing.ends_with_head {
            return;
        }
        if !self.outgoing.allowance.end() {
            self.outgoing.is_blocked = true;
            return;
        }
        let state = &mut *self.connection.state.borrow_mut();
        let before = state.output.bytes.len();
        if source.has_trailers() {
            let Http2State { codec, encoder, output, .. } = state;
            let block = codec.begin_block(self.stream.id, &mut output.bytes);
            source.write_trailers(&mut HeadWriter::trailers(encoder, &mut output.bytes));
            codec.end_block(block, true, &mut output.bytes);
        } else {
            self.append_end(state);
        }
        self.outgoing.sent += (state.output.bytes.len() - before) as u64;
        state.wake();
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, RelayError>> {
        if self.stream.gone.get().is_some() {
            return Poll::Ready(Err(RelayError::Write(io::ErrorKind::ConnectionReset.into())));
        }
        match self.append_allowed(data) {
            _ if self.outgoing.allowance.is_violated() => Poll::Ready(Err(RelayError::Framing)),
            0 if !data.is_empty() => self.stream.pending(cx),
            len => Poll::Ready(Ok(len)),
        }
    }

    fn left(&self) -> u64 {
        self.outgoing.allowance.left()
    }
}

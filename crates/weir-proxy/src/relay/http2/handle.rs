//! What the task of a stream holds of it: the body that comes in, the frames that go out.

use std::rc::Rc;
use std::task::Context;

use weir_http::h2::{ErrorCode, HpackEncoder, StreamFault};
use weir_http::{Framing, Rule};
use weir_observe::Cause;

use super::body::{Body, IncomingBody};
use super::outgoing::{FrameSink, OutgoingFrames};
use super::shared::ConnectionSide;
use super::shared::{Http2State, SharedConnection, StreamShared};

/// One stream in the hands of its task; released when it is dropped.
pub(crate) struct StreamHandle<S: ConnectionSide> {
    pub(crate) connection: Rc<SharedConnection<S>>,
    pub(crate) stream: Rc<StreamShared<S>>,
    pub(crate) incoming: IncomingBody,
    outgoing: OutgoingFrames,
    is_over: bool,
}

impl<S: ConnectionSide> StreamHandle<S> {
    pub(crate) fn new(connection: Rc<SharedConnection<S>>, stream: Rc<StreamShared<S>>) -> Self {
        let (incoming, outgoing) = (IncomingBody::new(), OutgoingFrames::new());
        Self { connection, stream, incoming, outgoing, is_over: false }
    }

    /// The task of `cx` runs the stream from now on.
    pub(crate) fn enter(&self, cx: &Context<'_>) {
        self.stream.watch(cx);
    }

    /// Why the peer does not want any more of it, or cannot get it.
    pub(crate) fn gone(&self) -> Option<Cause> {
        self.stream.gone.get()
    }

    /// The same; `None` has the task of `cx` woken by news.
    pub(crate) fn poll_gone(&self, cx: &Context<'_>) -> Option<Cause> {
        let gone = self.gone();
        if gone.is_none() {
            self.stream.watch(cx);
        }
        gone
    }

    /// Whether it has been released.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Releases the stream; `code` says why it ends, if it is not whole.
    pub(crate) fn finish(&mut self, code: ErrorCode) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.connection.state.borrow_mut().release(&self.stream, code);
        }
    }

    /// Takes the stream back, which was opened last and of which nothing was sent; it ends with `cause`.
    pub(crate) fn abandon(&mut self, cause: Cause) {
        self.is_over = true;
        self.stream.leave(cause);
        self.connection.state.borrow_mut().abandon(&self.stream);
    }

    /// Resets the stream, since its peer has sent a message that breaks `rule`.
    #[cold]
    pub(crate) fn fail(&mut self, rule: Rule) {
        let state = &mut *self.connection.state.borrow_mut();
        if !state.is_closed {
            let now = state.millis();
            let fault = StreamFault::protocol(rule);
            let charged = state.codec.fail(self.stream.id, fault, now, &mut state.output.bytes);
            state.fault = state.fault.or(charged.err());
            state.wake();
        }
    }

    /// Bytes that were appended to the output, framing included.
    pub(crate) fn sent(&self) -> u64 {
        self.outgoing.sent
    }

    /// The same, and while the stream waits for its turn, what the peer takes of others counts as well: that is no fault of it.
    pub(crate) fn taken(&self) -> u64 {
        if !self.stream.awaits_window.get() {
            self.stream.taken_by_turn.set(self.connection.state.borrow().body_bytes_sent);
        }
        self.outgoing.sent + self.stream.taken_by_turn.get()
    }

    /// What is sent behind the head is for a tunnel: the message has no body, and does not end the stream.
    pub(crate) fn set_outgoing_for_tunnel(&mut self) {
        self.outgoing.is_for_tunnel = true;
    }

    /// What is received behind the head.
    pub(crate) fn incoming(&mut self) -> Body<'_, S> {
        Body { connection: &self.connection, stream: &self.stream, incoming: &mut self.incoming }
    }

    /// What is sent behind the head.
    pub(crate) fn outgoing(&mut self) -> FrameSink<'_, S> {
        FrameSink { connection: &self.connection, stream: &self.stream, outgoing: &mut self.outgoing }
    }

    /// Appends a head, whose lines `write` adds to the output. `framing` is what a final head says of the body behind it, and `None` for an
    /// interim one. Where no body may follow, the head ends the stream.
    #[inline(always)]
    pub(crate) fn append_head(
        &mut self,
        framing: Option<Framing>,
        write: impl FnOnce(&mut HpackEncoder, &mut Vec<u8>),
    ) {
        let state = &mut *self.connection.state.borrow_mut();
        let place = state.output.place();
        let before = state.output.bytes.len();
        let Http2State { codec, encoder, output, .. } = state;
        let block = codec.begin_block(self.stream.id, &mut output.bytes);
        write(encoder, &mut output.bytes);
        codec.end_block(block, framing == Some(Framing::None), &mut output.bytes);
        self.outgoing.sent += (state.output.bytes.len() - before) as u64;
        if let Some(framing) = framing {
            self.outgoing.begin(framing);
        }
        // Only behind a final head, no other follows: its frame may bear the end of the stream.
        self.outgoing.last_frame = framing.map(|_| place);
        state.wake();
    }
}

impl<S: ConnectionSide> Drop for StreamHandle<S> {
    fn drop(&mut self) {
        self.finish(S::DROPPED);
    }
}

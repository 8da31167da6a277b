//! One turn of the event loop on a connection: what has arrived is taken in, then what all streams have appended is written at once.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use weir_http::h2::{
    ConnectionCodec, ConnectionFault, ConnectionLimits, ErrorCode, FRAME_BYTES_MAX, FRAME_HEADER_BYTES,
    Settings,
};
use weir_observe::Cause;

use super::shared::{ConnectionSide, MessageLimits};
use super::shared::{Http2State, SharedConnection};
use crate::net::buffer::BufferStock;
use crate::net::connection::Connection;
use crate::net::quantum::Quantum;
use crate::net::socket::Behind;
use crate::state::budgets::inbox_budget::InboxBudget;

/// Bytes of acknowledgements and the like that a peer may leave unread before nothing more is read from it.
const CONTROL_BYTES_MAX: usize = 8 * 1024;

/// Bytes that the kernel holds at most before it has sent them: what is there has its place in the order of the responses, whatever their
/// priorities are (RFC 9218 section 12), and a peer that reads slowly has it filled. Decision 106 has the measurements.
const UNSENT_BYTES_MAX: u32 = 128 * 1024;

/// A connection on which less waits to be written at once needs no such bound.
const UNBOUNDED_BYTES_MAX: usize = 16 * 1024;

/// Why nothing more is taken from a peer.
#[derive(Debug)]
pub(crate) enum ReceiveEnd {
    /// It has ended its direction, or failed.
    Closed(io::Result<()>),
    /// It has broken a rule.
    Fault(ConnectionFault),
}

/// A connection of HTTP/2, without the socket.
pub(crate) struct Multiplexer<S: ConnectionSide> {
    pub(crate) shared: Rc<SharedConnection<S>>,
    /// Bytes of bodies that it may hold before its streams hold up each other, while there is memory.
    held_bytes_max: u32,
    /// Bytes that receiving has appended since everything was written.
    control_bytes: usize,
    /// Whether reading waits for the peer to take what is sent.
    is_paused: bool,
    /// Why nothing more is read.
    is_deaf: bool,
    /// Whether the kernel holds only so much of what is sent.
    is_unsent_limited: bool,
    /// Bytes of bodies that it is known to hold.
    held: usize,
    /// Bytes that were received in all.
    pub(crate) received: u64,
}

impl<S: ConnectionSide> Multiplexer<S> {
    /// A connection at its beginning.
    pub(crate) fn new(settings: Settings, limits: ConnectionLimits, side: S::State, facts: S::Facts) -> Self {
        let mut output = Vec::new();
        let codec = ConnectionCodec::new(S::ROLE, settings, limits, &mut output);
        let state = RefCell::new(Http2State::new(codec, output, side));
        Self {
            shared: Rc::new(SharedConnection { state, facts }),
            held_bytes_max: limits.held_bytes_max,
            control_bytes: 0,
            is_paused: false,
            is_deaf: false,
            is_unsent_limited: false,
            held: 0,
            received: 0,
        }
    }

    /// A turn begins, at a time that counts from the beginning of the connection.
    pub(crate) fn begin_turn(&mut self, cx: &Context<'_>, now: Duration) {
        self.shared.state.borrow_mut().begin_turn(cx, now);
    }

    /// Takes in what has arrived, as much as one turn may; ready when nothing more is to come.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
        stock: &Rc<BufferStock>,
        limits: MessageLimits<'_>,
    ) -> Poll<ReceiveEnd> {
        let mut quantum = Quantum::new();
        loop {
            if self.is_deaf {
                return Poll::Pending;
            }
            if let Err(fault) = self.take_in(connection, limits) {
                return Poll::Ready(ReceiveEnd::Fault(fault));
            }
            self.is_paused = !self.may_read();
            if self.is_paused {
                return Poll::Pending;
            }
            ready!(quantum.poll_left(cx));
            match ready!(connection.poll_fill(cx, stock)) {
                Ok(0) => return Poll::Ready(ReceiveEnd::Closed(Ok(()))),
                Ok(len) => {
                    quantum.take(len);
                    self.received += len as u64;
                }
                Err(error) => return Poll::Ready(ReceiveEnd::Closed(Err(error))),
            }
        }
    }

    fn take_in(
        &mut self,
        connection: &mut Connection,
        limits: MessageLimits<'_>,
    ) -> Result<(), ConnectionFault> {
        let state = &mut *self.shared.state.borrow_mut();
        if let Some(fault) = state.fault.take() {
            return Err(fault);
        }
        if connection.received().is_empty() {
            return Ok(());
        }
        let before = state.output.bytes.len();
        let used = state.take_in(connection.received(), limits)?;
        self.control_bytes += state.output.bytes.len() - before;
        connection.consume(used);
        if let Some(input) = connection.input.as_mut().filter(|input| input.is_full()) {
            input.grow(FRAME_HEADER_BYTES + FRAME_BYTES_MAX);
        }
        Ok(())
    }

    /// Whether more may be read: not as long as the peer does not read itself.
    fn may_read(&self) -> bool {
        self.control_bytes <= CONTROL_BYTES_MAX && self.shared.state.borrow().output.room() > 0
    }

    /// Accounts for what the connection holds, and for the memory there is.
    pub(crate) fn account(&mut self, budget: &InboxBudget) {
        let state = &mut *self.shared.state.borrow_mut();
        let held = state.codec.held() as usize;
        budget.adjust(std::mem::replace(&mut self.held, held), held);
        let has_room = budget.has_room();
        if state.may_grow != has_room {
            state.may_grow = has_room;
            state.codec.set_held_bytes_max(if has_room { self.held_bytes_max } else { 0 });
            // What is owed no longer goes back at once: no stream may be left that would give it.
            state.codec.grow_connection_window(0, &mut state.output.bytes);
        }
    }

    /// The connection is over: it holds nothing.
    pub(crate) fn close_account(&mut self, budget: &InboxBudget) {
        budget.adjust(std::mem::take(&mut self.held), 0);
    }

    /// Writes what waits; ready when all of it is written.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
    ) -> Poll<io::Result<()>> {
        let state = &mut *self.shared.state.borrow_mut();
        if state.output.len() > UNBOUNDED_BYTES_MAX && !self.is_unsent_limited {
            self.is_unsent_limited = true;
            connection.socket.limit_unsent(UNSENT_BYTES_MAX);
        }
        while !state.output.is_empty() || connection.has_unsent() {
            let slices = [state.output.unwritten(), &[], &[]];
            match ready!(connection.poll_write(cx, slices, Behind::Unknown)) {
                Ok(len) => state.output.advance(len),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.control_bytes = 0;
        if std::mem::take(&mut self.is_paused) {
            // No waker is registered for what the peer sends: the next turn reads it.
            cx.waker().wake_by_ref();
        }
        state.give_room();
        Poll::Ready(Ok(()))
    }

    /// Bytes that were written in all, if some wait.
    pub(crate) fn unwritten(&self, connection: &Connection) -> Option<u64> {
        let state = self.shared.state.borrow();
        (!state.output.is_empty() || connection.has_unsent()).then_some(state.output.total)
    }

    /// Tells the peer that no streams beyond `last_stream` are taken.
    pub(crate) fn go_away(&mut self, last_stream: u32, code: ErrorCode) {
        let state = &mut *self.shared.state.borrow_mut();
        state.codec.go_away(last_stream, code, &mut state.output.bytes);
    }

    /// Raises the window of the connection.
    pub(crate) fn grow_connection_window(&mut self, size: u32) {
        let state = &mut *self.shared.state.borrow_mut();
        state.codec.grow_connection_window(size, &mut state.output.bytes);
    }

    /// Asks the peer for a sign of life.
    pub(crate) fn ping(&mut self, payload: [u8; 8]) {
        let state = &mut *self.shared.state.borrow_mut();
        state.codec.ping(payload, &mut state.output.bytes);
    }

    /// Reads nothing more and gives up all streams; what waits to be sent still is.
    pub(crate) fn give_up(&mut self, cause: Cause) {
        self.is_deaf = true;
        self.shared.state.borrow().leave_all(cause);
    }

    /// The same where nothing can be sent any more.
    pub(crate) fn close(&mut self, cause: Cause) {
        self.is_deaf = true;
        self.shared.state.borrow_mut().close(cause);
    }

    /// Reads nothing more; the streams go on.
    pub(crate) fn stop_reading(&mut self) {
        self.is_deaf = true;
    }

    /// Gives back the memory of heads, which a connection does not need whose streams all wait.
    pub(crate) fn release_heads(&mut self) {
        self.shared.state.borrow_mut().heads = Vec::new();
    }

    /// Gives back all memory that an idle connection does not need.
    pub(crate) fn release_memory(&mut self) {
        let state = &mut *self.shared.state.borrow_mut();
        state.output.release();
        state.encoder.release();
        state.codec.shrink();
        state.heads = Vec::new();
        state.streams.shrink_to_fit();
    }
}

//! One turn of the event loop on a connection: what has arrived is taken in, then what all streams have appended is written at once.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use weir_http::Rule;
use weir_http::h2::{
    self, ConnectionFault, ConnectionLimits, ErrorCode, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, INITIAL_WINDOW,
    Role, Settings,
};
use weir_observe::{Cause, ListenerShard};

use super::receive::Begun;
use super::shared::{GOODBYE, Http2State, SharedConnection};
use super::stream::Http2Stream;
use crate::net::buffer::BufferStock;
use crate::net::connection::Connection;
use crate::net::quantum::Quantum;
use crate::net::socket::Behind;
use crate::net::tls::facts::OwnedTlsFacts;
use crate::state::inbox_budget::InboxBudget;
use crate::state::snapshot::ListenerPlan;

/// Bytes of acknowledgements and the like that a client may leave unread before nothing more is read from it.
const CONTROL_BYTES_MAX: usize = 8 * 1024;

/// Bytes of bodies that one connection may hold before its streams hold up each other, while there is memory: as much as the windows of
/// 128 streams at first.
const HELD_BYTES_MAX: u32 = 128 * INITIAL_WINDOW;

/// Settings that say nothing of the config (RFC 9113 section 6.5.2, RFC 9218 section 2.1).
fn settings(listener: &ListenerPlan) -> Settings {
    Settings {
        enable_push: true,
        max_concurrent_streams: listener.config.http2.streams_max,
        max_header_list_size: u32::try_from(listener.head_limits.head_bytes_max).unwrap_or(u32::MAX),
        enable_connect_protocol: true,
        no_rfc7540_priorities: true,
        ..Settings::default()
    }
}

/// Why nothing more is taken from a client.
#[derive(Debug)]
pub(crate) enum ConnectionEnd {
    /// It has ended its direction, or failed.
    Closed(io::Result<()>),
    /// It has broken a rule, and was told so.
    Fault(ClientFault),
}

/// A fault of a client that ends its connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientFault {
    pub(crate) rule: Rule,
    /// Whether it was too much of something, so that nothing more is taken from it.
    pub(crate) is_flood: bool,
}

/// How a connection stands behind a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    /// Streams whose exchange is not over.
    pub(crate) streams: usize,
    /// Streams that the client has opened so far.
    pub(crate) opened: u32,
    /// Whether the client has to send more of something: its first frames, or the rest of a head.
    pub(crate) is_partial: bool,
    /// Whether the client has acknowledged our settings.
    pub(crate) is_acknowledged: bool,
    /// Whether it knows that no further streams are taken.
    pub(crate) is_told: bool,
    /// Bytes that were written in all, if some wait.
    pub(crate) unwritten: Option<u64>,
}

/// A connection of HTTP/2, without the socket.
pub(crate) struct Http2Connection {
    shared: Rc<SharedConnection>,
    begun: Begun,
    /// Bytes that receiving has appended since everything was written.
    control_bytes: usize,
    /// Whether reading waits for the client to take what is sent.
    is_paused: bool,
    /// Why nothing more is read.
    is_deaf: bool,
    /// Bytes of bodies that it is known to hold.
    held: usize,
}

impl Http2Connection {
    /// A connection at its beginning.
    pub(crate) fn new(connection: &mut Connection, listener: &ListenerPlan) -> Self {
        let mut output = Vec::new();
        let limits = ConnectionLimits {
            block_bytes_max: listener.head_limits.head_bytes_max,
            held_bytes_max: HELD_BYTES_MAX,
        };
        let codec = h2::ConnectionCodec::new(Role::Server, settings(listener), limits, &mut output);
        let tls = connection.tls.as_mut().map(|records| {
            let certificate = records.client_certificate.take();
            OwnedTlsFacts::new(&records.facts(), certificate)
        });
        let local_address = connection.socket.local_address();
        let state = RefCell::new(Http2State::new(codec, output));
        let shared = Rc::new(SharedConnection { state, tls, local_address });
        Self { shared, begun: Vec::new(), control_bytes: 0, is_paused: false, is_deaf: false, held: 0 }
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
        listener: &ListenerPlan,
    ) -> Poll<ConnectionEnd> {
        let mut quantum = Quantum::new();
        loop {
            if self.is_deaf {
                return Poll::Pending;
            }
            if let Err(fault) = self.take_in(connection, listener) {
                self.end_with(fault.code);
                let is_flood = fault.code == ErrorCode::ENHANCE_YOUR_CALM;
                return Poll::Ready(ConnectionEnd::Fault(ClientFault { rule: fault.rule, is_flood }));
            }
            self.is_paused = !self.may_read();
            if self.is_paused {
                return Poll::Pending;
            }
            ready!(quantum.poll_left(cx));
            match ready!(connection.poll_fill(cx, stock)) {
                Ok(0) => return Poll::Ready(ConnectionEnd::Closed(Ok(()))),
                Ok(len) => quantum.take(len),
                Err(error) => return Poll::Ready(ConnectionEnd::Closed(Err(error))),
            }
        }
    }

    fn take_in(
        &mut self,
        connection: &mut Connection,
        listener: &ListenerPlan,
    ) -> Result<(), ConnectionFault> {
        let state = &mut *self.shared.state.borrow_mut();
        if let Some(fault) = state.fault.take() {
            return Err(fault);
        }
        if connection.received().is_empty() {
            return Ok(());
        }
        let before = state.output.bytes.len();
        let used = state.take_in(connection.received(), listener, &mut self.begun)?;
        self.control_bytes += state.output.bytes.len() - before;
        connection.consume(used);
        if let Some(input) = connection.input.as_mut().filter(|input| input.is_full()) {
            input.grow(FRAME_HEADER_BYTES + FRAME_BYTES_MAX);
        }
        Ok(())
    }

    /// Whether more may be read: not as long as the client does not read itself.
    fn may_read(&self) -> bool {
        self.control_bytes <= CONTROL_BYTES_MAX && self.shared.state.borrow().output.room() > 0
    }

    /// Gives the streams that have begun in this turn to `start`; some may be over already.
    pub(crate) fn begin_streams(&mut self, mut start: impl FnMut(Http2Stream)) {
        for stream in self.begun.drain(..) {
            start(Http2Stream::new(Rc::clone(&self.shared), stream));
        }
    }

    /// Accounts for what the connection holds, and for the memory there is.
    pub(crate) fn account(&mut self, budget: &InboxBudget) {
        let state = &mut *self.shared.state.borrow_mut();
        let held = state.codec.held() as usize;
        budget.adjust(std::mem::replace(&mut self.held, held), held);
        let has_room = budget.has_room();
        if state.may_grow != has_room {
            state.may_grow = has_room;
            state.codec.set_held_bytes_max(if has_room { HELD_BYTES_MAX } else { 0 });
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
        while !state.output.is_empty() || connection.has_unsent() {
            let slices = [state.output.unwritten(), &[], &[]];
            match ready!(connection.poll_write(cx, slices, Behind::Unknown)) {
                Ok(len) => state.output.advance(len),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.control_bytes = 0;
        if std::mem::take(&mut self.is_paused) {
            // No waker is registered for what the client sends: the next turn reads it.
            cx.waker().wake_by_ref();
        }
        state.give_room();
        Poll::Ready(Ok(()))
    }

    /// How it stands.
    pub(crate) fn standing(&self, connection: &Connection) -> Standing {
        let state = self.shared.state.borrow();
        let codec = &state.codec;
        let is_waiting = !state.output.is_empty() || connection.has_unsent();
        Standing {
            streams: state.streams.len(),
            opened: codec.streams_opened(),
            is_partial: !codec.has_begun() || codec.is_in_block() || connection.has_input(),
            is_acknowledged: codec.is_acknowledged(),
            is_told: state.is_told,
            unwritten: is_waiting.then_some(state.output.total),
        }
    }

    /// Counts what has happened since this was called last.
    pub(crate) fn count(&mut self, shard: &ListenerShard) {
        let state = &mut *self.shared.state.borrow_mut();
        if state.reset_count + state.refused_count > 0 {
            shard.streams_reset.add(std::mem::take(&mut state.reset_count));
            shard.streams_refused.add(std::mem::take(&mut state.refused_count));
        }
    }

    /// Tells the client that no further streams are taken: at first those that are on their way still are, and a ping tells when the client
    /// knows (RFC 9113 section 6.8).
    pub(crate) fn announce_end(&mut self) {
        let state = &mut *self.shared.state.borrow_mut();
        state.is_ending = true;
        state.codec.go_away(u32::MAX >> 1, ErrorCode::NO_ERROR, &mut state.output.bytes);
        state.codec.ping(GOODBYE, &mut state.output.bytes);
    }

    /// The same, for good: what comes now is not served.
    pub(crate) fn end(&mut self) {
        self.end_with(ErrorCode::NO_ERROR);
    }

    /// The same for a client that has not acknowledged our settings.
    pub(crate) fn end_unacknowledged(&mut self) {
        self.end_with(ErrorCode::SETTINGS_TIMEOUT);
    }

    fn end_with(&mut self, code: ErrorCode) {
        let state = &mut *self.shared.state.borrow_mut();
        state.is_ending = true;
        let last_stream = state.codec.last_stream();
        state.codec.go_away(last_stream, code, &mut state.output.bytes);
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

    /// Gives back all memory that an idle connection does not need.
    pub(crate) fn release_memory(&mut self) {
        let state = &mut *self.shared.state.borrow_mut();
        state.output.release();
        state.encoder.release();
        state.codec.shrink();
        state.heads = Vec::new();
        state.streams.shrink_to_fit();
        self.begun = Vec::new();
    }
}

//! A connection of a client: what of it is not the same towards servers.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_http::Rule;
use weir_http::h2::{ConnectionLimits, ErrorCode, INITIAL_WINDOW, Settings};
use weir_observe::{Cause, ListenerShard};

use super::receive::{ClientCounts, ClientFacts, ClientStreams, GOODBYE, ToClients};
use super::stream::Http2Stream;
use crate::net::buffer::BufferStock;
use crate::net::connection::Connection;
use crate::net::tls::facts::OwnedTlsFacts;
use crate::relay::http2::multiplexer::{Multiplexer, ReceiveEnd};
use crate::relay::http2::shared::MessageLimits;
use crate::state::budgets::inbox_budget::InboxBudget;
use crate::state::snapshot::ListenerPlan;

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
    frames: Multiplexer<ToClients>,
}

impl Http2Connection {
    /// A connection at its beginning.
    pub(crate) fn new(connection: &mut Connection, listener: &ListenerPlan) -> Self {
        let limits = ConnectionLimits {
            block_bytes_max: listener.head_limits.head_bytes_max,
            held_bytes_max: HELD_BYTES_MAX,
        };
        let tls = connection.tls.as_mut().map(|records| {
            let certificate = records.client_certificate.take();
            OwnedTlsFacts::new(&records.facts(), certificate)
        });
        let facts = ClientFacts { tls, local_address: connection.socket.local_address() };
        Self { frames: Multiplexer::new(settings(listener), limits, ClientStreams::default(), facts) }
    }

    /// A turn begins, at a time that counts from the beginning of the connection.
    pub(crate) fn begin_turn(&mut self, cx: &Context<'_>, now: Duration) {
        self.frames.begin_turn(cx, now);
    }

    /// Takes in what has arrived, as much as one turn may; ready when nothing more is to come.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
        stock: &Rc<BufferStock>,
        listener: &ListenerPlan,
    ) -> Poll<ConnectionEnd> {
        let limits = MessageLimits { head: &listener.head_limits, trailers: &listener.chunked_limits };
        self.frames.poll_receive(cx, connection, stock, limits).map(|end| match end {
            ReceiveEnd::Closed(outcome) => ConnectionEnd::Closed(outcome),
            ReceiveEnd::Fault(fault) => {
                self.end_with(fault.code);
                let is_flood = fault.code == ErrorCode::ENHANCE_YOUR_CALM;
                ConnectionEnd::Fault(ClientFault { rule: fault.rule, is_flood })
            }
        })
    }

    /// Gives the streams that have begun in this turn to `start`; some may be over already.
    pub(crate) fn begin_streams(&mut self, mut start: impl FnMut(Http2Stream)) {
        let mut begun = std::mem::take(&mut self.frames.shared.state.borrow_mut().side.begun);
        for stream in begun.drain(..) {
            start(Http2Stream::new(Rc::clone(&self.frames.shared), stream));
        }
        self.frames.shared.state.borrow_mut().side.begun = begun;
    }

    /// Accounts for what the connection holds, and for the memory there is.
    pub(crate) fn account(&mut self, budget: &InboxBudget) {
        self.frames.account(budget);
    }

    /// The connection is over: it holds nothing.
    pub(crate) fn close_account(&mut self, budget: &InboxBudget) {
        self.frames.close_account(budget);
    }

    /// Writes what waits; ready when all of it is written.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
    ) -> Poll<io::Result<()>> {
        self.frames.poll_send(cx, connection)
    }

    /// How it stands.
    pub(crate) fn standing(&self, connection: &Connection) -> Standing {
        let state = self.frames.shared.state.borrow();
        let codec = &state.codec;
        Standing {
            streams: state.streams.len(),
            opened: codec.streams_opened(),
            is_partial: !codec.has_begun() || codec.is_in_block() || connection.has_input(),
            is_acknowledged: codec.is_acknowledged(),
            is_told: state.side.is_told,
            unwritten: self.frames.unwritten(connection),
        }
    }

    /// Counts what has happened since this was called last.
    pub(crate) fn count(&mut self, shard: &ListenerShard) {
        let state = &mut *self.frames.shared.state.borrow_mut();
        let counts = std::mem::take(&mut state.side.counts);
        let resets_sent = state.codec.take_resets_sent();
        if counts != ClientCounts::default() || resets_sent > 0 {
            shard.streams_reset.add(counts.reset);
            shard.streams_refused.add(counts.refused);
            shard.http2_goaways.add(counts.goaways);
            shard.streams_reset_by_weir.add(resets_sent.into());
        }
    }

    /// Tells the client that no further streams are taken: at first those that are on their way still are, and a ping tells when the client
    /// knows (RFC 9113 section 6.8).
    pub(crate) fn announce_end(&mut self) {
        self.frames.go_away(u32::MAX >> 1, ErrorCode::NO_ERROR);
        self.frames.ping(GOODBYE);
        self.frames.shared.state.borrow_mut().side.begin_end();
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
        let last_stream = {
            let state = &mut *self.frames.shared.state.borrow_mut();
            state.side.begin_end();
            state.codec.last_stream()
        };
        self.frames.go_away(last_stream, code);
    }

    /// Reads nothing more and gives up all streams; what waits to be sent still is.
    pub(crate) fn give_up(&mut self, cause: Cause) {
        self.frames.give_up(cause);
    }

    /// The same where nothing can be sent any more.
    pub(crate) fn close(&mut self, cause: Cause) {
        self.frames.close(cause);
    }

    /// Reads nothing more; the streams go on.
    pub(crate) fn stop_reading(&mut self) {
        self.frames.stop_reading();
    }

    /// Gives back what a connection does not need that has had no new stream for a while.
    pub(crate) fn release_heads(&mut self) {
        self.frames.release_heads();
    }

    /// Gives back all memory that an idle connection does not need.
    pub(crate) fn release_memory(&mut self) {
        self.frames.release_memory();
        self.frames.shared.state.borrow_mut().side.begun = Vec::new();
    }
}

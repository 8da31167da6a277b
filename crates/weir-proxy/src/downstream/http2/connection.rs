//! A connection of a client: what of it is not the same towards servers.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_http::h2::{ConnectionLimits, ErrorCode, INITIAL_WINDOW, Settings};
use weir_observe::{Cause, ListenerShard};

use super::receive::{ClientCounts, ClientStreams, GOODBYE, ToClients};
use super::stream::Http2Stream;
use crate::downstream::stream_driver::{ClientFault, ConnectionEnd, EndReason, Standing, StreamDriver};
use crate::downstream::transport::{ByteTransport, Transport as _};
use crate::net::buffer::BufferStock;
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

/// Counts a connection as one of HTTP/2.
pub(crate) struct Http2ConnectionCount(Arc<ListenerShard>);

impl Http2ConnectionCount {
    fn new(shard: &Arc<ListenerShard>) -> Self {
        shard.http2_connections.increment();
        shard.http2_connections_open.increment();
        Self(Arc::clone(shard))
    }
}

impl Drop for Http2ConnectionCount {
    fn drop(&mut self) {
        self.0.http2_connections_open.decrement();
    }
}

/// A connection of HTTP/2, without its transport: the driver of its streams.
pub(crate) struct Http2Connection {
    frames: Multiplexer<ToClients>,
}

impl Http2Connection {
    fn end_with(&mut self, code: ErrorCode) {
        let last_stream = {
            let state = &mut *self.frames.shared.state.borrow_mut();
            state.side.begin_end();
            state.codec.last_stream()
        };
        self.frames.go_away(last_stream, code);
    }
}

impl StreamDriver for Http2Connection {
    type Transport = ByteTransport;
    type Stream = Http2Stream;
    type Count = Http2ConnectionCount;

    fn open(transport: &mut ByteTransport, listener: &ListenerPlan) -> Self {
        let limits = ConnectionLimits {
            block_bytes_max: listener.head_limits.head_bytes_max,
            held_bytes_max: HELD_BYTES_MAX,
        };
        let (facts, side) = (transport.take_facts(), ClientStreams::default());
        Self { frames: Multiplexer::new(settings(listener), limits, side, facts) }
    }

    fn count_open(shard: &Arc<ListenerShard>) -> Http2ConnectionCount {
        Http2ConnectionCount::new(shard)
    }

    fn begin_turn(&mut self, cx: &Context<'_>, now: Duration) {
        self.frames.begin_turn(cx, now);
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut ByteTransport,
        stock: &Rc<BufferStock>,
        listener: &ListenerPlan,
    ) -> Poll<ConnectionEnd> {
        let limits = MessageLimits { head: &listener.head_limits, trailers: &listener.chunked_limits };
        self.frames.poll_receive(cx, &mut transport.connection, stock, limits).map(|end| match end {
            ReceiveEnd::Closed(outcome) => ConnectionEnd::Closed(outcome),
            ReceiveEnd::Fault(fault) => {
                self.end_with(fault.code);
                let is_flood = fault.code == ErrorCode::ENHANCE_YOUR_CALM;
                ConnectionEnd::Fault(ClientFault { rule: fault.rule, is_flood })
            }
        })
    }

    fn account(&mut self, budget: &InboxBudget) {
        self.frames.account(budget);
    }

    fn close_account(&mut self, budget: &InboxBudget) {
        self.frames.close_account(budget);
    }

    fn count(&mut self, shard: &ListenerShard) {
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

    fn begin_streams(&mut self, mut start: impl FnMut(Http2Stream)) {
        let mut begun = std::mem::take(&mut self.frames.shared.state.borrow_mut().side.begun);
        for stream in begun.drain(..) {
            start(Http2Stream::new(Rc::clone(&self.frames.shared), stream));
        }
        self.frames.shared.state.borrow_mut().side.begun = begun;
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, transport: &mut ByteTransport) -> Poll<io::Result<()>> {
        self.frames.poll_send(cx, &mut transport.connection)
    }

    fn standing(&self, transport: &ByteTransport) -> Standing {
        let connection = &transport.connection;
        let state = self.frames.shared.state.borrow();
        let codec = &state.codec;
        Standing {
            streams: state.streams.len(),
            opened: codec.streams_opened().into(),
            is_partial: !codec.has_begun() || codec.is_in_block() || connection.has_input(),
            is_acknowledged: codec.is_acknowledged(),
            is_told: state.side.is_told,
            unwritten: self.frames.unwritten(connection),
            turn_at: None,
        }
    }

    /// A ping behind the GOAWAY tells when the client knows (RFC 9113 section 6.8).
    fn announce_end(&mut self) {
        self.frames.go_away(u32::MAX >> 1, ErrorCode::NO_ERROR);
        self.frames.ping(GOODBYE);
        self.frames.shared.state.borrow_mut().side.begin_end();
    }

    fn end(&mut self, reason: EndReason) {
        self.end_with(match reason {
            EndReason::Regular => ErrorCode::NO_ERROR,
            EndReason::Unacknowledged => ErrorCode::SETTINGS_TIMEOUT,
        });
    }

    fn give_up(&mut self, cause: Cause) {
        self.frames.give_up(cause);
    }

    fn close(&mut self, cause: Cause) {
        self.frames.close(cause);
    }

    fn stop_reading(&mut self) {
        self.frames.stop_reading();
    }

    fn release_heads(&mut self) {
        self.frames.release_heads();
    }

    fn release_memory(&mut self) {
        self.frames.release_memory();
        self.frames.shared.state.borrow_mut().side.begun = Vec::new();
    }
}

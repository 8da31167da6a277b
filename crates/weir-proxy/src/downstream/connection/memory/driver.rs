//! A driver whose streams come as they are: nothing is parsed, framed or multiplexed.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_http::Rule;
use weir_observe::{Cause, ListenerShard};

use super::stream::MemoryStream;
use super::transport::MemoryTransport;
use super::wire::{Leaving, StreamWire, Wire};
use crate::downstream::stream_driver::{ClientFault, ConnectionEnd, EndReason, Standing, StreamDriver};
use crate::downstream::transport::{Transport as _, TransportFacts};
use crate::net::buffer::BufferStock;
use crate::net::clock::{self, Instant};
use crate::state::budgets::inbox_budget::InboxBudget;
use crate::state::snapshot::ListenerPlan;

/// How long an announcement takes to the client and its answer back.
pub(super) const ROUND_TRIP: Duration = Duration::from_millis(80);

/// Streams that a client may reset in all.
pub(super) const RESETS_MAX: u64 = 20;

/// What the connection and its streams share.
pub(super) struct DriverState {
    pub(super) wire: Rc<Wire>,
    pub(super) facts: TransportFacts,
    /// Streams whose exchange is not over.
    open: Cell<usize>,
    /// Whether no further streams are taken.
    pub(super) is_ending: Cell<bool>,
}

impl DriverState {
    /// A stream is over.
    pub(super) fn release(&self) {
        self.open.update(|open| open - 1);
        self.wire.wake();
    }
}

/// Streams of a connection in memory.
pub(super) struct MemoryDriver {
    state: Rc<DriverState>,
    begun: Vec<MemoryStream>,
    /// The streams that are open, as far as is known.
    streams: Vec<Rc<StreamWire>>,
    opened: u64,
    refused: u64,
    reset: (u64, u64),
    /// Whether nothing more is received.
    is_deaf: bool,
    /// When the client knows of the end.
    told_at: Option<Instant>,
}

impl MemoryDriver {
    /// Takes a stream that the client has opened.
    fn take(&mut self, stream: Rc<StreamWire>, streams_max: u32) {
        if self.state.open.get() >= streams_max as usize || self.state.wire.end.get().is_some() {
            self.refused += 1;
            return stream.is_refused.set(true);
        }
        self.state.open.update(|open| open + 1);
        self.opened += 1;
        self.streams.retain(|stream| stream.end.get().is_none());
        self.streams.push(Rc::clone(&stream));
        self.begun.push(MemoryStream::new(Rc::clone(&self.state), stream));
    }

    fn leave_all(&self, cause: Cause) {
        self.streams.iter().for_each(|stream| stream.leave(cause));
    }
}

impl StreamDriver for MemoryDriver {
    type Transport = MemoryTransport;
    type Stream = MemoryStream;
    type Count = ();

    fn open(transport: &mut MemoryTransport, _listener: &ListenerPlan) -> Self {
        let (wire, facts) = (Rc::clone(&transport.wire), transport.take_facts());
        let state = DriverState { wire, facts, open: Cell::new(0), is_ending: Cell::new(false) };
        Self {
            state: Rc::new(state),
            begun: Vec::new(),
            streams: Vec::new(),
            opened: 0,
            refused: 0,
            reset: (0, 0),
            is_deaf: false,
            told_at: None,
        }
    }

    fn count_open(_shard: &Arc<ListenerShard>) {}

    fn begin_turn(&mut self, cx: &Context<'_>, _now: Duration) {
        self.state.wire.watch(cx);
    }

    fn poll_receive(
        &mut self,
        _cx: &mut Context<'_>,
        transport: &mut MemoryTransport,
        _stock: &Rc<BufferStock>,
        listener: &ListenerPlan,
    ) -> Poll<ConnectionEnd> {
        if self.is_deaf {
            return Poll::Pending;
        }
        loop {
            let Some(stream) = transport.wire.opened.borrow_mut().pop_front() else { break };
            self.take(stream, listener.config.http2.streams_max);
        }
        let resets = transport.wire.resets.take();
        self.reset = (self.reset.0 + resets, self.reset.1 + resets);
        if self.reset.0 > RESETS_MAX {
            return Poll::Ready(ConnectionEnd::Fault(ClientFault {
                rule: Rule::Http2TooManyResets,
                is_flood: true,
            }));
        }
        match transport.wire.left.get() {
            None => Poll::Pending,
            Some(Leaving::Closes) => Poll::Ready(ConnectionEnd::Closed(Ok(()))),
            Some(Leaving::Resets) => {
                Poll::Ready(ConnectionEnd::Closed(Err(io::ErrorKind::ConnectionReset.into())))
            }
        }
    }

    fn account(&mut self, _budget: &InboxBudget) {}

    fn close_account(&mut self, _budget: &InboxBudget) {}

    fn count(&mut self, shard: &ListenerShard) {
        shard.streams_refused.add(std::mem::take(&mut self.refused));
        shard.streams_reset.add(std::mem::take(&mut self.reset.1));
    }

    fn begin_streams(&mut self, start: impl FnMut(MemoryStream)) {
        self.begun.drain(..).for_each(start);
    }

    fn poll_send(&mut self, _cx: &mut Context<'_>, transport: &mut MemoryTransport) -> Poll<io::Result<()>> {
        match transport.wire.left.get() {
            Some(Leaving::Resets) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Some(Leaving::Closes) | None => Poll::Ready(Ok(())),
        }
    }

    fn standing(&self, transport: &MemoryTransport) -> Standing {
        let now = clock::now();
        Standing {
            streams: self.state.open.get(),
            opened: self.opened,
            is_partial: false,
            is_acknowledged: transport.wire.is_acknowledged.get(),
            is_told: self.told_at.is_some_and(|at| at <= now),
            unwritten: None,
            turn_at: self.told_at.filter(|at| *at > now),
        }
    }

    fn announce_end(&mut self) {
        self.told_at = Some(clock::now() + ROUND_TRIP);
        self.state.is_ending.set(true);
        self.state.wire.is_announced.set(true);
    }

    fn end(&mut self, reason: EndReason) {
        self.state.is_ending.set(true);
        self.state.wire.end.set(Some(reason));
    }

    fn give_up(&mut self, cause: Cause) {
        self.is_deaf = true;
        self.leave_all(cause);
    }

    fn close(&mut self, cause: Cause) {
        self.is_deaf = true;
        self.leave_all(cause);
    }

    fn stop_reading(&mut self) {
        self.is_deaf = true;
    }

    fn release_heads(&mut self) {}

    fn release_memory(&mut self) {
        self.begun.shrink_to_fit();
        self.streams.shrink_to_fit();
    }
}

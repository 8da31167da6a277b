//! Raw bytes both ways, after an upgrade or between TCP peers.
//!
//! Each direction ends with a half-close that is passed on; the tunnel ends when both have. Neither direction holds
//! a buffer while it is silent.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use super::reframe::{Incoming, Outgoing, Reader, Writer};
use super::{Relay, RelayError};
use crate::buffer::BufferStock;
use crate::connection::Connection;

/// One direction of a tunnel.
#[derive(Debug)]
struct Direction {
    incoming: Incoming,
    outgoing: Outgoing,
    relay: Relay,
    closed: bool,
}

impl Direction {
    fn new() -> Self {
        Self {
            incoming: Incoming::until_close(),
            outgoing: Outgoing::new(),
            relay: Relay::new(),
            closed: false,
        }
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Connection,
        to: &mut Connection,
        stock: &Rc<BufferStock>,
    ) -> Poll<Result<(), RelayError>> {
        let mut source = Reader { connection: from, incoming: &mut self.incoming, stock };
        let mut sink = Writer { connection: to, outgoing: &mut self.outgoing };
        let outcome = self.relay.poll(cx, &mut source, &mut sink);
        if matches!(outcome, Poll::Ready(Ok(()))) && !self.closed {
            ready!(to.poll_shutdown_write(cx));
            self.closed = true;
        }
        outcome
    }
}

/// Which side of a tunnel failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// Both directions of a tunnel.
#[derive(Debug)]
pub(crate) struct Tunnel {
    up: Direction,
    down: Direction,
}

impl Tunnel {
    pub(crate) fn new() -> Self {
        Self { up: Direction::new(), down: Direction::new() }
    }

    /// Bytes moved to the server and to the client.
    pub(crate) fn moved(&self) -> (u64, u64) {
        (self.up.relay.moved, self.down.relay.moved)
    }

    /// Moves bytes both ways until both directions wait, or have ended, or one fails.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut Connection,
        server: &mut Connection,
        stock: &Rc<BufferStock>,
    ) -> Poll<Result<(), (Side, RelayError)>> {
        let up = self.up.poll(cx, client, server, stock);
        if let Poll::Ready(Err(error)) = up {
            let side = if matches!(error, RelayError::Write(_)) { Side::Server } else { Side::Client };
            return Poll::Ready(Err((side, error)));
        }
        let down = self.down.poll(cx, server, client, stock);
        if let Poll::Ready(Err(error)) = down {
            let side = if matches!(error, RelayError::Write(_)) { Side::Client } else { Side::Server };
            return Poll::Ready(Err((side, error)));
        }
        if up.is_ready() && down.is_ready() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

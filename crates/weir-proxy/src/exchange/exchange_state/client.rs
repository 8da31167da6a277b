//! The client of an exchange: its address, its listener and its deadline.
//!
//! Plain facts and the wait of one task. How its bytes travel is the matter of its stream. Must not read or write a socket.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use weir_config::ListenerProtocol;

use crate::net::clock::{self, Instant};
use crate::net::peer::{ConnectionOrigin, Peer};
use crate::net::timing::deadline::Deadline;
use crate::net::timing::idleness::IdleWait;
use crate::state::tracing::recorder::{ClientTransport, UnusedConnection};
use crate::state::worker::Worker;
use crate::state::worker_config::LocalListener;
use crate::upstream::pinned::PinnedConnections;

/// The client of one connection, or of one stream on it.
pub(crate) struct Client {
    pub(crate) worker: Rc<Worker>,
    pub(crate) listener: Rc<LocalListener>,
    /// Whether the connection is encrypted.
    pub(crate) is_tls: bool,
    /// What carries it.
    pub(crate) transport: ClientTransport,
    /// The protocol of the listener.
    pub(crate) protocol: ListenerProtocol,
    /// The peer, or the client that a PROXY header names.
    pub(crate) peer: Peer,
    /// What a PROXY header said besides, or where the client connected to if the access log shows it.
    pub(crate) origin: Option<Box<ConnectionOrigin>>,
    /// The server connections that are kept for this client alone.
    pub(crate) pinned: PinnedConnections,
    pub(crate) local_port: Option<u16>,
    pub(crate) deadline: Deadline,
    /// The last reading of the clock.
    pub(crate) now: Instant,
    /// Requests that have come on the connection.
    pub(crate) requests: u64,
    /// The number of the connection among those of the worker, from 1.
    pub(crate) number: u64,
    /// The number of the last query that it has answered.
    pub(crate) answered_query: u32,
    pub(crate) opened_at: Instant,
    /// Whether the connection ends so that another one has its place.
    pub(crate) gives_place: Cell<bool>,
}

impl Client {
    /// The same client for another task, which has a deadline of its own: a stream of its connection, or a request of Weir's own.
    pub(crate) fn for_task(&self) -> Self {
        let worker = &self.worker;
        Self {
            deadline: Deadline::new(&worker.timers),
            number: worker.next_connection_number(),
            answered_query: worker.connection_list.query_number(),
            worker: Rc::clone(worker),
            listener: Rc::clone(&self.listener),
            is_tls: self.is_tls,
            transport: self.transport,
            protocol: self.protocol,
            peer: self.peer,
            origin: self.origin.clone(),
            pinned: PinnedConnections::default(),
            local_port: self.local_port,
            now: self.now,
            requests: self.requests,
            opened_at: self.opened_at,
            gives_place: Cell::new(false),
        }
    }

    /// The client of a request of Weir's own that no other client has given rise to: for a task, as one of this listener.
    pub(crate) fn without_connection(worker: &Rc<Worker>, listener: &Rc<LocalListener>) -> Self {
        let now = clock::now();
        Self {
            deadline: Deadline::new(&worker.timers),
            number: worker.next_connection_number(),
            answered_query: worker.connection_list.query_number(),
            worker: Rc::clone(worker),
            listener: Rc::clone(listener),
            is_tls: false,
            transport: ClientTransport::Tcp,
            protocol: ListenerProtocol::Http,
            peer: Peer::Unix,
            origin: None,
            pinned: PinnedConnections::default(),
            local_port: None,
            now,
            requests: 0,
            opened_at: now,
            gives_place: Cell::new(false),
        }
    }

    /// What is kept of its connection, or of a stream, where there is no exchange.
    pub(crate) fn without_exchange(&self) -> UnusedConnection {
        let Self { peer, transport, number, opened_at, .. } = *self;
        UnusedConnection { peer, transport, number, opened_at }
    }

    /// That task is over.
    pub(crate) fn leave_task(&mut self) {
        self.worker.connection_list.leave(self.answered_query);
        self.deadline.leave();
    }

    /// The peer at the other end of the connection, which may be a proxy.
    pub(crate) fn sender(&self) -> Peer {
        self.named_sender().unwrap_or(self.peer)
    }

    /// The proxy that has named the client in a PROXY header.
    pub(crate) fn named_sender(&self) -> Option<Peer> {
        self.origin.as_ref()?.sender
    }

    /// Where the client connected to, if a PROXY header or the access log made that known.
    pub(crate) fn known_destination(&self) -> Option<SocketAddr> {
        self.origin.as_ref().map(|origin| origin.destination)
    }

    /// When the age limit of the connection ends it, if it has one.
    pub(crate) fn ends_at(&self) -> Option<Instant> {
        self.listener.plan().config.timeouts.connection_age.map(|age: Duration| self.opened_at + age)
    }

    /// Whether the connection ends after the present exchange in any case: Weir stops or hands over to another node, or the listener is gone.
    pub(crate) fn is_ending(&self) -> bool {
        self.worker.is_ending() || self.listener.ends_at().is_some()
    }

    /// The same as a response begins; or another connection waits for the place of this one. `is_pipelined` says whether the client has sent
    /// more by now, which a close would lose.
    #[inline]
    pub(crate) fn ends_with_response(&self, is_pipelined: impl FnOnce() -> bool) -> bool {
        if self.worker.shared.places.ends.do_none_end() {
            return self.listener.ends_at().is_some();
        }
        self.is_ending() || !is_pipelined() && self.give_place()
    }

    /// Whether the connection is to end for another one that waits for a place.
    #[cold]
    pub(crate) fn give_place(&self) -> bool {
        if !self.gives_place.get() {
            self.gives_place.set(self.worker.shared.places.claim(self.listener.state.number, clock::now()));
        }
        self.gives_place.get()
    }

    /// Takes note that it does, for another reason than a response.
    #[cold]
    pub(crate) fn note_given_place(&self) {
        if !self.gives_place.replace(true) {
            self.worker.shared.places.note_leaving();
        }
    }

    /// The connection waits for its next request since this moment, or for its first one; whether it is to end, to make room for others.
    pub(crate) fn begin_idle(&self, since: Instant, is_new: bool) -> bool {
        self.deadline.begin_idle(IdleWait { since, listener: self.listener.state.number, is_new })
    }

    /// Counts that it ends so.
    #[cold]
    pub(crate) fn note_evicted(&self) {
        self.note_given_place();
        self.worker.count_evicted();
    }
}
